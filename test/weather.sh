#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weather.sh BUILD [SECONDS [CORES [LOAD [KIND]]]] - judges correct entrants on a busy machine: none may fail.
#
# The entrants are those of proof/honest/, of all challenges and classes, with one thread and with all; of class
# python where NumPy is there. A round judges entrants of one challenge on a number of cores (CORES: "1 2", or all of
# the machine). LOAD 4 means four busy processes on the same cores, x4 four judges at once, p4 also that the judge or a
# cage is stopped for 2 to 5 s again and again. KIND: "case", 12 entrants in one case; "quick", 3 entrants in all
# cases of that depth; "timed", 2 entrants, timed, too. Rounds repeat until SECONDS (600) have passed; one more
# that would not fit is not begun. ERROR is a result that the machine earned: it is counted, and no failure of this test.
# Every busy process has its own session, since Linux may share cores among sessions first.
set -eu
. "$(dirname "$0")/lib.sh"
seconds=${2-600}
has=$(nproc)
cores=${3-$([ "$has" -gt 1 ] && echo "1 $([ "$has" -gt 2 ] && echo 2) $has" || echo 1)}
loads=${4-0 4 17 x4 p4}
kinds=${5-case case case quick timed}
command -v taskset >/dev/null && command -v setsid >/dev/null || {
    echo "skipped: no taskset or setsid"
    exit 77
}
allowed=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) print i }')

busy= pausing=
calm() {
    # A pause first, which otherwise might leave a process stopped.
    [ -z "$pausing" ] || { kill "$pausing" 2>/dev/null && wait "$pausing" || true; } 2>/dev/null
    for pid in $busy; do kill "$pid" 2>/dev/null || true; done
    busy= pausing=
}
trap 'calm; rm -rf "$tmp"' EXIT
trap 'exit 2' INT TERM

"$build/test/honest" -l "$tmp/all" >/dev/null
[ -n "$(test/python.sh || true)" ] || rm -rf "$tmp"/all/*.py "$tmp"/all/numpy_*
sed -i 's/"name": "numpy"/"name": "weather-numpy"/' "$tmp"/all/numpy_*/entry.json 2>/dev/null || true # reserved
case $(uname -m) in x86_64) rm -f "$tmp"/all/*neon* ;; *) rm -f "$tmp"/all/*avx* ;; esac
# PREFIX CHALLENGE
challenges='forward layernorm_forward
backward layernorm_backward
topk softmax_topk
kv kv_cache
tree tree_verify
beam beam_search
attention_backward flash_attention_backward
attention flash_attention
rms_backward rms_norm_backward
rms_forward rms_norm_forward
ternary_linear ternary_linear
ternary_training ternary_training
xent_logits cross_entropy_logits
xent cross_entropy'
draw() { shuf -n "$1"; }
of() { # PREFIX CHALLENGE N
    for path in "$tmp/all/$1"_* "$tmp/all/numpy_$2"; do
        # A longer prefix is another challenge's.
        case $1:$path in attention:*/attention_backward_* | xent:*/xent_logits_*) continue ;; esac
        [ ! -e "$path" ] || echo "$path"
    done | draw "$3"
}

# Stops the judge, or a cage that is not frozen, for 2 to 5 s, after as long a time.
pause_often() { # PID OF THE JUDGE
    stopped=
    trap '[ -z "$stopped" ] || kill -CONT $stopped 2>/dev/null; exit 0' TERM
    while :; do
        sleep "$(shuf -i 1-3 -n 1)"
        stopped=$1
        cage=$(pgrep -P "$1" -x touchstone-cage | head -n 1 || true)
        [ -n "$cage" ] && [ "$(shuf -i 0-1 -n 1)" = 1 ] && grep -q '^State:.[RSD]' "/proc/$cage/status" 2>/dev/null && stopped=$cage
        kill -STOP "$stopped" 2>/dev/null || exit 0
        sleep "$(shuf -i 2-5 -n 1)"
        kill -CONT "$stopped" 2>/dev/null || true
        stopped=
    done
}

all=0 passed=0 failed=0 wrong=0
round() { # CORES LOAD KIND PREFIX CHALLENGE
    on=$(echo "$allowed" | head -n "$1" | paste -sd, -)
    n_cores=$1 load=$2 kind=$3 judges=1 judging= n=12
    case $kind in quick) n=3 ;; timed) n=2 ;; esac
    of "$4" "$5" $n >"$tmp/list"
    n=$(wc -l <"$tmp/list")
    challenge=$5
    set -- --depth quick
    [ "$kind" != quick ] || set -- "$@" --no-timing
    [ "$kind" != case ] ||
        set -- --case "$("$build/touchstone" list cases --challenge "$challenge" | awk '/^check .*\/f32\// { print $2 }' | head -n 60 | draw 1)"
    while read -r path; do set -- "$@" "$path"; done <"$tmp/list"
    case $load in x*) judges=${load#x} ;; *)
        for i in $(seq "${load#p}"); do
            setsid taskset -c "$on" sh -c 'while :; do :; done' &
            busy="$busy $!"
        done
        ;;
    esac
    rm -f "$tmp"/*.log "$tmp"/*.json
    for i in $(seq "$judges"); do
        setsid taskset -c "$on" "$build/touchstone" judge "$@" --log "$tmp/$i.log" --json "$tmp/$i.json" >"$tmp/$i.out" 2>&1 &
        judging="$judging $!" busy="$busy $!"
    done
    case $load in p*) pause_often $! & pausing=$! ;; esac
    nothing=0 # judges that said which part of the machine did not let them begin
    for i in $judging; do
        wait "$i" && continue || status=$?
        [ "$status" != 3 ] || nothing=$((nothing + 1))
    done
    calm
    count() { cat "$tmp"/*.json 2>/dev/null | grep -c "\"verdict\": \"$1" || true; }
    p=$(count PASS) f=$(count FAIL) e=$(count ERROR) a=$(count '')
    none=$((judges * n - a))
    [ "$nothing" = 0 ] || [ $((none % n)) != 0 ] || a=$((a + none)) e=$((e + none))
    echo "$n_cores cores, load $load, $kind, $challenge: $a judgements, $p PASS, $f FAIL, $e ERROR"
    cat "$tmp"/*.json 2>/dev/null | grep -A 3 '"verdict": "[^P]' || true
    [ "$a" = $((p + e)) ] && [ "$a" = $((judges * n)) ] || {
        bad=$((bad + 1))
        tail -n 3 "$tmp"/*.out
    }
    all=$((all + a)) passed=$((passed + p)) failed=$((failed + f)) wrong=$((wrong + e))
}

begin=$(date +%s)
longest=0
while :; do
    for kind in $kinds; do
        for c in $cores; do
            for l in $loads; do
                from=$(date +%s)
                [ $((from - begin + longest)) -lt "$seconds" ] || break 4
                which=$(echo "$challenges" | draw 1)
                # shellcheck disable=SC2086
                round "$c" "$l" "$kind" $which
                took=$(($(date +%s) - from))
                [ $took -le $longest ] || longest=$took
            done
        done
    done
done
echo "weather: $all judgements, $passed PASS, $failed FAIL, $wrong ERROR"
[ "$all" -gt 0 ] && [ $bad = 0 ]
