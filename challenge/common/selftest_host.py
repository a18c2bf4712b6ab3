# SPDX-License-Identifier: Apache-2.0
"""Arrays as an entry in NumPy gets them: as they are."""


def skip():
    """Why nothing can be tested here; None: it can."""
    return None


def to_device(array):
    return array


def from_device(array, like):
    return array
