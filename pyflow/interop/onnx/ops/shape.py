"""Ops that change or read shapes: Reshape, Transpose, Flatten, Squeeze, Unsqueeze, Expand, Shape.

Transposes are not computed here: a Value remembers the order it lies in (see ../values.py), and
reshapes that only split or join axes that lie together are made in that order, so channel shuffles
and the like stay channels-last."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Stretched, Value, ints, natural, sizes
from pyflow.interop.onnx.registry import converter

_MAX_KNOWN = 1 << 27        # elements of a constant that is made while importing


@converter("Transpose")
def transpose(node):
    value = node.value(0)
    rank = node.rank(0)
    perm = node.attr("perm", None) or list(range(rank))[::-1]
    if sorted(perm) != list(range(rank)):
        raise node.error(f"perm {perm} is no permutation of the axes of a tensor of rank {rank}")
    return value.transposed(perm)


@converter("Shape")
def shape_op(node):
    value = node.value(0)
    rank = value.rank
    if rank is None:
        return tf.shape(value.plain, out_type=tf.int64)
    start, end = _clamped(node.attr("start", 0), rank), _clamped(node.attr("end", rank), rank)
    dims = value.shape[start:max(end, start)]
    if None not in dims:
        return np.array(dims, np.int64)
    return tf.shape(value.plain, out_type=tf.int64)[start:max(end, start)]


def _clamped(index, rank):
    return min(max(index + rank if index < 0 else index, 0), rank)


@converter("Size")
def size(node):
    shape = node.value(0).shape
    if shape is not None and None not in shape:
        return np.array(math.prod(shape), np.int64)
    return tf.size(node.value(0).tensor, out_type=tf.int64)


# reshape
@converter("Reshape")
def reshape_by_attribute(node):
    return _reshape(node, np.array(node.attr("shape"), np.int64), False)


@converter("Reshape", since=5)
def reshape(node):
    keep_zero = bool(node.attr("allowzero", 0))
    wanted = node.known(1)
    if wanted is not None:
        return _reshape(node, wanted, keep_zero)
    x, shape = node.x(0), node.sizes_from(1)
    if not keep_zero:
        shape = tf.cast(shape, tf.int64)
        length = tf.shape(shape, out_type=tf.int64)
        own = tf.concat([sizes(x), tf.fill(length, ints([0])[0])], 0)[:length[0]]
        shape = tf.where_v2(tf.equal(shape, ints([0])), own, shape)
    return tf.reshape(x, shape)


def _reshape(node, wanted, keep_zero):
    value, wanted = node.value(0), [int(d) for d in wanted]
    have = value.shape
    if not keep_zero and 0 in wanted:
        wanted = _copied(node, wanted, have)
        if wanted is None:
            parts = [sizes(node.x(0))[i:i + 1] if d == 0 else ints([d])
                     for i, d in enumerate([int(d) for d in node.known(1)])]
            return tf.reshape(node.x(0), tf.concat(parts, 0))
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise node.error(f"{wanted} is no shape: at most one size may be -1, none less")
    if have is not None and None not in have and -1 in wanted:
        rest = -math.prod(wanted)
        if rest and math.prod(have) % rest == 0:
            wanted[wanted.index(-1)] = math.prod(have) // rest
    return regrouped(value, wanted)


def _copied(node, wanted, have):
    """Zeros replaced by the input's sizes; None if one is not known and cannot become -1."""
    if have is None:
        return None
    made = []
    for i, d in enumerate(wanted):
        if d == 0:
            if i >= len(have):
                raise node.error(f"shape {wanted} copies size {i}, but the input has shape {have}")
            d = have[i]
        made.append(d)
    if made.count(None) == 1 and -1 not in made:
        made[made.index(None)] = -1
    return None if None in made else made


def regrouped(value, wanted):
    """The value reshaped; in the order it lies in where its axes are only split and joined."""
    if value.is_array and -1 not in wanted and math.prod(wanted) == value.array.size:
        return Value(array=value.array.reshape(wanted))
    have = value.shape
    if value.order is None or None in have or -1 in wanted or 0 in wanted or 0 in have:
        return Value(tf.reshape(value.plain, wanted))
    groups = groups_of(have, wanted)
    if groups is None:
        return Value(tf.reshape(value.plain, wanted))
    order = together(value.order, have, [old for old, new in groups])
    if order == natural(len(have)):
        return Value(tf.reshape(value.plain, wanted))
    first = {group[0][0]: group for group in groups if group[0]}
    new_order = [axis for old in order if old in first for axis in first[old][1]]
    new_order += [axis for old, new in groups if not old for axis in new]
    tensor = value.ordered(order)
    return Value(tf.reshape(tensor, [wanted[axis] for axis in new_order]), new_order)


def groups_of(have, wanted):
    """[(old axes, new axes)] with equal products, as fine as possible; None if sizes differ."""
    groups, i, j = [], 0, 0
    while i < len(have) or j < len(wanted):
        old, new, a, b = [], [], 1, 1
        while True:
            if a == b and (old or new) and not (a == 1 and (not old or not new)
                                                and i < len(have) and j < len(wanted)):
                break
            if a <= b and i < len(have) and (a < b or not old):
                old.append(i)
                a *= have[i]
                i += 1
            elif j < len(wanted):
                new.append(j)
                b *= wanted[j]
                j += 1
            elif i < len(have):
                old.append(i)
                a *= have[i]
                i += 1
            else:
                return None
        groups.append((old, new))
    return groups


def together(order, have, olds):
    """An order close to `order` in which the axes of each group lie together, ascending.

    Axes of size 1 do not decide where a group lies that has others."""
    group_of = {axis: g for g, old in enumerate(olds) for axis in old}
    light = {axis for old in olds for axis in old
             if have[axis] == 1 and any(have[other] != 1 for other in old)}
    placed, result = set(), []
    for axis in sorted(order, key=lambda axis: (axis in light, order.index(axis))):
        g = group_of[axis]
        if g not in placed:
            placed.add(g)
            result += olds[g]
    if [a for a in result if have[a] != 1] == [a for a in natural(len(have)) if have[a] != 1]:
        return natural(len(have))
    return tuple(result)


@converter("Flatten")
def flatten(node):
    rank = node.rank(0)
    axis = node.attr("axis", 1)
    if not -rank <= axis <= rank:
        raise node.error(f"axis {axis} is out of range for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    shape = node.shape(0)
    front, back = shape[:axis], shape[axis:]
    if None not in shape:
        return regrouped(node.value(0), [math.prod(front), math.prod(back)])
    if None not in back:
        return Value(tf.reshape(node.x(0), [-1, math.prod(back)]))
    if None not in front:
        return Value(tf.reshape(node.x(0), [math.prod(front), -1]))
    own = sizes(node.x(0))
    return Value(tf.reshape(node.x(0), tf.stack([tf.reduce_prod(own[:axis]),
                                                 tf.reduce_prod(own[axis:])])))


@converter("Squeeze")
def squeeze_by_attribute(node):
    return _squeeze(node, node.attr("axes", None))


@converter("Squeeze", since=13)
def squeeze(node):
    return _squeeze(node, node.need(1, "axes").reshape(-1).tolist() if node.has(1) else None)


def _squeeze(node, axes):
    """No axes at all and an empty list of them mean every axis of size 1, as in onnxruntime."""
    if not axes:
        shape = node.shape(0)
        if None in shape:
            return Value(tf.squeeze(node.x(0)))
        axes = [i for i, d in enumerate(shape) if d == 1]
    rank = node.rank(0)
    axes = {node.axis(int(a), rank) for a in axes}
    shape = node.shape(0)
    wrong = [a for a in axes if shape[a] not in (1, None)]
    if wrong:
        raise node.error(f"axis {wrong[0]} of shape {shape} has not size 1 and cannot be squeezed")
    kept = [d for i, d in enumerate(shape) if i not in axes]
    if None not in kept:
        return regrouped(node.value(0), kept) if 0 not in kept else Value(
            tf.reshape(node.x(0), kept))
    return squeezed(node.value(0), axes) if axes else node.value(0)


def squeezed(value, axes):
    """The value without axes of size 1, in the order it lies in."""
    order = value.order or natural(value.rank)
    left = [axis for axis in order if axis not in axes]
    new = [axis - sum(gone < axis for gone in axes) for axis in left]
    tensor = tf.squeeze(value.tensor, [order.index(axis) for axis in sorted(axes)])
    return Value(tensor, new if new else None)


def unsqueezed(value, axes):
    """The value with axes of size 1, sorted, which lie where most of its neighbours stay together:
    in front of the axis that follows each in ONNX's order, or last."""
    rank = value.rank + len(axes)
    old = [axis for axis in range(rank) if axis not in axes]     # the value's axes, counted anew
    order = [old[axis] for axis in value.order or natural(value.rank)]
    tensor = value.tensor
    for axis in reversed(axes):
        at = order.index(axis + 1) if axis + 1 in order else len(order)
        order.insert(at, axis)
        tensor = tf.expand_dims(tensor, at)
    return Value(tensor, order)


@converter("Unsqueeze")
def unsqueeze_by_attribute(node):
    return _unsqueeze(node, node.attr("axes"))


@converter("Unsqueeze", since=13)
def unsqueeze(node):
    return _unsqueeze(node, node.need(1, "axes").reshape(-1).tolist())


def _unsqueeze(node, axes):
    value = node.value(0)
    rank = node.rank(0) + len(axes)
    axes = sorted(node.axis(int(a), rank) for a in axes)
    if len(set(axes)) != len(axes):
        raise node.error(f"axes {axes} contain one twice")
    if value.is_array:
        return Value(array=np.expand_dims(value.array, tuple(axes)))
    shape = list(node.shape(0))
    for axis in axes:
        shape.insert(axis, 1)
    if None not in shape:
        return regrouped(value, shape)
    if shape.count(None) == 1 and value.order is None:
        return Value(tf.reshape(value.plain, [-1 if d is None else d for d in shape]))
    return unsqueezed(value, axes)


@converter("Expand")
def expand(node):
    """Both the input and the asked shape may have ones that are stretched."""
    wanted, have = node.known(1), node.value(0).shape
    x = node.x(0)
    if wanted is not None and have is not None and None not in have:
        try:
            shape = np.broadcast_shapes(have, tuple(int(d) for d in wanted))
        except ValueError:
            raise node.error(f"shape {have} does not broadcast to {wanted.tolist()}") from None
        if shape == have:
            return node.value(0)
        made = Value(tf.broadcast_to(x, ints(shape)))
    else:
        shape = tf.cast(node.sizes_from(1), tf.int64)
        made = Value(tf.broadcast_to(x, tf.broadcast_dynamic_shape(sizes(x), shape)))
    made.source = Stretched(node.value(0))
    return made


@converter("ConstantOfShape")
def constant_of_shape(node):
    value = node.attr("value", None)
    value = np.zeros(1, np.float32) if value is None else value
    if value.size != 1:
        raise node.error(f"attribute 'value' must have one element, got shape {value.shape}")
    shape = node.known(0)
    if shape is not None:
        if (shape < 0).any():
            raise node.error(f"{shape.tolist()} is no shape")
        if np.prod(shape.astype(float)) <= _MAX_KNOWN:
            return Value(array=np.broadcast_to(value.reshape(()), shape.tolist()))
    return tf.fill(node.sizes_from(0), tf.constant(value.reshape(())))


@converter("Constant")
def constant(node):
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32),
                        ("value_int", np.int64), ("value_ints", np.int64)):
        if node.has_attr(name):
            return np.array(node.attr(name), dtype)
    if node.has_attr("value"):
        return node.tensor_attr("value", node.outputs[0])
    if node.has_attr("sparse_value"):
        return Value(array=node.attr("sparse_value"))
    for name in ("value_string", "value_strings"):
        if node.has_attr(name):
            items = node.attr(name)
            array = np.empty((len(items),) if isinstance(items, list) else (), object)
            array[...] = [s.encode() if isinstance(s, str) else s for s in items] \
                if isinstance(items, list) else items.encode()
            return Value(array=array)
    raise node.error(f"expected one of the attributes value, value_float, ..., got "
                     f"{node.attr_names()}")
