#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cross.sh LIBRARY... - prints the other instruction set, x86_64 or aarch64, once this system can build for it.
#
# Installs compilers, libgomp and the libraries, of Debian's names, as root. Otherwise prints the command to run.
set -eu
case $(uname -m) in
aarch64 | arm64) other=x86_64 debian=amd64 package=x86-64 ;;
x86_64 | amd64) other=aarch64 debian=arm64 package=aarch64 ;;
*) echo "cross: $(uname -m) has no counterpart; expected x86_64 or aarch64" >&2 && exit 1 ;;
esac
packages="libgomp1:$debian gcc-$package-linux-gnu g++-$package-linux-gnu ninja-build cmake"
for library; do packages+=" lib$library-dev:$debian"; done

ready() {
    command -v "$other-linux-gnu-gcc" >/dev/null && ls /usr/lib/"$other"-linux-gnu/libgomp.so.1 >/dev/null 2>&1 || return
    for library; do ls /usr/lib/"$other"-linux-gnu/lib"${library}"*.so >/dev/null 2>&1 || return; done
}
install="dpkg --add-architecture $debian && apt-get update && apt-get install -y $packages"
if ! ready "$@" && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "cross: installing a compiler and libraries of $debian" >&2
    DEBIAN_FRONTEND=noninteractive sh -c "$install" >/dev/null 2>&1 || true
fi
ready "$@" || { echo "cross: missing; install as root with: $install" >&2 && exit 1; }
echo "$other"
