#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_common.sh BUILD - the entrants of test/common, in forms in which such code is usually published: each
# passes, but for rules of the canon and for what it does not offer; and the same spoilt fails.
set -eu
. "$(dirname "$0")/lib.sh"
cd test/common
complain() {
    echo "judge_common: $*" >&2
    cat "$tmp/out" "$tmp/err" >&2
    bad=$((bad + 1))
}
judge() { "$build/touchstone" judge --depth quick --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"; }
gate() { judge --no-timing "$@"; } # where times are no matter
verdict() { # PATTERN : in the log
    grep -q "\"type\":\"verdict\".*$1" "$tmp/log" || complain "no $1 in the log"
}

# passes PATH SHARE RULE [judge] : by the usual contract; SHARE in the log, '' where all is offered; one of the
# rules; with judge it is timed too
passes() {
    ${4:-gate} --json "$tmp/json" "$1" || complain "$1: status $?"
    grep -q '"verdict": *"PASS (common)"' "$tmp/json" && grep -q '"rule": *"' "$tmp/json" ||
        complain "$1: $(cat "$tmp/json")"
    verdict '"verdict":"PASS (common)","reason":"canon"'
    for word in ${4:+'"score":' '"S":' '"grade":' '"time_ns":' '"floor_ns":' '"floor_by":'}; do
        grep -q "$word" "$tmp/json" || complain "$1: no $word in the JSON"
    done
    grep -q 'PASS (common)' "$tmp/out" || complain "$1: the board does not say it"
    # all cases pass, and some break a rule
    verdict '"cases":\[\([0-9]*\),\1,\1\],"common":[1-9]'
    grep -q '"common": *[1-9]' "$tmp/json" || complain "$1: no number of cases by the usual contract in the JSON"
    grep -q '^       in [1-9][0-9]* of [0-9]* cases: ' "$tmp/out" || complain "$1: the board does not say in how many cases"
    if [ -n "$2" ]; then
        grep -q "\"type\":\"entrant\".*\"offers\":\".*\",\"share\":$2" "$tmp/log" || complain "$1: no scope in the log"
        grep -q "\"share\": *$2" "$tmp/json" || complain "$1: no share in $(cat "$tmp/json")"
        grep -q 'offers .* % of the challenge:' "$tmp/out" || complain "$1: no scope on the board"
    fi
    verdict "\"rule\":\"\\($3\\)"
    grep -q '^       [^ ]*touchstone judge --case ' "$tmp/out" || complain "$1: no command shows it again"
    cp "$tmp/log" "$tmp/whole"
    # the flaw again, in the case that the board names
    case=$(grep '"type":"verdict"' "$tmp/log" | grep -o '"case":"[a-z_]*/[^"]*@[^"]*"' | head -n 1 | cut -d '"' -f 4)
    gate --case "$case" "$1" || complain "$1: $case: status $?"
    grep -q 'PASS (common)' "$tmp/out" || complain "$1: $case: the flaw is gone"
}

n=0 spoilt=''
fails() { # PATH SED REASON : the same, spoilt; judged at the end, all in one run
    n=$((n + 1))
    mkdir -p "$tmp/spoilt/$n"
    if [ -d "$1" ]; then # each has a name of its own
        cp "$1"/* "$tmp/spoilt/$n"
        sed -i "s/\"name\": *\"/&spoilt $n /" "$tmp/spoilt/$n/entry.json"
        spoilt="$spoilt $tmp/spoilt/$n"
    else
        cp "$1" "$tmp/spoilt/$n/spoilt_${n}_$1"
        spoilt="$spoilt $tmp/spoilt/$n/spoilt_${n}_$1"
    fi
    sed -i "$2" "$tmp/spoilt/$n"/*.[cp]*
    printf '%s\n' "$3" >"$tmp/reason.$n"
}
all_fail() { # in the log they have the numbers 0, 1, ..., in the order of the command line
    if gate --first $spoilt; then complain 'spoilt ones passed'; fi
    for i in $(seq $n); do
        grep "\"type\":\"verdict\",\"entrant\":$((i - 1))," "$tmp/log" |
            grep -q "\"verdict\":\"FAIL\",\"reason\":\"$(cat "$tmp/reason.$i")" ||
            complain "spoilt, number $i: no $(cat "$tmp/reason.$i") in the log"
    done
}

passes insertion_topk.c 0.1 'a row \|-inf has'
# the same verdict from the key that the log reveals
"$build/touchstone" judge --replay "$tmp/whole" insertion_topk.c >"$tmp/out" 2>"$tmp/err" ||
    complain "replayed: status $?"
grep -q '^same .*PASS (common) canon' "$tmp/out" || complain 'another verdict when replayed'
fails insertion_topk.c 's/x\[i\] > best\[j - 1\]; j--/x[i] > best[j - 1] + 1e-3f; j--/' value
fails insertion_topk.c 's/k <= 32 && k <= vocab/k <= 64 \&\& k <= vocab/' status # more than it has
fails insertion_topk.c 's/k <= 32 && k <= vocab/kk <= 32/' entry
# what its scope takes out of the list is adapted to it, and the rest is made: it fails in what most scopes would
# have left out, and a timed shape within the scope is found
passes plain_attention.c '' 'keys whose' judge
grep -q '"type":"time".*"case":"flash_attention/f32/q=512,k=512,[^"]*form=2/normal"' "$tmp/whole" ||
    complain 'no time within the scope'
fails plain_attention.c 's/    (void)x;/    (void)x; if (a->d.n_q == 1) __builtin_trap();/' crash # for one row
fails plain_attention.c 's/s \* d->scale;/s * d->scale * (d->n_q_head == 2 ? 1.01 : 1);/' value # for two heads
if ../python.sh >/dev/null; then
    passes lists_kv_cache 0.04 'a cache reports\|a NaN\|an invalid call\|a repeated call'
    # of two rules the one that is broken, not the one that the case tests
    gate --case 'kv_cache/f32/seqs=3,len=33,layers=1,q_heads=4,kv_heads=2,head_dim=16,page=0,store=0/masked@0x2a74d721d837d7fa' \
        --json "$tmp/json" lists_kv_cache || complain "masked: status $?"
    grep -q '"rule": *"a cache reports' "$tmp/json" || complain "masked: $(cat "$tmp/json")"
    fails lists_kv_cache/ 's/end = len(keys) - n + i + 1/end = len(keys)/' value # a query sees what comes after it
    fails lists_kv_cache/ 's/k = np.array/k = nosuch.array/' 'status","text":"raised NameError: .* at lists_kv_cache.py:[0-9]*'
    passes argsort_beam_search.py '' 'equal scores\|each step\|logits without\|a model that fails' judge
    fails argsort_beam_search.py 's/total\[i\] \/ (step + 1) \*\* alpha/total[i]/' value
    fails argsort_beam_search.py 's/\[::-1\]\[:beam_width\]/[::-1][1:beam_width]/' value # never the best
else
    echo 'skipped: Python entrants: no NumPy'
fi

all_fail

# a library behind a link, as a linker leaves them; one case shows that it is read
case=$("$build/touchstone" list cases --challenge softmax_topk | grep -om1 'softmax_topk/f32/rows=[1-9][^ ]*')
mkdir "$tmp/linked"
cp "$build/touchstone-three_pass.so" "$tmp/linked/libtop.so.1.2"
ln -s libtop.so.1.2 "$tmp/linked/libtop.so"
gate --challenge softmax_topk --case "$case" "$tmp/linked/libtop.so" || complain "a library behind a link: status $?"
printf '{"name":"linked","author":"a test","challenge":"softmax_topk","class":"host","language":"binary","sources":["libtop.so"]}' \
    >"$tmp/linked/entry.json"
gate --case "$case" "$tmp/linked" || complain "a folder with a library behind a link: status $?"
ln -sf "$build/touchstone-three_pass.so" "$tmp/linked/libtop.so"
if gate "$tmp/linked"; then complain 'a link out of its folder was followed'; fi
verdict 'libtop.so: symbolic link leaves the folder'
echo "judge_common: $bad complaints"
[ $bad = 0 ]
