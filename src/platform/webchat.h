/* Private to platform/: the two adapters of the web chats (webchat*.c). */
#ifndef PARLEY_PLATFORM_WEBCHAT_H
#define PARLEY_PLATFORM_WEBCHAT_H

#include "platform/platform.h"

extern const struct adapter adapter_websocket, adapter_web_page_bot;
void webchat_free(struct webchat *w); /* NULL is fine */

#endif
