#!/usr/bin/env bash
# The checks of the source, one line each.   lint.sh [--counts FILE]
# Each is a script of its own that prints what it found and ends with 1 where that is an error.
. "$(dirname "$0")/common.sh"

passed=0 failed=0
for check in scripts/check_*.sh; do
    name=$(basename "$check" .sh)
    name=${name#check_}
    if out=$(bash "$check" 2>&1); then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$name"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$name"
    fi
    [ -z "$out" ] || printf '%s\n' "$out" | sed 's/^/        /'
done
if [ "${1:-}" = --counts ]; then
    echo "$passed $failed 0" >"$2"
fi
[ $failed -eq 0 ]
