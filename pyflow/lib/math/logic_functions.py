"""Choosing by bools: tf.where, tf.boolean_mask, tf.logical_xor."""
from pyflow.framework import dtypes, graph
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import int32s
from pyflow.ops.elementwise.logic_ops import (LogicalAnd, LogicalNot, LogicalOr, NotEqual, Select,
                                              SelectV2, Where)


# -------------------------------------------------------------------------------------------- logic
def logical_xor(x, y, name="LogicalXor"):
    """x or y but not both, broadcast. TF: tf.logical_xor.
    x, y: bool, shapes that broadcast. TypeError for other dtypes, ValueError for shapes that do
    not fit."""
    return LogicalAnd(LogicalOr(x, y), LogicalNot(LogicalAnd(x, y)), name=name)


# ---------------------------------------------------------------------------------------- selection
def not_equal(x, y, name=None):
    """x != y element by element, broadcast. TF: tf.not_equal.
    Dtypes, shapes, errors: as op NotEqual."""
    return NotEqual(x, y, name=name)


def where(condition, x=None, y=None, name=None):
    """Indices of the true elements of `condition` (of numbers: those that are not 0), or with both
    `x` and `y` a choice between them. TF: tf.where.
    Dtypes, shapes, errors: as ops Where and Select.

        >>> x = tf.constant([3, -1, 2])
        >>> sess = tf.Session()
        >>> sess.run(tf.where(x > 0))
        array([[0],
               [2]])
        >>> sess.run(tf.where(x > 0, x, tf.zeros_like(x)))
        array([3, 0, 2], dtype=int32)
    """
    if (x is None) != (y is None):
        raise ValueError("tf.where: give both x and y, or neither")
    if x is None:
        with graph.name_scope(name, "Where", [condition]) as scope:
            condition = graph.convert_to_tensor(condition, preferred_dtype=dtypes.bool,
                                                name="condition")
            return Where(condition, name=scope)
    return Select(condition, x, y, name=name)


def where_v2(condition, x=None, y=None, name=None):
    """Like `tf.where`, with all three arguments broadcast. TF: tf.compat.v2.where.
    Dtypes, shapes, errors: as op SelectV2."""
    if x is None and y is None:
        return where(condition, name=name)
    if x is None or y is None:
        raise ValueError("tf.where_v2: give both x and y, or neither")
    return SelectV2(condition, x, y, name=name)


def boolean_mask(tensor, mask, name="boolean_mask", axis=None):
    """The rows of `tensor` (from dimension `axis` on) where `mask` holds, in order.

    mask: bool [d1, ..., dk], k >= 1 known while the graph is built; its shape must match
    tensor.shape[axis:axis + k]. Returns [..., n, ...]. ValueError for a scalar mask. TF:
    tf.boolean_mask.
    tensor: any dtype; mask: bool, its shape the tensor's from `axis` on. ValueError for a scalar
    mask or shapes that do not fit."""
    with graph.name_scope(name, "boolean_mask", values=[tensor, mask]):
        tensor = graph.convert_to_tensor(tensor, name="tensor")
        mask = graph.convert_to_tensor(mask, name="mask")
        rank = mask.shape.ndims
        if not rank:
            raise ValueError("tf.boolean_mask: mask must have a known rank of at least 1, got "
                             "shape "
                             f"{mask.shape}")
        axis = int(axis or 0)
        tensor.shape[axis:axis + rank].assert_is_compatible_with(mask.shape)
        dims = tensors.shape(tensor)
        count = reductions.reduce_prod(dims[axis:axis + rank], [0], keepdims=True)
        flat = tensors.reshape(tensor, tensors.concat(
            [dims[:axis], count, dims[axis + rank:]], 0))
        known = tensor.shape.as_list() if tensor.shape.ndims is not None else None
        if known is not None:
            flat.set_shape(known[:axis] + [mask.shape.num_elements()] + known[axis + rank:])
        chosen = tensors.squeeze(Where(tensors.reshape(mask, int32s([-1]))), [1])
        return tensors.gather(flat, chosen, axis=axis)


PUBLIC = {
    "not_equal": not_equal, "math.not_equal": not_equal, "logical_xor": logical_xor,
    "math.logical_xor": logical_xor, "where": where, "where_v2": where_v2,
    "boolean_mask": boolean_mask,
}
