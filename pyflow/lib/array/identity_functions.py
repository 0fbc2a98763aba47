"""Tensors passed on, placeholders, checks of shape and number: tf.identity and its kin."""
from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.control.identity_ops import (CheckNumerics, EnsureShape, Identity, IdentityN,
                                             Placeholder, PlaceholderWithDefault, StopGradient)


def identity(input, name=None):
    """A tensor of the same value. TF: tf.identity.

    input: any. Of a variable: a name for its value (docs/state.md, rule 4).
    Dtypes, shapes, errors: as op Identity.

        >>> tf.Session().run(tf.identity([1, 2], name="logits"))
        array([1, 2], dtype=int32)
    """
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

    dtype: the type of its elements. shape: a tf.TensorShape or a list of sizes, None among them.
    Dtypes, shapes, errors: as op Placeholder.

        >>> x = tf.placeholder(tf.float32, [None, 2], name="x")
        >>> with tf.Session() as sess:
        ...     sess.run(tf.reduce_sum(x, 1), {x: [[1, 2], [3, 4]]})
        array([3., 7.], dtype=float32)
    """
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
    Dtypes, shapes, errors: as op StopGradient.

        >>> x = tf.constant(3.0)
        >>> tf.Session().run(tf.gradients(x * tf.stop_gradient(x), x))
        [np.float32(3.0)]
    """
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
