"""Patches and glimpses of images and volumes."""
from pyflow.ops.image.image_patch_ops import (ExtractGlimpse, ExtractImagePatches,
                                              ExtractVolumePatches)


def extract_image_patches(images, ksizes=None, strides=None, rates=None, padding=None, name=None,
                          sizes=None):
    """Windows of images [batch, h, w, c] -> [batch, rows, columns, kh * kw * c].

    ksizes, strides and rates are [1, rows, columns, 1]: a window's size, how far it moves, and the
    distance of its pixels; padding is "VALID", windows inside the image, or "SAME", ceil(size /
    stride) of them, with zeros outside. ValueError for other lists. TF: tf.image.extract_image_patches.
    Dtypes, shapes, errors: as op ExtractImagePatches."""
    if ksizes is not None and sizes is not None:
        raise ValueError("extract_image_patches: give ksizes or sizes, not both")
    return ExtractImagePatches(images, ksizes=sizes if ksizes is None else ksizes, strides=strides,
                               rates=rates, padding=padding, name=name)


def extract_patches(images, sizes, strides, rates, padding, name=None):
    """extract_image_patches under its later name. TF: tf.image.extract_patches.
    sizes, strides, rates, padding: as image.extract_image_patches's.
    Dtypes, shapes, errors: as op ExtractImagePatches."""
    return ExtractImagePatches(images, ksizes=sizes, strides=strides, rates=rates, padding=padding,
                               name=name)


def extract_volume_patches(input, ksizes, strides, padding, name=None):
    """Windows of volumes [batch, d, h, w, c] -> [batch, ..., kd * kh * kw * c].
    TF: tf.extract_volume_patches.
    ksizes, strides: [1, planes, rows, columns, 1]; padding: as image.extract_image_patches's.
    Dtypes, shapes, errors: as op ExtractVolumePatches."""
    return ExtractVolumePatches(input, ksizes=ksizes, strides=strides, padding=padding, name=name)


def extract_glimpse(input, size, offsets, centered=True, normalized=True, uniform_noise=True,
                    name=None):
    """A window of `size` (h, w) from each image [batch, H, W, c], at offsets [batch, 2] (y, x).

    normalized: offsets are in [-1, 1] (centered, from the middle) or [0, 1]; else in pixels.
    Outside the image is noise: uniform between the image's extremes, else normal.
    TF: tf.image.extract_glimpse.
    Dtypes, shapes, errors: as op ExtractGlimpse."""
    noise = "uniform" if uniform_noise else "gaussian"
    return ExtractGlimpse(input, size, offsets, centered=centered, normalized=normalized,
                          uniform_noise=uniform_noise, noise=noise, name=name)


PUBLIC = {
    "image.extract_image_patches": extract_image_patches,
    "extract_image_patches": extract_image_patches, "image.extract_patches": extract_patches,
    "image.extract_glimpse": extract_glimpse, "extract_volume_patches": extract_volume_patches,
}
