/* Private to platform/: what a bot and the runtime are made of. runtime.c loads and unloads, bot.c is what adapters and the layers
 * above call, bot_log.c keeps the event log, manifest.c reads the forms. */
#ifndef PARLEY_PLATFORM_PRIVATE_H
#define PARLEY_PLATFORM_PRIVATE_H

#include "platform/platform.h"

enum {
    BOT_STOP_MS = 15000, /* platforms.md §1.3: kill() */
    BOT_DRAIN_MS =
        1500, /* answers on their way when the process stops; what is left is in the ledger */
    BOT_LOG_MAX = 200,
    BOT_LOG_DROP = 50,
    BOT_LOG_CHARS = 20000,
    BOT_OLD_ROWS = 16,
};

/* One opened adapter. A reload makes a new one; the old is closed when its fibers have ended and nobody is inside a call any more. */
struct bot_box {
    struct bot *bot;
    const struct adapter *adapter;
    void *instance;
    json_t *config; /* with the manifest's defaults */
    struct task_group *group;
    long users;
    bool retired;
};

/* What an adapter keeps over reloads of its bot (answers on their way). Made by the adapter at its first open. */
struct bot_keep {
    void *p;
    void (*stop)(
        void *p,
        int64_t
            grace_ms); /* the process stops: hand over what can be handed over, then end all fibers */
    void (*end)(void *p); /* the bot is gone for good: give up what waits; releases p */
};

struct bot_entry {
    int64_t seq, unix_s;
    enum log_level level;
    char *text, *session; /* owned; session NULL: none */
    json_t *images;       /* keys; NULL: none */
};
struct bot_log {
    struct bot_entry *ring[BOT_LOG_MAX];
    size_t n;
    int64_t next_seq;
    uint64_t epoch; /* counts clearings: a late image belongs to no new entry of the same number */
    size_t saving;  /* images on their way into the store */
    struct task_cond saved;
};

/* Runs hold bot pointers while they wait, so a bot stays in memory until the platform ends; a removed one has no instance. */
struct bot {
    struct platform *platform;
    struct scope scope;
    char uuid[64];
    const struct adapter *adapter;
    struct bot_box *box;
    json_t *row;
    json_t *old_rows[BOT_OLD_ROWS]; /* still read by somebody who waits, perhaps */
    size_t old_at;
    bool enabled, removed, checking;
    const char *state;
    int64_t since_us, used_us;
    char last_error[400];
    struct bot_log log;
    struct bot_keep keep;
};

struct platform {
    struct platform_opts opts;
    struct map bots;      /* "<workspace>|<uuid>" */
    struct map by_uuid;   /* without the proxy bots */
    struct bot **removed; /* kept for those who still hold them */
    size_t removed_n, removed_cap;
    size_t count;
    json_t *disabled; /* names */
    struct task_group *group;
    struct webchat *webchat; /* made on demand by webchat.c, released by webchat_free */
    bool stopping;
};

/* ---- manifest.c ------------------------------------------------------------------------------------------------------------ */
/* `given` completed with the defaults and checked by the types of the manifest; new reference, ERR_INVALID names the field. */
json_t *manifest_config(const struct adapter *a, const json_t *given, struct error *err);
void manifests_free(void);

/* ---- bot_log.c --------------------------------------------------------------------------------------------------------------- */
/* Empties the log and removes its images from the store; waits for nothing. */
void bot_log_clear(struct bot *b);
void bot_log_free(struct bot *b); /* memory only */

/* ---- bot.c ------------------------------------------------------------------------------------------------------------------- */
/* Between these two the instance of a call stays open. NULL: the bot has none. */
struct bot_box *bot_enter(struct bot *b);
void bot_leave(struct bot_box *box);
void bot_state(struct bot *b, const char *state);
void box_free(struct bot_box *box);

/* unbuilt.c: an adapter of the contract that this version cannot run; NULL if the name is none. */
const struct adapter *adapter_unbuilt(const char *name);

#endif
