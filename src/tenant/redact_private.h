/* What the files of the redaction share with each other only. http-api.md §15. */
#ifndef PARLEY_TENANT_REDACT_PRIVATE_H
#define PARLEY_TENANT_REDACT_PRIVATE_H

#include "tenant/tenant.h"

#define MASK "***"

struct key_class {
    bool secret;       /* its leaves are masked */
    bool url;          /* its texts are addresses */
    bool query_secret; /* as the name of a query value: masked too */
};
struct key_class key_class(struct str key, enum redact_rules rules);

/* The address with its user part and secret query values masked; NULL when memory ends. New reference. */
json_t *redact_url(struct str url, enum redact_rules rules);
/* Puts the masked parts of `submitted` back from `stored`; NULL with ERR_INVALID when `stored` lacks one. */
json_t *restore_url(struct str submitted, struct str stored, enum redact_rules rules,
                    const char *path, struct error *err);
/* "Masked secret has no existing value (<path>)" */
bool no_existing(struct error *err, const char *path);

#endif
