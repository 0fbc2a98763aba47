"""Sparse ops on places out of order, twice, at -1, beyond the shape, and none: TensorFlow's
answers, 1.15.5's and 2.21's where they differ (sparse_orders.json, which sparse_orders.py
records)."""
import json
import pathlib

import numpy as np
import pytest
import sparse_orders

import pyflow as tf

RECORDED = json.loads(pathlib.Path(__file__).with_name("sparse_orders.json").read_text())


def same(found, wanted):
    """Values within rounding; an error is an error, whatever its name, as is a process's end."""
    if isinstance(found, str) or isinstance(wanted, str):
        return isinstance(found, str) and isinstance(wanted, str)
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return found["shape"] == wanted["shape"] and np.allclose(
        found["values"], wanted["values"], rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("op", sparse_orders.ops_names(tf))
def test_as_tensorflow(op):
    different = []
    for name, places in sparse_orders.PLACES.items():
        wanted = RECORDED[f"{op} | {name}"]
        found = sparse_orders.answer(tf, op, places)
        if not any(same(found, w) for w in wanted):
            different.append((name, found, wanted))
    assert not different, "\n".join(map(str, different))
