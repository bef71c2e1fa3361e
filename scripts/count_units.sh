#!/bin/sh
# Prints "passed failed skipped" for a meson test run of cmocka programs.   count_units.sh BUILD/meson-logs/testlog.json
# Counted are the cases; a program that ended without its closing lines (a crash, a timeout, a leak) is one failure more.
[ -f "$1" ] || { echo "0 1 0"; exit 0; }
awk '
function sum(text, what,    total, rest) {
    total = 0
    rest = text
    while (match(rest, "\\[ *" what " *\\] [0-9]+ test\\(s\\)")) {
        total += gensub_number(substr(rest, RSTART, RLENGTH))
        rest = substr(rest, RSTART + RLENGTH)
    }
    return total
}
function gensub_number(s) { sub(/^[^\]]*\] /, "", s); return s + 0 }
{
    p = sum($0, "PASSED"); f = sum($0, "FAILED"); s = sum($0, "SKIPPED")
    ok = match($0, /"result": *"(OK|EXPECTEDFAIL)"/)
    left_out = match($0, /"result": *"SKIP"/)
    if (p + f + s == 0) { if (left_out) s = 1; else if (ok) p = 1 }
    if (!ok && !left_out && f == 0) f = 1
    passed += p; failed += f; skipped += s
}
END { print passed + 0, failed + 0, skipped + 0 }' "$1"
