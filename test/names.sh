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
# characters that look alike, in one script; no case in other alphabets
alike() { # NAME ITS-DOUBLE
    rm -rf "$tmp/left" "$tmp/right"
    entry left/mine "$1"
    entry right/mine "$2"
    refused 'right/mine: has the name of left/mine, or one that looks like it' left/mine right/mine
}
alike 'rival' 'rivaI'
alike 'rival' 'riva1'
alike 'gpt-4o' 'gpt-40'
alike 'modern' 'modem'
alike 'coax' '\u0441\u043e\u0430\u0445'
alike 'TOP' '\u03a4\u039f\u03a1'
alike 'r\u0131val' 'Rival'
alike '\u01a6ival' 'rival'
alike 'la\u0253' 'lab'
alike '\u043c\u043e\u0434\u0435\u043b\u044c' '\u041c\u041e\u0414\u0415\u041b\u042c'
alike 'caf\u00e9' 'CAF\u00c9'
entry twelve/mine 'T0uchst0ne'
refused "twelve/mine: name 'T0uchst0ne': reserved" twelve
odd() { # NAME: with a character that is not visible, or that NFKC replaces
    entry odd/mine "$1"
    refused 'odd/mine: the name has a character that only looks like another' odd
}
odd 'riva\u017f'
odd 'A\u030a'
odd 'a\u3164b'
odd '12\u17b4'
odd '12\u115f'
odd '12\u180b'
odd '\u1f71'
# phonetic letters, small capitals among them, in names of the project's
odd '\u029fibrary'
odd 'libra\u0280y'
odd 'touchsto\u0274e'
odd 'jud\u0261e'
for name in numpy torch three_pass Textbook; do # built-in entrants
    entry built/mine "$name"
    refused "built/mine: name '$name': reserved" built
done
# the path of a name that is refused, in one line without terminal codes, and the reason
esc=$(printf '\033') lf='
'
answer "thirteen/ev$esc[31mil/softmax_topk.c"
refused 'thirteen/ev.u001b.31mil.*: the name has a control character' thirteen
! grep -q "$esc" "$tmp/err" || complain 'an escape reached the terminal'
answer "fourteen/new${lf}line/softmax_topk.c"
refused 'fourteen/new.u000aline.*: the name has a control character' fourteen
answer "fifteen/bad$(printf '\377')/softmax_topk.c"
refused 'fifteen/bad.ufffd.*: the name has bytes that are not UTF-8' fifteen
# two entrants next to each other, as an operator may keep them, are of two owners
entry all/alice Alice
entry all/bob Alice
refused 'all/bob: has the name of all/alice' all/alice all/bob
# one owner: samples, several challenges, other alphabets
answer nine/model/softmax_topk/sample-1.c
answer nine/model/softmax_topk/sample-2.c
answer nine/model/layernorm_forward.c
mkdir "$tmp/nine/модель" && cp "$tmp/nine/model/layernorm_forward.c" "$tmp/nine/модель/"
gate nine
[ $status = 1 ] || [ $status = 3 ] || complain "several answers of one model: status $status, $(cat "$tmp/err")"
! grep -q 'has the name of\|reserved\|the name has' "$tmp/err" || complain "$(cat "$tmp/err")"
# of one owner, by folders that are called like challenges; as a shell completes folders
entry ten/softmax_topk model
entry ten/kv_cache model
gate ten/softmax_topk/ ten/kv_cache//
[ $status = 1 ] || [ $status = 3 ] || complain "two folders with slashes at the end: status $status, $(cat "$tmp/err")"
! grep -q 'has the name of' "$tmp/err" || complain "slashes at the end: $(cat "$tmp/err")"
mkdir "$tmp/eleven" && echo '{' >"$tmp/eleven/entry.json"
gate eleven/ ten/kv_cache/
grep -q '"name":"eleven"' "$tmp/log" && grep -q 'eleven.*FAIL entry' "$tmp/out" ||
    complain "an entry that cannot be read: status $status, $(cat "$tmp/err")"
[ $bad = 0 ] || exit 1
echo 'names: 0 complaints'
