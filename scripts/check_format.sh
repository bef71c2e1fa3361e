#!/usr/bin/env bash
# What clang-format would change. `make format` changes it.
. "$(dirname "$0")/common.sh"
command -v clang-format >/dev/null || { echo "clang-format is not installed"; exit 1; }
files=$(find src tests/unit tests/fuzz tests/bench tools -name '*.[ch]' | sort)
[ -n "$files" ] || exit 0
bad=$(printf '%s\n' "$files" | xargs clang-format --dry-run 2>&1 | sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: warning: code should be.*/\1/p' | sort | uniq -c)
[ -z "$bad" ] || { printf '%s\n' "$bad" | awk '{print $2 ": " $1 " places not as clang-format writes them (make format)"}'; exit 1; }
