#!/bin/sh
# Prints the C and assembly files below a folder of the project, one a line, sorted.   list_sources.sh FOLDER [PATTERN]
set -eu
cd "$(dirname "$0")/.."
[ -d "$1" ] || exit 0
if [ $# -gt 1 ]; then
    find "$1" -type f -name "$2" | LC_ALL=C sort
else
    find "$1" -type f \( -name '*.c' -o -name '*.S' \) | LC_ALL=C sort
fi
