#!/usr/bin/env bash
# Line and branch coverage of the unit tests; ends with 1 below the threshold.   coverage.sh
# COVERAGE_MIN: least share of lines in percent. The page is $BUILD-coverage/coverage/index.html.
. "$(dirname "$0")/common.sh"
min=${COVERAGE_MIN:-60}
dir=$(configure_variant coverage)
find "$dir" -name '*.gcda' -delete
meson test -C "$dir" --print-errorlogs --num-processes "$JOBS" || say "some unit tests failed; their lines count all the same"
mkdir -p "$dir/coverage"
gcovr --root . --object-directory "$dir" --filter 'src/' --exclude-unreachable-branches --exclude-throw-branches \
    --print-summary --html-details "$dir/coverage/index.html" --txt "$dir/coverage/summary.txt" \
    --fail-under-line "$min" "$dir" >"$dir/coverage/total.txt" || bad=$?
# A line for each folder, then the total.
awk '/^src\// { split($1, p, "/"); lines[p[2]] += $2; run[p[2]] += $3 }
     /^src\/(tenant\/|api\/(auth|user|apikey)\.c)/ { lines["tenant+auth"] += $2; run["tenant+auth"] += $3 }
     END { for (f in lines) printf "%-12s %5.1f %% of %d lines\n", f, lines[f] ? 100 * run[f] / lines[f] : 0, lines[f] }' \
    "$dir/coverage/summary.txt" | sort
cat "$dir/coverage/total.txt"
exit "${bad:-0}"
