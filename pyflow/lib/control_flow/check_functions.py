"""The assert_* family: conditions on tensors, checked while building if they are known, else in
the step.

Invariants
  1. Each returns an Operation; something must depend on it (see logging_ops).
  2. What is known to be false while building raises at once: InvalidArgumentError for values,
     ValueError or TypeError for ranks, shapes and dtypes.
  3. Comparisons hold for all elements; for empty tensors they hold.

Thread: the one building the graph.  Source: TF 1.x check_ops.

Example:
    with tf.control_dependencies([tf.assert_positive(x)]):
        y = tf.log(x)
"""
import numpy as np

from pyflow.framework import dtypes, errors, graph as ops, tensor_util
from pyflow.lib.control_flow import grouping
from pyflow.lib.control_flow.logging_functions import Assert
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.move import array_ops


def _compared(block, name, symbol):
    """assert_<name>(x, y): `block` holds for all pairs of elements."""
    def check(x, y, data=None, summarize=None, message=None, name=None):
        with ops.name_scope(name, check.__name__, [x, y, data]):
            x = ops.convert_to_tensor(x, name="x")
            y = ops.convert_to_tensor(y, name="y")
            text = _text(message)
            _check_known(block, x, y, f"{text}Condition x {symbol} y did not hold.")
            condition = reductions.reduce_all(block(x, y))
            if data is None:
                data = [text, f"Condition x {symbol} y did not hold element-wise:",
                        f"x ({x.name}) = ", x, f"y ({y.name}) = ", y]
            return Assert(condition, data, summarize=summarize)
    check.__name__ = check.__qualname__ = f"assert_{name}"
    check.__doc__ = (f"An Operation that fails unless x {symbol} y for all elements (broadcast). "
                     f"TF: tf.assert_{name}.\nDtypes, shapes, errors: as op {block.name}; "
                     f"InvalidArgumentError at once where both are known.")
    return check


def _check_known(block, x, y, message):
    """InvalidArgumentError while building if two known tensors do not compare as they should."""
    known = tensor_util.constant_value(x), tensor_util.constant_value(y)
    if known[0] is None or known[1] is None \
            or not _fit(known[0].shape, known[1].shape):     # the comparing node tells that
        return
    if not np.all(block.call_reference(list(known), {"T": x.dtype.base_dtype})):
        raise errors.InvalidArgumentError(
            None, x.op, f"{message} x ({x.name}) = {known[0]}, y ({y.name}) = {known[1]}")


def _fit(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))


def _text(message):
    return f"{message} " if message else ""


assert_equal = _compared(logic_ops.Equal, "equal", "==")
assert_none_equal = _compared(logic_ops.NotEqual, "none_equal", "!=")
assert_less = _compared(logic_ops.Less, "less", "<")
assert_less_equal = _compared(logic_ops.LessEqual, "less_equal", "<=")
assert_greater = _compared(logic_ops.Greater, "greater", ">")
assert_greater_equal = _compared(logic_ops.GreaterEqual, "greater_equal", ">=")


def _signed(name, compare, symbol):
    """assert_<name>(x): `compare(x, 0)` holds for all elements."""
    def check(x, data=None, summarize=None, message=None, name=None):
        with ops.name_scope(name, check.__name__, [x, data]):
            x = ops.convert_to_tensor(x, name="x")
            if data is None:
                data = [_text(message), f"Condition x {symbol} 0 did not hold element-wise:",
                        f"x ({x.name}) = ", x]
            zero = ops.constant(0, dtype=x.dtype.base_dtype)
            return compare(x, zero, data=data, summarize=summarize, message=message)
    check.__name__ = check.__qualname__ = f"assert_{name}"
    check.__doc__ = (f"An Operation that fails unless x {symbol} 0 for all elements. "
                     f"TF: tf.assert_{name}.\nx: numbers of any shape. TypeError for other dtypes, "
                     f"InvalidArgumentError at once where x is known.")
    return check


assert_negative = _signed("negative", assert_less, "<")
assert_positive = _signed("positive", assert_greater, ">")
assert_non_negative = _signed("non_negative", assert_greater_equal, ">=")
assert_non_positive = _signed("non_positive", assert_less_equal, "<=")


def assert_near(x, y, rtol=None, atol=None, data=None, summarize=None, message=None, name=None):
    """An Operation that fails unless |x - y| < atol + rtol |y|; both default to 10 eps. TF:
    tf.assert_near.
    x, y: floats of one dtype that broadcast. ValueError for integers and for shapes that do not
    fit."""
    with ops.name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = ops.convert_to_tensor(x, name="x")
        y = ops.convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        eps = 10 * _epsilon(x.dtype.base_dtype)
        rtol = ops.convert_to_tensor(eps if rtol is None else rtol, dtype=x.dtype.base_dtype)
        atol = ops.convert_to_tensor(eps if atol is None else atol, dtype=x.dtype.base_dtype)
        bound = binary_ops.Add(atol, binary_ops.Mul(rtol, unary_ops.Abs(y)))
        distance = unary_ops.Abs(binary_ops.Sub(x, y))
        condition = reductions.reduce_all(logic_ops.Less(distance, bound))
        if data is None:
            data = [_text(message), "x and y not equal to tolerance:", f"x ({x.name}) = ", x,
                    f"y ({y.name}) = ", y]
        return Assert(condition, data, summarize=summarize)


def _epsilon(dtype):
    return float(np.finfo(dtype.as_numpy_dtype).eps)


# ------------------------------------------------------------------------------- ranks and shapes
def _ranked(name, holds, symbol):
    """assert_<name>(x, rank)."""
    def check(x, rank, data=None, summarize=None, message=None, name=None):
        with ops.name_scope(name, check.__name__, [x]):
            x = ops.convert_to_tensor(x, name="x")
            wanted = tensor_util.constant_value(ops.convert_to_tensor(rank, dtype=dtypes.int32))
            text = _text(message)
            if wanted is not None and wanted.ndim != 0:
                raise ValueError(f"{text}Rank must be a scalar, got shape {wanted.shape}")
            if wanted is not None and x.shape.ndims is not None:
                if not holds(x.shape.ndims, int(wanted)):
                    raise ValueError(f"{text}Tensor {x.name} must have rank "
                                     f"{symbol}{int(wanted)}. Received rank {x.shape.ndims}, "
                                     f"shape {x.shape}")
                return grouping.no_op("static_checks_determined_all_ok")
            actual = array_ops.Rank(x)
            compare = logic_ops.GreaterEqual if symbol else logic_ops.Equal
            data = data or [text, f"Tensor {x.name} must have rank {symbol}", rank,
                            "Received shape: ", array_ops.Shape(x)]
            return Assert(compare(actual, rank), data, summarize)
    check.__name__ = check.__qualname__ = f"assert_{name}"
    check.__doc__ = (f"An Operation that fails unless x has rank {symbol}`rank`; ValueError if "
                     f"known not to. TF: tf.assert_{name}.\n"
                     f"x: any shape and dtype; rank: an int scalar.")
    return check


assert_rank = _ranked("rank", lambda actual, wanted: actual == wanted, "")
assert_rank_at_least = _ranked("rank_at_least", lambda actual, wanted: actual >= wanted,
                               "at least ")


def _known_rank(rank):
    """`rank` as an int; None for a tensor whose value is not known."""
    if not isinstance(rank, ops.Tensor):
        return rank
    value = tensor_util.constant_value(rank)
    return None if value is None else int(value)


def assert_rank_in(x, ranks, data=None, summarize=None, message=None, name=None):
    """An Operation that fails unless the rank of x is one of `ranks`. TF: tf.assert_rank_in.
    x: any shape and dtype; ranks: int scalars. ValueError if known not to be, TypeError for
    other ranks."""
    with ops.name_scope(name, "assert_rank_in", [x]):
        x = ops.convert_to_tensor(x, name="x")
        known = [_known_rank(rank) for rank in ranks]
        if x.shape.ndims is not None and (x.shape.ndims in known or None not in known):
            if x.shape.ndims not in known:
                raise ValueError(f"{_text(message)}Tensor {x.name} must have rank in "
                                 f"{tuple(known)}. Received rank {x.shape.ndims}, shape {x.shape}")
            return grouping.no_op("static_checks_determined_all_ok")
        condition = reductions.reduce_any(logic_ops.Equal(array_ops.Rank(x), list(ranks)))
        data = data or [_text(message), f"Tensor {x.name} must have rank in", list(ranks),
                        "Received shape: ", array_ops.Shape(x)]
        return Assert(condition, data, summarize)


def assert_scalar(tensor, name=None, message=None):
    """`tensor` itself, a scalar; ValueError if known not to be. TF: tf.assert_scalar.
    Any dtype."""
    with ops.name_scope(name, "assert_scalar", [tensor]) as scope:
        tensor = ops.convert_to_tensor(tensor, name=scope)
        if tensor.shape.ndims not in (None, 0):
            raise ValueError(f"{_text(message)}Expected scalar shape for {tensor.name}, saw "
                             f"shape: {tensor.shape}.")
        return tensor


def assert_same_float_dtype(tensors=None, dtype=None):
    """The one floating dtype of `tensors`; ValueError if they differ. TF:
    tf.assert_same_float_dtype.
    Any shapes; float32 if nothing is given."""
    found = None if dtype is None else dtypes.as_dtype(dtype)
    for tensor in tensors or []:
        if tensor is None:
            continue
        actual = tensor.dtype.base_dtype
        if found is not None and actual != found:
            raise ValueError(f"Tensor {tensor.name}: expected dtype {found.name}, got "
                             f"{actual.name}")
        found = actual
    found = found or dtypes.float32
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found.name}.")
    return found


def assert_type(tensor, tf_type, message=None, name=None):
    """A no-op; TypeError unless `tensor` has dtype `tf_type`. TF: tf.assert_type.
    Dtypes, shapes, errors: as op NoOp."""
    with ops.name_scope(name, "assert_type", [tensor]):
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        if tensor.dtype.base_dtype != dtypes.as_dtype(tf_type):
            raise TypeError(f"{_text(message)}{tensor.name} must be of type "
                            f"{dtypes.as_dtype(tf_type).name}, got {tensor.dtype.base_dtype.name}")
        return grouping.no_op("statically_determined_correct_type")


def assert_integer(x, message=None, name=None):
    """A no-op; TypeError unless x is of integer type. TF: tf.assert_integer.
    Dtypes, shapes, errors: as op NoOp."""
    with ops.name_scope(name, "assert_integer", [x]):
        x = ops.convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f"{_text(message)}Expected \"x\" to be integer type. Found: "
                            f"{x.dtype.name}, {x.name}")
        return grouping.no_op("statically_determined_was_integer")


# ------------------------------------------------------------------------------------- predicates
def is_numeric_tensor(tensor):
    """True for a Tensor of numbers. TF: tf.is_numeric_tensor.
    Any shape; True for floats, integers and complex numbers. Never an error: False for what is
    no tensor. TF: tf.is_numeric_tensor."""
    if not isinstance(tensor, ops.Tensor):
        return False
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_complex


def _differences(x, compare):
    x = tensors.reshape(x, [-1])
    pairs = compare(x[:-1], x[1:])
    return reductions.reduce_all(pairs)


def is_non_decreasing(x, name=None):
    """A bool scalar: are the elements in non-decreasing order? TF: tf.is_non_decreasing.
    x: numbers of any shape; result: a bool scalar. TypeError for other dtypes, ValueError for
    shapes that do not fit."""
    with ops.name_scope(name, "is_non_decreasing", [x]):
        return _differences(x, logic_ops.LessEqual)


def is_strictly_increasing(x, name=None):
    """A bool scalar: is each element greater than the one before? TF: tf.is_strictly_increasing.
    x: numbers of any shape; result: a bool scalar. TypeError for other dtypes, ValueError for
    shapes that do not fit."""
    with ops.name_scope(name, "is_strictly_increasing", [x]):
        return _differences(x, logic_ops.Less)


# --------------------------------------------------------------------------------------- numerics
def verify_tensor_all_finite(t=None, msg=None, name=None, x=None, message=None):
    """The tensor itself; InvalidArgumentError if an element is NaN or infinite.

    TF: tf.verify_tensor_all_finite.
    Floats of any shape."""
    tensor, text = t if x is None else x, msg if message is None else message
    with ops.name_scope(name, "VerifyFinite", [tensor]):
        tensor = ops.convert_to_tensor(tensor, name="t")
        with ops.colocate_with(tensor):
            verified = identity_ops.CheckNumerics(tensor, message=text or "")
            return grouping.with_dependencies([verified], tensor)


def add_check_numerics_ops():
    """An Operation that checks every floating-point tensor of the graph for NaN and infinity.

    ValueError in a graph with cond or while_loop (use the session's numerics check instead).
    TF: tf.add_check_numerics_ops.
    Floats of any shape are checked; running it raises InvalidArgumentError. ValueError inside
    tf.cond and tf.while_loop."""
    checks = []
    for node in ops.get_default_graph().get_operations():
        for output in node.outputs:
            if output.dtype.base_dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
                continue
            if node._get_control_flow_context() is not None:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                    f"operations such as `tf.cond()` or `tf.while_loop()` ('{node.name}'); run "
                    "the session with its numerics check instead.")
            with ops.control_dependencies(checks):
                checks = [identity_ops.CheckNumerics(output, message=output.name)]
    return grouping.group(*checks)


_ASSERTS = (assert_equal, assert_none_equal, assert_less, assert_less_equal, assert_greater,
            assert_greater_equal, assert_negative, assert_positive, assert_non_negative,
            assert_non_positive, assert_near, assert_rank, assert_rank_at_least, assert_rank_in,
            assert_scalar, assert_same_float_dtype, assert_type, assert_integer)


def assert_proper_iterable(values):
    """TypeError unless `values` is an iterable that is no tensor, SparseTensor, array or string.
    TF: tf.assert_proper_iterable. Any shapes and dtypes."""
    refused = (ops.Tensor, ops.SparseTensor, np.ndarray, str, bytes)
    if isinstance(values, refused):
        raise TypeError("Expected argument \"values\" to be a \"proper\" iterable.  Found: "
                        f"{type(values)}")
    if not hasattr(values, "__iter__"):
        raise TypeError(f"Expected argument \"values\" to be iterable.  Found: {type(values)}")


PUBLIC = {f.__name__: f for f in _ASSERTS}
PUBLIC.update({"debugging." + f.__name__: f for f in _ASSERTS})
PUBLIC.update({
    "assert_proper_iterable": assert_proper_iterable,
    "debugging.assert_proper_iterable": assert_proper_iterable,
    "is_numeric_tensor": is_numeric_tensor, "is_non_decreasing": is_non_decreasing,
    "math.is_non_decreasing": is_non_decreasing,
    "math.is_strictly_increasing": is_strictly_increasing,
    "is_strictly_increasing": is_strictly_increasing,
    "debugging.is_numeric_tensor": is_numeric_tensor,
    "debugging.is_non_decreasing": is_non_decreasing,
    "debugging.is_strictly_increasing": is_strictly_increasing,
    "verify_tensor_all_finite": verify_tensor_all_finite,
    "debugging.assert_all_finite": verify_tensor_all_finite,
    "add_check_numerics_ops": add_check_numerics_ops,
})
