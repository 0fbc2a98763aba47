"""Whole models of tf.contrib.legacy_seq2seq: an encoder over a list of steps, and a decoder that
starts from its state, looks at its outputs, or both.

Invariants
  1. A sequence is a list with one tensor per time step; all steps have one batch.
  2. Variables have TensorFlow 1.15's names and shapes, so that its checkpoints fit.
  3. `feed_previous`, a Python bool, chooses when the graph is built whether each step but the first
     reads the symbol just said in place of the one given; a bool tensor chooses in each run,
     through tf.cond over both decoders, which share their variables.

Thread: the one building the graph.  Sources: TF 1.15, contrib.legacy_seq2seq; Sutskever et al.
2014 (arXiv:1409.3215); Vinyals et al. 2015 (arXiv:1412.7449), the attention.

Example:  `outputs, state = tf.contrib.legacy_seq2seq.embedding_attention_seq2seq(
    questions, answers, cell, 1000, 2000, 64, feed_previous=False)`.
"""
import copy

from pyflow.framework import dtypes, graph, nest
from pyflow.lib.array import identity_functions, join_functions
from pyflow.lib.contrib.rnn_cells import EmbeddingWrapper, OutputProjectionWrapper, _linear
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import reductions
from pyflow.lib.nn import conv2d_functions, nn_functions, softmax_functions
from pyflow.lib.rnn import rnn_static
from pyflow.lib.rnn.legacy_seq2seq import rnn_decoder
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import activation_ops
from pyflow.ops.gemm import products


# ---------------------------------------------------------------- what a decoder reads

def _said_before(embedding, output_projection, trains_embedding):
    """loop_function(output, step) -> the row of `embedding` of the likeliest symbol."""
    def loop_function(output, step):
        if output_projection is not None:
            weights, biases = output_projection
            output = products.matmul(output, weights) + biases
        rows = nn_functions.embedding_lookup(embedding, reductions.argmax(output, 1))
        return rows if trains_embedding else identity_functions.stop_gradient(rows)
    return loop_function


def _checked_projection(output_projection, symbols, dtype):
    """ValueError unless output_projection is None or weights [size, symbols], biases [symbols]."""
    if output_projection is not None:
        weights, biases = (graph.convert_to_tensor(x, dtype=dtype) for x in output_projection)
        weights.shape.assert_is_compatible_with([None, symbols])
        biases.shape.assert_is_compatible_with([symbols])


def _decoded(feed_previous, decoder, structure):
    """decoder(bool, trains_embedding) -> (outputs, state), for `feed_previous` a bool or a tensor;
    `structure`: any state of the decoder's."""
    if isinstance(feed_previous, bool):
        return decoder(feed_previous, True)
    counted = []

    def flat(feeds):
        with vs.variable_scope(vs.get_variable_scope(), reuse=None if feeds else True):
            outputs, state = decoder(feeds, False)
        counted.append(len(outputs))
        return [*outputs, *nest.flatten(state)]
    found = cond(feed_previous, lambda: flat(True), lambda: flat(False))
    return found[:counted[0]], nest.pack_sequence_as(structure, found[counted[0]:])


# ---------------------------------------------------------------- plain models

def basic_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, dtype=dtypes.float32, scope=None):
    """A copy of `cell` over encoder_inputs, then `cell` over decoder_inputs from its last state:
    (outputs, a list of [batch, output size]; the final state).

    encoder_inputs, decoder_inputs: lists of [batch, input size]; dtype: of the encoder's first
    state. ValueError for shapes that do not fit. TF: contrib.legacy_seq2seq.basic_rnn_seq2seq."""
    with vs.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = rnn_static.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, loop_function=None,
                     dtype=dtypes.float32, scope=None):
    """As `basic_rnn_seq2seq`, with one cell and its variables for encoder and decoder.

    encoder_inputs, decoder_inputs: lists of floats [batch, input size]; loop_function(output, step)
    gives the decoder's input of each step but the first. ValueError for shapes that do not fit.
    TF: contrib.legacy_seq2seq.tied_rnn_seq2seq."""
    with vs.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = rnn_static.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        vs.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


def embedding_rnn_decoder(decoder_inputs, initial_state, cell, num_symbols, embedding_size,
                          output_projection=None, feed_previous=False,
                          update_embedding_for_previous=True, scope=None):
    """`rnn_decoder` over rows of a table "embedding" [num_symbols, embedding_size].

    decoder_inputs: list of int32 [batch]; output_projection: None, or (weights, biases) from the
    cell's output to num_symbols, which decides what feed_previous (a bool) reads; it is not in the
    outputs. update_embedding_for_previous: whether gradients flow into rows read back. ValueError
    if shapes do not fit. TF: contrib.legacy_seq2seq.embedding_rnn_decoder."""
    with vs.variable_scope(scope or "embedding_rnn_decoder") as scope:
        _checked_projection(output_projection, num_symbols, scope.dtype)
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size])
        reads = _said_before(embedding, output_projection,
                             update_embedding_for_previous) if feed_previous else None
        rows = [nn_functions.embedding_lookup(embedding, i) for i in decoder_inputs]
        return rnn_decoder(rows, initial_state, cell, loop_function=reads)


def embedding_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, num_encoder_symbols,
                          num_decoder_symbols, embedding_size, output_projection=None,
                          feed_previous=False, dtype=None, scope=None):
    """An encoder over symbols, then `embedding_rnn_decoder`: (outputs, state). Outputs are
    [batch, num_decoder_symbols], or with output_projection [batch, output size].

    encoder_inputs, decoder_inputs: lists of int32 [batch]; feed_previous: a bool or a bool tensor
    (of the first symbol alone the decoder then reads decoder_inputs); dtype: of the states, default
    the scope's. ValueError if shapes do not fit.
    TF: contrib.legacy_seq2seq.embedding_rnn_seq2seq."""
    with vs.variable_scope(scope or "embedding_rnn_seq2seq") as scope:
        if dtype is not None:
            scope.set_dtype(dtype)
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = rnn_static.static_rnn(encoder, encoder_inputs, dtype=dtype or scope.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decoder(feeds, trains_embedding):
            return embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols, embedding_size,
                output_projection, feeds, trains_embedding)
        return _decoded(feed_previous, decoder, state)


def embedding_tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, num_symbols, embedding_size,
                               num_decoder_symbols=None, output_projection=None,
                               feed_previous=False, dtype=None, scope=None):
    """As `embedding_rnn_seq2seq`, with one table and one cell for encoder and decoder.

    encoder_inputs, decoder_inputs: lists of int32 [batch]; num_decoder_symbols: columns of the
    outputs, floats [batch, num_decoder_symbols], default num_symbols. ValueError if
    output_projection does not fit. TF: contrib.legacy_seq2seq.embedding_tied_rnn_seq2seq."""
    with vs.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as scope:
        dtype = scope.dtype
        _checked_projection(output_projection, num_symbols, dtype)
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size], dtype=dtype)
        encoded, decoded = ([nn_functions.embedding_lookup(embedding, i) for i in inputs]
                            for inputs in (encoder_inputs, decoder_inputs))
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)

        def decoder(feeds, trains_embedding):
            reads = _said_before(embedding, output_projection,
                                 trains_embedding) if feeds else None
            return tied_rnn_seq2seq(encoded, decoded, cell, loop_function=reads, dtype=dtype)
        return _decoded(feed_previous, decoder, cell.state_size)


# ---------------------------------------------------------------- attention

class _Attention:
    """`heads` weighted means of attention_states, each of another part of a query."""

    def __init__(self, attention_states, heads, dtype):
        self.states, self.dtype = attention_states, dtype
        self.size = attention_states.shape[2].value
        self.length = attention_states.shape[1].value or tensors.shape(attention_states)[1]
        self.hidden = tensors.reshape(attention_states, [-1, self.length, 1, self.size])
        self.heads = []
        for head in range(heads):
            kernel = vs.get_variable(f"AttnW_{head}", [1, 1, self.size, self.size], dtype=dtype)
            features = conv2d_functions.conv2d(self.hidden, kernel, [1, 1, 1, 1], "SAME")
            self.heads.append(
                (features, vs.get_variable(f"AttnV_{head}", [self.size], dtype=dtype)))

    def read(self, query):
        """A list of [batch, size], one per head, for a state (a tensor or a nest of such)."""
        flat = nest.flatten(query)
        query = flat[0] if len(flat) == 1 else tensors.concat(flat, 1)
        found = []
        for head, (features, v) in enumerate(self.heads):
            with vs.variable_scope(f"Attention_{head}"):
                y = _linear([query], self.size)
                y = tensors.cast(tensors.reshape(y, [-1, 1, 1, self.size]), self.dtype)
                score = reductions.reduce_sum(v * activation_ops.Tanh(features + y), [2, 3])
                share = tensors.cast(softmax_functions.softmax(
                    tensors.cast(score, dtypes.float32)), self.dtype)
                mean = reductions.reduce_sum(
                    tensors.reshape(share, [-1, self.length, 1, 1]) * self.hidden, [1, 2])
                found.append(tensors.reshape(mean, [-1, self.size]))
        return found


def attention_decoder(decoder_inputs, initial_state, attention_states, cell, output_size=None,
                      num_heads=1, loop_function=None, dtype=None, scope=None,
                      initial_state_attention=False):
    """`cell` over decoder_inputs, each joined with what the step before read of attention_states:
    (outputs, a list of [batch, output_size]; the final state).

    decoder_inputs: list of floats [batch, input size]; attention_states: [batch, length, size];
    num_heads: means read per step; loop_function(output, step): gives the input of each step but
    the first; initial_state_attention: the first step reads with initial_state instead of zeros.
    ValueError without inputs or heads, or if a size is not known.
    TF: contrib.legacy_seq2seq.attention_decoder."""
    _check_attention(decoder_inputs, attention_states, num_heads)
    output_size = cell.output_size if output_size is None else output_size
    with vs.variable_scope(scope or "attention_decoder", dtype=dtype) as scope:
        dtype = scope.dtype
        attention = _Attention(attention_states, num_heads, dtype)
        state, outputs = initial_state, []
        read = _read_first(attention, decoder_inputs[0], initial_state, initial_state_attention)
        for i, x in enumerate(decoder_inputs):
            if i > 0:
                vs.get_variable_scope().reuse_variables()
                if loop_function is not None:
                    with vs.variable_scope("loop_function", reuse=True):
                        x = loop_function(outputs[-1], i)
            size = x.shape.with_rank(2)[1].value
            if size is None:
                raise ValueError("Could not infer input size from input: its second dimension is "
                                 f"not known, got shape {x.shape} of {x.name}")
            x = _linear([tensors.cast(part, dtype) for part in (x, *read)], size)
            output, state = cell(x, state)
            with vs.variable_scope(vs.get_variable_scope(),
                                   reuse=True if i == 0 and initial_state_attention else None):
                read = attention.read(state)
            with vs.variable_scope("AttnOutputProjection"):
                outputs.append(_linear([tensors.cast(output, dtype), *read], output_size))
        return outputs, state


def _check_attention(decoder_inputs, attention_states, num_heads):
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError(f"With less than 1 heads, use a non-attention decoder: got {num_heads}.")
    if attention_states.shape[2].value is None:
        raise ValueError("Shape[2] of attention_states must be known: got "
                         f"{attention_states.shape}")


def _read_first(attention, first_input, initial_state, reads):
    """What the first step reads: by the initial state, or zeros."""
    if reads:
        return attention.read(initial_state)
    size = join_functions.stack([tensors.shape(first_input)[0], attention.size])
    zeros = [tensors.zeros(size, attention.dtype) for _ in attention.heads]
    for x in zeros:
        x.set_shape([None, attention.size])
    return zeros


def embedding_attention_decoder(decoder_inputs, initial_state, attention_states, cell, num_symbols,
                                embedding_size, num_heads=1, output_size=None,
                                output_projection=None, feed_previous=False,
                                update_embedding_for_previous=True, dtype=None, scope=None,
                                initial_state_attention=False):
    """`attention_decoder` over rows of a table "embedding" [num_symbols, embedding_size].

    decoder_inputs: list of ints [batch]; outputs: floats; the rest, and what is a ValueError, as of
    `embedding_rnn_decoder` and `attention_decoder`. ValueError for shapes that do not fit.
    TF: contrib.legacy_seq2seq.embedding_attention_decoder."""
    with vs.variable_scope(scope or "embedding_attention_decoder", dtype=dtype) as scope:
        if output_projection is not None:
            biases = graph.convert_to_tensor(output_projection[1], dtype=scope.dtype)
            biases.shape.assert_is_compatible_with([num_symbols])
        embedding = vs.get_variable("embedding", [num_symbols, embedding_size])
        reads = _said_before(embedding, output_projection,
                             update_embedding_for_previous) if feed_previous else None
        rows = [nn_functions.embedding_lookup(embedding, i) for i in decoder_inputs]
        return attention_decoder(
            rows, initial_state, attention_states, cell, output_size=output_size,
            num_heads=num_heads, loop_function=reads,
            initial_state_attention=initial_state_attention)


def embedding_attention_seq2seq(encoder_inputs, decoder_inputs, cell, num_encoder_symbols,
                                num_decoder_symbols, embedding_size, num_heads=1,
                                output_projection=None, feed_previous=False, dtype=None,
                                scope=None, initial_state_attention=False):
    """An encoder over symbols, then `embedding_attention_decoder` over its outputs: (outputs,
    state).

    encoder_inputs, decoder_inputs: lists of ints [batch]; outputs, floats, and the other arguments
    as of `embedding_rnn_seq2seq` and `attention_decoder`. ValueError for shapes that do not fit.
    TF: contrib.legacy_seq2seq.embedding_attention_seq2seq."""
    with vs.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as scope:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        encoded, state = rnn_static.static_rnn(encoder, encoder_inputs, dtype=scope.dtype)
        states = tensors.concat(
            [tensors.reshape(x, [-1, 1, cell.output_size]) for x in encoded], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decoder(feeds, trains_embedding):
            return embedding_attention_decoder(
                decoder_inputs, state, states, cell, num_decoder_symbols, embedding_size,
                num_heads=num_heads, output_size=output_size,
                output_projection=output_projection, feed_previous=feeds,
                update_embedding_for_previous=trains_embedding,
                initial_state_attention=initial_state_attention)
        return _decoded(feed_previous, decoder, state)


# ---------------------------------------------------------------- several decoders

def one2many_rnn_seq2seq(encoder_inputs, decoder_inputs_dict, enc_cell, dec_cells_dict,
                         num_encoder_symbols, num_decoder_symbols_dict, embedding_size,
                         feed_previous=False, dtype=None, scope=None):
    """One encoder and a decoder per name: ({name: outputs}, {name: state}), as of
    `embedding_rnn_seq2seq`.

    encoder_inputs: list of ints [batch]; decoder_inputs_dict: such a list per name. The
    dictionaries have the same names, else KeyError; ValueError for shapes that do not fit.
    TF: contrib.legacy_seq2seq.one2many_rnn_seq2seq."""
    outputs, states = {}, {}
    with vs.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as scope:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = rnn_static.static_rnn(encoder, encoder_inputs, dtype=scope.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with vs.variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)

                def decoder(feeds, trains_embedding, inputs=inputs, cell=cell, symbols=symbols):
                    return embedding_rnn_decoder(
                        inputs, state, cell, symbols, embedding_size, feed_previous=feeds,
                        update_embedding_for_previous=trains_embedding)
                outputs[name], states[name] = _decoded(feed_previous, decoder, state)
    return outputs, states


PUBLIC = {f"contrib.legacy_seq2seq.{f.__name__}": f for f in (
    attention_decoder, basic_rnn_seq2seq, embedding_attention_decoder,
    embedding_attention_seq2seq, embedding_rnn_decoder, embedding_rnn_seq2seq,
    embedding_tied_rnn_seq2seq, one2many_rnn_seq2seq, tied_rnn_seq2seq,
)}
