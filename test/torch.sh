#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# torch.sh BUILD [DEPTH...] - PyTorch's own functions keep the common contract: every entrant of contest/entrant/torch*
# of class python gets PASS or PASS (common) at these depths (default: quick and normal), each with a fresh key.
#
# Skipped (77) where the Python that test/python.sh finds has no torch, or nothing can be judged.
set -eu
. "$(dirname "$0")/lib.sh"
shift
[ $# -eq 0 ] && set -- quick normal
python=$(test/python.sh) || { echo 'torch: skipped: no Python with NumPy' && exit 77; }
"$python" -c 'import torch' 2>/dev/null || { echo "torch: skipped: $python has no torch" && exit 77; }
[ "$("$build/touchstone" judge --selfcheck | sed -n 's/^badge: //p')" != none ] ||
    { echo 'torch: skipped: nothing can be judged here' && exit 77; }
entrants=$(grep -l '"class": "python"' contest/entrant/torch*/*/entry.json | xargs -n 1 dirname)
[ -n "$entrants" ] || { echo 'torch: no entrant of class python' >&2 && exit 1; }
for depth; do
    status=0
    TOUCHSTONE_PYTHON=$python "$build/touchstone" judge --no-timing --depth "$depth" --json "$tmp/$depth.json" \
        --log "$tmp/$depth.log" $entrants >"$tmp/out" 2>"$tmp/err" || status=$?
    echo "torch: depth $depth: $(grep -o '"verdict": *"[^"]*"' "$tmp/$depth.json" | sort | uniq -c | tr -s ' \n' ' ')"
    [ $status -eq 0 ] && continue
    cat "$tmp/out" "$tmp/err" >&2
    bad=$((bad + 1))
done
exit $((bad != 0))
