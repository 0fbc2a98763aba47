"""Images: cutting, padding, flipping, turning, and element types. `tf.image.*` built of other ops.

Invariants
  1. An image is [height, width, channels]; where a batch [batch, height, width, channels] is taken
     as well, every image of it is treated alike, but drawn for on its own.
  2. Integer images span 0 to the largest value of their dtype, float images 0 to 1.
  3. Where the rank is unknown, what is turned or flipped may be either; what is cut or padded is
     taken to be one image, as TensorFlow does.
  4. Sizes and offsets may be numbers or scalar tensors; what is known while building is checked
     there, the rest in the step.

Example:  `tf.image.random_flip_left_right(tf.image.central_crop(photo, 0.875), seed=1)`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import pad_functions, slicing_functions
from pyflow.lib.control_flow import cond as cond_ops, logging_functions
from pyflow.lib.math import cast_functions, complex_functions, reductions
from pyflow.lib.nn import conv2d_functions
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, static
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.move import array_ops, join_ops, slicing_ops


# ------------------------------------------------------------------------------------------- checks
def image_tensor(image, name="image"):
    """The tensor of an image or batch; ValueError for a rank below 3."""
    image = graph.convert_to_tensor(image, name=name)
    if image.shape.ndims is not None and image.shape.ndims < 3:
        raise ValueError(f"{name!r} must be at least three-dimensional, got shape {image.shape}")
    return image


def _three_or_four(image):
    if image.shape.ndims is None:
        raise ValueError("'image' contains no shape: set_shape tells whether it is an image or a "
                         "batch")
    if image.shape.ndims not in (3, 4):
        raise ValueError(f"'image' must have either 3 or 4 dimensions, got shape {image.shape}")


def one_or_batch(image):
    """`image`, taken to be a single one if its rank is unknown; ValueError for other ranks."""
    if image.shape.ndims is None:
        image = identity_ops.Identity(image)
        image.set_shape([None, None, None])
    _three_or_four(image)
    return image


def _from_height(image, axis):
    """`axis`, counted in [height, width, channels], in `image`: a scalar tensor if the rank is
    unknown."""
    if image.shape.ndims is None:
        return array_ops.Rank(image) + (axis - 3)
    return image.shape.ndims + axis - 3


def _by_rank(image, build):
    """`build(image)` for an image or a batch, decided in the step where the rank is unknown."""
    if image.shape.ndims is not None:
        _three_or_four(image)
        return build(image)

    def as_rank(rank):
        known = identity_ops.Identity(image)
        known.set_shape([None] * rank)
        return build(known)
    return cond_ops.cond(logic_ops.Equal(array_ops.Rank(image), 3), lambda: as_rank(3),
                         lambda: as_rank(4))


def _height_width(image):
    """Height and width of an image or batch: ints where known, else scalar tensors."""
    known = dims_of(image.shape)[-3:-1]
    if None in known:
        sizes = array_ops.Shape(image)
        rank = image.shape.ndims
        return [sizes[rank - 3 + i] if d is None else d for i, d in enumerate(known)]
    return known


def _number(value):
    """A size as an int where it is known, else the tensor."""
    known = static(value) if isinstance(value, graph.Tensor) else value
    return value if known is None else int(known)


def _require(conditions, image):
    """`image`, after checks: pairs of (condition, message); a condition is a bool or a tensor."""
    waits = []
    for condition, message in conditions:
        if isinstance(condition, graph.Tensor):
            waits.append(logging_functions.Assert(condition, [message]))
        elif not condition:
            raise ValueError(message)
    if not waits:
        return image
    with graph.control_dependencies(waits):
        return identity_ops.Identity(image)


# --------------------------------------------------------------------------------- cutting, padding
def crop_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """The part of an image or batch whose top left corner is at the offset, of the target size.

    Raises ValueError, or InvalidArgumentError in the step, if the part is not inside the image.
    TF: tf.image.crop_to_bounding_box.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks or a box
    outside it.
    offset_height, offset_width, target_height, target_width: ints or scalars.

        >>> image = tf.reshape(tf.range(16), [4, 4, 1])
        >>> tf.Session().run(tf.image.crop_to_bounding_box(image, 1, 2, 2, 2))[:, :, 0]
        array([[ 6,  7],
               [10, 11]], dtype=int32)
    """
    with graph.name_scope(None, "crop_to_bounding_box", [image]):
        image = one_or_batch(image_tensor(image))
        height, width = _height_width(image)
        top, left, h, w = map(_number, (offset_height, offset_width, target_height, target_width))
        image = _require([(left >= 0, "offset_width must be >= 0."),
                          (top >= 0, "offset_height must be >= 0."),
                          (w > 0, "target_width must be > 0."),
                          (h > 0, "target_height must be > 0."),
                          (width >= w + left, "width must be >= target + offset."),
                          (height >= h + top, "height must be >= target + offset.")], image)
        front = [0] * (image.shape.ndims - 3)
        begin = tensors.stack([*front, top, left, 0])
        size = tensors.stack([*[-1 for _ in front], h, w, -1])
        return _of_size(slicing_ops.Slice(image, begin, size), image, h, w)


def _of_size(result, image, height, width):
    """`result`, whose static shape is the image's but for height and width, where numbers."""
    sizes = [d if isinstance(d, int) else None for d in (height, width)]
    known = dims_of(image.shape)
    result.set_shape(TensorShape([*known[:-3], *sizes, known[-1]]))
    return result


def pad_to_bounding_box(image, offset_height, offset_width, target_height, target_width):
    """An image or batch set into zeros of the target size, its top left corner at the offset.

    Raises ValueError, or InvalidArgumentError in the step, if the image does not fit.
    TF: tf.image.pad_to_bounding_box.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks or an image
    that does not fit."""
    with graph.name_scope(None, "pad_to_bounding_box", [image]):
        image = one_or_batch(image_tensor(image))
        height, width = _height_width(image)
        top, left, h, w = map(_number, (offset_height, offset_width, target_height, target_width))
        below, right = h - top - height, w - left - width
        image = _require([(top >= 0, "offset_height must be >= 0"),
                          (left >= 0, "offset_width must be >= 0"),
                          (below >= 0, "height must be <= target - offset"),
                          (right >= 0, "width must be <= target - offset")], image)
        front = [[0, 0]] * (image.shape.ndims - 3)
        margins = tensors.stack([tensors.stack(pair) for pair in
                                 (*front, [top, below], [left, right], [0, 0])])
        return _of_size(pad_functions.pad(image, margins), image, h, w)


def central_crop(image, central_fraction):
    """The middle of an image or batch: `central_fraction` in (0, 1] of its height and width.

    Raises ValueError for another fraction. TF: tf.image.central_crop.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks and fractions
    outside (0, 1]."""
    with graph.name_scope(None, "central_crop", [image]):
        image = image_tensor(image)
        if not isinstance(central_fraction, graph.Tensor):
            if not 0.0 < central_fraction <= 1.0:
                raise ValueError("central_fraction must be within (0, 1]")
            if central_fraction == 1.0:
                return image
        _three_or_four(image)
        sizes = _height_width(image)
        first = [_central_start(n, central_fraction) for n in sizes]
        extent = [n - 2 * f for n, f in zip(sizes, first)]
        front = [0] * (image.shape.ndims - 3)
        begin = tensors.stack([*front, *first, 0])
        size = tensors.stack([*[-1 for _ in front], *extent, -1])
        return _of_size(slicing_ops.Slice(image, begin, size), image, *extent)


def _central_start(n, fraction):
    if not isinstance(n, graph.Tensor) and not isinstance(fraction, graph.Tensor):
        return int((n - n * float(fraction)) / 2)
    n = tensors.cast(n, dtypes.float64)
    return tensors.cast((n - n * tensors.cast(fraction, dtypes.float64)) / 2, dtypes.int32)


def resize_image_with_crop_or_pad(image, target_height, target_width):
    """An image or batch of the target size: its middle, or the whole in the middle of zeros.

    target_height, target_width: ints or scalar tensors. Raises ValueError for sizes that are not
    positive.
    TF: tf.image.resize_image_with_crop_or_pad.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks and sizes that
    are not positive.

        >>> image = tf.reshape([1, 2, 3], [1, 3, 1])
        >>> tf.Session().run(tf.image.resize_image_with_crop_or_pad(image, 1, 5))[0, :, 0]
        array([0, 1, 2, 3, 0], dtype=int32)
    """
    with graph.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image = one_or_batch(image_tensor(image))
        target = _number(target_height), _number(target_width)
        image = _require([(target[1] > 0, "target_width must be > 0."),
                          (target[0] > 0, "target_height must be > 0.")], image)
        sizes = _height_width(image)
        missing = [t - n for t, n in zip(target, sizes)]
        crop_at = [_larger(-m // 2, 0) if isinstance(m, graph.Tensor) else max(-m // 2, 0)
                   for m in missing]
        pad_at = [_larger(m // 2, 0) for m in missing]
        kept = [_smaller(t, n) for t, n in zip(target, sizes)]
        cropped = crop_to_bounding_box(image, *crop_at, *kept)
        return pad_to_bounding_box(cropped, *pad_at, *target)


def _larger(a, b):
    tensors = isinstance(a, graph.Tensor) or isinstance(b, graph.Tensor)
    return binary_ops.Maximum(a, b) if tensors else max(a, b)


def _smaller(a, b):
    tensors = isinstance(a, graph.Tensor) or isinstance(b, graph.Tensor)
    return binary_ops.Minimum(a, b) if tensors else min(a, b)


# ---------------------------------------------------------------------------------- flips and turns
def _flip(image, axis, scope):
    """The image reversed along `axis` counted in [height, width, channels]."""
    with graph.name_scope(None, scope, [image]):
        image = image_tensor(image)
        if image.shape.ndims is not None:
            _three_or_four(image)
        return slicing_functions.reverse(image, [_from_height(image, axis)])


def flip_left_right(image):
    """An image or batch mirrored along its width. TF: tf.image.flip_left_right.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks."""
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image):
    """An image or batch mirrored along its height. TF: tf.image.flip_up_down.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks."""
    return _flip(image, 0, "flip_up_down")


def _random_flip(image, axis, seed, scope):
    with graph.name_scope(None, scope, [image]) as name:
        return _by_rank(image_tensor(image), lambda x: _flipped_or_not(x, axis, seed, name))


def _flipped_or_not(image, axis, seed, name):
    if image.shape.ndims == 3:
        drawn = random_functions.random_uniform([], 0, 1.0, seed=seed)
        chosen = cond_ops.cond(logic_ops.Less(drawn, 0.5),
                               lambda: slicing_functions.reverse(image, [axis]),
                               lambda: image, name=name)
        chosen.set_shape(image.shape)
        return chosen
    batch = tensors.shape(image)[0]
    drawn = random_functions.random_uniform(tensors.stack([batch]), seed=seed)
    flips = complex_functions.round(tensors.reshape(drawn, tensors.stack([batch, 1, 1, 1])))
    flips = tensors.cast(flips, image.dtype)
    flipped = slicing_functions.reverse(image, [axis + 1])
    return flips * flipped + (1 - flips) * image


def random_flip_left_right(image, seed=None):
    """Each image mirrored along its width with probability one half.
    TF: tf.image.random_flip_left_right. image: [h, w, c] or [batch, h, w, c] of any dtype. seed: as
    for tf.random_uniform. ValueError for other ranks.

        >>> image = tf.reshape([1, 2], [1, 2, 1])
        >>> y = tf.Session().run(tf.image.random_flip_left_right(image))
        >>> y.ravel().tolist() in ([1, 2], [2, 1])
        True
    """
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image, seed=None):
    """Each image mirrored along its height with probability one half.
    TF: tf.image.random_flip_up_down.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def transpose_image(image, name=None):
    """Height and width of an image or batch exchanged. TF: tf.image.transpose_image.
    image: [h, w, c] or [batch, h, w, c] of any dtype. ValueError for other ranks."""
    with graph.name_scope(name, "transpose", [image]) as scope:
        image = image_tensor(image)
        if image.shape.ndims is None:
            height = _from_height(image, 0)
            perm = tensors.concat([tensors.range_(height), [height + 1, height, height + 2]], 0)
        else:
            _three_or_four(image)
            perm = [1, 0, 2] if image.shape.ndims == 3 else [0, 2, 1, 3]
        return tensors.transpose(image, perm, name=scope)


def rot90(image, k=1, name=None):
    """An image or batch turned counter-clockwise by k times 90 degrees; k a number or a scalar
    tensor. TF: tf.image.rot90.
    image: [h, w, c] or [batch, h, w, c] of any dtype; k: int scalar. ValueError for other ranks."""
    with graph.name_scope(name, "rot90", [image, k]) as scope:
        image = image_tensor(image)
        k = graph.convert_to_tensor(k, dtype=dtypes.int32, name="k")
        scope = scope if image.shape.ndims is not None else None    # one name for one branch
        return _by_rank(image, lambda x: _turned_often(x, k, scope))


def _turned_often(image, k, scope):
    k.shape.assert_has_rank(0)
    known = static(k)
    if known is not None:
        return identity_ops.Identity(_turned(image, int(known) % 4))
    turns = binary_ops.FloorMod(k, 4)
    turned = identity_ops.Identity(_turned_by(image, turns, 0), name=scope)
    known = dims_of(image.shape)
    turned.set_shape(TensorShape([*known[:-3], None, None, known[-1]]))
    return turned


def _turned_by(image, turns, k):
    if k == 3:
        return _turned(image, 3)
    return cond_ops.cond(logic_ops.Equal(turns, k), lambda: _turned(image, k),
                         lambda: _turned_by(image, turns, k + 1))


def _turned(image, k):
    rows, columns = image.shape.ndims - 3, image.shape.ndims - 2
    if k == 0:
        return image
    if k == 2:
        return slicing_functions.reverse(image, [rows, columns])
    if k == 1:
        return transpose_image(slicing_functions.reverse(image, [columns]))
    return slicing_functions.reverse(transpose_image(image), [columns])


# ------------------------------------------------------------------------------------ element types
def convert_image_dtype(image, dtype, saturate=False, name=None):
    """An image with element type `dtype`, its values scaled so that the ranges correspond.

    Integers span 0 to their largest value, floats 0 to 1. saturate=True clips what lies outside
    before it becomes an integer. Any shape. TypeError for other dtypes.
    TF: tf.image.convert_image_dtype.
    image: numbers of any shape; integers span their dtype's range, floats [0, 1].
    AttributeError for a dtype that is no number."""
    image = graph.convert_to_tensor(image, name="image")
    dtype, source = dtypes.as_dtype(dtype), image.dtype.base_dtype
    if not dtype.is_floating and not dtype.is_integer:
        raise AttributeError("dtype must be either floating point or integer")
    if dtype == source:
        return identity_ops.Identity(image) if name else image
    with graph.name_scope(name, "convert_image", [image]) as scope:
        to = cast_functions.saturate_cast if saturate else tensors.cast
        if source.is_floating and dtype.is_floating:
            return tensors.cast(image, dtype, name=scope)
        if source.is_integer and not dtype.is_integer:
            return binary_ops.Mul(tensors.cast(image, dtype), 1.0 / source.max, name=scope)
        if source.is_floating:
            return to(binary_ops.Mul(image, dtype.max + 0.5), dtype, name=scope)
        if source.max > dtype.max:
            scale = (source.max + 1) // (dtype.max + 1)
            return to(binary_ops.FloorDiv(image, scale), dtype, name=scope)
        scale = (dtype.max + 1) // (source.max + 1)
        return binary_ops.Mul(to(image, dtype), scale, name=scope)


def per_image_standardization(image):
    """Each image with mean 0 and deviation 1: (x - mean) / max(deviation, 1 / sqrt(n)), n its
    number of values. An image or a batch. TF: tf.image.per_image_standardization.
    image: [h, w, c] or a batch of them, of numbers; result: of its dtype if that is a float, else
    float32 (TensorFlow 1.15 makes it the image's integers again). ValueError for other ranks."""
    with graph.name_scope(None, "per_image_standardization", [image]) as scope:
        image = image_tensor(image)
        if not image.dtype.is_floating:
            image = tensors.cast(image, dtypes.float32)
        axes = [-1, -2, -3]
        count = reductions.reduce_prod(tensors.shape(image)[-3:])
        mean = reductions.reduce_mean(image, axis=axes, keepdims=True)
        spread = reductions.reduce_mean(unary_ops.Square(image - mean), axis=axes, keepdims=True)
        least = unary_ops.Rsqrt(tensors.cast(count, image.dtype))
        deviation = binary_ops.Maximum(unary_ops.Sqrt(spread), least)
        return binary_ops.RealDiv(image - mean, deviation, name=scope)


def total_variation(images, name=None):
    """The sum of absolute differences between neighbouring pixels, one number per image: a scalar
    for an image, [batch] for a batch. ValueError for other ranks. TF: tf.image.total_variation.
    images: [h, w, c] or [batch, h, w, c] of numbers -> a scalar, or [batch]. ValueError for
    other ranks."""
    with graph.name_scope(name, "total_variation", [images]) as scope:
        images = graph.convert_to_tensor(images, name="images")
        if images.shape.ndims not in (3, 4):
            raise ValueError(f"'images' must be either 3 or 4-dimensional, got shape "
                             f"{images.shape}")
        at = (slice(None),) * (images.shape.ndims - 3)
        down = images[(*at, slice(1, None))] - images[(*at, slice(None, -1))]
        across = (images[(*at, slice(None), slice(1, None))]
                  - images[(*at, slice(None), slice(None, -1))])
        axes = None if images.shape.ndims == 3 else [1, 2, 3]
        sums = [reductions.reduce_sum(unary_ops.Abs(d), axis=axes) for d in (down, across)]
        return binary_ops.Add(*sums, name=scope)


def image_gradients(image):
    """(dy, dx): differences to the pixel below and to the right, zero in the last row and column.

    `image` is a batch, [batch, h, w, channels]; ValueError for other ranks.
    TF: tf.image.image_gradients.
    image: [batch, h, w, c] of numbers; both results have its shape. ValueError for other ranks."""
    image = graph.convert_to_tensor(image)
    if image.shape.ndims != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not "
                         f"{image.shape}")
    margin = np.zeros((4, 2), np.int32)
    results = []
    for axis in (1, 2):
        at = (slice(None),) * axis
        steps = image[(*at, slice(1, None))] - image[(*at, slice(None, -1))]
        margins = margin.copy()
        margins[axis, 1] = 1
        results.append(pad_functions.pad(steps, margins))
        results[-1].set_shape(image.shape)
    return tuple(results)


def sobel_edges(image):
    """Vertical and horizontal Sobel derivatives of a batch [batch, h, w, d] -> [..., d, 2], edges
    reflected. TF: tf.image.sobel_edges.
    image: [batch, h, w, c] of floats -> [batch, h, w, c, 2]. ValueError for other ranks."""
    image = graph.convert_to_tensor(image)
    kernels = np.array([[[-1, -2, -1], [0, 0, 0], [1, 2, 1]],
                        [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], np.float32)
    kernels = graph.convert_to_tensor(np.transpose(kernels, (1, 2, 0))[:, :, None], image.dtype)
    kernels = join_ops.Tile(kernels, tensors.stack([1, 1, tensors.shape(image)[-1], 1]))
    padded = pad_functions.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    edges = conv2d_functions.depthwise_conv2d(padded, kernels, [1, 1, 1, 1], "VALID")
    result = tensors.reshape(edges, tensors.concat([tensors.shape(image), [2]], 0))
    result.set_shape(image.shape.concatenate([2]))
    return result


PUBLIC = {
    "image.crop_to_bounding_box": crop_to_bounding_box,
    "image.pad_to_bounding_box": pad_to_bounding_box, "image.central_crop": central_crop,
    "image.resize_image_with_crop_or_pad": resize_image_with_crop_or_pad,
    "image.resize_with_crop_or_pad": resize_image_with_crop_or_pad,
    "image.flip_left_right": flip_left_right, "image.flip_up_down": flip_up_down,
    "image.random_flip_left_right": random_flip_left_right,
    "image.random_flip_up_down": random_flip_up_down, "image.transpose_image": transpose_image,
    "image.transpose": transpose_image, "image.rot90": rot90,
    "image.convert_image_dtype": convert_image_dtype,
    "image.per_image_standardization": per_image_standardization,
    "image.per_image_whitening": per_image_standardization,
    "image.total_variation": total_variation, "image.image_gradients": image_gradients,
    "image.sobel_edges": sobel_edges,
}
