"""Colours: colour spaces, brightness, contrast, hue, saturation; `tf.image.adjust_*`, `random_*`.

Invariants
  1. The last dimension holds the channels, red, green, blue where three are wanted.
  2. Hue, saturation and value lie in [0, 1]; hue is a fraction of the colour circle.
  3. Integer images are changed as floats in [0, 1] and come back clipped, in their dtype.
  4. As in TF, adjustments and HSVToRGB have no gradient where they are ops of their own.

Example:  `tf.image.random_hue(tf.image.adjust_brightness(photo, 0.1), 0.05, seed=3)`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.image.image_functions import convert_image_dtype
from pyflow.ops.base.common import dims_of, unchanged
from pyflow.ops.base.shape_rules import by_pattern, checked
from pyflow.ops.control import identity_ops
from pyflow.ops.data import logging_ops
from pyflow.ops.elementwise import binary_ops, cast_ops, logic_ops, unary_ops
from pyflow.ops.gemm import matmul_ops
from pyflow.ops.move import array_ops, join_ops
from pyflow.ops.random import random_ops
from pyflow.ops.reduce import reduction_ops

SPACES = "T: {half, bfloat16, float, double} = float"
ADJUSTED = "T: {half, float} = float"
COLORS = np.array([[[0.25, 0.5, 0.75], [1.0, 0.0, 0.5]], [[0.5, 0.25, 0.0], [0.5, 0.5, 0.5]],
                   [[0.0, 1.0, 0.25], [0.125, 0.25, 1.0]]])


def _three_channels(op):
    shape = op.inputs[0].shape
    if shape.ndims is not None:
        if shape.ndims < 1:
            raise ValueError(f"{op.type}: images must have a dimension of channels, got {shape}")
        if dims_of(shape)[-1] not in (None, 3):
            raise ValueError(f"{op.type}: images must have 3 channels, got shape {shape}")
        shape = TensorShape(dims_of(shape)[:-1] + [3])
    return shape


def _image_unchanged(op):
    shape = unchanged(op)
    if shape.ndims is not None and shape.ndims < 3:
        raise ValueError(f"{op.type}: images must have rank at least 3, got shape {shape}")
    return shape


def _three_channel_image(op):
    _three_channels(op)
    return _image_unchanged(op)


# ------------------------------------------------------------------------------------------ oracles
def _to_hsv(images):
    """Smith's hexcone model (1978), on float64."""
    images = images.astype(np.float64)
    r, g, b = np.moveaxis(images, -1, 0)
    value, least = images.max(-1), images.min(-1)
    spread = value - least
    safe = np.where(spread > 0, spread, 1)
    hue = np.where(value == r, (g - b) / safe,
                   np.where(value == g, (b - r) / safe + 2, (r - g) / safe + 4)) / 6
    hue = np.where(spread > 0, hue, 0)
    hue = np.where(hue < 0, hue + 1, hue)
    saturation = np.where(value > 0, spread / np.where(value > 0, value, 1), 0)
    return np.stack([hue, saturation, value], -1)


def _to_rgb(images):
    images = images.astype(np.float64)
    hue, saturation, value = np.moveaxis(images, -1, 0)
    ramps = np.stack([np.abs(hue * 6 - 3) - 1, 2 - np.abs(hue * 6 - 2), 2 - np.abs(hue * 6 - 4)],
                     -1)
    saturation, value = saturation[..., None], value[..., None]
    return ((1 - saturation) + saturation * np.clip(ramps, 0, 1)) * value


# ---------------------------------------------------------------------------------------------- ops
def _hsv_gradient(op, dy):
    """The partial derivatives of hue, saturation and value by the biggest and smallest channel, as
    TF's: of equal ones the first is the biggest, the last the smallest; a quotient by 0 is 0."""
    image, rgb = op.inputs[0], join_ops.unstack(op.inputs[0], 3, axis=-1)
    dhue, dsaturation, dvalue = join_ops.unstack(dy, 3, axis=-1)
    _, saturation, value = join_ops.unstack(op.outputs[0], 3, axis=-1)
    zero = graph.convert_to_tensor(0, dtype=image.dtype)
    one = graph.convert_to_tensor(1, dtype=image.dtype)

    def flag(*conditions):
        holds = conditions[0]
        for other in conditions[1:]:
            holds = logic_ops.LogicalAnd(holds, other)
        return cast_ops.cast(holds, image.dtype)

    def inverse(x):
        return binary_ops.DivNoNan(one, x)
    (r, g, b), above = rgb, [flag(c > zero) for c in rgb]
    big = [flag(r >= b, r >= g), flag(g > r, g >= b), flag(b > r, b > g)]
    small = [flag(r < b, r < g), flag(g <= r, g < b), flag(b <= r, b <= g)]
    spread = inverse(unary_ops.Square(saturation)) * inverse(unary_ops.Square(value))
    grads = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3         # the channels after this one, in a circle
        this, after, last = rgb[i], rgb[j], rgb[k]
        least = small[j] * after + small[k] * last
        most = big[j] * after + big[k] * last
        by_saturation = above[i] * (big[i] * least * inverse(unary_ops.Square(this))
                                    - small[i] * inverse(most))
        by_hue = (
            above[i] * big[i] * (last - after) * spread
            + above[j] * big[j] * small[i] * (last - after)
            * inverse(unary_ops.Square(this - after))
            - above[j] * big[j] * small[k] * inverse(after - last)
            + above[k] * big[k] * small[i] * (last - after)
            * inverse(unary_ops.Square(last - this))
            + above[k] * big[k] * small[j] * inverse(last - after)) / 6.0
        grads.append(dvalue * big[i] + dsaturation * by_saturation + dhue * by_hue)
    return join_ops.stack(grads, axis=-1)


@op("RGBToHSV", inputs="images: T", outputs="output: T", attrs=SPACES)
class RGBToHSV:
    """Red, green, blue to hue, saturation, value. TF: RGBToHSV."""
    shape = _three_channels
    gradient = _hsv_gradient

    def reference(images): return _to_hsv(images)
    samples = [S(lit(COLORS)), S(lit([0.25, 0.5, 0.125])), S(lit(np.zeros((0, 3))))]


@op("HSVToRGB", inputs="images: T", outputs="output: T", attrs=SPACES)
class HSVToRGB:
    """Hue, saturation, value to red, green, blue. TF: HSVToRGB."""
    shape = _three_channels
    gradient = None

    def reference(images): return _to_rgb(images)
    samples = [S(lit(COLORS)), S(lit([0.25, 0.5, 0.125])), S(lit(np.zeros((0, 3))))]


@op("AdjustContrastv2", inputs="images: T, contrast_factor: float", outputs="output: T",
    attrs=ADJUSTED)
class AdjustContrastv2:
    """(x - mean) * contrast_factor + mean, the mean taken per image and channel.
    TF: AdjustContrastv2."""
    shape = checked(_image_unchanged, None, "")
    gradient = UNREGISTERED

    def reference(images, contrast_factor):
        mean = images.astype(np.float64).mean((-3, -2), keepdims=True)
        return (images - mean) * contrast_factor + mean
    samples = [S((3, 4, 2), lit(2.0)), S((2, 3, 3, 1), lit(0.5)), S((0, 3, 3, 1), lit(0.5))]


@op("AdjustHue", inputs="images: T, delta: float", outputs="output: T", attrs=ADJUSTED)
class AdjustHue:
    """Hue turned by `delta` of the colour circle. TF: AdjustHue."""
    shape = _three_channel_image
    gradient = UNREGISTERED

    def reference(images, delta):
        hsv = _to_hsv(images)
        hsv[..., 0] = (hsv[..., 0] + delta) % 1
        return _to_rgb(hsv)
    samples = [S(lit(COLORS), lit(0.25)), S(lit(COLORS[None]), lit(-0.7))]


@op("AdjustSaturation", inputs="images: T, scale: float", outputs="output: T", attrs=ADJUSTED)
class AdjustSaturation:
    """Saturation times `scale`, clipped to [0, 1]. TF: AdjustSaturation."""
    shape = _three_channel_image
    gradient = UNREGISTERED

    def reference(images, scale):
        hsv = _to_hsv(images)
        hsv[..., 1] = np.clip(hsv[..., 1] * scale, 0, 1)
        return _to_rgb(hsv)
    samples = [S(lit(COLORS), lit(0.5)), S(lit(COLORS[None]), lit(3.0))]


# ------------------------------------------------------------------------------------- adjusting
def _floats(image, kept=(dtypes.float16, dtypes.float32)):
    """The image as floats in [0, 1], and its dtype to return to."""
    image = graph.convert_to_tensor(image, name="image")
    dtype = image.dtype.base_dtype
    return (image if dtype in kept else convert_image_dtype(image, dtypes.float32)), dtype


def adjust_brightness(image, delta):
    """`delta`, in units of the image's range, added to every value. Any shape.
    TF: tf.image.adjust_brightness.
    image: any shape and number dtype, which the result has too. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    with graph.name_scope(None, "adjust_brightness", [image, delta]):
        image, dtype = _floats(image, dtypes.FLOATS)
        brighter = binary_ops.Add(image, cast_ops.cast(delta, image.dtype))
        return convert_image_dtype(brighter, dtype, saturate=True)


def adjust_contrast(images, contrast_factor):
    """Values moved away from the mean of their image and channel by `contrast_factor`; images
    [..., h, w, channels]. TF: tf.image.adjust_contrast.
    Dtypes, shapes, errors: as op AdjustContrastv2."""
    with graph.name_scope(None, "adjust_contrast", [images, contrast_factor]):
        images, dtype = _floats(images)
        factor = cast_ops.cast(contrast_factor, dtypes.float32)
        return convert_image_dtype(AdjustContrastv2(images, factor), dtype, saturate=True)


def adjust_gamma(image, gamma=1, gain=1):
    """gain * image ** gamma. ValueError for a negative gamma (InvalidArgumentError in the step,
    for a tensor). TF: tf.image.adjust_gamma.
    image: any shape and number dtype, which the result has too. ValueError for a negative gamma."""
    with graph.name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image, dtype = _floats(image)
        message = "Gamma should be a non-negative real number."
        if isinstance(gamma, graph.Tensor):
            with graph.control_dependencies([logging_ops.Assert(gamma >= 0, [message])]):
                gamma = identity_ops.Identity(gamma)
        elif gamma < 0:
            raise ValueError(message)
        return convert_image_dtype(gain * image ** gamma, dtype, saturate=True)


def adjust_hue(image, delta, name=None):
    """RGB image(s) with the hue turned by `delta`, in units of the whole circle.
    TF: tf.image.adjust_hue.
    Dtypes, shapes, errors: as op AdjustHue."""
    with graph.name_scope(name, "adjust_hue", [image]):
        image, dtype = _floats(image)
        turned = AdjustHue(image, cast_ops.cast(delta, dtypes.float32))
        return convert_image_dtype(turned, dtype, saturate=True)


def adjust_saturation(image, saturation_factor, name=None):
    """RGB image(s) with the saturation times `saturation_factor`.
    TF: tf.image.adjust_saturation.
    Dtypes, shapes, errors: as op AdjustSaturation."""
    with graph.name_scope(name, "adjust_saturation", [image]):
        image, dtype = _floats(image)
        adjusted = AdjustSaturation(image, cast_ops.cast(saturation_factor, dtypes.float32))
        return convert_image_dtype(adjusted, dtype, saturate=True)


# ------------------------------------------------------------------------------ adjusting at random
def _drawn(low, high, seed):
    return random_ops.random_uniform([], low, high, seed=seed)


def random_brightness(image, max_delta, seed=None):
    """adjust_brightness by a number from [-max_delta, max_delta). ValueError for a negative
    max_delta. TF: tf.image.random_brightness.
    image: any shape and number dtype. ValueError for a negative max_delta."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, _drawn(-max_delta, max_delta, seed))


def random_contrast(image, lower, upper, seed=None):
    """adjust_contrast by a factor from [lower, upper). ValueError unless 0 <= lower < upper.
    TF: tf.image.random_contrast.
    image: [..., h, w, channels] of numbers. ValueError unless 0 <= lower < upper."""
    _check_range(lower, upper)
    return adjust_contrast(image, _drawn(lower, upper, seed))


def random_hue(image, max_delta, seed=None):
    """adjust_hue by a number from [-max_delta, max_delta). ValueError unless 0 <= max_delta <=
    0.5. TF: tf.image.random_hue.
    image: [..., 3] of numbers. ValueError unless 0 <= max_delta <= 0.5."""
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, _drawn(-max_delta, max_delta, seed))


def random_saturation(image, lower, upper, seed=None):
    """adjust_saturation by a factor from [lower, upper). ValueError unless 0 <= lower < upper.
    TF: tf.image.random_saturation.
    image: [..., 3] of numbers. ValueError unless 0 <= lower < upper."""
    _check_range(lower, upper)
    return adjust_saturation(image, _drawn(lower, upper, seed))


def _check_range(lower, upper):
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


# ------------------------------------------------------------------------------------ colour spaces
def rgb_to_grayscale(images, name=None):
    """0.2989 red + 0.5870 green + 0.1140 blue, with one channel, in the images' dtype.
    TF: tf.image.rgb_to_grayscale.
    images: [..., 3] of any number dtype -> [..., 1]. ValueError for other channels."""
    with graph.name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = graph.convert_to_tensor(images, name="images")
        dtype = images.dtype.base_dtype
        weights = graph.convert_to_tensor([0.2989, 0.5870, 0.1140], dtype=dtypes.float32)
        gray = reduction_ops.reduce_sum(convert_image_dtype(images, dtypes.float32) * weights,
                                        axis=-1, keepdims=True)
        return convert_image_dtype(gray, dtype, name=scope)


def grayscale_to_rgb(images, name=None):
    """One channel three times. ValueError where the last dimension is known not to be 1.
    TF: tf.image.grayscale_to_rgb.
    images: [..., 1] of any number dtype -> [..., 3]. ValueError for other channels."""
    with graph.name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = graph.convert_to_tensor(images, name="images")
        known = dims_of(images.shape)
        if known is not None and (not known or known[-1] not in (None, 1)):
            raise ValueError(f"Last dimension of a grayscale image should be size 1, got shape "
                             f"{images.shape}")
        rank = array_ops.rank(images) if known is None else len(known)
        ones = array_ops.ones(join_ops.stack([rank - 1]) if known is None else [rank - 1],
                              dtypes.int32)
        tiled = join_ops.Tile(images, join_ops.concat([ones, [3]], 0), name=scope)
        if known is not None:
            tiled.set_shape([*known[:-1], 3])
        return tiled


_MATRICES = {
    "rgb_to_yiq": [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617],
                   [0.114, -0.32134392, 0.31119955]],
    "yiq_to_rgb": [[1, 1, 1], [0.95598634, -0.27201283, -1.10674021],
                   [0.6208248, -0.64720424, 1.70423049]],
    "rgb_to_yuv": [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512],
                   [0.114, 0.43601035, -0.10001026]],
    "yuv_to_rgb": [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]],
}


def _linear(name):
    def convert(images):
        images = graph.convert_to_tensor(images, name="images")
        matrix = graph.convert_to_tensor(_MATRICES[name], dtype=images.dtype, name="kernel")
        flat = array_ops.reshape(images, [-1, 3])
        result = array_ops.reshape(matmul_ops.matmul(flat, matrix), array_ops.shape(images))
        known = dims_of(images.shape)
        result.set_shape(images.shape if known is None else TensorShape(known[:-1] + [3]))
        return result
    convert.__name__ = convert.__qualname__ = name
    source, target = name.upper().split("_TO_")
    convert.__doc__ = (f"Images [..., 3] from {source} to {target}: the product of the channels "
                       f"and a 3 x 3 matrix, in the images' float dtype. TF: tf.image.{name}.\n"
                       "TypeError for other dtypes, ValueError for other channels.")
    return convert


def _hsv(block, name):
    def convert(images, name=None):
        return block(images, name=name)
    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = (f"Images [..., 3]: {block.doc}\n"
                       f"Dtypes, shapes, errors: as op {block.name}.")
    return convert


PUBLIC = {f"image.{name}": _linear(name) for name in _MATRICES}
PUBLIC.update({
    "image.rgb_to_hsv": _hsv(RGBToHSV, "rgb_to_hsv"),
    "image.hsv_to_rgb": _hsv(HSVToRGB, "hsv_to_rgb"),
    "image.rgb_to_grayscale": rgb_to_grayscale, "image.grayscale_to_rgb": grayscale_to_rgb,
    "image.adjust_brightness": adjust_brightness, "image.adjust_contrast": adjust_contrast,
    "image.adjust_gamma": adjust_gamma, "image.adjust_hue": adjust_hue,
    "image.adjust_saturation": adjust_saturation, "image.random_brightness": random_brightness,
    "image.random_contrast": random_contrast, "image.random_hue": random_hue,
    "image.random_saturation": random_saturation,
})
