/* Private to api/: invitations by mail. tenancy.md §6 link/delivery. */
#ifndef PARLEY_API_MAIL_H
#define PARLEY_API_MAIL_H

#include "config/config.h"
#include "net/net.h"

/* "resend", "smtp" or NULL when nothing (complete) is configured. */
const char *mail_provider(const struct config *c);
/* "sent", "failed" or "link_only"; logs no address and no token. Waits at most the configured timeout. */
const char *mail_invitation(const struct config *c, struct arena *a, const char *to,
                            const char *workspace, struct str link);

#endif
