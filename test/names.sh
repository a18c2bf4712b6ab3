#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# names.sh BUILD - tests that a name has one owner: names that are another entrant's, the project's, or look
# like another are errors before anything is judged.
set -eu
. "$(dirname "$0")/lib.sh"
gate() {
    status=0
    (cd "$tmp" && "$build/touchstone" judge --no-timing --depth quick --log "$tmp/log" "$@") >"$tmp/out" 2>"$tmp/err" || status=$?
}
refused() { # PATTERN ENTRANT... : in one line, without a log
    pattern=$1
    shift
    gate "$@"
    [ $status = 2 ] && [ ! -e "$tmp/log" ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "$pattern" "$tmp/err" ||
        complain "$*: status $status, $(cat "$tmp/err")"
}
answer() { # PATH
    mkdir -p "$(dirname "$tmp/$1")"
    echo 'int broken(void) { return }' >"$tmp/$1"
}
entry() { # FOLDER NAME
    mkdir -p "$tmp/$1"
    echo 'int broken(void) { return }' >"$tmp/$1/a.c"
    printf '{ "name": "%s", "author": "x", "challenge": "softmax_topk", "class": "sealed", "language": "c", "sources": ["a.c"] }' \
        "$2" >"$tmp/$1/entry.json"
}
answer one/rival/softmax_topk.c
answer two/rival/layernorm_forward.c
refused 'two/rival/.*: has the name of one/rival/' one two
entry three/mine 'Rival'
refused 'three/mine: has the name of one/rival/' one three
entry one/inside 'rival'
refused 'has the name of one/' one
rm -r "$tmp/one/inside"
entry four/mine 'rival '
refused 'four/mine: the name has a blank at an end' four
entry five/mine 'r\u0456val'
refused 'five/mine: the name has letters of several scripts' five
entry six/mine '\uff52ival'
refused 'six/mine: the name has a character that only looks like another' six
answer seven/textbook/softmax_topk.c
refused "seven/textbook/.*: name 'textbook': reserved" seven
entry eight/mine 'Touch-Stone'
refused "eight/mine: name 'Touch-Stone': reserved" eight
# one owner: samples, several challenges, other alphabets
answer nine/model/softmax_topk/sample-1.c
answer nine/model/softmax_topk/sample-2.c
answer nine/model/layernorm_forward.c
mkdir "$tmp/nine/модель" && cp "$tmp/nine/model/layernorm_forward.c" "$tmp/nine/модель/"
gate nine
[ $status = 1 ] || [ $status = 3 ] || complain "several answers of one model: status $status, $(cat "$tmp/err")"
! grep -q 'has the name of\|reserved\|the name has' "$tmp/err" || complain "$(cat "$tmp/err")"
# as a shell completes folders
entry ten/first model
entry ten/second model
gate ten/first/ ten/second//
[ $status = 1 ] || [ $status = 3 ] || complain "two folders with slashes at the end: status $status, $(cat "$tmp/err")"
! grep -q 'has the name of' "$tmp/err" || complain "slashes at the end: $(cat "$tmp/err")"
mkdir "$tmp/eleven" && echo '{' >"$tmp/eleven/entry.json"
gate eleven/ ten/first/
grep -q '"name":"eleven"' "$tmp/log" && grep -q 'eleven.*FAIL entry' "$tmp/out" ||
    complain "an entry that cannot be read: status $status, $(cat "$tmp/err")"
[ $bad = 0 ] || exit 1
echo 'names: 0 complaints'
