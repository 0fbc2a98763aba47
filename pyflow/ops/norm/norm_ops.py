"""Bias and batch normalisation: BiasAdd, FusedBatchNorm and their gradients.

Invariants
  1. Statistics are over all dimensions but the channels (last in NHWC, second in NCHW).
  2. FusedBatchNorm in training returns the batch mean and the unbiased batch variance; its reserve
     spaces hold the mean and the biased variance, which its gradient reads.
  3. Without training the given mean and variance are used and returned.

Source: Ioffe and Szegedy 2015; TF's CPU kernels for what each output holds.
Example:  `y, mean, variance, *_ = FusedBatchNormV3(x, scale, offset, [], [])`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import S, lit, op, pos, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, int32s, shape_vector, text
from pyflow.ops.base.shape_rules import match

LAYOUT = 'data_format: {"NHWC", "NCHW"} = "NHWC"'
SINGLE = (dtypes.float32,)


def _channel_axis(data_format, rank):
    return 1 if text(data_format).startswith("NC") else rank - 1


# --------------------------------------------------------------------------------------------- bias
def _bias_shape(op):
    value, bias = op.inputs[0].shape, op.inputs[1].shape
    if bias.ndims not in (None, 1):
        raise ValueError(f"{op.type}: bias must be a vector, got shape {bias}")
    if value.ndims is None:
        return value
    if value.ndims < 2:
        raise ValueError(f"{op.type}: value must have rank at least 2, got shape {value}")
    dims = dims_of(value)
    at = _channel_axis("NHWC" if op.type == "BiasAddV1" else op.attr("data_format"), len(dims))
    channels = TensorShape([dims[at]]).merge_with(bias).as_list()[0]
    return TensorShape(dims[:at] + [channels] + dims[at + 1:])


def _as_channels(bias, rank, data_format):
    shape = [1] * rank
    shape[_channel_axis(data_format, rank)] = -1
    return bias.reshape(shape)


@op("BiasAdd", inputs="value: T, bias: T", outputs="output: T", attrs="T: type, " + LAYOUT,
    T=NUMBERS)
class BiasAdd:
    """`value` plus a vector along its channels. TF: BiasAdd."""
    shape = _bias_shape

    def gradient(op, dy):
        return [dy, BiasAddGrad(dy, data_format=op.attr("data_format"))]

    def reference(value, bias, data_format):
        return value + _as_channels(bias, value.ndim, data_format)
    samples = [S((2, 3), (3,)), S((2, 4, 4, 3), (3,)), S((2, 3, 4, 4), (3,), data_format="NCHW"),
               S((0, 3), (3,)), S((2, 3, 4), (4,))]


@op("BiasAddV1", inputs="value: T, bias: T", outputs="output: T", T=NUMBERS)
class BiasAddV1:
    """`value` plus a vector along its last dimension, the older form. TF: BiasAddV1."""
    shape = _bias_shape

    def gradient(op, dy):
        return [dy, BiasAddGrad(dy)]

    def reference(value, bias): return value + bias
    samples = [S((2, 3), (3,)), S((2, 2, 3), (3,))]


@op("BiasAddGrad", inputs="out_backprop: T", outputs="output: T", attrs="T: type, " + LAYOUT,
    T=NUMBERS)
class BiasAddGrad:
    """Sums over all dimensions but the channels. TF: BiasAddGrad."""
    def shape(op):
        dims = dims_of(op.inputs[0].shape)
        if dims is None:
            return TensorShape([None])
        if len(dims) < 2:
            raise ValueError(f"BiasAddGrad: expected rank at least 2, got shape "
                             f"{op.inputs[0].shape}")
        return TensorShape([dims[_channel_axis(op.attr("data_format"), len(dims))]])

    def gradient(op, dz):
        x = op.inputs[0]
        if text(op.attr("data_format")) == "NCHW":
            if x.shape.ndims is None:
                raise ValueError(f"the gradient of '{op.name}' (BiasAddGrad, NCHW) needs a known "
                                 "rank")
            dz = raw_ops.Reshape(dz, int32s([1, -1] + [1] * (x.shape.ndims - 2)))
        return raw_ops.BroadcastTo(dz, shape_vector(x))

    def reference(out_backprop, data_format):
        at = _channel_axis(data_format, out_backprop.ndim)
        return out_backprop.sum(tuple(i for i in range(out_backprop.ndim) if i != at),
                                dtype=out_backprop.dtype)
    samples = [S((2, 3)), S((2, 4, 4, 3)), S((2, 3, 4, 4), data_format="NCHW"), S((0, 3))]


# ------------------------------------------------------------------------ fused batch normalisation
def _norm_shapes(op):
    image = _images(op)
    statistics = [None] * 2 if op.attr("is_training") else ["c"] * 2
    found = match(op, image, "c", "c", *statistics)
    shapes = [found(image)] + [found("c")] * 4
    return shapes + [unknown_shape()] * (len(op.outputs) - 5)


def _images(op):
    """The pattern of a batch of images or volumes in the node's layout."""
    sides = {"N": "n", "C": "c", "D": "d", "H": "h", "W": "w"}
    return " ".join(sides[letter] for letter in text(op.attr("data_format")))


def _statistics(x, mean, variance, data_format, is_training, factor):
    """(mean, biased variance, variance to report) that normalise x."""
    if not is_training:
        return mean, variance, variance
    at = _channel_axis(data_format, x.ndim)
    axes = tuple(i for i in range(x.ndim) if i != at)
    n = x.size // max(x.shape[at], 1)
    found, biased = x.mean(axes), x.var(axes)
    unbiased = biased * (n / max(n - 1, 1))
    if factor != 1:
        return found, biased, (1 - factor) * variance + factor * unbiased
    return found, biased, unbiased


def _normalize(x, scale, offset, mean, variance, epsilon, factor, data_format, is_training):
    found, biased, reported = _statistics(x, mean, variance, data_format, is_training, factor)
    wide = [_as_channels(v, x.ndim, data_format) for v in (found, biased, scale, offset)]
    y = (x - wide[0]) / np.sqrt(wide[1] + epsilon) * wide[2] + wide[3]
    running = found if not is_training or factor == 1 else (1 - factor) * mean + factor * found
    return y, running, reported, found, biased


def _norm_gradient(grad_op, extra):
    """Gradient function of one generation of FusedBatchNorm."""
    def gradient(op, dy, *unused):
        attrs = {n: op.attr(n) for n in ("epsilon", "data_format", "is_training")}
        x, scale = op.inputs[0], op.inputs[1]
        if attrs["is_training"]:
            reserved = list(op.outputs[3:5 + extra])
        else:
            reserved = [op.inputs[3], op.inputs[4]] + list(op.outputs[5:5 + extra])
        dx, dscale, doffset = grad_op()(dy, x, scale, *reserved, **attrs)[:3]
        return [dx, dscale, doffset, None, None]
    return gradient


NORM = ("epsilon: float = 0.0001, exponential_avg_factor: float = 1, " + LAYOUT
        + ", is_training: bool = true")
NORM_V3 = NORM.replace('{"NHWC", "NCHW"}', '{"NHWC", "NCHW", "NDHWC", "NCDHW"}')
NONE = lit(np.zeros(0))
NORMS = [S((2, 3, 3, 2), pos((2,)), (2,), NONE, NONE, types=SINGLE),
         S((2, 3, 3, 2), pos((2,)), (2,), (2,), pos((2,)), is_training=False, types=SINGLE),
         S((2, 3, 2, 2), pos((3,)), (3,), NONE, NONE, data_format="NCHW", epsilon=0.01,
           types=SINGLE)]
V2_TYPES = "T: {half, bfloat16, float}, U: {float}, "
OUTPUTS = "y: {0}, batch_mean: {1}, batch_variance: {1}, reserve_space_1: {1}, reserve_space_2: {1}"


@op("FusedBatchNorm", inputs="x: T, scale: T, offset: T, mean: T, variance: T",
    outputs=OUTPUTS.format("T", "T"), attrs="T: {float}, " + NORM)
class FusedBatchNorm:
    """Batch normalisation in one op, float32. TF: FusedBatchNorm."""
    shape = _norm_shapes
    gradient = _norm_gradient(lambda: FusedBatchNormGrad, 0)

    def reference(x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format,
                  is_training):
        return _normalize(x, scale, offset, mean, variance, epsilon, exponential_avg_factor,
                          data_format,
                          is_training)
    samples = NORMS


@op("FusedBatchNormV2", inputs="x: T, scale: U, offset: U, mean: U, variance: U",
    outputs=OUTPUTS.format("T", "U"), attrs=V2_TYPES + NORM)
class FusedBatchNormV2:
    """Batch normalisation in one op, the statistics in float32. TF: FusedBatchNormV2."""
    shape = _norm_shapes
    gradient = _norm_gradient(lambda: FusedBatchNormGradV2, 0)

    def reference(x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format,
                  is_training):
        return _normalize(x, scale, offset, mean, variance, epsilon, exponential_avg_factor,
                          data_format,
                          is_training)
    samples = NORMS


@op("FusedBatchNormV3", inputs="x: T, scale: U, offset: U, mean: U, variance: U",
    outputs=OUTPUTS.format("T", "U") + ", reserve_space_3: U",
    attrs="T: {half, bfloat16, float}, U: {bfloat16, float}, " + NORM_V3)
class FusedBatchNormV3:
    """FusedBatchNormV2 with a third reserve space, empty on the CPU. TF: FusedBatchNormV3."""
    shape = _norm_shapes
    gradient = _norm_gradient(lambda: FusedBatchNormGradV3, 1)

    def reference(x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format,
                  is_training):
        return _normalize(x, scale, offset, mean, variance, epsilon, exponential_avg_factor,
                          data_format,
                          is_training) + (np.zeros(0, np.float32),)
    samples = NORMS


def _norm_grad_shapes(op):
    image = _images(op)
    found = match(op, image, image, "c", "c", "c")
    # In inference TensorFlow 1.15 says of the last two what 2.21 does not: as many as channels.
    kept = TensorShape([0] if op.attr("is_training") else None)
    return [found(image), found("c"), found("c"), kept, kept]


def _norm_grad(dy, x, scale, mean, variance, epsilon, data_format, is_training):
    at = _channel_axis(data_format, x.ndim)
    axes = tuple(i for i in range(x.ndim) if i != at)
    mean, variance, scale = (_as_channels(v, x.ndim, data_format) for v in (mean, variance, scale))
    inverse = 1 / np.sqrt(variance + epsilon)
    centred = (x - mean) * inverse
    d_offset, d_scale = dy.sum(axes), (dy * centred).sum(axes)
    if is_training:
        inner = dy - dy.mean(axes, keepdims=True) - centred * (dy * centred).mean(axes,
                                                                                  keepdims=True)
        return scale * inverse * inner, d_scale, d_offset
    return scale * inverse * dy, d_scale, d_offset


def _norm_grad_gradient(op, da, dscale, doffset, *unused):
    """Gradients of a FusedBatchNormGrad's dy, x and scale, in float32.

    With r = 1 / sqrt(variance + epsilon), n = (x - mean) r and, in training, where n depends on
    all of x, p(v) = v - mean(v) - n mean(v n); without training p(v) = v."""
    dy, x, scale = (tensors.cast(t, dtypes.float32) for t in op.inputs[:3])
    a, training = tensors.cast(da, dtypes.float32), op.attr("is_training")
    layout = op.attr("data_format")
    rank, at = len(layout), _channel_axis(layout, len(layout))
    axes = int32s([i for i in range(rank) if i != at])

    def channels(v):
        return raw_ops.Reshape(tensors.cast(v, dtypes.float32),
                               int32s([-1 if i == at else 1 for i in range(rank)]))

    def mean(v):
        return raw_ops.Mean(v, axes, keep_dims=True)
    if training:
        centred = x - mean(x)
        variance = mean(raw_ops.Square(centred))
    else:
        centred, variance = x - channels(op.inputs[3]), channels(op.inputs[4])
    r = raw_ops.Rsqrt(variance + op.attr("epsilon"))
    n, b = centred * r, channels(dscale)

    def projected(v):
        return v - mean(v) - n * mean(v * n) if training else v
    along, of_dy = projected(a), projected(dy)
    to_dy = channels(scale) * r * along + b * n + channels(doffset)
    to_scale = raw_ops.Sum(a * of_dy * r, axes)
    to_x = r * b * of_dy
    if training:
        bent = n * mean(a * of_dy) + mean(dy * n) * along + mean(a * n) * of_dy
        to_x = to_x - channels(scale) * raw_ops.Square(r) * bent
    grads = [tensors.cast(g, t.dtype) for g, t in zip((to_dy, to_x, to_scale), op.inputs)]
    return grads + [None] * (len(op.inputs) - 3)


GRAD = "epsilon: float = 0.0001, " + LAYOUT + ", is_training: bool = true"
GRAD_V3 = GRAD.replace('{"NHWC", "NCHW"}', '{"NHWC", "NCHW", "NDHWC", "NCDHW"}')
IMAGE = (2, 3, 3, 2)
GRADS = [S(IMAGE, IMAGE, pos((2,)), (2,), pos((2,)), types=SINGLE),
         S(IMAGE, IMAGE, pos((2,)), (2,), pos((2,)), is_training=False, types=SINGLE),
         S((2, 3, 2, 2), (2, 3, 2, 2), pos((3,)), (3,), pos((3,)), data_format="NCHW",
           types=SINGLE)]
GRAD_OUT = "x_backprop: {0}, scale_backprop: {1}, offset_backprop: {1}, "


@op("FusedBatchNormGrad",
    inputs="y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T",
    outputs=GRAD_OUT.format("T", "T") + "reserve_space_3: T, reserve_space_4: T",
    attrs="T: {float}, " + GRAD)
class FusedBatchNormGrad:
    """Gradient of FusedBatchNorm; the reserve spaces of the result hold nothing.
    TF: FusedBatchNormGrad."""
    shape = _norm_grad_shapes
    gradient = _norm_grad_gradient

    def reference(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon, data_format,
                  is_training):
        return _norm_grad(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon,
                          data_format,
                          is_training)
    samples = GRADS


@op("FusedBatchNormGradV2",
    inputs="y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U",
    outputs=GRAD_OUT.format("T", "U") + "reserve_space_3: U, reserve_space_4: U",
    attrs=V2_TYPES + GRAD)
class FusedBatchNormGradV2:
    """Gradient of FusedBatchNormV2. TF: FusedBatchNormGradV2."""
    shape = _norm_grad_shapes
    gradient = _norm_grad_gradient

    def reference(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon, data_format,
                  is_training):
        return _norm_grad(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon,
                          data_format,
                          is_training)
    samples = GRADS


@op("FusedBatchNormGradV3",
    inputs="y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U, "
           "reserve_space_3: U",
    outputs=GRAD_OUT.format("T", "U") + "reserve_space_4: U, reserve_space_5: U",
    attrs=V2_TYPES + GRAD_V3)
class FusedBatchNormGradV3:
    """Gradient of FusedBatchNormV3. TF: FusedBatchNormGradV3."""
    shape = _norm_grad_shapes
    gradient = _norm_grad_gradient

    def reference(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon, data_format,
                  is_training):
        return _norm_grad(y_backprop, x, scale, reserve_space_1, reserve_space_2, epsilon,
                          data_format,
                          is_training)
    samples = [S(*s.inputs, NONE, types=SINGLE, **s.attrs) for s in GRADS]
