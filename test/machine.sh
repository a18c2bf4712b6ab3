#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# machine.sh BUILD - tests that what the machine lacks is never the entrant's fault: with a temporary
# folder of any size, full or read-only, a correct entrant passes or its verdict is ERROR.
set -u
. "$(dirname "$0")/lib.sh"
unshare -m mount -t tmpfs none /tmp 2>/dev/null || { echo 'skipped: no mount namespaces' && exit 77; }
case='softmax_topk/f32/rows=9,vocab=33,k=5,pad=2,heat=100,lse=1/normal@0x5eed'
# within SIZE OPTION COMMAND... : the clone is at /mnt, and /tmp has that size
within() {
    unshare -m sh -c 'mount --make-rprivate / && mount --rbind . /mnt && mount -t tmpfs -o "size=$1" none /tmp &&
        mount -o "remount,$2" /tmp && cd /mnt && shift 2 && exec "$@"' sh "$@"
}
program=${build#"$PWD"/}/touchstone
judge() { # SIZE OPTION ENTRANT
    within "$1" "$2" "$program" judge --challenge softmax_topk --case "$case" --log /dev/shm/touchstone-$$.log "$3" \
        >"$tmp/out" 2>"$tmp/err"
    status=$?
    cat "$tmp/out" "$tmp/err" >>"$tmp/said"
    rm -f /dev/shm/touchstone-$$.log*
}
passed=0 errors=0
for size in 0k 160k 220k 260k 1000k; do
    judge $size rw example/entrant/softmax_topk.c
    case $status in
    0) passed=$((passed + 1)) ;;
    3) errors=$((errors + 1)) ;; # also if the log, which --case writes there, finds no room
    *) complain "$size: status $status: $(cat "$tmp/err" "$tmp/out" | head -n 30)" ;;
    esac
done
grep -q 'No space left on device' "$tmp/said" || complain "nothing says what lacks: $(cat "$tmp/said")"
# How much room a build takes depends on the compiler.
[ $passed -gt 0 ] && [ $errors -gt 0 ] || complain "$passed passed, $errors errors"
judge 1000k ro example/entrant/softmax_topk.c
[ $status = 3 ] && grep -q 'Read-only file system' "$tmp/err" || complain "read-only: status $status: $(cat "$tmp/out")"
for n in 12 40 256; do
    (ulimit -n $n && "$build/touchstone" judge --challenge softmax_topk --case "$case" example/entrant/softmax_topk.c) \
        >"$tmp/out" 2>"$tmp/err"
    status=$?
    if [ $n = 256 ]; then [ $status = 0 ]; else [ $status = 3 ] && ! grep -q FAIL "$tmp/out"; fi ||
        complain "$n descriptors: status $status: $(cat "$tmp/err")"
    [ $n != 40 ] || grep -q 'ulimit -n' "$tmp/err" || complain "$n descriptors: $(cat "$tmp/err")"
done
unshare -m sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$build/touchstone" judge --challenge softmax_topk \
    --case "$case" example/entrant/softmax_topk.c >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status = 3 ] && grep -q '/proc: .*mounted' "$tmp/err" || complain "no /proc: status $status: $(cat "$tmp/err")"
# A source that does not compile is the entrant's, also if it speaks of the machine.
mkdir "$tmp/e"
printf '#error No space left on device\n' >"$tmp/e/softmax_topk.c"
"$build/touchstone" judge --challenge softmax_topk --case "$case" --log "$tmp/log" "$tmp/e" >"$tmp/out" 2>&1
status=$?
[ $status = 1 ] && grep -q 'FAIL build' "$tmp/out" || complain "words alone: status $status: $(head -n 30 "$tmp/out")"
echo "machine: $passed passed, $errors errors, $bad complaints"
[ $bad = 0 ]
