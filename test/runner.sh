#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# runner.sh BUILD - tests the runner of Python entrants, if there is a Python with NumPy.
here=$(dirname "$0")
python=$("$here/python.sh") || { echo 'skipped: no Python with NumPy' && exit 77; }
exec "$python" "$here/runner.py" "$1"
