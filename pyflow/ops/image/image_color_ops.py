"""Colours: colour spaces, contrast, hue, saturation.

Invariants
  1. The last dimension holds the channels, red, green, blue where three are wanted.
  2. Hue, saturation and value lie in [0, 1]; hue is a fraction of the colour circle.
  3. As in TF, adjustments and HSVToRGB have no gradient where they are ops of their own.

Example:  `AdjustHue(photos, 0.1)`.
"""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, unchanged
from pyflow.ops.base.shape_rules import checked

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
    image, rgb = op.inputs[0], tensors.unstack(op.inputs[0], 3, axis=-1)
    dhue, dsaturation, dvalue = tensors.unstack(dy, 3, axis=-1)
    _, saturation, value = tensors.unstack(op.outputs[0], 3, axis=-1)
    zero = graph.convert_to_tensor(0, dtype=image.dtype)
    one = graph.convert_to_tensor(1, dtype=image.dtype)

    def flag(*conditions):
        holds = conditions[0]
        for other in conditions[1:]:
            holds = raw_ops.LogicalAnd(holds, other)
        return tensors.cast(holds, image.dtype)

    def inverse(x):
        return raw_ops.DivNoNan(one, x)
    (r, g, b), above = rgb, [flag(c > zero) for c in rgb]
    big = [flag(r >= b, r >= g), flag(g > r, g >= b), flag(b > r, b > g)]
    small = [flag(r < b, r < g), flag(g <= r, g < b), flag(b <= r, b <= g)]
    spread = inverse(raw_ops.Square(saturation)) * inverse(raw_ops.Square(value))
    grads = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3         # the channels after this one, in a circle
        this, after, last = rgb[i], rgb[j], rgb[k]
        least = small[j] * after + small[k] * last
        most = big[j] * after + big[k] * last
        by_saturation = above[i] * (big[i] * least * inverse(raw_ops.Square(this))
                                    - small[i] * inverse(most))
        by_hue = (
            above[i] * big[i] * (last - after) * spread
            + above[j] * big[j] * small[i] * (last - after)
            * inverse(raw_ops.Square(this - after))
            - above[j] * big[j] * small[k] * inverse(after - last)
            + above[k] * big[k] * small[i] * (last - after)
            * inverse(raw_ops.Square(last - this))
            + above[k] * big[k] * small[j] * inverse(last - after)) / 6.0
        grads.append(dvalue * big[i] + dsaturation * by_saturation + dhue * by_hue)
    return tensors.stack(grads, axis=-1)


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
