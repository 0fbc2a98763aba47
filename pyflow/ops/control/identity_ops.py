"""Ops that pass their input on, placeholders, and uninitialised tensors.

Invariants
  1. The identities forward the buffer; only their gradients, checks or names differ.
  2. A placeholder must be fed in every step that needs it; PlaceholderWithDefault need not.

Example:  `x = tf.placeholder(tf.float32, [None, 784])`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
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
