#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge.sh BUILD [timed] - judges correct and wrong kernels in each class; replay, resume, tampering.
# timed: correct kernels of each class, timed, which is all that needs the machine for itself.
set -u
. "$(dirname "$0")/lib.sh"
judge() { "$build/touchstone" judge --depth quick --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"; }
saw() { grep -q "$1" "$tmp/out" || complain "$2: '$1' is not in: $(cat "$tmp/out" "$tmp/err")"; }
verdict() { # NAME PATTERN : in the log
    id=$(grep -o '"type":"entrant","id":[0-9]*,"name":"'"$1\"" "$tmp/log" | tr -dc 0-9)
    grep '"type":"verdict","entrant":'"$id," "$tmp/log" | grep -q "$2" || complain "$1: no $2 in the log"
}
end() {
    echo "judge: $bad complaints"
    [ $bad = 0 ]
    exit
}

solution=proof/plain/layernorm_forward.c
c_entrant() { # FOLDER CLASS SED
    mkdir -p "$tmp/$1"
    printf '{"name":"%s","author":"a test","challenge":"layernorm_forward","class":"%s","language":"c","sources":["layernorm_forward.c","number.h"]}' \
        "$1" "$2" >"$tmp/$1/entry.json"
    cp proof/plain/number.h "$tmp/$1"
    sed "$3" $solution >"$tmp/$1/layernorm_forward.c"
    [ -z "$3" ] || ! cmp -s $solution "$tmp/$1/layernorm_forward.c" || complain "nothing was planted in $1"
}
python=$(test/python.sh) || echo 'skipped: Python entrants: no NumPy'
c_entrant right-sealed sealed ''
c_entrant right-host host ''
all='"threads":\[8,8\],"sanitizer":\[8,8\]},"robustness_text":""'

if [ "${2:-}" = timed ]; then
    if [ -n "$python" ]; then
        cp -r contest/entrant/numpy/layernorm_forward "$tmp/numpy"
        sed -i 's/"numpy"/"right-numpy"/' "$tmp/numpy/entry.json" # the name itself is the built-in entrant's
    fi
    judge "$tmp/right-sealed" "$tmp/right-host" ${python:+"$tmp/numpy"} || complain "right kernels: status $?: $(cat "$tmp/err")"
    for class in sealed host; do
        saw "right-$class *$class *PASS" "a right $class kernel"
        verdict right-$class "$all"
    done
    [ -z "$python" ] || saw 'right-numpy *python *PASS' 'a right Python kernel'
    [ "$(grep -c '"type":"time"' "$tmp/log")" = $((2 + ${python:+1} + 0)) ] || complain 'not a time for each right kernel'
    end
fi

# ---- wrong kernels, and correct ones with findings of robustness checks, in one run ----
wrong='s/const double rstd = 1 /const double rstd = 1.0002 /'
c_entrant wrong-sealed sealed "$wrong"
c_entrant wrong-host host "$wrong"
# correct, except for an overflow, and bits that depend on the number of threads
c_entrant overflow sealed 's/double *sum = 0, squares = 0;/double sum = 0, squares = 0; volatile int most = 2147483647; most++;/'
c_entrant threads host 's/    return s;/    if (!s \&\& x->n_threads > 1 \&\& a->n_rows) *(float *)a->rstd = nextafterf(*(float *)a->rstd, 0);\n    return s;/'
# f32 only, but checks sizes before dtypes: TS_OK for an empty call does not mean that a dtype is
# supported
c_entrant empty sealed 's/return a->dtype == TS_F32 .*/return !a->n_rows || a->dtype == TS_F32 ? TS_OK : TS_E_DTYPE;/'
# wrong only in the shape that the prompt names as timed at this depth
timed=$("$build/touchstone" new --prompt --challenge layernorm_forward --language c |
    sed -n 's/^- `rows=\([0-9]*\),cols=\([0-9]*\),.*(quick.*/a->n_rows == \1 \&\& a->n_cols == \2/p')
[ -n "$timed" ] || complain 'the prompt names no timed shape'
c_entrant wrong-timed sealed "s/r < a->n_rows; r++) row/r < a->n_rows - ($(echo "$timed" | sed 's/&/\\&/g')); r++) row/"
if [ -n "$python" ]; then
    cp -r contest/entrant/numpy/layernorm_forward "$tmp/wrong-python"
    sed -i 's/a \* root \* gamma/1.02 * a * root * gamma/' "$tmp/wrong-python/layernorm_forward.py"
    sed -i 's/"numpy"/"wrong-python"/' "$tmp/wrong-python/entry.json"
fi
# and tricks that only a whole judging run can detect, and one that blames the judge
proof/exploit/lay.sh "$tmp/exploit"

judge --no-timing --seed 7 "$tmp/overflow" "$tmp/threads" "$tmp/empty" "$tmp/wrong-sealed" "$tmp/wrong-timed" \
    ${python:+"$tmp/wrong-python"} "$tmp/exploit/ftz" "$tmp/exploit/selective_dtype" "$tmp/exploit/forge_error"
[ $? = 1 ] || complain "wrong kernels: status $?"
verdict overflow '"PASS".*"threads":\[8,8\],"sanitizer":\[0,8\]},"robustness_text":"sanitizer: layernorm_forward/.*crash'
verdict threads '"PASS".*"threads":\[[0-7],8\],"sanitizer":\[8,8\]'
saw 'overflow: sanitizer: layernorm_forward/' 'the sanitizer lane'
saw 'empty *sealed *PASS' 'a kernel that looks at sizes before dtypes'
saw 'empty: unsupported dtypes: f64 f16 bf16$' 'dtypes that a kernel rejects'
verdict empty '"PASS".*"unsupported":"f64 f16 bf16"'
saw 'wrong-sealed *sealed *FAIL value' 'a wrong sealed kernel'
saw 'wrong-timed *sealed *FAIL unwritten' 'a kernel that is wrong only where it is timed, by correctness alone'
[ -z "$python" ] || saw 'wrong-python *python *FAIL value' 'a wrong Python kernel'
saw 'ftz .*FAIL fp' 'another floating-point environment'
saw 'selective_dtype .*FAIL status' 'a dtype for some cases only'
saw 'forge_error .*FAIL protocol' 'a forged error of the judge'

# one case of a dtype that it rejects: nothing was checked, so it did not pass
case=$("$build/touchstone" list cases --challenge layernorm_forward | grep -om1 'layernorm_forward/bf16/rows=[1-9][^ ]*')
judge --case "$case" "$tmp/empty" && complain 'a case of a dtype that is rejected: status 0'
saw 'empty *sealed *FAIL case' 'a case of a dtype that is rejected'

# ---- --no-timing: verdicts without times ----
judge --no-timing "$tmp/wrong-host" "$tmp/right-host"
[ $? = 1 ] || complain "correctness alone: status $?: $(cat "$tmp/err")"
saw 'wrong-host *host *FAIL value' 'a wrong host kernel'
saw 'right-host *host *PASS' 'correctness alone'
verdict right-host "$all"
! grep -q '"type":"time"' "$tmp/log" || complain 'correctness alone took times'
grep -q "$(printf '\033')" "$tmp/err" && complain 'progress where there is no terminal'
"$build/touchstone" report --json "$tmp/json" "$tmp/log" >/dev/null 2>"$tmp/err"
! grep -q '"score"' "$tmp/json" || grep -q '"score": *null' "$tmp/json" || complain 'a score without times'

# the revealed key reproduces the verdicts
"$build/touchstone" judge --replay "$tmp/log" "$tmp/wrong-host" "$tmp/right-host" >"$tmp/out" 2>"$tmp/err" ||
    complain "replayed from its log: status $?: $(cat "$tmp/err")"
saw '^same .*FAIL value' 'the log replayed'
saw '^same .*PASS' 'the log replayed'
# ... and contradicts a log in which all passed
python3 -B test/forge.py "$tmp/log" "$tmp/forged" --pass
"$build/touchstone" judge --replay "$tmp/forged" "$tmp/wrong-host" "$tmp/right-host" >"$tmp/out" 2>"$tmp/err" &&
    complain 'a forged verdict was replayed'
saw '^DIFFERENT wrong-host.*FAIL value; in the log: PASS' 'a forged verdict'
saw '^same *right-host' 'a forged verdict'
# the replayed case fails in the same element
case=$(grep -o '"case":"layernorm_forward[^"]*"' "$tmp/log" | head -n 1 | cut -d '"' -f 4)
"$build/touchstone" judge --case "$case" "$tmp/wrong-host" >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] || complain 'a replayed flaw is gone'
saw 'FAIL value' 'the replay'
# a log that has none of these entrants, and one with another version of the draw
"$build/touchstone" judge --replay "$tmp/log" "$tmp/empty" >"$tmp/out" 2>"$tmp/err"
[ $? = 2 ] && grep -q 'no verdict on these entrants' "$tmp/err" || complain "replayed with another entrant: $(cat "$tmp/err")"
"$build/test/make_log" "$tmp/other" >/dev/null 2>&1
"$build/touchstone" judge --replay "$tmp/other" "$tmp/right-host" >"$tmp/out" 2>"$tmp/err"
[ $? = 3 ] || complain 'a log of another rule was replayed'
grep -q 'drawn by rule 1' "$tmp/err" || complain "another rule: $(cat "$tmp/err")"

# ---- --resume: skips entrants in the log and judges others ----
judge --no-timing --resume "$tmp/wrong-host" "$tmp/right-host" "$tmp/wrong-sealed"
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 3 ] || complain 'resume lost or repeated a verdict'
[ "$(grep -c '"type":"run"' "$tmp/log")" = 2 ] || complain 'resume did not go on with the log'
sed -i '2s/author/buthor/' "$tmp/log"
judge --resume "$tmp/right-sealed"
[ $? = 3 ] || complain 'a changed log was taken'
grep -q 'line 2' "$tmp/err" || complain "a changed log: $(cat "$tmp/err")"

# a killed run keeps its verdicts, and --resume completes it
rm -f "$tmp/log"
"$build/touchstone" judge --log "$tmp/log" "$tmp/wrong-host" "$tmp/right-host" >/dev/null 2>&1 &
for _ in $(seq 300); do
    ! grep -q '"type":"verdict"' "$tmp/log" 2>/dev/null || break
    sleep 0.1
done
kill -9 $!
wait $! 2>/dev/null
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 1 ] || complain 'killed: not one verdict in the log'
"$build/touchstone" report "$tmp/log" >"$tmp/out" 2>&1 || complain "killed: no board: $(cat "$tmp/out")"
saw 'wrong-host *host *FAIL value' 'the board of a killed run'
judge --no-timing --resume "$tmp/wrong-host" "$tmp/right-host"
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 2 ] || complain 'killed: resume lost or repeated a verdict'

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
case=$("$build/touchstone" list cases --challenge softmax_topk | grep -om1 'softmax_topk/f32/rows=[1-9][^ ]*')
judge --case "$case" "$tmp/threads.c" textbook # and a built-in entrant by its name, in the same challenge
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
end
