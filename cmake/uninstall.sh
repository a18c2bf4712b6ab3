#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# uninstall.sh LIST - removes the files that LIST names, one per line, and the folders that are empty
# then, except those that other software shares.
set -eu
[ -e "$1" ] || { echo "make uninstall: no $1; 'make install' writes it" >&2 && exit 1; }
while read -r file || [ -n "$file" ]; do
    rm -f "$file"
    folder=${file%/*}
    while case ${folder##*/} in bin | lib* | include | share | cmake | pkgconfig) false ;; esac &&
        rmdir "$folder" 2>/dev/null; do
        folder=${folder%/*}
    done
done <"$1"
