#!/usr/bin/env bash
# A folder of src/ includes its own headers and the one public header (<folder>/<folder>.h) of folders above it.
. "$(dirname "$0")/common.sh"
order=$(awk '/^layers = \[/{on=1; next} /^\]/{on=0} on' src/meson.build | tr -d "'," | xargs)
[ -n "$order" ] || { echo "no list of layers in src/meson.build"; exit 1; }

find src -name '*.[chS]' | sort | xargs -r awk -v order="$order" '
BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) rank[names[i]] = i }
function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
FNR == 1 {
    split(FILENAME, part, "/")
    own = part[2]
    if (!(own in rank)) complain("the folder " own " is not in the list of layers")
}
match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]*"/) {
    split($0, quoted, "\"")
    name = quoted[2]
    parts = split(name, where, "/")
    other = where[1]
    if (parts < 2) complain("\"" name "\": write it with its folder, \"" own "/" name "\"")
    else if (other == own) next
    else if (!(other in rank)) complain("\"" name "\" is in no layer")
    else if (rank[other] > rank[own]) complain(own " comes before " other " in the list of layers and may not know it")
    else if (name != other "/" other ".h") complain("\"" name "\" is private to " other "; its face is " other "/" other ".h")
}
END { exit bad }'
