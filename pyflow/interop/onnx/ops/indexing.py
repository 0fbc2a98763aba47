"""Ops that pick and place by index: Gather, Scatter, TopK, ArgMax, Unique, NonMaxSuppression.

Elements along an axis are found through their place in the flattened tensor."""

import math

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import (Stretched, Value, call, ints, sequence, sizes,
                                            widened)
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter


_MAX_COLUMNS = 1024         # of rows that are sorted, a column after the other


def wrapped(indices, size):
    """int64 indices in which negative ones count from the end."""
    indices = tf.cast(indices, tf.int64)
    return tf.where_v2(tf.less(indices, ints([0])[0]), indices + tf.cast(size, tf.int64), indices)


@converter("Gather")
def gather(node):
    value = node.value(0)
    axis = node.axis(node.attr("axis", 0), node.rank(0))
    known = node.known(1)
    if known is not None:
        size = node.shape(0)[axis]
        if size is not None and known.size and (known.min() < -size or known.max() >= size):
            raise node.error(f"indices lie in [{known.min()}, {known.max()}], expected "
                             f"[{-size}, {size - 1}] for axis {axis} of shape {node.shape(0)}")
        if value.is_array:
            return Value(array=np.take(value.array, known, axis))
        if not known.size or known.min() >= 0:
            return tf.gather(value.plain, tf.constant(known), axis=axis)
    x = value.plain
    return tf.gather(x, wrapped(node.x(1), sizes(x)[axis]), axis=axis)


def _flat_places(indices, x, axis):
    """Places, in the flattened x, of x[..., indices, ...]: one per element of `indices`."""
    own = sizes(x)
    rank = x.shape.ndims
    strides = tf.cumprod(own, exclusive=True, reverse=True)
    total = wrapped(indices, own[axis]) * strides[axis]
    of_indices = sizes(indices)
    for other in range(rank):
        if other != axis:
            steps = sequence(of_indices[other]) * strides[other]
            total = total + tf.reshape(steps, [-1 if i == other else 1 for i in range(rank)])
    return total


@converter("GatherElements")
def gather_elements(node):
    axis = node.axis(node.attr("axis", 0), node.rank(0))
    if node.rank(1) != node.rank(0):
        raise node.error(f"data and indices must have one rank, got shapes {node.shape(0)} and "
                         f"{node.shape(1)}")
    x = node.x(0)
    return tf.gather(tf.reshape(x, [-1]), _flat_places(node.x(1), x, axis))


@converter("GatherND")
def gather_nd(node):
    x, indices = node.x(0), node.x(1)
    batch = node.attr("batch_dims", 0)
    depth = node.shape(1)[-1]
    if depth is None:
        raise node.needs(indices, "the last size of the indices")
    if batch + depth > node.rank(0):
        raise node.error(f"indices of {depth} axes after {batch} batch axes do not fit rank "
                         f"{node.rank(0)}")
    own = sizes(x)
    parts = [wrapped(indices[..., k:k + 1], own[batch + k]) for k in range(depth)]
    rank = node.rank(1)
    for k in reversed(range(batch)):
        steps = tf.reshape(sequence(own[k]), [-1 if i == k else 1 for i in range(rank)])
        parts.insert(0, tf.broadcast_to(steps, sizes(parts[-1])))
    return tf.gather_nd(x, tf.concat(parts, -1) if parts else indices)


# scatters
_SEGMENT = {"add": ("UnsortedSegmentSum", "AddV2"), "mul": ("UnsortedSegmentProd", "Mul"),
            "max": ("UnsortedSegmentMax", "Maximum"), "min": ("UnsortedSegmentMin", "Minimum")}


def scattered(node, rows, places, updates):
    """`rows` [n, ...] with updates [k, ...] put, added, ... at places [k]."""
    how = node.attr("reduction", "none")
    if how == "none":
        return tf.tensor_scatter_update(rows, tf.expand_dims(places, 1), updates)
    if how not in _SEGMENT:
        raise node.error(f"reduction {how!r} is none of none, add, mul, max, min")
    segment, combine = _SEGMENT[how]
    return call(combine, rows, _segments(segment, updates, places, sizes(rows)[0]))


def _segments(op_name, updates, places, count):
    (wide,), back = widened(op_name, [updates])
    made = get_op(op_name)(wide, places, tf.cast(count, tf.int32))
    return made if back is None else tf.cast(made, back)


@converter("ScatterElements", "Scatter")
def scatter_elements(node):
    axis = node.axis(node.attr("axis", 0), node.rank(0))
    x = node.x(0)
    rows = _whole_rows(node) if axis == 0 else None
    if rows is not None:
        return scattered(node, x, wrapped(rows, sizes(x)[0]), node.x(2))
    places = tf.reshape(_flat_places(node.x(1), x, axis), [-1])
    made = scattered(node, tf.reshape(x, [-1]), places, tf.reshape(node.x(2), [-1]))
    return tf.reshape(made, sizes(x))


def _whole_rows(node):
    """The places of rows [k] where ScatterElements' indices are those stretched over the rest of
    the axes, as exporters write what is scattered by rows; None if they are not, or not known to
    be as wide as the data."""
    source = node.value(1).source
    own, updates = node.shape(0), node.shape(2)
    if not isinstance(source, Stretched) or own is None or updates is None \
            or None in own[1:] or own[1:] != updates[1:] or len(own) != len(updates):
        return None
    inner = source.value.shape
    if inner is None or len(inner) != len(own) or any(d != 1 for d in inner[1:]):
        return None
    return tf.broadcast_to(tf.reshape(source.value.plain, [-1]), sizes(node.x(2))[:1])


@converter("ScatterND")
def scatter_nd(node):
    x, indices = node.x(0), node.x(1)
    depth = node.shape(1)[-1]
    if depth is None:
        raise node.needs(indices, "the last size of the indices")
    if depth > node.rank(0):
        raise node.error(f"indices of shape {node.shape(1)} do not fit data of shape "
                         f"{node.shape(0)}")
    own = sizes(x)
    lead, rest = own[:depth], own[depth:]
    strides = tf.cumprod(lead, exclusive=True, reverse=True)
    places = tf.reduce_sum(wrapped(indices, lead) * strides, -1)
    row = tf.concat([ints([-1]), rest], 0) if depth < node.rank(0) else ints([-1])
    rows = tf.reshape(x, row)
    made = scattered(node, rows, tf.reshape(places, [-1]), tf.reshape(node.x(2), row))
    return tf.reshape(made, own)


@converter("TensorScatter")
def tensor_scatter(node):
    """Writes updates into a cache [batch, ..., length, ...] from a place per batch entry on."""
    cache, update = node.x(0), node.x(1)
    rank = node.rank(0)
    axis = node.axis(node.attr("axis", -2), rank)
    own, new = sizes(cache), sizes(update)
    steps = tf.reshape(sequence(new[axis]), [-1 if i == axis else 1 for i in range(rank)])
    if node.has(2):
        starts = tf.reshape(tf.cast(node.x(2), tf.int64), [-1] + [1] * (rank - 1))
        steps = steps + starts
    if node.attr("mode", "linear") == "circular":
        steps = tf.floormod(steps, own[axis])
    places = _flat_places(tf.broadcast_to(steps, new), cache, axis)
    made = tf.tensor_scatter_update(tf.reshape(cache, [-1]), tf.reshape(places, [-1, 1]),
                                    tf.reshape(update, [-1]))
    return tf.reshape(made, own)


# order
def reversed_order(x):
    """Numbers in the opposite order of x, without overflow."""
    return tf.negative(x) if x.dtype.is_floating else tf.bitwise.invert(x)


def argsort(x):
    """Indices that sort the vector x ascending; equal elements keep their order."""
    return tf.nn.top_k(reversed_order(x), tf.cast(sizes(x)[0], tf.int32)).indices


@converter("TopK")
def top_k_by_attribute(node):
    return _top_k(node, node.attr("k"))


@converter("TopK", since=10)
def top_k(node):
    k = node.known(1)
    return _top_k(node, int(k.reshape(())) if k is not None else tf.cast(
        tf.reshape(node.x(1), []), tf.int32))


def _top_k(node, k):
    rank = node.rank(0)
    axis = node.axis(node.attr("axis", -1), rank)
    order = [i for i in range(rank) if i != axis] + [axis]
    size = node.shape(0)[axis]
    if isinstance(k, int) and (k < 0 or size is not None and k > size):
        raise node.error(f"k is {k}, expected a number in [0, {size}] for shape {node.shape(0)}")
    x = node.value(0).ordered(order)
    largest = node.attr("largest", 1)
    values, indices = tf.nn.top_k(x if largest else reversed_order(x), k)
    values = values if largest else reversed_order(values)
    return [Value(values, order), Value(tf.cast(indices, tf.int64), order)]


@converter("ArgMax", "ArgMin")
def arg_max(node):
    axis = node.axis(node.attr("axis", 0), node.rank(0))
    x = node.x(0)
    last = node.attr("select_last_index", 0)
    if last:
        x = tf.reverse(x, [axis])
    found = call("ArgMax" if node.op == "ArgMax" else "ArgMin", x,
                 dimension=axis, output_type=tf.int64)
    if last:
        found = sizes(x)[axis] - ints([1])[0] - found
    return tf.expand_dims(found, axis) if node.attr("keepdims", 1) else found


@converter("Compress")
def compress(node):
    """Conditions beyond the axis's end are not looked at."""
    x, axis = node.x(0), 0
    if node.has_attr("axis"):
        axis = node.axis(node.attr("axis"), node.rank(0))
    else:
        x = tf.reshape(x, [-1])
    places = tf.reshape(tf.where(node.x(1)[:sizes(x)[axis]]), [-1])
    return tf.gather(x, places, axis=axis)


@converter("Unique")
def unique(node):
    """Rows along `axis` (elements if there is none), their first places, the inverse, counts."""
    x, rank = node.x(0), node.rank(0)
    if x.dtype is tf.string:
        return _unique_texts(node, x)
    if node.has_attr("axis"):
        axis = node.axis(node.attr("axis"), rank)
        order = [axis] + [i for i in range(rank) if i != axis]
        rows = tf.transpose(x, order)
    else:
        axis, order, rows = 0, [0], tf.reshape(x, [-1])
    width = 1
    if len(order) > 1:
        width = math.prod(d for i, d in enumerate(node.static_shape(0)) if i != axis)
    if width > _MAX_COLUMNS:
        raise node.unsupported(f"rows of {width} elements; at most {_MAX_COLUMNS}")
    flat = tf.reshape(rows, tf.stack([sizes(rows)[0], np.int64(width)]))
    new, inverse = _groups_of(flat)
    count = tf.reduce_sum(tf.cast(new, tf.int64))
    number = sizes(flat)[0]
    first = tf.unsorted_segment_min(sequence(number), inverse, tf.cast(count, tf.int32))
    if not node.attr("sorted", 1):
        by_place = argsort(first)
        place = tf.scatter_nd(tf.expand_dims(by_place, 1), tf.cast(sequence(count), tf.int32),
                              tf.cast(tf.expand_dims(count, 0), tf.int32))
        inverse = tf.gather(place, inverse)
        first = tf.gather(first, by_place)
    counts = tf.unsorted_segment_sum(tf.ones_like(tf.cast(inverse, tf.int64)), inverse,
                                     tf.cast(count, tf.int32))
    picked = tf.gather(rows, first)
    back = [order.index(i) for i in range(len(order))]
    return [tf.transpose(picked, back) if len(order) > 1 else picked, first,
            tf.cast(inverse, tf.int64), counts]


def _unique_texts(node, x):
    """Of strings, as a Python function of the step."""
    axis = node.axis(node.attr("axis"), node.rank(0)) if node.has_attr("axis") else None

    def unique_texts(x):
        rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0)
        keys = [tuple(row.ravel()) for row in rows]
        firsts = {}
        for place, key in enumerate(keys):
            firsts.setdefault(key, place)
        groups = sorted(firsts) if node.attr("sorted", 1) else list(firsts)
        number = {key: k for k, key in enumerate(groups)}
        first = np.array([firsts[key] for key in groups], np.int64)
        inverse = np.array([number[key] for key in keys], np.int64)
        picked = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
        return picked, first, inverse, np.bincount(inverse, minlength=len(groups)).astype(np.int64)
    own = [None] if axis is None else [None if i == axis else d for i, d in enumerate(
        node.shape(0))]
    return hosted(unique_texts, [x], [tf.string, tf.int64, tf.int64, tf.int64],
                  [own, [None], [None], [None]])


def _groups_of(flat):
    """(whether each row in sorted order is new, the number of its group for each row of flat)."""
    number, width = sizes(flat)[0], flat.shape.as_tuple()[1]
    order = tf.cast(sequence(number), tf.int32)
    for column in reversed(range(width)):
        keys = tf.gather(flat[:, column], order)
        order = tf.gather(order, argsort(keys))
    rows = tf.gather(flat, order)
    differs = tf.reduce_any(tf.not_equal(rows[1:], rows[:-1]), 1)
    new = tf.concat([tf.ones_like(order[:1], tf.bool), differs], 0)
    group = tf.cumsum(tf.cast(new, tf.int32)) - tf.constant(1)
    inverse = tf.scatter_nd(tf.expand_dims(order, 1), group,
                            tf.cast(tf.expand_dims(number, 0), tf.int32))
    return new, inverse
