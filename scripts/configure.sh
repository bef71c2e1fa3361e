#!/bin/sh
# Makes a build folder ready: sets it up once, and again when C files have come or gone.   configure.sh DIR [meson options]
# Meson lists the files when it configures, so only this script notices a new one.
set -eu
cd "$(dirname "$0")/.."
dir=$1
shift
list=$(for d in src tests/unit tests/fuzz tests/bench; do scripts/list_sources.sh "$d"; done)

# Meson talks much; what it said is in the folder, and shown where it failed.
set_up() {
    mkdir -p "$dir"
    if ! meson setup "$@" "$dir" >"$dir/setup.log" 2>&1; then
        cat "$dir/setup.log" >&2
        exit 1
    fi
}

if [ ! -f "$dir/build.ninja" ]; then
    echo "configuring $dir"
    rm -rf "$dir"/meson-*
    set_up "$@"
elif [ "$list" != "$(cat "$dir/.source-list" 2>/dev/null)" ]; then
    echo "configuring $dir again: files came or went"
    set_up --reconfigure "$@"
fi
printf '%s\n' "$list" >"$dir/.source-list"
