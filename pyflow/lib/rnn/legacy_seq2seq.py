"""Sequence losses, the plain decoder and buckets of tf.contrib.legacy_seq2seq; its models are in
pyflow.lib.contrib.legacy_seq2seq.

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
    Variables are the scope's ("rnn_decoder"), shared by all steps. ValueError if shapes do not fit
    the cell.
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


def model_with_buckets(encoder_inputs, decoder_inputs, targets, weights, buckets, seq2seq,
                       softmax_loss_function=None, per_example_loss=False, name=None):
    """A model per bucket, all with the variables of the first: (outputs, losses), two lists with an
    item per bucket.

    encoder_inputs, decoder_inputs: what the model takes, a tensor per step; targets: list of int32
    [batch]; weights: list of floats [batch]; all as long as the last bucket; buckets: list of
    (encoder steps, decoder steps), growing; seq2seq(encoder_inputs, decoder_inputs) -> (outputs,
    state). A loss is `sequence_loss`, a scalar, or with
    per_example_loss `sequence_loss_by_example`, [batch]. ValueError if a list is shorter than the
    last bucket. TF: contrib.legacy_seq2seq.model_with_buckets."""
    for kind, given, wanted in (("encoder_inputs", encoder_inputs, buckets[-1][0]),
                                ("targets", targets, buckets[-1][1]),
                                ("weights", weights, buckets[-1][1])):
        if len(given) < wanted:
            raise ValueError(f"Length of {kind} ({len(given)}) must be at least that of last "
                             f"bucket ({wanted}).")
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with graph.name_scope(name, "model_with_buckets",
                          [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for j, (reads, says) in enumerate(buckets):
            with vs.variable_scope(vs.get_variable_scope(), reuse=True if j else None):
                found, _ = seq2seq(encoder_inputs[:reads], decoder_inputs[:says])
                outputs.append(found)
                losses.append(loss(found, targets[:says], weights[:says],
                                   softmax_loss_function=softmax_loss_function))
    return outputs, losses


PUBLIC = {f"contrib.legacy_seq2seq.{f.__name__}": f for f in (
    model_with_buckets, rnn_decoder, sequence_loss_by_example, sequence_loss,
)}
