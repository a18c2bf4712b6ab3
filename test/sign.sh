#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sign.sh BUILD - tests signatures of logs: who signed is said, a log that was changed after signing is
# rejected even if all of its hashes are valid, and merged and continued logs keep their signatures.
set -eu
. "$(dirname "$0")/lib.sh"
command -v ssh-keygen >/dev/null || { echo 'skipped: no ssh-keygen' && exit 77; }
report() { "$build/touchstone" report "$@" >"$tmp/out" 2>"$tmp/err"; }
forge() { python3 -B test/forge.py "$@"; }
said() { grep -q "$1" "$tmp/out" || complain "$2: no '$1' in $(head -n 4 "$tmp/out")"; }
for who in alice bob; do
    ssh-keygen -q -t ed25519 -N '' -C '' -f "$tmp/$who"
    echo "$who@example.com $(cat "$tmp/$who.pub")" >"$tmp/$who.signers"
    ssh-keygen -l -f "$tmp/$who.pub" | cut -d ' ' -f 2 >"$tmp/$who.print"
done
alice=$(cat "$tmp/alice.print") bob=$(cat "$tmp/bob.print")

"$build/test/make_log" "$tmp/log" full
report "$tmp/log" && said '^log unsigned$' 'a log without a signature' || complain "$(cat "$tmp/err")"
forge "$tmp/log" "$tmp/signed" --sign "$tmp/alice"
report "$tmp/signed" --out "$tmp/page" --json "$tmp/json" || complain "$(cat "$tmp/err")"
said "^log signed by unknown key $alice, whole log\$" 'without signers'
grep -q "Signatures: signed by unknown key $alice" "$tmp/page/index.html" || complain 'not on the page'
grep -q "\"signed by unknown key $alice, whole log\"" "$tmp/json" || complain 'not in the JSON'
! grep -q 'has not finished' "$tmp/out" || complain 'a signature after the end hides it'
report "$tmp/signed" --signers "$tmp/alice.signers" || complain "a known key: $(cat "$tmp/err")"
said "^log signed by alice@example.com $alice, whole log\$" 'a known key'
status=0 && report "$tmp/signed" --signers "$tmp/bob.signers" || status=$?
[ $status = 1 ] || complain "a key that is not among the signers: status $status"
status=0 && report "$tmp/log" --signers "$tmp/bob.signers" || status=$?
[ $status = 1 ] && grep -q 'log: unsigned' "$tmp/err" || complain "unsigned, with signers: status $status"
status=0 && report "$tmp/signed" --signers "$tmp/none" || status=$?
[ $status = 3 ] && grep -q 'signers: .*none: No such file' "$tmp/err" || complain "no signers: $(cat "$tmp/err")"

# times divided by ten: the hashes are valid, the signature is not
forge "$tmp/signed" "$tmp/forged" --divide
status=0 && report "$tmp/forged" || status=$?
[ $status = 3 ] && grep -q 'forged: line [0-9]*: signature does not match: the log was altered' "$tmp/err" ||
    complain "a forged log: status $status, $(cat "$tmp/err")"
forge "$tmp/signed" "$tmp/dropped" --divide --drop
report "$tmp/dropped" && said '^log unsigned$' 'forged, its signature dropped'
forge "$tmp/dropped" "$tmp/other" --sign "$tmp/bob"
status=0 && report "$tmp/other" --signers "$tmp/alice.signers" || status=$?
[ $status = 1 ] && said "^log signed by unknown key $bob" 'forged, signed by another key' || complain "status $status"
sed 's/U1NIU0lH/U1NIU0lI/' "$tmp/signed" >"$tmp/bent" && forge "$tmp/bent" "$tmp/bent.log"
status=0 && report "$tmp/bent.log" || status=$?
[ $status = 3 ] || complain "a signature that is none: status $status"
status=0 && PATH=/nowhere report "$tmp/signed" || status=$?
[ $status = 0 ] && said '^log not verified: ssh-keygen was not found$' 'without ssh-keygen' || complain "status $status"

# several logs
report "$tmp/signed" "$tmp/log" && said '^1 of 2 logs unsigned$' 'merged' && said "^1 of 2 logs signed by unknown key $alice" merged

# the judge signs, and continues what it has signed
judge() { "$build/touchstone" judge --depth quick --no-timing --challenge layernorm_forward --log "$tmp/own.log" "$@" >"$tmp/out" 2>"$tmp/err"; }
judge textbook || ! grep -q 'cannot confine\|cannot judge' "$tmp/err" ||
    { echo "sign: $bad complaints; nothing can be judged here" && exit $((bad > 0)); }
rm -f "$tmp/own.log"
status=0 && judge --sign "$tmp/nobody" textbook || status=$?
[ $status = 3 ] && grep -q 'sign: .*nobody: cannot sign' "$tmp/err" && [ ! -e "$tmp/own.log" ] || complain "no key: $status, $(cat "$tmp/err")"
status=0 && PATH=/nowhere judge --sign "$tmp/alice" textbook || status=$?
[ $status = 3 ] && grep -q 'ssh-keygen was not found' "$tmp/err" || complain "no ssh-keygen: $status, $(cat "$tmp/err")"
judge --sign "$tmp/alice" textbook || complain "$(cat "$tmp/err")"
said "^log signed by unknown key $alice, whole log\$" 'its own log'
judge --resume touchstone textbook || complain "$(cat "$tmp/err")"
said '^lines [0-9]* to [0-9]* unsigned$' 'continued without a key'
judge --resume --sign "$tmp/bob" touchstone textbook || complain "$(cat "$tmp/err")"
report "$tmp/own.log" --json "$tmp/json" || complain "$(cat "$tmp/err")"
grep -q "\"signed by unknown key $alice, lines 1 to [0-9]*; signed by unknown key $bob, lines [0-9]* to [0-9]*\"" "$tmp/json" ||
    complain "two signatures: $(cat "$tmp/json")"
[ $bad = 0 ] || exit 1
echo 'sign: 0 complaints'
