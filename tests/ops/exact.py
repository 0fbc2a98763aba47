"""Equality of large arrays.

Example:  `assert_same(found, wanted)`, where np.testing.assert_array_equal would look for NaN and
infinity in both arrays first, each time in a pass of its own.
"""
import numpy as np


def assert_same(found, wanted, what=""):
    """np.testing.assert_array_equal, in one pass where all elements are equal and none is NaN."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or not (found == wanted).all():
        np.testing.assert_array_equal(found, wanted, err_msg=what)
