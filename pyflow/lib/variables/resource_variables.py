"""ResourceVariable: a variable behind a handle (`use_resource=True`).

Graph of `tf.get_variable("W", ..., use_resource=True)`, as TF 1.x builds it:

    W/Initializer/...   W (VarHandleOp)   W/IsInitialized/VarIsInitializedOp   W/Assign
    W/Read/ReadVariableOp

Invariants
  1. Every use as a tensor is a new ReadVariableOp, placed with the handle; `W/Read/...` is for
     fetching.
  2. Assignments return the variable after them: an object whose reads wait for the assignment.

Thread: the one building the graph.  Ops: resource_handles.py.
"""
from pyflow.framework import graph as ops
from pyflow.framework.convert import register_tensor_conversion_function
from pyflow.framework.default_graph import in_function
from pyflow.framework.tensor_shape import as_shape, unknown_shape
from pyflow.lib.variables import resource_functions
from pyflow.lib.variables.variable_base import (KINDS, BuiltVariable, built_initial_value,
                                                initialized_dependencies, require_known_shape)
from pyflow.ops.control import identity_ops
from pyflow.ops.state import resource_handles as handles


class ResourceVariable(BuiltVariable):
    """A variable behind a handle."""

    def _build(self, initial_value, dtype, shape, validate_shape, scope):
        node_name = scope[:-1]
        with ops.get_default_graph()._attr_scope({"_class": ["loc:@" + node_name]}):
            with ops.name_scope("Initializer"), ops.device(None):
                value = built_initial_value(initial_value, dtype)
        self._initial_value = value
        if validate_shape:
            require_known_shape(value)
        if shape is None:
            shape = value.shape if validate_shape else unknown_shape()
        self._dtype = value.dtype.base_dtype
        self._tensor = handles.VarHandleOp(dtype=self._dtype, shape=as_shape(shape),
                                           shared_name=node_name, name=scope)
        with ops.name_scope("IsInitialized"):
            self._is_initialized_op = handles.VarIsInitializedOp(self._tensor)
        with ops.name_scope("Assign") as assign_scope, self._at_handle():
            self._guarded_value = initialized_dependencies(node_name, value)
            self._initializer_op = handles.AssignVariableOp(self._tensor, self._guarded_value,
                                                            name=assign_scope)
        with ops.name_scope("Read"), self._at_handle():
            self._graph_element = handles.ReadVariableOp(self._tensor, dtype=self._dtype)
        self._cached_value = None
        if self._caching_device is not None:
            with ops.colocate_with(None, ignore_existing=True), ops.device(self._caching_device):
                self._cached_value = identity_ops.Identity(self._graph_element)

    def _from_def(self, variable_def, import_scope):
        """The variable that a MetaGraph's VariableDef describes; its nodes are in the graph
        already."""
        graph = ops.get_default_graph()
        prefix = import_scope + "/" if import_scope else ""
        self._tensor = graph.as_graph_element(prefix + variable_def.variable_name)
        self._dtype = resource_functions.handle_dtype(self._tensor)
        initializer = graph.as_graph_element(prefix + variable_def.initializer_name)
        self._initializer_op = getattr(initializer, "op", initializer)
        self._graph_element = graph.as_graph_element(prefix + variable_def.snapshot_name)
        initial = variable_def.initial_value_name
        self._initial_value = graph.as_graph_element(prefix + initial) if initial else None
        self._guarded_value = self._initial_value
        self._trainable = getattr(variable_def, "trainable", True)
        self._is_initialized_op = handles.VarIsInitializedOp(self._tensor)
        self._caching_device = self._cached_value = None
        self._save_slice_info = self._constraint = None

    def _at_handle(self):
        return ops.colocate_with(self._tensor.op)

    # ---------------------------------------------------------------------------------- description
    @property
    def handle(self):
        """The resource tensor."""
        return self._tensor

    @property
    def dtype(self):
        return self._dtype

    @property
    def shape(self):
        return handles.handle_shape(self._tensor)

    def set_shape(self, shape):
        self._tensor.op._set_attr("shape", self.shape.merge_with(as_shape(shape)))

    @property
    def create(self):
        """The operation that initialises the variable."""
        return self._initializer_op

    # -------------------------------------------------------------------------------------- reading
    def value(self):
        """A new read of the variable (the cached copy with a caching device)."""
        return self._read() if self._cached_value is None else self._cached_value

    def _read(self):
        with self._at_handle():
            return handles.ReadVariableOp(self._tensor, dtype=self._dtype)

    def read_value(self):
        """A new read of the variable, ordered by the control dependencies in force."""
        with ops.name_scope("Read"):
            return identity_ops.Identity(self._read())

    def _as_graph_element(self):
        return self._graph_element

    def _as_tensor(self):
        return self.value()

    def _ref(self):
        return self.value()

    def is_initialized(self, name=None):
        """A bool tensor: has the variable a value?"""
        return handles.VarIsInitializedOp(self._tensor, name=name)

    def sparse_read(self, indices, name=None):
        """Rows `indices` of the variable, without reading the others."""
        with ops.name_scope("Gather" if name is None else name) as name:
            value = handles.ResourceGather(self._tensor, indices, dtype=self._dtype, name=name)
        return identity_ops.Identity(value)

    def gather_nd(self, indices, name=None):
        """Slices at coordinates `indices[..., :]`."""
        with ops.name_scope("GatherNd" if name is None else name) as name:
            value = handles.ResourceGatherNd(self._tensor, indices, dtype=self._dtype, name=name)
        return identity_ops.Identity(value)

    # -------------------------------------------------------------------------------------- writing
    def assign(self, value, use_locking=None, name=None, read_value=True):
        """Sets the variable; returns it as it is afterwards (the Operation unless `read_value`)."""
        value = self._operand(value)
        self.shape.assert_is_compatible_with(value.shape)
        return self._done(handles.AssignVariableOp(self._tensor, value, name=name), read_value)

    def assign_add(self, delta, use_locking=None, name=None, read_value=True):
        """Adds `delta`; returns the variable afterwards (the Operation unless `read_value`)."""
        delta = self._operand(delta)
        return self._done(handles.AssignAddVariableOp(self._tensor, delta, name=name), read_value)

    def assign_sub(self, delta, use_locking=None, name=None, read_value=True):
        """Subtracts `delta`; returns the variable afterwards (the Operation unless
        `read_value`)."""
        delta = self._operand(delta)
        return self._done(handles.AssignSubVariableOp(self._tensor, delta, name=name), read_value)

    def count_up_to(self, limit):
        """The scalar's value, then adds 1; OutOfRangeError at `limit`."""
        return handles.ResourceCountUpTo(self._tensor, limit=limit, T=self._dtype)

    # ---------------------------------------------------------------------------------- protocols
    def __bool__(self):
        return bool(self.value())               # a TypeError that says what to use

    def __array__(self, dtype=None, copy=None):
        raise NotImplementedError(f"Variable '{self.name}' is symbolic: use session.run or eval to "
                                  f"get its value")

    def _no_inplace(self, value):
        """`v += x` would only bind the name v to a tensor, and look as if it updated v."""
        raise RuntimeError(f"`variable += value` and its kin are not offered for variable "
                           f"'{self.name}': use `variable.assign_add(value)` to change the "
                           f"variable, or `variable = variable + value` for a new tensor.")

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = _no_inplace

    def _operand(self, value):
        """`value` as a tensor of the variable's graph, which need not be the default graph."""
        if in_function():
            return ops.convert_to_tensor(value, dtype=self._dtype)
        with self.graph.as_default():
            return ops.convert_to_tensor(value, dtype=self._dtype)

    def _done(self, operation, read_value):
        return self._after(operation) if read_value else operation

    def _after(self, operation):
        """This variable as it is after `operation`."""
        return _AssignedVariable(self, operation)


class _AssignedVariable(ResourceVariable):
    """A variable after an assignment: each read waits for it. Fetching it runs the assignment."""

    def __init__(self, variable, operation):
        self.__dict__.update(variable.__dict__)
        self._parent_op = operation
        self._cached_value = None
        self._graph_element = self._read()

    @property
    def op(self):
        """The assignment."""
        return self._parent_op

    def _read(self):
        with self._parent_op.graph.control_dependencies([self._parent_op]):
            return super()._read()


def _convert(variable, dtype=None, name=None, as_ref=False):
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        raise ValueError(f"Incompatible type conversion requested to type '{dtype.name}' for "
                         f"variable of type '{variable.dtype.name}'. Use tf.cast.")
    return variable.value()


KINDS[True] = ResourceVariable
register_tensor_conversion_function(ResourceVariable, _convert, 99)     # see variable_base.py


def is_resource_variable(value):
    """True for a variable behind a handle."""
    return isinstance(value, ResourceVariable)
