"""Colours: spaces, brightness, contrast, hue, saturation; random ones.

Invariant: integer images are changed as floats in [0, 1] and come back clipped, in their dtype.

Example:  `tf.image.random_hue(tf.image.adjust_brightness(photo, 0.1), 0.05, seed=3)`.
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.image.image_functions import convert_image_dtype
from pyflow.lib.math import reductions
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.ops.gemm import products
from pyflow.ops.image.image_color_ops import (AdjustContrastv2, AdjustHue, AdjustSaturation,
                                              HSVToRGB, RGBToHSV)
from pyflow.ops.move import join_ops


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
        brighter = binary_ops.Add(image, tensors.cast(delta, image.dtype))
        return convert_image_dtype(brighter, dtype, saturate=True)


def adjust_contrast(images, contrast_factor):
    """Values moved away from the mean of their image and channel by `contrast_factor`; images
    [..., h, w, channels]. TF: tf.image.adjust_contrast.
    Dtypes, shapes, errors: as op AdjustContrastv2."""
    with graph.name_scope(None, "adjust_contrast", [images, contrast_factor]):
        images, dtype = _floats(images)
        factor = tensors.cast(contrast_factor, dtypes.float32)
        return convert_image_dtype(AdjustContrastv2(images, factor), dtype, saturate=True)


def adjust_gamma(image, gamma=1, gain=1):
    """gain * image ** gamma. ValueError for a negative gamma (InvalidArgumentError in the step,
    for a tensor). TF: tf.image.adjust_gamma.
    image: any shape and number dtype, which the result has too. ValueError for a negative gamma."""
    with graph.name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image, dtype = _floats(image)
        message = "Gamma should be a non-negative real number."
        if isinstance(gamma, graph.Tensor):
            with graph.control_dependencies([logging_functions.Assert(gamma >= 0, [message])]):
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
        turned = AdjustHue(image, tensors.cast(delta, dtypes.float32))
        return convert_image_dtype(turned, dtype, saturate=True)


def adjust_saturation(image, saturation_factor, name=None):
    """RGB image(s) with the saturation times `saturation_factor`.
    TF: tf.image.adjust_saturation.
    Dtypes, shapes, errors: as op AdjustSaturation."""
    with graph.name_scope(name, "adjust_saturation", [image]):
        image, dtype = _floats(image)
        adjusted = AdjustSaturation(image, tensors.cast(saturation_factor, dtypes.float32))
        return convert_image_dtype(adjusted, dtype, saturate=True)


# ------------------------------------------------------------------------------ adjusting at random
def _drawn(low, high, seed):
    return random_functions.random_uniform([], low, high, seed=seed)


def random_brightness(image, max_delta, seed=None):
    """adjust_brightness by a number from [-max_delta, max_delta). ValueError for a negative
    max_delta. TF: tf.image.random_brightness.
    image: any shape and number dtype. seed: as for tf.random_uniform. ValueError for a negative
    max_delta.

        >>> y = tf.Session().run(tf.image.random_brightness(tf.zeros([2, 2, 3]), max_delta=0.1))
        >>> bool(abs(y).max() <= 0.1)
        True
    """
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, _drawn(-max_delta, max_delta, seed))


def random_contrast(image, lower, upper, seed=None):
    """adjust_contrast by a factor from [lower, upper). ValueError unless 0 <= lower < upper.
    TF: tf.image.random_contrast.
    image: [..., h, w, channels] of numbers. ValueError unless 0 <= lower < upper.
    seed: for the same factors in each program.

        >>> image = tf.constant([[[10.0], [30.0]]])                     # mean 20
        >>> found = tf.Session().run(tf.image.random_contrast(image, 0.5, 1.5, seed=1))
        >>> bool(15 >= found[0, 0, 0] >= 5), float(found.mean())
        (True, 20.0)
    """
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
def _with_channels(images, channels, kind):
    """The images, which have so many channels: known now, or asserted in the step."""
    said = f"Last dimension of {kind} image should be size {channels}."
    known = dims_of(images.shape)
    if known is not None and (not known or known[-1] not in (None, channels)):
        raise ValueError(f"{said[:-1]}, got shape {images.shape}")
    if known is not None and known[-1] == channels:
        return images
    found = tensors.shape(images)
    holds = logic_ops.Equal(found[-1], channels)
    with graph.control_dependencies([logging_functions.Assert(holds, [said, found])]):
        return identity_ops.Identity(images)


def rgb_to_grayscale(images, name=None):
    """0.2989 red + 0.5870 green + 0.1140 blue, with one channel, in the images' dtype.
    TF: tf.image.rgb_to_grayscale.
    images: [..., 3] of any number dtype -> [..., 1]. ValueError for other channels."""
    with graph.name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = graph.convert_to_tensor(images, name="images")
        dtype = images.dtype.base_dtype
        images = _with_channels(images, 3, "an RGB")
        weights = graph.convert_to_tensor([0.2989, 0.5870, 0.1140], dtype=dtypes.float32)
        gray = reductions.reduce_sum(convert_image_dtype(images, dtypes.float32) * weights,
                                     axis=-1, keepdims=True)
        return convert_image_dtype(gray, dtype, name=scope)


def grayscale_to_rgb(images, name=None):
    """One channel three times. ValueError where the last dimension is known not to be 1.
    TF: tf.image.grayscale_to_rgb.
    images: [..., 1] of any number dtype -> [..., 3]. ValueError for other channels."""
    with graph.name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = graph.convert_to_tensor(images, name="images")
        images = _with_channels(images, 1, "a grayscale")
        known = dims_of(images.shape)
        rank = tensors.rank(images) if known is None else len(known)
        ones = tensors.ones(tensors.stack([rank - 1]) if known is None else [rank - 1],
                            dtypes.int32)
        tiled = join_ops.Tile(images, tensors.concat([ones, [3]], 0), name=scope)
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
        flat = tensors.reshape(images, [-1, 3])
        result = tensors.reshape(products.matmul(flat, matrix), tensors.shape(images))
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
