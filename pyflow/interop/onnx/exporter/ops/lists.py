"""TensorArrays and TensorLists; see exporter/lists.py."""

from pyflow.interop.onnx.exporter import lists
from pyflow.interop.onnx.exporter.body import onnx_type
from pyflow.interop.onnx.exporter.ops.common import Value, converts, dtypes, np
from pyflow.interop.onnx.exporter.registry import refuse


def given(node, i):
    """Input `i` as a List."""
    found = node.body.find(node.op.inputs[i])
    if not isinstance(found, lists.List):
        raise node.unsupported(f"input {i} is no list that is known while the model is written")
    return found


def _dims(shape):
    dims = shape.as_tuple() if hasattr(shape, "as_tuple") else shape
    if dims is None:
        return None
    return tuple(None if d is None or d < 0 else int(d) for d in dims)


def _scalar(node, i):
    number = node.ints(i)
    return number.reshape(()) if isinstance(number, np.ndarray) else node.like_scalar(number)


def _element_dims(node, i):
    """element_shape as an input: a vector, or -1 where it is unknown."""
    known = node.known(i)
    return None if known is None or np.ndim(known) == 0 else _dims([int(d) for d in known])


def _stack(node, value, i=0):
    return lists.List(value.dtype, None if value.shape is None else value.shape[1:],
                      stack=Value(value.plain, None, value.shape, value.dtype, node.body))


def _picked(node, found, indices, dtype):
    """Rows of a stack; all of it where the indices are 0, 1, ... up to its size."""
    stack = found.dense(node.body)
    return node.emit("Gather", stack.plain, node.int64(indices, dtype), axis=0)


@converts("TensorListConcat", "TensorListConcatV2")
def list_concat(node):
    """As tensor_array_concat."""
    return _concatenated(node, given(node, 0).dense(node.body))


# TensorArrays

@converts("TensorArrayV3")
def tensor_array(node):
    dtype = onnx_type(node.attr("dtype"))
    if dtype is None:
        raise node.unsupported(f"ONNX has no tensors of type {node.attr('dtype').name}")
    made = lists.List(dtype, _dims(node.attr("element_shape", None)) if "element_shape" in
                      node.op.attrs else None, _scalar(node, 0))
    made.of_size(node.op.inputs[0], grows=bool(node.attr("dynamic_size")))
    return [made, made]


@converts("TensorArrayWriteV3")
def tensor_array_write(node):
    return lists.write(node, given(node, 3), node.value(1), node.value(2))


@converts("TensorArrayReadV3")
def tensor_array_read(node):
    index = node.int64(node.x(1), node.dtype(1))
    return node.emit("Gather", given(node, 2).dense(node.body).plain, index, axis=0)


@converts("TensorArrayGatherV3")
def tensor_array_gather(node):
    found, indices = given(node, 2), node.op.inputs[1]
    if _is_all(indices):
        return found.dense(node.body)
    return _picked(node, found, node.x(1), node.dtype(1))


@converts("TensorArrayScatterV3")
def tensor_array_scatter(node):
    """Into an empty array whose indices are all of it; else row by row."""
    found, value = given(node, 3), node.value(2)
    if found.is_empty and _is_all(node.op.inputs[1]):
        return _stack(node, value)
    if found.element_shape is None or None in found.element_shape:
        found = lists.List(found.dtype, value.shape[1:], found.size, found.stack)
    index = node.unsqueeze(node.int64(node.x(1), node.dtype(1)), 1)
    name = node.emit("ScatterND", found.dense(node.body).plain, index, value.plain)
    return found.stacked_as(name, node.body, None)


@converts("TensorArraySizeV3")
def tensor_array_size(node):
    made = lists.size(node, given(node, 1))
    if isinstance(made, np.ndarray):
        return made.astype(np.int32)
    return node.cast(made, dtypes.int32)


@converts("TensorArrayConcatV3")
def tensor_array_concat(node):
    return _concatenated(node, given(node, 1).dense(node.body))


def _concatenated(node, stack):
    """Elements of one shape behind each other, and how long each is."""
    if stack.shape is None or stack.shape[1] is None:
        raise node.unsupported("a list of elements whose lengths may differ; say their shape")
    rest = node.slice(node.sizes_of(stack.plain), [2], [1 << 62], [0])
    length = node.size_of(stack.plain, 1)
    return [node.reshape(stack.plain, node.concat(np.array([-1], np.int64), rest)),
            node.emit("Expand", length, node.size_of(stack.plain, 0))]


@converts("TensorArraySplitV3")
def tensor_array_split(node):
    """Parts of one length."""
    lengths = node.need(2, "lengths").reshape(-1)
    if len(set(lengths.tolist())) != 1:
        raise node.unsupported("parts of several lengths")
    value = node.value(1)
    rest = node.slice(node.sizes_of(value.plain), [1], [1 << 62], [0])
    sizes = node.concat(np.array([len(lengths), lengths[0]], np.int64), rest)
    found = given(node, 3)
    shape = None if value.shape is None else (int(lengths[0]), *value.shape[1:])
    return lists.List(found.dtype, shape, stack=Value(
        node.reshape(value.plain, sizes), None, None if shape is None else (len(lengths), *shape),
        found.dtype, node.body))


@converts("TensorArrayCloseV3")
def tensor_array_close(node):
    return []


def _is_all(indices):
    """Whether a tensor counts from 0 on: a Range whose end is an array's size."""
    op = indices.op
    while op.type in ("Identity", "Enter", "Exit"):
        op = op.inputs[0].op
    if op.type == "Range":
        start, _, step = (_number(t) for t in op.inputs)
        return start == 0 and step == 1
    if op.type == "Const":
        array = op.attrs["value"]
        return array.ndim == 1 and (array == np.arange(len(array))).all()
    return False


def _number(tensor):
    while tensor.op.type in ("Identity", "Enter", "Cast"):
        tensor = tensor.op.inputs[0]
    array = tensor.op.attrs.get("value") if tensor.op.type == "Const" else None
    return None if array is None or array.ndim else array


# TensorLists

@converts("EmptyTensorList")
def empty_list(node):
    return lists.List(_list_type(node), _element_dims(node, 0), np.array(0, np.int64))


@converts("TensorListReserve")
def reserve(node):
    made = lists.List(_list_type(node), _element_dims(node, 0), _scalar(node, 1))
    return made.of_size(node.op.inputs[1])


def _list_type(node):
    dtype = onnx_type(node.attr("element_dtype"))
    if dtype is None:
        raise node.unsupported(f"ONNX has no tensors of type {node.attr('element_dtype').name}")
    return dtype


@converts("TensorListFromTensor")
def from_tensor(node):
    return _stack(node, node.value(0))


@converts("TensorListGetItem")
def get_item(node):
    index = node.int64(node.x(1), node.dtype(1))
    return node.emit("Gather", given(node, 0).dense(node.body).plain, index, axis=0)


@converts("TensorListSetItem")
def set_item(node):
    return lists.write(node, given(node, 0), node.value(1), node.value(2))


@converts("TensorListPushBack")
def push_back(node):
    return lists.push(node, given(node, 0), node.value(1))


@converts("TensorListPopBack")
def pop_back(node):
    """The list without its last element, and that."""
    stack = given(node, 0).dense(node.body)
    rest = node.slice(stack.plain, [0], [-1], [0])
    last = node.emit("Gather", stack.plain, np.array(-1, np.int64), axis=0)
    return [given(node, 0).stacked_as(rest, node.body, None), last]


@converts("TensorListLength")
def length(node):
    made = lists.size(node, given(node, 0))
    return made.astype(np.int32) if isinstance(made, np.ndarray) else node.cast(made, dtypes.int32)


@converts("TensorListStack")
def stack(node):
    return given(node, 0).dense(node.body)


@converts("TensorListGather")
def list_gather(node):
    return _picked(node, given(node, 0), node.x(1), node.dtype(1))


@converts("TensorListResize")
def resize(node):
    """Cut, or filled with zeros."""
    found, size = given(node, 0), node.vector(1)
    if found.is_empty:
        made = lists.List(found.dtype, found.element_shape,
                          size.reshape(()) if isinstance(size, np.ndarray) else
                          node.like_scalar(size))
        return made.of_size(node.op.inputs[1])
    made = lists.resized(node.body, found.stack.plain, size, _row(found))
    return found.stacked_as(made, node.body, None)


def _row(found):
    shape = found.stack.shape
    return Value("?", None, None if shape is None else shape[1:], found.dtype, None)


refuse("lists of elements of several shapes", "TensorListSplit", "TensorListConcatLists",
       "TensorListScatter", "TensorListScatterV2",
       "TensorListScatterIntoExistingList")
