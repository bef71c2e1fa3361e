#!/usr/bin/env bash
# Installs the Debian packages that the project needs and this machine lacks.   install_packages.sh [run|test|bench]
# Does nothing, and fast, where all are there. This list is the one place that names them.
. "$(dirname "$0")/common.sh"

run=(
    gcc libc6-dev make meson ninja-build pkg-config
    libuv1-dev libcurl4-openssl-dev libssl-dev libargon2-dev libjansson-dev libfyaml-dev
    libsqlite3-dev libpq-dev libpcre2-dev
    libutf8proc-dev zlib1g-dev libwslay-dev node-llhttp libseccomp-dev
    libcmocka-dev # the build configures the unit tests too
    libcairo2 libfreetype6 # loaded when a long answer becomes a picture
    ca-certificates python3 python3-venv # Node.js for the panel, where Debian's is too old
)
test=(
    "${run[@]}"
    clang libclang-rt-14-dev clang-format llvm git
    postgresql
    chromium fonts-noto-cjk # the panel in a browser
)
bench=("${run[@]}")

case ${1:-run} in
    run) packages=("${run[@]}") ;;
    test) packages=("${test[@]}") ;;
    bench) packages=("${bench[@]}") ;;
    *) echo "install_packages.sh: no set '$1' (run, test, bench)" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "install_packages.sh: not a Debian system; these must be there: ${packages[*]}" >&2
    exit 0
fi

missing=()
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
for p in "${packages[@]}"; do
    grep -qxF "installed $p" <<<"$installed" || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

say "installing ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Please install as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
