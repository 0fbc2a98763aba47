"""Sequences: their length is known while the graph is built, so most of these make no node at all."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value
from pyflow.interop.onnx.registry import converter
from pyflow.interop.onnx.sequences import Nothing, Sequence

_MAX_ITEMS = 1 << 12


def _items(node, i):
    value = node.value(i)
    if type(value) is not Sequence:
        raise node.error(f"input {i} must be a sequence")
    return value.items


def _position(node, i, count, last):
    """Input i as a place among `count` items; without it `last`."""
    if not node.has(i):
        return last
    at = int(node.need(i, "the position").reshape(-1)[0])
    if not -count <= at < max(count, last + 1):
        raise node.error(f"position {at} is out of range for a sequence of {count} elements")
    return at + count if at < 0 else at


@converter("SequenceConstruct", since=11)
def sequence_construct(node):
    return Sequence([node.value(i) for i in range(len(node))])


@converter("SequenceEmpty", since=11)
def sequence_empty(node):
    return Sequence([], node.element_type("dtype", tf.float32))


@converter("SequenceLength", since=11)
def sequence_length(node):
    return np.array(len(_items(node, 0)), np.int64)


@converter("SequenceAt", since=11)
def sequence_at(node):
    items = _items(node, 0)
    shapes = {item.shape for item in items}
    if node.known(1) is None and len(shapes) == 1 and None not in (next(iter(shapes)) or (None,)):
        at = tf.cast(tf.reshape(node.x(1), []), tf.int64)
        at = tf.where(tf.less(at, tf.constant(0, tf.int64)), at + np.int64(len(items)), at)
        return tf.gather(tf.stack([item.plain for item in items]), at)
    if not items:
        raise node.error("the sequence is empty")
    return items[_position(node, 1, len(items), len(items) - 1)]


@converter("SequenceInsert", since=11)
def sequence_insert(node):
    items = list(_items(node, 0))
    items.insert(_position(node, 2, len(items), len(items)), node.value(1))
    if len(items) > _MAX_ITEMS:
        raise node.unsupported(f"more than {_MAX_ITEMS} elements")
    return Sequence(items)


@converter("SequenceErase", since=11)
def sequence_erase(node):
    items = list(_items(node, 0))
    if not items:
        raise node.error("the sequence is empty")
    del items[_position(node, 1, len(items), len(items) - 1)]
    return Sequence(items, node.value(0).dtype)


@converter("SplitToSequence", since=11)
def split_to_sequence(node):
    """Parts of the sizes given, of one size, or single slices."""
    axis = node.axis(node.attr("axis", 0), node.rank(0))
    size = node.shape(0)[axis]
    if size is None:
        raise node.needs(node.value(0).tensor, "the size of the split axis")
    sizes, keep = [1] * size, True
    if node.has(1):
        given = node.need(1, "the sizes of the parts")
        if given.ndim:
            sizes = [int(s) for s in given]
        elif int(given) < 1:
            raise node.error(f"parts of {int(given)} elements")
        else:
            each = int(given)
            sizes = [min(each, size - at) for at in range(0, size, each)]
    else:
        keep = bool(node.attr("keepdims", 1))
    if sum(sizes) != size or min(sizes, default=0) < 0 or len(sizes) > _MAX_ITEMS:
        raise node.error(f"parts of {sizes[:16]} elements of an axis of {size}")
    parts = tf.split(node.x(0), sizes, axis) if sizes else []
    return Sequence([Value(p if keep else tf.squeeze(p, [axis])) for p in parts], node.value(0).dtype)


@converter("ConcatFromSequence", since=11)
def concat_from_sequence(node):
    tensors = [item.plain for item in _items(node, 0)]
    if not tensors:
        raise node.error("the sequence is empty")
    new = bool(node.attr("new_axis", 0))
    axis = node.axis(node.attr("axis"), tensors[0].shape.ndims + new)
    return tf.stack(tensors, axis) if new else tf.concat(tensors, axis)


@converter("SequenceMap", since=17)
def sequence_map(node):
    """The body, for each element; tensors besides are the same for all."""
    count = len(_items(node, 0))
    inputs = [node.value(i) for i in range(len(node))]
    if any(len(v.items) != count for v in inputs if isinstance(v, Sequence)):
        raise node.error("the sequences differ in length")
    body = node.attr("body")
    rows = [node.importer.subgraph(node, body, [
        v.items[k] if isinstance(v, Sequence) else v for v in inputs]) for k in range(count)]
    if not rows:
        return [Sequence([]) for _ in node.outputs]
    return [Sequence(column) for column in zip(*rows)]


@converter("Optional", since=15)
def optional(node):
    """What it holds, or nothing."""
    return node.value(0) if node.has(0) else Nothing()
