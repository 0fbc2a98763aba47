"""tf.contrib.losses: losses with predictions before labels, as TensorFlow 1.0's contrib had them.

    tf.contrib.losses.softmax_cross_entropy(logits, onehot_labels)

The values are those of tf.losses, which has labels first; each is added to the collection of losses.
"""
from pyflow.framework import graph
from pyflow.lib.nn import loss_functions as losses
from pyflow.ops.base import tensors


def _spread(weights, values, drop=0):
    """Weights [batch, ...] of fewer dimensions than the losses, which are as many as those of
    `values` less `drop`: they count from the first dimension on, one per example first of all."""
    weights, rank = graph.convert_to_tensor(weights), graph.convert_to_tensor(values).shape.ndims
    own = weights.shape.ndims
    if rank is None or not own:                     # a scalar is spread anyway
        return weights
    rank -= drop
    if own > 1 and own > rank and weights.shape[-1].is_compatible_with(1):
        weights, own = tensors.squeeze(weights, [-1]), own - 1
    for _ in range(rank - own):
        weights = tensors.expand_dims(weights, -1)
    return weights


def absolute_difference(predictions, labels=None, weights=1.0, scope=None):
    """The mean of |predictions - labels|, weighted.  TF: contrib.losses.absolute_difference.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.absolute_difference(labels, predictions, _spread(weights, predictions), scope)


def cosine_distance(predictions, labels=None, axis=None, weights=1.0, scope=None, dim=None):
    """1 - the product of unit vectors along `axis`.  TF: contrib.losses.cosine_distance.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    axis = dim if axis is None else axis
    return losses.cosine_distance(labels, predictions, axis, _spread(weights, predictions), scope)


def hinge_loss(logits, labels=None, scope=None):
    """max(0, 1 - (2 labels - 1) logits), one value per logit.  TF: contrib.losses.hinge_loss.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.hinge_loss(labels, logits, scope=scope, reduction="none", loss_collection=None)


def log_loss(predictions, labels=None, weights=1.0, epsilon=1e-7, scope=None):
    """Cross entropy of probabilities.  TF: contrib.losses.log_loss.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.log_loss(labels, predictions, _spread(weights, predictions), epsilon, scope)


def mean_squared_error(predictions, labels=None, weights=1.0, scope=None):
    """The mean of (predictions - labels)^2, weighted.  TF: contrib.losses.mean_squared_error.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.mean_squared_error(labels, predictions, _spread(weights, predictions), scope)


def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0, label_smoothing=0, scope=None):
    """Cross entropy of independent classes.  TF: contrib.losses.sigmoid_cross_entropy.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.sigmoid_cross_entropy(multi_class_labels, logits, _spread(weights, logits),
                                        label_smoothing, scope)


def softmax_cross_entropy(logits, onehot_labels, weights=1.0, label_smoothing=0, scope=None):
    """Cross entropy of exclusive classes.  TF: contrib.losses.softmax_cross_entropy.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.softmax_cross_entropy(onehot_labels, logits, _spread(weights, logits, 1),
                                        label_smoothing, scope)


def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    """Cross entropy with one class number each.  TF: contrib.losses.sparse_softmax_cross_entropy.
    Floats [batch, ...] of one shape; ValueError for shapes that do not fit.
    """
    return losses.sparse_softmax_cross_entropy(labels, logits, _spread(weights, logits, 1), scope)


PUBLIC = {f"contrib.losses.{f.__name__}": f for f in (
    absolute_difference, cosine_distance, hinge_loss, log_loss, mean_squared_error,
    sigmoid_cross_entropy, softmax_cross_entropy, sparse_softmax_cross_entropy)}
PUBLIC.update({f"contrib.losses.{name}": losses.PUBLIC[f"losses.{name}"] for name in (
    "add_loss", "compute_weighted_loss", "get_losses", "get_regularization_losses",
    "get_total_loss")})
