# SPDX-License-Identifier: Apache-2.0
"""setup.py - the version of this package: that of Touchstone, which the CMakeLists.txt above states. A
source distribution of this package alone has it in PKG-INFO."""
import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).resolve().parent
for path, pattern in ((HERE / "PKG-INFO", r"^Version: (\S+)"),
                      (HERE.parent / "CMakeLists.txt", r"^project\(touchstone VERSION ([0-9.]+)")):
    found = path.exists() and re.search(pattern, path.read_text(), flags=re.M)
    if found:
        break
else:
    raise SystemExit("setup.py: no version; expected PKG-INFO here or Touchstone's CMakeLists.txt above")
setuptools.setup(version=found.group(1))
