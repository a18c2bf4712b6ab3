# SPDX-License-Identifier: Apache-2.0
"""The command `touchstone`: the program that the wheel carries, with this Python for entrants."""
import os
import sys

from ._native import FOLDER


def path():
    """Where the program is."""
    place = os.environ.get("TOUCHSTONE_PROGRAM") or os.path.normpath(os.path.join(FOLDER, "../../bin/touchstone"))
    if not os.access(place, os.X_OK):
        raise FileNotFoundError("touchstone: %s is missing or cannot be executed; reinstall the package" % place)
    return place


def environment():
    return dict({"TOUCHSTONE_PYTHON": sys.executable}, **os.environ)


def main():
    try:
        place = path()
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execve(place, [place] + sys.argv[1:], environment())
