#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh COMPILER - tests that each public header compiles on its own: as C11, or as C++17 if
# the compiler's name ends in ++.
set -eu
cd "$(dirname "$0")/.."
command -v "$1" >/dev/null || { echo "skipped: no $1"; exit 77; }
case $1 in
*++) as='-x c++ -std=c++17' ;;
*) as='-x c -std=c11' ;;
esac
for header in include/touchstone/*.h; do
    echo "#include \"${header#include/}\"" |
        "$1" $as -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude -
    echo "$1: $header"
done
