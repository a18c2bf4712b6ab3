#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unsafe.sh BUILD - tests that without some confinement no entrant runs, unless --unsafe is given.
# Each run judges one case: what confines an entrant does not depend on the case.
set -u
. "$(dirname "$0")/lib.sh"
for class in sealed host; do
    mkdir "$tmp/$class"
    printf '{"name":"right","author":"a test","challenge":"softmax_topk","class":"%s","language":"c","sources":["softmax_topk.c","number.h"]}' \
        $class >"$tmp/$class/entry.json"
    cp proof/plain/number.h proof/plain/softmax_topk.c "$tmp/$class"
done
case=$("$build/touchstone" list cases --challenge softmax_topk | grep -om1 'softmax_topk/f32/rows=[1-9][^ ]*')
[ -n "$case" ] || fail 'no case of softmax_topk in f32'
without() { # WHAT ARGUMENT... : status
    what=$1
    shift
    "$build/test/without" "$what" "$build/touchstone" judge --case "$case" --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"
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
# What every machine can do must be done, for a sealed entrant too; limits are the reader's first.
without limits "$tmp/sealed"
status=$?
[ $status = 3 ] && grep -q 'this machine cannot judge: the reader ended with status 126: RLIMIT_CPU: ' "$tmp/err" ||
    complain "sealed without limits: status $status: $(cat "$tmp/out" "$tmp/err")"
for what in capset hostname; do
    without $what "$tmp/sealed"
    status=$?
    [ $status = 3 ] && grep -q 'cannot be confined here' "$tmp/out" "$tmp/err" ||
        complain "sealed without $what: status $status: $(cat "$tmp/out" "$tmp/err")"
done
if [ "$(id -u)" = 0 ]; then # an ordinary judge's cage is in a user namespace from the beginning
    without userns "$tmp/sealed" || complain "without userns: status $?: $(cat "$tmp/err")"
    grep -q 'badge reduced' "$tmp/out" || complain 'the badge is full without user namespaces'
    "$build/test/without" userns "$build/touchstone" judge --selfcheck >"$tmp/out"
    grep -q 'NO *namespaces *no user namespace' "$tmp/out" || complain "--selfcheck without userns: $(cat "$tmp/out")"
fi
# An entrant gets no descriptor that the judge inherited. Those of class host are 0 to 3 and 6.
mkdir "$tmp/open"
sed 's/ts_softmax_topk(/solve(/' "proof/plain/softmax_topk.c" >"$tmp/open/solve.h"
cp "proof/plain/number.h" "$tmp/open"
cat >"$tmp/open/open.c" <<'END'
#include <fcntl.h>
#include "solve.h"
ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    for (int fd = 4; fd < 100; fd++)
        if (fd != 6 && fcntl(fd, F_GETFD) >= 0) return TS_E_STATE;
    return solve(a, x);
}
END
printf '{"name":"open","author":"a test","challenge":"softmax_topk","class":"host","language":"c","sources":["open.c","solve.h","number.h"]}' \
    >"$tmp/open/entry.json"
"$build/touchstone" judge --case "$case" --log "$tmp/log" "$tmp/open" 7<"$0" 8<"$0" 9<"$0" >"$tmp/out" 2>&1
grep -q 'open *host *PASS' "$tmp/out" || complain "inherited descriptors: $(cat "$tmp/out")"
without landlock "$tmp/sealed" || complain "sealed without landlock: $(cat "$tmp/err")" # sealed does not need it
without seccomp "$tmp/sealed" && complain 'sealed without seccomp was judged'
"$build/test/without" seccomp "$build/touchstone" judge --selfcheck >"$tmp/out"
grep -q 'NO *reader *no system-call filter' "$tmp/out" || complain "--selfcheck without seccomp: $(cat "$tmp/out")"
without landlock --unsafe "$tmp/host" || complain "--unsafe: status $?: $(cat "$tmp/err")"
grep -q 'right *host *PASS' "$tmp/out" || complain "--unsafe: $(cat "$tmp/out")"
grep -q 'badge reduced' "$tmp/out" || complain 'the badge is full without landlock'
# A reader that is not there, or cannot be started, is the installation's fault and no entrant's.
mkdir "$tmp/bin"
ln -s "$PWD/include" "$tmp/include"
cp "$build/touchstone" "$build/touchstone-cage" "$build/touchstone-probe.so" "$build/runner.py" "$tmp/bin"
missing() { # WHAT-IS-SAID
    for class in '' '--class host'; do # shellcheck disable=SC2086
        "$tmp/bin/touchstone" judge --depth quick --no-timing --log "$tmp/log" $class "$tmp/host" >"$tmp/out" 2>"$tmp/err"
        [ $? = 3 ] && grep -q "^touchstone judge: this machine cannot judge: the reader.*$1" "$tmp/err" ||
            complain "'$1', judge $class: $(cat "$tmp/out" "$tmp/err")"
    done
    mkdir -p "$tmp/tree/a-model/softmax_topk"
    cp "$tmp/host/"* "$tmp/tree/a-model/softmax_topk"
    "$tmp/bin/touchstone" judge --slurm "$tmp/job" "$tmp/tree" >"$tmp/out" 2>"$tmp/err"
    [ $? = 3 ] && grep -q "the reader.*$1" "$tmp/err" || complain "'$1', --slurm: $(cat "$tmp/out" "$tmp/err")"
}
missing 'touchstone-reader not found'
: >"$tmp/bin/touchstone-reader"
missing 'Permission denied'
echo "unsafe: $bad complaints"
[ $bad = 0 ]
