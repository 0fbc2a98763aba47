"""Mean and variance in one op, and layer normalisation: what passes/fuse_moments.py makes.

Invariants
  1. Both results of _FusedMoments keep the reduced dimensions as 1; axes may be negative.
  2. Statistics are float32 whatever the type of x; results are rounded once.
  3. Made after gradients were built: they have none.

Source: tf.nn.moments; Ba, Kiros and Hinton 2016.
Example:  `_FusedMoments(x, axes=[-1], T=tf.float32)` is the mean and the variance of each row.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, op, pos
from pyflow.framework.tensor_shape import TensorShape, unknown_shape

HALVES_TOO = "{half, bfloat16, float}"


def _axes(axes, rank):
    wrong = [a for a in axes if not -rank <= a < rank]
    if wrong:
        raise ValueError(f"_FusedMoments: axes must be in [{-rank}, {rank}), got {wrong[0]}")
    return {a % rank for a in axes}


def _moments_shapes(op):
    dims = op.inputs[0].shape.as_tuple()
    if dims is None:
        return [unknown_shape(), unknown_shape()]
    reduced = _axes(op.attr("axes"), len(dims))
    kept = TensorShape([1 if i in reduced else d for i, d in enumerate(dims)])
    return [kept, kept]


@op("_FusedMoments", inputs="x: S", outputs="mean: T, variance: T",
    attrs=f"axes: list(int), S: {HALVES_TOO}, T: {HALVES_TOO}")
class _FusedMoments:
    """Mean and (biased) variance of `x` over `axes`. TF: none; tf.nn.moments builds it of four."""
    shape = _moments_shapes
    gradient = UNREGISTERED

    def reference(x, axes, S, T):
        found = tuple(axes)
        return x.mean(found, keepdims=True), x.var(found, keepdims=True)
    samples = [S((4, 70), axes=[1]), S((4, 70), axes=[0]), S((4, 3, 2, 5), axes=[0, 1, 2]),
               S((2, 3, 4, 5), axes=[0, 2, 3]), S((3, 4), axes=[-1, -2]), S((2, 3), axes=[]),
               S((3, 1, 600), axes=[0]), S((), axes=[])]


def _layer_norm_shape(op):
    x, scale = op.inputs[0].shape, op.inputs[1].shape.merge_with(op.inputs[2].shape)
    if x.ndims is None or scale.ndims is None:
        return x
    if not 1 <= scale.ndims <= x.ndims:
        raise ValueError(f"_FusedLayerNorm: scale and offset have the last dimensions of x, {x}; "
                         f"got {scale}")
    return x.merge_with(x[:x.ndims - scale.ndims].concatenate(scale))


@op("_FusedLayerNorm", inputs="x: T, scale: T, offset: T", outputs="y: T",
    attrs=f"epsilon: float, T: {HALVES_TOO}")
class _FusedLayerNorm:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, where mean and variance are those
    over the dimensions that scale and offset have. TF: none; built of tf.nn.moments."""
    shape = _layer_norm_shape
    gradient = UNREGISTERED

    def reference(x, scale, offset, epsilon, T):
        axes = tuple(range(x.ndim - scale.ndim, x.ndim))
        centred = x - x.mean(axes, keepdims=True)
        deviation = np.sqrt(x.var(axes, keepdims=True) + epsilon)
        return centred / deviation * scale + offset
    samples = [S((5, 70), pos((70,)), (70,), epsilon=1e-3),
               S((2, 3, 4, 9), pos((4, 9)), (4, 9), epsilon=1e-3),
               S((0, 3), (3,), (3,), epsilon=1e-3), S((7,), (7,), (7,), epsilon=1e-3)]
