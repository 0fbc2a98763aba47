"""Metrics of several classes: confusion, intersection over union, answers among the first k.

Invariants: those of streaming.py.  Labels of the metrics at k are int64 class ids, a row each: a
tensor [..., number of labels], where -1 stands for none, or a SparseTensor.

Thread: the one building the graph.  Source: TF 1.15 tf.metrics.

Example:  `iou, update = tf.metrics.mean_iou(labels, tf.argmax(logits, -1), num_classes=21)`.
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import SparseTensor
from pyflow.lib.array import gather_functions, partition_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import binary_functions, logic_functions, lookup_functions, reductions
from pyflow.lib.metrics.streaming import collected, metric, metric_variable, ratio
from pyflow.lib.sparse import sparse_functions
from pyflow.lib.variables import state_functions, variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.ops.move import diag_ops


def _flat(tensor):
    return tensor if tensor is None or tensor.shape.ndims in (0, 1) else \
        tensors.reshape(tensor, [-1])


def _given(value):
    return None if value is None else ops.convert_to_tensor(value)


# --------------------------------------------------------------------------------------- confusion
def mean_iou(labels, predictions, num_classes, weights=None, metrics_collections=None,
             updates_collections=None, name=None):
    """The mean over classes of tp / (tp + fp + fn), of classes that occurred.

    labels, predictions: class ids of one shape, in [0, num_classes). weights: of that shape.
    Returns (value, update_op); the update is the confusion matrix, float64. TF:
    tf.metrics.mean_iou.
    ValueError for shapes that do not fit.
    """
    with variable_scope.variable_scope(name, "mean_iou", (predictions, labels, weights)):
        labels, predictions, weights = _given(labels), _given(predictions), _given(weights)
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes, num_classes], dtypes.float64,
                                "total_confusion_matrix")
        update = state_functions.assign_add(total, lookup_functions.confusion_matrix(
            _flat(tensors.cast(labels, dtypes.int64)),
            _flat(tensors.cast(predictions, dtypes.int64)), num_classes, dtypes.float64,
            weights=_flat(weights)))
        with ops.control_dependencies(None):
            value = _mean_iou(ops.convert_to_tensor(total))
        return collected(value, update, metrics_collections, updates_collections)


def _mean_iou(matrix):
    rows, columns = (tensors.cast(reductions.reduce_sum(matrix, axis), dtypes.float32)
                     for axis in (0, 1))
    hits = tensors.cast(diag_ops.DiagPart(matrix), dtypes.float32)
    union = rows + columns - hits
    occurred = logic_ops.Greater(union, 0.0)
    iou = hits / logic_ops.Select(occurred, union, tensors.ones_like(union))
    number = reductions.reduce_sum(tensors.cast(logic_ops.NotEqual(union, 0.0), dtypes.float32))
    return binary_functions.div_no_nan(reductions.reduce_sum(iou, name="mean_iou"), number)


def mean_per_class_accuracy(labels, predictions, num_classes, weights=None,
                            metrics_collections=None, updates_collections=None, name=None):
    """The mean over classes of each one's accuracy: (value, update_op).

    labels, predictions: class ids of one shape, in [0, num_classes). weights: of that shape. The
    update holds the accuracy of each class, float32 [num_classes]. TF:
    tf.metrics.mean_per_class_accuracy.
    ValueError for shapes that do not fit.
    """
    with variable_scope.variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels = _flat(tensors.cast(labels, dtypes.int64))
        predictions, weights = _flat(_given(predictions)), _flat(_given(weights))
        predictions.shape.assert_is_compatible_with(labels.shape)
        total = metric_variable([num_classes], dtypes.float32, "total")
        count = metric_variable([num_classes], dtypes.float32, "count")
        ones = tensors.ones([tensors.size(labels)], dtypes.float32)
        right = tensors.cast(logic_ops.Equal(
            tensors.cast(predictions, labels.dtype), labels), dtypes.float32)
        if weights is not None:
            weights = tensors.cast(weights, dtypes.float32)
            right, ones = right * weights, ones * weights
        updates = [state_functions.scatter_add(count, labels, right),
                   state_functions.scatter_add(total, labels, ones)]
        with ops.control_dependencies(None):
            value = reductions.reduce_mean(ratio((count, total)), name="mean_accuracy")
        return collected(value, ratio(updates, "update_op"), metrics_collections,
                         updates_collections)


# -------------------------------------------------------------------------------------- labels at k
def _at_k_name(name, k=None, class_id=None):
    name = f"{name}_at_k" if k is None else f"{name}_at_{k}"
    return name if class_id is None else f"{name}_class{class_id}"


def _labels(labels):
    return labels if isinstance(labels, SparseTensor) else \
        SparseTensor.from_value(labels) if hasattr(labels, "dense_shape") else \
        ops.convert_to_tensor(labels)


def _expanded(labels, predictions):
    """Labels with the predictions' rank: one more, of size one, where they lack it."""
    labels = _labels(labels)
    if isinstance(labels, SparseTensor):
        wider = logic_ops.Equal(tensors.rank(predictions),
                                  tensors.size(labels.dense_shape) + 1)
        return cond(wider, lambda: sparse_functions.sparse_reshape(
            labels, tensors.concat([labels.dense_shape, ops.convert_to_tensor(
                [1], dtypes.int64)], 0)), lambda: labels)
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None in ranks:
        return cond(logic_ops.Equal(tensors.rank(predictions), tensors.rank(labels) + 1),
                    lambda: tensors.expand_dims(labels, -1), lambda: labels)
    if ranks[0] == ranks[1]:
        return labels
    if ranks[1] == ranks[0] + 1:
        return tensors.expand_dims(labels, -1)
    raise ValueError(f"Unexpected labels shape {labels.shape} for predictions shape "
                     f"{predictions.shape}. Predictions rank should be the same rank as labels "
                     "rank or labels rank plus one .")


def _of_class(labels, answers, class_id):
    """Both without any other class."""
    if class_id is None:
        return labels, answers
    return _only(labels, class_id), _only(answers, class_id)


def _only(ids, class_id):
    if isinstance(ids, SparseTensor):
        return sparse_functions.sparse_retain(
            ids, logic_ops.Equal(ids.values, ops.convert_to_tensor(class_id, ids.values.dtype)))
    indices = logic_functions.where(
        logic_ops.Equal(ids, ops.convert_to_tensor(class_id, ids.dtype)))
    return SparseTensor(indices, gather_functions.gather_nd(ids, indices),
                        tensors.shape_internal(ids, out_type=dtypes.int64))


def _row_counts(rows, weights):
    """The sizes of the sets in each row, as float64, weighted."""
    counts = tensors.cast(sparse_functions.set_size(rows), dtypes.float64)
    return counts if weights is None else counts * tensors.cast(weights, dtypes.float64)


def _true_positives(labels, answers, class_id=None, weights=None):
    labels, answers = _of_class(labels, answers, class_id)
    return _row_counts(sparse_functions.set_intersection(answers, labels), weights)


def _false_positives(labels, answers, class_id=None, weights=None):
    labels, answers = _of_class(labels, answers, class_id)
    return _row_counts(sparse_functions.set_difference(answers, labels, aminusb=True), weights)


def _false_negatives(labels, answers, class_id=None, weights=None):
    labels, answers = _of_class(labels, answers, class_id)
    return _row_counts(sparse_functions.set_difference(answers, labels, aminusb=False), weights)


def _streamed(count, kind, labels, answers, k, class_id, weights):
    """(variable, update) of one of the three counts."""
    with ops.name_scope(None, _at_k_name(kind, k, class_id), [answers]) as scope:
        batch = reductions.reduce_sum(count(labels, answers, class_id, weights))
        total = metric_variable([], dtypes.float64, scope)
        return total, state_functions.assign_add(total, batch, name="update")


def _share_at_k(name, kind, other, labels, predictions_idx, k, class_id, weights,
                value_collections, update_collections, given_name):
    """tp / (tp + other) of the answers `predictions_idx`."""
    with ops.name_scope(given_name, _at_k_name(name, k, class_id),
                        [predictions_idx]) as scope:
        answers = tensors.cast(predictions_idx, dtypes.int64)
        labels = _expanded(labels, answers)
        pairs = [_streamed(_true_positives, "true_positive", labels, answers, k, class_id, weights),
                 _streamed(other, kind, labels, answers, k, class_id, weights)]
        values, updates = zip(*pairs)

        def share(counts, label):
            total = counts[0] + counts[1]
            return binary_functions.divide(ops.convert_to_tensor(counts[0]), total,
                                           name=scope if label == "value" else "update")
        return metric(share, values, updates, value_collections, update_collections)


def precision_at_top_k(labels, predictions_idx, k=None, class_id=None, weights=None,
                       metrics_collections=None, updates_collections=None, name=None):
    """The share of the answers `predictions_idx` that are labels: (value, update_op), float64.

    labels: int64 [..., n] or SparseTensor of that rank; predictions_idx: class ids [..., k].
    class_id: counts one class only. weights: [...] or broadcast. TF:
    tf.metrics.precision_at_top_k.
    ValueError for shapes that do not fit.
    """
    return _share_at_k("precision", "false_positive", _false_positives, labels, predictions_idx, k,
                       class_id, weights, metrics_collections, updates_collections, name)


def recall_at_top_k(labels, predictions_idx, k=None, class_id=None, weights=None,
                    metrics_collections=None, updates_collections=None, name=None):
    """The share of labels that are among the answers `predictions_idx`: (value, update_op).

    Arguments as precision_at_top_k's. TF: tf.metrics.recall_at_top_k.
    labels: int64 [..., n] or a SparseTensor of ints; ValueError for shapes that do not fit.
    """
    return _share_at_k("recall", "false_negative", _false_negatives, labels, predictions_idx, k,
                       class_id, weights, metrics_collections, updates_collections, name)


def precision_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None,
                   updates_collections=None, name=None):
    """The share of the k most probable classes that are labels: (value, update_op), float64.

    labels: int64 [..., n] or SparseTensor; predictions: floats [..., classes]. class_id: counts one
    class only. weights: [...] or broadcast. TF: tf.metrics.precision_at_k.
    ValueError for shapes that do not fit.
    """
    with ops.name_scope(name, _at_k_name("precision", k, class_id), [predictions]) as scope:
        _, answers = partition_functions.top_k(predictions, k)
        return precision_at_top_k(labels, answers, k, class_id, weights, metrics_collections,
                                  updates_collections, scope)


def recall_at_k(labels, predictions, k, class_id=None, weights=None, metrics_collections=None,
                updates_collections=None, name=None):
    """The share of labels that are among the k most probable classes: (value, update_op), float64.

    Arguments as precision_at_k's. TF: tf.metrics.recall_at_k.
    labels: int64 [..., n]; ValueError for shapes that do not fit.
    """
    with ops.name_scope(name, _at_k_name("recall", k, class_id), [predictions]) as scope:
        _, answers = partition_functions.top_k(predictions, k)
        return recall_at_top_k(labels, answers, k, class_id, weights, metrics_collections,
                               updates_collections, scope)


# ------------------------------------------------------------------------------- average precision
def average_precision_at_k(labels, predictions, k, weights=None, metrics_collections=None,
                           updates_collections=None, name=None):
    """The mean over rows of the average precision of the k most probable classes.

    labels: int64 [..., n] or SparseTensor, ids outside of [0, classes) count as none; predictions:
    floats [..., classes]; weights: [...] or broadcast. Returns (value, update_op), float64
    scalars. ValueError for k < 1. TF: tf.metrics.average_precision_at_k."""
    if k < 1:
        raise ValueError(f"Invalid k={k}. `k` should be >= 1.")
    with ops.name_scope(name, _at_k_name("average_precision", k), [predictions]) as scope:
        predictions = ops.convert_to_tensor(predictions)
        _, answers = partition_functions.top_k(predictions, k)
        classes = tensors.cast(tensors.shape_internal(predictions)[-1], dtypes.int64)
        average = _average_precision(_known(_labels(labels), classes), answers)
        if weights is not None:
            weights = binary_ops.Mul(tensors.cast(weights, dtypes.float64),
                                     tensors.ones_like(average))
            average = average * weights
        pairs = []
        for label, batch in (
                ("total", reductions.reduce_sum(average, name="batch_total")),
                ("max", tensors.cast(tensors.size(average), dtypes.float64) if weights is None
                 else reductions.reduce_sum(weights, name="batch_max"))):
            with ops.name_scope(label) as inner:
                kept = metric_variable([], dtypes.float64, inner)
                pairs.append((kept, state_functions.assign_add(kept, batch, name="update")))
        values, updates = zip(*pairs)
        return metric(lambda pair, label: binary_functions.div_no_nan(
            pair[0], pair[1], name="mean" if label == "value" else scope), values, updates,
            metrics_collections, updates_collections)


def _known(labels, classes):
    """Ids that are no class become -1."""
    values = labels.values if isinstance(labels, SparseTensor) else labels
    classes = tensors.cast(classes, values.dtype)
    cleaned = logic_functions.where_v2(logic_ops.GreaterEqual(values, classes),
                                       ops.convert_to_tensor(-1, values.dtype), values)
    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, cleaned, labels.dense_shape)
    return cleaned


def _average_precision(labels, answers):
    """Per row: the sum over places with a right answer of the precision so far, by how many labels
    there can be."""
    answers = tensors.cast(answers, dtypes.int64)
    k = answers.shape.as_list()[-1]
    labels = _expanded(labels, answers)
    right = _right_at_each(labels, answers, k)
    seen = reductions.cumsum(tensors.ones_like(right), axis=-1)
    precision = reductions.cumsum(right, axis=-1) / seen
    total = reductions.reduce_sum(precision * right, axis=[-1])
    return total / tensors.cast(_relevant(labels, k), dtypes.float64)


def _right_at_each(labels, answers, k):
    """1 where the answer is a label, float64 [..., k]."""
    columns = [_true_positives(labels, answers[..., i:i + 1]) for i in range(k)]
    return tensors.stack(columns, axis=-1)


def _relevant(labels, k):
    """How many of a row's labels k answers can find."""
    if isinstance(labels, SparseTensor):
        return binary_ops.Minimum(sparse_functions.set_size(labels), k)
    known = tensors.cast(logic_ops.GreaterEqual(labels, ops.convert_to_tensor(
        0, labels.dtype)), labels.dtype)
    return binary_ops.Minimum(reductions.reduce_sum(known, axis=-1),
                              ops.convert_to_tensor(k, labels.dtype))


PUBLIC = {f"metrics.{function.__name__}": function for function in (
    mean_iou, mean_per_class_accuracy, precision_at_k, precision_at_top_k, recall_at_k,
    recall_at_top_k, average_precision_at_k)}
PUBLIC["metrics.sparse_precision_at_k"] = precision_at_k
PUBLIC["metrics.sparse_average_precision_at_k"] = average_precision_at_k
