#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fair.sh BUILD [both|aa|handicap|repeat...] - tests whether matches are fair, with known entrants.
# Default: the last three. Needs a quiet machine for some minutes.
#
# both: 6 (TS_COPIES) copies each of a kernel and of a version 5 % slower, in one run. aa: copies of
# one kernel. handicap: a kernel and the slower version in 40 (TS_TIMING_ROUNDS) runs. repeat: one kernel
# judged 20 times. TS_KEEP: a file for the last log.
set -eu
build=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap '[ -z "${TS_KEEP-}" ] || cp "$work/log" "$TS_KEEP"; rm -rf "$work"' EXIT
status=0
kernel=forward_two_pass # compute-bound, single-threaded

# slow.c computes the first twentieth of the rows twice
mkdir "$work/slow" "$work/fast"
cp "proof/honest/$kernel.c" proof/honest/honest.h "$work/fast"
cp "proof/honest/$kernel.c" proof/honest/honest.h "$work/slow"
cat >"$work/slow/slow.c" <<END
#define ts_layernorm_forward once
#include "$kernel.c"
#undef ts_layernorm_forward
TS_API ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x);

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = once(a, x);
    if (s) return s;
    ts_layernorm_forward_args again = *a;
    again.n_rows /= 20;
    return once(&again, x);
}
END

enter() { # fast|slow NUMBER
    cp -R "$work/$1" "$work/entrants/$1-$2"
    sources="\"$kernel.c\",\"honest.h\""
    [ "$1" = fast ] || sources="\"slow.c\",$sources"
    printf '{"name":"%s-%s","author":"a test","challenge":"layernorm_forward","class":"sealed","language":"c","sources":[%s]}' \
        "$1" "$2" "$sources" >"$work/entrants/$1-$2/entry.json"
}
enter_all() { # FAST SLOW - adds that many copies of each
    rm -rf "$work/entrants"
    mkdir "$work/entrants"
    for i in $(seq -w "$1"); do enter fast "$i"; done
    for i in $(seq -w "$2"); do enter slow "$i"; done
}
judge_all() {
    rm -f "$work/log"
    "$build/touchstone" judge --depth normal --log "$work/log" "$work/entrants" >"$work/out" 2>"$work/err" ||
        { cat "$work/err" && return 1; }
}

# matches LOG: counts results between equals, and of fast against slow.
matches() {
    awk '
        function number(key) {
            match($0, "\"" key "\":[-+.e0-9]+")
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0
        }
        function median(x, n,    i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && x[j] < x[j - 1]; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t }
            return x[int((n + 1) / 2)]
        }
        /"type":"entrant"/ { slow[number("id")] = /"name":"slow/ }
        /"type":"match"/ {
            a = slow[number("a")]; b = slow[number("b")]
            match($0, "\"verdict\":\"[a-z]+\"")
            verdict = substr($0, RSTART + 11, RLENGTH - 12)
            won = verdict == "a" ? 1 : verdict == "b" ? -1 : 0
            pairs = number("pairs")
            if (a == b) {
                equals++; width[equals] = number("hi") - number("lo")
                if (won) false_wins++
                if (won) printf "  equals, but %d against %d: effect %.2f %%, interval [%.2f, %.2f] %%\n", number("a"), number("b"), 100 * number("effect"), 100 * number("lo"), 100 * number("hi")
            }
            else {
                n++; right += won == b - a; wrong += won == a - b
                noise += verdict == "noise"
                effect[n] = (b - a) * number("effect"); wide[n] = number("hi") - number("lo")
            }
        }
        END {
            if (equals) printf "  equals: %d matches of %d pairs, %d with a winner; median width of the interval %.2f %%\n", equals, pairs, false_wins, 100 * median(width, equals)
            if (n) printf "  5 %% apart: %d matches of %d pairs, %d won by the faster (%.1f %%), %d by the slower, %d noise, %d ties; median effect %.2f %%, width %.2f %%\n", n, pairs, right, 100 * right / n, wrong, noise, n - right - wrong - noise, 100 * median(effect, n), 100 * median(wide, n)
            exit false_wins + wrong > 0 || (n && right < 0.95 * n)
        }' "$1"
}

both() {
    n=${TS_COPIES-6}
    enter_all "$n" "$n"
    judge_all && matches "$work/log"
}

aa() {
    enter_all 21 0
    judge_all && matches "$work/log"
}

handicap() {
    for way in "fast $kernel" "slow slow"; do
        cc -std=c11 -O2 -fPIC -shared -Iinclude -o "$work/${way% *}.so" "$work/${way% *}/${way#* }.c" -lm
    done
    echo "  outside the judge: $("$build/test/fair_time" "$work/fast.so" "$work/slow.so" 100)"
    enter_all 1 1
    rm -f "$work/all"
    for i in $(seq "${TS_TIMING_ROUNDS-40}"); do
        judge_all || return 1
        cat "$work/log" >>"$work/all"
    done
    matches "$work/all"
}

repeat() {
    enter_all 1 0
    rm -f "$work/scores"
    for i in $(seq 20); do
        judge_all || true
        sed -n 's/.*"type":"verdict".*"verdict":"\([A-Z]*\)".*/\1/p' "$work/log" >>"$work/verdicts"
        sed -n 's/.*"type":"score".*"S":\([^,]*\),"S_lo":\([^,]*\),"S_hi":\([^,]*\),.*/\1 \2 \3/p' "$work/log" >>"$work/scores"
    done
    echo "  verdicts: $(sort "$work/verdicts" | uniq -c | tr -s ' \n' ' ')"
    awk 'NR == 1 { lo = $2; hi = $3 }
        { inside += $1 >= lo && $1 <= hi; hit += $2 <= hi && $3 >= lo; print $1 >"/dev/stderr" }
        END { printf "  S of run 1 is in [%.4f, %.4f]; %d of %d lie in it, %d of %d intervals meet it\n", lo, hi, inside, NR, hit, NR }' \
        "$work/scores" 2>"$work/S"
    sort -g "$work/S" | awk '{ s[NR] = $1 } END { printf "  S: least %.4f, median %.4f, most %.4f (%.1f %% apart)\n", s[1], s[int((NR + 1) / 2)], s[NR], 100 * (s[NR] / s[1] - 1) }'
    [ "$(sort -u "$work/verdicts" | wc -l)" = 1 ]
}

[ $# -gt 0 ] || set -- aa handicap repeat
for part; do
    echo "$part (load $(cut -d ' ' -f 1 /proc/loadavg))"
    case $part in
    both) both || status=1 ;;
    aa) aa || status=1 ;;
    handicap) handicap || status=1 ;;
    repeat) repeat || status=1 ;;
    *) echo "fair: no part is called $part" && status=2 ;;
    esac
done
exit $status
