"""Coherence of the blocks, and static shapes against what the references compute."""
import pathlib

import numpy as np
import pytest
from derive import OUTSIDE, cases, constant_node, outside_ops, own_ops, placeholder_node

from pyflow.framework.op import NOT_GIVEN

ALL = cases()
# Shapes do not depend on the element type: the first one of each sample will do.
WITH_REFERENCE = list({(c.op.name, c.number): c for c in reversed(ALL)
                       if c.op.reference is not None}.values())


@pytest.mark.parametrize("op", own_ops().values(), ids=lambda op: op.name)
def test_block_is_complete(op):
    assert op.doc.strip(), f"{op.name} has no documentation"
    assert "TF:" in op.doc, f"{op.name} does not name its source"
    for part in ("shape", "gradient", "reference", "samples"):
        given = getattr(op, part) is not NOT_GIVEN
        assert given, f"{op.name}: {part} is neither given nor declined with None"
    if op.samples is None:
        assert op.name.startswith("Placeholder"), f"{op.name} has no samples"
        return
    shapes = [np.shape(a) for s in op.samples for c in [s] for a in _arrays(op, c)]
    assert op.samples and (shapes or not op.inputs)


def _arrays(op, sample):
    case = next((c for c in ALL if c.sample is sample and c.op is op), None)
    return case.feeds() if case is not None else ()


def test_only_ops_with_a_reason_lie_outside():
    """Those have no samples, which would never run; a test that is named instead exists."""
    outside = outside_ops()
    assert not [name for name, op in outside.items() if op.samples]
    assert {op.module.removeprefix("pyflow.ops.") for op in outside.values()} == OUTSIDE.keys()
    tests = pathlib.Path(__file__).resolve().parents[1]
    assert not [test for _, test in OUTSIDE.values() if not (tests / test).is_file()]
    # TensorFlow's further versions of ops that have a block each
    versions = [op for op in outside.values() if op.module.endswith("dataset.tensorflow_ops")]
    assert 2 * len(own_ops()) > 3 * (len(outside) - len(versions))


@pytest.mark.parametrize("case", WITH_REFERENCE, ids=lambda c: c.id)
def test_static_shape_is_the_reference_s(case):
    """With constant inputs every static dimension that is known is right, and values decide
    most."""
    node = constant_node(case)
    results = case.expected()
    for tensor, array in zip(node.outputs, results):
        shape = tensor.shape
        fits = shape.is_compatible_with(np.shape(array))
        assert fits, f"static {shape}, reference {np.shape(array)}"


@pytest.mark.parametrize("case", WITH_REFERENCE, ids=lambda c: c.id)
def test_shape_of_unknown_inputs(case):
    """With placeholders of unknown dimensions or rank the shape function still holds."""
    results = case.expected()
    for shape_of in (lambda a: [None] * a.ndim, lambda a: None):
        node, _ = placeholder_node(case, shape_of)
        for tensor, array in zip(node.outputs, results):
            assert tensor.shape.is_compatible_with(np.shape(array))
