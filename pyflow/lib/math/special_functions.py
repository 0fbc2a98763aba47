"""Special functions built of other ops: polynomials, log-beta, Bessel; repeat."""
import math

from pyflow.framework import dtypes, graph
from pyflow.framework.static_value import constant_value
from pyflow.lib.math import complex_functions, lookup_functions, reductions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.ops.elementwise.special_ops import (BesselI0e, BesselI1e, CumulativeLogsumexp, Ndtri,
                                                Xlog1py)
from pyflow.ops.move import join_ops


# ------------------------------------------------------------------------------ functions
def cumulative_logsumexp(x, axis=0, exclusive=False, reverse=False, name=None):
    """log of the running sum of exp(x) along an axis. TF: math.cumulative_logsumexp.
    Dtypes, shapes, errors: as op CumulativeLogsumexp."""
    return CumulativeLogsumexp(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def erfcinv(x, name=None):
    """The inverse of the complementary error function. TF: math.erfcinv.
    Dtypes, shapes, errors: as op Ndtri."""
    with graph.name_scope(name, "erfcinv", [x]):
        x = graph.convert_to_tensor(x, name="start")
        return -Ndtri(0.5 * x) * math.sqrt(0.5)


def _unscaled(scaled, name, order):
    def bessel(x, name=None):
        with graph.name_scope(name, f"bessel_i{order}", [x]):
            x = graph.convert_to_tensor(x, name="x")
            return unary_ops.Exp(complex_functions.abs(x)) * scaled(x)
    bessel.__name__ = bessel.__qualname__ = name
    bessel.__doc__ = (f"The modified Bessel function of order {order}. TF: math.{name}."
                      "\n    x: floats of any shape, the result the same; TypeError for other dtypes.")
    return bessel


bessel_i0 = _unscaled(BesselI0e, "bessel_i0", 0)
bessel_i1 = _unscaled(BesselI1e, "bessel_i1", 1)


def xlog1py(x, y, name=None):
    """x log(1 + y), and 0 where x is 0. TF: math.xlog1py.
    Dtypes, shapes, errors: as op Xlog1py."""
    return Xlog1py(x, y, name=name or "xlog1py")


def lbeta(x, name=None):
    """log of the multivariate beta function over the last dimension. TF: tf.lbeta.
    Dtypes, shapes, errors: as op Lgamma."""
    with graph.name_scope(name, "lbeta", [x]):
        x = graph.convert_to_tensor(x, name="x")
        logs = reductions.reduce_sum(unary_ops.Lgamma(x), axis=[-1])
        return logs - unary_ops.Lgamma(reductions.reduce_sum(x, axis=[-1]))


def polyval(coeffs, x, name=None):
    """The polynomial of the listed coefficients, highest first, at x. TF: math.polyval.
    Dtypes, shapes, errors: as op ZerosLike."""
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with graph.name_scope(name, "polyval", [x]):
        x = graph.convert_to_tensor(x, name="x")
        if not coeffs:
            return tensors.zeros_like(x)
        terms = [graph.convert_to_tensor(c, name=f"coeff_{i}") for i, c in enumerate(coeffs)]
        result = terms[0]
        for term in terms[1:]:
            result = term + result * x
        return result


def reciprocal_no_nan(x, name=None):
    """1 / x, and 0 where x is 0. TF: math.reciprocal_no_nan.
    Dtypes, shapes, errors: as op DivNoNan."""
    with graph.name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = graph.convert_to_tensor(x, name="x")
        return binary_ops.DivNoNan(graph.convert_to_tensor(1, dtype=x.dtype.base_dtype), x,
                                   name=scope)


def scalar_mul(scalar, x, name=None):
    """A scalar times a tensor or IndexedSlices. TF: tf.scalar_mul.
    Dtypes, shapes, errors: as op Mul."""
    scalar = graph.convert_to_tensor(scalar, dtype=x.dtype.base_dtype, name="scalar")
    if scalar.shape.ndims not in (0, None):
        raise ValueError("The input scalar must be a 0-D value. "
                         f"Received shape {scalar.shape}.")
    if isinstance(x, graph.IndexedSlices):
        return graph.IndexedSlices(scalar * x.values, x.indices, x.dense_shape)
    return binary_ops.Mul(scalar, x, name=name)


def repeat(input, repeats, axis=None, name=None):
    """Elements along `axis` (None: flattened), each as often as `repeats` says. TF: tf.repeat.
    input: any dtype, of known rank; repeats: int32 or int64, a scalar or one number for each place of
    the axis. TypeError for other repeats, ValueError for unknown ranks and higher ones and for an
    axis that input does not have."""
    with graph.name_scope(name, "Repeat", [input]):
        data = graph.convert_to_tensor(input, name="input")
        repeats = graph.convert_to_tensor(repeats, name="repeats")
        if repeats.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeError(f"tf.repeat: repeats must be int32 or int64, got {repeats.dtype.name}")
        if axis is None:
            data, axis = tensors.reshape(data, [-1]), 0
        if data.shape.ndims is None:
            raise ValueError("tf.repeat: the rank of input must be known")
        rank = data.shape.ndims
        if not -rank <= axis < rank:
            raise ValueError(f"tf.repeat: axis must be in [{-rank}, {rank}) for input of shape "
                             f"{data.shape}, got {axis}")
        axis = axis + rank if axis < 0 else axis
        if repeats.shape.ndims is None or repeats.shape.ndims > 1:
            raise ValueError(f"tf.repeat: repeats must be a scalar or vector, got shape "
                             f"{repeats.shape}")
        if repeats.shape.ndims == 0:
            return _repeat_alike(data, repeats, axis)
        n = tensors.cast(tensors.shape(data)[axis], repeats.dtype)
        counts = repeats + tensors.zeros(tensors.expand_dims(n, 0), repeats.dtype)
        return tensors.gather(data, _places(counts), axis=axis)


def _repeat_alike(data, repeats, axis):
    """Every place equally often: tiles along an axis of their own, which then joins `axis`."""
    def factors(ahead):             # 1, but `repeats` behind so many dimensions
        behind = data.shape.ndims - axis - 1
        parts = [[1] * ahead, tensors.reshape(repeats, [1]), [1] * behind]
        return tensors.concat([graph.convert_to_tensor(part, dtype=repeats.dtype)
                               for part in parts], 0)
    tiled = join_ops.Tile(tensors.expand_dims(data, axis + 1), factors(axis + 1))
    sizes = tensors.shape(data, out_type=repeats.dtype) * factors(axis)
    result = tensors.reshape(tiled, sizes)
    number, known = constant_value(repeats), data.shape.as_list()
    both = number is not None and known[axis] is not None
    known[axis] = known[axis] * int(number) if both else None
    result.set_shape(known)
    return result


def _places(counts):
    """[0] * counts[0] + [1] * counts[1] + ...: for each place the number of sums not above it."""
    ends = reductions.cumsum(counts)
    total = reductions.reduce_sum(counts)
    return lookup_functions.searchsorted(ends, tensors.range_(total), side="right")


PUBLIC = {
    "math.erfcinv": erfcinv, "math.bessel_i0": bessel_i0, "math.bessel_i1": bessel_i1,
    "math.xlog1py": xlog1py, "math.cumulative_logsumexp": cumulative_logsumexp, "lbeta": lbeta,
    "math.lbeta": lbeta, "math.polyval": polyval, "math.reciprocal_no_nan": reciprocal_no_nan,
    "scalar_mul": scalar_mul, "math.scalar_mul": scalar_mul, "repeat": repeat,
}
