#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# limits.sh - tests that files have fewer than 600 lines, C functions at most 60, unit tests 100, and
# functions on a CUDA device at most 150.
#
# A function is counted from the first line of its declaration to its closing brace, by the layout that
# the test `format` verifies: both braces are alone in the first column.
set -eu
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# longer FOLDER: "NAME LINES LIMIT" of everything beyond its limit, and at last how much was counted
longer() {
    (cd "$1" && find . \( -name .git -o -path './build*' -o -name __pycache__ \) -prune -o -type f \
        \( -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.py' -o -name '*.sh' \) -print |
        sed 's|^\./||' | sort | xargs awk '
function tell(name, n, most) { if (n > most) print name, n, most }
function last() { if (file != "") tell(file, lines, 599) }
FNR == 1 { last(); file = FILENAME; n_files++; inside = 0; whole = 1; c = file ~ /\.(c|h|cpp|hpp|cu|cuh)$/ }
{ lines = FNR }
!c { next }
inside && /^}/ {
    inside = 0
    name = text
    sub(/\(.*/, "", name)
    sub(/.*[ *&]/, "", name)
    tell(file " " name, FNR - first + 1, text ~ /__(global|device)__/ ? 150 : text ~ /^TEST/ ? 100 : 60)
    n_functions++
}
!inside && /^{$/ && text !~ /^(namespace|extern)/ { inside = 1 }
!inside && whole && /^[A-Za-z_]/ { first = FNR; text = "" }
!inside { text = text == "" ? $0 : text " " $0; whole = /^$|^[#}]|^ *\/\/|[;{}\\]$|\*\/$/ }
END { last(); print n_files, "files", n_functions, "functions" }')
}

# What is planted must be found, and nothing else.
mkdir "$tmp/planted"
body() { seq "$1" | sed 's/.*/    x();/'; }
{ echo 'static int short_one(int a,' && echo '                     int b)' && echo '{' && body 56 && echo '}'; } >"$tmp/planted/a.c"
{ echo && echo 'static int long_one(int a,' && echo '                    int b)' && echo '{' && body 57 && echo '}'; } >>"$tmp/planted/a.c"
{ echo 'namespace' && echo '{' && echo 'template <class T>' && echo '__global__ void kernel(T a)' && echo '{' && body 60; } >"$tmp/planted/b.cu"
{ echo '}' && echo && echo 'static void host(void)' && echo '{' && body 60 && echo '}' && echo '}'; } >>"$tmp/planted/b.cu"
seq 599 >"$tmp/planted/c.py"
seq 600 >"$tmp/planted/d.sh"
printf '%s\n' 'a.c long_one 61 60' 'b.cu host 63 60' 'd.sh 600 599' '4 files 4 functions' >"$tmp/want"
longer "$tmp/planted" >"$tmp/got"
diff "$tmp/want" "$tmp/got" || { echo 'limits: planted (<) and found (>) differ' && exit 1; }

longer . >"$tmp/all"
sed -n '$!s/\(.*\) \([0-9]*\) \([0-9]*\)$/limits: \1: got \2 lines, expected at most \3/p' "$tmp/all"
echo "limits: $(tail -n 1 "$tmp/all"), $(($(wc -l <"$tmp/all") - 1)) too long"
[ "$(wc -l <"$tmp/all")" = 1 ]
