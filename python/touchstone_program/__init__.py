# SPDX-License-Identifier: Apache-2.0
"""The command `touchstone`: the program that the wheel carries, with this Python for entrants. A package of its
own, so that the command need not import the kernels' module and with it PyTorch, where that is installed."""
import importlib.util
import os
import sys


def path():
    """Where the program is."""
    place = os.environ.get("TOUCHSTONE_PROGRAM")
    if not place:
        package = importlib.util.find_spec("touchstone")
        folder = package.submodule_search_locations[0] if package else ""
        place = os.path.join(folder, "bin", "touchstone")
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
