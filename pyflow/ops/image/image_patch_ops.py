"""Windows of images: patches on a grid, glimpses at given places.

Invariants
  1. Patches lie on a grid like a convolution's; the last dimension of the result runs over the
     window's rows, columns and channels, in this order.
  2. A glimpse may leave its image; outside it is noise, a function of the position (or zero).

Example:  `tf.image.extract_image_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")`.
"""
import itertools

import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, shape_vector, static_shape, text
from pyflow.ops.base.shape_rules import match
from pyflow.ops.base.windows import margins

GLIMPSE = ("centered: bool = true, normalized: bool = true, uniform_noise: bool = true, "
           'noise: string = "uniform"')


# ------------------------------------------------------------------------------------------ patches
def _patches_shape(op, rates, rank):
    shape = op.inputs[0].shape
    if shape.ndims not in (None, rank):
        raise ValueError(f"{op.type}: input must have rank {rank}, got shape {shape}")
    dims = dims_of(shape) or [None] * rank
    settings = []
    for name in ("ksizes", "strides") + (("rates",) if rates else ()):
        values = list(op.attr(name))
        if len(values) != rank or min(values) < 1 or values[0] != 1 or values[-1] != 1:
            raise ValueError(f"{op.type}: {name} must be {rank} positive numbers, the first and "
                             f"last of them 1, got {values}")
        settings.append(values)
    ksizes, strides, dilations = (*settings, [1] * rank)[:3]
    depth = None if dims[-1] is None else dims[-1] * int(np.prod(ksizes))
    places = [margins(d, k, s, r, text(op.attr("padding")), empty=True)[0]
              for d, k, s, r in list(zip(dims, ksizes, strides, dilations))[1:-1]]
    return TensorShape([dims[0], *places, depth])


def _image_patches_shape(op):
    return _patches_shape(op, True, 4)


def _volume_patches_shape(op):
    return _patches_shape(op, False, 5)


def _patches(images, ksizes, strides, rates, padding):
    """By slicing: one strided view for each place in the window."""
    inner = range(1, images.ndim - 1)
    sizes, pads = [], [(0, 0)]
    for a in inner:
        span = (ksizes[a] - 1) * rates[a] + 1
        n = images.shape[a]
        out = -(-n // strides[a]) if text(padding) == "SAME" else max(
            -(-(n - span + 1) // strides[a]), 0)
        missing = max((out - 1) * strides[a] + span - n, 0) if text(padding) == "SAME" else 0
        sizes.append(out)
        pads.append((missing // 2, missing - missing // 2 + span))
    padded = np.pad(images, pads + [(0, 0)])
    views = []
    for place in itertools.product(*(range(ksizes[a]) for a in inner)):
        at = [slice(None)]
        for a, p, out in zip(inner, place, sizes):
            first = p * rates[a]
            at.append(slice(first, first + max((out - 1) * strides[a] + 1, 0), strides[a]))
        views.append(padded[tuple(at)][(slice(None), *(slice(0, n) for n in sizes))])
    return np.concatenate(views, -1)


def _patches_gradient(op, dy, extract):
    """Sums, for each pixel, of the gradients of its copies: patches of the pixels' numbers tell
    which pixel each was, 0 for padding."""
    x = op.inputs[0]
    rank = x.shape.ndims
    if rank is None:
        raise ValueError(f"The gradient of {op.type} needs the rank of its input")
    sizes = graph.convert_to_tensor(shape_vector(x))
    pixels = tensors.product_of(sizes[1:-1])
    numbers = tensors.reshape(tensors.range_(1, pixels + 1),
                              tensors.concat([[1], sizes[1:-1], [1]], 0))
    owner = tensors.reshape(extract(numbers), [-1])
    flat = tensors.reshape(dy, tensors.stack([sizes[0], tensors.size(owner), sizes[-1]]))
    flat = tensors.transpose(flat, [1, 0, 2])
    sums = raw_ops.UnsortedSegmentSum(flat, owner, pixels + 1)[1:]
    return tensors.reshape(tensors.transpose(sums, [1, 0, 2]), sizes)


WINDOWS = [dict(ksizes=[1, 2, 3, 1], strides=[1, 2, 1, 1], rates=[1, 1, 1, 1], padding="VALID"),
           dict(ksizes=[1, 3, 2, 1], strides=[1, 1, 2, 1], rates=[1, 2, 1, 1], padding="SAME"),
           dict(ksizes=[1, 2, 2, 1], strides=[1, 3, 3, 1], rates=[1, 1, 2, 1], padding="SAME")]
VOLUMES = [dict(ksizes=[1, 2, 3, 1, 1], strides=[1, 2, 1, 2, 1], padding="VALID"),
           dict(ksizes=[1, 3, 2, 2, 1], strides=[1, 1, 2, 1, 1], padding="SAME")]


@op("ExtractImagePatches", inputs="images: T", outputs="patches: T",
    attrs="ksizes: list(int) >= 4, strides: list(int) >= 4, rates: list(int) >= 4, "
          "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, "
          'uint64, complex64, complex128, bool}, padding: {"SAME", "VALID"}')
class ExtractImagePatches:
    """Windows of ksizes, `strides` apart, with `rates` between their pixels.
    TF: ExtractImagePatches."""
    shape = _image_patches_shape

    def gradient(op, dy):
        names = ("ksizes", "strides", "rates", "padding")
        return _patches_gradient(op, dy, lambda x: ExtractImagePatches(
            x, **{n: op.attr(n) for n in names}))

    def reference(images, ksizes, strides, rates, padding):
        return _patches(images, ksizes, strides, rates, padding)
    samples = [S((2, 5, 6, 2), **w) for w in WINDOWS] + [S((0, 5, 6, 2), **WINDOWS[0])]


@op("ExtractVolumePatches", inputs="input: T", outputs="patches: T",
    attrs="ksizes: list(int) >= 5, strides: list(int) >= 5, T: {float, double, int32, uint8, "
          "int16, int8, int64, bfloat16, uint16, half, uint32, uint64}, "
          'padding: {"SAME", "VALID"}')
class ExtractVolumePatches:
    """ExtractImagePatches in three dimensions, without rates. TF: ExtractVolumePatches."""
    shape = _volume_patches_shape

    def gradient(op, dy):
        names = ("ksizes", "strides", "padding")
        return _patches_gradient(op, dy, lambda x: ExtractVolumePatches(
            x, **{n: op.attr(n) for n in names}))

    def reference(input, ksizes, strides, padding):
        return _patches(input, ksizes, strides, [1] * 5, padding)
    samples = [S((2, 4, 5, 3, 2), **w) for w in VOLUMES]


# ----------------------------------------------------------------------------------------- glimpses
def _glimpse_shape(op):
    found = match(op, "b _ _ c", "2", "b 2")
    sizes = dims_of(static_shape(op.inputs[1])) or [None, None]
    return TensorShape([found.size("b"), *sizes, found.size("c")])


def _glimpses(input, size, offsets, centered, normalized, version):
    """What lies inside; 0 outside (noise="zero")."""
    height, width = (int(n) for n in size)
    result = np.zeros((len(input), height, width, input.shape[3]))
    extent = np.array(input.shape[1:3], np.float64)
    for glimpse, image, at in zip(result, input, offsets.astype(np.float64)):
        at = at * extent if normalized else at
        middle = version == 1 or centered and normalized
        if centered:
            at = (at / 2 if middle else at) + extent / 2
        if middle:
            at = at - np.array([height, width]) / 2
        top, left = np.trunc(at).astype(int)
        for y in range(max(top, 0), min(top + height, len(image))):
            for x in range(max(left, 0), min(left + width, image.shape[1])):
                glimpse[y - top, x - left] = image[y, x]
    return result


PLACES = lit([[0.0, 0.0], [0.7, -0.6]])
QUIET = dict(uniform_noise=False, noise="zero")
GLIMPSES = [S((2, 7, 6, 2), lit([3, 2]), PLACES, **QUIET),
            S((2, 7, 6, 2), lit([3, 4]), lit([[1, 2], [-2, 3]]), centered=False, normalized=False,
              **QUIET),
            S((2, 7, 6, 2), lit([3, 4]), lit([[1, 2], [-2, 3]]), normalized=False, **QUIET)]


@op("ExtractGlimpse", inputs="input: float, size: int32, offsets: float", outputs="glimpse: float",
    attrs=GLIMPSE)
class ExtractGlimpse:
    """A window of `size` from each image, its offset the window's middle. TF: ExtractGlimpse."""
    shape = _glimpse_shape
    gradient = None

    def reference(input, size, offsets, centered, normalized):
        return _glimpses(input, size, offsets, centered, normalized, 1)
    samples = GLIMPSES


@op("ExtractGlimpseV2", inputs="input: float, size: int32, offsets: float",
    outputs="glimpse: float", attrs=GLIMPSE)
class ExtractGlimpseV2:
    """ExtractGlimpse whose offset, unless centered and normalized, is the window's corner.
    TF: ExtractGlimpseV2."""
    shape = _glimpse_shape
    gradient = UNREGISTERED

    def reference(input, size, offsets, centered, normalized):
        return _glimpses(input, size, offsets, centered, normalized, 2)
    samples = GLIMPSES
