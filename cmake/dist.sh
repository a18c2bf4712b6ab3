#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dist.sh [source] - writes the files of a release to build/dist; with `source`, the source archive alone.
#
# Everything is built from the last commit: the source archive is made from it, and the wheels from the unpacked
# archive. Two runs on one system give equal bytes, in any folder, at any time, with any umask, locale and time
# zone (doc/release.md). ISAS="aarch64 x86_64" names the instruction sets of the wheels.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(pwd -P)
fail() { echo "make dist: $*" >&2 && exit 1; }

[ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$root" ] || fail 'no git checkout; clone the repository'
dirty=$(git status --porcelain)
[ -z "$dirty" ] || fail "$(echo "$dirty" | wc -l) uncommitted or untracked files, first '$(echo "$dirty" |
    head -n 1)'; commit, stash or remove them"
version=$(sed -n 's/^project(touchstone VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
out=$root/build/dist work=$root/build/dist-work
rm -rf "$out" "$work"
mkdir -p "$out" "$work"

# What could differ between two runs
umask 022
export LC_ALL=C TZ=UTC PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
unset CFLAGS CPPFLAGS LDFLAGS CMAKE_ARGS CMAKE_GENERATOR CMAKE_C_COMPILER_LAUNCHER PYTHONPATH PIP_TARGET

# git sorts the files and gives them the time of the commit and owner 0.
name=touchstone-$version
git -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"
echo "make dist: $name.tar.gz: $(git ls-files | wc -l) files of commit $(git rev-parse --short=12 HEAD)"
[ "${1-}" != source ] || exit 0
tar xzf "$out/$name.tar.gz" -C "$work"

here=$(uname -m)
case $here in arm64) here=aarch64 ;; amd64) here=x86_64 ;; esac
isas=${ISAS:-aarch64 x86_64}
for isa in $isas; do
    case $isa in aarch64 | x86_64) ;; *) fail "ISAS: got '$isa', expected aarch64 or x86_64" ;; esac
    [ "$isa" = "$here" ] || cmake/cross.sh jansson >/dev/null
done
python3 -m venv "$work/venv" || fail 'python3 makes no virtual environment; install python3-venv'
"$work/venv/bin/pip" install -q -r cmake/dist.txt || fail 'the tools of cmake/dist.txt could not be installed'
export PATH="$work/venv/bin:$PATH"

wheel() { # ISA: build, put libgomp and jansson in, name the least glibc
    local isa=$1 options=()
    if [ "$isa" != "$here" ]; then
        options=(-C "cmake.define.CMAKE_TOOLCHAIN_FILE=$work/$name/cmake/cross.cmake" -C "cmake.define.CROSS=$isa")
    fi
    mkdir "$work/$isa"
    _PYTHON_HOST_PLATFORM=linux-$isa pip wheel -q --no-deps --no-index --no-build-isolation -w "$work/$isa" \
        -C "build-dir=$work/build-$isa" -C cmake.define.TS_CUDA=OFF -C cmake.define.CMAKE_BUILD_WITH_INSTALL_RPATH=ON \
        -C "cmake.define.CMAKE_C_FLAGS=-ffile-prefix-map='$work'=." "${options[@]}" "$work/$name" >"$work/log" 2>&1 ||
        { tail -n 30 "$work/log" >&2 && fail "the wheel of $isa was not built"; }
    auditwheel repair -w "$work/$isa" "$work/$isa"/*-linux_"$isa".whl >"$work/log" 2>&1 ||
        { cat "$work/log" >&2 && fail "auditwheel rejects the wheel of $isa"; }
    python cmake/pack.py wheel "$out" "$work/$isa"/*-manylinux_*.whl
}
for isa in $isas; do wheel "$isa"; done

(cd "$work/$name/contest" && python -c 'import setuptools.build_meta as b
b.build_wheel("'"$work"'"), b.build_sdist("'"$work"'")') >"$work/log" 2>&1 ||
    { tail -n 30 "$work/log" >&2 && fail 'the contest package was not built'; }
python cmake/pack.py wheel "$out" "$work"/touchstone_contest-*.whl
python cmake/pack.py sdist "$out" "$work"/touchstone_contest-*.tar.gz

python cmake/sbom.py "$out" "$name" "$work/$name"
(cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
rm -rf "$work"
ls -l "$out" | awk 'NF > 2 { printf "%9d  %s\n", $5, $9 }'
