"""tf.reduce_*, arg-extrema, running sums and products.

Invariant: functions take `axis` and TF's older names (`reduction_indices`, `keep_dims`), not both.

Example:  `tf.reduce_mean([[1.0, 2.0], [3.0, 4.0]], axis=0)` -> [2, 3].
"""
from pyflow.framework import dtypes, graph
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of, shape_vector
from pyflow.ops.base.tensors import reduction_axes
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.move import array_ops
from pyflow.ops.reduce.reduction_ops import (All, Any, ArgMax, ArgMin, Cumprod, Cumsum,
                                             EuclideanNorm, Max, Mean, Min, Prod, Sum)


def _reduction(opdef, name, example=""):
    def reduce(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None,
               keep_dims=None):
        axis = one_of(axis, reduction_indices, "axis", "reduction_indices")
        keepdims = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
        if not isinstance(input_tensor, graph.Tensor):
            fixed = opdef.inputs[0].dtype       # bool, of All and Any: [] is no list of floats
            input_tensor = graph.convert_to_tensor(input_tensor, dtype=fixed, name="input_tensor")
        result = opdef(input_tensor, reduction_axes(input_tensor, axis), keep_dims=bool(keepdims),
                       name=name)
        if axis is None and not keepdims:
            result.set_shape([])
        return result
    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"""{opdef.doc}

    input_tensor: any shape; axis: int, list or tensor of ints, None for all axes; keepdims: keep
    the reduced dimensions as 1. reduction_indices and keep_dims are the older names of the two.
    Dtypes, shapes, errors: as op {opdef.name}.
    {example}"""
    return reduce


reduce_sum = _reduction(Sum, "reduce_sum", """
        >>> tf.Session().run(tf.reduce_sum([[1, 2], [3, 6]], axis=1, keepdims=True))
        array([[3],
               [9]], dtype=int32)
    """)
reduce_mean = _reduction(Mean, "reduce_mean", """
        >>> tf.Session().run(tf.reduce_mean([[1., 2.], [3., 6.]], axis=0))
        array([2., 4.], dtype=float32)
    """)
reduce_prod = _reduction(Prod, "reduce_prod")
reduce_max = _reduction(Max, "reduce_max", """
        >>> tf.Session().run(tf.reduce_max([[1, 5], [3, 2]], axis=1))
        array([5, 3], dtype=int32)
    """)
reduce_min = _reduction(Min, "reduce_min", """
        >>> tf.Session().run(tf.reduce_min([[4, 1], [2, 3]], axis=0))
        array([2, 1], dtype=int32)
    """)
reduce_all = _reduction(All, "reduce_all")
reduce_any = _reduction(Any, "reduce_any")
reduce_euclidean_norm = _reduction(EuclideanNorm, "reduce_euclidean_norm")


def reduce_logsumexp(input_tensor, axis=None, keepdims=None, name=None, reduction_indices=None,
                     keep_dims=None):
    """log(sum(exp(x))) over axes, without overflow. TF: tf.reduce_logsumexp.
    input_tensor: floats of any shape. ValueError for an axis out of range."""
    axis = one_of(axis, reduction_indices, "axis", "reduction_indices")
    keepdims = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    with graph.name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        x = graph.convert_to_tensor(input_tensor)
        top = reduce_max(x, axis, keepdims=True)
        finite = logic_ops.Select(unary_ops.IsFinite(top), top, tensors.zeros_like(top))
        top = identity_ops.StopGradient(finite)
        total = unary_ops.Log(reduce_sum(unary_ops.Exp(x - top), axis, keepdims=keepdims))
        if not keepdims:
            top = array_ops.Reshape(top, shape_vector(total))
        return binary_ops.Add(total, top, name=scope)


def reduce_variance(input_tensor, axis=None, keepdims=False, name=None):
    """Mean squared distance from the mean over axes. TF: math.reduce_variance.
    input_tensor: floats or complex numbers, any shape; axis: ints. ValueError for an axis out of
    range."""
    with graph.name_scope(name or "reduce_variance"):
        x = graph.convert_to_tensor(input_tensor)
        means = reduce_mean(x, axis, keepdims=True)
        return reduce_mean(unary_ops.Square(x - means), axis, keepdims=keepdims)


def reduce_std(input_tensor, axis=None, keepdims=False, name=None):
    """Standard deviation over axes. TF: math.reduce_std.
    input_tensor: floats or complex numbers, any shape; axis: ints. ValueError for an axis out of
    range."""
    with graph.name_scope(name or "reduce_std"):
        return unary_ops.Sqrt(reduce_variance(input_tensor, axis, keepdims))


def count_nonzero(input_tensor=None, axis=None, keepdims=None, dtype=dtypes.int64, name=None,
                  reduction_indices=None, keep_dims=None, input=None):
    """How many elements over the axes are not zero, as `dtype`. TF: tf.count_nonzero.
    Dtypes, shapes, errors: as op NotEqual."""
    x = one_of(input_tensor, input, "input_tensor", "input")
    axis = one_of(axis, reduction_indices, "axis", "reduction_indices")
    keepdims = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    with graph.name_scope(name, "count_nonzero", [x]):
        x = graph.convert_to_tensor(x, name="input")
        present = logic_ops.NotEqual(x, tensors.zeros_like(x))
        counts = reduce_sum(tensors.cast(present, dtypes.int64), axis, keepdims=keepdims)
        return tensors.cast(counts, dtype)


def argmax(input, axis=None, name=None, dimension=None, output_type=dtypes.int64):
    """Index of the largest element along `axis` (default 0), the first of equals. TF: tf.argmax.

    input: numbers of any rank but 0. dimension: the older name of axis. output_type: int32 or
    int64.
    Dtypes, shapes, errors: as op ArgMax.

        >>> tf.Session().run(tf.argmax([[1, 9, 2], [7, 3, 7]], axis=1))
        array([1, 0])
    """
    axis = one_of(axis, dimension, "axis", "dimension", 0)
    return ArgMax(input, axis, output_type=output_type, name=name)


def argmin(input, axis=None, name=None, dimension=None, output_type=dtypes.int64):
    """Index of the smallest element along `axis` (default 0), the first of equals.
    TF: tf.argmin.
    Dtypes, shapes, errors: as op ArgMin."""
    axis = one_of(axis, dimension, "axis", "dimension", 0)
    return ArgMin(input, axis, output_type=output_type, name=name)


def arg_max(input, dimension, output_type=dtypes.int64, name=None):
    """The older form of `tf.argmax`. TF: tf.arg_max.
    Dtypes, shapes, errors: as op ArgMax."""
    return ArgMax(input, dimension, output_type=output_type, name=name)


def arg_min(input, dimension, output_type=dtypes.int64, name=None):
    """The older form of `tf.argmin`. TF: tf.arg_min.
    Dtypes, shapes, errors: as op ArgMin."""
    return ArgMin(input, dimension, output_type=output_type, name=name)


def cumsum(x, axis=0, exclusive=False, reverse=False, name=None):
    """Running sum along `axis`. TF: tf.cumsum.
    Dtypes, shapes, errors: as op Cumsum."""
    return Cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumprod(x, axis=0, exclusive=False, reverse=False, name=None):
    """Running product along `axis`. TF: tf.cumprod.
    Dtypes, shapes, errors: as op Cumprod."""
    return Cumprod(x, axis, exclusive=exclusive, reverse=reverse, name=name)


_REDUCTIONS = {f.__name__: f for f in (
    reduce_sum, reduce_mean, reduce_prod, reduce_max, reduce_min, reduce_all, reduce_any,
    reduce_logsumexp)}
_BOTH = {**_REDUCTIONS, "count_nonzero": count_nonzero, "argmax": argmax, "argmin": argmin,
         "cumsum": cumsum, "cumprod": cumprod}

PUBLIC = {
    **_BOTH, **{"math." + name: f for name, f in _BOTH.items()}, "arg_max": arg_max,
    "arg_min": arg_min, "math.reduce_euclidean_norm": reduce_euclidean_norm,
    "math.reduce_variance": reduce_variance, "math.reduce_std": reduce_std,
}
