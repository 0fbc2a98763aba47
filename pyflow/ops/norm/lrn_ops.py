"""Local response normalisation, and the op of its gradient.

Each element is divided by (bias + alpha * sum of squares over 2 depth_radius + 1 channels)^beta.
Source: Krizhevsky et al. 2012.

Example:  `LRN(images, depth_radius=2)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, op, pos
from pyflow.ops.base.shape_rules import by_pattern


# --------------------------------------------------------------------- local response normalisation
LRN_ATTRS = ("depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, "
             "T: {half, bfloat16, float} = float")
LRN_NAMES = ("depth_radius", "bias", "alpha", "beta")


def _window_sum(x, radius):
    n = x.shape[-1]
    return np.stack([x[..., max(i - radius, 0):i + radius + 1].sum(-1) for i in range(n)],
                    -1) if n else x


@op("LRN", inputs="input: T", outputs="output: T", attrs=LRN_ATTRS)
class LRN:
    """x / (bias + alpha sum x^2)^beta, the sum over channels within depth_radius. TF: LRN
    (Krizhevsky 2012)."""
    shape = by_pattern("b h w c", "->", "b h w c")

    def gradient(op, dy):
        return LRNGrad(dy, op.inputs[0], op.outputs[0], **{n: op.attr(n) for n in LRN_NAMES})

    def reference(input, depth_radius, bias, alpha, beta):
        return input / (bias + alpha * _window_sum(input * input, depth_radius)) ** beta
    samples = [S((1, 2, 3, 8)), S((2, 2, 2, 4), depth_radius=1, bias=2.0, alpha=0.5, beta=0.75)]


def _lrn_grad(dy, x, y, depth_radius, bias, alpha, beta):
    norm = bias + alpha * _window_sum(x * x, depth_radius)
    return dy / norm ** beta - 2 * alpha * beta * x * _window_sum(dy * y / norm, depth_radius)


@op("LRNGrad", inputs="input_grads: T, input_image: T, output_image: T", outputs="output: T",
    attrs=LRN_ATTRS)
class LRNGrad:
    """Gradient of LRN. TF gives it no gradient. TF: LRNGrad."""
    shape = by_pattern("b h w c", "b h w c", "b h w c", "->", "b h w c")
    gradient = UNREGISTERED

    def reference(input_grads, input_image, output_image, depth_radius, bias, alpha, beta):
        return _lrn_grad(input_grads, input_image, output_image, depth_radius, bias, alpha, beta)
    samples = [S((1, 2, 3, 8), pos((1, 2, 3, 8)), pos((1, 2, 3, 8)))]
