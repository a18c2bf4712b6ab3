#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sweep.sh BUILD - tests that the sweep of the CPU kernels still knows their arguments, and that its
# plot is drawn. Few points; times are not tested, since other tests run meanwhile.
set -eu
. "$(dirname "$0")/lib.sh"
python=$(test/python.sh) || exec test/skip.sh no NumPy
"$python" bench/sweep_cpu.py --library "$build/libtouchstone.so" --few --seconds 0 --above 1e9 --json "$tmp/json" >"$tmp/out"
grep -q '^[1-9][0-9]* points, 0 cliffs$' "$tmp/out" || { cat "$tmp/out" >&2 && exit 1; }
for kernel in layernorm_forward layernorm_backward rms_norm_forward rms_norm_backward softmax_topk flash_attention \
    flash_attention_backward kv_cache ternary_linear; do
    grep -q "^$kernel " "$tmp/out" || { echo "sweep: nothing about $kernel" >&2 && exit 1; }
done
"$python" bench/sweep_plot.py "$tmp/json" "$tmp/svg" --title test
[ "$(grep -c '<polyline' "$tmp/svg")" -ge 40 ] || { echo "sweep: $(grep -c '<polyline' "$tmp/svg") curves" >&2 && exit 1; }
tail -n 1 "$tmp/out"
