"""Weights packed into blocks of 2, 4 or 8 bits (domain com.microsoft): MatMulNBits,
GatherBlockQuantized.

A byte holds its first number in its lowest bits.  Constant weights are unpacked once, while the
model is imported.  Source: onnxruntime's ContribOperators.md."""

import hashlib

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import scalar, sizes
from pyflow.interop.onnx.ops.indexing import wrapped
from pyflow.interop.onnx.ops.matmul import product
from pyflow.interop.onnx.registry import MICROSOFT, converter


def _unpacked(array, bits):
    """uint8 [..., n] -> uint8 [..., n * 8 / bits]."""
    if bits == 8:
        return array
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (array[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*array.shape[:-1], array.shape[-1] * shifts.size)


def _unpacked_tensor(x, bits):
    """The same of a tensor."""
    if bits == 8:
        return x
    shifts = tf.constant(np.arange(0, 8, bits, dtype=np.uint8))
    mask = tf.constant(np.uint8((1 << bits) - 1))
    parts = tf.bitwise.bitwise_and(tf.bitwise.right_shift(tf.expand_dims(x, -1), shifts), mask)
    own = sizes(x)
    return tf.reshape(parts, tf.concat([own[:-1], own[-1:] * tf.constant([8 // bits], tf.int64)],
                                       0))


class _Blocks:
    """What the attributes of MatMulNBits say of its weights, [N, K] in blocks along K."""

    def __init__(self, node):
        self.rows, self.columns = node.attr("N"), node.attr("K")
        self.bits, self.size = node.attr("bits", 4), node.attr("block_size")
        if self.bits not in (2, 4, 8) or self.size < 1 or self.size * self.bits % 8 \
                or self.rows < 1 or self.columns < 1:
            raise node.error(f"bits {self.bits}, block_size {self.size}, N {self.rows} and K "
                             f"{self.columns}: expected 2, 4 or 8 bits in whole bytes")
        self.count = -(-self.columns // self.size)

    def check(self, node):
        """OnnxError unless the inputs fit the attributes."""
        blob = self.size * self.bits // 8
        wanted = {1: (self.rows * self.count * blob,), 2: (self.rows * self.count,),
                  3: (self.rows * self.count, self.rows * -(-self.count * self.bits // 8)),
                  4: (self.columns, self.count * self.size), 5: (self.rows,)}
        for i, counts in wanted.items():
            if node.has(i) and np.prod(node.static_shape(i), dtype=float) not in counts:
                raise node.error(f"input {i} has shape {node.shape(i)}; N {self.rows}, K "
                                 f"{self.columns}, block_size {self.size} and {self.bits} bits "
                                 f"need {' or '.join(map(str, counts))} elements")
        width = node.shape(0)[-1] if node.rank(0) else None
        if width not in (None, self.columns) or not node.rank(0):
            raise node.error(f"A has shape {node.shape(0)}; K is {self.columns}")
        if node.value(1).dtype is not tf.uint8:
            raise node.error(f"B must be packed into uint8, got {node.value(1).dtype.name}")


def _dense(blocks, packed, scales, zeros, groups, dtype):
    """The weights [K, N] of arrays."""
    n, count, size = blocks.rows, blocks.count, blocks.size
    steps = _unpacked(packed.reshape(n, count, -1), blocks.bits)
    if zeros is None:
        zeros = np.full((n, count), 1 << blocks.bits - 1, np.float32)
    elif zeros.dtype == np.uint8:
        zeros = _unpacked(zeros.reshape(n, -1), blocks.bits)[:, :count]
    scales = scales.astype(np.float32).reshape(n, count)
    zeros = zeros.astype(np.float32).reshape(n, count)
    if groups is None:
        made = (steps.astype(np.float32) - zeros[..., None]) * scales[..., None]
        made = made.reshape(n, count * size)[:, :blocks.columns]
    else:
        groups = groups.reshape(-1)[:blocks.columns]
        steps = steps.reshape(n, count * size)[:, :blocks.columns]
        made = (steps.astype(np.float32) - zeros[:, groups]) * scales[:, groups]
    return np.ascontiguousarray(made.T).astype(dtype)


def _dense_tensor(node, blocks, dtype):
    """The same where not all are known while importing."""
    n, count, size = blocks.rows, blocks.count, blocks.size
    steps = _unpacked_tensor(tf.reshape(node.x(1), [n, count, -1]), blocks.bits)
    scales = tf.cast(tf.reshape(node.x(2), [n, count]), tf.float32)
    if not node.has(3):
        zeros = scalar(1 << blocks.bits - 1, scales)
        zeros = tf.fill([n, count], zeros)
    elif node.value(3).dtype is tf.uint8:
        zeros = _unpacked_tensor(tf.reshape(node.x(3), [n, -1]), blocks.bits)[:, :count]
    else:
        zeros = tf.reshape(node.x(3), [n, count])
    groups = tf.reshape(node.x(4), [-1])[:blocks.columns] if node.has(4) else tf.constant(
        np.arange(blocks.columns) // size)
    scales, zeros = (tf.gather(tf.cast(t, tf.float32), groups, axis=1) for t in (scales, zeros))
    steps = tf.cast(tf.reshape(steps, [n, count * size])[:, :blocks.columns], tf.float32)
    return tf.cast(tf.transpose((steps - zeros) * scales), dtype)


@converter("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(node):
    """A, packed weights, scales, zero points (packed or in A's type), groups of K, bias."""
    blocks = _Blocks(node)
    if node.attr("weight_prepacked", 0):
        raise node.unsupported("weights in a layout of one device (weight_prepacked)")
    blocks.check(node)
    x = node.x(0)
    others = [node.known(i) for i in (2, 3, 4)]
    if node.has(4) and others[2] is not None and not (
            (others[2] >= 0) & (others[2] < blocks.count)).all():
        raise node.error(f"g_idx holds numbers outside of [0, {blocks.count})")
    known = node.value(1).is_array and all(
        a is not None or not node.has(i) for i, a in zip((2, 3, 4), others))
    if known:
        key = ("dense", blocks.bits, blocks.size, *[
            None if a is None else hashlib.sha256(a.tobytes()).digest() for a in others])
        weights = node.value(1).form(key, lambda packed: _dense(
            blocks, packed, *others, x.dtype.as_numpy_dtype))
    else:
        weights = _dense_tensor(node, blocks, x.dtype)
    made = product(node, x, weights)
    return made + node.x(5) if node.has(5) else made


@converter("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(node):
    """Rows of a packed table, unpacked once they are gathered; an index outside gives zeros."""
    bits, size = node.attr("bits", 4), node.attr("block_size", 128)
    rank = node.rank(0)
    gathered = node.axis(node.attr("gather_axis", 0), rank)
    along = node.axis(node.attr("quantize_axis", 1), rank)
    if node.value(0).dtype is not tf.uint8:
        raise node.unsupported(f"data of {node.value(0).dtype.name}; expected uint8")
    if bits not in (2, 4, 8) or size < 16 or size & size - 1:
        raise node.error(f"bits {bits} and block_size {size}: expected 2, 4 or 8 bits in blocks of "
                         f"a power of 2 from 16 on")
    if gathered or not along or node.rank(2) != rank:
        raise node.error(f"gather_axis {gathered} must be 0, quantize_axis {along} another, and "
                         f"scales {node.shape(2)} of the data's rank {rank}")
    whole = list(node.static_shape(0))
    whole[-1] *= 8 // bits
    wanted = tuple(-(-d // size) if i == along else d for i, d in enumerate(whole))
    if node.static_shape(2) != wanted:
        raise node.error(f"scales have shape {node.shape(2)}, expected {wanted}")
    indices = tf.cast(node.x(1), tf.int64)
    wrapped_indices = wrapped(indices, scalar(whole[0], indices))
    inside = tf.logical_and(wrapped_indices >= scalar(0, indices),
                            wrapped_indices < scalar(whole[0], indices))
    safe = tf.where_v2(inside, wrapped_indices, scalar(0, indices))
    lead = node.rank(1)
    places = tf.constant(np.arange(whole[along]) // size)

    def spread(x):
        return tf.gather(tf.cast(x, tf.float32), places, axis=along - 1 + lead)
    steps = tf.cast(_unpacked_tensor(tf.gather(node.x(0), safe), bits), tf.float32)
    scales = spread(tf.gather(node.x(2), safe))
    if node.has(3):
        zeros = spread(_unpacked_tensor(tf.gather(node.x(3), safe), bits)[..., :wanted[-1]])
    else:
        zeros = scalar(1 << bits - 1, steps)
    shown = tf.reshape(inside, tf.concat([sizes(inside), tf.ones([rank - 1], tf.int64)], 0))
    made = tf.where_v2(shown, (steps - zeros) * scales, scalar(0, steps))
    return tf.cast(made, node.value(2).dtype)
