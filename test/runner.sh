#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# runner.sh - the worker of Python entrants, where Python with NumPy is found.
here=$(dirname "$0")
python=$("$here/python.sh") || { echo 'skipped: no Python with NumPy' && exit 77; }
exec "$python" "$here/runner.py"
