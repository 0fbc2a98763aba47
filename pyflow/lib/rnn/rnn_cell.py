"""The recurrent cells of tf.nn.rnn_cell: basic, LSTM and GRU.

Invariants
  1. Variables, their names and their layout are TF 1.15's, so that its checkpoints load: one kernel
     [inputs + state, gates] and one bias; an LSTM's gates in the order i, j, f, o, a GRU's r, u.
  2. Each step is built of MatMul, BiasAdd, Split, Sigmoid and arithmetic; the fused twins are in
     lstm_ops.py and gru_ops.py.

Source: Hochreiter and Schmidhuber 1997, Sak et al. 2014 (peepholes, projection), Cho et al. 2014.

Example:  `outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(128), x, dtype=tf.float32)`.
"""
import collections

from pyflow.framework import graph
from pyflow.lib.array import join_functions
from pyflow.lib.nn import nn_functions, norm_functions
from pyflow.lib.rnn.rnn_cell_base import LayerRNNCell, RNNCell
from pyflow.lib.variables import initializers, variable_scope as vs
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import activation_ops
from pyflow.ops.gemm import products

KERNEL, BIAS = "kernel", "bias"


def depth_of(inputs_shape):
    """The last dimension of the inputs. ValueError if it is not known."""
    depth = inputs_shape[-1].value if inputs_shape is not None and inputs_shape.ndims else None
    if depth is None:
        raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {inputs_shape}")
    return depth


def activation_of(activation, default):
    """A function: `activation` itself, tf.nn's function of that name, or the default."""
    if activation is None:
        return default
    if callable(activation):
        return activation
    import pyflow
    found = getattr(pyflow.nn, str(activation), None)
    if found is None:
        raise ValueError(f"activation {activation!r} is neither a function nor the name of one in "
                         "tf.nn")
    return found


def _linear(parts, kernel, bias):
    joined = tensors.concat(parts, 1)
    return norm_functions.bias_add(products.matmul(joined, kernel), bias)


# -------------------------------------------------------------------------------------------- basic
class BasicRNNCell(LayerRNNCell):
    """output = new state = activation(W [inputs, state] + b); tanh by default.

    TF: nn.rnn_cell.BasicRNNCell."""

    def __init__(self, num_units, activation=None, reuse=None, name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation_of(activation, activation_ops.Tanh)

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        rows = depth_of(inputs_shape) + self._num_units
        self._kernel = self.add_weight(KERNEL, [rows, self._num_units])
        self._bias = self.add_weight(BIAS, [self._num_units],
                                     initializer=initializers.zeros_initializer())

    def call(self, inputs, state):
        """One step."""
        output = self._activation(_linear([inputs, state], self._kernel, self._bias))
        return output, output


class GRUCell(LayerRNNCell):
    """Gated recurrent unit (Cho et al. 2014): r, u = sigmoid(gates); new state
    u * state + (1 - u) * activation(candidate of [inputs, r * state]).

    The gates' bias starts at 1. TF: nn.rnn_cell.GRUCell."""

    def __init__(self, num_units, activation=None, reuse=None, kernel_initializer=None,
                 bias_initializer=None, name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._activation = activation_of(activation, activation_ops.Tanh)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        n = self._num_units
        rows, given = depth_of(inputs_shape) + n, self._bias_initializer
        self._gate_kernel = self.add_weight(f"gates/{KERNEL}", [rows, 2 * n],
                                            initializer=self._kernel_initializer)
        self._gate_bias = self.add_weight(
            f"gates/{BIAS}", [2 * n],
            initializer=initializers.ones_initializer() if given is None else given)
        self._candidate_kernel = self.add_weight(f"candidate/{KERNEL}", [rows, n],
                                                 initializer=self._kernel_initializer)
        self._candidate_bias = self.add_weight(
            f"candidate/{BIAS}", [n],
            initializer=initializers.zeros_initializer() if given is None else given)

    def call(self, inputs, state):
        """One step."""
        gates = activation_ops.Sigmoid(_linear([inputs, state], self._gate_kernel, self._gate_bias))
        r, u = join_functions.split(gates, 2, axis=1)
        candidate = _linear([inputs, r * state], self._candidate_kernel, self._candidate_bias)
        new = u * state + (1 - u) * self._activation(candidate)
        return new, new


# --------------------------------------------------------------------------------------------- LSTM
class LSTMStateTuple(collections.namedtuple("LSTMStateTuple", ("c", "h"))):
    """An LSTM's state: cell state c and output h, each [batch, units].
    TF: nn.rnn_cell.LSTMStateTuple."""
    __slots__ = ()

    @property
    def dtype(self):
        """The type of both; TypeError if they differ."""
        if self.c.dtype != self.h.dtype:
            raise TypeError("Inconsistent internal state: the dtypes of c and h are "
                            f"{self.c.dtype.name} and {self.h.dtype.name}")
        return self.c.dtype


class BasicLSTMCell(LayerRNNCell):
    """LSTM without peepholes or projection (Zaremba et al. 2015).

    num_units: of state and output. activation: default tanh. reuse: share the variables of an
    earlier cell. dtype: of the variables, default that of the inputs. new c = c sigmoid(f +
    forget_bias) + sigmoid(i) act(j); new h = act(new c) sigmoid(o). state_is_tuple False: the state
    is one tensor [batch, 2 units]. TF: nn.rnn_cell.BasicLSTMCell.

        >>> cell = tf.nn.rnn_cell.BasicLSTMCell(num_units=4)
        >>> output, (c, h) = cell(tf.ones([2, 3]), cell.zero_state(2, tf.float32))
        >>> output.shape.as_list(), c.shape.as_list()
        ([2, 4], [2, 4])
    """

    def __init__(self, num_units, forget_bias=1.0, state_is_tuple=True, activation=None, reuse=None,
                 name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation_of(activation, activation_ops.Tanh)

    @property
    def state_size(self):
        n = self._num_units
        return LSTMStateTuple(n, n) if self._state_is_tuple else 2 * n

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_weight(KERNEL, [depth_of(inputs_shape) + n, 4 * n])
        self._bias = self.add_weight(BIAS, [4 * n], initializer=initializers.zeros_initializer())

    def call(self, inputs, state):
        """One step."""
        c, h = state if self._state_is_tuple else join_functions.split(state, 2, axis=1)
        i, j, f, o = join_functions.split(_linear([inputs, h], self._kernel, self._bias), 4, axis=1)
        bias = graph.convert_to_tensor(self._forget_bias, dtype=f.dtype)
        kept = c * activation_ops.Sigmoid(f + bias)
        new_c = kept + activation_ops.Sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * activation_ops.Sigmoid(o)
        if self._state_is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, tensors.concat([new_c, new_h], 1)


def _clipped(x, limit):
    return x if limit is None else nn_functions.clip_by_value(x, -limit, limit)


class LSTMCell(LayerRNNCell):
    """LSTM with optional peepholes (diagonal weights from c to the gates), clipping of c to
    [-cell_clip, cell_clip], and a projection of the output to `num_proj` units, clipped to
    proj_clip. TF: nn.rnn_cell.LSTMCell."""

    def __init__(self, num_units, use_peepholes=False, cell_clip=None, initializer=None,
                 num_proj=None, proj_clip=None, num_unit_shards=None, num_proj_shards=None,
                 forget_bias=1.0, state_is_tuple=True, activation=None, reuse=None, name=None,
                 dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self._num_units, self._num_proj = num_units, num_proj
        self._use_peepholes = use_peepholes
        self._cell_clip, self._proj_clip = cell_clip, proj_clip
        self._initializer = initializer
        self._shards = {KERNEL: num_unit_shards, "projection": num_proj_shards}
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation_of(activation, activation_ops.Tanh)

    @property
    def state_size(self):
        c, h = self._num_units, self.output_size
        return LSTMStateTuple(c, h) if self._state_is_tuple else c + h

    @property
    def output_size(self):
        return self._num_proj or self._num_units

    def _partitioner(self, what):
        shards = self._shards[what]
        return vs.fixed_size_partitioner(shards) if shards else None

    def build(self, inputs_shape):
        n, first = self._num_units, self._initializer
        rows = depth_of(inputs_shape) + self.output_size
        self._kernel = self.add_weight(KERNEL, [rows, 4 * n], initializer=first,
                                       partitioner=self._partitioner(KERNEL))
        self._bias = self.add_weight(BIAS, [4 * n], initializer=initializers.zeros_initializer())
        if self._use_peepholes:
            self._w_f, self._w_i, self._w_o = (
                self.add_weight(f"w_{gate}_diag", [n], initializer=first) for gate in "fio")
        if self._num_proj is not None:
            self._projection = self.add_weight(
                f"projection/{KERNEL}", [n, self._num_proj], initializer=first,
                partitioner=self._partitioner("projection"))

    def call(self, inputs, state):
        """One step. ValueError if the inputs' depth is not known."""
        if self._state_is_tuple:
            c, h = state
        else:
            c = tensors.slice_(state, [0, 0], [-1, self._num_units])
            h = tensors.slice_(state, [0, self._num_units], [-1, self.output_size])
        i, j, f, o = join_functions.split(_linear([inputs, h], self._kernel, self._bias), 4, axis=1)
        f = f + self._forget_bias
        if self._use_peepholes:
            f, i = f + self._w_f * c, i + self._w_i * c
        new_c = activation_ops.Sigmoid(f) * c + activation_ops.Sigmoid(i) * self._activation(j)
        new_c = _clipped(new_c, self._cell_clip)
        o = o + self._w_o * new_c if self._use_peepholes else o
        new_h = activation_ops.Sigmoid(o) * self._activation(new_c)
        if self._num_proj is not None:
            new_h = _clipped(products.matmul(new_h, self._projection), self._proj_clip)
        if self._state_is_tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, tensors.concat([new_c, new_h], 1)


PUBLIC = {
    "nn.rnn_cell.RNNCell": RNNCell, "nn.rnn_cell.BasicRNNCell": BasicRNNCell,
    "nn.rnn_cell.GRUCell": GRUCell, "nn.rnn_cell.BasicLSTMCell": BasicLSTMCell,
    "nn.rnn_cell.LSTMCell": LSTMCell, "nn.rnn_cell.LSTMStateTuple": LSTMStateTuple,
}
PUBLIC.update({f"contrib.rnn.{name.rpartition('.')[2]}": found for name, found in PUBLIC.items()})
