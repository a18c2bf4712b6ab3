# SPDX-License-Identifier: Apache-2.0
"""selftest_device.py - arrays for an entry in NumPy: unchanged."""


def skip():
    """Why nothing can be tested here; None: it can."""
    return None


def to_device(array):
    return array


def from_device(array, like):
    return array
