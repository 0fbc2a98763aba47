"""Weighted moments, averages of losses, and SiLU: functions of tf.nn built of other ops.

Invariants
  1. Weights broadcast to what they weigh; where they sum to zero the mean is zero.
  2. No op is defined here.

Example:  `mean, variance = tf.nn.weighted_moments(x, [0], weights)`.
"""
from pyflow.framework import dtypes, graph
from pyflow.lib.math import binary_functions, reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of
from pyflow.ops.elementwise import activation_ops, binary_ops


def weighted_moments(x, axes, frequency_weights, name=None, keep_dims=None, keepdims=None):
    """Mean and variance of `x` over `axes`, each element counted frequency_weights times.

    frequency_weights broadcasts to x; float16 is computed in float32. TF: nn.weighted_moments.
    ValueError for shapes that do not fit."""
    keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    with graph.name_scope(name, "weighted_moments", [x, frequency_weights]):
        x = graph.convert_to_tensor(x, name="x")
        half = x.dtype == dtypes.float16
        wide = tensors.cast(x, dtypes.float32) if half else x
        weights = tensors.cast(frequency_weights, wide.dtype)
        spread = weights + tensors.zeros_like(wide)

        def mean_of(values):
            total = reductions.reduce_sum(values, axes, keepdims=True)
            return binary_functions.div_no_nan(total, reductions.reduce_sum(spread, axes,
                                                                            keepdims=True))
        mean = mean_of(weights * wide)
        variance = mean_of(weights * binary_ops.SquaredDifference(wide, mean))
        if not keep:
            mean, variance = (tensors.squeeze(t, axes) for t in (mean, variance))
        if half:
            mean, variance = (tensors.cast(t, dtypes.float16) for t in (mean, variance))
        return mean, variance


def compute_average_loss(per_example_loss, sample_weight=None, global_batch_size=None):
    """The sum of per-example losses, perhaps weighted, over the batch size; 0 for an empty batch.
    TF: nn.compute_average_loss.
    Floats [batch]; a scalar. ValueError for weights of another shape."""
    losses = graph.convert_to_tensor(per_example_loss)
    size = tensors.shape(losses)[0] if global_batch_size is None else global_batch_size
    if sample_weight is not None:
        weights = tensors.cast(sample_weight, losses.dtype)
        if weights.shape.ndims == 2 and losses.shape.ndims == 1:
            weights = tensors.squeeze(weights, [1])
        losses = losses * weights
    return binary_functions.div_no_nan(reductions.reduce_sum(losses),
                                       tensors.cast(size, losses.dtype))


def scale_regularization_loss(regularization_loss):
    """The sum of a regularisation loss, over the number of replicas (one here).
    TF: nn.scale_regularization_loss.
    Floats of any shape; a scalar. TypeError for other dtypes."""
    return reductions.reduce_sum(graph.convert_to_tensor(regularization_loss))


def silu(features, beta=1.0):
    """features sigmoid(beta features) (Elfwing et al. 2017). TF: nn.silu.
    Floats of any shape, which the result has too. TypeError for other dtypes."""
    features = graph.convert_to_tensor(features, name="features")
    beta = graph.convert_to_tensor(beta, dtype=features.dtype, name="beta")
    return features * activation_ops.Sigmoid(beta * features)


PUBLIC = {
    "nn.weighted_moments": weighted_moments, "nn.compute_average_loss": compute_average_loss,
    "nn.scale_regularization_loss": scale_regularization_loss, "nn.silu": silu,
}
