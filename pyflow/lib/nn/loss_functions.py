"""tf.losses: weighted losses, reduced to a number and collected.

Invariants
  1. `weights` is a scalar or has the rank of the losses, each dimension 1 or theirs.
  2. A loss is added to `loss_collection` (default GraphKeys.LOSSES) unless that is None.
  3. The default reduction divides the weighted sum by the number of nonzero weights; 0 of none.

Example:  `tf.losses.mean_squared_error(labels, predictions)`.
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.graph import GraphKeys
from pyflow.lib.array import identity_functions
from pyflow.lib.math import binary_functions, reductions
from pyflow.lib.nn import softmax_functions, weights_broadcast
from pyflow.ops.base import common, tensors
from pyflow.ops.base.common import static
from pyflow.ops.elementwise import activation_ops, binary_ops, logic_ops, unary_ops
from pyflow.ops.move import broadcast_ops

LOSSES = GraphKeys.LOSSES


class Reduction:
    """How weighted losses become one number."""
    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls):
        """The five different keys."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key):
        """ValueError unless `key` is one of `all()`."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}: expected one of {cls.all()}")


BY_WEIGHTS = Reduction.SUM_BY_NONZERO_WEIGHTS


def _safe_divide(total, count):
    return binary_ops.DivNoNan(total, count, name="value")


def _present(weights, losses):
    """The number of losses whose weight is not zero, float32."""
    known = static(weights)
    if known is not None and known.ndim == 0 and losses.shape.is_fully_defined():
        count = float(losses.shape.num_elements()) if known != 0 else 0.0
        return graph.convert_to_tensor(count, dtype=dtypes.float32)
    nonzero = tensors.cast(
        logic_ops.NotEqual(weights, tensors.zeros_like(weights)), dtypes.float32
    )
    return reductions.reduce_sum(broadcast_ops.BroadcastTo(nonzero, tensors.shape(losses)))


def compute_weighted_loss(
    losses, weights=1.0, scope=None, loss_collection=LOSSES, reduction=BY_WEIGHTS
):
    """`losses` times `weights`, reduced; in the dtype of `losses`.
    TF: losses.compute_weighted_loss.
    losses: numbers of any shape, weights broadcast to it. Result: a float scalar, or for
    Reduction.NONE losses' shape. ValueError for weights that do not broadcast or an unknown
    reduction."""
    Reduction.validate(reduction)
    with graph.name_scope(scope, "weighted_loss", [losses, weights]):
        losses = graph.convert_to_tensor(losses)
        weights = graph.convert_to_tensor(weights)
        weights = weights_broadcast.checked(weights, losses)
        wide = tensors.cast(losses, dtypes.float32)
        weights = tensors.cast(weights, dtypes.float32)
        loss = wide * weights
        if reduction != Reduction.NONE:
            loss = reductions.reduce_sum(loss)
            if reduction == Reduction.MEAN:
                spread = broadcast_ops.BroadcastTo(weights, tensors.shape(wide))
                loss = _safe_divide(loss, reductions.reduce_sum(spread))
            elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
                loss = _safe_divide(loss, _present(weights, wide))
            elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
                loss = _safe_divide(loss, tensors.cast(tensors.size(wide), dtypes.float32))
        loss = tensors.cast(loss, losses.dtype)
        add_loss(loss, loss_collection)
        return loss


def add_loss(loss, loss_collection=LOSSES):
    """Puts a loss into a collection. TF: losses.add_loss.
    loss: any shape and dtype. Never an error."""
    if loss_collection:
        graph.add_to_collection(loss_collection, loss)


def get_losses(scope=None, loss_collection=LOSSES):
    """The collected losses, of a scope if given. TF: losses.get_losses.
    Tensors, mostly scalars, of any dtype. Never an error."""
    return graph.get_collection(loss_collection, scope)


def get_regularization_losses(scope=None):
    """The collected regularization losses. TF: losses.get_regularization_losses.
    Scalars of any float dtype. Never an error."""
    return graph.get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope=None, name="total_regularization_loss"):
    """Their sum, 0 of none. TF: losses.get_regularization_loss.
    A float scalar, 0 without losses. ValueError for losses of different shapes."""
    found = get_regularization_losses(scope)
    return binary_functions.add_n(found, name=name) if found else graph.convert_to_tensor(0.0)


def get_total_loss(add_regularization_losses=True, name="total_loss", scope=None):
    """Sum of all collected losses. TF: losses.get_total_loss.
    A float scalar. ValueError for losses of different shapes, or for none."""
    found = get_losses(scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope)
    return binary_functions.add_n(found, name=name)


def _pair(labels, predictions, who):
    """labels and predictions as float32 tensors of one shape; None is a ValueError."""
    if labels is None or predictions is None:
        raise ValueError(f"losses.{who}: labels and predictions must not be None")
    predictions = tensors.cast(graph.convert_to_tensor(predictions), dtypes.float32)
    labels = tensors.cast(graph.convert_to_tensor(labels), dtypes.float32)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions


def absolute_difference(labels, predictions, weights=1.0, scope=None, loss_collection=LOSSES,
                        reduction=BY_WEIGHTS):
    """|predictions - labels|. TF: losses.absolute_difference.
    The two: numbers of one shape, to which weights broadcast. Result: a float scalar, or that
    shape for Reduction.NONE. ValueError for None or shapes that differ."""
    with graph.name_scope(scope, "absolute_difference", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions, "absolute_difference")
        losses = unary_ops.Abs(predictions - labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_squared_error(labels, predictions, weights=1.0, scope=None, loss_collection=LOSSES,
                       reduction=BY_WEIGHTS):
    """(predictions - labels)^2. TF: losses.mean_squared_error. The two: numbers of one shape, to
    which weights broadcast. Result: a float scalar, or that shape for Reduction.NONE. scope: of its
    nodes. loss_collection: where the loss is added; reduction: how it becomes a scalar, a
    tf.losses.Reduction. ValueError for None or shapes that differ.

        >>> tf.Session().run(tf.losses.mean_squared_error([1.0, 2.0], predictions=[1.0, 5.0]))
        np.float32(4.5)
    """
    with graph.name_scope(scope, "mean_squared_error", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions, "mean_squared_error")
        losses = binary_ops.SquaredDifference(predictions, labels)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(labels, predictions, weights=1.0, scope=None,
                                loss_collection=LOSSES):
    """The mean, over all pairs of elements of an item of the batch, of the squared difference
    between the labels' difference and the predictions'. TF: losses.mean_pairwise_squared_error.
    The two: numbers [batch, ...] of one shape; weights: a scalar, [batch] or [batch, 1, ...].
    Result: a float scalar, the sum over the batch, 0 where all weights are. ValueError for None or
    shapes that differ."""
    values = (predictions, labels, weights)
    with graph.name_scope(scope, "mean_pairwise_squared_error", values) as scope:
        weights = tensors.cast(graph.convert_to_tensor(weights), dtypes.float32)
        labels, predictions = _pair(labels, predictions, "mean_pairwise_squared_error")
        off = predictions - labels
        weights = weights_broadcast.checked(weights, labels)
        axes = tensors.range_(1, tensors.rank(off))

        def of_item(x):
            return reductions.reduce_sum(x, axes, keepdims=True)
        nonzero = tensors.cast(logic_ops.NotEqual(weights, 0.0), dtypes.float32)
        count = of_item(broadcast_ops.BroadcastTo(nonzero, tensors.shape(off)))
        squares = 2.0 * _safe_divide(of_item(off * off), binary_ops.Maximum(count - 1, 0.0))
        mixed = 2.0 * _safe_divide(unary_ops.Square(of_item(off)),
                                   binary_ops.Maximum(count * (count - 1), 0.0))
        loss = reductions.reduce_sum((squares - mixed) * weights)
        any_present = tensors.cast(reductions.reduce_sum(count) > 0, dtypes.float32)
        loss = binary_ops.MulNoNan(loss, any_present, name="value")
        add_loss(loss, loss_collection)
        return loss


def cosine_distance(labels, predictions, axis=None, weights=1.0, scope=None, loss_collection=LOSSES,
                    reduction=BY_WEIGHTS, dim=None):
    """1 - sum(labels * predictions) over `axis`, of unit vectors. TF: losses.cosine_distance.
    The two: numbers of one shape, to which weights broadcast. Result: a float scalar, or that
    shape for Reduction.NONE. ValueError for None or shapes that differ."""
    axis = common.one_of(axis, dim, "axis", "dim")
    if axis is None:
        raise ValueError("losses.cosine_distance: axis must be given")
    with graph.name_scope(scope, "cosine_distance_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions, "cosine_distance")
        losses = 1 - reductions.reduce_sum(predictions * labels, (axis,), keepdims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(
    labels, logits, weights=1.0, scope=None, loss_collection=LOSSES, reduction=BY_WEIGHTS
):
    """max(1 - (2 labels - 1) logits, 0), labels 0 or 1. TF: losses.hinge_loss.
    The two: numbers of one shape, to which weights broadcast. Result: a float scalar, or that
    shape for Reduction.NONE. ValueError for None or shapes that differ."""
    with graph.name_scope(scope, "hinge_loss", (logits, labels, weights)) as scope:
        labels, logits = _pair(labels, logits, "hinge_loss")
        signs = 2 * labels - tensors.ones_like(labels)
        losses = activation_ops.Relu(tensors.ones_like(labels) - signs * logits)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def huber_loss(labels, predictions, weights=1.0, delta=1.0, scope=None, loss_collection=LOSSES,
               reduction=BY_WEIGHTS):
    """Quadratic up to `delta`, linear beyond (Huber 1964). TF: losses.huber_loss.
    The two: numbers of one shape, to which weights broadcast. Result: a float scalar, or that
    shape for Reduction.NONE. ValueError for None or shapes that differ."""
    with graph.name_scope(scope, "huber_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions, "huber_loss")
        distance = unary_ops.Abs(predictions - labels)
        near = binary_ops.Minimum(distance, delta)
        losses = 0.5 * near * near + delta * (distance - near)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def log_loss(labels, predictions, weights=1.0, epsilon=1e-7, scope=None, loss_collection=LOSSES,
             reduction=BY_WEIGHTS):
    """-labels log(p + epsilon) - (1 - labels) log(1 - p + epsilon). TF: losses.log_loss.
    The two: numbers of one shape, to which weights broadcast. Result: a float scalar, or that
    shape for Reduction.NONE. ValueError for None or shapes that differ."""
    with graph.name_scope(scope, "log_loss", (predictions, labels, weights)) as scope:
        labels, predictions = _pair(labels, predictions, "log_loss")
        losses = -labels * unary_ops.Log(predictions + epsilon) \
            - (1 - labels) * unary_ops.Log(1 - predictions + epsilon)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sigmoid_cross_entropy(multi_class_labels, logits, weights=1.0, label_smoothing=0, scope=None,
                          loss_collection=LOSSES, reduction=BY_WEIGHTS):
    """Sigmoid cross entropy, labels smoothed toward 1/2. TF: losses.sigmoid_cross_entropy.
    The two: numbers of one shape, to which weights broadcast. Result: a float scalar, or that
    shape for Reduction.NONE. ValueError for None or shapes that differ."""
    values = (logits, multi_class_labels, weights)
    with graph.name_scope(scope, "sigmoid_cross_entropy_loss", values) as scope:
        logits = graph.convert_to_tensor(logits)
        labels = tensors.cast(multi_class_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = softmax_functions.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(onehot_labels, logits, weights=1.0, label_smoothing=0, scope=None,
                          loss_collection=LOSSES, reduction=BY_WEIGHTS):
    """Softmax cross entropy, labels smoothed toward uniform. TF: losses.softmax_cross_entropy.
    onehot_labels, logits: floats [batch, classes]; weights broadcast to [batch]. Result: a float
    scalar, or [batch] for Reduction.NONE. ValueError for shapes that do not fit."""
    values = (logits, onehot_labels, weights)
    with graph.name_scope(scope, "softmax_cross_entropy_loss", values) as scope:
        logits = graph.convert_to_tensor(logits)
        labels = tensors.cast(onehot_labels, logits.dtype)
        logits.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            classes = tensors.cast(tensors.shape(labels)[1], logits.dtype)
            labels = labels * (1.0 - label_smoothing) + label_smoothing / classes
        labels = identity_functions.stop_gradient(labels, name="labels_stop_gradient")
        losses = softmax_functions.softmax_cross_entropy_with_logits_v2(
            labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(labels, logits, weights=1.0, scope=None, loss_collection=LOSSES,
                                 reduction=BY_WEIGHTS):
    """Softmax cross entropy with class numbers. TF: losses.sparse_softmax_cross_entropy.
    labels: ints [batch]; logits: floats [batch, classes]; weights broadcast to [batch]. Result:
    a float scalar, or [batch] for Reduction.NONE. ValueError for shapes that do not fit."""
    values = (logits, labels, weights)
    with graph.name_scope(scope, "sparse_softmax_cross_entropy_loss", values) as scope:
        labels, logits = graph.convert_to_tensor(labels), graph.convert_to_tensor(logits)
        weights = graph.convert_to_tensor(weights)
        a, b = labels.shape.ndims, logits.shape.ndims
        if None not in (a, b) and a == b and labels.shape.as_list()[-1] in (1, None):
            labels = tensors.squeeze(labels, [-1])
        if weights.shape.ndims and labels.shape.ndims is not None \
                and weights.shape.ndims == labels.shape.ndims + 1:
            weights = tensors.squeeze(weights, [-1])
        losses = softmax_functions.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


PUBLIC = {
    "losses." + function.__name__: function
    for function in (
        Reduction,
        compute_weighted_loss,
        add_loss,
        get_losses,
        get_regularization_losses,
        get_regularization_loss,
        get_total_loss,
        absolute_difference,
        mean_squared_error,
        mean_pairwise_squared_error,
        cosine_distance,
        hinge_loss,
        huber_loss,
        log_loss,
        sigmoid_cross_entropy,
        softmax_cross_entropy,
        sparse_softmax_cross_entropy,
    )
}
