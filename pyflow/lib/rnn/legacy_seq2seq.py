"""Sequence losses and the plain decoder of tf.contrib.legacy_seq2seq.

A sequence is a list with one tensor per time step; all steps have the same batch.

Thread: the one building the graph.  Source: TF 1.15, contrib.legacy_seq2seq.

Example:  `loss = tf.contrib.legacy_seq2seq.sequence_loss_by_example([logits], [words], [weights])`.
"""
from pyflow.framework import graph
from pyflow.lib.math import binary_functions, reductions
from pyflow.lib.nn import softmax_functions
from pyflow.lib.variables import variable_scope as vs
from pyflow.ops.base import tensors

EPSILON = 1e-12             # added to a row's sum of weights


def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None, scope=None):
    """`cell` over the list `decoder_inputs`: (list of outputs [batch, output size], final state).

    decoder_inputs: list of floats [batch, input size]; loop_function(output before, step) -> the
    input of each step but the first, in place of the one given (decoding what was said before).
    Variables are the scope's ("rnn_decoder"), shared by all steps. ValueError if shapes do not fit the cell.
    TF: contrib.legacy_seq2seq.rnn_decoder."""
    state, outputs = initial_state, []
    with vs.variable_scope(scope or "rnn_decoder"):
        for i, x in enumerate(decoder_inputs):
            if i > 0:
                vs.get_variable_scope().reuse_variables()
                if loop_function is not None:
                    with vs.variable_scope("loop_function", reuse=True):
                        x = loop_function(outputs[-1], i)
            output, state = cell(x, state)
            outputs.append(output)
    return outputs, state


def sequence_loss_by_example(logits, targets, weights, average_across_timesteps=True,
                             softmax_loss_function=None, name=None):
    """Weighted cross entropy of each row of a batch of sequences: [batch], of the logits' type.

    logits: list of [batch, classes]; targets: list of int32 [batch]; weights: list of float
    [batch]; softmax_loss_function(labels=, logits=) takes the place of the sparse softmax cross
    entropy. average_across_timesteps: divided by the row's sum of weights. ValueError if the lists
    are of different lengths. TF: contrib.legacy_seq2seq.sequence_loss_by_example."""
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError("logits, targets and weights are lists with one tensor per time step: got "
                         f"{len(logits)}, {len(targets)} and {len(weights)}")
    with graph.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = []
        for logit, target, weight in zip(logits, targets, weights):
            if softmax_loss_function is None:
                entropy = softmax_functions.sparse_softmax_cross_entropy_with_logits(
                    labels=tensors.reshape(target, [-1]), logits=logit)
            else:
                entropy = softmax_loss_function(labels=target, logits=logit)
            losses.append(entropy * weight)
        total = binary_functions.add_n(losses)
        if average_across_timesteps:
            total /= binary_functions.add_n(weights) + EPSILON
        return total


def sequence_loss(logits, targets, weights, average_across_timesteps=True,
                  average_across_batch=True, softmax_loss_function=None, name=None):
    """The sum of `sequence_loss_by_example` over the batch: a scalar of the logits' type.

    logits: list of [batch, classes]; targets: list of int32 [batch]; weights: list of float
    [batch]. average_across_batch: divided by the batch. ValueError if the lists are of different
    lengths. TF: contrib.legacy_seq2seq.sequence_loss."""
    with graph.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = reductions.reduce_sum(sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps=average_across_timesteps,
            softmax_loss_function=softmax_loss_function))
        if average_across_batch:
            cost /= tensors.cast(tensors.shape(targets[0])[0], cost.dtype)
        return cost
PUBLIC = {f"contrib.legacy_seq2seq.{f.__name__}": f for f in (
    rnn_decoder, sequence_loss_by_example, sequence_loss,
)}
