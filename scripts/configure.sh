#!/bin/sh
# Makes a build folder ready: sets it up once, and again when C files have come or gone.   configure.sh DIR [meson options]
# Meson lists the files when it configures, so only this script notices a new one.
set -eu
cd "$(dirname "$0")/.."
dir=$1
shift
list=$(for d in src tests/unit tests/fuzz tests/bench; do scripts/list_sources.sh "$d"; done)
if [ ! -f "$dir/build.ninja" ]; then
    rm -rf "$dir"/meson-*
    meson setup "$dir" "$@"
elif [ "$list" != "$(cat "$dir/.source-list" 2>/dev/null)" ]; then
    meson setup --reconfigure "$dir" "$@"
fi
printf '%s\n' "$list" >"$dir/.source-list"
