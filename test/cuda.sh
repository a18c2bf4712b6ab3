#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda.sh test [SECONDS [PATTERN [OPTION...]]] | bench - builds with CUDA, then runs the tests (cuda.py) or the benchmarks
# that need a GPU.
#
# Detects the GPU without the program under test, and before anything is built. The tests' seconds
# count from the end of the build.
set -u
cd "$(dirname "$0")/.." || exit 2
what=$1
shift
if ! nvidia-smi -L 2>/dev/null | grep -q GPU && [ ! -e /dev/nvidia0 ]; then
    echo 'skipped: no CUDA device'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
cmake/setup.sh cuda || exit
cmake -S . -B build -G Ninja -DTS_CUDA=ON >/dev/null && cmake --build build || exit
if [ "$what" = bench ]; then
    build/bench/search_bench || exit
    [ ! -x build/test/ternary_time ] || build/test/ternary_time || exit
    build/touchstone bench --device cuda --peers torch,torch.lse,torch.compile,torch.flash,torch.cudnn || exit
    [ ! -x build/bench/train_bench ] || build/bench/train_bench || exit
    python=${TOUCHSTONE_PYTHON:-python3}
    "$python" -c 'import torch' 2>/dev/null || exit 0
    "$python" test/train_peer.py && exec "$python" bench/cross_entropy.py
    exit
fi
seconds=${1:-600} pattern=${2-}
shift $(($# < 2 ? $# : 2))
exec python3 test/cuda.py --seconds "$seconds" --only "$pattern" "$@"
