#!/usr/bin/env bash
# One table of all figures with their goals.   bench.sh [figure ...]   See tests/bench/README.md.
. "$(dirname "$0")/common.sh"
scripts/install_packages.sh bench
need_go
need_python
dir=$(configure_variant bench)
ninja -C "$dir" -j "$JOBS" all >&2
exec "$CONFORMANCE_VENV/bin/python" tests/bench/report.py "$dir" "${BENCH_OPTIONS:-}" "$@"
