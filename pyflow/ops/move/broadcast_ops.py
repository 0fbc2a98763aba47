"""Broadcasting: the shape that shapes stretch to, the axes in which they were stretched, and the
tensor stretched.

Invariants
  1. Shapes are aligned at their last dimensions; one of two that differ is 1, or missing in front.
  2. What was stretched is summed over in the gradient.

Example:  `tf.broadcast_to([1, 2], [3, 2])` -> [[1, 2], [1, 2], [1, 2]].
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base.common import (dims_of, shape_vector, static_shape, stretched_axes, sum_over,
                                    sum_static)
from pyflow.ops.base.shape_rules import by_pattern, match
from pyflow.ops.base.tensors import NO_AXES


@op("BroadcastArgs", inputs="s0: T, s1: T", outputs="r0: T", attrs="T: {int32, int64} = int32")
class BroadcastArgs:
    """The shape that shapes s0 and s1 broadcast to. TF: BroadcastArgs."""
    def shape(op):
        match(op, "_", "_")
        a, b = (dims_of(x.shape) for x in op.inputs)
        known = a is not None and b is not None and a != [None] and b != [None]
        return TensorShape([max(a[0], b[0]) if known else None])
    gradient = UNREGISTERED

    def reference(s0, s1): return np.array(np.broadcast_shapes(tuple(s0), tuple(s1)), s0.dtype)
    samples = [S(lit([2, 1, 3]), lit([4, 1])), S(lit(NO_AXES), lit([2, 3])),
               S(lit([0, 3]), lit([1]))]


def _gradient_args(s0, s1):
    n = max(len(s0), len(s1))
    a = [1] * (n - len(s0)) + [int(d) for d in s0]
    b = [1] * (n - len(s1)) + [int(d) for d in s1]
    r0 = [i for i in range(n) if a[i] == 1 and (b[i] != 1 or i < n - len(s0))]
    r1 = [i for i in range(n) if b[i] == 1 and (a[i] != 1 or i < n - len(s1))]
    both = [i for i in range(n) if a[i] == 1 and b[i] == 1]
    if list(s0) != list(s1):
        r0, r1 = sorted({*r0, *both}), sorted({*r1, *both})
    return np.array(r0, s0.dtype), np.array(r1, s1.dtype)


@op("BroadcastGradientArgs", inputs="s0: T, s1: T", outputs="r0: T, r1: T",
    attrs="T: {int32, int64} = int32")
class BroadcastGradientArgs:
    """Axes over which the gradients of operands of shapes s0, s1 are to be summed. TF:
    BroadcastGradientArgs.

    Axes where both are 1 are listed for both (summing them changes nothing), unless s0 equals s1.
    """
    shape = by_pattern("_", "_", "->", "r0", "r1")
    gradient = None

    def reference(s0, s1): return _gradient_args(s0, s1)
    samples = [S(lit([2, 3]), lit([3])), S(lit([2, 1]), lit([1, 3])), S(lit([2, 3]), lit([2, 3])),
               S(lit(NO_AXES), lit([4, 2]))]


def _broadcast_to_shape(op):
    target, source = static_shape(op.inputs[1]), op.inputs[0].shape
    sizes, dims = dims_of(target), dims_of(source)
    if sizes is None or dims is None:
        return target
    if len(dims) > len(sizes):
        raise ValueError(f"BroadcastTo: shape {source} has more dimensions than {target}")
    extra = len(sizes) - len(dims)
    for i, d in enumerate(dims, extra):
        if None not in (d, sizes[i]) and d not in (1, sizes[i]):
            raise ValueError(f"BroadcastTo: shape {source} does not broadcast to {target}")
        if sizes[i] is None and d not in (None, 1):
            sizes[i] = d
    return TensorShape(sizes)


@op("BroadcastTo", inputs="input: T, shape: Tidx", outputs="output: T",
    attrs="T: type, Tidx: {int32, int64} = int32")
class BroadcastTo:
    """`input` repeated along dimensions of 1 and new leading ones to `shape`. TF: BroadcastTo."""
    shape = _broadcast_to_shape

    def gradient(op, dy):
        x = op.inputs[0]
        axes = stretched_axes(x.shape, op.outputs[0].shape)
        if axes is not None:
            return [sum_static(dy, axes, x.shape), None]
        reduced = BroadcastGradientArgs(shape_vector(x), raw_ops.Shape(op.outputs[0]))[0]
        return [sum_over(dy, reduced, x), None]

    def reference(input, shape): return np.broadcast_to(input, [int(d) for d in shape])
    samples = [S((3,), lit([2, 3])), S((), lit([2, 2])), S((2, 1), lit([2, 3])),
               S((1, 3), lit([0, 3])),
               S((2, 3), lit([2, 3]))]


def broadcast_dynamic_shape(shape_x, shape_y):
    """The shape, an int vector, of what arrays of two shapes become together, at run time.
    TF: tf.broadcast_dynamic_shape. InvalidArgumentError for shapes that do not fit."""
    return BroadcastArgs(shape_x, shape_y)


PUBLIC = {
    "broadcast_to": BroadcastTo, "broadcast_dynamic_shape": broadcast_dynamic_shape,
    "broadcast_static_shape": broadcast_static_shape,
}
