#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge.sh BUILD - right and wrong kernels in each class before the judge; replay, resume, tampering.
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
complaints=0
complain() {
    echo "judge: $1"
    complaints=$((complaints + 1))
}
judge() { "$build/touchstone" judge --depth quick --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"; }
saw() { grep -q "$1" "$tmp/out" || complain "$2: '$1' is not in: $(cat "$tmp/out" "$tmp/err")"; }

entry() { # FOLDER NAME CLASS LANGUAGE SOURCES
    mkdir -p "$tmp/$1"
    printf '{"name":"%s","author":"a test","challenge":"softmax_topk","class":"%s","language":"%s","sources":[%s]}' \
        "$2" "$3" "$4" "$5" >"$tmp/$1/entry.json"
}
c_entry() { # FOLDER NAME CLASS SED
    entry "$1" "$2" "$3" c '"softmax_topk.c","number.h"'
    cp "$here/solution/number.h" "$tmp/$1"
    sed "$4" "$here/solution/softmax_topk.c" >"$tmp/$1/softmax_topk.c"
    [ -z "$4" ] || ! cmp -s "$here/solution/softmax_topk.c" "$tmp/$1/softmax_topk.c" ||
        complain "nothing was planted in $1"
}
wrong='s/sum += exp/sum += 1.0002 * exp/'
c_entry sealed right-sealed sealed ''
c_entry host right-host host ''
c_entry sealed-wrong wrong-sealed sealed "$wrong"
c_entry host-wrong wrong-host host "$wrong"

judge "$tmp/sealed" "$tmp/host" || complain "right kernels: status $?: $(cat "$tmp/err")"
saw 'right-sealed *sealed *PASS' 'a right sealed kernel'
saw 'right-host *host *PASS' 'a right host kernel'
for class in sealed host; do
    judge "$tmp/$class-wrong"
    [ $? = 1 ] || complain "a wrong $class kernel: status $?"
    saw "wrong-$class *$class *FAIL value" "a wrong $class kernel"
done

# the replayed case fails in the same place
case=$(grep -o '"case":"softmax_topk[^"]*"' "$tmp/log" | head -n 1 | cut -d '"' -f 4)
"$build/touchstone" judge --case "$case" "$tmp/host-wrong" >"$tmp/out" 2>"$tmp/err"
[ $? = 1 ] || complain 'a replayed flaw is gone'
saw 'FAIL value' 'the replay'

# the same verdicts follow from the key that the log reveals
"$build/touchstone" judge --replay "$tmp/log" "$tmp/host-wrong" >"$tmp/out" 2>"$tmp/err" ||
    complain "replayed from its log: status $?: $(cat "$tmp/err")"
saw '^same .*FAIL value' 'the log replayed'

# what is in the log is not judged again; what is not, is
judge --resume "$tmp/host-wrong" "$tmp/sealed"
[ "$(grep -c '"type":"verdict"' "$tmp/log")" = 2 ] || complain 'resume lost or repeated a verdict'
sed -i '2s/author/buthor/' "$tmp/log"
judge --resume "$tmp/sealed"
[ $? = 3 ] || complain 'a changed log was taken'
grep -q 'line 2' "$tmp/err" || complain "a changed log: $(cat "$tmp/err")"

judge "$tmp/nobody"
[ $? = 2 ] || complain 'nobody was judged'
[ "$(wc -l <"$tmp/err")" = 1 ] || complain 'more than a line about a wrong path'

python=${TOUCHSTONE_PYTHON:-python3}
if $python -c 'import numpy' 2>/dev/null; then
    cp -r "$here/../entrant/numpy/softmax_topk" "$tmp/python"
    cp -r "$tmp/python" "$tmp/python-wrong"
    sed -i 's/np\.exp(/1.0002 * np.exp(/' "$tmp/python-wrong/softmax_topk.py"
    judge "$tmp/python" || complain "a right Python kernel: $(cat "$tmp/out" "$tmp/err")"
    judge "$tmp/python-wrong"
    saw 'FAIL value' 'a wrong Python kernel'
else
    echo 'skipped: Python entrants: no NumPy'
fi
echo "judge: $complaints complaints"
[ $complaints = 0 ]
