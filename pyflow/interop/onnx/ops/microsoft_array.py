"""Ops on arrays and signals that onnxruntime has in com.microsoft, most of them from before ONNX
had them.

Complex numbers are pairs along the last axis.  Source: onnxruntime's ContribOperators.md."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.array import range_op, trilu
from pyflow.interop.onnx.ops.common import (Value, channels_last, ints, sequence, sizes,
                                            with_inputs)
from pyflow.interop.onnx.ops.indexing import gather_nd
from pyflow.interop.onnx.ops.pad import pad
from pyflow.interop.onnx.registry import MICROSOFT, converter

converter("Trilu", domain=MICROSOFT)(trilu)
converter("GatherND", domain=MICROSOFT)(gather_nd)


@converter("Range", domain=MICROSOFT)
def range_of(node):
    if node.has(2):
        return range_op(node)
    one = np.ones((), node.value(0).dtype.as_numpy_dtype)
    return range_op(with_inputs(node, node.inputs[0], node.inputs[1], Value(array=one)))


@converter("ExpandDims", domain=MICROSOFT)
def expand_dims(node):
    axis = node.need(1, "the axis")
    if axis.size != 1:
        raise node.error(f"expected one axis, got {axis.tolist()}")
    return tf.expand_dims(node.x(0), node.axis(int(axis.reshape(())), node.rank(0) + 1))


@converter("Pad", domain=MICROSOFT)
def pad_of(node):
    """As ai.onnx's; the pads may be a row [1, 2 * rank]."""
    if node.rank(1) == 1:
        return pad(node)
    known = node.known(1)
    pads = Value(array=known.reshape(-1)) if known is not None else \
        Value(tf.reshape(node.x(1), [-1]))
    return pad(with_inputs(node, node.inputs[0], pads))


@converter("Unique", domain=MICROSOFT)
def unique_of(node):
    """The elements in the order they come, where each input element is among them, counts."""
    node.expect_rank(0, 1)
    x = node.x(0)
    wide = tf.cast(x, tf.float32) if x.dtype.size == 2 and x.dtype.is_floating else x
    y, inverse, counts = tf.unique_with_counts(wide, out_idx=tf.int64)
    return [tf.cast(y, x.dtype), inverse, counts][:len(node.outputs)]


@converter("Inverse", domain=MICROSOFT)
def inverse_of(node):
    x = node.x(0)
    wide = x if x.dtype.size >= 4 else tf.cast(x, tf.float32)
    return tf.cast(tf.matrix_inverse(wide), x.dtype)


@converter("IsAllFinite", domain=MICROSOFT)
def is_all_finite(node):
    only_nan, only_inf = node.attr("isnan_only", 0), node.attr("isinf_only", 0)
    if only_nan and only_inf:
        raise node.error("isnan_only and isinf_only exclude each other")
    bad = tf.is_nan if only_nan else tf.is_inf if only_inf else \
        lambda x: tf.logical_not(tf.is_finite(x))
    if not len(node):
        raise node.error("expected at least one input, got none")
    found = [tf.reduce_any(bad(node.x(i))) for i in range(len(node))]
    return tf.logical_not(tf.reduce_any(tf.stack(found)))


# images
@converter("CropAndResize", domain=MICROSOFT)
def crop_and_resize(node):
    """X [N, C, H, W], boxes (y1, x1, y2, x2) from 0 to 1, their images, (height, width)."""
    node.expect_rank(0, 4)
    if node.expect_rank(1, 2) and node.shape(1)[1] not in (None, 4):
        raise node.error(f"boxes must have four numbers each, got shape {node.shape(1)}")
    mode = node.attr("mode", "bilinear")
    if mode not in ("bilinear", "nearest"):
        raise node.error(f"mode {mode!r} is neither bilinear nor nearest")
    image = tf.cast(node.value(0).last, tf.float32)
    made = tf.image.crop_and_resize(
        image, tf.cast(node.x(1), tf.float32), tf.cast(node.x(2), tf.int32),
        tf.cast(node.x(3), tf.int32), method=mode,
        extrapolation_value=node.attr("extrapolation_value", 0.0))
    return Value(tf.cast(made, node.value(0).dtype), channels_last(4))


# signals
def _pairs(node, i):
    """Input i, pairs along the last axis, as complex numbers."""
    if node.shape(i)[-1:] != (2,):
        raise node.error(f"input {i} must hold pairs along its last axis, got shape "
                         f"{node.shape(i)}")
    x = node.x(i)
    x = x if x.dtype is tf.float64 else tf.cast(x, tf.float32)
    return tf.complex(x[..., 0], x[..., 1])


def _as_pairs(z, dtype):
    return tf.cast(tf.stack([tf.real(z), tf.imag(z)], -1), dtype)


@converter("ComplexMul", domain=MICROSOFT)
def complex_mul(node):
    return _as_pairs(_pairs(node, 0) * _pairs(node, 1), node.value(0).dtype)


@converter("ComplexMulConj", domain=MICROSOFT)
def complex_mul_conj(node):
    return _as_pairs(_pairs(node, 0) * tf.conj(_pairs(node, 1)), node.value(0).dtype)


def _one_sided(node):
    """How many axes are transformed.  OnnxError for forms that onnxruntime lacks."""
    axes = node.attr("signal_ndim", 1)
    if node.attr("onesided", 1) != 1 or node.attr("normalized", 0):
        raise node.unsupported("onesided=0 or normalized=1")
    if not 1 <= axes <= 3:
        raise node.error(f"signal_ndim {axes} is not 1, 2 or 3")
    return axes - 1


@converter("Rfft", domain=MICROSOFT)
def rfft(node):
    x = node.x(0)
    wide = x if x.dtype is tf.float64 else tf.cast(x, tf.float32)
    transform = (tf.spectral.rfft, tf.spectral.rfft2d, tf.spectral.rfft3d)[_one_sided(node)]
    return _as_pairs(transform(wide), x.dtype)


@converter("Irfft", domain=MICROSOFT)
def irfft(node):
    """The inverse, of even length along the last axis."""
    transform = (tf.spectral.irfft, tf.spectral.irfft2d, tf.spectral.irfft3d)[_one_sided(node)]
    return tf.cast(transform(_pairs(node, 0)), node.value(0).dtype)


# sequences of unlike length
@converter("RemovePadding", domain=MICROSOFT)
def remove_padding(node):
    """Rows before each sequence's end; where all rows lay, those kept first; sums of lengths; the
    longest."""
    node.expect_rank(0, 3)
    own = sizes(node.x(0))
    lengths = tf.cast(node.x(1), tf.int64)
    kept = tf.reshape(tf.less(sequence(own[1]), tf.expand_dims(lengths, 1)), [-1])
    places = tf.concat([tf.reshape(tf.where(kept), [-1]),
                        tf.reshape(tf.where(tf.logical_not(kept)), [-1])], 0)
    rows = tf.reshape(node.x(0), tf.stack([own[0] * own[1], own[2]]))
    output = tf.gather(rows, places[:tf.reduce_sum(tf.cast(kept, tf.int32))])
    sums = tf.concat([ints([0]), tf.cumsum(lengths)], 0)
    longest = tf.reshape(tf.reduce_max(lengths), [1])
    return [output, *[tf.cast(t, tf.int32) for t in (
        tf.reshape(places, own[:2]), sums, longest)]][:len(node.outputs)]


@converter("RestorePadding", domain=MICROSOFT)
def restore_padding(node):
    node.expect_rank(0, 2)
    x, offsets = node.x(0), node.x(1)
    shape, width = sizes(offsets), sizes(x)[1:]
    places = tf.cast(tf.reshape(offsets, [-1])[:tf.shape(x)[0]], tf.int64)
    total = tf.reduce_prod(shape)
    made = tf.scatter_nd(tf.expand_dims(places, 1), x, tf.concat([[total], width], 0))
    return tf.reshape(made, tf.concat([shape, width], 0))


@converter("TorchEmbedding", domain=MICROSOFT)
def torch_embedding(node):
    return tf.gather(node.x(0), node.x(1))


_MAX_WINDOWS = 1 << 20


@converter("UnfoldTensor", domain=MICROSOFT)
def unfold_tensor(node):
    """Windows of `size` along an axis, `step` apart, as a new last axis."""
    axis, size, step = node.axis(node.attr("dim", -1), node.rank(0)), node.attr("size"), \
        node.attr("step", 1)
    length = node.static_shape(0)[axis]
    if size < 1 or step < 1 or size > length:
        raise node.error(f"windows of {size}, {step} apart, do not fit an axis of {length}")
    count = (length - size) // step + 1
    node.bounded("the table of places", count, size, limit=_MAX_WINDOWS)
    places = np.arange(count)[:, None] * step + np.arange(size)
    made = tf.gather(node.x(0), tf.constant(places), axis=axis)
    rank = node.rank(0) + 1
    order = [i for i in range(rank) if i != axis + 1] + [axis + 1]
    return tf.transpose(made, order) if order != list(range(rank)) else made
