#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# format.sh - format.sh [--fix] - checks or fixes the layout of all sources: clang-format, tabs,
# blanks, final newlines, SPDX lines.
set -eu
cd "$(dirname "$0")/.."
version=14 # other versions format a few lines differently

files() { # FIND-EXPRESSION
    find . \( -name .git -o -path './build*' -o -name __pycache__ \) -prune -o -type f \( "$@" \) -print
}
code=$(files -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh')
text=$(files -name '*.sh' -o -name '*.py' -o -name CMakeLists.txt -o -path './.ci/run')
all="$code $text ./Makefile"
formatter=$(command -v clang-format-$version || command -v clang-format || true)
if [ "${1-}" = --fix ]; then exec $formatter -i $code; fi

bad=0
complain() { # WHAT, offenders on standard input
    while read -r line; do echo "format: $1: $line" >&2 && bad=1; done
    return $bad
}
tab=$(printf '\t')
grep -n "$tab" $code $text | complain tab || bad=1
grep -nE '[[:blank:]]+$' $all | complain 'trailing blank' || bad=1
grep -L 'SPDX-License-Identifier: Apache-2.0' $all | complain 'no SPDX line' || bad=1
# One process for all files; one per file only on failure, to find the culprit.
[ "$(tail -q -c 1 $all | wc -l)" = "$(echo $all | wc -w)" ] ||
    for f in $all; do [ -z "$(tail -c 1 "$f")" ] || echo "$f"; done | complain 'no final newline' || bad=1
[ $bad = 0 ] || exit 1
case $($formatter --version 2>/dev/null) in
*"version $version."*) ;;
*) echo "skipped: no clang-format $version" && exit 77 ;;
esac
$formatter --dry-run -Werror $code 2>/dev/null || for f in $code; do
    $formatter --dry-run -Werror "$f" 2>/dev/null || echo "$f"
done | complain 'layout; run make format'
