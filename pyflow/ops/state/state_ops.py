"""Reference variables, the ops: VariableV2, Assign, scatter updates.

Invariants
  1. A `Ref(T)` output is a reference to the variable; an op that takes `Ref(T)` writes through it
     and passes it on, any other reads a snapshot.
  2. Assign may change a variable's shape only with validate_shape=False.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/train runs them.

Example:  `step = AssignAdd(counter_ref, 1)`
"""
from pyflow.framework import dtypes
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.scatter_shapes import rows_written, scattered

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
    return rows_written(*[t.shape for t in op.inputs])


def _scattered_nd(op):
    return scattered(op, *[op.inputs[0].shape, *op.inputs[1:]])


def _counted(op):
    op.inputs[0].shape.assert_has_rank(0)
    return TensorShape([])


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
        shape = _scattered_nd
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
    shape = _counted
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
