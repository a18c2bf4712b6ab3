#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ends.sh BUILD - tests that a judge killed while compiling leaves no compiler and no folder behind,
# and that a second judge does not touch the log of the first.
set -u
. "$(dirname "$0")/lib.sh"
proof/exploit/lay.sh "$tmp/exploit"
child() { cut -d ' ' -f 1 "/proc/$1/task/$1/children" 2>/dev/null; }
wait_for_compiler() { # sets the compiler's PID and folder once its subprocess runs
    last='' folder=''
    for _ in $(seq 600); do
        last=$1
        while [ -n "$(child "$last")" ]; do last=$(child "$last"); done
        folder=$(readlink "/proc/$last/cwd" || true)
        case $(cat "/proc/$last/comm" 2>/dev/null) in cc1*) return ;; esac
        sleep 0.05
    done
    complain 'no compiler was seen'
}
begin() { # LOG : a judge that compiles
    setsid "$build/touchstone" judge --depth quick --log "$tmp/$1" "$tmp/exploit/compile_bomb" >"$tmp/out" 2>&1 &
    judge=$!
    wait_for_compiler $judge
}
for signal in KILL TERM HUP; do
    begin $signal
    kill -$signal $judge
    wait $judge 2>/dev/null
    case $folder in
    /tmp/touchstone-*) ;;
    *) complain "the compiler works in $folder" ;;
    esac
    for _ in $(seq 100); do
        [ -d "/proc/$last" ] || [ -d "$folder" ] || break
        sleep 0.05
    done
    [ ! -d "/proc/$last" ] || complain "$signal: the compiler lives on"
    [ ! -d "$folder" ] || complain "$signal: $folder is still there"
done

begin log
kill -STOP $judge
"$build/touchstone" judge --log "$tmp/log" "$tmp/exploit/noop" >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status = 3 ] || complain "a second judge: status $status"
grep -q 'in use by another judge' "$tmp/err" || complain "a second judge: $(cat "$tmp/err")"
[ -s "$tmp/log" ] && [ ! -e "$tmp/log.old" ] || complain 'the log was put aside under its writer'
kill -KILL $judge
echo "ends: $bad complaints"
[ $bad = 0 ]
