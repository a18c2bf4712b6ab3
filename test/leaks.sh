#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# leaks.sh COMMAND... - runs a test built with sanitizers, with or without leak detection.
#
# On aarch64 leak detection takes 4 s in every process, because the sanitizer's allocator walks all
# of a 48-bit address space. run.sh sets TOUCHSTONE_LEAKS to a number from 0 to 3, another each
# time, and one test in four detects leaks; without it all do.
if [ -n "${TOUCHSTONE_LEAKS:-}" ]; then
    number=$(printf %s "${1##*/}" | cksum | cut -d ' ' -f 1)
    [ $((number % 4)) = "$TOUCHSTONE_LEAKS" ] || export ASAN_OPTIONS=detect_leaks=0
fi
exec "$@"
