"""sequence_loss of [batch, time, classes].  Source: TF 1.15 tf.contrib.seq2seq.

Example:
    weights = tf.sequence_mask(lengths, dtype=tf.float32)
    loss = tf.contrib.seq2seq.sequence_loss(logits, targets, weights)
"""
from pyflow.framework import graph as ops
from pyflow.lib.math import reductions
from pyflow.lib.nn import softmax_functions
from pyflow.ops.base import tensors


def sequence_loss(logits, targets, weights, average_across_timesteps=True,
                  average_across_batch=True, sum_over_timesteps=False, sum_over_batch=False,
                  softmax_loss_function=None, name=None):
    """Weighted cross entropy of sequences: a scalar, or per step, example or both.

    logits: floats [batch, time, classes]; targets: ints, weights: floats [batch, time].
    average_across_timesteps, average_across_batch: divided by the sum of weights along them, and
    only summed along a dimension with sum_over_timesteps, sum_over_batch (divided then by the
    number of weights above 0). softmax_loss_function(labels=, logits=) in place of the sparse
    softmax cross entropy. ValueError for other ranks, or both of a kind.
    TF: tf.contrib.seq2seq.sequence_loss."""
    logits, targets, weights = (ops.convert_to_tensor(x) for x in (logits, targets, weights))
    for what, x, rank in (("Logits", logits, 3), ("Targets", targets, 2), ("Weights", weights, 2)):
        if x.shape.ndims != rank:
            raise ValueError(f"{what} must be a {rank}-dimensional tensor, got shape {x.shape}")
    if average_across_timesteps and sum_over_timesteps or average_across_batch and sum_over_batch:
        raise ValueError("average_across and sum_over of timesteps, and of the batch, exclude each "
                         "other")
    with ops.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tensors.reshape(logits, [-1, logits.shape[2].value or tensors.shape(logits)[2]])
        labels = tensors.reshape(targets, [-1])
        function = softmax_loss_function or \
            softmax_functions.sparse_softmax_cross_entropy_with_logits
        loss = tensors.reshape(function(labels=labels, logits=flat), tensors.shape(targets))
        loss = loss * weights
        loss.set_shape(targets.shape)
        if average_across_timesteps and average_across_batch:
            return reductions.reduce_sum(loss) / (reductions.reduce_sum(weights) + 1e-12)
        return _reduced(loss, weights, average_across_timesteps, average_across_batch,
                        sum_over_timesteps, sum_over_batch)


def _reduced(loss, weights, over_time, over_batch, sum_time, sum_batch):
    if sum_time and sum_batch:
        count = tensors.cast(weights > 0, loss.dtype)
        return reductions.reduce_sum(loss) / (reductions.reduce_sum(count) + 1e-12)
    for axis, average, only_sum in ((1, over_time, sum_time), (0, over_batch, sum_batch)):
        if average:
            return reductions.reduce_sum(loss, axis) / (reductions.reduce_sum(weights, axis)
                                                        + 1e-12)
        if only_sum:
            count = reductions.reduce_sum(tensors.cast(weights > 0, loss.dtype), axis)
            return reductions.reduce_sum(loss, axis) / (count + 1e-12)
    return loss


PUBLIC = {"contrib.seq2seq.sequence_loss": sequence_loss}
