#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_sanitize.sh BUILD - tests `judge --sanitize` on a device: three correct entrants, each with a
# flaw that only compute-sanitizer finds, and a clean one.
#
# Without that tool or a GPU, a fake script that reports a race each time tests how the judge
# handles a finding.
set -u
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/local/cuda/bin
lay() { proof/exploit/gpu/lay.sh "$tmp/entrants/$1" "$1" sealed-gpu "${2-$1}"; } # NAME [SOURCE]
expect() { # NAME TOOL PATTERN, of the verdict's row, as soon as it is there
    row='no verdict'
    while :; do
        running=0
        kill -0 "$judge" 2>/dev/null && running=1 # before the look, so that the last one sees everything
        id=$(sed -n "s/.*\"type\":\"entrant\".*\"id\":\([0-9]*\),\"name\":\"$1\".*/\1/p" "$tmp/log" 2>/dev/null)
        if [ "$id" ] && grep '"type":"verdict"' "$tmp/log" | grep "\"entrant\":$id," >"$tmp/verdict"; then
            row=$(sed -n "s/.*\"compute_sanitizer\":{[^}]*\"$2\":\"\([^\"]*\)\".*/\1/p" "$tmp/verdict")
            break
        fi
        [ $running = 1 ] || break
        sleep 1
    done
    # shellcheck disable=SC2254 # it is a pattern
    case $row in
    $3) echo "ok   $1.$2 $row" ;;
    *) echo "NOT  $1.$2 '$row', expected $3" && bad=$((bad + 1)) ;;
    esac
}
lay clean plain_sealed
if { nvidia-smi -L 2>/dev/null | grep -q GPU || [ -e /dev/nvidia0 ]; } && command -v compute-sanitizer >/dev/null; then
    lay race
    lay unset
    lay read_page
    echo 'plan clean.memcheck clean.racecheck clean.initcheck clean.synccheck race.racecheck read_page.memcheck unset.initcheck'
    "$build/touchstone" judge --sanitize --no-timing --depth quick --log "$tmp/log" "$tmp/entrants" >"$tmp/out" 2>"$tmp/err" &
    judge=$!
    for tool in memcheck racecheck initcheck synccheck; do expect clean $tool passed; done
    expect race racecheck 'failed: *ace*'
    expect read_page memcheck 'failed: Invalid *read*'
    expect unset initcheck 'failed: Uninitialized *'
    wait $judge
    status=$?
    [ $status -le 1 ] || { cat "$tmp/err" && fail "the judge ended with status $status"; }
    [ $bad = 0 ]
    exit
fi

echo 'no CUDA device, or no compute-sanitizer: a script in its place'
echo 'plan clean.racecheck'
cat >"$tmp/tool" <<'END'
#!/bin/sh
# --tool TOOL --error-exitcode N PROGRAM...
tool=$2 found=$4
shift 4
"$@" || exit
[ "$tool" = racecheck ] || exit 0
printf '========= COMPUTE-SANITIZER\n========= Error: Race reported\n=========     at somewhere\n'
exit "$found"
END
chmod +x "$tmp/tool"
TOUCHSTONE_SANITIZER=$tmp/tool
export TOUCHSTONE_SANITIZER
stand_in
one=$("$build/touchstone" list cases --seed 7 | sed -n 's/.*\(layernorm_forward.f32.rows=[2-9],cols=[0-9]\{2,3\},.*normal@.*\)/\1/p' | head -n 1)
"$build/touchstone" judge --sanitize --case "$one" "$tmp/entrants/clean" >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status -le 1 ] || { cat "$tmp/err" && fail "the judge ended with status $status"; }
# Three tools and the repeat of a call passed, one tool did not.
if grep -q ' clean .* PASS .* 4/5 ' "$tmp/out" && grep -q 'clean: racecheck: Error: Race reported$' "$tmp/out"; then
    echo 'ok   clean.racecheck'
    exit
fi
echo 'NOT  clean.racecheck'
cat "$tmp/out"
exit 1
