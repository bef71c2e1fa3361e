#!/usr/bin/env bash
# `make test`: every check and test, in stages; the last line is their sum. Ends with 1 if anything failed or nothing ran.
#   run_tests.sh [stage ...]      stages: panel build lint unit asan web e2e sqlite postgresql coverage fuzz
. "$(dirname "$0")/common.sh"

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(panel build lint unit asan web e2e sqlite postgresql coverage fuzz)
results=$PWD/$BUILD/test-results
rm -rf "$results"
mkdir -p "$results"
passed=0 failed=0 skipped=0 broken=''
summary=()
export CI=${CI:-}

# stage NAME COMMAND...: runs it and reads its counts from $results/NAME.counts ("P F S").
# A stage that ends badly without a counted failure is one failure.
stage() {
    local name=$1 status=0 began=$SECONDS p=0 f=0 s=0
    shift
    say "$name"
    "$@" </dev/null || status=$?
    [ ! -s "$results/$name.counts" ] || read -r p f s <"$results/$name.counts"
    if [ $status -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    summary+=("$(printf '%-12s %5d passed %4d failed %4d skipped %5d s' "$name" "$p" "$f" "$s" $((SECONDS - began)))")
    printf '%s\n' "${summary[-1]}"
    [ "$f" -eq 0 ]
}

# An interrupt, so that pytest ends what it started.
limited() { timeout --signal=INT --kill-after=60 "$@"; }

# Sums of a JUnit file, as pytest writes it.
count_junit() {
    [ -f "$1" ] || { echo "0 1 0"; return; }
    awk 'match($0, /<testsuite [^>]*>/) {
        head = substr($0, RSTART, RLENGTH)
        n = split("tests failures errors skipped", key, " ")
        for (i = 1; i <= n; i++) { v[key[i]] = 0
            if (match(head, " " key[i] "=\"[0-9]+\"")) { t = substr(head, RSTART, RLENGTH); gsub(/[^0-9]/, "", t); v[key[i]] = t }
        }
        bad = v["failures"] + v["errors"]
        print v["tests"] - bad - v["skipped"], bad, v["skipped"]
        exit }' "$1"
}

do_panel() { limited 600 scripts/build_panel.sh; }

do_build() {
    local dir
    dir=$(configure_variant plain) || return 1
    ninja -C "$dir" -j "$JOBS" all || return 1
    # The other compiler has other warnings; they are errors too. Its program counts lines.
    dir=$(configure_variant coverage) || return 1
    ninja -C "$dir" -j "$JOBS" all || return 1
    echo "2 0 0" >"$results/build.counts"
}

do_lint() { scripts/lint.sh --counts "$results/lint.counts"; }

units() { # NAME VARIANT
    local dir status=0
    dir=$(configure_variant "$2") || return 1
    rm -f "$dir/meson-logs/testlog.json"
    limited 900 meson test -C "$dir" --print-errorlogs --num-processes "$JOBS" || status=$?
    scripts/count_units.sh "$dir/meson-logs/testlog.json" >"$results/$1.counts"
    return $status
}

do_unit() { units unit plain; }
do_asan() { units asan asan; }

do_web() {
    [ -f web/package.json ] || { echo "no panel"; return 0; }
    need_node
    local status=0 file=$results/web.json
    (cd web && limited 300 npx --no-install vitest run --reporter=default --reporter=json --outputFile="$file") || status=$?
    number() { grep -o "\"$1\":[0-9]*" "$file" 2>/dev/null | head -n 1 | cut -d: -f2; }
    local p f s lint=0
    p=$(number numPassedTests) f=$(number numFailedTests) s=$(number numPendingTests)
    if (cd web && limited 300 npm run --silent lint); then lint=1; else f=$((${f:-0} + 1)) status=1; fi
    echo "$((${p:-0} + lint)) ${f:-0} ${s:-0}" >"$results/web.counts"
    return $status
}

do_e2e() {
    local status=0
    need_node # the panel is walked with it
    scripts/build_panel.sh deps || return 1
    limited 900 "$CONFORMANCE_VENV/bin/python" -m pytest -p no:cacheprovider -c tests/e2e/pytest.ini --rootdir tests/e2e \
        --junit-xml "$results/e2e.xml" tests/e2e || status=$?
    count_junit "$results/e2e.xml" >"$results/e2e.counts"
    return $status
}

# Two groups at a time: they mostly wait.
conformance() { # DATABASE GROUP...
    limited 1500 python3 scripts/run_groups.py "$1" "$results" 2 "${@:2}"
}

do_sqlite() { conformance sqlite "${ALONE[@]}" "${DUE[@]}"; }
do_postgresql() { conformance postgresql "${DUE[@]}"; }

do_coverage() {
    limited 3000 scripts/coverage.sh --counts "$results/coverage.counts" | tee "$results/coverage.log"
    local status=${PIPESTATUS[0]}
    grep ' % of ' "$results/coverage.log" >"$results/coverage.txt"
    return "$status"
}

do_fuzz() { limited 600 scripts/fuzz.sh -t "${FUZZ_SECONDS:-5}" --counts "$results/fuzz.counts"; }

scripts/install_packages.sh test
need_python
for name in "${stages[@]}"; do
    if ! stage "$name" "do_$name"; then
        broken+=" $name"
        # Nothing of what follows can run without the program.
        [ "$name" != build ] || break
    fi
done

if cat "$results"/*.red 2>/dev/null | grep -q .; then
    say "KNOWN RED (not met yet): due cases of tests/known_red.txt, counted as skipped"
    (cd "$results" && for file in *.red; do sed "s/^/${file%.red}: /" "$file"; done)
fi
if [ -s "$results/coverage.txt" ]; then
    say "coverage"
    cat "$results/coverage.txt"
fi
say "summary"
printf '%s\n' "${summary[@]}"
[ -z "$broken" ] || echo "failed stages:$broken"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
