"""What a variable is: `Variable`, and the reference kind of it.

Two kinds, with TF 1.x's graphs and names:

    RefVariable (default)           W (VariableV2)   W/Assign   W/read (Identity)
    ResourceVariable (use_resource) W (VarHandleOp)  W/IsInitialized/...  W/Assign
    W/Read/ReadVariableOp

Invariants
  1. `tf.Variable(...)` makes one of them; both are instances of Variable.  resource_variables.py
     adds the other kind, variable_scope.py says which is wanted: both when they are loaded.
  2. The initial value is built outside control flow contexts and control dependencies.
  3. A variable used as a tensor is its value: W/read, or a new ReadVariableOp.

Thread: the one building the graph.  Who calls it: variables.py, variable_scope, optimizers, Saver.

Example:  `w = tf.Variable(tf.zeros([784, 10]), name="W")`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.convert import register_tensor_conversion_function
from pyflow.framework.default_graph import outermost_graph
from pyflow.framework.graph import GraphKeys
from pyflow.framework.object_reference import Reference
from pyflow.framework.tensor_shape import as_shape, unknown_shape
from pyflow.lib.array import slicing_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.variables import state_functions
from pyflow.ops.control import identity_ops
from pyflow.ops.state import state_ops


KINDS = {}              # use_resource: the class; each kind adds itself where it is defined


def default_use_resource():
    """False; variable_scope puts wants_resource_variables here when it is loaded."""
    return False


class VariableSynchronization:
    """When replicas' variables are synchronised; kept for programs that pass it, without effect."""
    AUTO, NONE, ON_WRITE, ON_READ = 0, 1, 2, 3


class VariableAggregation:
    """How replicas' variables are aggregated; kept for programs that pass it, without effect."""
    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = 0, 1, 2, 3


class _VariableType(type):
    """Calling Variable itself makes the kind that `use_resource` or the variable scope asks for."""

    def __call__(cls, *args, **kwargs):
        if cls is not Variable:
            return super().__call__(*args, **kwargs)
        use_resource = kwargs.pop("use_resource", None)
        if use_resource is None:
            use_resource = default_use_resource()
        return KINDS[bool(use_resource)](*args, **kwargs)


def _operator(name):
    def apply(self, *args):
        return getattr(ops.Tensor, name)(self.value(), *args)
    apply.__name__ = name
    return apply


class Variable(metaclass=_VariableType):
    """What both kinds of variables can do.

    Variable(initial_value, trainable=True, collections=None, validate_shape=True,
    caching_device=None, name=None, variable_def=None, dtype=None, expected_shape=None,
    import_scope=None, constraint=None, use_resource=None): `initial_value` is a value or a
    function of no arguments; its shape must be known unless validate_shape is False. The variable
    is added to `collections` (GLOBAL_VARIABLES) and, if trainable, to TRAINABLE_VARIABLES. Raises
    ValueError without a value or shape. TF: tf.Variable.

        >>> v = tf.Variable([1.0, 2.0], name="v")
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v + 1.0)
        array([2., 3.], dtype=float32)
    """

    __array_priority__ = 100
    __hash__ = object.__hash__

    # --------------------------------------------------------------------------------- description
    @property
    def name(self):
        """The name of the variable's tensor, with ":0"."""
        return self._tensor.name

    @property
    def op(self):
        """The operation that holds the variable."""
        return self._tensor.op

    @property
    def graph(self):
        """The graph it was made in."""
        return self._tensor.graph

    @property
    def device(self):
        """The device asked for; "" for none."""
        return self._tensor.op.device

    @property
    def trainable(self):
        """True if optimizers change it unless told otherwise."""
        return self._trainable

    @property
    def synchronization(self):
        """VariableSynchronization.AUTO, always."""
        return VariableSynchronization.AUTO

    @property
    def aggregation(self):
        """VariableAggregation.NONE, always."""
        return VariableAggregation.NONE

    @property
    def constraint(self):
        """The function an optimizer applies after each update, or None."""
        return self._constraint

    @property
    def initializer(self):
        """The operation that gives the variable its initial value."""
        return self._initializer_op

    @property
    def initial_value(self):
        """The tensor of the initial value. Use `initialized_value` to depend on the variable
        instead."""
        return self._initial_value

    @property
    def _shared_name(self):
        return self.op.name

    def get_shape(self):
        """The static shape, a TensorShape."""
        return self.shape

    def set_shape(self, shape):
        """Adds to what is known of the shape. ValueError if it contradicts that."""
        self._tensor.set_shape(shape)
        self.value().set_shape(shape)

    @property
    def save_slice_info(self):
        """Which part of a partitioned variable this is; None for a whole one."""
        return self._save_slice_info

    def _set_save_slice_info(self, save_slice_info):
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self):
        return self._save_slice_info

    def __repr__(self):
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def to_proto(self, export_scope=None):
        """The variable as a VariableDef message, its names relative to `export_scope`; None for a
        variable outside it."""
        from pyflow.framework import protos
        prefix = export_scope.rstrip("/") + "/" if export_scope else ""
        if not self.name.startswith(prefix):
            return None
        handle = getattr(self, "handle", None)
        tensor, initial = self._ref() if handle is None else handle, self.initial_value
        return protos.VariableDef(
            variable_name=tensor.name.removeprefix(prefix),
            initializer_name=self.initializer.name.removeprefix(prefix),
            snapshot_name=self._as_graph_element().name.removeprefix(prefix),
            initial_value_name="" if initial is None else initial.name.removeprefix(prefix),
            is_resource=handle is not None, trainable=bool(self.trainable))

    @staticmethod
    def from_proto(variable_def, import_scope=None):
        """The variable of a VariableDef; its nodes are in the default graph already."""
        return KINDS[variable_def.is_resource](variable_def=variable_def, import_scope=import_scope)

    # ----------------------------------------------------------------------------- value and state
    def experimental_ref(self):
        """A hashable reference to this variable, for sets and dictionaries; `.deref()` gives it."""
        return Reference(self)

    def eval(self, session=None):
        """The variable's value in `session` (the default session)."""
        return self._as_graph_element().eval(session=session)

    def initialized_value(self):
        """The variable's value, or its initial value while it is not initialised."""
        with ops.control_dependencies(None):
            return cond(state_functions.is_variable_initialized(self), self.read_value,
                        lambda: self._guarded_value)

    def load(self, value, session=None):
        """Sets the variable in `session` to a NumPy value, without adding to the graph."""
        session = session or ops.get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session "
                             "should be established")
        session.run(self._initializer_op, {self._initializer_op.inputs[1]: value})

    def count_up_to(self, limit):
        """The scalar's value, then adds 1; OutOfRangeError at `limit`."""
        return state_functions.count_up_to(self, limit)

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        """Adds the rows of an IndexedSlices."""
        return self._scatter(state_functions.scatter_add, sparse_delta, use_locking, name)

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        """Subtracts the rows of an IndexedSlices."""
        return self._scatter(state_functions.scatter_sub, sparse_delta, use_locking, name)

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        """Sets the rows of an IndexedSlices."""
        return self._scatter(state_functions.scatter_update, sparse_delta, use_locking, name)

    def scatter_nd_add(self, indices, updates, name=None):
        """Adds `updates` at the index vectors `indices`; as tf.scatter_nd_add."""
        return state_functions.scatter_nd_add(self, indices, updates, use_locking=True, name=name)

    def scatter_nd_sub(self, indices, updates, name=None):
        """Subtracts `updates` at the index vectors `indices`; as tf.scatter_nd_sub."""
        return state_functions.scatter_nd_sub(self, indices, updates, use_locking=True, name=name)

    def scatter_nd_update(self, indices, updates, name=None):
        """Sets `updates` at the index vectors `indices`; as tf.scatter_nd_update."""
        return state_functions.scatter_nd_update(self, indices, updates, use_locking=True,
                                                 name=name)

    def _scatter(self, function, slices, use_locking, name):
        if not isinstance(slices, ops.IndexedSlices):
            raise ValueError(f"sparse_delta is not IndexedSlices: {slices}")
        return function(self, slices.indices, slices.values, use_locking=use_locking, name=name)

    # ------------------------------------------------------------------------------------ operators
    def __iter__(self):
        raise TypeError("'Variable' object is not iterable.")

    def __getitem__(self, item):
        """A slice of the value; its `assign(value)` sets that slice of the variable."""
        return slicing_functions.getitem(self.value(), item, var=self)

    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"Variable '{self.name}' is symbolic: use session.run or eval to get its "
                        f"value")


for _name in ("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
              "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__", "__pow__",
              "__rpow__", "__matmul__", "__rmatmul__", "__lt__", "__le__", "__gt__", "__ge__",
              "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__",
              "__invert__", "__neg__", "__abs__", "__div__", "__rdiv__"):
    setattr(Variable, _name, _operator(_name))


# --------------------------------------------------------------------------------- making variables
def checked_collections(collections, trainable):
    """The collections a new variable goes to."""
    if collections is None:
        collections = [GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(collections, (list, tuple, set)):
        raise ValueError("collections argument to Variable constructor must be a list, tuple, or "
                         f"set. Got {collections} of type {type(collections)}")
    if trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
        collections = list(collections) + [GraphKeys.TRAINABLE_VARIABLES]
    return collections


def checked_initial_value(initial_value, constraint):
    """Raises for a missing initial value or a constraint that is no function."""
    if initial_value is None:
        raise ValueError("initial_value must be specified.")
    if constraint is not None and not callable(constraint):
        raise ValueError("The `constraint` argument must be a callable.")


def built_initial_value(initial_value, dtype):
    """The initial value as a tensor; a function is called in scope "Initializer"."""
    if callable(initial_value) and not isinstance(initial_value, (ops.Tensor, Variable)):
        initial_value = initial_value()
    return ops.convert_to_tensor(initial_value, name="initial_value", dtype=dtype)


def require_known_shape(tensor):
    """ValueError if the shape of an initial value is not known."""
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"initial_value must have a shape specified: {tensor}. Set its shape, or "
                         "pass validate_shape=False")


class BuiltVariable(Variable):
    """A variable whose nodes are made here: a subclass's `_build` makes them, its `_from_def` finds
    those that are there."""

    def __init__(self, initial_value=None, trainable=None, collections=None, validate_shape=True,
                 caching_device=None, name=None, variable_def=None, dtype=None, expected_shape=None,
                 import_scope=None, constraint=None, synchronization=None, aggregation=None,
                 shape=None):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            return self._from_def(variable_def, import_scope)
        checked_initial_value(initial_value, constraint)
        self._trainable = True if trainable is None else bool(trainable)
        self._constraint = constraint
        self._caching_device = caching_device
        self._save_slice_info = None
        collections = checked_collections(collections, self._trainable)
        dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        values = [] if callable(initial_value) else [initial_value]
        with outermost_graph(), ops.control_dependencies(None):
            with ops.name_scope(name, "Variable", values) as scope:
                self._build(initial_value, dtype, shape, validate_shape, scope)
            ops.add_to_collections(collections, self)


class RefVariable(BuiltVariable):
    """A variable behind a reference: VariableV2, Assign, Identity."""

    def _build(self, initial_value, dtype, shape, validate_shape, scope):
        graph = ops.get_default_graph()
        if callable(initial_value) and not isinstance(initial_value, Variable):
            with graph._attr_scope({"_class": ["loc:@" + scope[:-1]]}):
                with ops.name_scope("Initializer"), ops.device(None):
                    self._initial_value = built_initial_value(initial_value, dtype)
        else:
            self._initial_value = built_initial_value(initial_value, dtype)
        value = self._initial_value
        if shape is None:
            shape = value.shape if validate_shape else unknown_shape()
        self._tensor = state_functions.variable_op_v2(as_shape(shape), value.dtype.base_dtype,
                                                      name=scope)
        if validate_shape:
            require_known_shape(value)
        self._guarded_value = initialized_dependencies(scope[:-1], value)
        with ops.colocate_with(self._tensor.op):
            assigned = state_ops.Assign(self._tensor, self._guarded_value,
                                        validate_shape=validate_shape)
        self._initializer_op = assigned.op
        caching = self._caching_device
        if callable(caching):
            caching = caching(self._tensor.op)
        with ops.colocate_with(self._tensor.op) if caching is None else ops.device(caching):
            self._snapshot = identity_ops.Identity(self._tensor, name="read")

    def _from_def(self, variable_def, import_scope):
        """The variable that a MetaGraph's VariableDef describes; its nodes are in the graph
        already."""
        graph = ops.get_default_graph()
        prefix = import_scope + "/" if import_scope else ""
        self._tensor = graph.as_graph_element(prefix + variable_def.variable_name)
        self._initializer_op = graph.as_graph_element(prefix + variable_def.initializer_name)
        if not isinstance(self._initializer_op, ops.Operation):
            self._initializer_op = self._initializer_op.op
        self._snapshot = graph.as_graph_element(prefix + variable_def.snapshot_name)
        initial = variable_def.initial_value_name
        self._initial_value = graph.as_graph_element(prefix + initial) if initial else None
        self._guarded_value = self._initial_value
        self._trainable = getattr(variable_def, "trainable", True)
        self._caching_device = self._save_slice_info = self._constraint = None

    # ------------------------------------------------------------------------------ value and state
    @property
    def dtype(self):
        return self._tensor.dtype

    @property
    def shape(self):
        return self._tensor.shape

    def value(self):
        """The tensor that stands for the variable's value: W/read."""
        return self._snapshot

    def read_value(self):
        """A new read of the variable, ordered by the control dependencies in force."""
        return identity_ops.Identity(self._tensor, name="read")

    def _ref(self):
        return self._tensor

    def _as_graph_element(self):
        return self._snapshot

    def _as_tensor(self):
        return self._snapshot

    def is_initialized(self, name=None):
        return state_functions.is_variable_initialized(self, name)

    def assign(self, value, use_locking=False, name=None, read_value=True):
        """Sets the variable; returns its reference afterwards (the Operation unless
        `read_value`)."""
        assigned = state_functions.assign(self._tensor, value, use_locking=use_locking, name=name)
        return _result(assigned, read_value)

    def assign_add(self, delta, use_locking=False, name=None, read_value=True):
        """Adds `delta`; returns the reference afterwards (the Operation unless `read_value`)."""
        assigned = state_functions.assign_add(self._tensor, delta, use_locking, name)
        return _result(assigned, read_value)

    def assign_sub(self, delta, use_locking=False, name=None, read_value=True):
        """Subtracts `delta`; returns the reference afterwards (the Operation unless
        `read_value`)."""
        assigned = state_functions.assign_sub(self._tensor, delta, use_locking, name)
        return _result(assigned, read_value)


def _result(tensor, read_value):
    return tensor if read_value else tensor.op


def _convert_ref_variable(variable, dtype=None, name=None, as_ref=False):
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        raise ValueError(f"Incompatible type conversion requested to type '{dtype.name}' for "
                         f"variable of type '{variable.dtype.name}'. Use tf.cast.")
    return variable._ref() if as_ref else variable.value()


KINDS[False] = RefVariable
# Before what programs register for wider types, although they may do so before this is loaded.
register_tensor_conversion_function(RefVariable, _convert_ref_variable, 99)


# ---------------------------------------------------- initial values that depend on other variables
_READS = ("IsVariableInitialized", "VarIsInitializedOp")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


def initialized_dependencies(name, tensor):
    """`tensor`, with each variable it depends on replaced by its `initialized_value`.

    So that one `global_variables_initializer` works whatever order the variables are initialised
    in."""
    if not _depends_on_variable(tensor.op):
        return tensor
    return _guarded(name, tensor, {})


def _depends_on_variable(start):
    seen, queue = {start}, [start]
    while queue:
        op = queue.pop()
        if op.type in _VARIABLES:
            return True
        for tensor in op.inputs:
            if tensor.op not in seen:
                seen.add(tensor.op)
                queue.append(tensor.op)
    return False


def _guarded(name, tensor, copies):
    op = tensor.op
    if op in copies:
        known = copies[op]
        return known if isinstance(known, ops.Tensor) else known.outputs[tensor.value_index]
    if op.type in _READS or _is_control_flow(op):
        return tensor
    if op.type in _VARIABLES or op.type == "ReadVariableOp":
        variable = _variable_of(op if op.type in _VARIABLES else op.inputs[0].op)
        copies[op] = tensor if variable is None else variable.initialized_value()
        return copies[op]
    inputs = [_guarded(name, t, copies) for t in op.inputs]
    if all(new is old for new, old in zip(inputs, op.inputs)):
        return tensor
    attrs = {key: value for key, value in op.attrs.items() if key != "_class"}
    copies[op] = op.graph.create_op(op.type, inputs, attrs=attrs, name=f"{op.name}_{name}")
    return copies[op].outputs[tensor.value_index]


def _is_control_flow(op):
    return op.type in ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond")


def _variable_of(op):
    """The Variable object whose node `op` is, or None."""
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in op.graph.get_collection(key):
            if getattr(variable, "op", None) is op:
                return variable
    return None
