"""Resource variables, the ops: VarHandleOp and what reads and writes through a handle.

Invariants
  1. A handle is a scalar resource that names (container, shared_name); the first assignment makes
     the variable, unless its VarHandleOp has done so.
  2. ReadVariableOp gives a snapshot: later writes are not seen in it. Order reads and writes by
     control dependencies.
  3. The static shape and dtype of the variable travel with the handle (`handle_shape`,
     `handle_dtype`), also through Switch, Enter and Identity.
  4. What declares another element type than its variable has is not added to a graph where TF
     refuses it (reads, assignments, ResourceGather, ResourceGatherNd, ResourceScatter*,
     ResourceCountUpTo); every other op on variables is refused by the executor when it runs.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/train and
tests/session run them.  Who calls it: resource_variables, optimizers, gradients.
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import UNREGISTERED, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.scatter_shapes import rows_written, scattered

_PASSING = ("Identity", "Switch", "_SwitchN", "Enter", "Exit", "Merge", "NextIteration",
            "RefIdentity", "IdentityN")
INDICES = "Tindices: {int32, int64}"


def handle_source(handle):
    """The VarHandleOp (or other producer) behind a handle, seen through control flow."""
    op, seen = handle.op, set()
    while op.type in _PASSING and op not in seen:       # an imported graph may go in circles
        seen.add(op)
        handle = op.inputs[handle.value_index if op.type == "IdentityN" else 0]
        op = handle.op
    return op


def handle_shape(handle):
    """Static shape of the variable behind `handle`."""
    source = handle_source(handle)
    if "_handle_shapes" in source.attrs:            # the argument of a function
        return source.attrs["_handle_shapes"][0]
    return source.attrs["shape"] if source.type == "VarHandleOp" else unknown_shape()


def known_dtype(handle):
    """Element type of the variable behind `handle`; None where it is not known, or no variable's."""
    source = handle_source(handle)
    if "_handle_dtypes" in source.attrs:
        return source.attrs["_handle_dtypes"][0]
    return source.attrs["dtype"] if source.type == "VarHandleOp" else None


def _nothing(op):
    return []


def _scalar(op):
    return TensorShape([])


def _typed_shape(op):
    """Static shape of the variable behind the first input; ValueError unless it holds elements of
    the op's `dtype`."""
    source, held = handle_source(op.inputs[0]), known_dtype(op.inputs[0])
    if held is not None and held != op.attrs["dtype"]:
        held, said = dtypes.schema_name(held), dtypes.schema_name(op.attrs["dtype"])
        raise ValueError(f"Trying to read variable with wrong dtype. Expected {held} got {said} "
                         f"(the variable is '{source.name}')")
    return handle_shape(op.inputs[0])


def _check_value(op):
    """AssignVariableOp and its kin: the value's type and shape fit the variable's."""
    _typed_shape(op).assert_is_compatible_with(op.inputs[1].shape)
    return []


def _check_rows(op):
    """ResourceScatter*: the updates' type and shape fit the variable's."""
    rows_written(_typed_shape(op), op.inputs[1].shape, op.inputs[2].shape)
    return []


def _check_slices(op):
    """ResourceScatterNd*, likewise."""
    scattered(op, handle_shape(op.inputs[0]), op.inputs[1], op.inputs[2])
    return []


def _counter_shape(op):
    source, held = handle_source(op.inputs[0]), known_dtype(op.inputs[0])
    if held is not None and held != op.attrs["T"]:
        said, held = (dtypes.schema_name(t) for t in (op.attrs["T"], held))
        raise ValueError(f"Data types do not match: {said} and {held} (the variable is "
                         f"'{source.name}')")
    handle_shape(op.inputs[0]).assert_has_rank(0)
    return TensorShape([])


def _slice_shape(op):
    indices = op.inputs[1].shape
    return indices.concatenate(_typed_shape(op).with_rank_at_least(1)[1:])


def _gather_nd_shape(op):
    indices, params = op.inputs[1].shape.with_rank_at_least(1), _typed_shape(op)
    if indices.ndims is None or params.ndims is None or indices.as_list()[-1] is None:
        return unknown_shape()
    params.with_rank_at_least(indices.as_list()[-1])
    return indices[:-1].concatenate(params[indices.as_list()[-1]:])


def _read_gradient(op, dy):
    return dy


def _gather_gradient(op, dy):
    """Rows of the gradient, as IndexedSlices of the handle."""
    handle, indices = op.inputs
    shape = variable_shape(handle)
    count = tensors.expand_dims(tensors.size(indices), 0)
    values = tensors.reshape(dy, tensors.concat([count, shape[1:]], 0))
    indices = tensors.reshape(indices, count)
    return [ops.IndexedSlices(values, indices, shape), None]


@op("VarHandleOp", outputs="resource: resource", stateful=True,
    attrs="container: string = '', shared_name: string = '', debug_name: string = '', "
          "dtype: type, shape: shape, allowed_devices: list(string) = []")
class VarHandleOp:
    """Handle of the variable named by `container` and `shared_name`. TF: VarHandleOp."""
    shape = _scalar
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ReadVariableOp", inputs="resource: resource", outputs="value: dtype", attrs="dtype: type",
    stateful=True)
class ReadVariableOp:
    """The variable's value now. FailedPreconditionError if uninitialised. TF: ReadVariableOp."""
    shape = _typed_shape
    gradient = _read_gradient
    reference = None
    samples = None


@op("AssignVariableOp", inputs="resource: resource, value: dtype", stateful=True,
    attrs="dtype: type, validate_shape: bool = false")
class AssignVariableOp:
    """Sets the variable to `value`. TF: AssignVariableOp."""
    shape = _check_value
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("AssignAddVariableOp", inputs="resource: resource, value: dtype", attrs="dtype: type",
    stateful=True)
class AssignAddVariableOp:
    """Adds `value` to the variable. TF: AssignAddVariableOp."""
    shape = _check_value
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("AssignSubVariableOp", inputs="resource: resource, value: dtype", attrs="dtype: type",
    stateful=True)
class AssignSubVariableOp:
    """Subtracts `value` from the variable. TF: AssignSubVariableOp."""
    shape = _check_value
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("VarIsInitializedOp", inputs="resource: resource", outputs="is_initialized: bool",
    stateful=True)
class VarIsInitializedOp:
    """True once the variable has a value. TF: VarIsInitializedOp."""
    shape = _scalar
    gradient = None
    reference = None
    samples = None


@op("DisableCopyOnRead", inputs="resource: resource", stateful=True)
class DisableCopyOnRead:
    """Does nothing: reads never copy here. TF 2's functions that save have it. TF:
    DisableCopyOnRead."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("VariableShape", inputs="input: resource", outputs="output: out_type", stateful=True,
    attrs="out_type: {int32, int64} = int32")
class VariableShape:
    """Dimensions of the variable. TF: VariableShape."""
    def shape(op): return TensorShape([handle_shape(op.inputs[0]).ndims])
    gradient = None
    reference = None
    samples = None


@op("DestroyResourceOp", inputs="resource: resource", attrs="ignore_lookup_error: bool = true",
    stateful=True)
class DestroyResourceOp:
    """Deletes the resource. TF: DestroyResourceOp."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ResourceGather", inputs="resource: resource, indices: Tindices", outputs="output: dtype",
    attrs="batch_dims: int = 0, validate_indices: bool = true, dtype: type, " + INDICES,
    stateful=True)
class ResourceGather:
    """Rows `indices` of the variable: shape indices.shape + variable.shape[1:]. TF:
    ResourceGather."""
    shape = _slice_shape
    gradient = _gather_gradient
    reference = None
    samples = None


@op("ResourceGatherNd", inputs="resource: resource, indices: Tindices", outputs="output: dtype",
    attrs="dtype: type, " + INDICES, stateful=True)
class ResourceGatherNd:
    """Slices of the variable at coordinates `indices[..., :]`. TF: ResourceGatherNd."""
    shape = _gather_nd_shape

    def gradient(op, dy):
        handle, indices = op.inputs
        return [raw_ops.ScatterNd(indices, dy, variable_shape(handle, indices.dtype)), None]
    reference = None
    samples = None


def _scatter(name, what, types=None):
    """The op block of one ResourceScatter* op."""
    @op(name, inputs="resource: resource, indices: Tindices, updates: dtype", stateful=True,
        attrs=("dtype: type, " if types is None else "") + INDICES,
        doc=f"Rows `indices` of the variable {what}. TF: {name}.",
        **({} if types is None else {"dtype": types}))
    class Block:
        shape = _check_rows
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


ResourceScatterAdd = _scatter("ResourceScatterAdd", "+= `updates`", NUMBERS)
ResourceScatterSub = _scatter("ResourceScatterSub", "-= `updates`", NUMBERS)
ResourceScatterMul = _scatter("ResourceScatterMul", "*= `updates`", NUMBERS)
ResourceScatterDiv = _scatter("ResourceScatterDiv", "/= `updates`", NUMBERS)
ResourceScatterMin = _scatter("ResourceScatterMin", "= min(row, `updates`)", NUMBERS)
ResourceScatterMax = _scatter("ResourceScatterMax", "= max(row, `updates`)", NUMBERS)
ResourceScatterUpdate = _scatter("ResourceScatterUpdate", "= `updates`")


def _scatter_nd(name, what):
    """The op block of one ResourceScatterNd* op."""
    @op(name, inputs="ref: resource, indices: Tindices, updates: T", stateful=True,
        attrs="T: type, " + INDICES + ", use_locking: bool = true, bad_indices_policy: string = "
                                      "''",
        doc=f"Slices of the variable at coordinates `indices[..., :]` {what}. TF: {name}.")
    class Block:
        shape = _check_slices
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


ResourceScatterNdUpdate = _scatter_nd("ResourceScatterNdUpdate", "= `updates`")
ResourceScatterNdAdd = _scatter_nd("ResourceScatterNdAdd", "+= `updates`")
ResourceScatterNdSub = _scatter_nd("ResourceScatterNdSub", "-= `updates`")


@op("ResourceCountUpTo", inputs="resource: resource", outputs="output: T", stateful=True,
    attrs="limit: int, T: {int32, int64}")
class ResourceCountUpTo:
    """The scalar variable, then adds 1; OutOfRangeError at `limit`. TF: ResourceCountUpTo."""
    shape = _counter_shape
    gradient = UNREGISTERED
    reference = None
    samples = None


def variable_shape(handle, out_type=dtypes.int32):
    """Dimensions of the variable behind `handle`: a constant if they are known."""
    known = handle_shape(handle)
    if known.is_fully_defined():
        return ops.constant(known.as_list(), dtypes.as_dtype(out_type))
    return VariableShape(handle, out_type=out_type)
