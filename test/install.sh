#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD exports|judge|pkgconfig|cmake|subdirectory|uninstall - tests an installation: installs,
# moves the prefix, uses the library from there, and uninstalls; and the library as a part of another project.
set -eu
. "$(dirname "$0")/lib.sh"

cmake --install "$1" --prefix "$tmp/first" >/dev/null
mv "$tmp/first" "$tmp/moved"
library=$(find "$tmp/moved" -name libtouchstone.so)
[ -n "$library" ] || fail 'no libtouchstone.so'
lib=${library%/*}
version=$("$tmp/moved/bin/touchstone" --version | cut -d ' ' -f 2)
abi=${version%.*} # of 0.2.1: 0.2

runs() { # PROGRAM shared|static
    "$1" || fail "$1 is wrong"
    if readelf -d "$1" | grep -q "NEEDED.*libtouchstone\.so\.$abi\]"; then kind=shared; else kind=static; fi
    [ $kind = "$2" ] || fail "$1 is linked $kind, expected $2"
}
exports() { # exports exactly the TS_API functions; every installed file is where the program looks for it
    sed -n 's/^TS_API.*[ *]\(ts_[a-z0-9_]*\)(.*/\1/p' "$tmp"/moved/include/touchstone/*.h | sort >"$tmp/promised"
    nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$tmp/exported"
    [ -s "$tmp/promised" ] || fail 'no TS_API in the headers'
    diff "$tmp/promised" "$tmp/exported" || fail 'exports differ from TS_API (<)'
    [ "$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" = libtouchstone.so."$abi" ] || fail soname
    "$tmp/moved/bin/touchstone" --help >/dev/null || fail 'the installed program does not run'
    [ -x "$tmp/moved/libexec/touchstone/touchstone-cage" ] || fail 'no cage'
    "$tmp/moved/bin/touchstone" new "$tmp/new" >/dev/null || fail 'the installed program makes no scaffold'
    [ ! -e "$1/libtouchstone_cuda.so" ] || [ -e "$lib/libtouchstone_cuda.so" ] || fail 'no CUDA module'
    for part in model train; do
        [ ! -e "$1/libtouchstone_${part}_cuda.so" ] || [ -e "$lib/libtouchstone_${part}_cuda.so" ] ||
            fail "no CUDA module of $part/"
    done
    [ -x "$tmp/moved/libexec/touchstone/touchstone-mutants" ] || fail 'no mutants to compare failed entrants with'
    [ -z "$(find "$tmp/moved" -name '*mutant*' ! -name touchstone-mutants)" ] || fail 'other mutants are installed'
    echo "$(wc -l <"$tmp/exported") symbols exported"
}
judge() { # the installed judge has the built-in entrants that the build folder's has, and they pass in one case
    case=$("$1/touchstone" list cases --challenge softmax_topk | grep -om1 'softmax_topk/f32/rows=[1-9][^ ]*')
    for program in "$1/touchstone" "$tmp/moved/bin/touchstone"; do
        "$program" judge --challenge softmax_topk --case "$case" >"$tmp/out" 2>&1 || fail "$program judge: $(cat "$tmp/out")"
        sed -n '/^softmax_topk$/,$ s/^  *[0-9=]*  \([^ ]*\)  *[a-z]*  *PASS .*/entrant \1/p' "$tmp/out" | sort >"$tmp/names"
        [ -s "$tmp/names" ] || fail "$program judges no built-in entrant"
        if [ -e "$tmp/first" ]; then diff "$tmp/first" "$tmp/names" || fail 'built-in entrants are missing (<)'
        else mv "$tmp/names" "$tmp/first"; fi
    done
    echo "$(wc -l <"$tmp/first") built-in entrants"
}
pkgconfig() {
    command -v pkg-config >/dev/null || { echo 'skipped: no pkg-config'; exit 77; }
    export PKG_CONFIG_PATH="$lib/pkgconfig"
    for language in 'cc -x c -std=c11' 'c++ -x c++ -std=c++17'; do
        $language $(pkg-config --cflags touchstone) test/consumer/consumer.c -x none \
            $(pkg-config --libs touchstone) -Wl,-rpath,"$lib" -lm -o "$tmp/shared"
        runs "$tmp/shared" shared
        $language $(pkg-config --cflags touchstone) test/consumer/consumer.c -x none \
            $(pkg-config --libs touchstone-static) -o "$tmp/static"
        runs "$tmp/static" static
    done
}
cmake_package() {
    for wanted in 0.0 "${abi%.*}.$((${abi#*.} + 1))" "$abi"; do
        if cmake -S test/consumer -B "$tmp/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/moved" -DWANTED="$wanted" \
            >"$tmp/said" 2>&1; then found=$wanted; else found=; fi
        [ "$wanted" = "$abi" ] || [ -z "$found" ] || fail "find_package(touchstone $wanted) takes $version"
    done
    [ "$found" = "$abi" ] || fail "find_package(touchstone $abi): $(cat "$tmp/said")"
    cmake --build "$tmp/build" >/dev/null
    for language in c cpp; do
        runs "$tmp/build/${language}_touchstone" shared
        runs "$tmp/build/${language}_touchstone_static" static
    done
    component unknown 'component unknown: unknown; expected cuda'
    [ -e "$lib/libtouchstone_cuda.so" ] || component cuda 'component cuda: no libtouchstone_cuda.so'
    touch "$lib/libtouchstone_cuda.so"
    component cuda ''
}
subdirectory() { # without implementations of an instruction set, which take longest to compile
    cmake -S test/consumer -B "$tmp/build" -G Ninja -DSOURCE="$PWD" -DTS_ISA=generic -DTS_CUDA=OFF \
        -DCMAKE_INSTALL_PREFIX="$tmp/other" >"$tmp/said" 2>&1 || fail "add_subdirectory: $(cat "$tmp/said")"
    cmake --build "$tmp/build" >"$tmp/said" 2>&1 || fail "add_subdirectory: $(tail "$tmp/said")"
    for language in c cpp; do
        runs "$tmp/build/${language}_touchstone" shared
        runs "$tmp/build/${language}_touchstone_static" static
    done
    [ -z "$(find "$tmp/build" -name 'touchstone-cage*')" ] || fail 'add_subdirectory builds the program'
    cmake --install "$tmp/build" >/dev/null
    [ ! -e "$tmp/other/include" ] || fail 'add_subdirectory installs files into another project'
}
component() { # NAME MESSAGE: if required, CMake rejects it with the message, or takes it; if optional, it is ignored
    for how in COMPONENTS OPTIONAL_COMPONENTS; do
        printf '%s\n' 'cmake_minimum_required(VERSION 3.21)' 'project(component LANGUAGES NONE)' \
            "find_package(touchstone REQUIRED $how $1)" 'message("cuda: ${touchstone_cuda_FOUND}")' >"$tmp/CMakeLists.txt"
        status=0
        cmake -S "$tmp" -B "$tmp/component" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/moved" >"$tmp/said" 2>&1 || status=$?
        if [ $how = COMPONENTS ] && [ -n "$2" ]; then
            [ $status != 0 ] || fail "$how $1 is taken"
            tr -s '\n ' '  ' <"$tmp/said" | grep -qF "$2" || fail "$how $1: $(cat "$tmp/said")"
        else
            [ $status = 0 ] || fail "$how $1: $(cat "$tmp/said")"
        fi
        rm -r "$tmp/component"
    done
}
uninstall() { # removes every file, and leaves what others installed
    touch "$tmp/moved/include/other.h"
    find "$tmp/moved" ! -type d ! -name other.h >"$tmp/list"
    cmake/uninstall.sh "$tmp/list"
    left=$(cd "$tmp/moved" && find . -mindepth 2 | grep -v '/cmake$\|/pkgconfig$') || true
    [ "$left" = ./include/other.h ] || fail "uninstall leaves $left"
    ! cmake/uninstall.sh "$tmp/nothing" 2>"$tmp/said" || fail 'a missing list is no error'
    grep -q 'make install' "$tmp/said" || fail "uninstall: $(cat "$tmp/said")"
}
case $2 in
exports) exports "$1" ;;
judge) judge "$1" ;;
pkgconfig) pkgconfig ;;
cmake) cmake_package ;;
subdirectory) subdirectory ;;
uninstall) uninstall ;;
esac
