"""What fusion has to know of shapes and constants: channels, vectors over them, equal batches.

Invariants
    1. Whatever is said of a shape holds in every step: an unknown dimension is equal to another one
       only if both come from the same dimension of the same tensor.
    2. Values are computed in float64.

Threads: pure functions; `Batches` belongs to one pass.
"""
import sys

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import text
from pyflow.passes.node import Node

# Ops whose first output has the batch (first) dimension of their first input.
_KEEPS_BATCH = frozenset("""Conv2D DepthwiseConv2dNative _FusedConv2D _FusedDepthwiseConv2dNative
    MaxPool AvgPool Relu Relu6 LeakyRelu Elu Selu Sigmoid Tanh Softplus Softsign BiasAdd BiasAddV1
    FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 LRN Identity Square Neg Exp Softmax Abs Sqrt
    ResizeBilinear ResizeNearestNeighbor StopGradient""".split())
_SUMS = frozenset(("Add", "AddV2", "Mul", "Sub", "Maximum", "Minimum"))


def dims_of(edge):
    """The static shape of an edge: a tuple of int or None, or None."""
    node, index = edge
    shape = node.shapes[index] if node.shapes else None
    return shape.as_tuple() if shape is not None else None


def is_nchw(node):
    return text(node.attrs.get("data_format", "NHWC")).startswith("NC")


def channel_axis(start):
    return 1 if start.op != "MatMul" and is_nchw(start) else -1


def channels(start):
    """How many channels a product's result has, or None."""
    dims = dims_of((start, 0))
    return dims[channel_axis(start)] if dims is not None else None


def const(name, array, like, controls=()):
    """A Const node beside `like`."""
    dtype = dtypes.as_dtype(array.dtype)
    return Node(name, "Const", (), controls, {"dtype": dtype, "value": array}, like.device,
                (dtype,), like.origin, [TensorShape(array.shape)])


_OWN_REFERENCES = 3     # to an array: the node's, own_array's, getrefcount's
_BASE_REFERENCES = 2    # to its memory: the array's, getrefcount's


def own_array(node):
    """The array of a Const as memory that may be written to, or None.  Its graph can make it again
    and has forgotten it, and nothing else refers to that memory: otherwise there is a copy."""
    graph, value = node.origin and node.origin.graph, node.attrs["value"]
    if graph is None or graph.on_array_changed is None or not _is_writable(value):
        return None
    if not graph.on_array_changed(node.origin):
        return None
    if sys.getrefcount(value) > _OWN_REFERENCES or (
            value.base is not None and sys.getrefcount(value.base) > _BASE_REFERENCES):
        return None
    value.flags.writeable = True
    return value


def _is_writable(array):
    """Whether the memory behind an array is one that a process may write to."""
    base = array.base
    return array.flags.owndata if base is None else isinstance(base, np.ndarray) and (
        base.flags.writeable and base.nbytes == array.nbytes)


_BLOCK = 1 << 16        # elements of a filter that are scaled at once: they stay in the cache
_NOTHING = 2.0 ** -88   # beside a shift: what it does is rounded away for inputs up to 2 ** 64


def scaled_filter(start, value, scale, shift=None, own=None):
    """The filter whose product is that of `value` times `scale` over the channels, computed in
    float64; in the memory of `own` if that is given.

    shift: what is added to the product; elements that are nothing beside it become zero.  Trained
    filters have channels that died: subnormal numbers, which processors multiply 100 times slower.
    """
    made = np.empty(value.shape, value.dtype) if own is None else own
    if start.op == "MatMul" and start.attrs.get("transpose_b"):
        return np.multiply(value, scale[:, None], out=made, dtype=np.float64, casting="same_kind")
    # [..., channels]; of a depthwise filter the channels are the last two axes
    rows, out = value.reshape(-1, scale.size), made.reshape(-1, scale.size)
    least = None if shift is None else (np.abs(shift) * _NOTHING).astype(value.dtype)
    step = max(_BLOCK // scale.size, 1)
    for i in range(0, len(rows), step):
        block = out[i:i + step]
        np.multiply(rows[i:i + step], scale, out=block, dtype=np.float64, casting="same_kind")
        if least is not None:
            block[np.abs(block) < least] = 0
    return made


def _vector(value, start, count):
    """A constant that, broadcast against the product's result, is a vector over the channels."""
    rank = len(dims_of((start, 0)))
    if value.ndim > rank:
        return None
    shape = (1,) * (rank - value.ndim) + value.shape
    axis = channel_axis(start) % rank
    if any(d != 1 for i, d in enumerate(shape) if i != axis) or shape[axis] not in (1, count):
        return None
    return np.broadcast_to(value.astype(np.float64).reshape(-1), (count,))


def affine(reader, node, start, count):
    """(scale, shift, the Const nodes they come from) if `reader` is node * scale + shift with
    constants over the channels, else None."""
    if reader.op.startswith("FusedBatchNorm"):
        return _norm(reader, node, start)
    if reader.op not in ("Mul", "Sub", "Add", "AddV2", "BiasAdd", "BiasAddV1"):
        return None
    first = reader.inputs[0][0] is node
    other = reader.inputs[1 if first else 0][0]
    if other.op != "Const" or reader.op == "Sub" and not first:
        return None
    value = np.asarray(other.attrs["value"])
    if reader.op.startswith("BiasAdd"):
        found = value.astype(np.float64) if _is_bias(reader, start) else None
    else:
        found = _vector(value, start, count)
    if found is None or found.shape != (count,):
        return None
    if reader.op == "Mul":
        return found, np.zeros(count), [other]
    return np.ones(count), -found if reader.op == "Sub" else found, [other]


def _is_bias(reader, start):
    nchw = reader.op == "BiasAdd" and is_nchw(reader)
    return start.op == "MatMul" and not nchw or start.op != "MatMul" and nchw == is_nchw(start)


def _norm(norm, node, start):
    consts = [s for s, _ in norm.inputs[1:5]]
    if norm.attrs.get("is_training", True) or norm.inputs[0][0] is not node:
        return None
    if start.op == "MatMul" or is_nchw(norm) != is_nchw(start):
        return None
    if any(c.op != "Const" for c in consts):
        return None
    scale, offset, mean, variance = (np.asarray(c.attrs["value"], np.float64) for c in consts)
    if not scale.shape == offset.shape == mean.shape == variance.shape == (channels(start),):
        return None
    with np.errstate(all="ignore"):
        scale = scale / np.sqrt(variance + norm.attrs.get("epsilon", 1e-4))
    return scale, offset - mean * scale, consts


def vector_edge(reader, node, start, count):
    """The edge of a vector over the channels that `reader` adds to `node`, or None."""
    first = reader.inputs[0][0] is node
    edge = reader.inputs[1 if first else 0]
    dims = dims_of(edge)
    if dims != (count,):
        return None
    if reader.op.startswith("BiasAdd"):
        return edge if first and _is_bias(reader, start) else None
    return edge if channel_axis(start) == -1 else None


class Batches:
    """Where batch (first) dimensions come from; the graph is walked when first asked."""

    def __init__(self, graph):
        self._graph, self._found = graph, None

    def same_shape(self, a, b):
        """True if both edges have one shape in every step."""
        one, other = dims_of(a), dims_of(b)
        if one is None or other is None or len(one) != len(other) or None in one[1:]:
            return False
        if one[1:] != other[1:]:
            return False
        if None in (one[0], other[0]):
            return self.source(a) == self.source(b)
        return one[0] == other[0]

    def source(self, edge):
        """The edge whose first dimension that of `edge` is, as far back as is known."""
        if self._found is None:
            self._found = {}
            for node in self._graph.nodes:
                before = self._before(node)
                if before is not None:
                    self._found[node, 0] = self._found.get(before, before)
        return self._found.get(edge, edge)

    def _before(self, node):
        op, inputs = node.op, node.inputs
        if op in _KEEPS_BATCH:
            return inputs[0]
        if op in ("MatMul", "_FusedMatMul"):
            return None if node.attrs.get("transpose_a") else inputs[0]
        if op in _SUMS:
            return self._of_sum(inputs)
        if op == "Pad":
            pairs = inputs[1][0]
            plain = pairs.op == "Const" and not np.asarray(pairs.attrs["value"])[0].any()
            return inputs[0] if plain else None
        if op == "ConcatV2":
            axis, rank = inputs[-1][0], len(dims_of(inputs[0]) or ())
            plain = axis.op == "Const" and rank and int(axis.attrs["value"]) % rank
            return inputs[0] if plain else None
        return None

    def _of_sum(self, inputs):
        """Of a broadcast: the operand that has the result's rank and no 1 in front."""
        a, b = (dims_of(e) for e in inputs)
        if a is None or b is None:
            return None
        if len(a) != len(b):
            return inputs[0 if len(a) > len(b) else 1]
        if (1,) in (a[:1], b[:1]):
            return inputs[1 if a[:1] == (1,) else 0]
        return inputs[0] if self.source(inputs[0]) == self.source(inputs[1]) else None
