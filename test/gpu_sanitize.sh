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
judge() { # ARGUMENT...
    "$build/touchstone" judge --sanitize "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status -le 1 ] || { cat "$tmp/err" && echo "gpu_sanitize: the judge ended with status $status" && exit 1; }
}
expect() { # NAME TOOL PATTERN, of the verdict's row
    id=$(sed -n "s/.*\"type\":\"entrant\".*\"id\":\([0-9]*\),\"name\":\"$1\".*/\1/p" "$tmp/log")
    row=$(grep '"type":"verdict"' "$tmp/log" | grep "\"entrant\":$id," |
        sed -n "s/.*\"compute_sanitizer\":{[^}]*\"$2\":\"\([^\"]*\)\".*/\1/p")
    # shellcheck disable=SC2254 # it is a pattern
    case $row in
    $3) echo "ok   $1 $2: $row" ;;
    *) echo "NOT  $1 $2: '$row', expected $3" && bad=$((bad + 1)) ;;
    esac
}
lay clean plain_sealed
if { nvidia-smi -L 2>/dev/null | grep -q GPU || [ -e /dev/nvidia0 ]; } && command -v compute-sanitizer >/dev/null; then
    lay race
    lay unset
    lay read_page
    judge --depth quick --log "$tmp/log" "$tmp/entrants"
    for tool in memcheck racecheck initcheck synccheck; do expect clean $tool passed; done
    expect race racecheck 'failed: *ace*'
    expect unset initcheck 'failed: Uninitialized *'
    expect read_page memcheck 'failed: Invalid *read*'
    exit $bad
fi

echo 'no CUDA device, or no compute-sanitizer: a script in its place'
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
judge --case "$one" "$tmp/entrants/clean"
# Three tools and the repeat of a call passed, one tool did not.
grep -q ' clean .* PASS .* 4/5 ' "$tmp/out" && grep -q 'clean: racecheck: Error: Race reported$' "$tmp/out" && exit
cat "$tmp/out"
exit 1
