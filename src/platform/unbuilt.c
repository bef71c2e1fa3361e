/* Adapters of the contract that this version cannot run. Their bots can be stored, looked at and changed (rows that came
 * from elsewhere stay whole), but they are in no catalogue, and one that is enabled says why it does not run.
 * platforms.md §1.1, §2. */
#include "platform/platform_private.h"

/* The setting that names the bot's own account, where the configuration has it. */
static void *hold(const struct adapter_env *env, const char *account)
{
    static const char none[] = "";
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

#define UNBUILT(id, key, account_key)                                        \
    static void *open_##id(const struct adapter_env *env, struct error *err) \
    {                                                                        \
        (void)err;                                                           \
        return hold(env, account_key);                                       \
    }                                                                        \
    static const struct adapter id = {                                       \
        .name = key,                                                         \
        .class_name = key,                                                   \
        .open = open_##id,                                                   \
        .close = close_none,                                                 \
        .run = run_none,                                                     \
        .account = account_of,                                               \
    }

UNBUILT(aiocqhttp, "aiocqhttp", NULL);
UNBUILT(dingtalk, "dingtalk", "robot_name");
UNBUILT(discord, "discord", "client_id");
UNBUILT(kook, "kook", NULL);
UNBUILT(lark, "lark", "bot_name");
UNBUILT(line, "LINE", NULL);
UNBUILT(matrix, "matrix", "user_id");
UNBUILT(mattermost, "mattermost", NULL);
UNBUILT(officialaccount, "officialaccount", NULL);
UNBUILT(openclaw, "openclaw-weixin", NULL);
UNBUILT(qqofficial, "qqofficial", "appid");
UNBUILT(satori, "satori", NULL);
UNBUILT(slack, "slack", NULL);
UNBUILT(telegram, "telegram", NULL);
UNBUILT(wechatpad, "wechatpad", NULL);
UNBUILT(wecom, "wecom", NULL);
UNBUILT(wecombot, "wecombot", "BotId");
UNBUILT(wecomcs, "wecomcs", NULL);

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
