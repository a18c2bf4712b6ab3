#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_python.sh BUILD - tests that entrants of class python-gpu that compile in their first call
# pass, and that compilation is not timed.
#
# On a device: Triton, CuPy and torch.compile, if installed. Without one: test/gpu_python.py with a
# fake driver.
set -u
. "$(dirname "$0")/lib.sh"
python=$(test/python.sh) || { echo 'skipped: no Python with NumPy' && exit 77; }
mkdir "$tmp/entrants"
if nvidia-smi -L 2>/dev/null | grep -q GPU || [ -e /dev/nvidia0 ]; then
    limit=1e6 # ns of a call; a kernel takes tens of us
    for name in triton cupy torch_compile; do
        "$python" -c "import ${name%_compile}" 2>/dev/null || { echo "skipped: no ${name%_compile}" && continue; }
        cp -r "contest/entrant/$name/layernorm_forward" "$tmp/entrants/$name"
        [ $name = triton ] || continue
        cp -r example/triton/rms_norm_forward "$tmp/entrants/example_triton" # a name of its own: two would be one entrant's
        sed -i 's/"name": "triton"/"name": "example_triton"/' "$tmp/entrants/example_triton/entry.json"
    done
else
    limit=1e9 # it compiles for 2 s
    stand_in
    echo 'no CUDA device: before a stand-in'
    mkdir "$tmp/entrants/one"
    cp test/gpu_python.py "$tmp/entrants/one"
    sed 's/"layernorm_forward.py"/"gpu_python.py"/; s/"cupy"/"compiles"/' contest/entrant/cupy/layernorm_forward/entry.json \
        >"$tmp/entrants/one/entry.json"
fi
[ "$(ls "$tmp/entrants")" ] || { echo 'skipped: none is installed' && exit 77; }
for entry in "$tmp"/entrants/*/entry.json; do
    sed -n 's/.*"name": *"\([^"]*\)".*/\1 python-gpu pass,common/p' "$entry" | head -n 1
done >"$tmp/expected"
echo 'plan slowest_call'
TOUCHSTONE_PYTHON=$python "$python" test/gpu_follow.py "$tmp/expected" "$tmp/log" \
    "$build/touchstone" judge --device cuda --depth quick --log "$tmp/log" "$tmp/entrants" || bad=1
sed -n 's/.*"type":"time".*"ns":\[\([^]]*\)\].*/\1/p' "$tmp/log" | tr , '\n' | sort -g >"$tmp/ns"
slowest=$(tail -n 1 "$tmp/ns")
told="slowest_call $(wc -l <"$tmp/ns") times, the slowest ${slowest:-none} ns, expected below $limit"
if awk "BEGIN { exit !(${slowest:-1e99} < $limit) }"; then echo "ok   $told"; else echo "NOT  $told" && bad=1; fi
[ $bad = 0 ]
