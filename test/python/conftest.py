# SPDX-License-Identifier: Apache-2.0
"""conftest.py - lets tests import reference.py from here."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
