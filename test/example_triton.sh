#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# example_triton.sh BUILD - tests example/triton without a GPU: its self-test in Triton's interpreter, and what the
# judge says where there is no CUDA. gpu_python.sh judges it on a device.
set -u
. "$(dirname "$0")/lib.sh"
entrant=example/triton/rms_norm_forward

if ! nvidia-smi -L 2>/dev/null | grep -q GPU && [ ! -e /dev/nvidia0 ]; then
    said=$("$build/touchstone" judge $entrant --log "$tmp/log" 2>&1)
    [ "$?: $said" = "3: touchstone judge: $entrant (class python-gpu) needs a GPU: CUDA driver not found" ] || fail "the judge said $said"
    grep -qF "$said" example/README.md || fail "example/README.md: expected $said"
fi
"$build/touchstone" new "$tmp/made" --challenge rms_norm_forward --language triton >/dev/null || fail 'no scaffold'
[ "$(sed '/"name"\|"author"/d' "$tmp/made/entry.json")" = "$(sed '/"name"\|"author"/d' $entrant/entry.json)" ] ||
    fail "$entrant/entry.json differs from what touchstone new writes"
cp $entrant/rms_norm_forward.py "$tmp/made"
python=${TOUCHSTONE_PYTHON:-python3}
"$python" -c 'import numpy, torch, triton' 2>/dev/null || { echo 'skipped: no PyTorch with Triton' && exit 77; }

# On the CPU, interpreted. The interpreter cuts float32 down to bfloat16 where a GPU rounds to nearest even.
cd "$tmp/made" || exit 2
sed -i 's/\.cuda()//; s/return None if torch.cuda.is_available() else .*/return None/' selftest_device.py
cat >round.py <<'EOT'
import runpy

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter

theirs = interpreter._convert_float


def rounded(a, source, target, mode):
    if (source, target) != (tl.float32, tl.bfloat16):
        return theirs(a, source, target, mode)
    bits = np.ascontiguousarray(a).view(np.uint32)
    return np.where(np.isnan(a), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)


interpreter._convert_float = rounded
runpy.run_path("selftest.py", run_name="__main__")
EOT
TRITON_INTERPRET=1 "$python" -W ignore round.py
