/* Regular expressions of tenants under a budget: number and length of patterns, input size, 50 ms in total. pipeline.md §7.2.
 * Always called on a worker: matching needs stack and time. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pipeline/engine.h"

#include <pcre2.h>

enum {
    PATTERNS_MAX = 64,
    PATTERN_CHARS = 1024,
    SUBJECT_CHARS = 1 << 20,
    BUDGET_US = 50000,
    REPLACEMENT_CHARS = 64,
    MASKED_CHARS = 2 << 20,
    MATCH_LIMIT = 1000000,
    DEPTH_LIMIT = 2000,
};

struct budget {
    int64_t until_us;
    pcre2_match_context *context;
};

static bool budget_start(struct budget *b)
{
    b->until_us = time_mono_us() + BUDGET_US;
    b->context = pcre2_match_context_create(NULL);
    if (!b->context)
        return false;
    pcre2_set_match_limit(b->context, MATCH_LIMIT);
    pcre2_set_depth_limit(b->context, DEPTH_LIMIT);
    return true;
}

static pcre2_code *compile(struct str pattern)
{
    int code;
    PCRE2_SIZE at;
    return pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                         &code, &at, NULL);
}

static const char *refuse(const json_t *patterns, struct str subject)
{
    if (json_array_size(patterns) > PATTERNS_MAX)
        return "more than 64 patterns";
    if (subject.n > SUBJECT_CHARS && utf8_count(subject) > SUBJECT_CHARS)
        return "the text is longer than 1,048,576 characters";
    size_t i;
    json_t *p;
    json_array_foreach (patterns, i, p) {
        if (utf8_count(json_sv(p)) > PATTERN_CHARS)
            return "a pattern is longer than 1,024 characters";
    }
    return utf8_valid(subject) ? NULL : "the text is not valid UTF-8";
}

/* >= 0: matched, ovector filled; -1: no match; -2: over the budget. */
static int match(const struct budget *b, pcre2_code *re, struct str s, size_t from,
                 uint32_t options, pcre2_match_data *md)
{
    if (time_mono_us() > b->until_us)
        return -2;
    /* The subject was checked as a whole; once more for each match would be quadratic. */
    int rc =
        pcre2_match(re, (PCRE2_SPTR)s.p, s.n, from, options | PCRE2_NO_UTF_CHECK, md, b->context);
    return rc >= 0 ? rc : rc == PCRE2_ERROR_NOMATCH ? -1 : -2;
}

enum regex_answer regex_any(const json_t *patterns, struct str subject, enum regex_mode mode,
                            const char **why)
{
    struct budget b;
    if (!subject.p)
        subject = S("");
    *why = refuse(patterns, subject);
    if (*why || !budget_start(&b))
        return REGEX_REJECTED;
    enum regex_answer answer = REGEX_NO;
    size_t i;
    json_t *p;
    json_array_foreach (patterns, i, p) {
        pcre2_code *re = json_is_string(p) ? compile(json_sv(p)) : NULL;
        pcre2_match_data *md = re ? pcre2_match_data_create_from_pattern(re, NULL) : NULL;
        int rc =
            md ? match(&b, re, subject, 0, mode == REGEX_MATCH_START ? PCRE2_ANCHORED : 0, md) : -2;
        pcre2_match_data_free(md);
        pcre2_code_free(re);
        if (rc == -2) {
            *why = re ? "matching took too long" : "a pattern is invalid";
            answer = REGEX_REJECTED;
            /* A broken rule of one kind must not hide a good one behind it: go on while there is time. */
            if (time_mono_us() > b.until_us)
                break;
        } else if (rc >= 0) {
            answer = REGEX_YES;
            break;
        }
    }
    pcre2_match_context_free(b.context);
    return answer;
}

struct any_job {
    const json_t *patterns;
    struct str subject;
    enum regex_mode mode;
    enum regex_answer answer;
    const char *why;
};

static void any_work(void *arg)
{
    struct any_job *j = arg;
    j->answer = regex_any(j->patterns, j->subject, j->mode, &j->why);
}

bool regex_on_worker(const json_t *patterns, struct str subject, enum regex_mode mode,
                     enum regex_answer *answer, const char **why, struct error *err)
{
    struct any_job j = {.patterns = patterns, .subject = subject, .mode = mode};
    if (!task_work(any_work, &j, err))
        return false;
    *answer = j.answer;
    *why = j.why;
    return true;
}

/* One pattern over the whole text into `out`; *found set. False: rejected. */
static bool mask_pattern(const struct budget *b, pcre2_code *re, struct str s, struct str mask,
                         struct str word, struct buf *out, bool *found)
{
    pcre2_match_data *md = pcre2_match_data_create_from_pattern(re, NULL);
    size_t at = 0, copied = 0;
    int rc = 0;
    while (md && at <= s.n && (rc = match(b, re, s, at, 0, md)) >= 0) {
        const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(md);
        if (ov[1] <= ov[0]) { /* an empty match masks nothing */
            at = ov[1] + 1;
            while (at < s.n && ((unsigned char)s.p[at] & 0xC0) == 0x80)
                at++;
            continue;
        }
        *found = true;
        buf_add(out, s.p + copied, ov[0] - copied);
        if (word.n) {
            buf_str(out, word);
        } else {
            size_t width = utf8_count(str_n(s.p + ov[0], ov[1] - ov[0]));
            for (size_t k = 0; k < width; k++)
                buf_str(out, mask);
        }
        at = copied = ov[1];
    }
    pcre2_match_data_free(md);
    if (!md || rc == -2)
        return false;
    buf_add(out, s.p + copied, s.n - copied);
    return !out->failed;
}

enum regex_answer regex_mask(const json_t *patterns, struct str subject, struct str mask,
                             struct str word, struct arena *a, struct str *out)
{
    struct budget b;
    if (refuse(patterns, subject) || utf8_count(mask) > REPLACEMENT_CHARS ||
        utf8_count(word) > REPLACEMENT_CHARS ||
        utf8_count(subject) * (mask.n ? mask.n : 1) > MASKED_CHARS || !budget_start(&b))
        return REGEX_REJECTED;
    bool found = false, ok = true;
    struct str now = subject;
    size_t i;
    json_t *p;
    json_array_foreach (patterns, i, p) {
        pcre2_code *re = json_is_string(p) ? compile(json_sv(p)) : NULL;
        auto_buf next = BUF(MASKED_CHARS * 4);
        bool hit = false;
        ok = re && mask_pattern(&b, re, now, mask, word, &next, &hit);
        pcre2_code_free(re);
        if (!ok)
            break;
        if (hit) {
            found = true;
            now = str_dup(a, buf_view(&next));
        }
    }
    pcre2_match_context_free(b.context);
    *out = now.p ? now : S("");
    return !ok ? REGEX_REJECTED : found ? REGEX_YES : REGEX_NO;
}
