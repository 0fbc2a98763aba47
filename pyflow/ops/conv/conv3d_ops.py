"""Convolution of volumes and the ops of its gradients.

Invariants
  1. Volumes are [batch, depth, height, width, channels] (NDHWC) or [batch, channels, depth, height,
     width] (NCDHW); filters [depth, height, width, in, out].
  2. Geometry, padding (SAME and VALID) and gradients are those of windows.py.

Example:  `tf.nn.conv3d(volumes, kernel, strides=[1, 1, 1, 1, 1], padding="SAME")`.
"""
from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import op
from pyflow.ops.base.windows import (Convolution, backprop_shape, convolution_samples, convolved,
                                     convolved_shape, convolved_to_filter, convolved_to_input)

GEOMETRY = ('T: type, strides: list(int) >= 5, padding: {"SAME", "VALID"}, '
            'data_format: {"NDHWC", "NCDHW"} = "NDHWC", dilations: list(int) = [1, 1, 1, 1, 1]')


VOLUMES = Convolution(("strides", "padding", "data_format", "dilations"),
                      lambda: (Conv3D, Conv3DBackpropInputV2, Conv3DBackpropFilterV2))


# ------------------------------------------------------------------------------------------ samples
GEOMETRIES = [   # volume, filter, attributes
    ((2, 3, 4, 3, 2), (2, 3, 3, 2, 3), dict(strides=[1] * 5, padding="SAME")),
    ((1, 5, 4, 6, 2), (3, 2, 1, 2, 4), dict(strides=[1, 2, 1, 2, 1], padding="VALID")),
    ((2, 4, 3, 3, 3), (1, 1, 1, 3, 5), dict(strides=[1] * 5, padding="VALID")),
    ((1, 6, 5, 4, 1), (3, 3, 3, 1, 2), dict(strides=[1, 3, 2, 1, 1], padding="SAME")),
    ((1, 5, 5, 5, 2), (2, 2, 2, 2, 1), dict(strides=[1] * 5, padding="SAME",
                                            dilations=[1, 2, 2, 2, 1])),
    ((0, 3, 3, 3, 1), (2, 2, 2, 1, 1), dict(strides=[1] * 5, padding="SAME")),
]
PLANES = ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), dict(strides=[1] * 5, padding="SAME",
                                                 data_format="NCDHW"))


def _samples(part):
    types = dtypes.float32, dtypes.float64, dtypes.bfloat16
    return convolution_samples(part, (*GEOMETRIES, PLANES), types)


# ---------------------------------------------------------------------------------------------- ops
@op("Conv3D", inputs="input: T, filter: T", outputs="output: T", attrs=GEOMETRY, T=FLOATS)
class Conv3D:
    """Convolution of volumes with a bank of filters. TF: Conv3D."""
    def shape(op): return convolved_shape(op)
    gradient = VOLUMES.gradient

    def reference(input, filter, strides, padding, data_format, dilations):
        return convolved(input, filter, data_format, strides=strides, padding=padding,
                         dilations=dilations)
    samples = _samples("y")


@op("Conv3DBackpropInputV2", inputs="input_sizes: Tshape, filter: T, out_backprop: T",
    outputs="output: T", attrs=GEOMETRY + ", Tshape: {int32, int64} = int32", T=FLOATS)
class Conv3DBackpropInputV2:
    """Gradient of Conv3D with respect to its input; a transposed convolution.
    TF: Conv3DBackpropInputV2."""
    def shape(op): return backprop_shape(op, 0)
    gradient = VOLUMES.gradient_of_input

    def reference(input_sizes, filter, out_backprop, strides, padding, data_format, dilations):
        return convolved_to_input(input_sizes, filter, out_backprop, data_format, strides=strides,
                                  padding=padding, dilations=dilations)
    samples = _samples("x")


@op("Conv3DBackpropFilterV2", inputs="input: T, filter_sizes: int32, out_backprop: T",
    outputs="output: T", attrs=GEOMETRY, T=FLOATS)
class Conv3DBackpropFilterV2:
    """Gradient of Conv3D with respect to its filter. TF: Conv3DBackpropFilterV2."""
    def shape(op): return backprop_shape(op, 1)
    gradient = VOLUMES.gradient_of_filter

    def reference(input, filter_sizes, out_backprop, strides, padding, data_format, dilations):
        return convolved_to_filter(input, filter_sizes, out_backprop, data_format, strides=strides,
                                   padding=padding, dilations=dilations)
    samples = _samples("w")
