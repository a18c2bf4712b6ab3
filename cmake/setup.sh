#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh run|test|cuda - installs the Debian packages that this target lacks, where it may;
# elsewhere prints the one command that would, and fails only if the target cannot do without.
set -u

compiles() { # COMPILER [FLAG...], program on standard input
    command -v "$1" >/dev/null && "$@" -x c - -o /dev/null >/dev/null 2>&1
}
includes() { # HEADER
    echo "#include <$1>
int main(void) { return 0; }" | compiles cc
}
have() { # PACKAGE
    case $1 in
    build-essential) command -v cc >/dev/null && command -v c++ >/dev/null ;;
    cmake | clang | clang-format | pkg-config) command -v "$1" >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    libomp-dev) echo 'int main(void) { return 0; }' | compiles clang -fopenmp ;;
    libjansson-dev) includes jansson.h ;;
    libopenblas-dev) echo 'int main(void) { return 0; }' | compiles cc -lopenblas && includes cblas.h ;;
    libpcre2-dev) echo '#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
int main(void) { return 0; }' | compiles cc ;;
    libcmocka-dev) echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
int main(void) { return 0; }' | compiles cc ;;
    esac
}
lacking() { # PACKAGE...
    for p; do have "$p" || printf ' %s' "$p"; done
}

needed='build-essential cmake ninja-build'
case ${1-} in
cuda) wanted=$needed ;;
run) wanted="$needed libjansson-dev libopenblas-dev libpcre2-dev" ;;
test) wanted="$needed libjansson-dev libopenblas-dev libpcre2-dev libcmocka-dev pkg-config clang clang-format libomp-dev" ;;
*) echo "setup.sh: got '${1-}', expected run, test or cuda" >&2 && exit 2 ;;
esac
missing=$(lacking $wanted)
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi
if command -v apt-get >/dev/null && $sudo true 2>/dev/null; then
    echo "setup: installing$missing"
    apt() {
        $sudo env DEBIAN_FRONTEND=noninteractive timeout -k 10 "$1" apt-get -q -y -o Acquire::Retries=1 \
            -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15 -o DPkg::Lock::Timeout=60 \
            "$2" $3 </dev/null >>"$log" 2>&1
    }
    log=$(mktemp)
    { apt 60 update '' && apt 600 install "--no-install-recommends $missing"; } ||
        { tail -n 3 "$log" >&2; }
    rm -f "$log"
    missing=$(lacking $wanted)
    [ -z "$missing" ] && exit 0
fi
echo "setup: missing; install with: sudo apt-get update && sudo apt-get install -y$missing" >&2
command -v cc >/dev/null && command -v cmake >/dev/null && command -v ninja >/dev/null || exit 1
