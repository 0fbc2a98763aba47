"""TensorArrays: the blocks (the class: tensor_arrays.py).  Gradients of reads are writes to the
array of gradients, and the other way round.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/control_flow runs
them.
Thread: the one building the graph.  Source: TF 1.x TensorArrayV3.
"""
from pyflow.framework import graph as ops
from pyflow.framework.op import op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.element_shapes import element_shape
from pyflow.ops.containers.tensor_arrays import TensorArray


# -------------------------------------------------------------------------------------- gradients
def _source_of(tensor):
    """Which call of `gradients` a gradient tensor belongs to: that which adds operations now; else
    the tensor's scope up to the last "gradients"."""
    sweep = ops.get_default_graph().sweep
    if sweep is not None:
        return sweep
    parts = tensor.name.split("/")
    for i in range(len(parts) - 1, -1, -1):
        if parts[i].startswith("gradients"):
            return "/".join(parts[:i + 1])
    raise ValueError(f"Expected op/tensor name to start with gradients (excluding scope), got: "
                     f"{tensor.name}")


def _array(op, dtype, flow_index):
    return TensorArray(dtype=dtype, handle=op.inputs[0], flow=op.inputs[flow_index],
                       colocate_with_first_write_call=False)


def _gradient_array(op, dtype, flow_index, grad):
    flow = op.inputs[flow_index]
    return _array(op, dtype, flow_index).grad(source=_source_of(grad), flow=flow)


def _read_gradient(op, grad):
    g = _gradient_array(op, op.attrs["dtype"], 2, grad)
    return [None, None, g.write(op.inputs[1], grad).flow]


def _gradient_after(op, flow):
    """The gradient array of a write op's array; it must not be made before the write was done."""
    written = raw_ops.Identity(op.outputs[0], name="flow_out")
    source = _source_of(flow)
    with ops.control_dependencies([written]):
        flow = raw_ops.Identity(flow, name="write_barrier")
    array = TensorArray(dtype=op.attrs["T"], handle=op.inputs[0], flow=flow,
                        colocate_with_first_write_call=False)
    return array.grad(source=source, flow=flow), flow


def _write_gradient(op, flow):
    g, flow = _gradient_after(op, flow)
    return [None, None, g.read(op.inputs[1]), flow]


def _gather_gradient(op, grad):
    g = _gradient_array(op, op.attrs["dtype"], 2, grad)
    return [None, None, g.scatter(op.inputs[1], grad).flow]


def _scatter_gradient(op, flow):
    g, flow = _gradient_after(op, flow)
    return [None, None, g.gather(op.inputs[1]), flow]


def _concat_gradient(op, grad, unused_lengths):
    g = _gradient_array(op, op.attrs["dtype"], 1, grad)
    return [None, g.split(grad, lengths=op.outputs[1]).flow]


def _split_gradient(op, flow):
    g, flow = _gradient_after(op, flow)
    grad = g.concat()
    grad.set_shape(op.inputs[1].shape)
    return [None, grad, None, flow]


# -------------------------------------------------------------------------------------- op blocks
def _scalar(op):
    return TensorShape([])


def _array_and_flow(op):
    """TensorFlow's table says of a handle what it said of references: container and name.  The
    shape is what other programs read in a MetaGraphDef; a kernel delivers a scalar."""
    return [TensorShape([2]), TensorShape([])]


def _read(op):
    op.inputs[1].shape.with_rank(0)
    return element_shape(op, op.attrs["dtype"])


def _written(op):
    op.inputs[1].shape.with_rank(0)
    element_shape(op, op.attrs["T"], op.inputs[2].shape)
    return TensorShape([])


def _scattered(op):
    value = op.inputs[2].shape.with_rank_at_least(1)
    op.inputs[1].shape.with_rank(1)[0].merge_with(value[0])
    element_shape(op, op.attrs["T"], value[1:])
    return TensorShape([])


def _gathered(op):
    indices, stated = op.inputs[1].shape.with_rank(1), op.attrs["element_shape"]
    element = element_shape(op, op.attrs["dtype"])
    if element.is_compatible_with(stated):          # else the handle's counts, as in TensorFlow
        element = element.merge_with(stated)
    return indices.concatenate(element) if element.ndims is not None else unknown_shape()


def _concatenated(op):
    rest = op.attrs["element_shape_except0"]
    whole = TensorShape([None]).concatenate(rest) if rest.ndims is not None else unknown_shape()
    return [whole, TensorShape([None])]


@op("TensorArrayV3", inputs="size: int32", outputs="handle: resource, flow: float", stateful=True,
    attrs="dtype: type, element_shape: shape = ?, dynamic_size: bool = false, "
          "clear_after_read: bool = true, identical_element_shapes: bool = false, "
          "tensor_array_name: string = ''")
class TensorArrayV3:
    """A new array of `size` tensors of `dtype`. TF: TensorArrayV3."""
    shape = _array_and_flow
    gradient = None
    reference = None
    samples = None


@op("TensorArrayGradV3", inputs="handle: resource, flow_in: float", stateful=True,
    outputs="grad_handle: resource, flow_out: float", attrs="source: string")
class TensorArrayGradV3:
    """The array of gradients of array `handle`, made once for each `source`. TF:
    TensorArrayGradV3."""
    shape = _array_and_flow
    gradient = None
    reference = None
    samples = None


@op("TensorArrayGradWithShape", stateful=True, attrs="source: string",
    inputs="handle: resource, flow_in: float, shape_to_prepend: int32",
    outputs="grad_handle: resource, flow_out: float")
class TensorArrayGradWithShape:
    """As TensorArrayGradV3, elements with more leading dimensions. TF: TensorArrayGradWithShape."""
    shape = _array_and_flow
    gradient = None
    reference = None
    samples = None


@op("TensorArrayWriteV3", inputs="handle: resource, index: int32, value: T, flow_in: float",
    outputs="flow_out: float", attrs="T: type", stateful=True)
class TensorArrayWriteV3:
    """Sets element `index`. InvalidArgumentError if written before. TF: TensorArrayWriteV3."""
    shape = _written
    gradient = _write_gradient
    reference = None
    samples = None


@op("TensorArrayReadV3", inputs="handle: resource, index: int32, flow_in: float",
    outputs="value: dtype", attrs="dtype: type", stateful=True)
class TensorArrayReadV3:
    """Element `index`. InvalidArgumentError if never written. TF: TensorArrayReadV3."""
    shape = _read
    gradient = _read_gradient
    reference = None
    samples = None


@op("TensorArrayGatherV3", inputs="handle: resource, indices: int32, flow_in: float",
    outputs="value: dtype", attrs="dtype: type, element_shape: shape = ?", stateful=True)
class TensorArrayGatherV3:
    """Elements `indices`, of one shape, stacked. TF: TensorArrayGatherV3."""
    shape = _gathered
    gradient = _gather_gradient
    reference = None
    samples = None


@op("TensorArrayScatterV3", inputs="handle: resource, indices: int32, value: T, flow_in: float",
    outputs="flow_out: float", attrs="T: type", stateful=True)
class TensorArrayScatterV3:
    """Writes row i of `value` to element `indices[i]`. TF: TensorArrayScatterV3."""
    shape = _scattered
    gradient = _scatter_gradient
    reference = None
    samples = None


@op("TensorArrayConcatV3", inputs="handle: resource, flow_in: float", stateful=True,
    outputs="value: dtype, lengths: int64", attrs="dtype: type, element_shape_except0: shape = ?")
class TensorArrayConcatV3:
    """All elements joined along dimension 0, and their lengths. TF: TensorArrayConcatV3."""
    shape = _concatenated
    gradient = _concat_gradient
    reference = None
    samples = None


@op("TensorArraySplitV3", inputs="handle: resource, value: T, lengths: int64, flow_in: float",
    outputs="flow_out: float", attrs="T: type", stateful=True)
class TensorArraySplitV3:
    """Writes consecutive rows of `value`, `lengths[i]` of them to element i. TF:
    TensorArraySplitV3."""
    shape = _scalar
    gradient = _split_gradient
    reference = None
    samples = None


@op("TensorArraySizeV3", inputs="handle: resource, flow_in: float", outputs="size: int32",
    stateful=True)
class TensorArraySizeV3:
    """The number of elements. TF: TensorArraySizeV3."""
    shape = _scalar
    gradient = None
    reference = None
    samples = None


@op("TensorArrayCloseV3", inputs="handle: resource", stateful=True)
class TensorArrayCloseV3:
    """Frees the array before the step ends. TF: TensorArrayCloseV3."""
    def shape(op): return []
    gradient = None
    reference = None
    samples = None
