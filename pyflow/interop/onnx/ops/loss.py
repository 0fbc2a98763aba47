"""Losses: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import scalar, sizes
from pyflow.interop.onnx.registry import converter


@converter("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(node):
    return _picked(node, node.x(0))


@converter("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(node):
    """The loss, and the logarithms of the probabilities."""
    log = tf.nn.log_softmax(node.x(0), axis=1)
    return [_picked(node, log), log][:len(node.outputs)]


def _picked(node, log):
    """-weight[t] * log[n, t, ...] for targets t [N, ...], reduced."""
    reduction = node.attr("reduction", "mean")
    if reduction not in ("none", "sum", "mean"):
        raise node.error(f"reduction {reduction!r} is none of none, sum, mean")
    target = tf.cast(node.x(1), tf.int64)
    ignored = node.attr("ignore_index", None)
    zero = tf.constant(np.int64(0))
    kept = None
    if ignored is not None:
        kept = tf.not_equal(target, tf.constant(np.int64(ignored)))
        target = tf.where(kept, target, tf.zeros_like(target) + zero)
    classes = sizes(log)[1]
    hit = tf.one_hot(target, tf.cast(classes, tf.int32), on_value=scalar(1, log),
                     off_value=scalar(0, log), axis=1)
    loss = tf.negative(tf.reduce_sum(tf.where_v2(tf.greater(hit, scalar(0, hit)), log,
                                                 scalar(0, log)), 1))
    weight = tf.gather(node.x(2), target) if node.has(2) else None
    if kept is not None:
        mask = tf.cast(kept, log.dtype)
        weight = mask if weight is None else weight * mask
    if weight is not None:
        loss = tf.where_v2(tf.equal(weight, scalar(0, weight)), scalar(0, loss), loss * weight)
    if reduction == "none":
        return loss
    total = tf.reduce_sum(loss)
    if reduction == "sum":
        return total
    return total / tf.reduce_sum(weight) if weight is not None else tf.reduce_mean(loss)
