#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh - tests cmake/setup.sh on simulated systems: a PATH with one package manager and no
# compiler.
set -eu
. "$(dirname "$0")/lib.sh"

fake() { # NAME LINE...
    name=$1
    shift
    printf '%s\n' '#!/bin/sh' "$@" >"$tmp/bin/$name"
    chmod +x "$tmp/bin/$name"
}
system() { # PROGRAM...: a PATH with these programs and those that the script itself uses
    rm -rf "$tmp/bin" "$tmp/calls"
    mkdir "$tmp/bin"
    for tool in awk chmod dirname env mktemp printf rm sh tail timeout; do
        ln -s "$(command -v $tool)" "$tmp/bin/$tool"
    done
    user 1000
    for program; do fake "$program" "echo $program \"\$@\" >>'$tmp/calls'" 'exit 1'; done
}
user() { fake id "echo $1"; }
setup() { # TARGET: prints its output and exit status
    status=0
    got=$(env -u TOUCHSTONE_PYTHON PATH="$tmp/bin" cmake/setup.sh "$1" 2>&1) || status=$?
}
expect() { # STATUS LINE WHERE
    [ "$got" = "$2" ] || complain "$3: got '$got', expected '$2'"
    [ $status = "$1" ] || complain "$3: ended with $status, expected $1"
}

while read -r manager line; do
    system "$manager"
    setup test
    expect 1 "setup: missing; install with: $line" "$manager"
    [ ! -e "$tmp/calls" ] || complain "$manager was run: $(cat "$tmp/calls")"
done <<END
apt-get sudo apt-get update && sudo apt-get install -y build-essential cmake ninja-build libjansson-dev libopenblas-dev libpcre2-dev libutf8proc-dev libmicrohttpd-dev libcmocka-dev pkg-config clang clang-format clang-tidy cppcheck libclang-rt-dev libomp-dev python3-numpy libopenmpi-dev openmpi-bin chromium
dnf sudo dnf install -y gcc gcc-c++ make cmake ninja-build jansson-devel openblas-devel pcre2-devel utf8proc-devel libmicrohttpd-devel libcmocka-devel pkgconf-pkg-config clang clang-tools-extra cppcheck compiler-rt libomp-devel python3-numpy openmpi-devel openmpi chromium
pacman sudo pacman -S --needed base-devel cmake ninja jansson openblas pcre2 libutf8proc libmicrohttpd cmocka pkgconf clang cppcheck compiler-rt openmp python-numpy openmpi chromium
zypper sudo zypper install -y gcc gcc-c++ make cmake ninja libjansson-devel libopenblas_pthreads-devel pcre2-devel utf8proc-devel libmicrohttpd-devel libcmocka-devel pkg-config clang clang-tools cppcheck libomp-devel python3-numpy openmpi4-devel openmpi4 chromium
apk sudo apk add build-base linux-headers cmake samurai jansson-dev openblas-dev pcre2-dev utf8proc-dev libmicrohttpd-dev cmocka-dev pkgconf clang clang-extra-tools cppcheck compiler-rt openmp-dev py3-numpy openmpi-dev openmpi chromium
brew brew install gcc make cmake ninja jansson openblas pcre2 utf8proc libmicrohttpd cmocka pkgconf llvm clang-format cppcheck libomp numpy open-mpi
END

# Installs only what is missing; as root without sudo; optional packages are not an error.
system dnf cc c++ cmake ninja
user 0
setup run
expect 0 'setup: missing; install with: dnf install -y jansson-devel openblas-devel pcre2-devel utf8proc-devel libmicrohttpd-devel' root

# Nothing is missing: no output.
system apt-get
for program in cc c++ cmake ninja clang clang-format clang-tidy cppcheck pkg-config mpicc mpirun google-chrome; do fake $program; done
fake python3 'echo /usr/bin/python3'
setup test
expect 0 '' complete
[ ! -e "$tmp/calls" ] || complain "complete: $(cat "$tmp/calls")"

# apt-get as root: installed packages are not requested again, and an unknown package does not block
# others.
system apt-get
user 0
fake apt-cache '[ "$2" != chromium ]'
fake apt-get "echo apt-get \"\$@\" >>'$tmp/calls'" 'case "$*" in *" install "*) ;; *) exit 0 ;; esac' \
    "for p in cc c++ cmake ninja; do printf '#!/bin/sh\n' >'$tmp/bin/'\$p && chmod +x '$tmp/bin/'\$p; done"
setup test
grep -q ' install .*build-essential .*openmpi-bin$' "$tmp/calls" || complain "installed: $(cat "$tmp/calls")"
! grep -q chromium "$tmp/calls" || complain "asked for an unknown package: $(cat "$tmp/calls")"
[ $status = 0 ] || complain "installed: ended with $status"
case $got in
*'install with: apt-get update && apt-get install -y pkg-config clang '*) ;;
*) complain "what is still missing: $got" ;;
esac

# No network: apt-get fails, and the command is printed.
system apt-get apt-cache cc c++ cmake ninja
user 0
setup run
expect 0 'setup: installing libjansson-dev libopenblas-dev libpcre2-dev libutf8proc-dev libmicrohttpd-dev
setup: missing; install with: apt-get update && apt-get install -y libjansson-dev libopenblas-dev libpcre2-dev libutf8proc-dev libmicrohttpd-dev' offline

# A GPU machine without a network: nothing is installed if all that is needed is there, and what is not needed does not
# stop it.
system apt-get apt-cache c++ cc cmake ninja python3
user 0
setup cuda
expect 0 '' 'cuda, complete'
[ ! -e "$tmp/calls" ] || complain "cuda, complete: $(cat "$tmp/calls")"
system apt-get apt-cache cc cmake ninja
user 0
setup cuda
expect 0 'setup: installing build-essential python3
setup: missing; install with: apt-get update && apt-get install -y build-essential python3' 'cuda, offline'
system apt-get apt-cache cc cmake
user 0
setup cuda
[ $status = 1 ] || complain "cuda without ninja ended with $status"

setup walk
[ $status = 2 ] || complain "an unknown target ended with $status"
exit $bad
