#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda_build.sh [every] - compiles the CUDA modules without a GPU, and tests what they export.
#
# For one architecture, the one that is tested; with `every`, for all of doc/gpus.md. Hardly
# optimised: nothing here runs. Skipped if nothing changed since it last passed.
set -eu
cd "$(dirname "$0")/.."
if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then echo 'skipped: no nvcc' && exit 77; fi
kind=CHECK
[ "${1-}" != every ] || kind=EVERY
folder=build-cuda
now=$({ echo $kind && find CMakeLists.txt include base kernel model proof/mutant test/cuda_module.sh -type f \
    \( -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name CMakeLists.txt -o -name '*.sh' \) |
    LC_ALL=C sort | xargs sha256sum; } | sha256sum)
if [ "$(cat $folder/passed 2>/dev/null)" = "$now" ]; then echo 'cuda_build: unchanged since it last passed' && exit 0; fi
cmake -S . -B $folder -G Ninja -DTS_CUDA=$kind >$folder.log 2>&1 || { cat $folder.log && exit 1; }
targets=$(ninja -C $folder -t targets all | sed -n 's/^\(touchstone[a-z_]*_cuda\): phony$/\1/p')
[ -n "$targets" ] || { echo 'cuda_build: no CUDA module to build' >&2 && exit 1; }
cmake --build $folder --target $targets >$folder.log 2>&1 || { grep -v '^\[' $folder.log && exit 1; }
test/cuda_module.sh $folder
rm $folder.log
echo "$now" >$folder/passed
echo "cuda_build: compiled" $targets
