#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cross.sh [CTEST ARGUMENT...] - builds for the other instruction set and runs, under QEMU, the
# tests that need no cage: unit tests, and `check` of small cases with the mutants.
#
# On aarch64 the other set is x86-64 without AVX-512, which QEMU lacks; on x86-64 it is aarch64 with
# every extension.
set -eu
cd "$(dirname "$0")/.."
other=$(cmake/cross.sh cmocka jansson pcre2 openblas utf8proc microhttpd)
if ! command -v "qemu-$other" >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y qemu-user >/dev/null 2>&1 || true
fi
command -v "qemu-$other" >/dev/null ||
    { echo 'cross: missing; install as root with: apt-get install -y qemu-user' >&2 && exit 1; }

# -cpu max: every extension that QEMU knows.
export QEMU_CPU=max
cmake -S . -B build-cross -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/cross.cmake" -DCROSS="$other" \
    -DTS_CUDA=OFF -DTS_MPI=OFF >/dev/null
cmake --build build-cross
build-cross/touchstone list impls 2>/dev/null || "qemu-$other" build-cross/touchstone list impls
# Excluded: cages do not run under QEMU, the host's compiler does not build for the other set, and
# QEMU keeps a word per page, including those between distant rows (unit_canon, unit_draw: 24 GB).
exec ctest --test-dir build-cross -j"$(nproc)" --no-tests=error --output-on-failure --timeout 3000 \
    -R '^(unit_|check_small)' \
    -E '^unit_(block|board|build|cage|canon|run|draw|fact|gpu|fake_cuda|fake_memory|log|plan_decode)$|_cuda$' "$@"
