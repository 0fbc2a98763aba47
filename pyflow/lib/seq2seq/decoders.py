"""Decoders step by step: Decoder, dynamic_decode, BasicDecoder.

Invariants
  1. A decoder's step gives outputs, a state, the next inputs and who has finished; dynamic_decode
     repeats it until all have, or maximum_iterations.
  2. Lengths count the steps up to, and with, the one that finished.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.seq2seq.

Example:
    helper = tf.contrib.seq2seq.TrainingHelper(embedded, lengths)
    decoder = tf.contrib.seq2seq.BasicDecoder(cell, helper, state, output_layer=tf.layers.Dense(9))
    outputs, state, lengths = tf.contrib.seq2seq.dynamic_decode(decoder)
"""
import collections

from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.control_flow.while_loop import while_loop
from pyflow.lib.array import array_functions
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.rnn.rnn import swap_batch_and_time
from pyflow.lib.rnn.rnn_cell_base import require_cell
from pyflow.lib.variables.variable_scope import variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.containers.tensor_arrays import TensorArray
from pyflow.ops.elementwise import logic_ops


class Decoder(ShowsArguments):
    """What dynamic_decode repeats; subclasses give all but finalize.

    batch_size: int or scalar tensor. output_size, output_dtype: nests of TensorShapes and dtypes of
    a step's outputs. initialize(name) -> (finished [batch] bool, inputs, state). step(time, inputs,
    state, name) -> (outputs, state, inputs, finished). tracks_own_finished: True where `finished`
    may become false again. TF: tf.contrib.seq2seq.Decoder."""

    tracks_own_finished = False

    def finalize(self, outputs, final_state, sequence_lengths):
        """(outputs, state) of all steps [time, batch, ...], as the caller gets them."""
        return outputs, final_state

    def lengths(self, final_state, counted):
        """How many steps each sequence has; counted: up to where its place in the batch
        finished."""
        return counted


def dynamic_decode(decoder, output_time_major=False, impute_finished=False,
                   maximum_iterations=None, parallel_iterations=32, swap_memory=False, scope=None):
    """Steps of `decoder` until all of the batch has finished: (outputs, state, lengths).

    outputs: a nest as decoder.output_size of [batch, time, ...], time first where
    output_time_major; lengths: int32 [batch]. impute_finished: outputs of those that have finished
    are zero, and their state stays. maximum_iterations: int or scalar int32. TypeError for what is
    no Decoder, ValueError for a maximum_iterations that is no scalar.
    TF: tf.contrib.seq2seq.dynamic_decode."""
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope, "decoder"):
        limit = maximum_iterations
        if limit is not None:
            limit = ops.convert_to_tensor(limit, dtypes.int32, name="maximum_iterations")
            if limit.shape.ndims != 0:
                raise ValueError(f"maximum_iterations must be a scalar, got shape {limit.shape}")
        finished, inputs, state = decoder.initialize()
        state = nest.map_structure(_as_tensor, state)
        if limit is not None:
            finished = logic_ops.LogicalOr(finished, logic_ops.GreaterEqual(0, limit))
        zeros = nest.map_structure(
            lambda shape, dtype: tensors.zeros([decoder.batch_size, *_sizes(shape)], dtype),
            decoder.output_size, decoder.output_dtype)
        arrays = nest.map_structure(
            lambda shape, dtype: TensorArray(dtype, size=0, dynamic_size=True,
                                             element_shape=_with_batch(decoder.batch_size, shape)),
            decoder.output_size, decoder.output_dtype)
        lengths = tensors.zeros_like(finished, dtypes.int32)

        def going_on(time, arrays, state, inputs, finished, lengths):
            return logic_ops.LogicalNot(reductions.reduce_all(finished))

        def body(time, arrays, state, inputs, finished, lengths):
            return _step(decoder, impute_finished, zeros, time, arrays, state, inputs, finished,
                         lengths)

        _, arrays, state, _, _, lengths = while_loop(
            going_on, body, [ops.constant(0, dtypes.int32), arrays, state, inputs, finished,
                             lengths],
            parallel_iterations=parallel_iterations, maximum_iterations=limit,
            swap_memory=swap_memory)
        outputs = nest.map_structure(lambda array: array.stack(), arrays)
        outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = nest.map_structure(swap_batch_and_time, outputs)
        return outputs, state, decoder.lengths(state, lengths)


def _step(decoder, impute, zeros, time, arrays, state, inputs, finished, lengths):
    """The loop's body: one step of the decoder, written and counted."""
    outputs, next_state, next_inputs, done = decoder.step(time, inputs, state)
    next_finished = done if decoder.tracks_own_finished else logic_ops.LogicalOr(done, finished)
    counted = logic_functions.where(
        finished, lengths, array_functions.fill(tensors.shape(lengths), time + 1))
    nest.assert_same_structure(state, next_state)
    nest.assert_same_structure(arrays, outputs)

    def kept(new, old):
        if isinstance(old, TensorArray):
            return new
        new.set_shape(old.shape)
        return new if new.shape.ndims == 0 else logic_functions.where(finished, old, new)

    if impute:
        outputs = nest.map_structure(lambda out, zero: logic_functions.where(finished, zero, out),
                                     outputs, zeros)
        next_state = nest.map_structure(kept, next_state, state)
    arrays = nest.map_structure(lambda array, out: array.write(time, out), arrays, outputs)
    return time + 1, arrays, next_state, next_inputs, next_finished, counted


def _as_tensor(value):
    return value if isinstance(value, TensorArray) else ops.convert_to_tensor(value)


def _sizes(shape):
    return TensorShape(shape).as_list()


def _with_batch(batch_size, shape):
    batch = batch_size if isinstance(batch_size, int) else constant_value(batch_size)
    return TensorShape([None if batch is None else int(batch)]).concatenate(TensorShape(shape))


class BasicDecoderOutput(collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """What BasicDecoder gives: rnn_output [batch, time, size], sample_id of the helper's shape."""

    __slots__ = ()


class BasicDecoder(Decoder):
    """A recurrent cell that reads what `helper` says.

    cell: an RNNCell. helper: a Helper. initial_state: as the cell's. output_layer: a layer (with
    compute_output_shape) on the cell's output before it is sampled. TypeError for another cell,
    helper or layer. TF: tf.contrib.seq2seq.BasicDecoder."""

    def __init__(self, cell, helper, initial_state, output_layer=None):
        require_cell("cell", cell)
        if not hasattr(helper, "next_inputs"):
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        if output_layer is not None and not hasattr(output_layer, "compute_output_shape"):
            raise TypeError(f"output_layer must be a Layer, received: {type(output_layer)}")
        self._cell, self._helper = cell, helper
        self._initial_state, self._output_layer = initial_state, output_layer

    @property
    def batch_size(self):
        """The helper's."""
        return self._helper.batch_size

    @property
    def output_size(self):
        """Shapes of a step's outputs without batch."""
        return BasicDecoderOutput(layer_output_shape(self._cell, self._output_layer),
                                  TensorShape(self._helper.sample_ids_shape))

    @property
    def output_dtype(self):
        """The state's dtype, and the samples'."""
        dtype = nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(dtype, self._helper.sample_ids_dtype)

    def initialize(self, name=None):
        """(finished, first inputs, first state)."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time, inputs, state, name=None):
        """(BasicDecoderOutput, state, inputs, finished)."""
        with ops.name_scope(name, "BasicDecoderStep", [time, *nest.flatten(inputs)]):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            samples = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, inputs, state = self._helper.next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=samples)
            return BasicDecoderOutput(outputs, samples), state, inputs, finished


def layer_output_shape(cell, layer):
    """The shape of a cell's output without batch, behind `layer` where there is one."""
    shape = TensorShape(cell.output_size if isinstance(cell.output_size, (TensorShape, list, tuple))
                        else [cell.output_size])
    if layer is None:
        return shape
    return layer.compute_output_shape(TensorShape([None]).concatenate(shape))[1:]


PUBLIC = {f"contrib.seq2seq.{value.__name__}": value for value in (
    Decoder, dynamic_decode, BasicDecoder, BasicDecoderOutput)}
