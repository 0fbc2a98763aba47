"""Helpers of decoders: what is sampled of an output, and what is read next.

Invariants
  1. initialize() -> (finished [batch], inputs); sample(time, outputs, state) -> ids;
     next_inputs(time, outputs, state, sample_ids) -> (finished, inputs, state).
  2. Once all have finished, any inputs of the right shape are given.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.seq2seq.

Example:  `tf.contrib.seq2seq.GreedyEmbeddingHelper(embedding, tf.fill([batch], GO), EOS)`.
"""
from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import array_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.nn import nn_functions
from pyflow.lib.random import random_functions
from pyflow.lib.rnn.rnn import swap_batch_and_time
from pyflow.ops.base import tensors
from pyflow.ops.containers.tensor_arrays import TensorArray
from pyflow.ops.elementwise import binary_ops, logic_ops


def lookup(embedding):
    """A function of ids: `embedding` itself, or rows of it. TypeError for None."""
    if callable(embedding):
        return embedding
    return lambda ids: nn_functions.embedding_lookup(embedding, ids)


def largest(outputs):
    """The class of the largest logit, int32. TypeError for what is no tensor."""
    if not isinstance(outputs, ops.Tensor):
        raise TypeError(f"Expected outputs to be a single Tensor, got: {type(outputs)}")
    return tensors.cast(reductions.argmax(outputs, axis=-1), dtypes.int32)


def drawn(logits, seed=None):
    """A class drawn by each row of logits [batch, classes], int32 [batch]."""
    return tensors.reshape(tensors.cast(
        random_functions.multinomial(logits, 1, seed=seed), dtypes.int32), [-1])


class Helper(ShowsArguments):
    """What samples and feeds a decoder; see the module's invariants. TF: tf.contrib.seq2seq.Helper.

    batch_size: scalar int32. sample_ids_shape, sample_ids_dtype: of a step's samples, without
    batch: scalars, int32."""

    sample_ids_shape = TensorShape([])
    sample_ids_dtype = dtypes.int32


class CustomHelper(Helper):
    """A helper of three functions: initialize_fn() -> (finished, inputs); sample_fn(time, outputs,
    state); next_inputs_fn(time, outputs, state, sample_ids) -> (finished, inputs, state).

    TF: tf.contrib.seq2seq.CustomHelper."""

    def __init__(self, initialize_fn, sample_fn, next_inputs_fn, sample_ids_shape=None,
                 sample_ids_dtype=None):
        self._initialize, self._sample, self._next = initialize_fn, sample_fn, next_inputs_fn
        self.sample_ids_shape = TensorShape(sample_ids_shape or [])
        self.sample_ids_dtype = sample_ids_dtype or dtypes.int32
        self._batch_size = None

    @property
    def batch_size(self):
        """Known once initialize() has run; ValueError before."""
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    def initialize(self, name=None):
        """(finished, inputs) by initialize_fn."""
        finished, inputs = self._initialize()
        self._batch_size = tensors.size(finished)
        return finished, inputs

    def sample(self, time, outputs, state, name=None):
        """By sample_fn."""
        return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        """By next_inputs_fn."""
        return self._next(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(Helper):
    """Feeds given inputs, whatever was sampled (the largest logit).

    inputs: a nest of [batch, time, ...], or [time, batch, ...] with time_major. sequence_length:
    int32 [batch]. ValueError for another rank of it. TF: tf.contrib.seq2seq.TrainingHelper."""

    def __init__(self, inputs, sequence_length, time_major=False, name=None):
        with ops.name_scope(name, "TrainingHelper", [sequence_length, *nest.flatten(inputs)]):
            inputs = nest.map_structure(ops.convert_to_tensor, inputs)
            self.inputs = inputs
            if not time_major:
                inputs = nest.map_structure(swap_batch_and_time, inputs)
            self._arrays = nest.map_structure(_unstacked, inputs)
            self.sequence_length = ops.convert_to_tensor(sequence_length, name="sequence_length")
            if self.sequence_length.shape.ndims != 1:
                raise ValueError("Expected sequence_length to be a vector, but received shape: "
                                 f"{self.sequence_length.shape}")
            self._zeros = nest.map_structure(lambda x: tensors.zeros_like(x[0]), inputs)
            self.batch_size = tensors.size(self.sequence_length)

    def initialize(self, name=None):
        """The first inputs; finished are those of length 0."""
        with ops.name_scope(name, "TrainingHelperInitialize"):
            finished = tensors.equal(0, self.sequence_length)
            return finished, self._read(0, finished)

    def _read(self, time, finished):
        flat = nest.flatten(self._zeros)

        def read():
            return [array.read(time) for array in nest.flatten(self._arrays)]

        found = cond(reductions.reduce_all(finished), lambda: list(flat), read)
        found = found if isinstance(found, (list, tuple)) else [found]
        return nest.pack_sequence_as(self._zeros, list(found))

    def sample(self, time, outputs, state, name=None):
        """The largest logit's class."""
        return largest(outputs)

    def next_inputs(self, time, outputs, state, sample_ids=None, name=None):
        """Those of the next step."""
        with ops.name_scope(name, "TrainingHelperNextInputs"):
            finished = logic_ops.GreaterEqual(time + 1, self.sequence_length)
            return finished, self._read(time + 1, finished), state


def _unstacked(x):
    array = TensorArray(x.dtype, size=tensors.shape(x)[0], element_shape=x.shape[1:])
    return array.unstack(x)


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """TrainingHelper that at random feeds what was sampled instead, embedded.

    sampling_probability: scalar float, or one per example; samples are drawn by the logits, and are
    -1 where the given input is read. seed: of them; scheduling_seed: of the choice. Source: Bengio
    et al. 2015. TF: tf.contrib.seq2seq.ScheduledEmbeddingTrainingHelper."""

    def __init__(self, inputs, sequence_length, embedding, sampling_probability, time_major=False,
                 seed=None, scheduling_seed=None, name=None):
        self._embed, self._seed, self._choice_seed = lookup(embedding), seed, scheduling_seed
        self._probability = ops.convert_to_tensor(sampling_probability,
                                                  name="sampling_probability")
        if self._probability.shape.ndims not in (0, 1):
            raise ValueError("sampling_probability must be either a scalar or a vector. saw shape: "
                             f"{self._probability.shape}")
        super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time, outputs, state, name=None):
        """A class drawn by the logits where it is to be read, else -1."""
        chosen = random_functions.random_uniform([self.batch_size], seed=self._choice_seed)
        ids = drawn(outputs, self._seed)
        return logic_functions.where(chosen < self._probability, ids, tensors.zeros_like(ids) - 1)

    def next_inputs(self, time, outputs, state, sample_ids=None, name=None):
        """The given inputs, or embedded samples."""
        finished, given, state = super().next_inputs(time, outputs, state)
        said = self._embed(binary_ops.Maximum(sample_ids, 0))
        return finished, logic_functions.where(sample_ids > -1, said, given), state


class GreedyEmbeddingHelper(Helper):
    """Feeds the embedded class of the largest logit, until it is `end_token`.

    embedding: a function of ids, or their rows. start_tokens: int32 [batch]. end_token: scalar
    int32. ValueError for other ranks. TF: tf.contrib.seq2seq.GreedyEmbeddingHelper."""

    def __init__(self, embedding, start_tokens, end_token):
        self._embed = lookup(embedding)
        self._start = ops.convert_to_tensor(start_tokens, dtypes.int32, name="start_tokens")
        self._end = ops.convert_to_tensor(end_token, dtypes.int32, name="end_token")
        if self._start.shape.ndims != 1:
            raise ValueError(f"start_tokens must be a vector, got shape {self._start.shape}")
        if self._end.shape.ndims != 0:
            raise ValueError(f"end_token must be a scalar, got shape {self._end.shape}")
        self.batch_size = tensors.size(self._start)
        self._inputs = self._embed(self._start)

    def initialize(self, name=None):
        """The embedded start tokens; nobody has finished."""
        return array_functions.fill([self.batch_size], False), self._inputs

    def sample(self, time, outputs, state, name=None):
        """The largest logit's class."""
        return largest(outputs)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        """The embedded samples."""
        finished = tensors.equal(sample_ids, self._end)
        inputs = cond(reductions.reduce_all(finished), lambda: self._inputs,
                      lambda: self._embed(sample_ids))
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """GreedyEmbeddingHelper that draws classes by the logits over softmax_temperature (1 where
    None). seed: of the draws. TF: tf.contrib.seq2seq.SampleEmbeddingHelper."""

    def __init__(self, embedding, start_tokens, end_token, softmax_temperature=None, seed=None):
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time, outputs, state, name=None):
        """A class drawn by the logits."""
        if not isinstance(outputs, ops.Tensor):
            raise TypeError(f"Expected outputs to be a single Tensor, got: {type(outputs)}")
        return drawn(outputs if self._temperature is None else outputs / self._temperature,
                     self._seed)


class InferenceHelper(Helper):
    """Feeds what sample_fn made of the outputs, until end_fn(samples) says so [batch].

    sample_fn(outputs) -> samples of sample_shape (without batch) and sample_dtype; start_inputs:
    the first inputs; next_inputs_fn(samples) -> inputs, the samples where None.
    TF: tf.contrib.seq2seq.InferenceHelper."""

    def __init__(self, sample_fn, sample_shape, sample_dtype, start_inputs, end_fn,
                 next_inputs_fn=None):
        self._sample, self._end, self._next = sample_fn, end_fn, next_inputs_fn
        self.sample_ids_shape, self.sample_ids_dtype = TensorShape(sample_shape), sample_dtype
        self._inputs = ops.convert_to_tensor(start_inputs, name="start_inputs")
        self.batch_size = tensors.shape(self._inputs)[0]

    def initialize(self, name=None):
        """The first inputs; nobody has finished."""
        return array_functions.fill([self.batch_size], False), self._inputs

    def sample(self, time, outputs, state, name=None):
        """By sample_fn."""
        return self._sample(outputs)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        """By next_inputs_fn, or the samples."""
        inputs = sample_ids if self._next is None else self._next(sample_ids)
        return self._end(sample_ids), inputs, state


PUBLIC = {f"contrib.seq2seq.{value.__name__}": value for value in (
    Helper, CustomHelper, TrainingHelper, ScheduledEmbeddingTrainingHelper, GreedyEmbeddingHelper,
    SampleEmbeddingHelper, InferenceHelper)}
