# SPDX-License-Identifier: Apache-2.0
# lib.sh - for the scripts of this folder, which source it: the root as the working directory, $build
# (their first argument) as an absolute path, a folder $tmp that is removed at the end, and complaints.
[ ! -d "${1-}" ] || build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "$(basename "$0" .sh): $*" >&2 && exit 1; }
complain() {
    echo "$(basename "$0" .sh): $*" >&2
    bad=$((bad + 1))
}
# Stand-ins for the CUDA driver and nvcc, where other users may read them: as root, the judge starts compilers and
# loads the driver as another user, who may not be allowed to enter the clone's folder.
stand_in() {
    mkdir "$tmp/stand"
    cp -r test/fake_nvcc test/fake_include test/fake_*.h "$build/test/libfake_cuda.so" "$tmp/stand"
    chmod 755 "$tmp" "$tmp/stand"
    export TOUCHSTONE_LIBCUDA="$tmp/stand/libfake_cuda.so" TOUCHSTONE_NVCC="$tmp/stand/fake_nvcc"
}
