"""tf.contrib.crf: linear-chain conditional random fields (Lafferty et al., 2001).

    score = sum of inputs[t, tag t] + sum of transition_params[tag t, tag t+1]
    log_likelihood, transitions = tf.contrib.crf.crf_log_likelihood(inputs, tags, lengths)
    tags, best = tf.contrib.crf.crf_decode(inputs, transitions, lengths)        # Viterbi, 1967

Shapes: inputs [batch, time, tags] float; tag_indices [batch, time] ints; sequence_lengths [batch]
ints, of which those of 0 and below count as no sequence; transition_params [tags, tags].
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import gather_functions
from pyflow.lib.control_flow import functional
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.variables import variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops


def _mask(lengths, size, dtype):
    """[batch, size]: 1 before each length, 0 from it on."""
    steps = _up_to(size, lengths)
    return tensors.cast(tensors.expand_dims(lengths, 1) > tensors.expand_dims(steps, 0), dtype)


def _up_to(size, lengths):
    """0, 1, ... below `size`, which is int32, in the lengths' type."""
    return tensors.range_(tensors.cast(size, lengths.dtype))


def _lengths(sequence_lengths):
    lengths = graph.convert_to_tensor(sequence_lengths)
    return binary_ops.Maximum(lengths, tensors.cast(0, lengths.dtype))


def crf_unary_score(tag_indices, sequence_lengths, inputs):
    """[batch]: the sum of the inputs at the tags.  TF: contrib.crf.crf_unary_score.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    inputs, lengths = graph.convert_to_tensor(inputs), _lengths(sequence_lengths)
    shape = tensors.shape(inputs)
    chosen = gather_functions.one_hot(tag_indices, shape[2], dtype=inputs.dtype)
    each = reductions.reduce_sum(inputs * chosen, 2)
    return reductions.reduce_sum(each * _mask(lengths, shape[1], inputs.dtype), 1)


def crf_binary_score(tag_indices, sequence_lengths, transition_params):
    """[batch]: the sum of the transitions between tags.  TF: contrib.crf.crf_binary_score.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    tags, lengths = graph.convert_to_tensor(tag_indices), _lengths(sequence_lengths)
    transitions = graph.convert_to_tensor(transition_params)
    pairs = tensors.stack([tags[:, :-1], tags[:, 1:]], -1)
    each = gather_functions.gather_nd(transitions, pairs)
    mask = _mask(lengths - 1, tensors.shape(tags)[1] - 1, transitions.dtype)
    return reductions.reduce_sum(each * mask, 1)


def crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params):
    """[batch]: the score of the tags.  TF: contrib.crf.crf_sequence_score.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    return (crf_unary_score(tag_indices, sequence_lengths, inputs) +
            crf_binary_score(tag_indices, sequence_lengths, transition_params))


def crf_log_norm(inputs, sequence_lengths, transition_params):
    """[batch]: the logarithm of the sum of exp(score) over all tags.  TF: contrib.crf.crf_log_norm.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    inputs, lengths = graph.convert_to_tensor(inputs), _lengths(sequence_lengths)
    transitions = graph.convert_to_tensor(transition_params)

    def reached(before):
        return reductions.reduce_logsumexp(tensors.expand_dims(before, 2) + transitions, 1)

    last = _forward(inputs, lengths, reached)[-1]
    total = reductions.reduce_logsumexp(last, 1)
    return logic_functions.where(lengths > 0, total, tensors.zeros_like(total))


def _forward(inputs, lengths, reached):
    """[time, batch, tags]: the recursion's values; after a sequence's end they stay."""
    steps = tensors.transpose(inputs, [1, 0, 2])
    numbers = _up_to(tensors.shape(steps)[0], lengths)[1:]

    def step(before, at):
        number, scores = at
        now = scores + reached(before)
        on = tensors.cast(tensors.expand_dims(lengths > number, 1), now.dtype)
        return now * on + before * (1 - on)

    rest = functional.scan(step, (numbers, steps[1:]), initializer=steps[0])
    return tensors.concat([steps[:1], rest], 0)


def crf_log_likelihood(inputs, tag_indices, sequence_lengths, transition_params=None):
    """([batch] log likelihood of the tags, transition_params).  TF: contrib.crf.crf_log_likelihood.

    transition_params: default a variable "transitions" [tags, tags] of the scope at hand.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    inputs = graph.convert_to_tensor(inputs)
    if transition_params is None:
        n = inputs.shape.as_list()[2]
        transition_params = variable_scope.get_variable("transitions", [n, n])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_decode(potentials, transition_params, sequence_length):
    """(tags [batch, time] of the highest score, int32, 0 after the end; their score [batch]).
    TF: contrib.crf.crf_decode.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    inputs, lengths = graph.convert_to_tensor(potentials), _lengths(sequence_length)
    transitions = graph.convert_to_tensor(transition_params)

    def reached(before):
        return reductions.reduce_max(tensors.expand_dims(before, 2) + transitions, 1)

    values = _forward(inputs, lengths, reached)             # [time, batch, tags]
    best = reductions.reduce_max(values[-1], 1)
    final = tensors.cast(reductions.argmax(values[-1], 1), dtypes.int32)
    came = tensors.cast(reductions.argmax(tensors.expand_dims(values[:-1], 3) + transitions, 2),
                        dtypes.int32)                       # [time - 1, batch, tags]
    numbers = _up_to(tensors.shape(values)[0], lengths)[1:]

    def back(tag, at):
        number, from_tag = at
        earlier = gather_functions.gather_nd(from_tag, tensors.expand_dims(tag, 1), batch_dims=1)
        return logic_functions.where(lengths > number, earlier, tag)

    tags = functional.scan(back, (numbers, came), initializer=final, reverse=True)
    tags = tensors.transpose(tensors.concat([tags, tensors.expand_dims(final, 0)], 0))
    mask = _mask(lengths, tensors.shape(inputs)[1], dtypes.int32)
    return tags * mask, logic_functions.where(lengths > 0, best, tensors.zeros_like(best))


def viterbi_decode(score, transition_params):
    """(tags, their score) of the highest score, in NumPy.  TF: contrib.crf.viterbi_decode.

    score: [time, tags]; transition_params: [tags, tags]. Returns a list of ints and a number.
    Floats [batch, time, tags]; ValueError for ranks that do not fit.
    """
    score, transition_params = np.asarray(score), np.asarray(transition_params)
    values, came = score[0], []
    for row in score[1:]:
        through = values[:, np.newaxis] + transition_params
        came.append(through.argmax(0))
        values = row + through.max(0)
    tags = [int(values.argmax())]
    for back in reversed(came):
        tags.append(int(back[tags[-1]]))
    return tags[::-1], values.max()


PUBLIC = {f"contrib.crf.{f.__name__}": f for f in (
    crf_unary_score, crf_binary_score, crf_sequence_score, crf_log_norm, crf_log_likelihood,
    crf_decode, viterbi_decode)}
