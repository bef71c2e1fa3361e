/* The adapters of this build. A new one is its own file, a manifest in metadata/adapters/ and one line here. */
#include "platform/http_bot.h"
#include "platform/platform_private.h"
#include "platform/webchat.h"

const struct adapter *const adapters[] = {
    &adapter_http_bot,
    &adapter_web_page_bot,
    &adapter_websocket,
    NULL,
};

const struct adapter *adapter_find(const char *name)
{
    for (size_t i = 0; adapters[i]; i++)
        if (strcmp(adapters[i]->name, name) == 0)
            return adapters[i];
    return NULL;
}
