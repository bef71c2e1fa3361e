#!/usr/bin/env bash
# Lines covered by unit tests, the conformance groups on SQLite and tests/e2e together; ends with 1 below a threshold.
#   coverage.sh [--counts FILE]
# COVERAGE_MIN (85) and COVERAGE_MIN_AUTH (95): least shares of lines in percent, of all and of authentication and tenancy.
# The tests are here to be counted: one that fails is named, and what it ran counts all the same; the other stages judge it.
# The pages are $BUILD-coverage/coverage/html.
. "$(dirname "$0")/common.sh"
need_python
need_node # e2e walks the panel with it
scripts/build_panel.sh deps
dir=$(configure_variant coverage)
ninja -C "$dir" -j "$JOBS" all
out=$PWD/$dir/coverage
rm -rf "$out" # the build runs tools that count as well
mkdir -p "$out/results"

# counted NAME COMMAND...: its output is kept, and shown only where it failed.
counted() {
    local began=$SECONDS name=$1 state=''
    shift
    "$@" >"$out/results/$name.log" 2>&1 </dev/null || state=', some failed:'
    printf 'counted: %s in %d s%s\n' "$name" $((SECONDS - began)) "$state"
    [ -z "$state" ] || grep -E ' (FAIL|TIMEOUT) |^FAILED |^    [a-z_]+\.test_' "$out/results/$name.log" || true
}

program=$PWD/$dir/parley
counted unit timeout 900 meson test -C "$dir" --print-errorlogs --num-processes "$JOBS"
counted sqlite env PARLEY="$program" timeout --signal=INT --kill-after=60 1500 \
    python3 scripts/run_groups.py sqlite "$out/results" 2 "${ALONE[@]}" "${DUE[@]}"
counted e2e env PARLEY="$program serve" timeout --signal=INT --kill-after=60 900 "$CONFORMANCE_VENV/bin/python" \
    -m pytest -p no:cacheprovider -c tests/e2e/pytest.ini --rootdir tests/e2e tests/e2e

llvm-profdata merge -sparse -o "$out/all.profdata" "$out"/raw/*.profraw
# Each unit test has a main of its own; that of the program is found by its hash, and the others are warned of.
llvm-cov show "$program" -instr-profile "$out/all.profdata" -format=html -output-dir "$out/html" 2>/dev/null
llvm-cov export "$program" -instr-profile "$out/all.profdata" -summary-only 2>/dev/null >"$out/summary.json"
exec python3 scripts/coverage_table.py "$out/summary.json" "${COVERAGE_MIN:-85}" "${COVERAGE_MIN_AUTH:-95}" "$@"
