"""Resizing image batches: the ops and their gradients.

Invariants
  1. A batch is [batch, height, width, channels]; sizes are (height, width).
  2. Pixel i of the output lies at i * scale of the input, scale = in / out (legacy); with
     align_corners scale = (in - 1) / (out - 1); with half_pixel_centers at (i + 0.5) * scale - 0.5.
  3. Bilinear, bicubic and area give float32 whatever comes in; nearest keeps the dtype.
  4. Resizing is linear and separable: the oracles are two matrices, one per axis.

Example:  `tf.image.resize_images(photo, [224, 224], tf.image.ResizeMethod.BICUBIC)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, shape_vector, static_shape

PIXELS = "T: {int8, uint8, int16, uint16, int32, int64, half, bfloat16, float, double}, "
CORNERS = "align_corners: bool = false"
CENTERS = CORNERS + ", half_pixel_centers: bool = false"
FLOATING = (dtypes.float32,)
TABLE = 1024                            # steps of the bicubic weights


# ----------------------------------------------------------------------------------- static shapes
def image_dims(op, shape, what="images"):
    """Dimensions of a batch of images; ValueError for another rank."""
    if shape.ndims not in (None, 4):
        raise ValueError(f"{op.type}: {what} must have rank 4, [batch, height, width, channels], "
                         f"got shape {shape}")
    return dims_of(shape) or [None] * 4


def resized_shape(op):
    batch, _, _, channels = image_dims(op, op.inputs[0].shape)
    size = op.inputs[1]
    if not size.shape.is_compatible_with([2]):
        raise ValueError(f"{op.type}: size must be two numbers, height and width, got shape "
                         f"{size.shape}")
    dims = dims_of(static_shape(size)) or [None, None]
    return TensorShape([batch, *dims, channels])


def _original_shape(op):
    image_dims(op, op.inputs[0].shape, "grads")
    image_dims(op, op.inputs[1].shape, "original_image")
    return op.inputs[1].shape


# ------------------------------------------------------------------------------------------ oracles
def _scale(n, m, align_corners):
    scale = (n - 1) / np.float32(m - 1) if align_corners and m > 1 else n / np.float32(m)
    return np.float32(scale)


def _places(n, m, align_corners, half_pixel_centers):
    """Where the m pixels of an output axis lie on the input's n, in float32 as TF computes it."""
    at, scale = np.arange(m, dtype=np.float32), _scale(n, m, align_corners)
    half = np.float32(0.5)
    return (at + half) * scale - half if half_pixel_centers else at * scale


def _matrix(n, m, rows, columns, weights):
    matrix = np.zeros((m, n))
    np.add.at(matrix, (rows, np.clip(columns, 0, n - 1)), weights)
    return matrix


def bilinear_matrix(n, m, align_corners, half_pixel_centers):
    """[m, n]: row i holds the weights of output pixel i."""
    at = _places(n, m, align_corners, half_pixel_centers)
    low = np.floor(at)
    part, rows = at - low, np.arange(m)
    return (_matrix(n, m, rows, low.astype(int), 1 - part)
            + _matrix(n, m, rows, np.ceil(at).astype(int), part))


def bicubic_matrix(n, m, align_corners, half_pixel_centers):
    """As bilinear_matrix; Keys' cubic (1981) with A = -0.5 for half_pixel_centers, else -0.75."""
    a = -0.5 if half_pixel_centers else -0.75
    at = _places(n, m, align_corners, half_pixel_centers)
    low = np.floor(at)
    step = np.rint((at - low) * TABLE)
    matrix = np.zeros((m, n))
    for k in range(-1, 3):
        x, column = np.abs(k - step / TABLE), low.astype(int) + k
        near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        weight = np.where(x <= 1, near, far)
        if half_pixel_centers:
            weight = np.where((column < 0) | (column >= n), 0, weight)
        matrix += _matrix(n, m, np.arange(m), column, weight)
    return matrix / matrix.sum(1, keepdims=True) if half_pixel_centers else matrix


def area_matrix(n, m, align_corners, half_pixel_centers=False):
    """As bilinear_matrix; the share of each input pixel in [i * scale, (i + 1) * scale)."""
    scale = _scale(n, m, align_corners)
    low = np.arange(m, dtype=np.float32) * scale
    high = np.arange(1, m + 1, dtype=np.float32) * scale
    matrix = np.zeros((m, n))
    for i in range(m):
        for k in range(int(np.floor(low[i])), int(np.ceil(high[i]))):
            share = min(k + 1, float(high[i])) - max(k, float(low[i]))
            matrix[i, min(k, n - 1)] += share / float(scale)
    return matrix


def nearest_matrix(n, m, align_corners, half_pixel_centers):
    """As bilinear_matrix; a single 1 in each row."""
    at = np.arange(m, dtype=np.float32)
    at = (at + np.float32(0.5 if half_pixel_centers else 0)) * _scale(n, m, align_corners)
    at = np.floor(at + 0.5) if align_corners else np.floor(at)
    return _matrix(n, m, np.arange(m), at.astype(int), 1.0)


def _apply(matrix, images, size, align_corners, half_pixel_centers=False):
    rows, columns = (matrix(n, int(m), align_corners, half_pixel_centers)
                     for n, m in zip(images.shape[1:3], size))
    return np.einsum("yh,bhwc,xw->byxc", rows, images.astype(np.float64), columns)


def _apply_back(matrix, grads, size, align_corners, half_pixel_centers=False):
    """The transpose of _apply: `size` is the image's."""
    rows, columns = (matrix(int(n), m, align_corners, half_pixel_centers)
                     for m, n in zip(grads.shape[1:3], size))
    return np.einsum("yh,byxc,xw->bhwc", rows, grads.astype(np.float64), columns)


# ------------------------------------------------------------------------------------------ samples
def _resizes(types=None, centers=True):
    flags = [dict(), dict(align_corners=True)] + ([dict(half_pixel_centers=True)] * centers)
    cases = [((2, 3, 4, 2), [5, 7]), ((1, 6, 5, 3), [3, 2]), ((1, 2, 3, 1), [1, 1])]
    made = [S(shape, lit(size), types=types, **f) for shape, size in cases for f in flags]
    return made + [S((0, 3, 4, 1), lit([2, 2]), types=types), S((1, 3, 3, 2), lit([3, 3]))]


def _gradients(types, centers=True):
    flags = [dict(), dict(align_corners=True)] + ([dict(half_pixel_centers=True)] * centers)
    cases = [((2, 5, 7, 2), (2, 3, 4, 2)), ((1, 3, 2, 3), (1, 6, 5, 3))]
    return [S(g, x, types=types, **f) for g, x in cases for f in flags]


def _original(op):
    return op.inputs[0], {n: op.attr(n) for n in ("align_corners", "half_pixel_centers")}


# ---------------------------------------------------------------------------------------------- ops
@op("ResizeBilinear", inputs="images: T, size: int32", outputs="resized_images: float",
    attrs=PIXELS + CENTERS)
class ResizeBilinear:
    """Images resized by linear interpolation along both axes. TF: ResizeBilinear."""
    shape = resized_shape

    def gradient(op, dy):
        images, flags = _original(op)
        if images.dtype not in dtypes.FLOATS:
            return [None, None]
        return [ResizeBilinearGrad(dy, images, **flags), None]

    def reference(images, size, align_corners, half_pixel_centers):
        return _apply(bilinear_matrix, images, size, align_corners, half_pixel_centers)
    samples = _resizes()


@op("ResizeBilinearGrad", inputs="grads: float, original_image: T", outputs="output: T",
    attrs="T: {float, bfloat16, half, double}, " + CENTERS)
class ResizeBilinearGrad:
    """Gradient of ResizeBilinear with respect to the images. TF: ResizeBilinearGrad."""
    shape = _original_shape

    def gradient(op, dy):
        size = shape_vector(op.inputs[0])[1:3]
        _, flags = _original(op)
        return [ResizeBilinear(tensors.cast(dy, dtypes.float32), size, **flags), None]

    def reference(grads, original_image, align_corners, half_pixel_centers):
        return _apply_back(bilinear_matrix, grads, original_image.shape[1:3], align_corners,
                           half_pixel_centers)
    samples = _gradients((dtypes.float32, dtypes.float64))


@op("ResizeBicubic", inputs="images: T, size: int32", outputs="resized_images: float",
    attrs=PIXELS + CENTERS)
class ResizeBicubic:
    """Images resized by cubic convolution along both axes. TF: ResizeBicubic."""
    shape = resized_shape

    def gradient(op, dy):
        images, flags = _original(op)
        if images.dtype not in (dtypes.float32, dtypes.float64):
            return [None, None]
        return [ResizeBicubicGrad(dy, images, **flags), None]

    def reference(images, size, align_corners, half_pixel_centers):
        return _apply(bicubic_matrix, images, size, align_corners, half_pixel_centers)
    samples = _resizes()


@op("ResizeBicubicGrad", inputs="grads: float, original_image: T", outputs="output: T",
    attrs="T: {float, double}, " + CENTERS)
class ResizeBicubicGrad:
    """Gradient of ResizeBicubic with respect to the images. TF: ResizeBicubicGrad."""
    shape = _original_shape
    gradient = UNREGISTERED

    def reference(grads, original_image, align_corners, half_pixel_centers):
        return _apply_back(bicubic_matrix, grads, original_image.shape[1:3], align_corners,
                           half_pixel_centers)
    samples = _gradients(FLOATING)


@op("ResizeArea", inputs="images: T, size: int32", outputs="resized_images: float",
    attrs=PIXELS + CORNERS)
class ResizeArea:
    """Each output pixel is the mean of the input area it covers. TF: ResizeArea."""
    shape = resized_shape
    gradient = UNREGISTERED

    def reference(images, size, align_corners):
        return _apply(area_matrix, images, size, align_corners)
    samples = _resizes(centers=False)


@op("ResizeNearestNeighbor", inputs="images: T, size: int32", outputs="resized_images: T",
    attrs=PIXELS + CENTERS)
class ResizeNearestNeighbor:
    """Each output pixel is the input pixel nearest to it. TF: ResizeNearestNeighbor."""
    shape = resized_shape

    def gradient(op, dy):
        images, flags = _original(op)
        if not images.dtype.is_floating:
            return [None, None]
        return [ResizeNearestNeighborGrad(dy, shape_vector(images)[1:3], **flags), None]

    def reference(images, size, align_corners, half_pixel_centers):
        return _apply(nearest_matrix, images, size, align_corners,
                      half_pixel_centers).astype(images.dtype)
    samples = _resizes()


@op("ResizeNearestNeighborGrad", inputs="grads: T, size: int32", outputs="output: T",
    attrs="T: {uint8, int8, int32, half, float, double, bfloat16}, " + CENTERS)
class ResizeNearestNeighborGrad:
    """Gradient of ResizeNearestNeighbor; `size` is the images'. TF: ResizeNearestNeighborGrad."""
    shape = resized_shape

    def gradient(op, dy):
        _, flags = _original(op)
        return [ResizeNearestNeighbor(dy, shape_vector(op.inputs[0])[1:3], **flags), None]

    def reference(grads, size, align_corners, half_pixel_centers):
        return _apply_back(nearest_matrix, grads, size, align_corners,
                           half_pixel_centers).astype(grads.dtype)
    samples = [S((2, 5, 7, 2), lit([3, 4]), **f) for f in
               (dict(), dict(align_corners=True), dict(half_pixel_centers=True))]
