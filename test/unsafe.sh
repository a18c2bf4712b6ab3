#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unsafe.sh BUILD - tests that without some confinement no entrant runs, unless --unsafe is given.
set -u
. "$(dirname "$0")/lib.sh"
for class in sealed host; do
    mkdir "$tmp/$class"
    printf '{"name":"right","author":"a test","challenge":"softmax_topk","class":"%s","language":"c","sources":["softmax_topk.c","number.h"]}' \
        $class >"$tmp/$class/entry.json"
    cp test/solution/number.h test/solution/softmax_topk.c "$tmp/$class"
done
without() { # WHAT ARGUMENT... : status
    what=$1
    shift
    "$build/test/without" "$what" "$build/touchstone" judge --depth quick --no-timing --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"
}
for what in seccomp landlock namespaces mounts; do
    without $what "$tmp/host"
    status=$?
    [ $status = 77 ] && echo "skipped: no filter can be written here" && exit 77
    [ $status = 3 ] || complain "without $what: status $status: $(cat "$tmp/out" "$tmp/err")"
    grep -q "^touchstone judge: this machine cannot confine entrants: missing .*$what" "$tmp/err" ||
        complain "without $what: $(cat "$tmp/err")"
    [ "$(wc -l <"$tmp/err")" = 1 ] || complain "without $what: more than a line"
done
without landlock "$tmp/sealed" || complain "sealed without landlock: $(cat "$tmp/err")" # sealed does not need it
without seccomp "$tmp/sealed" && complain 'sealed without seccomp was judged'
without landlock --unsafe "$tmp/host" || complain "--unsafe: status $?: $(cat "$tmp/err")"
grep -q 'right *host *PASS' "$tmp/out" || complain "--unsafe: $(cat "$tmp/out")"
grep -q 'badge reduced' "$tmp/out" || complain 'the badge is full without landlock'
echo "unsafe: $bad complaints"
[ $bad = 0 ]
