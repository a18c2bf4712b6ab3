#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# version.sh BUILD - tests that CMakeLists.txt alone states the version, and that the rest derives it.
#
# No other tracked file may contain the version. Documents may: figures are of a version. But they may not
# name files of it, and CHANGELOG.md must begin with it. The program, pkg-config file, CMake package, Python
# package and soname of BUILD must have it.
set -eu
. "$(dirname "$0")/lib.sh"
version=$(sed -n 's/^project(touchstone VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
case $version in
[0-9]*.[0-9]*.[0-9]*) ;;
*) fail "CMakeLists.txt: got '$version', expected MAJOR.MINOR.PATCH in project()" ;;
esac
abi=${version%.*}

# literals FOLDER: files with the version as a number of its own, neither 10.2.0 nor 0.2.0.1
literals() {
    (cd "$1" && files | xargs -0 grep -lIE "(^|[^0-9.])$(echo "$version" | sed 's/\./\\./g')([^0-9.]|\.?$|\.[^0-9])" |
        grep -v '\.md$' | sort)
}
files() { # tracked ones; all of a folder that is no checkout
    git ls-files -z . 2>/dev/null | grep -z . ||
        find . -type f ! -path './build*' -print0 | sed -z 's:^\./::'
}
echo "a second place: $version." >"$tmp/planted"
[ "$(literals "$tmp")" = planted ] || fail 'a planted literal was not found'
found=$(literals . | tr '\n' ' ')
[ "$found" = 'CMakeLists.txt ' ] || fail "$version is in $found; expected CMakeLists.txt alone"

newest=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1) # after what is not released
[ "$newest" = "$version" ] || fail "CHANGELOG.md: the newest section is of '$newest', expected $version"
for file in README.md CONTRIBUTING.md doc/*.md example/*.md contest/*.md; do
    named=$(grep -oE 'touchstone(_contest)?-[0-9]+\.[0-9]+\.[0-9]+[-.][a-z]+' "$file" | head -n 1)
    [ -z "$named" ] || fail "$file: names $named; write <version>"
    grep -o 'find_package(touchstone [0-9.]*' "$file" | while read -r _ named; do
        [ "$named" = "$abi" ] || fail "$file: find_package(touchstone $named), expected $abi"
    done
done

same() { # WHAT GOT
    [ "$2" = "$version" ] || fail "$1: got '$2', expected $version"
    n=$((n + 1))
}
n=0
same 'touchstone --version' "$("$build/touchstone" --version | sed 's/^touchstone //')"
same touchstone.pc "$(sed -n 's/^Version: //p' "$build/touchstone.pc")"
same touchstone-config-version.cmake "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' "$build/touchstone-config-version.cmake")"
same _version.py "$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$build/_version.py")"
same libtouchstone.so "$(readlink "$build/libtouchstone.so.$abi" | sed 's/^libtouchstone.so.//')"
setup='import runpy, sys, types
sys.modules["setuptools"] = types.SimpleNamespace(setup=lambda version: print(version))
runpy.run_path("contest/setup.py")'
same contest/setup.py "$(python3 -B -c "$setup")"
echo "$version: one place, $n derived"
