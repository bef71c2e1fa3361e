#!/usr/bin/env bash
# Builds the fuzz targets with clang, ASan and UBSan and runs each on its corpus.
#   fuzz.sh [-r RUNS | -t SECONDS] [--counts FILE] [target ...]      default: 10,000,000 runs of every target
# A target is tests/fuzz/fuzz_<name>.c, its corpus tests/fuzz/corpus/fuzz_<name>/, its dictionary fuzz_<name>.dict beside it.
# What a run discovers stays in $BUILD-fuzz/corpus; inputs that failed are kept in $BUILD-fuzz/found. Before a run of many RUNS
# comes a short one with leak detection; the long one goes without, and without the traces of allocations, which cost a third of
# the speed: run the target on the failed input for those.
. "$(dirname "$0")/common.sh"
limit=(-runs=10000000) counts='' targets=()
while [ $# -gt 0 ]; do
    case $1 in
        -r) limit=(-runs="$2"); shift 2 ;;
        -t) limit=(-max_total_time="$2"); shift 2 ;;
        --counts) counts=$2; shift 2 ;;
        *) targets+=("$1"); shift ;;
    esac
done
if [ ${#targets[@]} -eq 0 ]; then
    for f in tests/fuzz/fuzz_*.c; do
        [ ! -f "$f" ] || targets+=("$(basename "$f" .c)")
    done
fi
dir=$(configure_variant fuzz)
if [ ${#targets[@]} -eq 0 ]; then
    echo "no fuzz target in tests/fuzz"
    [ -z "$counts" ] || echo "0 0 0" >"$counts"
    exit 0
fi
ninja -C "$dir" -j "$JOBS" "${targets[@]/#/tests/}" >&2

fuzz() { # TARGET OPTION...: one run of it on its corpora
    local target=$1 corpus=("$dir/corpus/$1")
    shift
    [ ! -d "tests/fuzz/corpus/$target" ] || corpus+=("tests/fuzz/corpus/$target")
    [ ! -f "tests/fuzz/$target.dict" ] || set -- "$@" -dict="tests/fuzz/$target.dict"
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "$dir/tests/$target" "$@" -max_len=512 -rss_limit_mb=2048 -timeout=25 \
        -print_final_stats=1 -artifact_prefix="$dir/found/$target-" "${corpus[@]}" >>"$dir/log/$target" 2>&1
}

one() {
    local target=$1 log=$dir/log/$1 asan=detect_stack_use_after_return=0 short=("${limit[@]}") runs
    [[ ${limit[0]} != -runs=* ]] || short=(-runs=10000 -max_total_time=5)
    mkdir -p "$dir/corpus/$target" "$dir/found" "$dir/log"
    : >"$log"
    if ASAN_OPTIONS=$asan fuzz "$target" "${short[@]}" && { [[ ${limit[0]} != -runs=* ]] ||
        ASAN_OPTIONS=$asan:malloc_context_size=0:quarantine_size_mb=8:thread_local_quarantine_size_kb=64 \
            fuzz "$target" "${limit[@]}" -detect_leaks=0; }; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
        printf 'ok      %-24s %s runs\n' "$target" "$runs"
    else
        printf 'FAILED  %s (%s)\n' "$target" "$log"
        tail -n 40 "$log" | sed 's/^/        /'
        return 1
    fi
}
failed=0 passed=0 running=0
# As many at a time as there are cores.
for target in "${targets[@]}"; do
    if [ $running -ge "$JOBS" ]; then
        if wait -n; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
        running=$((running - 1))
    fi
    one "$target" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    if wait -n; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    running=$((running - 1))
done
[ -z "$counts" ] || echo "$passed $failed 0" >"$counts"
[ $failed -eq 0 ]
