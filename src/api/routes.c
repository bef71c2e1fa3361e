/* All route tables: one line for each resource. */
#include "api/routes.h"
#include "api/api_private.h"

const struct http_route *const api_tables[] = {
    routes_health,      routes_user,     routes_workspace, routes_apikey,     routes_system,
    routes_file,        routes_bot,      routes_adapter,   routes_pipeline,   routes_chat,
    routes_embed,       routes_provider, routes_model,     routes_monitoring, routes_webhook,
    routes_bot_ingress, routes_space,    routes_tool,      routes_plugin,     NULL,
};
