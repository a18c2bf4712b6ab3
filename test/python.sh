#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python.sh - prints the path of a Python that has NumPy: $TOUCHSTONE_PYTHON, else the first python3
# on PATH that has it. Fails if there is none.
ask() { "$1" -c 'import sys, numpy; print(sys.executable)' 2>/dev/null; } # a wrapper names its interpreter
if [ -n "${TOUCHSTONE_PYTHON-}" ]; then
    ask "$TOUCHSTONE_PYTHON"
    exit
fi
IFS=:
for folder in $PATH; do
    [ ! -x "$folder/python3" ] || ! ask "$folder/python3" || exit 0
done
exit 1
