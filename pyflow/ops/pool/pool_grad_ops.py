"""Second gradients of pooling over images, and pooling whose window is an input.

Invariants
  1. MaxPoolGradGrad is the gradient of MaxPoolGrad, and MaxPoolGrad that of MaxPoolGradGrad.
  2. The V2 ops take ksize and strides as int32 inputs of four elements; their static shape is known
     as far as those are.

Example:  `tf.gradients(tf.gradients(tf.nn.max_pool(x, 2, 2, "SAME"), x, grad_ys=g), g)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import static, text
from pyflow.ops.base.shape_rules import by_pattern, match
from pyflow.ops.base.windows import margins
from pyflow.ops.pool.pool3d_ops import (REALS, max_grad_grad_reference, max_grad_reference,
                                        places_stay, pool_reference, pooled_shape, window_attrs,
                                        with_maxima)

PADDING = 'padding: {"SAME", "VALID"}, '
FORMAT = 'data_format: {"NHWC", "NCHW"} = "NHWC", '
WINDOW = "ksize: list(int) >= 4, strides: list(int) >= 4, " + PADDING
FIXED = ("ksize", "strides", "padding", "data_format")
FLOATING = (dtypes.float32, dtypes.float64)
POOLS = [((2, 4, 6, 3), (2, 2, 3, 3), dict(padding="VALID", ksize=[1, 2, 2, 1],
                                           strides=[1, 2, 2, 1])),
         ((1, 5, 4, 2), (1, 3, 2, 2), dict(padding="SAME", ksize=[1, 3, 2, 1],
                                           strides=[1, 2, 2, 1])),
         ((1, 2, 4, 5), (1, 2, 2, 3), dict(padding="SAME", ksize=[1, 1, 2, 2],
                                           strides=[1, 1, 2, 2], data_format="NCHW")),
         ((0, 4, 4, 2), (0, 2, 2, 2), dict(padding="SAME", ksize=[1, 2, 2, 1],
                                           strides=[1, 2, 2, 1]))]


def _image_shape(op):
    return pooled_shape(op, op.inputs[0].shape, 4)


@op("MaxPoolGradGrad", inputs="orig_input: T, orig_output: T, grad: T", outputs="output: T",
    attrs=WINDOW + FORMAT + "T: " + REALS)
class MaxPoolGradGrad:
    """Gradient of MaxPoolGrad: `grad`, of orig_input's shape, at the maxima. TF: MaxPoolGradGrad.
    """
    def shape(op):
        match(op, "b h w c", None, "b h w c")
        return _image_shape(op).merge_with(op.inputs[1].shape)

    def gradient(op, dy):
        return places_stay(op) + [raw_ops.MaxPoolGrad(op.inputs[0], op.inputs[1], dy,
                                                      **window_attrs(op, FIXED))]

    def reference(orig_input, orig_output, grad, ksize, strides, padding, data_format):
        return max_grad_grad_reference(orig_input, grad, ksize, strides, padding, data_format)
    samples = [S(*with_maxima(x, attrs), x, types=FLOATING, **attrs) for x, _, attrs in POOLS]


def second_gradient_of_max_pool(op, dz):
    """The gradient function of MaxPoolGrad. ValueError for explicit padding, as in TF."""
    if text(op.attr("padding")) == "EXPLICIT":
        raise ValueError(f"the gradient of '{op.name}' (MaxPoolGrad) is not offered for explicit "
                         "padding; pad with tf.pad before pooling")
    return places_stay(op) + [MaxPoolGradGrad(op.inputs[0], op.inputs[1], dz,
                                               **window_attrs(op, FIXED))]


def _picked(input, grad, argmax, with_batch):
    image = input.size // max(len(input), 1)
    flat = grad.reshape(-1)
    starts = np.arange(len(argmax)).reshape(-1, 1, 1, 1) * (0 if with_batch else image)
    return flat[argmax + starts]


@op("MaxPoolGradGradWithArgmax", inputs="input: T, grad: T, argmax: Targmax", outputs="output: T",
    attrs=WINDOW + "include_batch_in_index: bool = false, Targmax: {int32, int64}, T: " + REALS)
class MaxPoolGradGradWithArgmax:
    """Gradient of MaxPoolGradWithArgmax: `grad` at the places `argmax`.
    TF: MaxPoolGradGradWithArgmax."""
    shape = by_pattern("b h w c", "b h w c", "b p q c", "->", "b p q c")
    gradient = UNREGISTERED

    def reference(input, grad, argmax, include_batch_in_index):
        return _picked(input, grad, argmax, include_batch_in_index)
    samples = [S((2, 2, 4, 1), (2, 2, 4, 1), lit([[[[4], [3]]], [[[0], [7]]]]), types=FLOATING,
                 **POOLS[0][2]),
               S((2, 2, 4, 1), (2, 2, 4, 1), lit([[[[4], [3]]], [[[8], [15]]]]), types=FLOATING,
                 include_batch_in_index=True, **POOLS[0][2])]


# ------------------------------------------------------------------------------- windows as inputs
def _given_shape(op, at):
    shape = op.inputs[0].shape.with_rank(4)
    ksize, strides = static(op.inputs[at]), static(op.inputs[at + 1])
    if ksize is None or strides is None:
        return TensorShape([None] * 4)
    if len(ksize) != 4 or len(strides) != 4 or min(*ksize, *strides) < 1:
        raise ValueError(f"{op.type}: ksize and strides must be four positive numbers, got {ksize} "
                         f"and {strides}")
    first = text(op.attr("data_format")).startswith("NC")
    dims = [d.value for d in shape]
    for axis in ((2, 3) if first else (1, 2)):
        dims[axis] = margins(dims[axis], int(ksize[axis]), int(strides[axis]), 1,
                             text(op.attr("padding")))[0]
    return TensorShape(dims)


def _as_inputs(attrs):
    """(ksize and strides as input specs, the other attributes)."""
    rest = {k: v for k, v in attrs.items() if k not in ("ksize", "strides")}
    return (lit(attrs["ksize"]), lit(attrs["strides"])), rest


GIVEN = [(x, y, *_as_inputs(attrs)) for x, y, attrs in POOLS]


@op("MaxPoolV2", inputs="input: T, ksize: int32, strides: int32", outputs="output: T",
    attrs="T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = "
          "float, " + PADDING + 'data_format: {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"')
class MaxPoolV2:
    """MaxPool whose ksize and strides are inputs. TF: MaxPoolV2."""
    def shape(op):
        match(op, None, "4", "4")
        return _given_shape(op, 1)

    def gradient(op, dy):
        return [MaxPoolGradV2(op.inputs[0], op.outputs[0], dy, *op.inputs[1:],
                              **window_attrs(op, FIXED[2:])), None, None]

    def reference(input, ksize, strides, padding, data_format):
        return pool_reference(input, np.max, list(ksize), list(strides), padding, data_format)
    samples = [S(x, *window, types=FLOATING, **rest) for x, _, window, rest in GIVEN]


@op("MaxPoolGradV2", inputs="orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32",
    outputs="output: T", attrs=PADDING + FORMAT + "T: " + REALS + " = float")
class MaxPoolGradV2:
    """Gradient of MaxPoolV2. TF: MaxPoolGradV2."""
    shape = by_pattern("b h w c", "p q r s", "p q r s", "4", "4", "->", "b h w c")

    def gradient(op, dz):
        return places_stay(op) + [
            MaxPoolGradGradV2(op.inputs[0], op.inputs[1], dz, *op.inputs[3:],
                              **window_attrs(op, FIXED[2:])), None, None]

    def reference(orig_input, orig_output, grad, ksize, strides, padding, data_format):
        return max_grad_reference(orig_input, grad, list(ksize), list(strides), padding,
                                  data_format)
    samples = [S(*with_maxima(x, attrs), y, *window, types=FLOATING, **rest)
               for (x, y, attrs), (_, _, window, rest) in zip(POOLS, GIVEN)]


@op("MaxPoolGradGradV2",
    inputs="orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32",
    outputs="output: T", attrs=PADDING + FORMAT + "T: " + REALS)
class MaxPoolGradGradV2:
    """Gradient of MaxPoolGradV2. TF: MaxPoolGradGradV2."""
    def shape(op):
        match(op, "b h w c", None, "b h w c", "4", "4")
        return _given_shape(op, 3).merge_with(op.inputs[1].shape)

    def gradient(op, dy):
        return places_stay(op) + [
            MaxPoolGradV2(op.inputs[0], op.inputs[1], dy, *op.inputs[3:],
                          **window_attrs(op, FIXED[2:])), None, None]

    def reference(orig_input, orig_output, grad, ksize, strides, padding, data_format):
        return max_grad_grad_reference(orig_input, grad, list(ksize), list(strides), padding,
                                       data_format)
    samples = [S(*with_maxima(x, attrs), x, *window, types=FLOATING, **rest)
               for (x, _, attrs), (_, _, window, rest) in zip(POOLS, GIVEN)]
