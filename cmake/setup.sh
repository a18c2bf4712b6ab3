#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh run|test|cuda - installs the packages that a target lacks.
#
# Installs by apt-get, as root or through sudo without a password. Otherwise prints the command to run,
# with the package names of the system's package manager. Fails only if the target cannot be built.
set -u
here=$(dirname "$0")

compiles() { # COMPILER [FLAG...], program on standard input
    command -v "$1" >/dev/null && "$@" -x c - -o /dev/null >/dev/null 2>&1
}
includes() { # HEADER
    echo "#include <$1>
int main(void) { return 0; }" | compiles cc
}
any() { # PROGRAM...
    for program; do command -v "$program" >/dev/null && return; done
    return 1
}
have() { # PACKAGE
    case $1 in
    build-essential) any cc && any c++ ;;
    cmake | clang | clang-format | clang-tidy | cppcheck | pkg-config) any "$1" ;;
    ninja-build) any ninja ;;
    libomp-dev) echo 'int main(void) { return 0; }' | compiles clang -fopenmp ;;
    libclang-rt-dev) echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return d && n > 9; }' |
        compiles clang -fsanitize=fuzzer,address,undefined ;;
    libjansson-dev) includes jansson.h ;;
    libopenblas-dev) echo 'int main(void) { return 0; }' | compiles cc -lopenblas &&
        { includes cblas.h || includes openblas/cblas.h; } ;;
    libpcre2-dev) echo '#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
int main(void) { return 0; }' | compiles cc ;;
    libutf8proc-dev) includes utf8proc.h ;;
    libmicrohttpd-dev) includes microhttpd.h ;;
    libcmocka-dev) echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
int main(void) { return 0; }' | compiles cc ;;
    libopenmpi-dev) any mpicc ;;
    python3) any python3 ;;
    openmpi-bin) any mpirun mpiexec ;;
    python3-numpy) "$here/../test/python.sh" >/dev/null ;;
    chromium) any chromium chromium-browser google-chrome google-chrome-stable ;;
    esac
}
lacking() { # PACKAGE...
    for p; do have "$p" || printf ' %s' "$p"; done
}

# What other managers call Debian's packages; a comma: more than one; -: none.
names() { # MANAGER PACKAGE...
    manager=$1
    shift
    awk -v manager="$manager" -v packages="$*" '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == manager) column = i }
    { there[$1] = $column }
    END {
        n = split(packages, p, " ")
        for (i = 1; i <= n; i++) {
            m = split(there[p[i]], q, ",")
            for (j = 1; j <= m; j++) if (q[j] != "-" && !seen[q[j]]++) printf " %s", q[j]
        }
    }' <<END
apt-get            dnf                  pacman         zypper                      apk                       brew
build-essential    gcc,gcc-c++,make     base-devel     gcc,gcc-c++,make            build-base,linux-headers  gcc,make
cmake              cmake                cmake          cmake                       cmake                     cmake
ninja-build        ninja-build          ninja          ninja                       samurai                   ninja
libjansson-dev     jansson-devel        jansson        libjansson-devel            jansson-dev               jansson
libopenblas-dev    openblas-devel       openblas       libopenblas_pthreads-devel  openblas-dev              openblas
libpcre2-dev       pcre2-devel          pcre2          pcre2-devel                 pcre2-dev                 pcre2
libutf8proc-dev    utf8proc-devel       libutf8proc    utf8proc-devel              utf8proc-dev              utf8proc
libmicrohttpd-dev  libmicrohttpd-devel  libmicrohttpd  libmicrohttpd-devel         libmicrohttpd-dev         libmicrohttpd
libcmocka-dev      libcmocka-devel      cmocka         libcmocka-devel             cmocka-dev                cmocka
pkg-config         pkgconf-pkg-config   pkgconf        pkg-config                  pkgconf                   pkgconf
clang              clang                clang          clang                       clang                     llvm
clang-format       clang-tools-extra    clang          clang-tools                 clang-extra-tools         clang-format
clang-tidy         clang-tools-extra    clang          clang-tools                 clang-extra-tools         llvm
cppcheck           cppcheck             cppcheck       cppcheck                    cppcheck                  cppcheck
libclang-rt-dev    compiler-rt          compiler-rt    clang                       compiler-rt               llvm
libomp-dev         libomp-devel         openmp         libomp-devel                openmp-dev                libomp
python3            python3              python         python3                     python3                   python
python3-numpy      python3-numpy        python-numpy   python3-numpy               py3-numpy                 numpy
libopenmpi-dev     openmpi-devel        openmpi        openmpi4-devel              openmpi-dev               open-mpi
openmpi-bin        openmpi              openmpi        openmpi4                    openmpi                   open-mpi
chromium           chromium             chromium       chromium                    chromium                  -
END
}
command_for() { # MANAGER PACKAGE...
    list=$(names "$@")
    if [ "$(id -u)" = 0 ]; then as=; else as='sudo '; fi
    case $1 in
    dnf | zypper) echo "$as$1 install -y$list" ;;
    pacman) echo "${as}pacman -S --needed$list" ;;
    apk) echo "${as}apk add$list" ;;
    brew) echo "brew install$list" ;;
    *) echo "${as}apt-get update && ${as}apt-get install -y$list" ;;
    esac
}

needed='build-essential cmake ninja-build'
libraries='libjansson-dev libopenblas-dev libpcre2-dev libutf8proc-dev libmicrohttpd-dev'
case ${1-} in
cuda) wanted="$needed python3" ;;
run) wanted="$needed $libraries" ;;
test) wanted="$needed $libraries libcmocka-dev pkg-config clang clang-format clang-tidy cppcheck libclang-rt-dev libomp-dev
    python3-numpy libopenmpi-dev openmpi-bin chromium" ;;
*) echo "setup.sh: got '${1-}', expected run, test or cuda" >&2 && exit 2 ;;
esac
missing=$(lacking $wanted)
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi
if any apt-get && $sudo true 2>/dev/null; then
    echo "setup: installing$missing"
    apt() { # SECONDS ARGUMENT...
        seconds=$1
        shift
        $sudo env DEBIAN_FRONTEND=noninteractive timeout -k 10 "$seconds" apt-get -q -y -o Acquire::Retries=1 \
            -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15 -o DPkg::Lock::Timeout=60 \
            -o APT::Update::Error-Mode=any "$@" </dev/null >>"$log" 2>&1
    }
    log=$(mktemp)
    limit=60 # probably no network
    apt 60 update && limit=600
    # One unknown name would keep apt-get from installing the others.
    known=$(for p in $missing; do ! apt-cache show "$p" >/dev/null 2>&1 || echo "$p"; done)
    apt $limit install --no-install-recommends $known || tail -n 3 "$log" >&2
    rm -f "$log"
    missing=$(lacking $wanted)
    [ -z "$missing" ] && exit 0
fi
manager=apt-get
for m in apt-get dnf pacman zypper apk brew; do any $m && manager=$m && break; done
echo "setup: missing; install with: $(command_for $manager $missing)" >&2
any cc && any cmake && any ninja
