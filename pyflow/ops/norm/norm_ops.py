"""Bias and batch normalisation: BiasAdd, FusedBatchNorm and what tf.nn builds of smaller ops.

Invariants
  1. Statistics are over all dimensions but the channels (last in NHWC, second in NCHW).
  2. FusedBatchNorm in training returns the batch mean and the unbiased batch variance; its reserve
     spaces hold the mean and the biased variance, which its gradient reads.
  3. Without training the given mean and variance are used and returned.

Source: Ioffe and Szegedy 2015; TF's CPU kernels for what each output holds.
Example:  `mean, variance = tf.nn.moments(x, [0])`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import S, lit, op, pos
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import dims_of, int32s, shape_vector, text
from pyflow.ops.base.shape_rules import match
from pyflow.ops.elementwise import binary_ops, cast_ops, unary_ops
from pyflow.ops.reduce import reduction_ops
from pyflow.ops.reduce.reduction_ops import one_of

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
        from pyflow.ops.move import array_ops, broadcast_ops
        x = op.inputs[0]
        if text(op.attr("data_format")) == "NCHW":
            if x.shape.ndims is None:
                raise ValueError(f"the gradient of '{op.name}' (BiasAddGrad, NCHW) needs a known "
                                 "rank")
            dz = array_ops.Reshape(dz, int32s([1, -1] + [1] * (x.shape.ndims - 2)))
        return broadcast_ops.BroadcastTo(dz, shape_vector(x))

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
    return [found(image), found("c"), found("c")] + [TensorShape([0])] * 2


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
    dy, x, scale = (cast_ops.cast(t, dtypes.float32) for t in op.inputs[:3])
    a, training = cast_ops.cast(da, dtypes.float32), op.attr("is_training")
    layout = op.attr("data_format")
    rank, at = len(layout), _channel_axis(layout, len(layout))
    axes = int32s([i for i in range(rank) if i != at])

    def channels(v):
        from pyflow.ops.move import array_ops
        return array_ops.Reshape(cast_ops.cast(v, dtypes.float32),
                                 int32s([-1 if i == at else 1 for i in range(rank)]))

    def mean(v):
        return reduction_ops.Mean(v, axes, keep_dims=True)
    if training:
        centred = x - mean(x)
        variance = mean(unary_ops.Square(centred))
    else:
        centred, variance = x - channels(op.inputs[3]), channels(op.inputs[4])
    r = unary_ops.Rsqrt(variance + op.attr("epsilon"))
    n, b = centred * r, channels(dscale)

    def projected(v):
        return v - mean(v) - n * mean(v * n) if training else v
    along, of_dy = projected(a), projected(dy)
    to_dy = channels(scale) * r * along + b * n + channels(doffset)
    to_scale = reduction_ops.Sum(a * of_dy * r, axes)
    to_x = r * b * of_dy
    if training:
        bent = n * mean(a * of_dy) + mean(dy * n) * along + mean(a * n) * of_dy
        to_x = to_x - channels(scale) * unary_ops.Square(r) * bent
    grads = [cast_ops.cast(g, t.dtype) for g, t in zip((to_dy, to_x, to_scale), op.inputs)]
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


# --------------------------------------------------------------------------------- public functions
def bias_add(value, bias, data_format=None, name=None):
    """`value` plus a vector along its channels. TF: nn.bias_add.
    Dtypes, shapes, errors: as op BiasAdd."""
    layout = {None: "NHWC", "NHWC": "NHWC", "NCHW": "NCHW"}.get(data_format)
    if layout is None:
        layout = "NCHW" if data_format.startswith("NC") else "NHWC"
    with graph.name_scope(name, "BiasAdd", [value, bias]) as scope:
        return BiasAdd(value, bias, data_format=layout, name=scope)


def bias_add_v1(value, bias, name=None):
    """`value` plus a vector along its last dimension. TF: nn.bias_add_v1.
    Dtypes, shapes, errors: as op BiasAddV1."""
    return BiasAddV1(value, bias, name=name)


def xw_plus_b(x, weights, biases, name=None):
    """matmul(x, weights) + biases. TF: nn.xw_plus_b.
    x: numbers [batch, in]; weights: [in, out]; biases: [out]. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops.gemm import matmul_ops
    with graph.name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return BiasAdd(matmul_ops.matmul(x, weights), biases, name=scope)


def relu_layer(x, weights, biases, name=None):
    """relu(matmul(x, weights) + biases). TF: nn.relu_layer.
    x: floats [batch, in]; weights: [in, out]; biases: [out]. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops.elementwise import activation_ops
    from pyflow.ops.gemm import matmul_ops
    with graph.name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return activation_ops.Relu(BiasAdd(matmul_ops.matmul(x, weights), biases), name=scope)


def moments(x, axes, shift=None, name=None, keep_dims=None, keepdims=None):
    """Mean and (biased) variance of `x` over `axes`; float16 is computed in float32.
    TF: nn.moments.
    x: floats; results: without `axes`, or with them as 1. TypeError for other dtypes, ValueError
    for shapes that do not fit."""
    from pyflow.ops.control import identity_ops
    from pyflow.ops.move import array_ops
    keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    with graph.name_scope(name, "moments", [x, axes]):
        x = graph.convert_to_tensor(x)
        y = cast_ops.cast(x, dtypes.float32) if x.dtype == dtypes.float16 else x
        mean = reduction_ops.reduce_mean(y, axes, keepdims=True, name="mean")
        squared = binary_ops.SquaredDifference(y, identity_ops.StopGradient(mean))
        variance = reduction_ops.reduce_mean(squared, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = array_ops.squeeze(mean, axes), array_ops.squeeze(variance, axes)
        return cast_ops.cast(mean, x.dtype), cast_ops.cast(variance, x.dtype)


def normalize_moments(counts, mean_ss, variance_ss, shift, name=None):
    """Mean and variance of sums collected by `sufficient_statistics`. TF: nn.normalize_moments.
    counts: a float scalar; the others floats of one shape, which the results have. TypeError for
    other dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = unary_ops.Reciprocal(counts)
        shifted = mean_ss * divisor
        mean = shifted if shift is None else shifted + shift
        return mean, variance_ss * divisor - unary_ops.Square(shifted)


def batch_normalization(x, mean, variance, offset, scale, variance_epsilon, name=None):
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, all broadcast.
    TF: nn.batch_normalization.
    x: floats of any shape, to which the others broadcast. TypeError for other dtypes, ValueError
    for shapes that do not fit."""
    with graph.name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        inverse = unary_ops.Rsqrt(variance + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        x = graph.convert_to_tensor(x)
        inverse = cast_ops.cast(inverse, x.dtype)
        shift = offset - mean * inverse if offset is not None else -mean * inverse
        return x * inverse + cast_ops.cast(shift, x.dtype)


def batch_norm_with_global_normalization(t=None, m=None, v=None, beta=None, gamma=None,
                                         variance_epsilon=None, scale_after_normalization=None,
                                         name=None,
                                         input=None, mean=None, variance=None):
    """The older form of `nn.batch_normalization`. TF: nn.batch_norm_with_global_normalization.
    t: floats [batch, h, w, c]; the others [c]. TypeError for other dtypes, ValueError for shapes
    that do not fit."""
    t, m = one_of(t, input, "t", "input"), one_of(m, mean, "m", "mean")
    v = one_of(v, variance, "v", "variance")
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None,
                               variance_epsilon,
                               name)


LEAST_EPSILON = 1.001e-5    # of tf.nn.fused_batch_norm alone, as in TF, for cuDNN's sake


def fused_batch_norm(x, scale, offset, mean=None, variance=None, epsilon=0.001, data_format="NHWC",
                     is_training=True, name=None, exponential_avg_factor=1.0):
    """Batch normalisation of images; returns y, mean, variance. TF: nn.fused_batch_norm.

    epsilon: at least 1.001e-5 is used. ValueError if mean or variance is missing without training,
    or given with it (factor 1).
    Dtypes, shapes, errors: as op FusedBatchNormV3."""
    if is_training and exponential_avg_factor == 1.0:
        if mean is not None or variance is not None:
            raise ValueError("Both 'mean' and 'variance' must be None if is_training is True and "
                             f"exponential_avg_factor == 1.0, got mean {mean} and variance "
                             f"{variance}")
    elif mean is None or variance is None:
        raise ValueError("nn.fused_batch_norm: mean and variance must be given when is_training "
                         "is False")
    x = graph.convert_to_tensor(x, name="input")
    empty = np.zeros(0, np.float32)
    result = FusedBatchNormV3(x, scale, offset, empty if mean is None else mean,
                              empty if variance is None else variance,
                              epsilon=max(epsilon, LEAST_EPSILON),
                              exponential_avg_factor=exponential_avg_factor,
                              data_format=data_format,
                              is_training=is_training, name=name or "FusedBatchNormV3")
    return result[0], result[1], result[2]


PUBLIC = {
    "nn.bias_add": bias_add, "nn.bias_add_v1": bias_add_v1, "nn.xw_plus_b": xw_plus_b,
    "nn.relu_layer": relu_layer, "nn.moments": moments, "nn.normalize_moments": normalize_moments,
    "nn.batch_normalization": batch_normalization, "nn.fused_batch_norm": fused_batch_norm,
    "nn.batch_norm_with_global_normalization": batch_norm_with_global_normalization,
}
