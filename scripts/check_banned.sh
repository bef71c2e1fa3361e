#!/usr/bin/env bash
# Calls that the house does without. A line that must have one says why in a comment: /* allow free: curl made it */
. "$(dirname "$0")/common.sh"
everywhere='strcpy strcat sprintf vsprintf strtok gets atoi atol atoll alloca system popen stpcpy strncpy strncat'
above_base='malloc free calloc realloc reallocarray strdup strndup asprintf vasprintf posix_memalign aligned_alloc'
find src -name '*.[ch]' | sort | xargs -r awk -f scripts/strip_c.awk | awk -v everywhere="$everywhere" -v above="$above_base" '
BEGIN { n = split(everywhere, e, " "); m = split(above, a, " ") }
function look(name) {
    if ($0 ~ "(^|[^A-Za-z0-9_.>])" name "[ \t]*\\(" && index($0, "@allow(" name ")") == 0) {
        split($0, at, ":")
        printf "%s:%s: %s() is banned here\n", at[1], at[2], name
        bad = 1
    }
}
{
    for (i = 1; i <= n; i++) look(e[i])
    if ($0 !~ /^src\/base\//) for (i = 1; i <= m; i++) look(a[i])
}
END { exit bad }'
