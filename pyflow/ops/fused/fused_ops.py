"""Products and convolutions with what follows them in one op: bias, residual sum, activation.

Invariants
  1. `fused_ops` lists what is applied to the product, in order; `args` holds what those read:
     BiasAdd a vector over the channels, Add a tensor of the result's shape, FusedBatchNorm scale,
     offset, mean and variance. Activations read nothing.
  2. Only passes/fuse.py makes these ops, after gradients were built: they have none.
  3. Signatures are TF's, so that graphs its optimiser wrote can be read.

Source: TF's _FusedMatMul, _FusedConv2D and _FusedDepthwiseConv2dNative.
Example:  `_FusedMatMul(x, w, [bias], fused_ops=["BiasAdd", "Relu"])` is relu(x w + bias).
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, UNREGISTERED, op, raw_ops
from pyflow.ops.base.common import text
from pyflow.ops.base.windows import convolved_shape, spatial_axes

FUSED = ('fused_ops: list(string) = [], epsilon: float = 0.0001, '
         'leakyrelu_alpha: float = 0.2')
GEOMETRY = 'data_format: {"NHWC", "NCHW"} = "NHWC", dilations: list(int) = [1, 1, 1, 1], '
SINGLE = (dtypes.float32,)


# name in fused_ops: f(x, leakyrelu_alpha)
ACTIVATIONS = {
    "Relu": lambda x, alpha: np.maximum(x, 0),
    "Relu6": lambda x, alpha: np.clip(x, 0, 6),
    "LeakyRelu": lambda x, alpha: np.where(x > 0, x, alpha * x),
    "Elu": lambda x, alpha: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Sigmoid": lambda x, alpha: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, alpha: np.tanh(x),
    "HardSwish": lambda x, alpha: x * np.clip(x / 6 + 0.5, 0, 1),
    "Swish": lambda x, alpha: x / (1 + np.exp(-x)),
}
ARGUMENTS = {"BiasAdd": 1, "Add": 1, "FusedBatchNorm": 4}


def _check_fused(op, first):
    """The args of `op`, its inputs from `first` on, against what fused_ops says they are."""
    names = [text(n) for n in op.attr("fused_ops")]
    unknown = [n for n in names if n not in ACTIVATIONS and n not in ARGUMENTS]
    if unknown:
        raise ValueError(f"{op.type}: fused_ops holds {unknown[0]!r}; known are "
                         f"{sorted((*ARGUMENTS, *ACTIVATIONS))}")
    wanted = sum(ARGUMENTS.get(n, 0) for n in names)
    found = op.attr("num_args")
    if found != wanted or len(op.inputs) - first < wanted:
        raise ValueError(f"{op.type}: fused_ops {names} reads {wanted} args, num_args is {found}")


def apply_fused(y, args, fused_ops, epsilon, alpha, axis=-1):
    """`y` after the ops `fused_ops` names, its channels along `axis`; NumPy."""
    args = list(args)
    shape = [1] * y.ndim
    shape[axis] = -1
    for name in map(text, fused_ops):
        if name == "BiasAdd":
            y = y + args.pop(0).reshape(shape)
        elif name == "Add":
            y = y + args.pop(0)
        elif name == "FusedBatchNorm":
            scale, offset, mean, variance = (a.reshape(shape) for a in args[:4])
            del args[:4]
            y = (y - mean) / np.sqrt(variance + epsilon) * scale + offset
        else:
            y = ACTIVATIONS[name](y, alpha)
    return y


# -------------------------------------------------------------------------------------------- ops
def _samples(shapes, bias, result, extra=(), names=tuple(ACTIVATIONS), **attrs):
    """A sample per activation, and some with a residual sum; `extra`: inputs behind args."""
    lists = [(["BiasAdd"], [bias])] + [(["BiasAdd", name], [bias]) for name in names]
    lists += [(["BiasAdd", "Add", name], [bias, result]) for name in ("Relu", "Tanh")]
    lists += [(["BiasAdd", "Add"], [bias, result])]
    attrs["leakyrelu_alpha"] = 0.25
    if extra:                           # args of any types: their number is an attribute
        return [S(*shapes, args, *extra, fused_ops=fused, num_args=len(args), **attrs)
                for fused, args in lists]
    return [S(*shapes, args, fused_ops=fused, **attrs) for fused, args in lists]


@op("_FusedMatMul", inputs="a: T, b: T, args: num_args * T", outputs="product: T", T=FLOATS,
    attrs="transpose_a: bool = false, transpose_b: bool = false, T: type, num_args: int >= 0, "
          + FUSED)
class _FusedMatMul:
    """MatMul, then what `fused_ops` lists. TF: _FusedMatMul."""
    def shape(op):
        _check_fused(op, 2)
        return raw_ops.MatMul.shape(op.inputs[0].shape, op.inputs[1].shape, op.attr("transpose_a"),
                                    op.attr("transpose_b"))
    gradient = UNREGISTERED

    def reference(a, b, args, transpose_a, transpose_b, fused_ops, epsilon, leakyrelu_alpha):
        y = raw_ops.MatMul.reference(a, b, transpose_a, transpose_b)
        return apply_fused(y, args, fused_ops, epsilon, leakyrelu_alpha)
    samples = (_samples(((4, 5), (5, 3)), (3,), (4, 3))
               + _samples(((5, 17), (33, 5)), (33,), (17, 33), transpose_a=True, transpose_b=True)
               + [S((2, 3), (3, 4), [], fused_ops=[]),
                  S((0, 3), (3, 4), [(4,)], fused_ops=["BiasAdd", "Tanh"]),
                  S((2, 0), (0, 4), [(4,)], fused_ops=["BiasAdd", "Relu"]),
                  S((1, 70), (70, 5), [(5,)], fused_ops=["BiasAdd", "LeakyRelu"],
                    leakyrelu_alpha=0.5)])


@op("_FusedConv2D", inputs="input: T, filter: T, args: TArgs, host_args: num_host_args * float",
    outputs="output: T", T=FLOATS,
    attrs="T: type, TArgs: list(type) >= 1, num_args: int >= 0, num_host_args: int >= 0 = 0, "
          'strides: list(int), padding: {"SAME", "VALID", "EXPLICIT"}, '
          "explicit_paddings: list(int) = [], " + GEOMETRY
          + 'filter_format: {"HWIO", "OIHW", "OIHW_VECT_I"} = "HWIO", '
            "use_cudnn_on_gpu: bool = true, " + FUSED)
class _FusedConv2D:
    """Conv2D, then what `fused_ops` lists; filters are HWIO. TF: _FusedConv2D."""
    def shape(op):
        _check_fused(op, 2)
        return convolved_shape(op)
    gradient = UNREGISTERED

    def reference(input, filter, args, strides, padding, explicit_paddings, data_format, dilations,
                  fused_ops, epsilon, leakyrelu_alpha):
        y = raw_ops.Conv2D.reference(input, filter, strides, padding, explicit_paddings,
                                     data_format, dilations)
        return apply_fused(y, args, fused_ops, epsilon, leakyrelu_alpha,
                           spatial_axes(data_format)[1])
    samples = [sample for shapes, bias, result, attrs in (
        (((2, 5, 4, 3), (3, 3, 3, 2)), (2,), (2, 5, 4, 2), dict(padding="SAME")),
        (((1, 6, 6, 4), (3, 2, 4, 6)), (6,), (1, 2, 3, 6), dict(
            padding="VALID", strides=[1, 2, 2, 1])),
        (((1, 4, 5, 3), (1, 1, 4, 5)), (5,), (1, 5, 5, 3), dict(
            padding="SAME", data_format="NCHW")),
        (((1, 4, 4, 1), (3, 3, 1, 1)), (1,), (1, 3, 5, 1), dict(
            padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0])))
        for sample in _samples(shapes, bias, result, ([],), types=SINGLE,
                               **{"strides": [1, 1, 1, 1], **attrs})]


@op("_FusedDepthwiseConv2dNative", inputs="input: T, filter: T, args: num_args * T",
    outputs="output: T", T=FLOATS,
    attrs='T: type, num_args: int >= 0, strides: list(int), padding: {"SAME", "VALID"}, '
          + GEOMETRY + FUSED)
class _FusedDepthwiseConv2dNative:
    """DepthwiseConv2dNative, then what `fused_ops` lists. TF: _FusedDepthwiseConv2dNative."""
    def shape(op):
        _check_fused(op, 2)
        return convolved_shape(op, depthwise=True)
    gradient = UNREGISTERED

    def reference(input, filter, args, strides, padding, data_format, dilations, fused_ops, epsilon,
                  leakyrelu_alpha):
        y = raw_ops.DepthwiseConv2dNative.reference(input, filter, strides, padding, [],
                                                    data_format, dilations)
        return apply_fused(y, args, fused_ops, epsilon, leakyrelu_alpha,
                           spatial_axes(data_format)[1])
    samples = [sample for shapes, bias, result, attrs in (
        (((2, 5, 4, 3), (3, 3, 3, 2)), (6,), (2, 5, 4, 6), dict(padding="SAME")),
        (((1, 3, 6, 6), (3, 3, 3, 1)), (3,), (1, 3, 2, 2), dict(
            padding="VALID", data_format="NCHW", strides=[1, 1, 2, 2])))
        for sample in _samples(shapes, bias, result, types=SINGLE,
                               **{"strides": [1, 1, 1, 1], **attrs})]
