#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ordinary.sh BUILD - tests that an ordinary user can judge entrants of every CPU class.
#
# Run by root, it becomes the user 65534, who may not read the folders of others: what the judge
# needs is copied. The only guarantee that such a user lacks is another user for the entrant.
set -u
. "$(dirname "$0")/lib.sh"
unshare -U true 2>/dev/null || { echo 'skipped: no user namespaces' && exit 77; }
as=()
if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null || { echo 'skipped: no setpriv' && exit 77; }
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
chmod 755 "$tmp"
mkdir -m 755 "$tmp/bin" "$tmp/entrant"
mkdir -m 777 "$tmp/log"
cp "$build"/touchstone "$build"/touchstone-* "$build/runner.py" "$tmp/bin/"
cp -r include "$tmp/include"
cp example/entrant/softmax_topk.c "$tmp/entrant/sealed.c"
cp -L "$build/libtouchstone.so" "$tmp/entrant/host.so"
echo 'int ts_softmax_topk(void) { return 0; }' >"$tmp/entrant/idle.c"
classes='sealed host'
if python=$(test/python.sh) && "${as[@]}" "$python" -c 'import numpy' 2>/dev/null; then
    cp contest/entrant/numpy/softmax_topk/softmax_topk.py "$tmp/entrant/python.py"
    classes="$classes python"
else
    echo 'no NumPy that this user may load: class python is left out'
fi
chmod -R a+rX "$tmp/bin" "$tmp/include" "$tmp/entrant"

run() { # ARGUMENT... of touchstone judge
    (cd "$tmp/log" && HOME=$tmp/log TOUCHSTONE_PYTHON=${python:-python3} "${as[@]}" ../bin/touchstone judge "$@") \
        >"$tmp/out" 2>"$tmp/err"
    status=$?
}
run --selfcheck
[ "$(grep '^  NO ' "$tmp/out" | awk '{ print $2 }')" = other-user ] ||
    complain "guarantees: $(cat "$tmp/err") $(grep '^  NO ' "$tmp/out")"

case='softmax_topk/f32/rows=9,vocab=33,k=5,pad=2,heat=100,lse=1/normal@0x5eed'
judge() { # FILE
    run --challenge softmax_topk --case "$case" --log "$1.log" "$tmp/entrant/$1"
}
for class in $classes; do
    judge "$(basename "$tmp/entrant/$class".*)"
    [ $status = 0 ] && grep -q " $class  *$class  *PASS  *1/1" "$tmp/out" ||
        complain "$class: status $status: $(cat "$tmp/err" "$tmp/out" | head -n 25)"
done
judge idle.c
[ $status = 1 ] && grep -q ' idle  *sealed  *FAIL' "$tmp/out" ||
    complain "an idle entrant: status $status: $(cat "$tmp/err" "$tmp/out" | head -n 25)"
echo "ordinary: classes $classes, $bad complaints"
[ $bad = 0 ]
