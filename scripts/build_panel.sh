#!/usr/bin/env bash
# Builds the panel into web/dist where its sources are newer; installs its packages where the lock file changed.
#   build_panel.sh [deps]     deps: only the packages
. "$(dirname "$0")/common.sh"

if [ ! -f web/package.json ]; then
    say "no panel in web/: the program will say so on its page"
    exit 0
fi
need_node
cd web
if ! cmp -s package-lock.json node_modules/.lock-of-install; then
    say "installing the panel's packages"
    npm ci --no-audit --no-fund --loglevel=error </dev/null
    cp package-lock.json node_modules/.lock-of-install
fi
[ "${1:-}" != deps ] || exit 0

inputs=(index.html package-lock.json vite.config.ts tsconfig.json src)
for extra in public tsconfig.app.json tsconfig.node.json; do
    [ ! -e $extra ] || inputs+=("$extra")
done
newer=$(find "${inputs[@]}" -newer dist/.built -print -quit 2>/dev/null || true)
if [ ! -f dist/.built ] || [ -n "$newer" ]; then
    say "building the panel"
    npm run --silent build </dev/null
    touch dist/.built
fi
