#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_model.sh BUILD - the challenges in which an entrant is given a model, before the judge: for each
# a right entrant and wrong ones, in C and in Python. The right pass, the wrong fail for the reason named.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

lay() { # NAME CHALLENGE CLASS LANGUAGE SOURCE [SED] - an entrant from a right one, and how it is spoilt
    to=$work/all/$1
    file=$2.${5##*.}
    mkdir -p "$to"
    sed "${6:-}" "$5" >"$to/$file"
    [ -z "${6:-}" ] || ! cmp -s "$5" "$to/$file" || { echo "judge_model: $1 is not spoilt" >&2 && exit 1; }
    printf '{"name":"%s","author":"a test","challenge":"%s","class":"%s","language":"%s","sources":["%s"]}' \
        "$1" "$2" "$3" "$4" "$file" >"$to/entry.json"
}

for task in beam_search tree_verify; do
    lay "right-c-$task" $task sealed c test/solution/$task.c
done
lay wrong-c-score beam_search sealed c test/solution/beam_search.c \
    's/const double  penalty = pow.*/const double  penalty = 1;/'
lay wrong-c-calls beam_search sealed c test/solution/beam_search.c \
    's/if (b->finished) continue;/if (b->finished \&\& n) continue;/'
lay wrong-c-mask tree_verify sealed c test/solution/tree_verify.c \
    's/c < P \&\& c <= r; c++/c <= r; c++/'
lay wrong-c-position tree_verify sealed c test/solution/tree_verify.c \
    's/: P + depth - 1;/: r;/'
python=${TOUCHSTONE_PYTHON:-python3}
if "$python" -c 'import numpy' 2>/dev/null; then
    export TOUCHSTONE_PYTHON="$python"
    for task in beam_search tree_verify; do
        lay "right-py-$task" $task python python entrant/numpy/$task/$task.py
    done
    lay wrong-py-score beam_search python python entrant/numpy/beam_search/beam_search.py 's/ \*\* alpha//'
    lay wrong-py-walk tree_verify python python entrant/numpy/tree_verify/tree_verify.py \
        's/right = children\[token\[children\] == t\]/right = children[:1][token[children[:1]] == t]/'
fi

"$build/touchstone" judge --depth quick --log "$work/log" "$work/all" >"$work/out" 2>"$work/err" || true
for entrant in "$work"/all/*; do
    name=${entrant##*/}
    verdict=$(awk -v name="$name" '$1 == name && $2 ~ /_/ { print $3, $4; exit }' "$work/err" "$work/out")
    case $name in right-*) want='PASS ' ;; *) want='FAIL value' ;; esac
    [ "$verdict" = "$want" ] && continue
    echo "judge_model: $name: got '$verdict', expected '$want'" >&2
    bad=$((bad + 1))
done
[ $bad = 0 ] || cat "$work/out" >&2
echo "$(ls "$work/all" | wc -l) entrants, $bad complaints"
[ $bad = 0 ]
