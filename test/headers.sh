#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh COMPILER - each public header compiles alone: C11, or C++17 where the compiler ends in ++.
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
