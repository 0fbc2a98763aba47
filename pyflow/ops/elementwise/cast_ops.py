"""Element types: Cast and Bitcast.

Invariants
  1. Float to integer truncates toward zero; out-of-range values are C's conversion, as in TF.
  2. A size ratio n of Bitcast's types adds or removes a last dimension of n.

Example:  `tf.cast([1.8, -2.2], tf.int32)` -> [1, -2].
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, bools, ints, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import unchanged
from pyflow.ops.base.tensors import cast

DIFFERENTIABLE = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
                  dtypes.complex64, dtypes.complex128)
BITS = tuple(t for t in dtypes.ALL if t not in (dtypes.string, dtypes.bool, dtypes.resource,
                                                dtypes.variant))


def _cast_reference(x, DstT):
    to = DstT.as_numpy_dtype
    if np.iscomplexobj(x) and not DstT.is_complex and not DstT.is_bool:
        x = x.real
    return x.astype(to)


@op("Cast", inputs="x: SrcT", outputs="y: DstT",
    attrs="SrcT: type, DstT: type, Truncate: bool = false")
class Cast:
    """`x` as dtype `DstT`, any shape. `Truncate`: drop bits, do not round, toward bfloat16/half.
    TF: Cast."""
    shape = unchanged

    def gradient(op, dy):
        source, target = op.inputs[0].dtype.base_dtype, op.outputs[0].dtype.base_dtype
        if source in DIFFERENTIABLE and target in DIFFERENTIABLE:
            return cast(dy, source)
        return None

    def reference(x, DstT): return _cast_reference(x, DstT)
    samples = [S((2, 3), DstT=dtypes.float64), S((), DstT=dtypes.float32),
               S((0, 3), DstT=dtypes.int32),
               S(ints((2, 3), 0, 100), DstT=dtypes.int64), S(ints((4,), 0, 100), DstT=dtypes.uint8),
               S(ints((4,), 0, 2), DstT=dtypes.bool), S(bools((5,)), DstT=dtypes.float32),
               S((2, 3), DstT=dtypes.float16), S(ints((3,), 0, 9), DstT=dtypes.complex64)]


def _bitcast_dims(op):
    shape, source, target = op.inputs[0].shape, op.inputs[0].dtype.size, op.attr("type")
    target = dtypes.as_dtype(target).size
    if shape.ndims is None or source == target:
        return shape
    dims = shape.as_list()
    if source > target:
        return TensorShape(dims + [source // target])
    if not dims or dims[-1] not in (None, target // source):
        raise ValueError(f"Bitcast of {op.inputs[0].dtype.name}{shape} to "
                         f"{dtypes.as_dtype(op.attr('type')).name}: the last dimension must be "
                         f"{target // source}")
    return TensorShape(dims[:-1])


def _bitcast_reference(input, type):
    source, target = input.dtype.itemsize, np.dtype(type.as_numpy_dtype)
    values = np.frombuffer(input.tobytes(), target)
    if target.itemsize < source:
        return values.reshape(input.shape + (source // target.itemsize,))
    return values.reshape(input.shape if target.itemsize == source else input.shape[:-1])


@op("Bitcast", inputs="input: T", outputs="output: type", attrs="T: type, type: type", T=BITS)
class Bitcast:
    """The same bytes read as dtype `type`; a size ratio n adds or removes a last dimension n.
    TF: Bitcast."""
    shape = _bitcast_dims
    gradient = UNREGISTERED

    def reference(input, type): return _bitcast_reference(input, type)
    samples = [S((2, 3), type=dtypes.int32, types=(dtypes.float32,)),
               S((), type=dtypes.uint8, types=(dtypes.int64, dtypes.float32)),
               S((3, 2), type=dtypes.int64, types=(dtypes.int32,)),
               S((0, 3), type=dtypes.float64, types=(dtypes.int64,))]
