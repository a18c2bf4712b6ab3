# SPDX-License-Identifier: Apache-2.0
# program.sh - functions for scripts that test the program from outside: these get BUILD, source
# this file, and end with verdict.
set -u
. "$(dirname "$0")/lib.sh"
n=0
complain() {
    echo "${0##*/}: touchstone $args: $*" >&2
    bad=$((bad + 1))
}
run() { # STATUS ARGUMENT... : standard output in $tmp/out, standard error in $tmp/err; reads $input
    want=$1
    shift
    args=$*
    n=$((n + 1))
    "$build/touchstone" "$@" >"$tmp/out" 2>"$tmp/err" <"${input:-/dev/null}"
    got=$?
    [ $got = "$want" ] || complain "exit status $got, expected $want: $(tail -n 1 "$tmp/err")"
}
silent() { [ ! -s "$tmp/err" ] || complain "wrote to standard error: $(head -n 1 "$tmp/err")"; }
refused() { # the last run: one line on standard error, nothing on standard output
    [ ! -s "$tmp/out" ] || complain 'wrote to standard output'
    [ "$(wc -l <"$tmp/err")" = 1 ] || complain "$(wc -l <"$tmp/err") lines on standard error, expected 1"
}
shows() { grep -q -- "$1" "$tmp/out" || complain "no '$1' in the output"; }
json() { # PATH... : their values, one per line, in $tmp/values
    "$build/test/json_get" "$@" <"$tmp/out" >"$tmp/values" 2>"$tmp/err" || {
        complain "$(cat "$tmp/err")"
        return 1
    }
}
verdict() {
    echo "$n runs, $bad complaints"
    [ $bad = 0 ]
}
