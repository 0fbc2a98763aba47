"""Bias, moments and batch normalisation: what tf.nn builds of norm_ops and smaller ops."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import activation_ops, binary_ops, unary_ops
from pyflow.ops.gemm import products
from pyflow.ops.norm.norm_ops import BiasAdd, BiasAddV1, FusedBatchNormV3


def bias_add(value, bias, data_format=None, name=None):
    """`value` plus a vector along its channels. TF: nn.bias_add.

    bias: as long as value has channels: the last dimension, or the second with data_format "NCHW".
    Dtypes, shapes, errors: as op BiasAdd.

        >>> tf.Session().run(tf.nn.bias_add([[1., 2.], [3., 4.]], [10., 20.]))
        array([[11., 22.],
               [13., 24.]], dtype=float32)
    """
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
    ValueError for shapes that do not fit.

        >>> tf.Session().run(tf.nn.xw_plus_b([[1.0, 2.0]], [[3.0], [4.0]], [0.5]))
        array([[11.5]], dtype=float32)
    """
    with graph.name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return BiasAdd(products.matmul(x, weights), biases, name=scope)


def relu_layer(x, weights, biases, name=None):
    """relu(matmul(x, weights) + biases). TF: nn.relu_layer.
    x: floats [batch, in]; weights: [in, out]; biases: [out]. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    with graph.name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return activation_ops.Relu(BiasAdd(products.matmul(x, weights), biases), name=scope)


def moments(x, axes, shift=None, name=None, keep_dims=None, keepdims=None):
    """Mean and (biased) variance of `x` over `axes`; float16 is computed in float32.
    TF: nn.moments.
    x: floats; results: without `axes`, or with them as 1. TypeError for other dtypes, ValueError
    for shapes that do not fit.
    axes: ints, over which it is averaged; shift: has no effect. keepdims, older keep_dims: keep
    `axes` as 1.

        >>> mean, variance = tf.nn.moments(tf.constant([[1.0, 2.0], [3.0, 6.0]]), axes=[0])
        >>> tf.Session().run([mean, variance])
        [array([2., 4.], dtype=float32), array([1., 4.], dtype=float32)]
    """
    keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    with graph.name_scope(name, "moments", [x, axes]):
        x = graph.convert_to_tensor(x)
        y = tensors.cast(x, dtypes.float32) if x.dtype == dtypes.float16 else x
        mean = reductions.reduce_mean(y, axes, keepdims=True, name="mean")
        squared = binary_ops.SquaredDifference(y, identity_ops.StopGradient(mean))
        variance = reductions.reduce_mean(squared, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = tensors.squeeze(mean, axes), tensors.squeeze(variance, axes)
        return tensors.cast(mean, x.dtype), tensors.cast(variance, x.dtype)


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
        inverse = tensors.cast(inverse, x.dtype)
        shift = offset - mean * inverse if offset is not None else -mean * inverse
        return x * inverse + tensors.cast(shift, x.dtype)


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
