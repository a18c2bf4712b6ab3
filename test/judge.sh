#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge.sh BUILD - judges correct and wrong kernels in each class; replay, resume, tampering.
set -u
. "$(dirname "$0")/lib.sh"
judge() { "$build/touchstone" judge --depth quick --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"; }
saw() { grep -q "$1" "$tmp/out" || complain "$2: '$1' is not in: $(cat "$tmp/out" "$tmp/err")"; }

c_entrant() { # FOLDER NAME CLASS SED
    mkdir -p "$tmp/$1"
    printf '{"name":"%s","author":"a test","challenge":"softmax_topk","class":"%s","language":"c","sources":["softmax_topk.c","number.h"]}' \
        "$2" "$3" >"$tmp/$1/entry.json"
    cp proof/plain/number.h "$tmp/$1"
    sed "$4" proof/plain/softmax_topk.c >"$tmp/$1/softmax_topk.c"
    [ -z "$4" ] || ! cmp -s proof/plain/softmax_topk.c "$tmp/$1/softmax_topk.c" ||
        complain "nothing was planted in $1"
}
wrong='s/sum += exp/sum += 1.0002 * exp/'
c_entrant sealed right-sealed sealed ''
c_entrant host right-host host ''
c_entrant sealed-wrong wrong-sealed sealed "$wrong"
c_entrant host-wrong wrong-host host "$wrong"

# correct, except for findings of robustness checks: an overflow, and bits that depend on the number
# of threads
c_entrant overflow overflow sealed 's/int *nonfinite = 0;/int nonfinite = 0; volatile int most = 2147483647; most++;/'
# f32 only, but checks sizes before dtypes: TS_OK for an empty call does not mean that a dtype is
# supported
c_entrant empty empty-first sealed 's/return a->dtype == TS_F32 .*/return !a->n_rows || a->dtype == TS_F32 ? TS_OK : TS_E_DTYPE;/'
c_entrant threads threads host 's/    return s;/    if (!s \&\& x->n_threads > 1 \&\& a->n_rows \&\& a->k \&\& a->prob[0] > 0) a->prob[0] = nextafterf(a->prob[0], 0);\n    return s;/'

judge "$tmp/sealed" "$tmp/host" "$tmp/overflow" "$tmp/threads" ||
    complain "right kernels: status $?: $(cat "$tmp/err")"
saw 'right-sealed *sealed *PASS' 'a right sealed kernel'
saw 'right-host *host *PASS' 'a right host kernel'
verdict() { # ENTRANT PATTERN : in the log
    grep '"type":"verdict","entrant":'"$1," "$tmp/log" | grep -q "$2" || complain "entrant $1: no $2 in the log"
}
for right in 0 1; do verdict $right '"threads":\[8,8\],"sanitizer":\[8,8\]},"robustness_text":""'; done
verdict 2 '"PASS".*"threads":\[8,8\],"sanitizer":\[0,8\]},"robustness_text":"sanitizer: softmax_topk/.*crash'
verdict 3 '"PASS".*"threads":\[[0-7],8\],"sanitizer":\[8,8\]'
saw 'overflow: sanitizer: softmax_topk/' 'the sanitizer lane'

judge --no-timing --seed 8 "$tmp/empty" # a seed that draws rows=0 in a dtype other than f32
saw 'empty-first *sealed *PASS' 'a kernel that looks at sizes before dtypes'
saw 'empty-first: unsupported dtypes: f16 bf16$' 'dtypes that a kernel rejects'
verdict 0 '"PASS".*"unsupported":"f16 bf16"'
# one case of a dtype that it rejects: nothing was checked, so it did not pass
case=$("$build/touchstone" list cases --challenge softmax_topk | grep -om1 'softmax_topk/bf16/rows=[1-9][^ ]*')
judge --case "$case" "$tmp/empty" && complain 'a case of a dtype that is rejected: status 0'
saw 'empty-first *sealed *FAIL case' 'a case of a dtype that is rejected'

# tricks that only a whole judging run can detect, and one that blames the judge
proof/exploit/lay.sh "$tmp/exploit"
judge --no-timing --seed 7 "$tmp/exploit/ftz" "$tmp/exploit/selective_dtype" "$tmp/exploit/forge_error"
[ $? = 1 ] || complain "tricks: status $?"
saw 'ftz .*FAIL fp' 'another floating-point environment'
saw 'selective_dtype .*FAIL status' 'a dtype for some cases only'
saw 'forge_error .*FAIL protocol' 'a forged error of the judge'

for class in sealed host; do
    judge --no-timing "$tmp/$class-wrong"
    [ $? = 1 ] || complain "a wrong $class kernel: status $?"
    saw "wrong-$class *$class *FAIL value" "a wrong $class kernel"
done

# the replayed case fails in the same element
case=$(grep -o '"case":"softmax_topk[^"]*"' "$tmp/log" | head -n 1 | cut -d '"' -f 4)
"$build/touchstone" judge --case "$case" "$tmp/host-wrong" >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] || complain 'a replayed flaw is gone'
saw 'FAIL value' 'the replay'

# the revealed key reproduces the verdicts
"$build/touchstone" judge --replay "$tmp/log" "$tmp/host-wrong" >"$tmp/out" 2>"$tmp/err" ||
    complain "replayed from its log: status $?: $(cat "$tmp/err")"
saw '^same .*FAIL value' 'the log replayed'

# --no-timing: a verdict without times
judge --no-timing "$tmp/host" || complain "correctness alone: status $?: $(cat "$tmp/err")"
saw 'right-host *host *PASS' 'correctness alone'
! grep -q '"type":"time"' "$tmp/log" || complain 'correctness alone took times'
"$build/touchstone" report --json "$tmp/json" "$tmp/log" >/dev/null 2>"$tmp/err"
! grep -q '"score"' "$tmp/json" || grep -q '"score": *null' "$tmp/json" || complain 'a score without times'
grep -q "$(printf '\033')" "$tmp/err" && complain 'progress where there is no terminal'
"$build/touchstone" judge --replay "$tmp/log" "$tmp/host" >"$tmp/out" 2>"$tmp/err" ||
    complain "correctness alone, replayed: status $?: $(cat "$tmp/err")"
# wrong only in the shape that the prompt names as timed at this depth
timed=$("$build/touchstone" new --prompt --challenge softmax_topk --language c |
    sed -n 's/^- `rows=\([0-9]*\),vocab=\([0-9]*\),.*(quick.*/a->n_rows == \1 \&\& a->n_vocab == \2/p')
[ -n "$timed" ] || complain 'the prompt names no timed shape'
c_entrant timed-wrong wrong-timed sealed "s/r < a->n_rows; r++) row/r < a->n_rows - ($(echo "$timed" | sed 's/&/\\&/g')); r++) row/"
judge --no-timing "$tmp/timed-wrong"
saw 'wrong-timed *sealed *FAIL unwritten' 'a kernel that is wrong only where it is timed, by correctness alone'

# a log that has none of these entrants; and samples of one model, which have names
"$build/touchstone" judge --replay "$tmp/log" "$tmp/sealed-wrong" >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'no verdict on these entrants' "$tmp/err" || complain "replayed with another entrant: $(cat "$tmp/err")"
mkdir -p "$tmp/answers/some-model/softmax_topk"
for i in 1 2; do
    { echo '```c' && cat example/contest/careful/softmax_topk.c && echo '```'; } >"$tmp/answers/some-model/softmax_topk/sample-$i.md"
done
echo 'an answer?' >"$tmp/answers/some-model/softmax.md"
judge --no-timing "$tmp/answers" || complain "two samples: status $?"
for i in 1 2; do grep -q "some-model/sample-$i  *softmax_topk  *PASS" "$tmp/err" || complain "no line of sample $i: $(cat "$tmp/err")"; done
grep -q '1 file ignored, such as .*/some-model/softmax.md' "$tmp/err" || complain "a file is ignored silently: $(cat "$tmp/err")"

# a log with another version of the draw is not replayed
"$build/test/make_log" "$tmp/other" >/dev/null 2>&1
"$build/touchstone" judge --replay "$tmp/other" "$tmp/host" >"$tmp/out" 2>"$tmp/err"
[ $? = 3 ] || complain 'a log of another rule was replayed'
grep -q 'drawn by rule 1' "$tmp/err" || complain "another rule: $(cat "$tmp/err")"

# a killed run keeps its verdicts, and --resume completes it
rm -f "$tmp/log"
"$build/touchstone" judge --log "$tmp/log" "$tmp/host-wrong" "$tmp/host" >/dev/null 2>&1 &
for _ in $(seq 300); do
    ! grep -q '"type":"verdict"' "$tmp/log" 2>/dev/null || break
    sleep 0.1
done
kill -9 $!
wait $! 2>/dev/null
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 1 ] || complain 'killed: not one verdict in the log'
"$build/touchstone" report "$tmp/log" >"$tmp/out" 2>&1 || complain "killed: no board: $(cat "$tmp/out")"
saw 'wrong-host *host *FAIL value' 'the board of a killed run'
judge --no-timing --resume "$tmp/host-wrong" "$tmp/host"
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 2 ] || complain 'killed: resume lost or repeated a verdict'
judge --no-timing "$tmp/host-wrong"

# --resume skips entrants in the log and judges others
judge --no-timing --resume "$tmp/host-wrong" "$tmp/sealed-wrong"
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 2 ] || complain 'resume lost or repeated a verdict'
[ "$(grep -c '"type":"run"' "$tmp/log")" = 2 ] || complain 'resume did not go on with the log'
sed -i '2s/author/buthor/' "$tmp/log"
judge --resume "$tmp/sealed"
[ $? = 3 ] || complain 'a changed log was taken'
grep -q 'line 2' "$tmp/err" || complain "a changed log: $(cat "$tmp/err")"

# a header beyond class sealed's makes a file class host, where j_parallel_for does not exist
cat >"$tmp/threads.c" <<'EOT'
#include <stdio.h>
#include "touchstone/sealed.h"
#include "touchstone/softmax_topk.h"
static void row(int64_t i, void *a) { (void)i, (void)a; }
ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    return j_parallel_for(1, row, (void *)a), (void)x, TS_OK;
}
EOT
judge --no-timing --depth quick "$tmp/threads.c" textbook # and a built-in entrant by its name, in the same challenge
[ $? = 1 ] || complain "j_parallel_for in class host: $(cat "$tmp/out" "$tmp/err")"
grep -q 'threads: #include <stdio.h> makes this entrant class host; j_parallel_for exists only in class sealed' "$tmp/err" ||
    complain "j_parallel_for in class host: $(cat "$tmp/err")"
saw '^  . *textbook  *host  *PASS' 'a built-in entrant by name'

judge "$tmp/nobody"
[ $? = 2 ] || complain 'a folder without entrants was judged'
[ "$(wc -l <"$tmp/err")" = 1 ] || complain 'more than a line about a wrong path'

# what the machine guarantees, and on a device what that does: here a stand-in, which has no time slices
selfcheck() { # ENVIRONMENT... : status
    env "$@" "TOUCHSTONE_LIBCUDA=$build/test/libfake_cuda.so" "$build/touchstone" judge --selfcheck \
        --device cuda >"$tmp/out" 2>"$tmp/err"
}
selfcheck -u TS_FAKE_CUDA_NONE || complain "selfcheck: status $?: $(cat "$tmp/err")"
saw '^badge: reduced' 'selfcheck on a stand-in'
saw '^  yes  device-guards .*8 of 8 fault' 'selfcheck on a stand-in'
saw '^  NO   device-busy ' 'selfcheck on a stand-in'
selfcheck TS_FAKE_CUDA_NONE=1
[ $? = 3 ] || complain 'selfcheck went on without a device'
[ "$(cat "$tmp/err")" = 'touchstone judge: --device cuda: no CUDA device' ] || complain "no device: $(cat "$tmp/err")"

if test/python.sh >/dev/null; then
    cp -r contest/entrant/numpy/softmax_topk "$tmp/python"
    cp -r "$tmp/python" "$tmp/python-wrong"
    sed -i 's/np\.exp(/1.0002 * np.exp(/' "$tmp/python-wrong/softmax_topk.py"
    judge "$tmp/python" || complain "a right Python kernel: $(cat "$tmp/out" "$tmp/err")"
    judge --no-timing "$tmp/python-wrong"
    saw 'FAIL value' 'a wrong Python kernel'
else
    echo 'skipped: Python entrants: no NumPy'
fi
echo "judge: $bad complaints"
[ $bad = 0 ]
