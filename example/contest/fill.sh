#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fill.sh DIR - a whole contest to try: three made-up models, three answers each to every challenge, from the plain
# solutions, NumPy versions and starters that come with the project.
set -eu
[ $# = 1 ] || { echo 'usage: example/contest/fill.sh DIR' >&2 && exit 2; }
root=$(cd -P "$(dirname "$0")/../.." && pwd -P)
[ ! -e "$1" ] || { echo "fill.sh: $1: exists, expected a new folder" >&2 && exit 2; }

plain() { sed -e "/#include \"number.h\"/{r $root/proof/plain/number.h" -e 'd}' "$root/proof/plain/$1.c"; }
numpy() { cat "$root/contest/entrant/numpy/$1/$1.py"; }
starter() { cat "$root/contest/challenge/$1/starter.$2"; }

for prompt in "$root"/contest/challenge/*/PROMPT.md; do
    id=$(basename "$(dirname "$prompt")")
    mkdir -p "$1/steady/$id" "$1/hurried/$id" "$1/lost/$id"
    plain "$id" >"$1/steady/$id/sample-1.c"
    numpy "$id" >"$1/steady/$id/sample-2.py"
    plain "$id" >"$1/steady/$id/sample-3.c"
    plain "$id" >"$1/hurried/$id/sample-1.c"
    numpy "$id" | head -n 12 >"$1/hurried/$id/sample-2.py" # cut off, as replies are
    starter "$id" c >"$1/hurried/$id/sample-3.c"
    starter "$id" c >"$1/lost/$id/sample-1.c"
    starter "$id" py >"$1/lost/$id/sample-2.py"
    echo 'I am sorry, but this is not enough information to write it.' >"$1/lost/$id/sample-3.md"
done
find "$1" -type f | wc -l | tr -d ' \n'
echo " answers in $1"
