/* Private to api/: one table of routes for each resource file. */
#ifndef PARLEY_API_ROUTES_H
#define PARLEY_API_ROUTES_H

#include "net/net.h"

extern const struct http_route routes_health[], routes_user[], routes_workspace[], routes_apikey[],
    routes_system[], routes_file[], routes_bot[], routes_adapter[], routes_pipeline[],
    routes_chat[], routes_embed[], routes_provider[], routes_model[], routes_monitoring[],
    routes_webhook[], routes_bot_ingress[], routes_space[], routes_tool[], routes_plugin[];

#endif
