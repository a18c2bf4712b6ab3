#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weather.sh BUILD [SECONDS [CORES [LOAD]]] - judges correct entrants on a busy machine: none may fail.
#
# The entrants are of class sealed and host, with all threads, and of class python where NumPy is
# there. A round judges them on a number of cores (CORES: "1 2", or all of the machine). LOAD 4 means
# four busy processes on the same cores, x4 means four judges at once. Rounds repeat until SECONDS
# (600) have passed; one more that would not fit is not begun. ERROR is a result that the machine
# earned: it is counted, but no failure of this test. Every busy process has its own session, since
# Linux may share cores among sessions first.
set -eu
. "$(dirname "$0")/lib.sh"
seconds=${2-600}
has=$(nproc)
cores=${3-$([ "$has" -gt 1 ] && echo "1 $([ "$has" -gt 2 ] && echo 2) $has" || echo 1)}
loads=${4-0 4 17 x4 x17}
command -v taskset >/dev/null && command -v setsid >/dev/null || {
    echo "skipped: no taskset or setsid"
    exit 77
}
allowed=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) print i }')

busy=
calm() {
    for pid in $busy; do kill "$pid" 2>/dev/null || true; done
    busy=
}
trap 'calm; rm -rf "$tmp"' EXIT
trap 'exit 2' INT TERM

lay() { # NAME CLASS CHALLENGE LANGUAGE FILE...
    to=$tmp/tree/$1/$3
    mkdir -p "$to"
    entry="\"name\": \"$1\", \"author\": \"test\", \"challenge\": \"$3\", \"class\": \"$2\", \"language\": \"$4\""
    shift 4
    cp "$@" "$to"
    sources=$(for file; do printf '"%s", ' "$(basename "$file")"; done)
    echo "{ $entry, \"sources\": [${sources%, }] }" >"$to/entry.json"
}
lay sealed sealed softmax_topk c example/entrant/softmax_topk.c
lay host host layernorm_forward c proof/honest/forward_openmp.c proof/honest/honest.h
n=2
python=$(test/python.sh || true)
[ -z "$python" ] || lay python python layernorm_forward python proof/honest/forward_einsum.py
[ -z "$python" ] || n=3

all=0 passed=0 failed=0 wrong=0
round() { # CORES LOAD OPTION...
    on=$(echo "$allowed" | head -n "$1" | paste -sd, -)
    n_cores=$1 load=$2 judges=1 judging=
    shift 2
    case $load in x*) judges=${load#x} ;; *)
        for i in $(seq "$load"); do
            setsid taskset -c "$on" sh -c 'while :; do :; done' &
            busy="$busy $!"
        done
        ;;
    esac
    rm -f "$tmp"/*.log
    for i in $(seq "$judges"); do
        setsid taskset -c "$on" "$build/touchstone" judge "$tmp/tree" --depth quick "$@" \
            --log "$tmp/$i.log" >"$tmp/$i.out" 2>&1 &
        judging="$judging $!" busy="$busy $!"
    done
    for i in $judging; do wait "$i" || true; done
    calm
    count() { cat "$tmp"/*.log | grep -c "\"verdict\":\"$1" || true; }
    p=$(count PASS) f=$(count FAIL) e=$(count ERROR) a=$(count '')
    echo "$n_cores cores, load $load$([ $# = 0 ] || echo " $*"): $a judgements, $p PASS, $f FAIL, $e ERROR"
    cat "$tmp"/*.log | grep -o '"verdict":"[^P][^}]*"text":"[^"]*"' | sort | uniq -c || true
    [ "$a" = $((p + e)) ] && [ "$a" = $((judges * n)) ] || bad=$((bad + 1))
    all=$((all + a)) passed=$((passed + p)) failed=$((failed + f)) wrong=$((wrong + e))
}

begin=$(date +%s)
longest=0
turn=0
while :; do
    for c in $cores; do
        for l in $loads; do
            from=$(date +%s)
            [ $((from - begin + longest)) -lt "$seconds" ] || break 3
            # Timed every third time: only then are there timed calls to reject for.
            if [ $((turn % 3)) = 2 ]; then round "$c" "$l"; else round "$c" "$l" --no-timing; fi
            took=$(($(date +%s) - from))
            [ $took -le $longest ] || longest=$took
        done
    done
    turn=$((turn + 1))
done
echo "weather: $all judgements, $passed PASS, $failed FAIL, $wrong ERROR"
[ "$all" -gt 0 ] && [ $bad = 0 ]
