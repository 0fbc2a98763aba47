"""TensorLists: immutable lists of tensors, as scalar variants; what TensorFlow 2 freezes
TensorArrays, map_fn and recurrent layers to.  Optionals: what its gradients of conditionals hold.

Invariants
  1. A list is a value: SetItem, PushBack and the like give another list, in the same memory where
     nobody else holds the old one.
  2. Elements have one dtype and fit one element shape; an element may be unset, and then reads as
     zeros where its shape is known.
  3. `element_shape` is a vector (-1: an unknown size) or the scalar -1 for an unknown rank.

tests/ops/test_lists.py compares with lists in Python and with TensorFlow's errors.  TF exports
them as tf.raw_ops only.
Thread: the one building the graph.  Source: TF's list_ops.
"""
from pyflow.framework import dtypes, op as op_lib
from pyflow.framework.op import UNREGISTERED
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.element_shapes import element_shape, elements_of, shape_input

SHAPE = "shape_type: {int32, int64}"
TYPE = "element_dtype: type"


# ----------------------------------------------------------------------------------------- shapes
def _scalar(op):
    return TensorShape([])


def _rows(count, element):
    return TensorShape([count]).concatenate(element) if element.ndims is not None \
        else unknown_shape()


def _made(number):
    """A new list: input `number` says the elements' shape."""
    def shape(op):
        shape_input(op.inputs[number])
        return TensorShape([])
    return shape


def _with_item(number):
    """A list of the same elements, one of which is input `number`."""
    def shape(op):
        element_shape(op, op.attrs["element_dtype"], op.inputs[number].shape)
        return TensorShape([])
    return shape


def _of_rows(op):
    """The list of the rows, or of groups of rows, of a tensor."""
    tensor, stated = op.inputs[0].shape.with_rank_at_least(1)[1:], shape_input(op.inputs[1])
    if op.type == "TensorListSplit":
        op.inputs[2].shape.with_rank_at_most(1)
        stated = stated.with_rank_at_least(1)[1:]
    if not tensor.is_compatible_with(stated):
        raise ValueError(f"rows of shape {tensor} for elements of shape {stated}")
    return TensorShape([])


def _scattered_into(op):
    element_shape(op, op.attrs["element_dtype"])
    op.inputs[1].shape.with_rank_at_least(1)
    return TensorShape([])


def _both(op):
    dtype, found = op.attrs["element_dtype"], elements_of(op.inputs[1])
    element_shape(op, dtype, *([found[1]] if found else []))
    return TensorShape([])


def _resized(op):
    op.inputs[1].shape.with_rank(0)
    return TensorShape([])


def _read(op):
    """What GetItem, and PopBack as its second result, give."""
    stated = op.inputs[1 if op.type == "TensorListPopBack" else 2]
    return element_shape(op, op.attrs["element_dtype"], shape_input(stated))


def _popped(op):
    return [TensorShape([]), _read(op)]


def _stacked(op):
    count = op.attrs["num_elements"]
    element = element_shape(op, op.attrs["element_dtype"], shape_input(op.inputs[1]))
    return _rows(None if count < 0 else count, element)


def _gathered(op):
    return _rows(op.inputs[1].shape.with_rank(1)[0].value, _read(op))


def _joined(op, stated):
    element = element_shape(op, op.attrs["element_dtype"], stated)
    rest = element[1:] if element.ndims else element
    return [_rows(None, rest), TensorShape([None])]


def _element_shape_shape(op):
    found = elements_of(op.inputs[0])
    return TensorShape([found[1].ndims]) if found and found[1].ndims is not None else unknown_shape()


# -------------------------------------------------------------------------------------- gradients
def _element_shape(tensor):
    """The run-time shape of the rows of `tensor`."""
    return tensors.slice_(tensors.shape(tensor), [1], [-1])


def _push_gradient(op, grad):
    return list(TensorListPopBack(grad, tensors.shape(op.inputs[1]),
                                  element_dtype=op.attrs["element_dtype"]))


def _pop_gradient(op, of_list, of_element):
    dtype = op.attrs["element_dtype"]
    if of_list is None:
        shape = TensorListElementShape(op.outputs[0], shape_type=dtypes.int32)
        of_list = EmptyTensorList(shape, -1, element_dtype=dtype)
    if of_element is None:
        of_element = tensors.zeros_like(op.outputs[1])
    return [TensorListPushBack(of_list, of_element), None]


def _stack_gradient(op, grad):
    return [TensorListFromTensor(grad, _element_shape(grad)), None]


def _from_tensor_gradient(op, grad):
    tensor = op.inputs[0]
    count = tensor.shape[0].value if tensor.shape.ndims else None
    return [TensorListStack(grad, _element_shape(tensor), element_dtype=tensor.dtype,
                            num_elements=-1 if count is None else count), None]


def _get_gradient(op, grad):
    shape = TensorListElementShape(op.inputs[0], shape_type=dtypes.int32)
    empty = TensorListReserve(shape, TensorListLength(op.inputs[0]), element_dtype=grad.dtype)
    return [TensorListSetItem(empty, op.inputs[1], grad), None, None]


def _set_gradient(op, grad):
    _, index, item = op.inputs
    of_list = TensorListSetItem(grad, index, tensors.zeros_like(item))
    return [of_list, None, TensorListGetItem(grad, index, tensors.shape(item),
                                             element_dtype=item.dtype)]


def _resize_gradient(op, grad):
    return [TensorListResize(grad, TensorListLength(op.inputs[0])), None]


def _gather_gradient(op, grad):
    count = TensorListLength(op.inputs[0])
    return [TensorListScatterV2(grad, op.inputs[1], _element_shape(grad), count), None, None]


def _gathered_rows(op, grad, tensor, indices):
    return TensorListGather(grad, indices, _element_shape(tensor),
                            element_dtype=op.attrs["element_dtype"])


def _scatter_gradient(op, grad):
    rest = [None] * (len(op.inputs) - 1)
    return [_gathered_rows(op, grad, op.inputs[0], op.inputs[1])] + rest


def _scatter_into_gradient(op, grad):
    _, tensor, indices = op.inputs
    kept = TensorListScatterIntoExistingList(grad, tensors.zeros_like(tensor), indices)
    return [kept, _gathered_rows(op, grad, tensor, indices), None]


def _concat_gradient(op, grad, unused_lengths):
    shape = TensorListElementShape(op.inputs[0], shape_type=dtypes.int32)
    rest = [None] * (len(op.inputs) - 1)
    return [TensorListSplit(grad, shape, op.outputs[1])] + rest


def _split_gradient(op, grad):
    tensor, _, lengths = op.inputs
    shape = tensors.concat([[-1], _element_shape(tensor)], 0)
    return [TensorListConcatV2(grad, shape, lengths, element_dtype=tensor.dtype)[0], None, None]


def _from_value_gradient(op, grad):
    types, shapes = [t.dtype for t in op.inputs], [t.shape for t in op.inputs]
    return list(OptionalGetValue(grad, output_types=types, output_shapes=shapes))


def _get_value_gradient(op, *grads):
    return [OptionalFromValue(list(grads))]


# ------------------------------------------------------------------------------------- op blocks
def op(name, **schema):
    """`@op` for a block without samples and reference: a variant has no NumPy counterpart."""
    def decorate(block):
        block.reference = block.samples = None
        return op_lib.op(name, **schema)(block)
    return decorate


@op("EmptyTensorList", inputs="element_shape: shape_type, max_num_elements: int32",
    outputs="handle: variant", attrs=f"{TYPE}, {SHAPE}")
class EmptyTensorList:
    """A list without elements, for PushBack; at most `max_num_elements` (-1: any number). TF:
    EmptyTensorList."""
    shape = _made(0)
    gradient = UNREGISTERED


@op("TensorListReserve", inputs="element_shape: shape_type, num_elements: int32",
    outputs="handle: variant", attrs=f"{TYPE}, {SHAPE}")
class TensorListReserve:
    """A list of `num_elements` unset elements. TF: TensorListReserve."""
    shape = _made(0)
    gradient = UNREGISTERED


@op("TensorListFromTensor", inputs="tensor: element_dtype, element_shape: shape_type",
    outputs="output_handle: variant", attrs=f"{TYPE}, {SHAPE}")
class TensorListFromTensor:
    """The rows of `tensor` as a list, without copying them. TF: TensorListFromTensor."""
    shape = _of_rows
    gradient = _from_tensor_gradient


@op("TensorListGetItem", inputs="input_handle: variant, index: int32, element_shape: Tshape",
    outputs="item: element_dtype", attrs=f"{TYPE}, Tshape: {{int32, int64}} = int32")
class TensorListGetItem:
    """Element `index`; zeros of `element_shape` where it is unset. InvalidArgumentError for an
    index out of range. TF: TensorListGetItem."""
    shape = _read
    gradient = _get_gradient


@op("TensorListSetItem", inputs="input_handle: variant, index: int32, item: element_dtype",
    outputs="output_handle: variant",
    attrs=f"{TYPE}, resize_if_index_out_of_bounds: bool = false")
class TensorListSetItem:
    """The list with element `index` set to `item`; longer, where the index is past its end and the
    attribute says so. TF: TensorListSetItem."""
    shape = _with_item(2)
    gradient = _set_gradient


@op("TensorListPushBack", inputs="input_handle: variant, tensor: element_dtype",
    outputs="output_handle: variant", attrs=TYPE)
class TensorListPushBack:
    """The list with `tensor` behind its last element. TF: TensorListPushBack."""
    shape = _with_item(1)
    gradient = _push_gradient


@op("TensorListPopBack", inputs="input_handle: variant, element_shape: int32",
    outputs="output_handle: variant, tensor: element_dtype", attrs=TYPE)
class TensorListPopBack:
    """The list without its last element, and that element. InvalidArgumentError for an empty list.
    TF: TensorListPopBack."""
    shape = _popped
    gradient = _pop_gradient


@op("TensorListLength", inputs="input_handle: variant", outputs="length: int32")
class TensorListLength:
    """The number of elements. TF: TensorListLength."""
    shape = _scalar
    gradient = None


@op("TensorListElementShape", inputs="input_handle: variant", outputs="element_shape: shape_type",
    attrs=SHAPE)
class TensorListElementShape:
    """What is known of the elements' shape, as a shape input says it. TF:
    TensorListElementShape."""
    shape = _element_shape_shape
    gradient = None


@op("TensorListResize", inputs="input_handle: variant, size: int32",
    outputs="output_handle: variant")
class TensorListResize:
    """The list's first `size` elements, with unset ones behind where it is shorter. TF:
    TensorListResize."""
    shape = _resized
    gradient = _resize_gradient


@op("TensorListStack", inputs="input_handle: variant, element_shape: int32",
    outputs="tensor: element_dtype", attrs=f"{TYPE}, num_elements: int = -1")
class TensorListStack:
    """All elements, of one shape, stacked; unset ones are zeros. TF: TensorListStack."""
    shape = _stacked
    gradient = _stack_gradient


@op("TensorListGather", inputs="input_handle: variant, indices: int32, element_shape: int32",
    outputs="values: element_dtype", attrs=TYPE)
class TensorListGather:
    """Elements `indices`, of one shape, stacked. TF: TensorListGather."""
    shape = _gathered
    gradient = _gather_gradient


@op("TensorListScatter", inputs="tensor: element_dtype, indices: int32, element_shape: shape_type",
    outputs="output_handle: variant", attrs=f"{TYPE}, {SHAPE}")
class TensorListScatter:
    """A list whose element `indices[i]` is row i of `tensor`. TF: TensorListScatter."""
    shape = _made(2)
    gradient = _scatter_gradient


@op("TensorListScatterV2", inputs="tensor: element_dtype, indices: int32, "
    "element_shape: shape_type, num_elements: int32", outputs="output_handle: variant",
    attrs=f"{TYPE}, {SHAPE}")
class TensorListScatterV2:
    """As TensorListScatter, of `num_elements` elements (-1: up to the largest index). TF:
    TensorListScatterV2."""
    shape = _made(2)
    gradient = _scatter_gradient


@op("TensorListScatterIntoExistingList",
    inputs="input_handle: variant, tensor: element_dtype, indices: int32",
    outputs="output_handle: variant", attrs=TYPE)
class TensorListScatterIntoExistingList:
    """The list with element `indices[i]` set to row i of `tensor`. TF:
    TensorListScatterIntoExistingList."""
    shape = _scattered_into
    gradient = _scatter_into_gradient


@op("TensorListConcat", inputs="input_handle: variant",
    outputs="tensor: element_dtype, lengths: int64", attrs=f"{TYPE}, element_shape: shape = ?")
class TensorListConcat:
    """All elements joined along dimension 0, and their lengths. TF: TensorListConcat."""
    def shape(op): return _joined(op, op.attrs["element_shape"])
    gradient = _concat_gradient


@op("TensorListConcatV2",
    inputs="input_handle: variant, element_shape: shape_type, leading_dims: int64",
    outputs="tensor: element_dtype, lengths: int64", attrs=f"{TYPE}, {SHAPE}")
class TensorListConcatV2:
    """As TensorListConcat; unset elements are zeros with `leading_dims[i]` rows. TF:
    TensorListConcatV2."""
    def shape(op): return _joined(op, shape_input(op.inputs[1]))
    gradient = _concat_gradient


@op("TensorListSplit", inputs="tensor: element_dtype, element_shape: shape_type, lengths: int64",
    outputs="output_handle: variant", attrs=f"{TYPE}, {SHAPE}")
class TensorListSplit:
    """The list of consecutive pieces of `tensor`, piece i of `lengths[i]` rows. TF:
    TensorListSplit."""
    shape = _of_rows
    gradient = _split_gradient


@op("TensorListConcatLists", inputs="input_a: variant, input_b: variant",
    outputs="output: variant", attrs=TYPE)
class TensorListConcatLists:
    """The elements of `input_a`, then those of `input_b`. TF: TensorListConcatLists."""
    shape = _both
    gradient = None


@op("OptionalNone", outputs="optional: variant")
class OptionalNone:
    """An optional without a value. TF: OptionalNone."""
    shape = _scalar
    gradient = UNREGISTERED


@op("OptionalFromValue", inputs="components: Toutput_types", outputs="optional: variant",
    attrs="Toutput_types: list(type) >= 1")
class OptionalFromValue:
    """An optional whose value is these tensors. TF: OptionalFromValue."""
    shape = _scalar
    gradient = _from_value_gradient


@op("OptionalHasValue", inputs="optional: variant", outputs="has_value: bool")
class OptionalHasValue:
    """True if the optional has a value. TF: OptionalHasValue."""
    shape = _scalar
    gradient = UNREGISTERED


@op("OptionalGetValue", inputs="optional: variant", outputs="components: output_types",
    attrs="output_types: list(type) >= 1, output_shapes: list(shape) >= 1")
class OptionalGetValue:
    """The tensors of an optional's value. InvalidArgumentError if it has none, or others. TF:
    OptionalGetValue."""
    def shape(op): return list(op.attrs["output_shapes"])
    gradient = _get_value_gradient
