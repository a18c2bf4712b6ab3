#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# contest.sh BUILD [whole] - the Inspect AI tasks of contest/ with a mock model, where inspect-ai is installed:
# in $TOUCHSTONE_INSPECT_PYTHON, else in python3. Without `whole`, only what needs no timing: seconds.
here=$(dirname "$0")
python=${TOUCHSTONE_INSPECT_PYTHON:-python3}
"$python" -c 'import inspect_ai' 2>/dev/null || { echo 'skipped: no inspect-ai' && exit 77; }
exec "$python" "$here/../contest/test/test_contest.py" "$@"
