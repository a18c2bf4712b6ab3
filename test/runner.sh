#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# runner.sh - the worker of Python entrants, where Python with NumPy is found.
python=${TOUCHSTONE_PYTHON:-python3}
command -v "$python" >/dev/null || { echo 'skipped: no Python' && exit 77; }
exec "$python" "$(dirname "$0")/runner.py"
