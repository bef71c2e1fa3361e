/* Adapters of the contract that this version cannot run. Their bots can be stored, looked at and changed (rows that came
 * from elsewhere stay whole), but they are in no catalogue, and one that is enabled says why it does not run.
 * platforms.md §1.1, §2. */
#include "platform/platform_private.h"

#include <stdio.h>

/* The setting that names the bot's own account, where the configuration has it; `needed`: settings without which there is
 * no bot, separated by blanks. */
static void *hold(const struct adapter_env *env, const char *account, const char *needed,
                  struct error *err)
{
    static const char none[] = "";
    struct str rest = str_c(needed), key;
    while (rest.n > 0 && str_split(&rest, ' ', &key)) {
        char name[32];
        snprintf(name, sizeof(name), STR_FMT, STR_ARG(key));
        if (!json_object_get(env->config, name)) {
            err_set(err, ERR_INVALID, "adapter_config.%s is required", name);
            return NULL;
        }
    }
    const char *id = account ? json_z(env->config, account) : NULL;
    return (void *)(uintptr_t)(id ? id : none);
}

static void close_none(void *instance)
{
    (void)instance;
}

static const char *account_of(void *instance)
{
    return instance;
}

static bool run_none(void *instance, struct error *err)
{
    (void)instance;
    return err_set(err, ERR_UNAVAILABLE, "This version cannot connect to the bot's platform");
}

#define UNBUILT(id, key, account_key, needed)                                \
    static void *open_##id(const struct adapter_env *env, struct error *err) \
    {                                                                        \
        return hold(env, account_key, needed, err);                          \
    }                                                                        \
    static const struct adapter id = {                                       \
        .name = key,                                                         \
        .class_name = key,                                                   \
        .open = open_##id,                                                   \
        .close = close_none,                                                 \
        .run = run_none,                                                     \
        .account = account_of,                                               \
    }

UNBUILT(aiocqhttp, "aiocqhttp", NULL, "host port");
UNBUILT(dingtalk, "dingtalk", "robot_name", "client_id client_secret robot_code robot_name");
UNBUILT(discord, "discord", "client_id", "client_id token");
UNBUILT(kook, "kook", NULL, "token");
UNBUILT(lark, "lark", "bot_name", "app_id app_secret bot_name");
UNBUILT(line, "LINE", NULL, "channel_access_token channel_secret");
UNBUILT(matrix, "matrix", "user_id", "homeserver_url user_id access_token");
UNBUILT(mattermost, "mattermost", NULL, "server_url access_token");
UNBUILT(officialaccount, "officialaccount", NULL, "token EncodingAESKey AppID AppSecret Mode");
UNBUILT(openclaw, "openclaw-weixin", NULL, "");
UNBUILT(qqofficial, "qqofficial", "appid", "appid secret");
UNBUILT(satori, "satori", NULL, "token");
UNBUILT(slack, "slack", NULL, "bot_token signing_secret");
UNBUILT(telegram, "telegram", NULL, "token");
UNBUILT(wechatpad, "wechatpad", NULL, "wechatpad_url wechatpad_ws");
UNBUILT(wecom, "wecom", NULL, "corpid secret token EncodingAESKey");
UNBUILT(wecombot, "wecombot", "BotId", "BotId robot_name");
UNBUILT(wecomcs, "wecomcs", NULL, "corpid secret token EncodingAESKey");

static const struct adapter *const unbuilt[] = {
    &aiocqhttp, &dingtalk,   &discord,         &kook,     &lark,       &line,
    &matrix,    &mattermost, &officialaccount, &openclaw, &qqofficial, &satori,
    &slack,     &telegram,   &wechatpad,       &wecom,    &wecombot,   &wecomcs,
};

const struct adapter *adapter_unbuilt(const char *name)
{
    for (size_t i = 0; i < array_len(unbuilt); i++)
        if (strcmp(unbuilt[i]->name, name) == 0)
            return unbuilt[i];
    return NULL;
}
