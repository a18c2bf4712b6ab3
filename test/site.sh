#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# site.sh BUILD PYTHON FOLDER - lays out the Python package from BUILD in FOLDER as a wheel has it, for $PYTHONPATH.
# site.sh BUILD PYTHON FOLDER INCLUDE OBJECT - only compiles its module once more, with other headers.
set -eu
cd "$(dirname "$0")/.."
build=$1 python=$2 here=$3/touchstone/libexec/touchstone include=${4-include}
object=${5-$here/touchstone_ffi.so}
if [ $# = 3 ]; then
    mkdir -p "$3"
    cp -r python/touchstone python/touchstone_program "$3"
    cmake --install "$build" --component python --prefix "$3/touchstone" >/dev/null
    [ ! -e "$object" ] || exit 0
fi
exec cc -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -fvisibility=hidden -I"$include" -Ipython/ffi \
    -isystem "$("$python" -m tvm_ffi.config --includedir)" -isystem "$("$python" -m tvm_ffi.config --dlpack-includedir)" \
    python/ffi/*.c -L"$here" -ltouchstone -lpthread -ldl -Wl,-rpath,"$here" -o "$object"
