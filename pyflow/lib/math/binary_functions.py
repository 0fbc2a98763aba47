"""Arithmetic of two tensors as Python does it, and sums of many."""
from collections import abc

from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import identity_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise.binary_ops import (AccumulateNV2, AddN, DivNoNan, FloorDiv, RealDiv,
                                               Xdivy, Xlogy)


# ------------------------------------------------------------------------------------- sums of many
def _checked_inputs(inputs, who):
    if isinstance(inputs, abc.Iterable) and not isinstance(inputs, (str, bytes, graph.Tensor)):
        inputs = list(inputs)
    if not isinstance(inputs, list) or not inputs:
        raise ValueError(f"{who}: inputs must be a list of at least one Tensor or IndexedSlices "
                         "with the same dtype and shape")
    return [x if isinstance(x, graph.IndexedSlices) else graph.convert_to_tensor(x) for x in inputs]


def add_n(inputs, name=None):
    """Sum of a list of tensors (IndexedSlices are made dense) of one shape and dtype.
    TF: tf.add_n.

    inputs: at least one.
    Dtypes, shapes, errors: as op AddN.

        >>> tf.Session().run(tf.add_n([[1, 2], [10, 20], [100, 200]]))
        array([111, 222], dtype=int32)
    """
    inputs = [graph.convert_to_tensor(x) for x in _checked_inputs(inputs, "tf.add_n")]
    if len(inputs) == 1:
        if name:
            return identity_functions.identity(inputs[0], name=name)
        return inputs[0]
    return AddN(inputs, name=name)


def accumulate_n(inputs, shape=None, tensor_dtype=None, name=None):
    """Sum of a list of tensors of one shape. TF: tf.accumulate_n.
    Dtypes, shapes, errors: as ops AddN and AccumulateNV2."""
    inputs = _checked_inputs(inputs, "tf.accumulate_n")
    known = TensorShape(shape)
    for x in inputs:
        known = known.merge_with(x.shape)
    if tensor_dtype is not None and inputs[0].dtype.base_dtype != dtypes.as_dtype(tensor_dtype):
        raise TypeError(f"tf.accumulate_n: tensor_dtype is {dtypes.as_dtype(tensor_dtype).name}, "
                        f"the inputs are {inputs[0].dtype.name}")
    if len(inputs) == 1 and name is None:
        return inputs[0]
    if not known.is_fully_defined():
        return AddN(inputs, name=name)
    return AccumulateNV2(inputs, shape=known, name=name)


def _pair(x, y):
    x = graph.convert_to_tensor(x, name="x")
    return x, graph.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)


def truediv(x, y, name=None):
    """x / y as Python 3 divides: small integers become float32, int32 and wider float64.
    TF: tf.truediv.
    Dtypes, shapes, errors: as op RealDiv."""
    wider = {dtypes.uint8: dtypes.float32, dtypes.int8: dtypes.float32,
             dtypes.uint16: dtypes.float32,
             dtypes.int16: dtypes.float32, dtypes.uint32: dtypes.float64,
             dtypes.int32: dtypes.float64,
             dtypes.uint64: dtypes.float64, dtypes.int64: dtypes.float64}
    with graph.name_scope(name, "truediv", [x, y]) as scope:
        x, y = _pair(x, y)
        wide = wider.get(x.dtype.base_dtype)
        if wide is not None:
            x, y = tensors.cast(x, wide), tensors.cast(y, wide)
        return RealDiv(x, y, name=scope)


def div(x, y, name=None):
    """x / y as Python 2 divides: integers floor, floats divide. TF: tf.div.
    Dtypes, shapes, errors: as ops RealDiv and FloorDiv.

        >>> tf.Session().run([tf.div(7, 2), tf.div(7.0, 2.0)])
        [np.int32(3), np.float32(3.5)]
    """
    with graph.name_scope(name, "div", [x, y]) as scope:
        x, y = _pair(x, y)
        if x.dtype.is_floating or x.dtype.is_complex:
            return RealDiv(x, y, name=scope)
        return FloorDiv(x, y, name=scope)


def divide(x, y, name=None):
    """x / y, Python 3 style, for tensors and values. TF: tf.divide.
    x, y: numbers of one dtype that broadcast. TypeError for other dtypes, ValueError for shapes
    that do not fit."""
    if name is None:
        return graph.convert_to_tensor(x) / y
    return truediv(x, y, name)


def floordiv(x, y, name=None):
    """x / y rounded toward minus infinity. TF: tf.floordiv.
    Dtypes, shapes, errors: as op FloorDiv."""
    return FloorDiv(x, y, name=name or "floordiv")


def div_no_nan(x, y, name=None):
    """x / y, and 0 where y is 0. TF: tf.div_no_nan.
    Dtypes, shapes, errors: as op DivNoNan."""
    return DivNoNan(x, y, name=name or "div_no_nan")


def xdivy(x, y, name=None):
    """x / y, and 0 where x is 0. TF: math.xdivy.
    Dtypes, shapes, errors: as op Xdivy."""
    return Xdivy(x, y, name=name or "xdivy")


def xlogy(x, y, name=None):
    """x * log(y), and 0 where x is 0. TF: math.xlogy.
    Dtypes, shapes, errors: as op Xlogy."""
    return Xlogy(x, y, name=name or "xlogy")


PUBLIC = {
    "truediv": truediv, "math.truediv": truediv, "div": div, "divide": divide,
    "math.divide": divide, "floordiv": floordiv, "math.floordiv": floordiv,
    "div_no_nan": div_no_nan, "math.divide_no_nan": div_no_nan, "math.xdivy": xdivy,
    "math.xlogy": xlogy, "add_n": add_n, "math.add_n": add_n, "accumulate_n": accumulate_n,
    "math.accumulate_n": accumulate_n,
}
