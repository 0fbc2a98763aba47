"""Beam search: BeamSearchDecoder, tile_batch, gather_tree.

Invariants
  1. A cell sees beams as rows: [batch * beam, ...]; the decoder's own state is [batch, beam].
  2. Scores are log probabilities over ((5 + length) / 6) ** length_penalty_weight; a beam that has
     finished goes on with end_token alone, at no cost.
  3. Results follow parents back from each beam's last step; what lies behind end_token
     is end_token, too.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.seq2seq; Wu et al. 2016.

Example:
    state = tf.contrib.seq2seq.tile_batch(encoder_state, 4)
    decoder = tf.contrib.seq2seq.BeamSearchDecoder(cell, embedding, starts, EOS, state, 4, layer)
    outputs, _, lengths = tf.contrib.seq2seq.dynamic_decode(decoder, maximum_iterations=20)
    outputs.predicted_ids               # [batch, time, beam], the best beam first
"""
import collections

import numpy as np

from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import array_functions
from pyflow.lib.array.gather_functions import batch_gather, one_hot
from pyflow.lib.array.partition_functions import top_k
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.control_flow.while_loop import while_loop
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.nn import nn_functions
from pyflow.lib.nn.softmax_functions import log_softmax
from pyflow.lib.rnn.rnn_cell_base import require_cell
from pyflow.lib.seq2seq.decoders import Decoder
from pyflow.lib.seq2seq.helpers import lookup
from pyflow.ops.base import tensors
from pyflow.ops.containers.tensor_arrays import TensorArray
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.ops.move import join_ops


def tile_batch(t, multiplier, name=None):
    """A nest of [batch, ...] with each example `multiplier` times in a row: [batch * multiplier,
    ...]. t: of any dtype; ValueError for scalars. multiplier: an int or a scalar int32.
    TF: tf.contrib.seq2seq.tile_batch.

        >>> tf.Session().run(tf.contrib.seq2seq.tile_batch(tf.constant([1, 2]), 3)).tolist()
        [1, 1, 1, 2, 2, 2]
    """
    with ops.name_scope(name, "tile_batch", [*nest.flatten(t), multiplier]):
        return nest.map_structure(lambda x: _tiled(ops.convert_to_tensor(x), multiplier), t)


def _tiled(t, multiplier):
    if not t.shape.ndims:
        raise ValueError(f"tile_batch: t must have a known rank of at least 1, got shape {t.shape}")
    rest = tensors.shape(t)[1:]
    tiled = join_ops.Tile(tensors.expand_dims(t, 1), [1, multiplier] + [1] * (t.shape.ndims - 1))
    made = tensors.reshape(tiled, tensors.concat([[-1], rest], 0))
    batch = t.shape[0].value
    known = None if batch is None or not isinstance(multiplier, int) else batch * multiplier
    made.set_shape(TensorShape([known]).concatenate(t.shape[1:]))
    return made


def gather_tree(step_ids, parent_ids, max_sequence_lengths, end_token, name=None):
    """Beams read back through their parents: int32 [time, batch, beam].

    step_ids, parent_ids: int32 [time, batch, beam]; max_sequence_lengths: int32 [batch], where the
    longest beam of an example ends; end_token: what fills, and follows, ends.
    ValueError for other ranks, TypeError for other dtypes.
    TF: tf.contrib.seq2seq.gather_tree."""
    step_ids, parent_ids = ops.convert_to_tensor(step_ids), ops.convert_to_tensor(parent_ids)
    lengths = ops.convert_to_tensor(max_sequence_lengths, dtypes.int32)
    end_token = ops.convert_to_tensor(end_token, dtypes.int32)
    shape = tensors.shape(step_ids)
    if step_ids.shape.ndims != 3 or parent_ids.shape.ndims != 3:
        raise ValueError("gather_tree: step_ids and parent_ids must be [time, batch, beam], got "
                         f"{step_ids.shape} and {parent_ids.shape}")
    array = TensorArray(dtypes.int32, size=shape[0], element_shape=step_ids.shape[1:])
    beams = join_ops.Tile(tensors.range_(shape[2])[None], [shape[1], 1])
    ends = array_functions.fill(shape[1:], end_token)

    def body(t, parents, array):
        going = tensors.expand_dims(t < lengths, 1) & tensors.ones_like(parents, dtypes.bool)
        ids = batch_gather(step_ids[t], parents)
        before = batch_gather(parent_ids[t], parents)
        return (t - 1, logic_functions.where(going, before, parents),
                array.write(t, logic_functions.where(going, ids, ends)))

    _, _, array = while_loop(lambda t, *_: t >= 0, body, [shape[0] - 1, beams, array],
                             shape_invariants=[TensorShape([]), TensorShape([None, None]),
                                               TensorShape(None)])
    found = array.stack()
    ended = reductions.cumsum(tensors.cast(tensors.equal(found, end_token), dtypes.int32), axis=0,
                              exclusive=True) > 0
    made = logic_functions.where(ended, array_functions.fill(shape, end_token), found)
    made.set_shape(step_ids.shape)
    return made


class BeamSearchDecoderState(collections.namedtuple(
        "BeamSearchDecoderState", ("cell_state", "log_probs", "finished", "lengths"))):
    """cell_state: a nest of [batch, beam, ...]; log_probs float, finished bool, lengths int64:
    [batch, beam]."""

    __slots__ = ()


class BeamSearchDecoderOutput(collections.namedtuple(
        "BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))):
    """Of each step [batch, beam]: scores float, predicted_ids and parent_ids int32."""

    __slots__ = ()


class FinalBeamSearchDecoderOutput(collections.namedtuple(
        "FinalBeamDecoderOutput", ("predicted_ids", "beam_search_decoder_output"))):
    """predicted_ids int32 [batch, time, beam], and the BeamSearchDecoderOutput of all steps."""

    __slots__ = ()


class BeamSearchDecoder(Decoder):
    """Keeps the beam_width best sequences of each example.

    cell: an RNNCell. embedding: a function of ids, or their rows. start_tokens: int32 [batch].
    end_token: scalar int32. initial_state: the cell's, of tile_batch'ed rows [batch * beam, ...].
    output_layer: a layer to logits. length_penalty_weight: 0.0 for none. reorder_tensor_arrays:
    TensorArrays of the state (an alignment history) are read back along beams at the end, stacked
    [time, batch * beam, ...]. TypeError for another cell or layer, ValueError for other ranks.
    TF: tf.contrib.seq2seq.BeamSearchDecoder (its coverage penalty is not in this version)."""

    tracks_own_finished = True

    def __init__(self, cell, embedding, start_tokens, end_token, initial_state, beam_width,
                 output_layer=None, length_penalty_weight=0.0, coverage_penalty_weight=0.0,
                 reorder_tensor_arrays=True):
        require_cell("cell", cell)
        if output_layer is not None and not hasattr(output_layer, "compute_output_shape"):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        if coverage_penalty_weight:
            raise ValueError("BeamSearchDecoder: coverage_penalty_weight is not in this version; "
                             "leave it 0.0")
        self._cell, self._layer, self._beam = cell, output_layer, int(beam_width)
        self._embed, self._penalty = lookup(embedding), length_penalty_weight
        self._reorder = reorder_tensor_arrays
        self._start = ops.convert_to_tensor(start_tokens, dtypes.int32, name="start_tokens")
        self._end = ops.convert_to_tensor(end_token, dtypes.int32, name="end_token")
        if self._start.shape.ndims != 1:
            raise ValueError(f"start_tokens must be a vector, got shape {self._start.shape}")
        if self._end.shape.ndims != 0:
            raise ValueError(f"end_token must be a scalar, got shape {self._end.shape}")
        self.batch_size = self._start.shape[0].value or tensors.size(self._start)
        self._state = nest.map_structure(self._split, initial_state)
        tiled = join_ops.Tile(tensors.expand_dims(self._start, 1), [1, self._beam])
        self._inputs = self._embed(tiled)

    # ------------------------------------------------------------------------ rows and beams
    def _split(self, t):
        """[batch * beam, ...] as [batch, beam, ...]; scalars and arrays as they are."""
        if isinstance(t, TensorArray) or not ops.convert_to_tensor(t).shape.ndims:
            return t
        t = ops.convert_to_tensor(t)
        made = tensors.reshape(t, tensors.concat(
            [[self.batch_size, self._beam], tensors.shape(t)[1:]], 0))
        batch = self.batch_size if isinstance(self.batch_size, int) else None
        made.set_shape(TensorShape([batch, self._beam]).concatenate(t.shape[1:]))
        return made

    def _merge(self, t):
        """[batch, beam, ...] as [batch * beam, ...]."""
        if isinstance(t, TensorArray) or not t.shape.ndims:
            return t
        made = tensors.reshape(t, tensors.concat(
            [[self.batch_size * self._beam], tensors.shape(t)[2:]], 0))
        batch = self.batch_size * self._beam if isinstance(self.batch_size, int) else None
        made.set_shape(TensorShape([batch]).concatenate(t.shape[2:]))
        return made

    def _of_parents(self, t, parents):
        """Rows of [batch, beam, ...] by `parents` [batch, beam]."""
        if isinstance(t, TensorArray) or t.shape.ndims is not None and t.shape.ndims < 2:
            return t
        made = batch_gather(t, parents)
        made.set_shape(t.shape)
        return made

    # ------------------------------------------------------------------------- as a Decoder
    @property
    def output_size(self):
        """Shapes of a step's outputs without batch."""
        beams = TensorShape([self._beam])
        return BeamSearchDecoderOutput(beams, beams, beams)

    @property
    def output_dtype(self):
        """The state's dtype for scores, int32 for ids."""
        dtype = nest.flatten(self._state)[0].dtype
        return BeamSearchDecoderOutput(dtype, dtypes.int32, dtypes.int32)

    def initialize(self, name=None):
        """The first beam of each example counts; the others have log probability -inf."""
        dtype = nest.flatten(self._state)[0].dtype.as_numpy_dtype
        zeros = tensors.zeros([self.batch_size], dtypes.int32)
        finished = tensors.zeros([self.batch_size, self._beam], dtypes.bool)
        log_probs = one_hot(zeros, self._beam, dtype(0.0), dtype(-np.inf))
        lengths = tensors.zeros([self.batch_size, self._beam], dtypes.int64)
        return finished, self._inputs, BeamSearchDecoderState(self._state, log_probs, finished,
                                                              lengths)

    def step(self, time, inputs, state, name=None):
        """(BeamSearchDecoderOutput, state, inputs, finished)."""
        with ops.name_scope(name, "BeamSearchDecoderStep", [time]):
            outputs, cell_state = self._cell(
                nest.map_structure(self._merge, inputs),
                nest.map_structure(self._merge, state.cell_state))
            if self._layer is not None:
                outputs = self._layer(outputs)
            logits = self._split(outputs)
            cell_state = nest.map_structure(self._split, cell_state)
            made, after = self._searched(logits, cell_state, state)
            ids = made.predicted_ids
            inputs = cond(reductions.reduce_all(after.finished), lambda: self._inputs,
                          lambda: self._embed(ids))
            return made, after, inputs, after.finished

    def _searched(self, logits, cell_state, state):
        """The best continuations: (BeamSearchDecoderOutput, BeamSearchDecoderState)."""
        classes = logits.shape[-1].value or tensors.shape(logits)[-1]
        dtype = logits.dtype
        steps = self._continued(log_softmax(logits), state.finished, classes)
        totals = tensors.expand_dims(state.log_probs, 2) + steps
        ends = one_hot(self._end, classes, _constant(dtypes.int64, 0), _constant(dtypes.int64, 1))
        going = tensors.cast(logic_ops.LogicalNot(state.finished), dtypes.int64)
        lengths = tensors.expand_dims(state.lengths, 2) + tensors.expand_dims(going, 2) * ends
        scores = totals
        if self._penalty:
            scores = totals / ((5.0 + tensors.cast(lengths, dtype)) / 6.0) ** self._penalty
        best, index = top_k(tensors.reshape(scores, [self.batch_size, -1]), self._beam)
        probs = batch_gather(tensors.reshape(totals, [self.batch_size, -1]), index)
        words, parents = binary_ops.FloorMod(index, classes), binary_ops.FloorDiv(index, classes)
        before = batch_gather(state.finished, parents)
        finished = logic_ops.LogicalOr(before, tensors.equal(words, self._end))
        counted = batch_gather(state.lengths, parents) + tensors.cast(
            logic_ops.LogicalNot(before), dtypes.int64)
        cell_state = nest.map_structure(lambda t: self._of_parents(t, parents), cell_state)
        batch = self.batch_size if isinstance(self.batch_size, int) else None
        for t in (best, words, parents, probs, finished, counted):
            t.set_shape([batch, self._beam])
        return (BeamSearchDecoderOutput(best, words, parents),
                BeamSearchDecoderState(cell_state, probs, finished, counted))

    def _continued(self, steps, finished, classes):
        """Log probabilities of the next words; of a finished beam 0 for end_token,
        else the least."""
        least = steps.dtype.min
        only = one_hot(self._end, classes, _constant(steps.dtype, 0.0),
                       _constant(steps.dtype, least)) + tensors.zeros_like(steps)
        mask = tensors.expand_dims(finished, 2) & tensors.ones_like(steps, dtypes.bool)
        return logic_functions.where(mask, only, steps)

    def finalize(self, outputs, final_state, sequence_lengths):
        """(FinalBeamSearchDecoderOutput, state): beams read back from their ends."""
        longest = tensors.cast(reductions.reduce_max(final_state.lengths, axis=1), dtypes.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end)
        if self._reorder:
            final_state = final_state._replace(cell_state=nest.map_structure(
                lambda t: self._sorted(t, outputs.parent_ids, final_state.lengths)
                if isinstance(t, TensorArray) else t, final_state.cell_state))
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def lengths(self, final_state, counted):
        """Those of the beams: what finished in a beam's place may have been another one."""
        return tensors.cast(final_state.lengths, dtypes.int32)

    def _sorted(self, array, parent_ids, lengths):
        """A TensorArray of [batch * beam, ...], stacked, its beams read back."""
        stacked = array.stack()
        shape = tensors.shape(parent_ids)
        beams = tensors.range_(self._beam) + tensors.zeros_like(parent_ids)
        longest = tensors.cast(reductions.reduce_max(lengths, axis=1), dtypes.int32)
        found = gather_tree(beams, parent_ids, longest, self._beam + 1)
        within = tensors.transpose(nn_functions.sequence_mask(lengths, shape[0]), [2, 0, 1])
        rows = logic_functions.where(within, found, beams)
        rows += tensors.reshape(tensors.range_(shape[1]) * self._beam, [1, -1, 1])
        made = batch_gather(stacked, tensors.reshape(rows, [shape[0], -1]))
        made.set_shape(stacked.shape)
        return made


def _constant(dtype, value):
    """A constant of the dtype."""
    return ops.constant(value, dtype)


PUBLIC = {f"contrib.seq2seq.{value.__name__}": value for value in (
    tile_batch, gather_tree, BeamSearchDecoder, BeamSearchDecoderOutput, BeamSearchDecoderState)}
PUBLIC["contrib.seq2seq.FinalBeamSearchDecoderOutput"] = FinalBeamSearchDecoderOutput
