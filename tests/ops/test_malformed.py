"""Malformed inputs, derived from the blocks: errors that name the op, never a crash, never
nonsense.

Each op's first sample is changed in one place at a time: types and counts while the graph is built;
ranks, sizes and index values in the step, behind placeholders of unknown shape.
"""
import contextlib
import resource

import numpy as np
import pytest
from derive import cases, fetched, own_ops

import pyflow as tf
from pyflow.framework import dtypes

FIRST = {}
for _case in cases():
    if _case.op.inputs and _case.feeds():
        FIRST.setdefault(_case.op.name, _case)
FIRST = list(FIRST.values())
CONSTRAINED = [c for c in FIRST if any(a.allowed and dtypes.string not in a.allowed for n,
                                       a in c.op.attrs.items()
                                       if any(i.type_attr == n for i in c.op.inputs))]
ODD_VALUES = (-1, -2 ** 31, 2 ** 20)
MOST_BYTES = 1 << 30        # of memory that one op's odd feeds may take


# ------------------------------------------------------------------------- while the graph is built
@pytest.mark.parametrize("case", CONSTRAINED, ids=lambda c: c.op.name)
def test_wrong_type_is_a_type_error(case):
    with tf.Graph().as_default() as graph:
        with pytest.raises((TypeError, ValueError), match=case.op.name):
            case.node(lambda a: tf.placeholder(tf.string, a.shape))
        assert not [op for op in graph.get_operations() if op.type == case.op.name]


@pytest.mark.parametrize("case", FIRST, ids=lambda c: c.op.name)
def test_wrong_arguments_are_a_type_error(case):
    with tf.Graph().as_default():
        with pytest.raises((TypeError, ValueError)):
            case.op(*[1] * (len(case.op.inputs) + len(case.op.attrs) + 1))
        with pytest.raises(TypeError, match="no_such_argument"):
            case.op(*case.arrays(), no_such_argument=1)


# -------------------------------------------------------------------------------------- in the step
def changes(array):
    """(what, changed array): other ranks and sizes, and odd values for integers."""
    yield "rank + 1", array[None]
    rest = array.shape[1:]
    yield "empty", np.zeros((0,) + rest, array.dtype)
    if array.ndim:
        yield "rank 0", array.ravel()[0] if array.size else np.zeros((), array.dtype)
        more = array[-1:] if len(array) else np.ones((1,) + rest, array.dtype)
        yield "longer", np.concatenate([array, more])
        yield "wider", np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, 1)])
    if array.dtype in (np.int32, np.int64) and array.size:
        for odd in ODD_VALUES:
            changed = array.copy()
            changed.reshape(-1)[-1] = odd
            yield f"value {odd}", changed


def _variants(case):
    feeds = case.feeds()
    for i, array in enumerate(feeds):
        if array.dtype.kind == "O":
            continue
        for what, changed in changes(array):
            yield f"input {i} {what}", feeds[:i] + [changed] + feeds[i + 1:]


@contextlib.contextmanager
def little_memory():
    """The process gets no more than MOST_BYTES: a range from -2**31 is ResourceExhausted at once,
    instead of 8 GB of numbers."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("case", FIRST, ids=lambda c: c.op.name)
def test_odd_feeds_fail_cleanly(case):
    """Each odd feed gives an OpError, or outputs of the declared types."""
    made = []

    def make(array):
        made.append(tf.placeholder(array.dtype if array.dtype.kind != "O" else tf.string))
        return made[-1]
    with tf.Graph().as_default():
        try:
            node = case.node(make)
        except ValueError as error:
            pytest.fail(f"{case.op.name} needs static shapes: {error}")
        with tf.Session() as session, little_memory():
            for what, feeds in _variants(case):
                try:
                    found = session.run(list(node.outputs), dict(zip(made, feeds)))
                except tf.errors.OpError as error:
                    assert case.op.name in str(error), f"{what}: the op is not named: {error}"
                    continue
                except (ValueError, TypeError):     # refused while feeding
                    continue
                for tensor, array in zip(node.outputs, found):
                    wanted = tensor.dtype.base_dtype.as_numpy_dtype
                    assert fetched(array).dtype == wanted, f"{what}: {fetched(array).dtype}"


def test_every_op_is_tried():
    left = {n for n, op in own_ops().items() if op.inputs and op.samples} - {c.op.name
                                                                             for c in FIRST}
    assert not left
