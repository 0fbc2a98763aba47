"""Images resampled by a scale and a translation, through one of eight filters.

Invariants
  1. Output pixel i of an axis lies at (i + 1/2 - translation) / scale of the input; the filter is
     widened by 1 / scale where the image shrinks and antialias is set, and its weights sum to 1.
  2. What lies outside of the input is 0.
  3. Resampling is linear and separable: the oracles are two matrices, one per axis.

Example:  `tf.raw_ops.ScaleAndTranslate(images=x, size=[8, 8], scale=[2, 2], translation=[0, 0])`
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.image.image_resize_ops import PIXELS, image_dims, resized_shape

FILTER = 'kernel_type: string = "lanczos3", antialias: bool = true'


def _lanczos(radius):
    def at(x):
        x = np.maximum(x, 1e-3)
        return np.where(x > radius, 0, np.sinc(x) * np.sinc(x / radius))
    return radius, at


def _pieces(first, second):
    """A kernel of radius 2: cubics in x below and above 1."""
    return 2.0, lambda x: np.where(x >= 2, 0, np.where(x >= 1, np.polyval(second, x),
                                                       np.polyval(first, x)))


FILTERS = {                                            # name: (radius, weight at a distance)
    "lanczos1": _lanczos(1.0), "lanczos3": _lanczos(3.0), "lanczos5": _lanczos(5.0),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0, np.exp(-2 * x * x))),
    "box": (0.5, lambda x: np.where(x < 0.5, 1, np.where(x == 0.5, 0.5, 0))),
    "triangle": (1.0, lambda x: np.maximum(1 - x, 0)),
    "keyscubic": _pieces([1.5, -2.5, 0, 1], [-0.5, 2.5, -4, 2]),
    "mitchellcubic": _pieces([7 / 6, -2, 0, 8 / 9], [-7 / 18, 2, -10 / 3, 16 / 9]),
}


def _matrix(n, m, scale, translation, kernel_type, antialias):
    """[m, n]: row i holds the weights of output pixel i."""
    radius, weight = FILTERS[kernel_type]
    step = 1 / float(scale)
    at = (np.arange(m)[:, None] + 0.5 - float(translation)) * step
    widen = max(step, 1.0) if antialias else 1.0
    distance = np.abs(np.arange(n)[None] + 0.5 - at) / widen
    weights = np.where(distance <= radius + 1e-9, weight(distance), 0)
    weights = np.where((at < 0) | (at > n), 0, weights)
    total = weights.sum(1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=np.abs(total) > 1e-30)


def _matrices(shape, size, scale, translation, how):
    return [_matrix(shape[1 + k], size[k], scale[k], translation[k], *how) for k in (0, 1)]


def _check_pair(op, first):
    for tensor in op.inputs[first:]:
        if not tensor.shape.is_compatible_with([2]):
            raise ValueError(f"{op.type}: scale and translation must have shape [2], got "
                             f"{tensor.shape}")


RATIO, SHIFT = lit(np.float32([1.7, 0.6])), lit(np.float32([0.3, -0.7]))


@op("ScaleAndTranslateGrad",
    inputs="grads: T, original_image: T, scale: float, translation: float", outputs="output: T",
    attrs="T: {float}, " + FILTER)
class ScaleAndTranslateGrad:
    """Gradient of ScaleAndTranslate by the images. TF: ScaleAndTranslateGrad."""
    gradient = UNREGISTERED

    def shape(op):
        image_dims(op, op.inputs[0].shape, "gradients")
        image_dims(op, op.inputs[1].shape)
        _check_pair(op, 2)
        return op.inputs[1].shape

    def reference(grads, original_image, scale, translation, kernel_type, antialias):
        rows, columns = _matrices(original_image.shape, grads.shape[1:3], scale, translation,
                                  (kernel_type, antialias))
        return np.einsum("nijc,iy,jx->nyxc", grads, rows, columns)
    samples = [S((2, 5, 3, 2), (2, 4, 6, 2), RATIO, SHIFT),
               S((1, 3, 9, 1), (1, 4, 4, 1), RATIO, SHIFT, kernel_type="triangle", antialias=False)]


def _gradient(op, dy):
    images, _, scale, translation = op.inputs
    dx = ScaleAndTranslateGrad(dy, tensors.cast(images, dtypes.float32), scale, translation,
                               kernel_type=op.attr("kernel_type"), antialias=op.attr("antialias"))
    return [tensors.cast(dx, images.dtype), None, None, None]


@op("ScaleAndTranslate", inputs="images: T, size: int32, scale: float, translation: float",
    outputs="resized_images: float", attrs=PIXELS + FILTER)
class ScaleAndTranslate:
    """Images of `size`, whose pixel i lies at (i + 1/2 - translation) / scale of the input, through
    a filter. TF: ScaleAndTranslate."""
    gradient = _gradient

    def shape(op):
        _check_pair(op, 2)
        return TensorShape(resized_shape(op))

    def reference(images, size, scale, translation, kernel_type, antialias):
        rows, columns = _matrices(images.shape, size, scale, translation, (kernel_type, antialias))
        return np.einsum("nyxc,iy,jx->nijc", images.astype(np.float64), rows, columns)
    samples = [S((2, 4, 6, 2), lit([5, 3]), RATIO, SHIFT, kernel_type=name) for name in FILTERS] + [
        S((1, 9, 5, 3), lit([4, 7]), RATIO, SHIFT, antialias=False),
        S((0, 3, 3, 1), lit([2, 2]), RATIO, SHIFT)]
