#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda_module.sh BUILD - the CUDA module exports what base/cuda_module.c and the tables look up, no more.
set -eu
cd "$(dirname "$0")/.."
module=$1/libtouchstone_cuda.so
[ -e "$module" ] || { echo 'skipped: no CUDA module was built (no nvcc)'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
{
    echo ts_cuda_module
    sed -n 's/.*TS_CUDA.*"\(ts_[a-z0-9_]*\)".*/\1/p' kernel/*/*.c
} | sort -u >"$tmp/looked_up"
nm -D --defined-only "$module" | awk '{ print $3 }' | sort -u >"$tmp/exported"
missing=$(comm -23 "$tmp/looked_up" "$tmp/exported")
[ -z "$missing" ] || { echo "cuda_module: not exported: $missing" >&2 && exit 1; }
# Beyond those, only the workspace query of each.
extra=$(sed 's/_workspace$//' "$tmp/exported" | sort -u | comm -23 - "$tmp/looked_up")
[ -z "$extra" ] || { echo "cuda_module: exported, but nobody looks them up: $extra" >&2 && exit 1; }
echo "$(wc -l <"$tmp/exported") symbols exported"
