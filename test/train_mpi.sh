#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train_mpi.sh BUILD MPIRUN - tests that two and four processes train like one: the same losses up
# to rounding, from the same total batch; a checkpoint resumes; bad input ends all processes.
set -eu
. "$(dirname "$0")/lib.sh"
mpirun=$2
program=$build/touchstone
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
"$mpirun" -n 2 true 2>"$tmp/why" || { echo "skipped: $mpirun: $(head -n 1 "$tmp/why")" && exit 77; }

awk 'BEGIN {
    for (d = 0; d < 300; d++) {
        for (i = 0; i < 40; i++) printf "%s%d", i ? " " : "", (d * 7 + i * i * (d % 3 + 1)) % 97
        printf "\n\n"
    }
}' >"$tmp/text"
every=8
last() { # STEPS
    steps=$1
    all=$((2 * steps + steps / every)) # figures: a loss and a norm per step, and held-out losses
}
args="--data $tmp/text --layers 1 --width 64 --heads 4 --kv-heads 2 --head-dim 16 --ffn 96 --vocab 300 --batch 8 --accumulate 2 --length 8 --eval-every $every"
train() { # PROCESSES FOLDER ARGUMENT...
    local n=$1 folder=$2
    shift 2
    if [ "$n" = 1 ]; then "$program" train $args --steps $steps --out "$tmp/$folder" "$@"
    else "$mpirun" -n "$n" "$program" train $args --steps $steps --out "$tmp/$folder" "$@"; fi
}
# The number of figures in two logs, and their largest difference. Gradient norms are included,
# since AdamW is nearly insensitive to the scale of a gradient.
figures() { tr ',{}' '\n\n\n' <"$tmp/$1/log.jsonl" | grep -E '"(loss|norm|held_out)"'; }
apart() {
    paste <(figures "$1") <(figures "$2") |
        tr ':\t' '  ' | awk '$1 != $3 { bad = 1 } { d = $2 > $4 ? $2 - $4 : $4 - $2; if (d > most) most = d }
        END { printf "%d %.3g\n", bad ? -1 : NR, most }'
}
# Rounding may flip a ternary code, and with it a weight.
for kind in '' --ternary; do
    allowed=1e-5
    last 24
    [ -z "$kind" ] || { allowed=0.05 && last 160; } # long enough to be killed midway
    rm -rf "$tmp/one" "$tmp/two" "$tmp/four" "$tmp/other"
    train 1 one $kind >"$tmp/out"
    train 2 two $kind >"$tmp/out"
    [ "$(grep -c '^best ' "$tmp/out")" = 1 ] || fail "not one process spoke: $(cat "$tmp/out")"
    train 4 four $kind >"$tmp/out"
    train 1 other --seed 8 $kind >"$tmp/out"
    for folder in two four; do
        read -r n most <<<"$(apart one $folder)"
        echo "${kind:-float}: one process and $folder: $n figures of $steps steps differ by $most at most"
        [ "$n" = $all ] || fail "$n figures, expected $all"
        awk "BEGIN { exit !($most < $allowed) }" || fail "$folder processes: other losses"
    done
    read -r n most <<<"$(apart one other)" # proves that the comparison can fail
    awk "BEGIN { exit !($most > $allowed) }" || fail "another seed made no difference: $most"
done

# After a kill they resume bitwise; one process resumes up to rounding.
killed=$steps
for _ in 1 2 3 4 5; do # the run may end before the kill
    rm -rf "$tmp/part"
    train 2 part --ternary >/dev/null 2>&1 &
    run=$!
    for _ in $(seq 3000); do
        [ -f "$tmp/part/log.jsonl" ] && [ "$(wc -l <"$tmp/part/log.jsonl")" -gt $every ] && break
        sleep 0.01
    done
    pkill -KILL -f -- "--out $tmp/par[t]" || true # kills the processes directly: they notice the end of mpirun late
    wait $run 2>/dev/null || true
    for _ in $(seq 300); do grep -qs "$tmp/par[t]" /proc/[0-9]*/cmdline || break; sleep 0.1; done # its children notice
    killed=$(wc -l <"$tmp/part/log.jsonl")
    [ "$killed" = $steps ] || break
done
[ "$killed" -lt $steps ] || fail 'it ended before it could be killed'
cp -r "$tmp/part" "$tmp/alone"
train 2 part --ternary --resume >/dev/null
[ "$(apart two part)" = "$all 0" ] || fail "went on to other figures: $(apart two part)"
train 1 alone --ternary --resume >/dev/null
read -r n most <<<"$(apart two alone)"
awk "BEGIN { exit !($n == $all && $most < $allowed) }" || fail "one for two: $n figures, apart by $most"
if timeout 60 "$mpirun" -n 3 "$program" train $args --steps $steps --out "$tmp/three" >/dev/null 2>"$tmp/err"; then fail 'a batch of 8 by three'; fi
grep -q 'multiple of the number of processes' "$tmp/err" || fail "three: $(cat "$tmp/err")"
echo "killed after step $killed, went on to the same figures, and alone within $most"
