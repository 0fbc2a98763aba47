"""The functions on tensors that gradients of every family build with: shapes, tensors made from
nothing, joins, casts, sums.  tf has most of them under the same names.

Invariants
  1. Nothing here declares an op or imports a family: ops are named by type, through raw_ops.
  2. The shape of a tensor with a fully known static shape is a constant: no Shape node is built.

Thread: the one building the graph.

Example:  `tensors.reshape(dy, tensors.shape(x))` in a gradient.
"""
import math

import numpy as np

from pyflow.framework import dtypes, graph, origin
from pyflow.framework.op import raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, int32s, normal_axis, one_of, rank_of, sizes


def cast(x, dtype, name=None):
    """`x` (Tensor, SparseTensor or IndexedSlices) with element type `dtype`, any shape.
    TF: tf.cast.

    Floats lose their fraction in integers; numbers become False where they are 0.
    Dtypes, shapes, errors: as op Cast.

        >>> tf.Session().run(tf.cast([1.8, -1.8], tf.int32))
        array([ 1, -1], dtype=int32)
    """
    base = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, graph.Tensor) and x.dtype.base_dtype == base:
        return x
    with graph.name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, graph.SparseTensor):
            return graph.SparseTensor(x.indices, cast(x.values, base, name=scope), x.dense_shape)
        if isinstance(x, graph.IndexedSlices):
            return graph.IndexedSlices(cast(x.values, base, name=scope), x.indices, x.dense_shape)
        x = graph.convert_to_tensor(x, name="x")
        if x.dtype.base_dtype == base:
            return x
        return raw_ops.Cast(x, DstT=base, name=scope)


def real(input, name=None):
    """Real part; a real tensor is returned as it is. TF: tf.real.
    Dtypes, shapes, errors: as op Real."""
    input = graph.convert_to_tensor(input, name="input")
    if input.dtype.is_complex:
        return raw_ops.Real(input, Tout=input.dtype.real_dtype, name=name)
    return input


def imag(input, name=None):
    """Imaginary part; zeros for a real tensor. TF: tf.imag.
    Dtypes, shapes, errors: as op Imag."""
    input = graph.convert_to_tensor(input, name="input")
    if input.dtype.is_complex:
        return raw_ops.Imag(input, Tout=input.dtype.real_dtype, name=name)
    return zeros_like(input)


# ---------------------------------------------------------------------------------------- selection
def equal(x, y, name=None):
    """x == y element by element, broadcast. TF: tf.equal.

    NaN equals nothing.
    Dtypes, shapes, errors: as op Equal.

        >>> tf.Session().run(tf.equal([1, 2, 3], [1, 5, 3]))
        array([ True, False,  True])
    """
    return raw_ops.Equal(x, y, name=name)


NO_AXES = np.zeros(0, np.int32)


_SPARSE = (graph.SparseTensor, graph.SparseTensorValue)


def shape(input, name=None, out_type=dtypes.int32):
    """Dimensions of `input` as a vector; a constant where they are known. TF: tf.shape.
    input: any dtype; result: a vector of `out_type`, int32 or int64. ValueError for a ragged list.

        >>> x = tf.placeholder(tf.float32, [None, 2])
        >>> tf.Session().run(tf.shape(x), {x: [[1, 2], [3, 4], [5, 6]]})
        array([3, 2], dtype=int32)
    """
    return shape_internal(input, name, out_type=out_type)


def shape_internal(input, name=None, optimize=True, out_type=dtypes.int32):
    """`tf.shape`, which may be told not to fold."""
    with graph.name_scope(name, "Shape", [input]) as scope:
        if isinstance(input, _SPARSE):
            return cast(input.dense_shape, out_type)
        input = graph.convert_to_tensor(input)
        if optimize and input.shape.is_fully_defined():
            return _constant(input.shape.as_list(), out_type, scope)
        return raw_ops.Shape(input, out_type=out_type, name=scope)


def _constant(value, dtype, name):
    return graph.constant(value, dtypes.as_dtype(dtype), name=name)


def rank(input, name=None):
    """Number of dimensions, an int32 scalar; a constant where it is known. TF: tf.rank.
    input: any shape and dtype. ValueError for a ragged list."""
    with graph.name_scope(name, "Rank", [input]) as scope:
        if isinstance(input, _SPARSE):
            return raw_ops.Size(graph.convert_to_tensor(input.dense_shape), name=scope)
        input = graph.convert_to_tensor(input)
        if input.shape.ndims is not None:
            return _constant(input.shape.ndims, dtypes.int32, scope)
        return raw_ops.Rank(input, name=scope)


def size(input, name=None, out_type=dtypes.int32):
    """Number of elements, a scalar; a constant where it is known. TF: tf.size.
    input: any shape and dtype; result: `out_type`. ValueError for a ragged list."""
    with graph.name_scope(name, "Size", [input]) as scope:
        if isinstance(input, _SPARSE):
            sizes = cast(input.dense_shape, out_type)
            return raw_ops.Prod(sizes, 0, name=scope)
        input = graph.convert_to_tensor(input)
        if input.shape.is_fully_defined():
            return _constant(input.shape.num_elements(), out_type, scope)
        return raw_ops.Size(input, out_type=out_type, name=scope)


def reshape(tensor, shape, name=None):
    """The elements of `tensor` in another shape; one dimension may be -1. TF: tf.reshape.

    shape: a list of ints, or an int vector. The elements keep their row-major order.
    Dtypes, shapes, errors: as op Reshape.

        >>> tf.Session().run(tf.reshape([1, 2, 3, 4, 5, 6], [2, -1]))
        array([[1, 2, 3],
               [4, 5, 6]], dtype=int32)
    """
    if isinstance(shape, (list, tuple)) and not shape:
        shape = NO_AXES
    return raw_ops.Reshape(tensor, shape, name=name)


def squeeze(input, axis=None, name=None, squeeze_dims=None):
    """`input` without its dimensions of 1, or without those in `axis`. TF: tf.squeeze.

    axis: an int or a list of ints; squeeze_dims is its older name.
    Dtypes, shapes, errors: as op Squeeze.

        >>> tf.squeeze(tf.zeros([1, 3, 1, 2]), axis=[0]).shape.as_list()
        [3, 1, 2]
    """
    axis = one_of(axis, squeeze_dims, "axis", "squeeze_dims", [])
    if not isinstance(axis, (list, tuple, np.ndarray)):
        axis = [axis]
    return raw_ops.Squeeze(input, squeeze_dims=[int(a) for a in axis], name=name)


def expand_dims(input, axis=None, name=None, dim=None):
    """`input` with a dimension of 1 inserted at `axis`. TF: tf.expand_dims.

    axis: an int; negative ones count from behind. dim is its older name.
    Dtypes, shapes, errors: as op ExpandDims.

        >>> tf.expand_dims(tf.zeros([3, 2]), -1).shape.as_list()
        [3, 2, 1]
    """
    axis = one_of(axis, dim, "axis", "dim")
    if axis is None:
        raise ValueError("tf.expand_dims: axis must be given")
    return raw_ops.ExpandDims(input, axis, name=name)


def transpose(a, perm=None, name="transpose", conjugate=False):
    """Dimension i of the result is dimension perm[i] of `a`; all reversed without `perm`.
    TF: tf.transpose.
    a: any shape and dtype; perm: int vector, a permutation of its dimensions. conjugate: complex
    elements are conjugated, too. ValueError for another.

        >>> tf.Session().run(tf.transpose([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=int32)
    """
    with graph.name_scope(name, "transpose", [a]) as scope:
        a = graph.convert_to_tensor(a, name="a")
        conjugate = conjugate and a.dtype.is_complex
        build = raw_ops.ConjugateTranspose if conjugate else raw_ops.Transpose
        if perm is None:
            if a.shape.ndims is not None:
                perm = int32s(list(range(a.shape.ndims))[::-1])
            else:
                n = raw_ops.Rank(a)
                perm = (n - 1) - raw_ops.Range(0, n, 1)
        elif isinstance(perm, (list, tuple)) and not perm:
            perm = NO_AXES
        return build(a, perm, name=scope)


def matrix_transpose(a, name="matrix_transpose", conjugate=False):
    """The last two dimensions of `a` swapped. ValueError below rank 2. TF: tf.matrix_transpose.
    a: [..., m, n] of any dtype -> [..., n, m]. ValueError for less than two dimensions."""
    with graph.name_scope(name, values=[a]):
        a = graph.convert_to_tensor(a, name="a")
        n = a.shape.ndims
        if n is None:
            last = raw_ops.Rank(a) - 1
            perm = concat([raw_ops.Range(0, last - 1, 1), stack([last, last - 1])], 0)
            return transpose(a, perm, conjugate=conjugate)
        if n < 2:
            raise ValueError(f"tf.matrix_transpose: expected rank at least 2, got shape {a.shape}")
        return transpose(a, list(range(n - 2)) + [n - 1, n - 2], conjugate=conjugate)


def _filled(shape, value, dtype, name, default):
    dtype = dtypes.as_dtype(dtype).base_dtype
    with graph.name_scope(name, default, [shape]) as scope:
        value = {dtypes.bool: bool(value), dtypes.string: "" if not value
                 else str(value)}.get(dtype, value)
        if not isinstance(shape, graph.Tensor):
            known = _known_dims(shape)
            if known is not None and math.prod(known) < 1000:
                return _constant(np.full(known, value, dtype.as_numpy_dtype), dtype, scope)
            shape = (graph.convert_to_tensor(shape, dtype=dtypes.int32, name="shape_as_tensor")
                     if known is None else
                     graph.convert_to_tensor(sizes(known), name="shape_as_tensor"))
        if not shape.shape.ndims:
            shape = raw_ops.Reshape(shape, int32s([-1]))
        return raw_ops.Fill(shape, _constant(value, dtype, "Const"), name=scope)


def _known_dims(shape):
    """Dimensions given as numbers, or None where a tensor is among them."""
    if isinstance(shape, TensorShape):
        return shape.as_list() if shape.is_fully_defined() else None
    items = shape if isinstance(shape, (list, tuple)) else [shape]
    if isinstance(shape, np.ndarray):
        items = shape.ravel().tolist()
    if any(graph.is_dense_tensor_like(d) for d in items):
        return None
    try:
        known = [int(d) for d in items]
    except (TypeError, ValueError):
        return None
    for size, given in zip(known, items):
        if size != given and isinstance(given, (float, np.floating)):
            raise TypeError(f"Expected int32, got {given!r} of type {type(given).__name__!r} "
                            f"instead: a shape has whole sizes, and {shape!r} has not.")
        if size < 0:
            raise ValueError(f"Fill dimensions must be >= 0, got {size} in the shape {shape!r} "
                             f"({origin.user_frame(origin.here(3))}); -1, for what is left, is "
                             "tf.reshape's alone")
    return known


def zeros(shape, dtype=dtypes.float32, name=None):
    """Zeros (false, empty strings) of a shape given as ints or an int tensor. TF: tf.zeros.
    Result: the given shape and dtype. ValueError for a negative size.

        >>> tf.Session().run(tf.zeros([2, 3]))
        array([[0., 0., 0.],
               [0., 0., 0.]], dtype=float32)
    """
    return _filled(shape, 0, dtype, name, "zeros")


def ones(shape, dtype=dtypes.float32, name=None):
    """Ones of a shape given as ints or an int tensor. TF: tf.ones.
    Result: the given shape and dtype. ValueError for a negative size.

        >>> tf.Session().run(tf.ones([2, 3]))
        array([[1., 1., 1.],
               [1., 1., 1.]], dtype=float32)
    """
    return _filled(shape, 1, dtype, name, "ones")


def _like(tensor, dtype, name, optimize, default, same, other):
    with graph.name_scope(name, default, [tensor]) as scope:
        tensor = graph.convert_to_tensor(tensor, name="tensor")
        target = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        if optimize and tensor.shape.is_fully_defined() and target != dtypes.variant:
            return other(tensor.shape, target, name=scope)
        if target != tensor.dtype.base_dtype:
            return other(shape_internal(tensor, optimize=optimize), target, name=scope)
        return same(tensor, name=scope)


def zeros_like(tensor, dtype=None, name=None, optimize=True):
    """Zeros of the shape of `tensor`, in its dtype or `dtype`. TF: tf.zeros_like.

    optimize: where the shape is known the result is a constant.
    Dtypes, shapes, errors: as op ZerosLike.

        >>> tf.Session().run(tf.zeros_like([7, 8]))
        array([0, 0], dtype=int32)
    """
    return _like(tensor, dtype, name, optimize, "zeros_like", raw_ops.ZerosLike, zeros)


def ones_like(tensor, dtype=None, name=None, optimize=True):
    """Ones of the shape of `tensor`, in its dtype or `dtype`. TF: tf.ones_like.

    optimize: where the shape is known the result is a constant.
    Dtypes, shapes, errors: as op OnesLike.

        >>> tf.Session().run(tf.ones_like([7, 8]))
        array([1, 1], dtype=int32)
    """
    return _like(tensor, dtype, name, optimize, "ones_like", raw_ops.OnesLike, ones)


def range_(start, limit=None, delta=1, dtype=None, name="range"):
    """start, start + delta, ... below `limit`; with one argument from 0. TF: tf.range.

    start, limit, delta: scalars; dtype: of the result, default what the three have in common.
    Dtypes, shapes, errors: as op Range.

        >>> tf.Session().run(tf.range(2, 10, 3))
        array([2, 5, 8], dtype=int32)
    """
    if limit is None:
        start, limit = 0, start
    with graph.name_scope(name, "Range", [start, limit, delta]) as scope:
        values = [graph.convert_to_tensor(v, dtype=dtype, name=part)
                  for v, part in ((start, "start"), (limit, "limit"), (delta, "delta"))]
        if dtype is None:
            order = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)
            widest = max((v.dtype.base_dtype for v in values),
                         key=lambda t: order.index(t) if t in order else len(order))
            values = [cast(v, widest) for v in values]
        return raw_ops.Range(*values, name=scope)


def gather(params, indices, validate_indices=None, name=None, axis=None, batch_dims=0):
    """Slices of `params` along `axis` by index. TF: tf.gather.

    indices: ints of any shape, which takes the place of the axis (default 0, or batch_dims).
    batch_dims: so many leading dimensions are common to both. validate_indices: accepted; an index
    out of range fails the step.
    Dtypes, shapes, errors: as op GatherV2.

        >>> tf.Session().run(tf.gather([10, 20, 30], [2, 0]))
        array([30, 10], dtype=int32)
    """
    if axis is None:
        axis = batch_dims
    read = getattr(params, "sparse_read", None)
    if read is not None and isinstance(axis, int) and axis == 0 and batch_dims == 0:
        return read(indices, name=name)
    return raw_ops.GatherV2(params, indices, axis, batch_dims=batch_dims, name=name)


def concat(values, axis, name="concat"):
    """The tensors of a list end to end along `axis`. TF: tf.concat.

    values: a list of tensors of one rank, equal in all dimensions but `axis`, an int.
    Dtypes, shapes, errors: as op ConcatV2.

        >>> tf.Session().run(tf.concat([[[1, 2]], [[3, 4]]], axis=1))
        array([[1, 2, 3, 4]], dtype=int32)
    """
    if isinstance(axis, (list, tuple)) and isinstance(values, int):
        raise TypeError("tf.concat takes the tensors first, then the axis (since TF 1.0): "
                        f"tf.concat(values, {values})")
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) > 1:
        return raw_ops.ConcatV2(list(values), axis, name=name)
    with graph.name_scope(name) as scope:
        value = graph.convert_to_tensor(values[0])
        if value.shape.ndims is not None and not isinstance(axis, graph.Tensor):
            normal_axis(int(axis), value.shape.ndims)
        return raw_ops.Identity(value, name=scope)


def stack(values, axis=0, name="stack"):
    """Tensors of one shape as one of a rank higher, the new dimension at `axis`. TF: tf.stack.

    values: a list of them.
    Dtypes, shapes, errors: as op Pack.

        >>> tf.Session().run(tf.stack([[1, 2], [3, 4]], axis=1))
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    if graph.is_dense_tensor_like(values):
        values = unstack(values)
    if axis == 0 and all(isinstance(v, (bool, int, float, np.generic, np.ndarray)) for v in values):
        return graph.convert_to_tensor(
            np.asarray(values) if _is_numpy(values) else list(values), name=name
        )
    return raw_ops.Pack(list(values), axis=axis, name=name)


def _is_numpy(values):
    return all(isinstance(v, (np.generic, np.ndarray)) for v in values)


def unstack(value, num=None, axis=0, name="unstack"):
    """The tensors along `axis`; `num` is needed where that dimension is unknown. TF: tf.unstack.
    Dtypes, shapes, errors: as op Unpack."""
    if num is None:
        value = graph.convert_to_tensor(value)
        dims = dims_of(value.shape)
        if dims is not None:
            num = dims[normal_axis(axis, len(dims))]
        if num is None:
            raise ValueError(f"tf.unstack: cannot infer num from shape {value.shape}; pass num")
    return raw_ops.Unpack(value, num=num, axis=axis, name=name)


def slice_(input_, begin, size, name=None):
    """The block of `size` from `begin`; a size of -1 takes the rest. TF: tf.slice.

    input_: any shape; begin, size: an int for each of its dimensions.
    Dtypes, shapes, errors: as op Slice.

        >>> tf.Session().run(tf.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [-1, 2]))
        array([[2, 3],
               [5, 6]], dtype=int32)
    """
    return raw_ops.Slice(input_, index_vector(begin), index_vector(size), name=name)


def index_vector(value):
    return int32s(value) if isinstance(value, (list, tuple)) and not value else value


def reduction_axes(x, axis):
    """The axes to reduce: as given, or all of them."""
    if axis is not None:
        if isinstance(axis, (list, tuple)) and not axis:
            return int32s(axis)
        return axis
    if isinstance(x, graph.SparseTensor):
        x = x.dense_shape
    rank = rank_of(x)
    if isinstance(rank, int):
        return graph.constant(int32s(list(range(rank))))
    return range_(0, rank)


# ------------------------------------------------------------------------- sums, products, any
def _reduced(reduce, x, axis, keepdims):
    result = reduce(x, reduction_axes(x, axis), keep_dims=keepdims)
    if axis is None and not keepdims:
        result.set_shape([])
    return result


def sum_of(x, axis=None, keepdims=False):
    """The tensor `x` summed over an axis, a list or tensor of them; None: over all."""
    return _reduced(raw_ops.Sum, x, axis, keepdims)


def product_of(x, axis=None, keepdims=False):
    """The product of the tensor `x` over axes, as sum_of."""
    return _reduced(raw_ops.Prod, x, axis, keepdims)


def any_of(x, axis=None, keepdims=False):
    """Whether one of the bools `x` is true over axes, as sum_of."""
    return _reduced(raw_ops.Any, x, axis, keepdims)


PUBLIC = {
    "cast": cast, "dtypes.cast": cast, "real": real, "imag": imag, "math.real": real,
    "math.imag": imag, "equal": equal, "math.equal": equal, "shape": shape, "rank": rank,
    "size": size, "reshape": reshape, "squeeze": squeeze, "expand_dims": expand_dims,
    "transpose": transpose, "matrix_transpose": matrix_transpose,
    "linalg.transpose": matrix_transpose, "linalg.matrix_transpose": matrix_transpose,
    "zeros": zeros, "ones": ones, "zeros_like": zeros_like, "ones_like": ones_like, "range": range_,
    "gather": gather, "concat": concat, "concat_v2": concat, "stack": stack, "unstack": unstack,
    "slice": slice_,
}
