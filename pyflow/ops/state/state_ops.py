"""Reference variables, the ops: VariableV2, Assign, scatter updates, and their public functions.

Invariants
  1. A `Ref(T)` output is a reference to the variable; an op that takes `Ref(T)` writes through it
     and passes it on, any other reads a snapshot.
  2. Assign may change a variable's shape only with validate_shape=False.
  3. The public functions also take resource variables, and then call their methods.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/train runs them.

Example:  `step = tf.assign_add(counter, 1)`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.convert import to_tensor
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, as_shape, unknown_shape

INDICES = "Tindices: {int32, int64}"
_VARIABLE_ATTRS = "shape: shape, dtype: type, container: string = '', shared_name: string = ''"


def _declared(op):
    return op.attrs["shape"]


def _legacy_declared(op):
    """The old Variable op takes a scalar shape for "unknown"."""
    shape = op.attrs["shape"]
    return shape if shape.ndims else unknown_shape()


def _same(op):
    return op.inputs[0].shape


def _assigned(op):
    ref, value = op.inputs[0].shape, op.inputs[1].shape
    return ref.merge_with(value) if op.attrs["validate_shape"] else value


def _updated(op):
    return op.inputs[0].shape.merge_with(op.inputs[1].shape)


def _scattered(op):
    """ref with rows written: updates.shape is indices.shape + ref.shape[1:], or a scalar."""
    ref, indices, updates = (t.shape for t in op.inputs)
    if ref.ndims is not None and updates.ndims:
        if indices.ndims is not None:
            indices.concatenate(ref[1:]).assert_is_compatible_with(updates)
    return ref


def _scalar(op):
    return TensorShape([])


@op("VariableV2", outputs="ref: Ref(dtype)", attrs=_VARIABLE_ATTRS, stateful=True)
class VariableV2:
    """Reference to the variable of this node's name, or of `shared_name`. TF: VariableV2."""
    shape = _declared
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Variable", outputs="ref: Ref(dtype)", attrs=_VARIABLE_ATTRS, stateful=True)
class Variable:
    """VariableV2 of older graphs. TF: Variable."""
    shape = _legacy_declared
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("TemporaryVariable", outputs="ref: Ref(dtype)", stateful=True,
    attrs="shape: shape, dtype: type, var_name: string = ''")
class TemporaryVariable:
    """A variable that lives within the step, until DestroyTemporaryVariable. TF:
    TemporaryVariable."""
    shape = _declared
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("DestroyTemporaryVariable", inputs="ref: Ref(T)", outputs="value: T",
    attrs="T: type, var_name: string")
class DestroyTemporaryVariable:
    """The last value of a temporary variable, which ends. TF: DestroyTemporaryVariable."""
    shape = _same
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("IsVariableInitialized", inputs="ref: Ref(dtype)", outputs="is_initialized: bool",
    attrs="dtype: type")
class IsVariableInitialized:
    """True once the variable has a value. TF: IsVariableInitialized."""
    shape = _scalar
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Assign", inputs="ref: Ref(T), value: T", outputs="output_ref: Ref(T)",
    attrs="T: type, validate_shape: bool = true, use_locking: bool = true")
class Assign:
    """Sets the variable to `value`. TF: Assign."""
    shape = _assigned
    gradient = None
    reference = None
    samples = None


@op("AssignAdd", inputs="ref: Ref(T), value: T", outputs="output_ref: Ref(T)",
    attrs="use_locking: bool = false", T=NUMBERS)
class AssignAdd:
    """Adds `value` to the variable. TF: AssignAdd."""
    shape = _updated
    gradient = None
    reference = None
    samples = None


@op("AssignSub", inputs="ref: Ref(T), value: T", outputs="output_ref: Ref(T)",
    attrs="use_locking: bool = false", T=NUMBERS)
class AssignSub:
    """Subtracts `value` from the variable. TF: AssignSub."""
    shape = _updated
    gradient = None
    reference = None
    samples = None


def _scatter(name, what, types=None, locking="false", gradient_of=UNREGISTERED):
    """The op block of one Scatter* op."""
    @op(name, inputs="ref: Ref(T), indices: Tindices, updates: T", outputs="output_ref: Ref(T)",
        attrs=("T: type, " if types is None else "") + INDICES + f", use_locking: bool = "
                                                                 f"{locking}",
        doc=f"Rows `indices` of the variable {what}. TF: {name}.",
        **({} if types is None else {"T": types}))
    class Block:
        shape = _scattered
        gradient = gradient_of
        reference = None
        samples = None
    return Block


def _scatter_nd(name, what, types=None, locking="false"):
    """The op block of one ScatterNd* op on references."""
    @op(name, inputs="ref: Ref(T), indices: Tindices, updates: T", outputs="output_ref: Ref(T)",
        attrs=(("T: type, " if types is None else "") + INDICES
               + f", use_locking: bool = {locking}, bad_indices_policy: string = ''"),
        doc=f"Slices of the variable at coordinates `indices[..., :]` {what}. TF: {name}.",
        **({} if types is None else {"T": types}))
    class Block:
        shape = _same
        gradient = None
        reference = None
        samples = None
    return Block


_ORDERED = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32,
            dtypes.int64)
ScatterUpdate = _scatter("ScatterUpdate", "= `updates`", locking="true")
ScatterAdd = _scatter("ScatterAdd", "+= `updates`", NUMBERS, gradient_of=None)
ScatterSub = _scatter("ScatterSub", "-= `updates`", NUMBERS, gradient_of=None)
ScatterMul = _scatter("ScatterMul", "*= `updates`", NUMBERS, gradient_of=None)
ScatterDiv = _scatter("ScatterDiv", "/= `updates`", NUMBERS, gradient_of=None)
ScatterMin = _scatter("ScatterMin", "= min(row, `updates`)", _ORDERED)
ScatterMax = _scatter("ScatterMax", "= max(row, `updates`)", _ORDERED)
ScatterNdUpdate = _scatter_nd("ScatterNdUpdate", "= `updates`", locking="true")
ScatterNdAdd = _scatter_nd("ScatterNdAdd", "+= `updates`", NUMBERS)
ScatterNdSub = _scatter_nd("ScatterNdSub", "-= `updates`", NUMBERS)


@op("CountUpTo", inputs="ref: Ref(T)", outputs="output: T", attrs="limit: int, T: {int32, int64}")
class CountUpTo:
    """The scalar variable, then adds 1; OutOfRangeError at `limit`. TF: CountUpTo."""
    shape = _scalar
    gradient = UNREGISTERED
    reference = None
    samples = None


SLICE_ATTRS = ("T: type, Index: {int32, int64}, begin_mask: int = 0, end_mask: int = 0, "
               "ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0")


@op("StridedSliceAssign", inputs="ref: Ref(T), begin: Index, end: Index, strides: Index, value: T",
    outputs="output_ref: Ref(T)", attrs=SLICE_ATTRS)
class StridedSliceAssign:
    """Sets a strided slice of the variable to `value`, of the slice's shape. TF:
    StridedSliceAssign."""
    shape = _same
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ResourceStridedSliceAssign", stateful=True, attrs=SLICE_ATTRS,
    inputs="ref: resource, begin: Index, end: Index, strides: Index, value: T")
class ResourceStridedSliceAssign:
    """StridedSliceAssign of a variable behind a handle. TF: ResourceStridedSliceAssign."""
    def shape(op): return []
    gradient = UNREGISTERED
    reference = None
    samples = None


# -------------------------------------------------------------------------------- public functions


def variable_op_v2(shape, dtype, name="Variable", container="", shared_name=""):
    """A reference to a new variable, without initial value."""
    return VariableV2(shape=as_shape(shape), dtype=dtypes.as_dtype(dtype).base_dtype, name=name,
                      container=container, shared_name=shared_name)


def _reference(ref):
    """The reference tensor of `ref`, or None if it is a resource variable."""
    if getattr(ref, "dtype", None) is None:
        raise TypeError(f"Expected a variable, got {ref!r}")
    tensor = to_tensor(ref, as_ref=True)
    if tensor.dtype._is_ref_dtype:
        return tensor
    if hasattr(ref, "handle"):
        return None
    raise TypeError(f"'{tensor.name}' is not a variable: assignments need a tf.Variable, or a "
                    "tensor that refers to one")


def is_variable_initialized(variable, name=None):
    """A bool tensor: has the variable a value? TF: tf.is_variable_initialized.
    Dtypes, shapes, errors: as op IsVariableInitialized."""
    tensor = _reference(variable)
    if tensor is None:
        return variable.is_initialized(name=name)
    return IsVariableInitialized(tensor, name=name)


def assign(ref, value, validate_shape=None, use_locking=None, name=None):
    """Sets variable `ref` to `value`; returns the variable afterwards. TF: tf.assign.
    Dtypes, shapes, errors: as op Assign."""
    tensor = _reference(ref)
    if tensor is None:
        return ref.assign(value, name=name)
    return Assign(tensor, value, use_locking=use_locking is not False, name=name,
                  validate_shape=validate_shape is not False)


def assign_add(ref, value, use_locking=None, name=None):
    """Adds `value` to variable `ref`; returns the variable afterwards. TF: tf.assign_add.
    Dtypes, shapes, errors: as op AssignAdd."""
    tensor = _reference(ref)
    if tensor is None:
        return ref.assign_add(value)
    return AssignAdd(tensor, value, use_locking=bool(use_locking), name=name)


def assign_sub(ref, value, use_locking=None, name=None):
    """Subtracts `value` from variable `ref`; returns the variable afterwards. TF: tf.assign_sub.
    Dtypes, shapes, errors: as op AssignSub."""
    tensor = _reference(ref)
    if tensor is None:
        return ref.assign_sub(value)
    return AssignSub(tensor, value, use_locking=bool(use_locking), name=name)


def _scatter_function(kind, block, what, nd=False):
    """The public function `scatter_<kind>` over `block` and its resource twin."""
    locking = kind in ("update", "nd_update")

    def scatter(ref, indices, updates, use_locking=locking, name=None):
        tensor = _reference(ref)
        if tensor is not None:
            return block(tensor, indices, updates, use_locking=use_locking, name=name)
        from pyflow.ops.state import resource_handles
        twin = getattr(resource_handles, "Resource" + block.name)
        with ref.graph.as_default():
            indices = ops.convert_to_tensor(indices, name="indices")
            updates = ops.convert_to_tensor(updates, ref.dtype)
        return ref._after(twin(ref.handle, indices, updates, name=name))
    scatter.__name__ = scatter.__qualname__ = "scatter_" + kind
    scatter.__doc__ = (f"{'Slices' if nd else 'Rows'} `indices` of variable `ref` {what}; returns "
                       f"the variable afterwards. TF: tf.scatter_{kind}.\n"
                       f"Dtypes, shapes, errors: as op {block.name}.")
    return scatter


scatter_update = _scatter_function("update", ScatterUpdate, "= `updates`")
scatter_add = _scatter_function("add", ScatterAdd, "+= `updates`")
scatter_sub = _scatter_function("sub", ScatterSub, "-= `updates`")
scatter_mul = _scatter_function("mul", ScatterMul, "*= `updates`")
scatter_div = _scatter_function("div", ScatterDiv, "/= `updates`")
scatter_min = _scatter_function("min", ScatterMin, "= min(row, `updates`)")
scatter_max = _scatter_function("max", ScatterMax, "= max(row, `updates`)")
scatter_nd_update = _scatter_function("nd_update", ScatterNdUpdate, "= `updates`", nd=True)
scatter_nd_add = _scatter_function("nd_add", ScatterNdAdd, "+= `updates`", nd=True)
scatter_nd_sub = _scatter_function("nd_sub", ScatterNdSub, "-= `updates`", nd=True)


def strided_slice_assign(ref, begin, end, strides, value, begin_mask=0, end_mask=0, ellipsis_mask=0,
                         new_axis_mask=0, shrink_axis_mask=0, name=None):
    """Sets `ref[begin:end:strides]` to `value`; returns the variable afterwards:
    `v[1:3].assign(x)`."""
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "ellipsis_mask": ellipsis_mask,
             "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}
    with ref.graph.as_default():
        value = ops.convert_to_tensor(value, dtype=ref.dtype.base_dtype)
        tensor = _reference(ref)
        if tensor is not None:
            return StridedSliceAssign(tensor, begin, end, strides, value, name=name, **masks)
        return ref._after(ResourceStridedSliceAssign(ref.handle, begin, end, strides, value,
                                                     name=name, **masks))


def count_up_to(ref, limit, name=None):
    """The scalar variable `ref`, then adds 1 to it; OutOfRangeError at `limit`. TF:
    tf.count_up_to.
    Dtypes, shapes, errors: as op CountUpTo."""
    tensor = _reference(ref)
    if tensor is None:
        return ref.count_up_to(limit)
    return CountUpTo(tensor, limit=limit, name=name)


PUBLIC = {
    "is_variable_initialized": is_variable_initialized,
    "assign": assign, "assign_add": assign_add, "assign_sub": assign_sub,
    "scatter_update": scatter_update, "scatter_add": scatter_add, "scatter_sub": scatter_sub,
    "scatter_mul": scatter_mul, "scatter_div": scatter_div, "scatter_min": scatter_min,
    "scatter_max": scatter_max, "scatter_nd_update": scatter_nd_update,
    "scatter_nd_add": scatter_nd_add, "scatter_nd_sub": scatter_nd_sub,
    "count_up_to": count_up_to,
}
