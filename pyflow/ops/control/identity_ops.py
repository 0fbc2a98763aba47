"""Ops that pass their input on, placeholders, and uninitialised tensors.

Invariants
  1. The identities forward the buffer; only their gradients, checks or names differ.
  2. A placeholder must be fed in every step that needs it; PlaceholderWithDefault need not.

Example:  `x = tf.placeholder(tf.float32, [None, 784])`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import static_shape, unchanged

ANY = "T: type"
ANY_SHAPE = [S((2, 3)), S(()), S((0, 3)), S((2, 1, 4))]


def _passes(op, dy):
    return dy


@op("Identity", inputs="input: T", outputs="output: T", attrs=ANY)
class Identity:
    """`input` itself. TF: Identity."""
    shape = unchanged
    gradient = _passes

    def reference(input): return input
    samples = ANY_SHAPE


@op("IdentityN", inputs="input: T", outputs="output: T", attrs="T: list(type) >= 1")
class IdentityN:
    """Each of a list of tensors itself. TF: IdentityN."""
    def shape(op): return [x.shape for x in op.inputs]

    def gradient(op, *dys): return list(dys)

    def reference(input): return tuple(input)
    samples = [S([(2, 3), (), (0, 3)])]


@op("Snapshot", inputs="input: T", outputs="output: T", attrs=ANY)
class Snapshot:
    """A copy of `input` that later writes do not reach. TF: Snapshot."""
    shape = unchanged
    gradient = _passes

    def reference(input): return input
    samples = ANY_SHAPE


@op("StopGradient", inputs="input: T", outputs="output: T", attrs=ANY)
class StopGradient:
    """`input` itself, a constant to `tf.gradients`. TF: StopGradient."""
    shape = unchanged
    gradient = None

    def reference(input): return input
    samples = ANY_SHAPE


def _prevented(op, dy):
    message = op.attr("message")
    message = message.decode() if isinstance(message, bytes) else message
    raise LookupError(f"Gradient explicitly disabled at '{op.name}'. Reason: "
                      f"{message or 'not given'}")


@op("PreventGradient", inputs="input: T", outputs="output: T",
    attrs='T: type, message: string = ""')
class PreventGradient:
    """`input` itself; asking for its gradient is a LookupError with `message`.
    TF: PreventGradient."""
    shape = unchanged
    gradient = _prevented

    def reference(input): return input
    samples = ANY_SHAPE


@op("EnsureShape", inputs="input: T", outputs="output: T", attrs="shape: shape, T: type")
class EnsureShape:
    """`input` itself, checked in the step to have a shape compatible with `shape`.
    TF: EnsureShape."""
    def shape(op): return op.inputs[0].shape.merge_with(op.attr("shape"))
    gradient = _passes

    def reference(input): return input
    samples = [S((2, 3), shape=[2, 3]), S((2, 3), shape=[None, 3]), S((), shape=[]),
               S((0, 3), shape=[0, 3])]


@op("CheckNumerics", inputs="tensor: T", outputs="output: T", attrs="message: string",
    stateful=True,
    T=FLOATS)
class CheckNumerics:
    """`tensor` itself; the step fails with `message` if an element is infinite or NaN.
    TF: CheckNumerics."""
    shape = unchanged

    def gradient(op, dy):
        return CheckNumerics(dy, message="Not a number (NaN) or infinity (Inf) values detected in "
                                         "gradient.")

    def reference(tensor): return tensor
    samples = [S((2, 3), message="bad"), S((), message="bad"), S((0, 3), message="")]


@op("Empty", inputs="shape: int32", outputs="output: dtype", stateful=True,
    attrs="dtype: type, init: bool = false")
class Empty:
    """A tensor of shape `shape`, zeros with `init`, else whatever was there. TF: Empty."""
    def shape(op): return static_shape(op.inputs[0])
    gradient = UNREGISTERED

    def reference(shape, dtype): return np.zeros([int(d) for d in shape], dtype.as_numpy_dtype)
    samples = [S(lit([2, 3]), dtype=dtypes.float32, init=True), S(lit([0]), dtype=dtypes.int32)]


def _declared_shape(op):
    return op.attr("shape")


@op("Placeholder", outputs="output: dtype", attrs="dtype: type, shape: shape = ?")
class Placeholder:
    """A tensor to be fed; a step that needs it unfed fails. TF: Placeholder."""
    shape = _declared_shape
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("PlaceholderV2", outputs="output: dtype", attrs="dtype: type, shape: shape")
class PlaceholderV2:
    """A tensor to be fed, the older form. TF: PlaceholderV2."""
    shape = _declared_shape
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("PlaceholderWithDefault", inputs="input: dtype", outputs="output: dtype",
    attrs="dtype: type, shape: shape")
class PlaceholderWithDefault:
    """`input`, or what is fed in its place. TF: PlaceholderWithDefault."""
    def shape(op):
        shape = TensorShape(op.attr("shape"))
        op.inputs[0].shape.assert_is_compatible_with(shape)
        return shape
    gradient = _passes

    def reference(input): return input
    samples = [S((2, 3), shape=[2, 3]), S((2, 3), shape=[None, 3])]


# --------------------------------------------------------------------------------- public functions
def identity(input, name=None):
    """A tensor of the same value. TF: tf.identity.
    Dtypes, shapes, errors: as op Identity."""
    if isinstance(input, graph.IndexedSlices):
        return graph.IndexedSlices(identity(input.values), input.indices, input.dense_shape)
    if isinstance(input, graph.SparseTensor):
        return graph.SparseTensor(*(identity(part) for part in (input.indices, input.values,
                                                                input.dense_shape)))
    return Identity(input, name=name)


def identity_n(input, name=None):
    """Tensors of the same values, all computed before any is used. TF: tf.identity_n.
    Dtypes, shapes, errors: as op IdentityN."""
    return IdentityN(list(input), name=name)


def placeholder(dtype, shape=None, name=None):
    """A tensor of `dtype` to be fed; `shape` None means any, None inside any size.
    TF: tf.placeholder.
    Dtypes, shapes, errors: as op Placeholder."""
    shape = unknown_shape() if shape is None else TensorShape(shape)
    return Placeholder(dtype=dtypes.as_dtype(dtype), shape=shape, name=name)


def placeholder_with_default(input, shape, name=None):
    """`input`, or what is fed in its place, of a shape compatible with `shape`.
    TF: tf.placeholder_with_default.
    Dtypes, shapes, errors: as op PlaceholderWithDefault."""
    return PlaceholderWithDefault(input, shape=TensorShape(shape), name=name)


def sparse_placeholder(dtype, shape=None, name=None):
    """A SparseTensor to be fed a SparseTensorValue or (indices, values, shape).
    TF: tf.sparse_placeholder.
    dtype: that of the values; shape: None for any. TypeError for no dtype, ValueError for a feed
    of another shape."""
    prefix = name or "Placeholder"
    rank = None
    if shape is None:
        dense = placeholder(dtypes.int64, [None], prefix + "/shape")
    elif isinstance(shape, graph.Tensor):
        dense, rank = shape, shape.shape.as_list()[0] if shape.shape.ndims == 1 else None
    else:
        shape = TensorShape(shape)
        rank = shape.ndims
        if shape.is_fully_defined():
            dense = graph.convert_to_tensor(shape.as_list(), dtype=dtypes.int64)
        else:
            dense = placeholder(dtypes.int64, [rank], prefix + "/shape")
    return graph.SparseTensor(indices=placeholder(dtypes.int64, [None, rank], prefix + "/indices"),
                              values=placeholder(dtype, [None], prefix + "/values"),
                              dense_shape=dense)


def stop_gradient(input, name=None):
    """`input` itself, a constant to `tf.gradients`. TF: tf.stop_gradient.
    Dtypes, shapes, errors: as op StopGradient."""
    return StopGradient(input, name=name)


def ensure_shape(x, shape, name=None):
    """`x` itself, checked to have a shape compatible with `shape`. TF: tf.ensure_shape.
    Dtypes, shapes, errors: as op EnsureShape."""
    return EnsureShape(x, shape=TensorShape(shape), name=name)


def check_numerics(tensor, message, name=None):
    """`tensor` itself; an InvalidArgumentError with `message` where infinite or NaN.
    TF: tf.check_numerics.
    Dtypes, shapes, errors: as op CheckNumerics."""
    return CheckNumerics(tensor, message=message, name=name)


PUBLIC = {
    "identity": identity, "identity_n": identity_n, "placeholder": placeholder,
    "placeholder_with_default": placeholder_with_default, "sparse_placeholder": sparse_placeholder,
    "sparse.placeholder": sparse_placeholder, "stop_gradient": stop_gradient,
    "ensure_shape": ensure_shape, "check_numerics": check_numerics,
    "debugging.check_numerics": check_numerics,
}
