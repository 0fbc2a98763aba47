"""Boxes in images: cropping them, drawing them, drawing some at random.

Invariants
  1. A box is [y1, x1, y2, x2] as fractions of the image's height and width.
  2. crop_and_resize takes pixel coordinates y (height - 1), so that 0 and 1 are the corner pixels'
     centres; boxes may leave the image and may be turned around.
  3. sample_distorted_bounding_box draws TF's boxes for TF's seeds.

Example:  `tf.image.crop_and_resize(photos, [[0.1, 0.2, 0.8, 0.9]], [0], [14, 14])`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, unit
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, shape_vector, static_shape, text
from pyflow.ops.image.image_resize_ops import image_dims

CROPPED = "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}, "
METHOD = 'method: {"bilinear", "nearest"} = "bilinear"'
BOXES = lit([[0.11, 0.23, 0.83, 0.91], [0.71, 0.13, 0.27, 0.62], [-0.31, 0.37, 0.6, 1.4]])
OWNERS = lit([0, 1, 1])
COLORS = [[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1],
          [0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]]
DISTORTION = ("T: {uint8, int8, int16, int32, int64}, seed: int = 0, seed2: int = 0, ")
RANGES = ("aspect_ratio_range: list(float) = [0.75, 1.33], area_range: list(float) = [0.05, 1], "
          "max_attempts: int = 100, use_image_if_no_bounding_boxes: bool = false")


# ----------------------------------------------------------------------------------- static shapes
def _boxes(op, boxes, owners):
    """How many boxes there are, or None."""
    shape, index = op.inputs[boxes].shape, op.inputs[owners].shape
    if shape.ndims not in (None, 2) or index.ndims not in (None, 1):
        raise ValueError(f"{op.type}: boxes must be [boxes, 4] and box_ind [boxes], got shapes "
                         f"{shape} and {index}")
    dims = dims_of(shape) or [None, None]
    if dims[1] not in (None, 4):
        raise ValueError(f"{op.type}: boxes must have 4 columns, got shape {shape}")
    return dims_of(TensorShape([dims[0]]).merge_with(TensorShape(index)))[0]


def _crops_shape(op):
    channels = image_dims(op, op.inputs[0].shape, "image")[3]
    size = dims_of(static_shape(op.inputs[3])) or [None, None]
    if len(size) != 2:
        raise ValueError(f"{op.type}: crop_size must be two numbers, got {size}")
    return TensorShape([_boxes(op, 1, 2), *size, channels])


def _image_grad_shape(op):
    image_dims(op, op.inputs[0].shape, "grads")
    _boxes(op, 1, 2)
    dims = dims_of(static_shape(op.inputs[3])) or [None] * 4
    if len(dims) != 4:
        raise ValueError(f"{op.type}: image_size must be four numbers, got {dims}")
    return TensorShape(dims)


def _boxes_grad_shape(op):
    image_dims(op, op.inputs[0].shape, "grads")
    image_dims(op, op.inputs[1].shape, "image")
    return TensorShape([_boxes(op, 2, 3), 4])


def _drawn_shape(op):
    dims = image_dims(op, op.inputs[0].shape)
    boxes = op.inputs[1].shape
    if boxes.ndims not in (None, 3) or (dims_of(boxes) or [4])[-1] not in (None, 4):
        raise ValueError(f"{op.type}: boxes must be [batch, boxes, 4], got shape {boxes}")
    if dims[3] not in (None, 1, 3, 4):
        raise ValueError(f"{op.type}: images must have 1, 3 or 4 channels, got shape "
                         f"{op.inputs[0].shape}")
    return op.inputs[0].shape


def _sampled_shape(op):
    image, boxes = op.inputs[0].shape, op.inputs[1].shape
    if not image.is_compatible_with([3]) or boxes.ndims not in (None, 3):
        raise ValueError(f"{op.type}: image_size must be three numbers and bounding_boxes "
                         f"[batch, boxes, 4], got shapes {image} and {boxes}")
    return [TensorShape([3]), TensorShape([3]), TensorShape([1, 1, 4])]


# ------------------------------------------------------------------------------------------ oracles
def _sample_points(low, high, count, size):
    if count == 1:
        return np.array([0.5 * (low + high) * (size - 1)])
    return low * (size - 1) + np.arange(count) * (high - low) * (size - 1) / (count - 1)


def _axis_matrix(low, high, count, size, method):
    """[count, size] weights of the pixels, and which points lie inside."""
    at = _sample_points(float(low), float(high), count, size)
    inside = (at >= 0) & (at <= size - 1)
    matrix = np.zeros((count, size))
    for i in np.flatnonzero(inside):
        if method == "nearest":
            matrix[i, int(np.floor(at[i] + 0.5))] = 1
            continue
        low_pixel = int(np.floor(at[i]))
        matrix[i, low_pixel] += 1 - (at[i] - low_pixel)
        matrix[i, int(np.ceil(at[i]))] += at[i] - low_pixel
    return matrix, inside


def _box_matrices(box, crop, image, method):
    rows, in_rows = _axis_matrix(box[0], box[2], crop[0], image[0], method)
    columns, in_columns = _axis_matrix(box[1], box[3], crop[1], image[1], method)
    return rows, columns, in_rows[:, None] & in_columns


def _cropped(image, boxes, owners, size, method, extrapolation_value):
    size = [int(n) for n in size]
    crops = np.zeros((len(boxes), *size, image.shape[3]))
    for crop, box, owner in zip(crops, boxes, owners):
        rows, columns, inside = _box_matrices(box, size, image.shape[1:3], text(method))
        values = np.einsum("yh,hwc,xw->yxc", rows, image[owner].astype(np.float64), columns)
        crop[...] = np.where(inside[..., None], values, extrapolation_value)
    return crops


def _spread(grads, boxes, owners, size, method):
    image = np.zeros([int(n) for n in size])
    for grad, box, owner in zip(grads, boxes, owners):
        rows, columns, inside = _box_matrices(box, grad.shape[:2], image.shape[1:3], text(method))
        kept = np.where(inside[..., None], grad, 0)
        image[owner] += np.einsum("yh,yxc,xw->hwc", rows, kept, columns)
    return image


def _to_boxes(grads, image, boxes, owners):
    """Derivatives of the bilinear surface, times those of the points by the box."""
    result = np.zeros((len(boxes), 4))
    height, width = image.shape[1:3]
    for n, (grad, box, owner) in enumerate(zip(grads, boxes, owners)):
        pixels = np.sum(image[owner].astype(np.float64)[None, None]
                        * grad[:, :, None, None], axis=-1)
        rows, columns, inside = _box_matrices(box, grad.shape[:2], (height, width), "bilinear")
        slopes = [_slopes(box[0], box[2], grad.shape[0], height),
                  _slopes(box[1], box[3], grad.shape[1], width)]
        dy = np.where(inside, np.einsum("yh,yxhw,xw->yx", slopes[0], pixels, columns), 0)
        dx = np.where(inside, np.einsum("yh,yxhw,xw->yx", rows, pixels, slopes[1]), 0)
        v, u = _shares(grad.shape[0]), _shares(grad.shape[1])
        result[n] = [np.sum(dy * v[0][:, None]) * (height - 1), np.sum(dx * u[0]) * (width - 1),
                     np.sum(dy * v[1][:, None]) * (height - 1), np.sum(dx * u[1]) * (width - 1)]
    return result


def _slopes(low, high, count, size):
    matrix = np.zeros((count, size))
    for i, at in enumerate(_sample_points(float(low), float(high), count, size)):
        if 0 <= at <= size - 1:
            matrix[i, int(np.ceil(at))] += 1
            matrix[i, int(np.floor(at))] -= 1
    return matrix


def _shares(count):
    """How much of point i comes from the box's first and second edge."""
    part = np.arange(count) / (count - 1) if count > 1 else np.array([0.5])
    return 1 - part, part


def _draw(images, boxes, colors):
    images = images.copy()
    height, width = images.shape[1:3]
    for image, row in zip(images, boxes):
        for i, box in enumerate(row):
            scale = np.array([height - 1, width - 1] * 2, np.float32)
            y0, x0, y1, x1 = (int(v) for v in box.astype(np.float32) * scale)
            if y0 > y1 or x0 > x1 or y0 >= height or x0 >= width or y1 < 0 or x1 < 0:
                continue
            color = colors[i % len(colors)][:image.shape[-1]]
            ys, xs = slice(max(y0, 0), y1 + 1), slice(max(x0, 0), x1 + 1)
            for y in (y0, y1):
                if 0 <= y < height:
                    image[y, xs] = color
            for x in (x0, x1):
                if 0 <= x < width:
                    image[ys, x] = color
    return images


# ---------------------------------------------------------------------------------------------- ops
@op("CropAndResize", inputs="image: T, boxes: float, box_ind: int32, crop_size: int32",
    outputs="crops: float", attrs=CROPPED + METHOD + ", extrapolation_value: float = 0")
class CropAndResize:
    """The boxes [n, 4] of images box_ind [n], each resized to crop_size. TF: CropAndResize."""
    shape = _crops_shape

    def gradient(op, dy):
        image, boxes, owners, _ = op.inputs
        to_image = None
        if image.dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
            to_image = CropAndResizeGradImage(dy, boxes, owners, shape_vector(image),
                                              T=image.dtype, method=op.attr("method"))
        return [to_image, CropAndResizeGradBoxes(dy, image, boxes, owners), None, None]

    def reference(image, boxes, box_ind, crop_size, method, extrapolation_value):
        return _cropped(image, boxes, box_ind, crop_size, method, extrapolation_value)
    samples = [S((2, 5, 6, 3), BOXES, OWNERS, lit([3, 4])),
               S((2, 5, 6, 1), BOXES, OWNERS, lit([1, 1]), extrapolation_value=-2.0),
               S((2, 5, 6, 2), BOXES, OWNERS, lit([7, 2]), extrapolation_value=0.5),
               S((2, 5, 6, 2), lit(np.zeros((0, 4))), lit(np.zeros(0)), lit([2, 2]))]


@op("CropAndResizeGradImage",
    inputs="grads: float, boxes: float, box_ind: int32, image_size: int32", outputs="output: T",
    attrs="T: {float, half, double}, " + METHOD)
class CropAndResizeGradImage:
    """Gradient of CropAndResize with respect to the image. TF: CropAndResizeGradImage."""
    shape = _image_grad_shape
    gradient = UNREGISTERED

    def reference(grads, boxes, box_ind, image_size, method):
        return _spread(grads, boxes, box_ind, image_size, method)
    samples = [S((3, 3, 4, 2), BOXES, OWNERS, lit([2, 5, 6, 2]), types=(dtypes.float32,)),
               S((3, 3, 4, 2), BOXES, OWNERS, lit([2, 5, 6, 2]), method="nearest",
                 types=(dtypes.float32,))]


@op("CropAndResizeGradBoxes", inputs="grads: float, image: T, boxes: float, box_ind: int32",
    outputs="output: float", attrs=CROPPED + 'method: {"bilinear"} = "bilinear"')
class CropAndResizeGradBoxes:
    """Gradient of CropAndResize with respect to the boxes. TF: CropAndResizeGradBoxes."""
    shape = _boxes_grad_shape
    gradient = UNREGISTERED

    def reference(grads, image, boxes, box_ind):
        return _to_boxes(grads, image, boxes, box_ind)
    samples = [S((3, 3, 4, 2), (2, 5, 6, 2), BOXES, OWNERS, types=(dtypes.float32, dtypes.int32)),
               S((3, 1, 1, 1), (2, 5, 6, 1), BOXES, OWNERS, types=(dtypes.float32,))]


FRAMES = lit([[[0.1, 0.2, 0.8, 0.9], [-0.5, 0.3, 0.6, 1.5]],
              [[0.0, 0.0, 1.0, 1.0], [0.9, 0.2, 0.3, 0.4]]])


@op("DrawBoundingBoxes", inputs="images: T, boxes: float", outputs="output: T",
    attrs="T: {float, half} = float")
class DrawBoundingBoxes:
    """Images with the edges of their boxes [batch, n, 4] drawn in ten colours in turn.
    TF: DrawBoundingBoxes."""
    shape = _drawn_shape
    gradient = None

    def reference(images, boxes):
        grey = images.shape[-1] == 1
        return _draw(images, boxes, [[1]] if grey else COLORS)
    samples = [S(unit((2, 8, 9, 3)), FRAMES), S(unit((2, 5, 4, 1)), FRAMES),
               S(unit((2, 5, 4, 4)), FRAMES)]


@op("DrawBoundingBoxesV2", inputs="images: T, boxes: float, colors: float", outputs="output: T",
    attrs="T: {float, half} = float")
class DrawBoundingBoxesV2:
    """DrawBoundingBoxes with colours of the caller's, [n, channels]. TF: DrawBoundingBoxesV2."""
    shape = _drawn_shape
    gradient = UNREGISTERED

    def reference(images, boxes, colors): return _draw(images, boxes, colors)
    samples = [S(unit((2, 8, 9, 3)), FRAMES, lit([[0.5, 0.25, 0.125]]))]


@op("SampleDistortedBoundingBox", inputs="image_size: T, bounding_boxes: float",
    outputs="begin: T, size: T, bboxes: float", stateful=True,
    attrs=DISTORTION + "min_object_covered: float = 0.1, " + RANGES)
class SampleDistortedBoundingBox:
    """A random crop of the image that holds enough of some box. No NumPy oracle: the numbers are
    compared with TF's. TF: SampleDistortedBoundingBox."""
    shape = _sampled_shape
    gradient = None
    reference = None
    samples = [S(lit([20, 30, 3]), lit([[[0.1, 0.2, 0.8, 0.9]]]), seed=1)]


@op("SampleDistortedBoundingBoxV2",
    inputs="image_size: T, bounding_boxes: float, min_object_covered: float",
    outputs="begin: T, size: T, bboxes: float", stateful=True, attrs=DISTORTION + RANGES)
class SampleDistortedBoundingBoxV2:
    """SampleDistortedBoundingBox with min_object_covered as a tensor. TF:
    SampleDistortedBoundingBoxV2."""
    shape = _sampled_shape
    gradient = None
    reference = None
    samples = [S(lit([20, 30, 3]), lit([[[0.1, 0.2, 0.8, 0.9]]]), lit(0.3), seed=1)]
