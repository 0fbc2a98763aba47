"""What a recurrent cell is: `RNNCell`, its variables and scopes, and the state_size protocol.

Invariants
  1. A cell is called as `cell(inputs, state) -> (output, new_state)`; `state_size` and
     `output_size` are an int, a TensorShape, or a nest of them, without the batch dimension.
  2. The first call fixes the cell's variable scope and makes its variables; later calls find them
     there, whatever scope they are made in.
  3. A `LayerRNNCell` lists its variables in `build`; a plain `RNNCell` may call get_variable inside
     `call`. Either way the names are TF 1.15's: scope/cell_class_name/variable.

Thread: the one building the graph.  Source: TF 1.15, nn.rnn_cell.

Example:
    class Scaled(tf.nn.rnn_cell.RNNCell):
        state_size = output_size = 3
        def call(self, inputs, state):
            new = state + inputs * tf.get_variable("scale", [3])
            return new, new
"""
import re

import numpy as np

from pyflow.framework import dtypes, graph, nest
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors


def snake_case(name):
    """BasicLSTMCell -> basic_lstm_cell."""
    words = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    words = re.sub("([a-z])([A-Z])", r"\1_\2", words).lower()
    return words if words[0] != "_" else "private" + words


# -------------------------------------------------------------------------------------- state sizes
def with_batch(batch_size, size):
    """(shape to build with, static shape) of a tensor [batch_size] + size.

    batch_size: int, Dimension or scalar tensor; size: int, TensorShape or int32 vector."""
    if isinstance(size, graph.Tensor):
        batch = graph.convert_to_tensor(batch_size, dtype=size.dtype)
        return tensors.concat([tensors.reshape(batch, [1]), size], 0), TensorShape(None)
    rest = as_shape(size if isinstance(size, (TensorShape, list, tuple)) else [int(size)])
    if not rest.is_fully_defined():
        raise ValueError(f"the size of a cell's state or output must be known, got {size}")
    if isinstance(batch_size, graph.Tensor):
        known = TensorShape([None]).concatenate(rest)
        return tensors.stack([batch_size] + rest.as_list()), known
    shape = TensorShape([batch_size]).concatenate(rest)
    return shape.as_list(), shape


def zeros_of(batch_size, size, dtype):
    """Zeros of shape [batch_size] + size."""
    shape, static = with_batch(batch_size, size)
    zeros = tensors.zeros(shape, dtype=dtype)
    zeros.set_shape(static)
    return zeros


def zero_states(state_size, batch_size, dtype):
    """Zeros for a nest of sizes."""
    return nest.map_structure(lambda s: zeros_of(batch_size, s, dtype), state_size)


def require_cell(what, cell):
    """TypeError unless `cell` looks like a recurrent cell."""
    missing = [name for name in ("output_size", "state_size") if not hasattr(cell, name)]
    if not any(hasattr(cell, name) for name in ("zero_state", "get_initial_state")):
        missing.append("zero_state or get_initial_state")
    if not callable(cell):
        missing.append("__call__")
    if isinstance(cell, type):
        raise TypeError(f"The argument {what!r} is the class {cell.__name__}, not a cell: call it "
                        "to make one")
    if missing:
        raise TypeError(f"The argument {what!r} ({cell!r}) is not an RNNCell: it lacks "
                        f"{', '.join(missing)}")


# --------------------------------------------------------------------------------------------- cell
def _from_numpy(value):
    """A NumPy array as a tensor, anything else as it is."""
    return graph.convert_to_tensor(value) if isinstance(value, np.ndarray) else value


class RNNCell(ShowsArguments):
    """A step of a recurrent network: `cell(inputs, state, scope=None) -> (output, new_state)`.

    inputs: [batch, input size], or a nest of such; state: [batch, state_size], or a nest like
    `state_size`. Subclasses give `state_size`, `output_size` and `call(inputs, state)`, or override
    `__call__`. Raises TypeError for unknown arguments. TF: nn.rnn_cell.RNNCell."""

    built = False
    trainable = True
    _scope = _outer_scope = _reuse = _dtype = _given_name = None

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        self._reuse = kwargs.pop("_reuse", None)
        kwargs.pop("dynamic", None)
        if kwargs:
            raise TypeError(f"{type(self).__name__}: unknown keyword arguments {sorted(kwargs)}")
        self.trainable = trainable
        self._given_name = name
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype

    # ------------------------------------------------------------------------------- calling
    def __call__(self, inputs, state, scope=None):
        if scope is not None:
            with vs.variable_scope(scope, custom_getter=self._rnn_get_variable) as inner:
                return self._apply(inputs, state, inner)
        if self._outer_scope is None:
            self._outer_scope = vs.get_variable_scope()
        with vs.variable_scope(self._outer_scope, custom_getter=self._rnn_get_variable):
            return self._apply(inputs, state, None)

    def _apply(self, inputs, state, scope):
        inputs = nest.map_structure(_from_numpy, inputs)
        self._take_scope(scope)
        reuse = True if self.built else self._reuse
        with vs.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False) as inner:
            with graph.name_scope(inner.original_name_scope):
                if not self.built:
                    self._build_for(inputs)
                return self.call(inputs, state)

    def _build_for(self, inputs):
        first = nest.flatten(inputs)[0]
        if self._dtype is None:
            self._dtype = getattr(first, "dtype", dtypes.float32).base_dtype
        shapes = nest.map_structure(lambda x: getattr(x, "shape", None), inputs)
        self.build(shapes)
        self.built = True

    def _take_scope(self, scope):
        if self._scope is not None:
            return
        if self._reuse and scope is None and self._given_name is not None:
            scope = self._given_name
        default = None if scope is not None else self._base_name
        with vs.variable_scope(scope, default_name=default) as captured:
            self._scope = captured

    def call(self, inputs, state):
        """One step, to be given by a subclass."""
        raise TypeError(f"{type(self).__name__} gives neither call(inputs, state) nor __call__")

    def build(self, inputs_shape):
        """Makes the variables, once; called before the first `call`."""
        self.built = True

    # ----------------------------------------------------------------------------- variables
    def add_weight(self, name, shape=None, dtype=None, initializer=None, regularizer=None,
                   trainable=None, constraint=None, partitioner=None, use_resource=None):
        """The variable `name` of this cell's scope."""
        self._take_scope(None)
        reuse = True if self.built else self._reuse
        with vs.variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False):
            variable = vs.get_variable(
                name, shape=shape, dtype=dtype or self._dtype or dtypes.float32,
                initializer=initializer, regularizer=regularizer, constraint=constraint,
                trainable=self.trainable and trainable is not False, partitioner=partitioner,
                use_resource=use_resource)
        self._keep(variable)
        return variable

    add_variable = add_weight

    def _rnn_get_variable(self, getter, *args, **kwargs):
        """The scope's custom getter: this cell knows the variables made while it runs."""
        variable = getter(*args, **kwargs)
        self._keep(variable)
        return variable

    def _keep(self, variable):
        own = self.__dict__.setdefault("_own_variables", [])
        if not any(variable is v for v in own):
            own.append(variable)

    def _inner_cells(self):
        return ()

    @property
    def variables(self):
        """All variables, those of inner cells included."""
        found = []
        for variable in [*self.__dict__.get("_own_variables", ()),
                         *(v for cell in self._inner_cells()
                           for v in getattr(cell, "variables", ()))]:
            if not any(variable is v for v in found):
                found.append(variable)
        return found

    weights = variables

    @property
    def trainable_variables(self):
        """The variables an optimizer changes."""
        known = {id(v) for v in graph.get_collection(graph.GraphKeys.TRAINABLE_VARIABLES)}
        return [v for v in self.variables if id(v) in known] if self.trainable else []

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self):
        """The others."""
        known = {id(v) for v in self.trainable_variables}
        return [v for v in self.variables if id(v) not in known]

    non_trainable_weights = non_trainable_variables
    losses = ()
    updates = ()

    # --------------------------------------------------------------------------------- names
    @property
    def _base_name(self):
        return self._given_name or snake_case(type(self).__name__)

    @property
    def name(self):
        """The name given, or the class's in snake case."""
        return self._base_name

    @property
    def dtype(self):
        """The DType of the cell's variables; None before it is known."""
        return self._dtype

    @property
    def scope_name(self):
        """The name of the cell's variable scope. ValueError before the first call."""
        if self._scope is None:
            raise ValueError(f"{self.name} has no scope before it is first called")
        return self._scope.name

    # -------------------------------------------------------------------------------- states
    @property
    def state_size(self):
        """Sizes of the state: an int, a TensorShape, or a nest of them."""
        raise TypeError(f"{type(self).__name__} does not define state_size")

    @property
    def output_size(self):
        """Size of the output: an int or TensorShape, or a nest of them."""
        raise TypeError(f"{type(self).__name__} does not define output_size")

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        """The state before the first step, for `inputs`, or a batch size and dtype.

        ValueError if the two disagree or are missing."""
        if inputs is not None:
            inputs = graph.convert_to_tensor(inputs, name="inputs")
            known = inputs.shape[0].value if inputs.shape.ndims else None
            if isinstance(batch_size, int) and known not in (None, batch_size):
                raise ValueError(f"batch size from input tensor is {known}, but batch_size is "
                                 f"{batch_size}")
            if dtype is not None and dtypes.as_dtype(dtype) != inputs.dtype.base_dtype:
                raise ValueError(f"dtype from input tensor is {inputs.dtype.name}, but dtype is "
                                 f"{dtypes.as_dtype(dtype).name}")
            batch_size = known or tensors.shape(inputs)[0]
            dtype = inputs.dtype.base_dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype cannot be None while constructing initial "
                             f"state: batch_size={batch_size}, dtype={dtype}")
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size, dtype):
        """Zeros [batch_size] + size for each of `state_size`; batch_size: an int or scalar
        tensor."""
        with graph.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return zero_states(self.state_size, batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell that makes its variables in `build`, in the scope of its first call.
    TF: contrib.rnn.LayerRNNCell."""

    def __call__(self, inputs, state, scope=None):
        return self._apply(inputs, state, scope)
