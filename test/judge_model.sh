#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_model.sh BUILD - judges entrants of the challenges with a model, of those with ternary
# models, and of kv_cache.
#
# Per challenge a correct entrant and wrong ones, in C and in Python. The correct ones pass; the
# wrong ones fail for the reason named, or pass by the usual contract only.
set -eu
. "$(dirname "$0")/lib.sh"

lay() { # NAME CHALLENGE CLASS LANGUAGE SOURCE [SED] - an entrant from a right one, and how it is spoilt
    to=$tmp/all/$1
    file=$2.${5##*.}
    mkdir -p "$to"
    sed "${6:-}" "$5" >"$to/$file"
    [ "$4" != c ] || cp proof/plain/number.h "$to"
    [ -z "${6:-}" ] || ! cmp -s "$5" "$to/$file" || { echo "judge_model: $1 is not spoilt" >&2 && exit 1; }
    printf '{"name":"%s","author":"a test","challenge":"%s","class":"%s","language":"%s","sources":["%s"%s]}' \
        "$1" "$2" "$3" "$4" "$file" "$([ "$4" != c ] || echo ',"number.h"')" >"$to/entry.json"
}

for task in beam_search tree_verify ternary_linear ternary_training kv_cache; do
    lay "right-c-${task#*_}" $task sealed c proof/plain/$task.c
done
lay wrong-c-score beam_search sealed c proof/plain/beam_search.c \
    's/const double  penalty = pow.*/const double  penalty = 1;/'
lay common-c-calls beam_search sealed c proof/plain/beam_search.c \
    's/if (HOOK(idle, b->finished)) continue;/if (b->finished \&\& n) continue;/'
lay common-c-float beam_search sealed c proof/plain/beam_search.c \
    's/double max = -INFINITY, sum = 0;/float max = -INFINITY, sum = 0;/'
lay wrong-c-half beam_search sealed c proof/plain/beam_search.c \
    's/max + log(sum))/max + rint(256 * log(sum)) \/ 256)/'
lay wrong-c-mask tree_verify sealed c proof/plain/tree_verify.c \
    's/c < P \&\& c <= r; c++/c <= r; c++/'
lay wrong-c-position tree_verify sealed c proof/plain/tree_verify.c \
    's/: P + depth - 1;/: r;/'
lay wrong-c-again tree_verify sealed c proof/plain/tree_verify.c \
    's/s->n_out++;/s->n_out += 1 + (s->n_out == 1);/'
lay common-c-sums tree_verify sealed c proof/plain/tree_verify.c \
    's/double       total = 0, sum = 0;/float total = 0, sum = 0;/'
lay wrong-c-threshold ternary_linear sealed c proof/plain/ternary_linear.c 's/2 \* fabs(w) <= s/fabs(w) <= s/'
lay wrong-c-decay ternary_training sealed c proof/plain/ternary_training.c \
    's/i < t->n_latent ? h->weight_decay \* w : 0/h->weight_decay * w/'
lay wrong-c-tied ternary_training sealed c proof/plain/ternary_training.c \
    's/p->g\[token_at(p, r, 0) \* width + i\] += /p->g[token_at(p, r, 0) * width + i] = /'
if test/python.sh >/dev/null; then
    for task in beam_search tree_verify ternary_linear ternary_training; do
        lay "right-py-${task#*_}" $task python python contest/entrant/numpy/$task/$task.py
    done
    lay wrong-py-score beam_search python python contest/entrant/numpy/beam_search/beam_search.py 's/ \*\* alpha//'
    lay common-py-walk tree_verify python python contest/entrant/numpy/tree_verify/tree_verify.py \
        's/right = children\[token\[children\] == t\]/right = children[:1][token[children[:1]] == t]/'
    lay wrong-py-padding ternary_linear python python contest/entrant/numpy/ternary_linear/ternary_linear.py \
        's/sum(-1) \/ sizes/mean(-1)/'
    lay wrong-py-bias ternary_training python python contest/entrant/numpy/ternary_training/ternary_training.py \
        's/m \/ (1 - beta1 \*\* self.n_step)/m/'
fi

# untimed: judge.sh and judge_common.sh time entrants, of a model too
"$build/touchstone" judge --first --no-timing --depth quick --log "$tmp/log" "$tmp/all" >"$tmp/out" 2>"$tmp/err" || true
for entrant in "$tmp"/all/*; do
    name=${entrant##*/}
    verdict=$(awk -v name="$name" '$1 == name && $2 ~ /_/ { v = $3 " " $4; sub(/[0-9]+\/[0-9]+$/, "", v); print v; exit }' "$tmp/err" "$tmp/out")
    case $name in
    right-*) want='PASS ' ;;
    common-*) want='PASS (common)' ;;
    *) want='FAIL value' ;;
    esac
    [ "$verdict" = "$want" ] && continue
    echo "judge_model: $name: got '$verdict', expected '$want'" >&2
    bad=$((bad + 1))
done
[ $bad = 0 ] || cat "$tmp/out" >&2
echo "$(ls "$tmp/all" | wc -l) entrants, $bad complaints"
[ $bad = 0 ]
