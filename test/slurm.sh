#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# slurm.sh BUILD [whole] - the job that `judge --slurm` writes: its shards, its errors, and one of its
# tasks, run twice without Slurm.
#
# whole: judges answers to every challenge as a Slurm array on three nodes, which are three slurmd on
# this machine, and kills one node with its job in the middle of a shard. The shard must be started
# again and resumed, and the merged board must have the verdicts of a run without Slurm. Needs root,
# slurmctld, slurmd and munged (Debian: slurm-wlm, munge). Takes 5 to 10 minutes: Slurm waits for half
# a minute until it gives a node up, and for two more until it starts its job again.
set -u
. "$(dirname "$0")/lib.sh"
judge() { "$build/touchstone" judge "$@" >"$tmp/out" 2>"$tmp/err"; }

# ---- answers to every challenge: right ones, ones that do not compile, and example/contest/ ----
mkdir -p "$tmp/answers/plain" "$tmp/answers/broken"
for file in proof/plain/*.c; do
    awk '/^#include "number.h"/ { while ((getline line <"proof/plain/number.h") > 0) print line; next } { print }' \
        $file >"$tmp/answers/plain/$(basename $file)"
    echo '#error nothing here' >"$tmp/answers/broken/$(basename $file)"
done
for model in careful chatty hasty; do cp -r example/contest/$model "$tmp/answers"; done

# ---- the job ----
refused() { # MESSAGE OPTION...
    message=$1
    shift
    judge "$@"
    [ $? = 2 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -e "$message" "$tmp/err" || fail "$*: $(cat "$tmp/err")"
}
refused '--slurm: got no entrant' --slurm "$tmp/x"
refused 'nowhere: no such file' "$tmp/nowhere" --slurm "$tmp/x"
refused '--slurm: not together with' "$tmp/answers" --slurm "$tmp/x" --log "$tmp/y"
refused 'named after no challenge' proof/exploit/tls.c --slurm "$tmp/x"
refused '--class: got' "$tmp/answers" --class tall
[ ! -e "$tmp/x" ] || fail 'a folder was made for nothing'
judge "$tmp/answers" --slurm "$tmp/shards" --no-timing --depth quick --seed 1 || fail "no job: $(cat "$tmp/err")"
[ "$(cut -d ' ' -f 1 "$tmp/shards/shards" | sort -u | wc -l)" = "$("$build/touchstone" list challenges | wc -l)" ] ||
    fail 'a challenge has no shard'
[ "$(awk '{ n += $3 } END { print n }' "$tmp/shards/shards")" = "$(find "$tmp/answers" -type f | wc -l)" ] ||
    fail 'an answer is in no shard, or in two'
log=$tmp/shards/softmax_topk.sealed.log
task=$(($(grep -n '^softmax_topk sealed' "$tmp/shards/shards" | cut -d : -f 1) - 1))
verdicts() { grep -c '"type":"verdict"' "$log" 2>/dev/null; }

if [ "${2:-}" != whole ]; then
    mkdir "$tmp/few" && mv "$tmp/answers/broken" "$tmp/few"
    judge "$tmp/few" --slurm "$tmp/shards" --no-timing --depth quick || fail "no job of few: $(cat "$tmp/err")"
    for run in first second; do
        SLURM_ARRAY_TASK_ID=$task sh "$tmp/shards/job.sh" >"$tmp/out" 2>&1
        status=$?
        [ $status = 3 ] && { echo "skipped: $(tail -n 1 "$tmp/out")" && exit 77; }
        [ $status = 0 ] || fail "exit status $status of the $run run: $(cat "$tmp/out")"
        [ "$(verdicts)" = 1 ] || fail "$(verdicts) verdicts after the $run run"
    done
    grep -q 'nothing to judge' "$tmp/out" || fail 'a finished shard was judged again'
    "$build/touchstone" report "$tmp/shards" >"$tmp/out" 2>"$tmp/err" || fail 'no report'
    grep -q 'shards have no log yet' "$tmp/err" || fail 'no word of the other shards'
    echo 'slurm: a job for every challenge; one shard of it, twice'
    exit 0
fi

# ---- whole: a cluster of three nodes ----
PATH=$PATH:/usr/sbin
for program in slurmctld slurmd sbatch munged; do
    command -v $program >/dev/null || { echo "skipped: no $program" && exit 77; }
done
[ "$(id -u)" = 0 ] || { echo 'skipped: slurmctld and slurmd need root here' && exit 77; }
chmod 711 "$tmp"
export SLURM_CONF="$tmp/slurm.conf"
fail() {
    echo "slurm: $*" >&2
    tail -n 3 "$tmp"/shards/*.out "$tmp/log/ctld.log" >&2
    exit 1
}

# Ends the processes of this cluster, by number.
end() {
    scancel -n touchstone 2>/dev/null
    for file in "$tmp"/*.pid "$tmp/munge/pid"; do
        [ ! -s "$file" ] || kill "$(cat "$file")" 2>/dev/null
    done
    sleep 1
    rm -rf "$tmp"
}
trap end EXIT
mkdir "$tmp/state" "$tmp/log" "$tmp/munge" "$tmp/spool-n1" "$tmp/spool-n2" "$tmp/spool-n3"
head -c 1024 /dev/urandom >"$tmp/munge/key"
chmod 700 "$tmp/munge/key"
chown -R munge: "$tmp/munge"
runuser -u munge -- munged --key-file="$tmp/munge/key" --socket="$tmp/munge/socket" --pid-file="$tmp/munge/pid" \
    --log-file="$tmp/munge/log" --seed-file="$tmp/munge/seed" || fail 'munged does not start'
cat >"$SLURM_CONF" <<END
ClusterName=touchstone
SlurmctldHost=localhost
SlurmctldPort=16817
SlurmUser=root
AuthInfo=socket=$tmp/munge/socket
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool-%n
SlurmctldPidFile=$tmp/ctld.pid
SlurmdPidFile=$tmp/slurmd-%n.pid
SlurmctldLogFile=$tmp/log/ctld.log
SlurmdLogFile=$tmp/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdTimeout=10
ReturnToService=2
MinJobAge=3600
MpiDefault=none
NodeName=n[1-3] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=1 RealMemory=500
PartitionName=main Nodes=n[1-3] Default=YES State=UP
END
slurmctld -c || fail 'slurmctld does not start'
for node in n1 n2 n3; do slurmd -N $node || fail "slurmd of $node does not start"; done
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(sinfo -h -o %T -N 2>/dev/null | grep -c idle)" = 3 ] && break
    sleep 1
done
[ "$(sinfo -h -o %T -N | grep -c idle)" = 3 ] || fail "not three idle nodes: $(sinfo -N)"

sbatch "$tmp/shards/job.sh" || fail 'the job was not accepted'

# ---- one node dies while it judges the shard with most entrants ----
for i in $(seq 600); do
    [ "$(verdicts)" -ge 3 ] 2>/dev/null && break
    sleep 0.5
done
before=$(verdicts)
read -r job node <<END
$(squeue -h -t R -r -o '%K %A %N' | awk -v task=$task '$1 == task { print $2, $3 }')
END
[ -n "${node:-}" ] || fail "the shard is not running: $(squeue -r)"
kill -9 "$(cat "$tmp/slurmd-$node.pid")"
# The processes of the job, and the slurmstepd that started them.
for environ in $(grep -lsz "^SLURM_JOB_ID=$job\$" /proc/[0-9]*/environ); do
    grep -qsz '^SLURM_CLUSTER_NAME=touchstone$' $environ || continue
    process=${environ%/environ}
    parent=$(awk '/^PPid/ { print $2 }' $process/status 2>/dev/null)
    grep -qs slurmstepd "/proc/$parent/comm" && kill -9 $parent
    kill -9 "${process#/proc/}" 2>/dev/null
done
cp "$log" "$tmp/cut"
rm -f "$tmp/slurmd-$node.pid"
echo "slurm: killed $node in the middle of softmax_topk, after $before verdicts"
[ "$(verdicts)" -lt "$(awk '$1 == "softmax_topk" && $2 == "sealed" { print $3 }' "$tmp/shards/shards")" ] ||
    fail 'the shard was finished before its node died'
"$build/touchstone" report "$tmp/shards" >"$tmp/half" 2>"$tmp/err" || fail "no board in the middle: $(cat "$tmp/err")"
grep -q 'has not finished' "$tmp/half" || fail 'a board of some shards looks finished'

# ---- meanwhile, the same answers in one run without Slurm ----
"$build/touchstone" judge "$tmp/answers" --no-timing --depth quick --seed 1 --log "$tmp/single.log" >"$tmp/out" 2>&1
[ $? = 1 ] || fail "the single run: $(tail -n 1 "$tmp/out")"
for i in $(seq 900); do
    restarts=$(scontrol show job $job 2>/dev/null | grep -o 'Restarts=[0-9]*')
    [ "${restarts:-Restarts=0}" = Restarts=0 ] || seen=$restarts
    [ -n "$(squeue -h)" ] || break
    sleep 1
done
[ -z "$(squeue -h)" ] || fail "still running: $(squeue -r)"
[ "${seen:-}" = Restarts=1 ] || fail "the shard of the dead node was not started again: ${seen:-no restart}"

# ---- the log was continued, and every answer judged once ----
lines=$(wc -l <"$tmp/cut") # an incomplete last line is removed
[ "$(head -n $lines "$log" | sha256sum)" = "$(head -n $lines "$tmp/cut" | sha256sum)" ] || fail 'the log was not continued'
[ "$(grep -c '"type":"run"' "$log")" = 2 ] || fail 'the shard was not resumed by one more run'
[ "$(verdicts)" = "$(grep -c '"type":"entrant"' "$log")" ] || fail 'an answer of the shard was judged twice, or never'

# NAME SAMPLE CHALLENGE VERDICT REASON of every answer.
list() {
    awk 'function of(key) { return match($0, "\"" key "\":(\"[^\"]*\"|[0-9]+)") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) : "-" }
        FNR == 1 { split("", who) }
        /"type":"entrant"/ { who[of("id")] = of("name") " " of("sample") " " of("task") }
        /"type":"verdict"/ { print who[of("entrant")], of("verdict"), of("reason") }' "$@" | sort
}
list "$tmp/single.log" >"$tmp/single"
list "$tmp"/shards/*.log >"$tmp/merged"
cmp -s "$tmp/single" "$tmp/merged" || fail "other verdicts: $(diff "$tmp/single" "$tmp/merged")"
"$build/touchstone" report "$tmp/shards" --out "$tmp/page" >"$tmp/out" 2>"$tmp/err" || fail "no merged board: $(cat "$tmp/err")"
"$build/touchstone" report "$tmp/single.log" >"$tmp/alone" || fail 'no single board'
board() { awk '/^Scoreboard/ { on = 1; next } on && /^$/ { exit } on' "$1" | cut -c 6-48 | sort; }
board "$tmp/out" >"$tmp/board"
board "$tmp/alone" | cmp -s - "$tmp/board" || fail "other boards: $(cat "$tmp/out" "$tmp/alone")"
! grep -q 'has not finished' "$tmp/out" || fail 'the merged board does not look finished'
echo "slurm: $(wc -l <"$tmp/shards/shards") shards on 3 nodes, one node killed: $(wc -l <"$tmp/merged") verdicts as in a single run"
