# SPDX-License-Identifier: Apache-2.0
"""Numbers among the arguments: what is no number or out of range is rejected with the argument's name."""
import math
import operator

import numpy as np

INT32_MAX = 2**31 - 1


def integer(function, name, value, least=0, most=INT32_MAX):
    """An int, of whatever can be an index (NumPy's integers, too); no bool, which would be an oversight."""
    if type(value) is not int:
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError
            value = operator.index(value)
        except TypeError:
            raise TypeError("%s: %s: got %r, expected an integer" % (function, name, value)) from None
    if value < least:
        raise ValueError("%s: %s: got %d, expected an integer >= %d" % (function, name, value, least))
    if value > most:
        raise ValueError("%s: %s: got %d, expected an integer <= %d" % (function, name, value, most))
    return value


def number(function, name, value, least, most=math.inf, open_left=False):
    """A finite number from least (or above it) to most."""
    try:
        inside = (least < value if open_left else least <= value) and value <= most and value != math.inf
    except TypeError:
        inside = True  # no number: the C module says so
    if not inside:
        if most != math.inf:
            wanted = "a number from %g to %g" % (least, most)
        else:
            wanted = "a finite number " + ("above %g" if open_left else ">= %g") % least
        raise ValueError("%s: %s: got %r, expected %s" % (function, name, value, wanted))


def epsilon(function, eps):
    number(function, "eps", eps, 0, open_left=True)


def loss_settings(function, label_smoothing, z_loss, softcap):
    number(function, "label_smoothing", label_smoothing, 0, 1)
    number(function, "z_loss", z_loss, 0)
    number(function, "softcap", softcap, 0)


def inside(function, name, indices, least, most, besides=None):
    """Raises for the first index that is out of range. For after a call has failed: it reads the array, and so
    leaves those on a device alone."""
    if indices is None or indices.__dlpack_device__()[0] != 1:
        return
    a = np.asarray(indices)
    bad = a[(a < least) | (a > most)]
    bad = bad if besides is None else bad[bad != besides]
    if bad.size:
        raise ValueError("%s: %s: got %d, expected %d to %d%s" % (
            function, name, bad.flat[0], least, most, "" if besides is None else ", or ignore_index, %d" % besides))
