"""How alike two images are: PSNR and SSIM.

Invariants
  1. The last three dimensions are height, width, channels; those before are a batch and broadcast.
  2. Computed in float32, integer images and `max_val` scaled to [0, 1] first.

Sources: SSIM, Wang et al. 2004; MS-SSIM, Wang et al. 2003.

Example:  `tf.image.ssim(photo, decoded, max_val=1.0)` -> one number per image.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import pad_functions
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.image.image_functions import convert_image_dtype
from pyflow.lib.math import reductions
from pyflow.lib.nn import conv2d_functions
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.move import join_ops
from pyflow.ops.pool import pool_ops

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)      # of the five scales of MS-SSIM


def _pair(a, b, max_val):
    """Both images and max_val as float32 in the unit range; ValueError if they do not match."""
    a, b = graph.convert_to_tensor(a, name="a"), graph.convert_to_tensor(b, name="b")
    for image in (a, b):
        if image.shape.ndims is not None and image.shape.ndims < 3:
            raise ValueError(f"images must have at least 3 dimensions, got shape {image.shape}")
    if None not in (a.shape.ndims, b.shape.ndims):
        a.shape[-3:].assert_is_compatible_with(b.shape[-3:])
    max_val = convert_image_dtype(tensors.cast(max_val, a.dtype), dtypes.float32)
    return (convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32),
            max_val)


def psnr(a, b, max_val, name=None):
    """Peak signal-to-noise ratio in dB: 20 log10(max_val) - 10 log10(mean squared difference), one
    number per image. ValueError for shapes that do not match. TF: tf.image.psnr.
    a, b: [..., h, w, c] of one dtype -> [...], float32. ValueError for shapes that differ."""
    with graph.name_scope(name, "PSNR", [a, b]) as scope:
        a, b, max_val = _pair(a, b, max_val)
        error = reductions.reduce_mean(binary_ops.SquaredDifference(a, b), [-3, -2, -1])
        return binary_ops.Sub(unary_ops.Log(max_val) * (20 / np.log(10)),
                              unary_ops.Log(error) * np.float32(10 / np.log(10)), name=scope)


def _gaussian(size, sigma):
    at = np.arange(size, dtype=np.float64) - (size - 1) / 2
    weights = np.exp(-0.5 * (at / sigma) ** 2)
    kernel = np.outer(weights, weights)
    return (kernel / kernel.sum()).astype(np.float32)[:, :, None, None]


def _check_size(image, filter_size):
    known = image.shape.as_list()[-3:-1] if image.shape.ndims is not None else [None]
    if None in known:
        size = tensors.shape(image)
        big = reductions.reduce_all(logic_ops.GreaterEqual(size[-3:-1], filter_size))
        with graph.control_dependencies([logging_functions.Assert(big, [size, filter_size])]):
            return identity_ops.Identity(image)
    if min(known) < filter_size:
        raise ValueError(f"images must be at least filter_size = {filter_size} pixels high and "
                         f"wide, got shape {image.shape}")
    return image


def _per_channel(a, b, max_val, filter_size, sigma, k1, k2, whole_map=False):
    """(ssim, contrast and structure), [..., channels], or [..., h, w, channels] maps."""
    a, b = _check_size(a, filter_size), _check_size(b, filter_size)
    kernel = join_ops.Tile(graph.convert_to_tensor(_gaussian(filter_size, sigma)),
                           tensors.stack([1, 1, tensors.shape(a)[-1], 1]))

    def mean(x):
        size = tensors.shape(x)
        flat = tensors.reshape(x, tensors.concat([[-1], size[-3:]], 0))
        y = conv2d_functions.depthwise_conv2d(flat, kernel, [1, 1, 1, 1], "VALID")
        return tensors.reshape(y, tensors.concat([size[:-3], tensors.shape(y)[1:]], 0))

    c1, c2 = unary_ops.Square(k1 * max_val), unary_ops.Square(k2 * max_val)
    mean_a, mean_b = mean(a), mean(b)
    product, squares = mean_a * mean_b * 2.0, unary_ops.Square(mean_a) + unary_ops.Square(mean_b)
    luminance = (product + c1) / (squares + c1)
    structure = ((mean(a * b) * 2.0 - product + c2)
                 / (mean(unary_ops.Square(a) + unary_ops.Square(b)) - squares + c2))
    both = luminance * structure
    if whole_map:
        return both, structure
    return (reductions.reduce_mean(both, [-3, -2]),
            reductions.reduce_mean(structure, [-3, -2]))


def ssim(img1, img2, max_val, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03,
         return_index_map=False):
    """Structural similarity in (-1, 1], one number per image, or per pixel with return_index_map.

    Local means are taken by a Gaussian of filter_size pixels; images must be as large at least
    (ValueError). TF: tf.image.ssim.
    img1, img2: [..., h, w, c] of one dtype -> [...], float32. ValueError for shapes that differ
    or are smaller than the window."""
    with graph.name_scope(None, "SSIM", [img1, img2]):
        img1, img2, max_val = _pair(img1, img2, max_val)
        values, _ = _per_channel(img1, img2, max_val, filter_size, filter_sigma, k1, k2,
                                 return_index_map)
        return reductions.reduce_mean(values, [-1])


def _halved(image):
    """2 x 2 means; an odd edge is repeated."""
    size = tensors.shape(image)
    flat = tensors.reshape(image, tensors.concat([[-1], size[-3:]], 0))
    odd = binary_ops.FloorMod(size[-3:-1], 2)
    margins = tensors.stack([[0, 0], tensors.stack([0, odd[0]]), tensors.stack([0, odd[1]]),
                             [0, 0]])
    even = pad_functions.pad(flat, margins, mode="SYMMETRIC")
    half = pool_ops.AvgPool(even, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    return tensors.reshape(half, tensors.concat([size[:-3], tensors.shape(half)[1:]], 0))


def ssim_multiscale(img1, img2, max_val, power_factors=WEIGHTS, filter_size=11, filter_sigma=1.5,
                    k1=0.01, k2=0.03):
    """MS-SSIM, one number per image: structure at several scales, each half the last, times the
    similarity at the coarsest, to the powers given. TF: tf.image.ssim_multiscale.
    img1, img2: [..., h, w, c] of one dtype -> [...], float32. ValueError for shapes that differ
    or are too small for the scales."""
    with graph.name_scope(None, "MS-SSIM", [img1, img2]):
        img1, img2, max_val = _pair(img1, img2, max_val)
        factors = []
        for scale in range(len(power_factors)):
            if scale:
                img1, img2 = _halved(img1), _halved(img2)
            value, structure = _per_channel(img1, img2, max_val, filter_size, filter_sigma, k1, k2)
            factors.append(binary_ops.Maximum(structure, 0.0))
        factors[-1] = binary_ops.Maximum(value, 0.0)
        powers = tensors.stack(factors, axis=-1) ** np.array(power_factors, np.float32)
        return reductions.reduce_mean(reductions.reduce_prod(powers, [-1]), [-1])


PUBLIC = {"image.psnr": psnr, "image.ssim": ssim, "image.ssim_multiscale": ssim_multiscale}
