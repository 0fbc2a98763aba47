"""Nodes whose static shapes are asked of TensorFlow and of pyflow, derived from the `@op` blocks.

A node is one sample of an op with one choice of element types.  Its variants say of each input how
much is known when the node is made:

    placeholder(shape)   nothing but the shape: sizes may be None, the shape too (unknown rank)
    constant(array)      the value
    packed(array, known) a vector packed of scalars, some constant and some placeholders

A variant's key tells what was varied:

    full any none            every input of known shape, of known rank, of unknown rank
    d0.1 n0                  dimension 1 of input 0 unknown; the rank of input 0 unknown
    v:...                    as above; the inputs that say how (axes, sizes, paddings) are constants
    v1:any                   input 1 alone is a constant
    p1.0                     input 1 is packed, its element 0 unknown
    m0+ m0- m0.1+ v:m0+ ...  input 0 has a dimension more, one less, dimension 1 one larger, ...
    v:c1+ v:c1- v:c1l        the constant input 1 is 100 more, 100 less, has an element more

Invariant: variants depend on the sample alone, so that recorded answers can be told apart by key.
"""
import collections
import pathlib
import sys

import numpy as np

OPS = str(pathlib.Path(__file__).resolve().parent.parent / "ops")
if OPS not in sys.path:
    sys.path.insert(0, OPS)

from derive import Case, constant_node, type_choices  # noqa: E402

from pyflow.framework import dtypes  # noqa: E402
from pyflow.framework.op import registered_ops  # noqa: E402

Node = collections.namedtuple("Node", "id case operation inputs")    # inputs: arrays, flattened
SAMPLES = 3          # of an op: the first ones show what the others do
VALUE_ELEMENTS = 32  # an integer input of more elements is data, not a way to do something
VALUE_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


def placeholder(shape):
    return ("placeholder", None if shape is None else tuple(shape))


def constant(array):
    return ("constant", array)


def packed(array, known):
    return ("packed", array, known)


# ------------------------------------------------------------------------------------------ nodes
def nodes():
    """[Node] of all ops with samples."""
    found = []
    for name, op in registered_ops().items():
        if name.startswith("_"):
            continue                    # an op of our own: TensorFlow has no answer
        for number, sample in enumerate((op.samples or ())[:SAMPLES]):
            case, node = _constant_node(op, number, sample)
            found.append(Node(f"{name}-{number}", case, node, case.feeds()))
    return found


def _constant_node(op, number, sample):
    choices = type_choices(op, sample)
    choices.sort(key=lambda types: dtypes.float32 not in types.values())
    case = Case(op, number, sample, choices[0])
    return case, constant_node(case)


# --------------------------------------------------------------------------------------- variants
def variants(node):
    """{key: [how each input is given]}; a later variant that equals an earlier one is left out."""
    arrays = node.inputs
    values = [i for i, a in enumerate(arrays)
              if a.dtype in VALUE_TYPES and a.ndim <= 2 and a.size <= VALUE_ELEMENTS]
    data = [i for i in range(len(arrays)) if i not in values]
    found = {}
    _add_shapes(found, "", arrays, range(len(arrays)), {}, sizes=not values)
    if values:
        known = {i: constant(arrays[i]) for i in values}
        _add_shapes(found, "v:", arrays, data, known)
        if len(values) > 1:
            for i in values:
                _add_shapes(found, f"v{i}:", arrays, [k for k in range(len(arrays)) if k != i],
                            {i: constant(arrays[i])}, sizes=False)
        _add_packed(found, arrays, values, known)
        _add_wrong_values(found, arrays, values, known)
        _add_wrong_shapes(found, "v:", arrays, data, known)
    _add_wrong_shapes(found, "", arrays, range(len(arrays)), {})
    return found


def _with(arrays, fixed, changed):
    """How each input is given: as `changed` says, else as `fixed` says, else by its full shape."""
    return [changed.get(i) or fixed.get(i) or placeholder(a.shape) for i, a in enumerate(arrays)]


def _add(found, key, given):
    if not any(_same(given, other) for other in found.values()):
        found[key] = given


def _same(a, b):
    return all(x[0] == y[0] and (x[1] == y[1] if x[0] == "placeholder" else x[1] is y[1]
                                 and x[2:] == y[2:]) for x, y in zip(a, b))


def _add_shapes(found, prefix, arrays, open_inputs, fixed, sizes=True):
    ranks = {i: placeholder([None] * arrays[i].ndim) for i in open_inputs}
    unknown = {i: placeholder(None) for i in open_inputs}
    _add(found, prefix + "full", _with(arrays, fixed, {}))
    _add(found, prefix + "any", _with(arrays, fixed, ranks))
    _add(found, prefix + "none", _with(arrays, fixed, unknown))
    if not sizes:
        return
    for i in open_inputs:
        _add(found, f"{prefix}n{i}", _with(arrays, fixed, {i: unknown[i]}))
        shape = arrays[i].shape
        for j in range(len(shape)):
            partly = placeholder(shape[:j] + (None,) + shape[j + 1:])
            _add(found, f"{prefix}d{i}.{j}", _with(arrays, fixed, {i: partly}))


def _add_packed(found, arrays, values, known):
    for i in values:
        array = arrays[i]
        if array.ndim != 1 or not 0 < array.size <= 4:
            continue
        for j in range(array.size):
            mask = tuple(k != j for k in range(array.size))
            _add(found, f"p{i}.{j}", _with(arrays, known, {i: packed(array, mask)}))


def _add_wrong_values(found, arrays, values, known):
    for i in values:
        array = arrays[i]
        if array.size:
            for sign, wrong in (("+", array + 100), ("-", array - 100)):
                _add(found, f"v:c{i}{sign}",
                     _with(arrays, known, {i: constant(wrong.astype(array.dtype))}))
            longer = np.append(array, array.ravel()[-1:])
            _add(found, f"v:c{i}l", _with(arrays, known, {i: constant(longer)}))
        _add(found, f"v:c{i}r", _with(arrays, known, {i: constant(array[None])}))


def _add_wrong_shapes(found, prefix, arrays, open_inputs, fixed):
    for i in open_inputs:
        shape = arrays[i].shape
        wrong = {"+": shape + (2,)}
        if shape:
            wrong["-"] = shape[:-1]
        for j, size in enumerate(shape):
            wrong[f".{j}+"] = shape[:j] + (size + 1,) + shape[j + 1:]
        for what, changed in wrong.items():
            _add(found, f"{prefix}m{i}{what}", _with(arrays, fixed, {i: placeholder(changed)}))


def is_wrong(key):
    """Whether a variant is mis-shaped on purpose."""
    return key.rpartition(":")[2][0] in "mc"
