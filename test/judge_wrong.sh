#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_wrong.sh BUILD - eleven wrong answers, each with one classic mistake, none of them a mutant: what the
# judge says of each. At least seven of ten must be named rightly.
#
# Of three more no mutant has the mistake: the judge names the outputs that are wrong, and a common factor.
set -u
. "$(dirname "$0")/lib.sh"
python=$(test/python.sh) || { echo 'skipped: no NumPy' && exit 77; }
plant() { # NAME CHALLENGE WORDS SED : in the NumPy entrant
    mkdir -p "$tmp/all/$1"
    sed "$4" "contest/entrant/numpy/$2/$2.py" >"$tmp/all/$1/$2.py"
    ! cmp -s "contest/entrant/numpy/$2/$2.py" "$tmp/all/$1/$2.py" || complain "nothing was planted in $1"
    printf '{"name":"%s","author":"a test","challenge":"%s","class":"python","language":"python","sources":["%s.py"]}' \
        "$1" "$2" "$2" >"$tmp/all/$1/entry.json"
    echo "$1 behaves like a kernel $3" >>"$tmp/expect"
}
plant causal_offset flash_attention 'whose causal mask aligns the first query with the first key' \
    's/last = np.arange(n_q)\[:, None\] + n_k - n_q/last = np.arange(n_q)[:, None]/'
plant gqa_modulo flash_attention 'that maps query head h to KV head h % n_kv_head' 's/h \/\/ share/h % k.shape[1]/g'
plant no_max flash_attention 'without max subtraction' 's/^        top = .*/        top = np.zeros((len(s), 1))/'
plant no_delta flash_attention_backward 'without delta, the row sum of dout \* out' 's/ - delta) \* scale/) * scale/'
plant winners_alone softmax_topk 'whose softmax is over the k winners alone' \
    's/^            prob\[r, :n\] = .*/            p = weights(x[best], largest, t)\n            prob[r, :n] = p \/ p.sum()/'
plant rms_of_centred rms_norm_forward 'that subtracts the mean, as layer norm does' \
    's/^        square = /        r = r - r.mean(axis=1, keepdims=True)\n&/'
plant dgamma_of_last_row layernorm_backward 'whose dgamma has one row alone' \
    's/^        dgamma += .*/        dgamma = dgamma + (d * xhat)[-1]/'
plant mean_over_all cross_entropy_logits 'whose mean counts ignored rows' 's/^    n = counted.sum()/    n = target.size/'
plant past_eos beam_search 'that extends beams past EOS' 's/t == eos)))/False)))/'
plant newest_key kv_cache 'that keeps only the newest keys' \
    's/^            old = self.len.seq..layer.$/            self.len[seq][layer] = 0\n&/'
# in C
mkdir "$tmp/all/bessel"
sed 's/squares \/ (double)a->n_cols/squares \/ (double)(a->n_cols - (a->n_cols > 1))/' proof/honest/forward_welford.c >"$tmp/all/bessel/layernorm_forward.c"
cp proof/honest/honest.h "$tmp/all/bessel"
echo '{"name":"bessel","author":"a test","challenge":"layernorm_forward","class":"sealed","language":"c","sources":["layernorm_forward.c","honest.h"]}' >"$tmp/all/bessel/entry.json"
echo 'bessel behaves like a kernel that divides the variance by D - 1' >>"$tmp/expect"

outputs() { # NAME CHALLENGE SENTENCE SED
    plant "$1" "$2" - "$4"
    sed -i '$d' "$tmp/expect"
    echo "$1 $3" >>"$tmp/outputs"
}
outputs gamma_in_dgamma layernorm_backward 'only dgamma is wrong' 's/^        dgamma += (d \* xhat)/        dgamma += (d * gamma * xhat)/'
outputs half_rstd rms_norm_forward 'only rstd is wrong: 0.5 times the correct values' 's/(root \* scale).ravel()/(root * scale * 0.5).ravel()/'
outputs all_rows cross_entropy_logits 'only .*logits .* wrong, all elements of a case by one factor' \
    's/g = scale \/ n if mean and n else/g = scale \/ target.size if mean and n else/'

"$build/touchstone" judge --depth quick --no-timing --seed 5 --log "$tmp/log" "$tmp/all" >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] || complain "status $?: $(cat "$tmp/err")"
words_of() { # NAME
    id=$(grep -o '"type":"entrant","id":[0-9]*,"name":"'"$1\"" "$tmp/log" | tr -dc 0-9)
    grep '"type":"verdict","entrant":'"$id," "$tmp/log" | grep -o '"words":"[^"]*"' | tail -n 1 | cut -d '"' -f 4
}
while read -r name words; do
    words_of "$name" | grep -q "^$words$" || complain "$name: '$(words_of "$name")', expected '$words'"
done <"$tmp/outputs"
n=0 right=0
while read -r name words; do
    said=$(words_of "$name")
    n=$((n + 1))
    if echo "$said" | grep -q "^$words$"; then right=$((right + 1)); fi
    printf '%-20s %s\n' "$name" "${said:--}"
done <"$tmp/expect"
grep -q 'behaves like a kernel' "$tmp/out" || complain 'the board does not say it'
echo "judge_wrong: $right of $n mistakes are named rightly, $bad complaints"
[ $bad = 0 ] && [ $((10 * right)) -ge $((7 * n)) ]
