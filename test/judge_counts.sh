#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# judge_counts.sh BUILD - an entrant that failed runs on: its cases are counted by family, its faults
# by kind, and the share of cases ranks. Its reason is that of the first failure, as with --first.
set -u
. "$(dirname "$0")/lib.sh"
judge() { "$build/touchstone" judge --depth quick --no-timing --seed 7 --log "$tmp/log" "$@" >"$tmp/out" 2>"$tmp/err"; }
saw() { grep -q "$1" "$tmp/out" || complain "$2: '$1' is not in: $(cat "$tmp/out")"; }
of() { # NAME : its verdict in the log
    id=$(grep -o '"type":"entrant","id":[0-9]*,"name":"'"$1\"" "$tmp/log" | tr -dc 0-9)
    grep '"type":"verdict","entrant":'"$id," "$tmp/log"
}
verdict() { of "$1" | grep -q "$2" || complain "$1: no $2 in: $(of "$1")"; }
count() { # NAME FIELD : cases passed, run or drawn
    of "$1" | sed -n 's/.*"cases":\[\([0-9]*\),\([0-9]*\),\([0-9]*\)\].*/\'"$2"'/p'
}
reason() { of "$1" | grep -o '"verdict":"[^"]*","reason":"[^"]*","text":"[^"]*","case":"[^"]*"'; }
entrant() { # NAME SED
    mkdir -p "$tmp/$1"
    printf '{"name":"%s","author":"a test","challenge":"layernorm_forward","class":"sealed","language":"c","sources":["layernorm_forward.c","number.h"]}' \
        "$1" >"$tmp/$1/entry.json"
    cp proof/plain/number.h "$tmp/$1"
    sed "$2" proof/plain/layernorm_forward.c >"$tmp/$1/layernorm_forward.c"
    [ -z "$2" ] || ! cmp -s proof/plain/layernorm_forward.c "$tmp/$1/layernorm_forward.c" || complain "nothing was planted in $1"
}
entrant right ''
entrant all 's/const double rstd = 1 /const double rstd = 1.0002 /'
entrant few 's/const double rstd = 1 /const double rstd = (a->n_cols > 100 ? 1.0002 : 1) /'
entrant rejects 's/    return s;/    return TS_E_RANGE;/'
entrant crashes 's/    return s;/    if (!s \&\& a->n_cols > 100) *(volatile int *)0 = 1;\n    return s;/'
entrant hangs 's/    return s;/    for (volatile int on = 1; on;) {}\n    return s;/'
proof/exploit/lay.sh "$tmp/exploit"

judge "$tmp/hangs" "$tmp/all" "$tmp/rejects" "$tmp/crashes" "$tmp/few" "$tmp/right" "$tmp/exploit/ftz"
[ $? = 1 ] || complain "counts: status $?"
drawn=$(count right 3)
[ "$drawn" -gt 50 ] && [ "$(count right 1) $(count right 2)" = "$drawn $drawn" ] || complain 'a right kernel did not pass all its cases'
for name in all few; do
    [ "$(count $name 2)" = "$drawn" ] || complain "$name: $(count $name 2) of $drawn cases were run"
done
[ "$(count few 1)" -gt "$(count all 1)" ] && [ "$(count few 1)" -lt "$drawn" ] || complain "few passed $(count few 1) of $drawn cases"
# in a new cage after each crash, as far as the limit of time reaches on a busy machine
[ "$(count crashes 2)" -gt $(($(count crashes 1) + 9)) ] || complain "crashes: $(count crashes 2) of $drawn cases were run"
[ "$(count crashes 1)" -gt 9 ] && [ "$(count crashes 1)" -lt "$drawn" ] || complain "crashes passed $(count crashes 1) cases"
hung=$(count hangs 2) # three within the limit of time on an idle machine
[ "$(count hangs 1)" = 0 ] && [ "$hung" -ge 1 ] && [ "$hung" -le 3 ] || complain "hangs: $hung cases were run"
[ "$(count rejects 1)" = 0 ] || complain "one that rejects every call passed $(count rejects 1) cases"
verdict crashes '"reason":"crash".*"families":{.*"normal":\[[1-9][0-9]*,[1-9].*"faults":\[{"reason":"crash"[^]]*"n":[1-9][0-9]'
verdict all '"faults":\[{"reason":"value"[^}]*"family":"[a-z].*},{"reason":"value"' # y and rstd
verdict right '"faults":\[\],"words":""'
# every output that came back is compared, also where the call itself failed
verdict ftz '"reason":"fp".*"faults":\[{"reason":"fp"'
saw "^  1  right .* PASS  *$drawn/$drawn " 'the cases of a right kernel'
saw "^  [23]  few .* FAIL value  *$(count few 1)/$drawn " 'the share of cases does not rank'
saw '^  [56]  hangs .* FAIL hang  *0/'"$hung " 'a kernel that hangs is not the last'
saw "$hung of $(count hangs 3) cases were run" 'cases that were not run'
saw 'also, in [0-9]* cases: value: rstd' 'another fault'
grep -q "few .* FAIL value $(count few 1)/$drawn cases" "$tmp/err" || complain "no cases in: $(cat "$tmp/err")"
for name in few all crashes; do reason $name; done >"$tmp/reasons"
judge --first "$tmp/few" "$tmp/all" "$tmp/crashes"
for name in few all crashes; do
    [ "$(count $name 1)" = $(($(count $name 2) - 1)) ] && [ "$(count $name 2)" -lt "$drawn" ] ||
        complain "--first: $name passed $(count $name 1) of $(count $name 2) cases"
    reason $name
done | cmp -s - "$tmp/reasons" || complain 'with --first the reason, the text or the case is another'
echo "judge_counts: $bad complaints"
[ $bad = 0 ]
