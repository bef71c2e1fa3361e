#!/usr/bin/env bash
# Structs, unions and enums are named by their tags; a typedef hides what a thing is.
. "$(dirname "$0")/common.sh"
! find src tests/unit tests/fuzz tools -name '*.[ch]' | sort | xargs -r awk -f scripts/strip_c.awk |
    grep -E '(^|[^A-Za-z0-9_])typedef[[:space:]]+(struct|union|enum)[^A-Za-z0-9_]'
