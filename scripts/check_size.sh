#!/usr/bin/env bash
# Files of at most about 800 lines (an error above 1000), functions of about 60 (an error above 150).
. "$(dirname "$0")/common.sh"
find src tests/unit tests/fuzz tools -name '*.[chS]' | sort | xargs -r awk '
function close_file() {
    if (lines > 1000) { printf "%s: %d lines, more than 1000\n", file, lines; bad = 1 }
    else if (lines > 800) printf "%s: %d lines, the house likes 800 (no error)\n", file, lines
}
FNR == 1 { close_file(); file = FILENAME; start = 0; name = "" }
{ lines = FNR }
/^[A-Za-z_].*\(/ { name = $0 }
/^\{/ { start = FNR }
/^\}/ {
    if (start && FNR - start > 151) {
        sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
        printf "%s:%d: %s has %d lines, more than 150\n", file, start, name, FNR - start - 1; bad = 1
    }
    start = 0
}
END { close_file(); exit bad }'
