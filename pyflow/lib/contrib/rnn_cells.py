"""tf.contrib.rnn beyond tf.nn.rnn_cell: projections and embeddings around a cell, layer-normalised LSTM,
update gates, attention over the last outputs, stacked bidirectional networks.

    cell = tf.contrib.rnn.LayerNormBasicLSTMCell(64, dropout_keep_prob=0.9)
    cell = tf.contrib.rnn.AttentionCellWrapper(cell, attn_length=10)

Variables have TensorFlow 1.15's names: `kernel` and `bias` in the scope of the cell.
Sources: TF's contrib/rnn/python/ops; Ba et al. 2016 (layer normalisation); Collins et al. 2017
(update gate); Bahdanau et al. 2015 (attention).
"""
import math

from pyflow.framework import dtypes, graph, nest
from pyflow.lib.array import join_functions
from pyflow.lib.math import reductions
from pyflow.lib.nn import nn_functions, norm_functions, softmax_functions
from pyflow.lib.rnn import rnn, rnn_static
from pyflow.lib.rnn.rnn_cell import LSTMStateTuple, activation_of
from pyflow.lib.rnn.rnn_cell_base import RNNCell, require_cell
from pyflow.lib.rnn.rnn_cell_wrappers import _Wrapper
from pyflow.lib.variables import initializers
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import activation_ops, unary_ops
from pyflow.ops.gemm import products


def _linear(parts, width):
    """parts * kernel + bias, [batch, width], with variables of the scope at hand."""
    joined = parts[0] if len(parts) == 1 else tensors.concat(parts, 1)
    dtype = joined.dtype.base_dtype
    kernel = vs.get_variable("kernel", [int(joined.shape[1]), width], dtype=dtype)
    bias = vs.get_variable("bias", [width], dtype=dtype,
                           initializer=initializers.Zeros(dtype=dtype))
    return products.matmul(joined, kernel) + bias


class _Around(_Wrapper):
    """A wrapper with variables of its own, beside the cell's, in one scope."""

    __call__ = RNNCell.__call__

    def __init__(self, cell, reuse=None):
        RNNCell.__init__(self, _reuse=reuse)
        require_cell("cell", cell)
        self.cell = self._cell = cell


class InputProjectionWrapper(_Around):
    """The cell, on inputs * kernel + bias.  TF: contrib.rnn.InputProjectionWrapper."""

    def __init__(self, cell, num_proj, activation=None, input_size=None, reuse=None):
        """num_proj: of the projection; activation: of it, default none; input_size: not used."""
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs, state):
        """One step."""
        projected = _linear([inputs], self._num_proj)
        return self.cell(self._activation(projected) if self._activation else projected, state)


class OutputProjectionWrapper(_Around):
    """The cell's output * kernel + bias.  TF: contrib.rnn.OutputProjectionWrapper."""

    def __init__(self, cell, output_size, activation=None, reuse=None):
        """output_size: of the projection, at least 1 (ValueError); activation: default none."""
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._size, self._activation = output_size, activation

    @property
    def output_size(self):
        return self._size

    def call(self, inputs, state):
        """One step."""
        output, new_state = self.cell(inputs, state)
        projected = _linear([output], self._size)
        return self._activation(projected) if self._activation else projected, new_state


class EmbeddingWrapper(_Around):
    """The cell, on rows of a table at inputs of integers.  TF: contrib.rnn.EmbeddingWrapper."""

    def __init__(self, cell, embedding_classes, embedding_size, initializer=None, reuse=None):
        """embedding_classes, embedding_size: the table's sizes; initializer: default the scope's,
        else uniform in -sqrt(3) to sqrt(3)."""
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError("Both embedding_classes and embedding_size must be > 0: "
                             f"{embedding_classes}, {embedding_size}.")
        self._classes, self._size, self._initializer = embedding_classes, embedding_size, initializer

    def call(self, inputs, state):
        """One step."""
        limit = math.sqrt(3)
        start = (self._initializer or vs.get_variable_scope().initializer or
                 initializers.RandomUniform(-limit, limit))
        table = vs.get_variable("embedding", [self._classes, self._size], initializer=start,
                                dtype=nest.flatten(state)[0].dtype.base_dtype)
        rows = nn_functions.embedding_lookup(table, tensors.reshape(inputs, [-1]))
        return self.cell(rows, state)


class LayerNormBasicLSTMCell(RNNCell):
    """LSTM with layer normalisation of its gates and state, and dropout of the candidate.
    TF: contrib.rnn.LayerNormBasicLSTMCell."""

    def __init__(self, num_units, forget_bias=1.0, input_size=None, activation=activation_ops.Tanh,
                 layer_norm=True, norm_gain=1.0, norm_shift=0.0, dropout_keep_prob=1.0,
                 dropout_prob_seed=None, reuse=None):
        """layer_norm: whether; norm_gain, norm_shift: where its gamma and beta begin;
        dropout_keep_prob: a float or scalar tensor; dropout_prob_seed: of its draws."""
        super().__init__(_reuse=reuse)
        self._num_units, self._forget_bias = num_units, forget_bias
        self._activation = activation_of(activation, activation_ops.Tanh)
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    @property
    def state_size(self):
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        return self._num_units

    def _norm(self, x, scope):
        """x with mean beta and deviation gamma along each row."""
        if not self._layer_norm:
            return x
        shape, dtype = x.shape.as_list()[-1:], x.dtype.base_dtype
        with vs.variable_scope(scope):
            gamma = vs.get_variable("gamma", shape, dtype=dtype, initializer=(
                initializers.Constant(self._norm_gain)))
            beta = vs.get_variable("beta", shape, dtype=dtype, initializer=(
                initializers.Constant(self._norm_shift)))
        mean, variance = norm_functions.moments(x, [1], keep_dims=True)
        epsilon = 1e-3 if dtype == dtypes.float16 else 1e-12
        return (x - mean) * unary_ops.Rsqrt(variance + epsilon) * gamma + beta

    def call(self, inputs, state):
        """One step."""
        c, h = state
        joined = tensors.concat([inputs, h], 1)
        width, dtype = 4 * self._num_units, joined.dtype.base_dtype
        kernel = vs.get_variable("kernel", [int(joined.shape[1]), width], dtype=dtype)
        gates = products.matmul(joined, kernel)
        if not self._layer_norm:                # begins as the scope says, unlike other cells'
            gates = gates + vs.get_variable("bias", [width], dtype=dtype)
        i, j, f, o = join_functions.split(gates, 4, axis=1)
        i, j = self._norm(i, "input"), self._norm(j, "transform")
        f, o = self._norm(f, "forget"), self._norm(o, "output")
        candidate = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            candidate = nn_functions.dropout(candidate, self._keep_prob, seed=self._seed)
        new_c = (c * activation_ops.Sigmoid(f + self._forget_bias) +
                 activation_ops.Sigmoid(i) * candidate)
        new_c = self._norm(new_c, "state")
        new_h = self._activation(new_c) * activation_ops.Sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


class UGRNNCell(RNNCell):
    """One gate: g * state + (1 - g) * activation(candidate), g = sigmoid(gate + forget_bias).
    TF: contrib.rnn.UGRNNCell."""

    def __init__(self, num_units, initializer=None, forget_bias=1.0, activation=activation_ops.Tanh,
                 reuse=None):
        """initializer: of the kernel and bias, default the scope's."""
        super().__init__(_reuse=reuse)
        self._num_units, self._initializer, self._forget_bias = num_units, initializer, forget_bias
        self._activation = activation_of(activation, activation_ops.Tanh)

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def call(self, inputs, state):
        """One step."""
        with vs.variable_scope(vs.get_variable_scope(), initializer=self._initializer):
            both = _linear([inputs, state], 2 * self._num_units)
        gate, candidate = join_functions.split(both, 2, axis=1)
        g = activation_ops.Sigmoid(gate + self._forget_bias)
        new = g * state + (1.0 - g) * self._activation(candidate)
        return new, new


class AttentionCellWrapper(_Around):
    """The cell, with attention over its last attn_length outputs.
    TF: contrib.rnn.AttentionCellWrapper."""

    def __init__(self, cell, attn_length, attn_size=None, attn_vec_size=None, input_size=None,
                 state_is_tuple=True, reuse=None):
        """attn_size: of outputs, default the cell's; attn_vec_size: of the attention's vectors,
        default attn_size; input_size: what inputs are projected to, default theirs;
        state_is_tuple: whether the state is (cell's state, attention, last outputs) or one tensor
        of these, for which the cell's state is one tensor, too (ValueError)."""
        super().__init__(cell, reuse)
        if nest.is_sequence(cell.state_size) and not state_is_tuple:
            raise ValueError("Cell returns tuple of states, but the flag state_is_tuple is not set. "
                             f"State size is: {cell.state_size}")
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._length = attn_length
        self._attn_size = attn_size or cell.output_size
        self._vec_size = attn_vec_size or self._attn_size
        self._input_size, self._is_tuple = input_size, state_is_tuple

    @property
    def state_size(self):
        sizes = self.cell.state_size, self._attn_size, self._attn_size * self._length
        return sizes if self._is_tuple else sum(sizes)

    @property
    def output_size(self):
        return self._attn_size

    def zero_state(self, batch_size, dtype):
        """Zeros."""
        return RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs, state):
        """One step."""
        if not self._is_tuple:
            n = self.cell.state_size
            state = (state[:, :n], state[:, n:n + self._attn_size], state[:, n + self._attn_size:])
        inner, attention, outputs = state
        outputs = tensors.reshape(outputs, [-1, self._length, self._attn_size])
        inputs = _linear([inputs, attention], self._input_size or int(inputs.shape[1]))
        output, inner = self.cell(inputs, inner)
        attention = self._attend(tensors.concat(nest.flatten(inner), 1), outputs)
        with vs.variable_scope("attn_output_projection"):
            output = _linear([output, attention], self._attn_size)
        outputs = tensors.concat([outputs[:, 1:], tensors.expand_dims(output, 1)], 1)
        outputs = tensors.reshape(outputs, [-1, self._length * self._attn_size])
        new = inner, attention, outputs
        return output, new if self._is_tuple else tensors.concat(new, 1)

    def _attend(self, query, outputs):
        """The outputs' mean, weighted by softmax(v tanh(W output + linear(query)))."""
        with vs.variable_scope("attention"):
            w = vs.get_variable("attn_w", [1, 1, self._attn_size, self._vec_size])
            v = vs.get_variable("attn_v", [self._vec_size])
            flat = tensors.reshape(outputs, [-1, self._attn_size])
            features = products.matmul(flat, tensors.reshape(w, [self._attn_size, self._vec_size]))
            features = tensors.reshape(features, [-1, self._length, self._vec_size])
            asked = tensors.expand_dims(_linear([query], self._vec_size), 1)
            scores = reductions.reduce_sum(v * activation_ops.Tanh(features + asked), 2)
            weights = tensors.expand_dims(softmax_functions.softmax(scores), 2)
            return reductions.reduce_sum(weights * outputs, 1)


def _checked_cells(cells_fw, cells_bw, states_fw, states_bw):
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"{name} must be a list of RNNCells (one per layer), got {cells!r}")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
    for name, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and (not isinstance(states, list) or len(states) != len(cells_fw)):
            raise ValueError(f"{name} must be a list of state tensors (one per layer).")


def stack_bidirectional_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None,
                            initial_states_bw=None, dtype=None, sequence_length=None, scope=None):
    """(outputs, states forward, states backward) of bidirectional layers, each on the concatenated
    outputs of the one below, steps written out.  TF: contrib.rnn.stack_bidirectional_rnn.

    cells_fw, cells_bw: lists, a cell a layer. inputs: list of [batch, size]. ValueError for lists
    that do not fit.
    Floats.
    """
    _checked_cells(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    layer, forward, backward = inputs, [], []
    with vs.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw)):
            with vs.variable_scope(f"cell_{i}") as inner:
                layer, state_fw, state_bw = rnn_static.static_bidirectional_rnn(
                    fw, bw, layer, initial_states_fw and initial_states_fw[i],
                    initial_states_bw and initial_states_bw[i], dtype, sequence_length, inner)
            forward.append(state_fw)
            backward.append(state_bw)
    return layer, tuple(forward), tuple(backward)


def stack_bidirectional_dynamic_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None,
                                    initial_states_bw=None, dtype=None, sequence_length=None,
                                    parallel_iterations=None, time_major=False, scope=None,
                                    swap_memory=False):
    """(outputs [batch, time, 2 * size], states forward, states backward) of bidirectional layers,
    each on the concatenated outputs of the one below.
    TF: contrib.rnn.stack_bidirectional_dynamic_rnn.

    cells_fw, cells_bw: lists, a cell a layer; inputs: [batch, time, size], or time first with
    time_major. ValueError for lists that do not fit.
    Floats.
    """
    _checked_cells(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    layer, forward, backward = inputs, [], []
    with vs.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (fw, bw) in enumerate(zip(cells_fw, cells_bw)):
            with vs.variable_scope(f"cell_{i}"):
                outputs, (state_fw, state_bw) = rnn.bidirectional_dynamic_rnn(
                    fw, bw, layer, initial_state_fw=initial_states_fw and initial_states_fw[i],
                    initial_state_bw=initial_states_bw and initial_states_bw[i],
                    sequence_length=sequence_length, parallel_iterations=parallel_iterations,
                    dtype=dtype, swap_memory=swap_memory, time_major=time_major)
                layer = tensors.concat(outputs, 2)
            forward.append(state_fw)
            backward.append(state_bw)
    return layer, tuple(forward), tuple(backward)


def transpose_batch_time(x):
    """x with its first two dimensions exchanged.  ValueError below two dimensions.
    Floats.
    """
    x = graph.convert_to_tensor(x)
    if x.shape.ndims is not None and x.shape.ndims < 2:
        raise ValueError(f"Expected input tensor {x} to have rank at least 2, but saw shape: "
                         f"{x.shape}")
    return rnn.swap_batch_and_time(x)


PUBLIC = {f"contrib.rnn.{f.__name__}": f for f in (
    InputProjectionWrapper, OutputProjectionWrapper, EmbeddingWrapper, LayerNormBasicLSTMCell,
    UGRNNCell, AttentionCellWrapper, stack_bidirectional_rnn, stack_bidirectional_dynamic_rnn,
    transpose_batch_time)}
