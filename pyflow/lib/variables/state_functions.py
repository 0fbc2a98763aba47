"""tf.assign, tf.scatter_* and their kin.

Invariant: they take variables of both kinds; a resource variable's methods do the work.

Example:  `step = tf.assign_add(counter, 1)`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.convert import to_tensor
from pyflow.framework.tensor_shape import as_shape
from pyflow.ops.state import resource_handles
from pyflow.ops.state.state_ops import (Assign, AssignAdd, AssignSub, CountUpTo,
                                        IsVariableInitialized, ResourceStridedSliceAssign,
                                        ScatterAdd, ScatterDiv, ScatterMax, ScatterMin, ScatterMul,
                                        ScatterNdAdd, ScatterNdSub, ScatterNdUpdate, ScatterSub,
                                        ScatterUpdate, StridedSliceAssign, VariableV2)


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

    ref: a variable, or a slice of one: tf.assign(v[2:4], x) is v[2:4].assign(x). validate_shape False: the value may have another shape. use_locking: accepted; updates are
    atomic.
    Dtypes, shapes, errors: as op Assign.

        >>> v = tf.Variable(1.0)
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(tf.assign(v, 5.0))
        np.float32(5.0)
    """
    sliced = isinstance(ref, ops.Tensor) and hasattr(ref, "assign")
    tensor = None if sliced else _reference(ref)
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


def _graph_for(ref):
    """Where an update of a variable is built: the function being traced, else its own graph."""
    return ops.graph_of([ref])


def _scatter_function(kind, block, what, nd=False):
    """The public function `scatter_<kind>` over `block` and its resource twin."""
    locking = kind in ("update", "nd_update")

    def scatter(ref, indices, updates, use_locking=locking, name=None):
        tensor = _reference(ref)
        if tensor is not None:
            return block(tensor, indices, updates, use_locking=use_locking, name=name)
        twin = getattr(resource_handles, "Resource" + block.name)
        with _graph_for(ref).as_default():
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
    with _graph_for(ref).as_default():
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
    "is_variable_initialized": is_variable_initialized, "assign": assign, "assign_add": assign_add,
    "assign_sub": assign_sub, "scatter_update": scatter_update, "scatter_add": scatter_add,
    "scatter_sub": scatter_sub, "scatter_mul": scatter_mul, "scatter_div": scatter_div,
    "scatter_min": scatter_min, "scatter_max": scatter_max, "scatter_nd_update": scatter_nd_update,
    "scatter_nd_add": scatter_nd_add, "scatter_nd_sub": scatter_nd_sub, "count_up_to": count_up_to,
}
