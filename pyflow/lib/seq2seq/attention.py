"""Attention: mechanisms (Bahdanau's, Luong's) and AttentionWrapper, a cell that attends.

Invariants
  1. A mechanism is called with (query [batch, depth], state) and gives (alignments [batch, time],
     state); its memory is masked beyond memory_sequence_length.
  2. AttentionWrapper's state is an AttentionWrapperState; single entries for one mechanism, tuples
     for a list of them.

Thread: the one building the graph.
Source: TF 1.15 tf.contrib.seq2seq; Bahdanau et al. 2015; Luong et al. 2015; Salimans and
Kingma 2016.

Example:
    attention = tf.contrib.seq2seq.LuongAttention(64, encoder_outputs, lengths, scale=True)
    cell = tf.contrib.seq2seq.AttentionWrapper(cell, attention, attention_layer_size=64)
    state = cell.zero_state(batch, tf.float32).clone(cell_state=encoder_state)
"""
import collections
import math

import numpy as np

from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array.gather_functions import one_hot
from pyflow.lib.layers.core import Dense
from pyflow.lib.math import logic_functions, matmul_functions, reductions
from pyflow.lib.nn import nn_functions, softmax_functions
from pyflow.lib.rnn.rnn_cell_base import RNNCell, require_cell
from pyflow.lib.variables import initializers
from pyflow.lib.variables.variable_scope import get_variable, variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.containers.tensor_arrays import TensorArray
from pyflow.ops.elementwise import activation_ops, unary_ops


class AttentionMechanism(ShowsArguments):
    """What AttentionWrapper asks where to look; subclasses give `score(query)`.

    TF: tf.contrib.seq2seq.AttentionMechanism."""

    def __init__(self, scope_name, query_layer, memory_layer, memory, memory_sequence_length,
                 probability_fn, score_mask_value, name):
        if memory_layer is not None and not callable(memory_layer):
            raise TypeError(f"memory_layer is not a Layer: {type(memory_layer)}")
        self._scope_name = scope_name
        self.query_layer, self.memory_layer = query_layer, memory_layer
        self._probability = probability_fn or softmax_functions.softmax
        with ops.name_scope(name, "BaseAttentionMechanismInit", [memory]):
            memory = ops.convert_to_tensor(memory, name="memory")
            if memory.shape.ndims is None or memory.shape.ndims < 3 or \
                    memory.shape[-1].value is None:
                raise ValueError("memory must be [batch, time, depth] with a known depth, got "
                                 f"shape {memory.shape}")
            self._lengths = None
            if memory_sequence_length is not None:
                self._lengths = ops.convert_to_tensor(memory_sequence_length,
                                                      name="memory_sequence_length")
                mask = nn_functions.sequence_mask(self._lengths, tensors.shape(memory)[1],
                                                  memory.dtype)
                for _ in range(memory.shape.ndims - 2):
                    mask = tensors.expand_dims(mask, -1)
                memory = memory * mask
            self.values = memory
            self.keys = memory if memory_layer is None else memory_layer(memory)
            self.batch_size = self.keys.shape[0].value or tensors.shape(self.keys)[0]
            self.alignments_size = self.keys.shape[1].value or tensors.shape(self.keys)[1]
        dtype = self.keys.dtype.as_numpy_dtype
        self._masked = dtype(-np.inf) if score_mask_value is None else score_mask_value

    @property
    def state_size(self):
        """That of the alignments."""
        return self.alignments_size

    def initial_alignments(self, batch_size, dtype):
        """Zeros [batch, time]."""
        return tensors.zeros([batch_size, self.alignments_size], dtype)

    def initial_state(self, batch_size, dtype):
        """Zeros [batch, time]."""
        return self.initial_alignments(batch_size, dtype)

    def __call__(self, query, state):
        with variable_scope(None, self._scope_name, [query]):
            score = self.score(query if self.query_layer is None else self.query_layer(query))
            if self._lengths is not None:
                mask = nn_functions.sequence_mask(self._lengths, tensors.shape(score)[1])
                score = logic_functions.where(mask, score,
                                              self._masked * tensors.ones_like(score))
            alignments = self._probability(score)
            return alignments, alignments


class BahdanauAttention(AttentionMechanism):
    """Scores v . tanh(keys + query), of num_units units; `normalize`: g v / |v| . tanh(... + b).

    memory: floats [batch, time, depth]. memory_sequence_length: int [batch], what lies beyond is
    not attended. probability_fn: of scores [batch, time], softmax where None. score_mask_value:
    the score of what is masked, -inf where None. dtype: of the layers. Variables: memory_layer,
    query_layer (kernels), attention_v, and attention_g, attention_b.
    TF: tf.contrib.seq2seq.BahdanauAttention."""

    def __init__(self, num_units, memory, memory_sequence_length=None, normalize=False,
                 probability_fn=None, score_mask_value=None, dtype=None, name="BahdanauAttention"):
        dtype = dtypes.float32 if dtype is None else dtype
        self._units, self._normalize = num_units, normalize
        super().__init__(
            "bahdanau_attention", Dense(num_units, name="query_layer", use_bias=False, dtype=dtype),
            Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype), memory,
            memory_sequence_length, probability_fn, score_mask_value, name)

    def score(self, query):
        """[batch, time]."""
        dtype, query = query.dtype, tensors.expand_dims(query, 1)
        v = get_variable("attention_v", [self._units], dtype)
        if not self._normalize:
            return reductions.reduce_sum(v * activation_ops.Tanh(self.keys + query), [2])
        g = get_variable("attention_g", (), dtype,
                         initializers.Constant(math.sqrt(1.0 / self._units)))
        b = get_variable("attention_b", [self._units], dtype, initializers.Zeros())
        normed = g * v * unary_ops.Rsqrt(reductions.reduce_sum(unary_ops.Square(v)))
        return reductions.reduce_sum(normed * activation_ops.Tanh(self.keys + query + b), [2])


class LuongAttention(AttentionMechanism):
    """Scores query . keys, times the variable attention_g where `scale`.

    num_units: the query's depth; ValueError at a call with another. Other arguments: as
    BahdanauAttention's. TF: tf.contrib.seq2seq.LuongAttention."""

    def __init__(self, num_units, memory, memory_sequence_length=None, scale=False,
                 probability_fn=None, score_mask_value=None, dtype=None, name="LuongAttention"):
        dtype = dtypes.float32 if dtype is None else dtype
        self._scale = scale
        super().__init__(
            "luong_attention", None,
            Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype), memory,
            memory_sequence_length, probability_fn, score_mask_value, name)

    def score(self, query):
        """[batch, time]."""
        depth, units = query.shape[-1].value, self.keys.shape[-1].value
        if depth != units:
            raise ValueError("Incompatible or unknown inner dimensions between query and keys: the "
                             f"query has {depth} units, the keys {units}. Perhaps you need to set "
                             "num_units to the keys' dimension?")
        score = tensors.squeeze(matmul_functions.matmul(
            tensors.expand_dims(query, 1), self.keys, transpose_b=True), [1])
        if self._scale:
            score = get_variable("attention_g", (), query.dtype, initializers.Ones()) * score
        return score


class AttentionWrapperState(collections.namedtuple(
        "AttentionWrapperState", ("cell_state", "attention", "time", "alignments",
                                  "alignment_history", "attention_state"))):
    """The state of an AttentionWrapper. TF: tf.contrib.seq2seq.AttentionWrapperState.

    cell_state: the cell's; attention: [batch, size]; time: scalar int32; alignments,
    attention_state: [batch, time]; alignment_history: a TensorArray, or ()."""

    __slots__ = ()

    def clone(self, **kwargs):
        """The same with some entries replaced; shapes that are known stay."""
        def with_shape(old, new):
            if isinstance(old, ops.Tensor) and isinstance(new, ops.Tensor):
                new.set_shape(old.shape)
            return new
        return nest.map_structure(with_shape, self, self._replace(**kwargs))


class AttentionWrapper(RNNCell):
    """A cell whose inputs and outputs are joined with what is attended to.

    attention_mechanism: one, or a list. attention_layer_size: of a layer on [output, context], an
    int or a list; None: the context itself. attention_layer: such layers in its place.
    alignment_history: whether all alignments are kept, [time, batch, memory's time] by stack().
    cell_input_fn(inputs, attention): their concatenation where None. output_attention: whether the
    attention is the output, else the cell's. initial_cell_state: for zero_state.
    ValueError for numbers of layers that do not fit. TF: tf.contrib.seq2seq.AttentionWrapper."""

    def __init__(self, cell, attention_mechanism, attention_layer_size=None,
                 alignment_history=False, cell_input_fn=None, output_attention=True,
                 initial_cell_state=None, name=None, attention_layer=None):
        super().__init__(name=name)
        require_cell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        for mechanism in self._mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError("attention_mechanism must contain only instances of "
                                f"AttentionMechanism, saw type: {type(mechanism)}")
        self._cell, self._output_attention = cell, output_attention
        self._history = alignment_history
        self._input_fn = cell_input_fn or (
            lambda inputs, attention: tensors.concat([inputs, attention], -1))
        self._make_layers(attention_layer_size, attention_layer)
        self._initial_cell_state = initial_cell_state

    def _make_layers(self, sizes, layers):
        if sizes is not None and layers is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        self._layers = None
        if sizes is not None:
            sizes = tuple(sizes) if isinstance(sizes, (list, tuple)) else (sizes,)
            layers = tuple(Dense(size, name="attention_layer", use_bias=False,
                                 dtype=m.values.dtype)
                           for size, m in zip(sizes, self._mechanisms))
            count, self._attention_sizes = len(sizes), sizes
        elif layers is not None:
            layers = tuple(layers) if isinstance(layers, (list, tuple)) else (layers,)
            count = len(layers)
            self._attention_sizes = tuple(
                layer.compute_output_shape(TensorShape(
                    [None, self._cell.output_size + m.values.shape[-1].value]))[-1].value
                for layer, m in zip(layers, self._mechanisms))
        else:
            count = len(self._mechanisms)
            self._attention_sizes = tuple(m.values.shape[-1].value for m in self._mechanisms)
        if count != len(self._mechanisms):
            raise ValueError("If provided, attention_layer_size and attention_layer must contain "
                             "exactly one entry per attention_mechanism, saw: "
                             f"{count} vs {len(self._mechanisms)}")
        self._layers = layers

    def _items(self, entries):
        entries = tuple(entries)
        return entries if self._is_multi else entries[0]

    @property
    def output_size(self):
        """The attention's, or the cell's."""
        return sum(self._attention_sizes) if self._output_attention else self._cell.output_size

    @property
    def state_size(self):
        """An AttentionWrapperState of sizes."""
        sizes = [m.alignments_size for m in self._mechanisms]
        return AttentionWrapperState(
            self._cell.state_size, sum(self._attention_sizes), TensorShape([]),
            self._items(sizes), self._items(s if self._history else () for s in sizes),
            self._items(m.state_size for m in self._mechanisms))

    def zero_state(self, batch_size, dtype):
        """The state before the first step; clone(cell_state=...) gives it the encoder's."""
        with ops.name_scope("AttentionWrapperZeroState", values=[batch_size]):
            state = self._cell.zero_state(batch_size, dtype) if self._initial_cell_state is None \
                else self._initial_cell_state
            first = [m.initial_alignments(batch_size, dtype) for m in self._mechanisms]
            history = [TensorArray(dtype, size=0, dynamic_size=True, element_shape=a.shape)
                       if self._history else () for a in first]
            return AttentionWrapperState(
                nest.map_structure(identity_ops.Identity, state),
                tensors.zeros([batch_size, sum(self._attention_sizes)], dtype),
                tensors.zeros([], dtypes.int32), self._items(first), self._items(history),
                self._items(m.initial_state(batch_size, dtype) for m in self._mechanisms))

    def call(self, inputs, state):
        """(attention or cell output, AttentionWrapperState). TypeError for another state."""
        if not isinstance(state, AttentionWrapperState):
            raise TypeError("Expected state to be instance of AttentionWrapperState. Received type "
                            f"{type(state)} instead.")
        output, cell_state = self._cell(self._input_fn(inputs, state.attention), state.cell_state)
        before, history = ((e if self._is_multi else (e,)) for e in (
            state.attention_state, state.alignment_history))
        attentions, alignments, states, histories = [], [], [], []
        for i, mechanism in enumerate(self._mechanisms):
            aligned, after = mechanism(output, before[i])
            context = tensors.squeeze(matmul_functions.matmul(
                tensors.expand_dims(aligned, 1), mechanism.values), [1])
            attentions.append(context if self._layers is None else
                              self._layers[i](tensors.concat([output, context], 1)))
            histories.append(history[i].write(state.time, aligned) if self._history else ())
            alignments.append(aligned)
            states.append(after)
        attention = tensors.concat(attentions, 1) if len(attentions) > 1 else attentions[0]
        after = AttentionWrapperState(
            cell_state, attention, state.time + 1, self._items(alignments),
            self._items(histories), self._items(states))
        return (attention if self._output_attention else output), after


def hardmax(logits, name=None):
    """One-hot of the largest along the last dimension, of any float dtype.

    logits: of rank 1 or more; TypeError for strings.
    TF: tf.contrib.seq2seq.hardmax."""
    with ops.name_scope(name, "Hardmax", [logits]):
        logits = ops.convert_to_tensor(logits)
        depth = logits.shape[-1].value or tensors.shape(logits)[-1]
        return one_hot(reductions.argmax(logits, -1), depth, dtype=logits.dtype)


PUBLIC = {f"contrib.seq2seq.{value.__name__}": value for value in (
    AttentionMechanism, BahdanauAttention, LuongAttention, AttentionWrapper, AttentionWrapperState,
    hardmax)}
