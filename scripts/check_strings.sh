#!/usr/bin/env bash
# Nothing in the tree names a machine's folders or the address of a package registry.
. "$(dirname "$0")/common.sh"
pattern='(^|[^A-Za-z0-9_.])/((work|root)/[A-Za-z]|home/[a-z]+/)|registry\.npm|npmjs\.org|pypi\.org|pythonhosted|deb\.debian\.org|proxy\.golang|crates\.io'
! git ls-files -z --cached --others --exclude-standard -- . ':!tests/conformance' ':!scripts/check_strings.sh' ':!tests/fuzz/corpus' |
    xargs -0r grep -nIE "$pattern" /dev/null
