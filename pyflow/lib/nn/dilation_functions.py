"""tf.nn.dilation2d and erosion2d: greyscale morphology."""
from pyflow.framework import graph
from pyflow.lib.array.slicing_functions import reverse
from pyflow.ops.base.common import one_of
from pyflow.ops.conv.conv_dilation_ops import Dilation2D
from pyflow.ops.elementwise.unary_ops import Neg


def dilation2d(input, filter=None, strides=None, rates=None, padding=None, name=None, filters=None,
               dilations=None):
    """Greyscale dilation of images. TF: nn.dilation2d.

    input: [batch, height, width, channels], real numbers; filter: [height, width, channels];
    strides, rates: four ints, 1 over batch and channels, the window's step and the distance of the
    filter's elements; padding: "SAME" or "VALID", as nn.max_pool's.
    Dtypes, errors: as op Dilation2D.
    """
    return Dilation2D(input, one_of(filter, filters, "filter", "filters"), strides=list(strides),
                      rates=list(one_of(rates, dilations, "rates", "dilations")), padding=padding,
                      name=name)


def erosion2d(value, kernel, strides, rates, padding, name=None):
    """Greyscale erosion: the least of image minus kernel over every window. TF: nn.erosion2d.

    value: [batch, height, width, channels]; kernel: [height, width, channels].
    strides, rates, padding: as nn.dilation2d's.
    Dtypes, errors: as op Dilation2D.
    """
    with graph.name_scope(name, "erosion2d", [value, kernel]) as scope:
        value, kernel = graph.convert_to_tensor(value), graph.convert_to_tensor(kernel)
        turned = reverse(kernel, [0, 1])
        return Neg(dilation2d(Neg(value), turned, strides, rates, padding), name=scope)


PUBLIC = {"nn.dilation2d": dilation2d, "nn.erosion2d": erosion2d}
