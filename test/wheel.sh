#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh BUILD [TESTS] - tests the Python package, laid out from BUILD as in a wheel, with
# test/python.
#
# wheel.sh whole [OPTION...] - `pip install . OPTION...` into a fresh environment, and the same tests
# there; minutes, needs a network.
#
# Needs a Python with apache-tvm-ffi, NumPy and pytest: $TOUCHSTONE_PYTHON, python3, or an
# environment that is made for it from PyPI. Tests of PyTorch and JAX are skipped, and counted,
# where those are missing.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
skip() { echo "skipped: $*" && exit 77; }
has() { "$1" -c 'import sys, tvm_ffi, numpy, pytest; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }
make_venv() { # FOLDER PACKAGE...
    folder=$1
    shift
    python3 -m venv "$folder" >/dev/null 2>&1 && timeout 120 "$folder/bin/pip" install -q --disable-pip-version-check \
        --retries 1 --timeout 10 "$@" >"$tmp/pip" 2>&1
}

if [ "$1" = whole ]; then
    shift
    python3 -m venv "$tmp/venv"
    begin=$(date +%s)
    "$tmp/venv/bin/pip" install -q --disable-pip-version-check . pytest "$@"
    echo "pip install: $(($(date +%s) - begin)) s"
    cd "$tmp"
    "$tmp/venv/bin/touchstone" --version
    exec "$tmp/venv/bin/python" -m pytest -q -p no:cacheprovider "$root/test/python"
fi

build=$(cd "$1" && pwd)
[ -e "$build/libtouchstone.so" ] || skip 'no shared library was built'
! nm "$build/libtouchstone.so" 2>/dev/null | grep -q __asan_init || skip 'Python has no sanitizer'
python=
for p in "${TOUCHSTONE_PYTHON-}" python3 "$build/venv/bin/python"; do
    [ -z "$p" ] || ! has "$p" || { python=$p && break; }
done
if [ -z "$python" ]; then
    make_venv "$build/venv" 'apache-tvm-ffi>=0.1.15,<0.2' numpy pytest || skip 'no apache-tvm-ffi, and none could be installed'
    python=$build/venv/bin/python
fi
case $python in /*) ;; *) python=$(command -v "$python") ;; esac

site=$tmp/site
test/site.sh "$build" "$python" "$site"
export PYTHONPATH="$site" PYTHONDONTWRITEBYTECODE=1 TOUCHSTONE_PYTHON="$python"

# A module that was compiled with other structs than the library's must not be imported.
cp -r include "$tmp"
sed 's/^    double      eps; .*/    float eps, more;/' include/touchstone/layernorm.h >"$tmp/include/touchstone/layernorm.h"
test/site.sh "$build" "$python" "$site" "$tmp/include" "$tmp/other.so"
said=$(cd "$tmp" && TOUCHSTONE_FFI="$tmp/other.so" "$python" -c 'import touchstone' 2>&1) &&
    { echo 'wheel: a module with another layout was imported' >&2 && exit 1; }
case $said in
*'has another ts_layernorm_forward_args.eps than the Python module'*) ;;
*) echo "wheel: a module with another layout: got $said" >&2 && exit 1 ;;
esac

cd "$tmp"
"$python" -m pytest -q -p no:cacheprovider -rs "${2-$root/test/python}"
