"""Heads: the losses, metrics, predictions and exported outputs of one kind of label.

    logits, labels -> head.create_estimator_spec -> EstimatorSpec

Invariants
    1. Labels and weights have logits' shape but for the last dimension, or lack it.
    2. Metrics' names are TensorFlow's.

Thread: the one building the graph.  Source: TF 1.15 tf.estimator's heads.

    head = tf.estimator.BinaryClassHead()
    spec = head.create_estimator_spec(features, mode, logits, labels, optimizer=optimizer)
"""
import inspect

import pyflow as tf
from pyflow.estimator import outputs
from pyflow.estimator.modes import ModeKeys
from pyflow.estimator.spec import EstimatorSpec
from pyflow.saved_model import keys

MEAN_OVER_EXAMPLES = "weighted_sum_over_batch_size"


class Head:
    """What heads have in common. TF: tf.estimator.Head.

    loss_reduction: a tf.losses.Reduction, of the loss that is trained. weight_column: the key of a
    feature, or a numeric column, that weighs examples."""

    def __init__(self, weight_column, loss_reduction, loss_fn, name):
        if loss_reduction not in tf.losses.Reduction.all() or loss_reduction == "none":
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}. See `losses.Reduction` "
                             "for valid options.")
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(f"loss_fn must be a function of labels and logits, got {loss_fn!r}")
        self._weight_column, self._reduction = weight_column, loss_reduction
        self._loss_fn, self._name = loss_fn, name

    def __repr__(self):
        return f"<tf.estimator.{type(self).__name__}>"

    @property
    def name(self):
        """The head's name, or None."""
        return self._name

    @property
    def loss_reduction(self):
        """The tf.losses.Reduction."""
        return self._reduction

    # ------------------------------------------------------------ what kinds differ in

    @property
    def logits_dimension(self):
        """The size of logits' last dimension."""
        raise TypeError(f"{type(self).__name__} has no logits_dimension")

    def _checked_labels(self, labels, logits):
        """Labels as `_unreduced` wants them, [batch, ...]."""
        return dense_labels(labels, logits, self.logits_dimension)

    def _predictions(self, logits):
        """{name: tensor}."""
        raise TypeError(f"{type(self).__name__} has no _predictions")

    def _unreduced(self, labels, logits):
        """Each example's loss, [batch, 1]."""
        raise TypeError(f"{type(self).__name__} has no _unreduced")

    def _metrics(self, labels, predictions, weights, unreduced):
        """{name: (value, update_op)}."""
        raise TypeError(f"{type(self).__name__} has no _metrics")

    def _export_outputs(self, predictions):
        """{name: ExportOutput}."""
        raise TypeError(f"{type(self).__name__} has no _export_outputs")

    # ------------------------------------------------------------ what they share

    def _key(self, name):
        return f"{name}/{self._name}" if self._name else name

    def predictions(self, logits, keys=None):
        """{name: tensor} of logits; keys: those wanted, default all."""
        made = self._predictions(self._checked_logits(logits))
        return made if keys is None else {key: made[key] for key in keys}

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        """The scalar loss that is trained."""
        logits = self._checked_logits(logits)
        labels = self._checked_labels(labels, logits)
        total, _, _ = self._reduced(labels, logits, features)
        return self._regularized(total, regularization_losses)

    def _checked_logits(self, logits):
        logits = tf.to_float(tf.convert_to_tensor(logits))
        last = logits.shape[-1].value if logits.shape.ndims else None
        if last not in (None, self.logits_dimension):
            raise ValueError(f"logits shape must be [D0, D1, ... DN, logits_dimension], got "
                             f"{logits.shape}; logits_dimension is {self.logits_dimension}")
        return logits

    def _loss_of(self, labels, logits, features):
        """loss_fn's, checked: [batch, 1]."""
        names = inspect.signature(self._loss_fn).parameters
        more = {"features": features} if "features" in names else {}
        more.update({"loss_reduction": self._reduction} if "loss_reduction" in names else {})
        return self._loss_fn(labels=labels, logits=logits, **more)

    def _reduced(self, labels, logits, features):
        """(the loss, each example's, weights or 1.0)."""
        each = self._unreduced(labels, logits) if self._loss_fn is None \
            else self._loss_of(labels, logits, features)
        weights = self._weights(features, logits)
        total = tf.losses.compute_weighted_loss(each, weights=weights, reduction=self._reduction)
        return total, each, weights

    def _weights(self, features, logits):
        if self._weight_column is None:
            return 1.0
        column = self._weight_column
        if isinstance(column, str):
            column = tf.feature_column.numeric_column(column)
        if not hasattr(column, "normalizer_fn"):
            raise TypeError("Weight column must be either a string or _NumericColumn. Given type: "
                            f"{type(column)}.")
        from pyflow.feature_column.columns import Features
        weights = Features(features).get(column)
        if weights.shape.ndims is not None and logits.shape.ndims is not None:
            while weights.shape.ndims < logits.shape.ndims:
                weights = tf.expand_dims(weights, -1)
        return weights

    @staticmethod
    def _regularized(total, losses):
        return total + tf.add_n(list(losses)) if losses else total

    def create_estimator_spec(self, features, mode, logits, labels=None, optimizer=None,
                              trainable_variables=None, train_op_fn=None, update_ops=None,
                              regularization_losses=None):
        """The EstimatorSpec of a model with these logits [batch, ..., logits_dimension].

        To train: optimizer, a tf.train.Optimizer, or train_op_fn(loss); after update_ops.
        trainable_variables: what is trained, default all. regularization_losses: scalars that are
        added. ValueError for none or both of them, or labels that do not fit."""
        with tf.name_scope(self._name, "head"):
            logits = self._checked_logits(logits)
            predictions = self._predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions,
                                     export_outputs=self._export_outputs(predictions))
            labels = self._checked_labels(labels, logits)
            unregularized, each, weights = self._reduced(labels, logits, features)
            loss = self._regularized(unregularized, regularization_losses)
            if mode == ModeKeys.EVAL:
                metrics = self._metrics(labels, predictions, weights, each)
                if regularization_losses:
                    metrics["regularization_loss"] = tf.metrics.mean(tf.add_n(
                        list(regularization_losses)))
                metrics = {self._key(name): pair for name, pair in metrics.items()}
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
            train_op = self._train_op(loss, optimizer, train_op_fn, trainable_variables, update_ops)
        self._summarise(loss, unregularized, each, weights)
        return EstimatorSpec(mode, predictions, loss, train_op)

    @staticmethod
    def _train_op(loss, optimizer, train_op_fn, variables, update_ops):
        if optimizer is not None and train_op_fn is not None:
            raise ValueError("train_op_fn and optimizer cannot both be set.")
        if train_op_fn is not None:
            train_op = train_op_fn(loss)
        elif optimizer is not None:
            train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step(),
                                          var_list=variables)
        else:
            raise ValueError("train_op_fn and optimizer cannot both be None.")
        return tf.group(train_op, *update_ops) if update_ops else train_op

    def _summarise(self, loss, unregularized, each, weights):
        with tf.name_scope(""):
            tf.summary.scalar(self._key("loss"), loss)
            if self._reduction == tf.losses.Reduction.SUM:
                total = tf.reduce_sum(weights * tf.ones_like(each))
                tf.summary.scalar(self._key("average_loss"), unregularized / total)


def dense_labels(labels, logits, size):
    """Labels [..., size] of [..., size], or of [...] where size is 1. ValueError for others."""
    if labels is None:
        raise ValueError("You must provide a labels Tensor. Given: None. Suggested troubleshooting "
                         "steps: Check that your data contains your label feature. Check that your "
                         "input_fn properly parses and returns labels.")
    if isinstance(labels, (tf.SparseTensor, tf.SparseTensorValue)):
        raise ValueError(f"SparseTensor labels are not supported. labels must be a Tensor of shape "
                         f"[D0, D1, ..., DN, {size}], e.g. [batch_size, {size}].")
    labels = tf.convert_to_tensor(labels)
    ranks = labels.shape.ndims, logits.shape.ndims
    if None not in ranks and ranks[0] == ranks[1] - 1:
        labels = tf.expand_dims(labels, -1)
    last = labels.shape[-1].value if labels.shape.ndims else None
    if last not in (None, size):
        raise ValueError(f"Mismatched label shape. Expected labels dimension={size}.  Received "
                         f"{last}. Suggested Fix: If your classifier expects one-hot encoding "
                         "label, check your n_classes argument to the estimator and/or the shape "
                         "of your label. Otherwise, check the shape of your label.")
    return labels


def all_names(logits, n_classes, vocabulary):
    """The names of all classes, for each example: strings [batch, n_classes]."""
    names = tf.constant([vocabulary or [str(i) for i in range(n_classes)]])
    return tf.tile(names, [tf.shape(logits)[0], 1])


class _Classes(Head):
    """Heads of which a label is one of n classes."""

    def __init__(self, n_classes, label_vocabulary, *rest):
        super().__init__(*rest)
        if label_vocabulary is not None and not isinstance(label_vocabulary, (list, tuple)):
            raise ValueError("label_vocabulary should be a list or a tuple. Given type: "
                             f"{type(label_vocabulary)}")
        if label_vocabulary and len(label_vocabulary) != n_classes:
            raise ValueError(f"label_vocabulary has {len(label_vocabulary)} items, n_classes is "
                             f"{n_classes}")
        self._n_classes = n_classes
        self._vocabulary = list(label_vocabulary) if label_vocabulary else None

    def _class_ids(self, labels):
        """Labels as numbers below n_classes, by the vocabulary or as they are."""
        if self._vocabulary is None:
            if not labels.dtype.is_integer and self._n_classes > 2:
                raise ValueError("Labels dtype should be integer. Instead got "
                                 f"{labels.dtype}.")
            text = f"Labels must be <= n_classes - 1 = {self._n_classes - 1}"
            with tf.control_dependencies([
                    tf.assert_less_equal(labels, tf.cast(self._n_classes - 1, labels.dtype),
                                         message=text),
                    tf.assert_non_negative(labels, message="Labels must be >= 0")]):
                return tf.identity(labels)
        if labels.dtype != tf.string:
            raise ValueError("Labels dtype should be string if there is a vocabulary. Instead got "
                             f"{labels.dtype}")
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            self._vocabulary, list(range(self._n_classes)), value_dtype=tf.int64), -1,
            name="class_id_lookup")
        return table.lookup(labels)

    def _classes(self, class_ids):
        """The classes' names."""
        if self._vocabulary is None:
            return tf.as_string(class_ids, name="str_classes")
        return tf.gather(tf.constant(self._vocabulary), class_ids)

    def _class_predictions(self, logits, probabilities, class_ids):
        every = tf.expand_dims(tf.range(self._n_classes), 0)
        return {
            "probabilities": probabilities,
            "class_ids": class_ids,
            "classes": self._classes(class_ids),
            "all_class_ids": tf.tile(every, [tf.shape(logits)[0], 1]),
            "all_classes": all_names(logits, self._n_classes, self._vocabulary),
        }

    def _classification(self, predictions):
        return outputs.ClassificationOutput(scores=predictions["probabilities"],
                                            classes=predictions["all_classes"])


class BinaryClassHead(_Classes):
    """Labels 0 and 1, or two words; one logit; sigmoid cross entropy.

    thresholds: numbers in (0, 1) at which accuracy, precision and recall are measured too.
    label_vocabulary: the words. loss_fn(labels, logits): each example's loss instead.
    TF: tf.estimator.BinaryClassHead."""

    def __init__(self, weight_column=None, thresholds=None, label_vocabulary=None,
                 loss_reduction=MEAN_OVER_EXAMPLES, loss_fn=None, name=None):
        super().__init__(2, label_vocabulary, weight_column, loss_reduction, loss_fn, name)
        self._thresholds = tuple(thresholds or ())
        for threshold in self._thresholds:
            if not 0.0 < threshold < 1.0:
                raise ValueError(f"thresholds not in (0, 1): {self._thresholds}.")

    @property
    def logits_dimension(self):
        """1."""
        return 1

    def _checked_labels(self, labels, logits):
        return tf.to_float(self._class_ids(dense_labels(labels, logits, 1)))

    def _predictions(self, logits):
        logistic = tf.sigmoid(logits, name="logistic")
        two = tf.concat([tf.zeros_like(logits), logits], -1, name="two_class_logits")
        ids = tf.expand_dims(tf.argmax(two, -1), -1, name="class_ids")
        return {"logits": logits, "logistic": logistic,
                **self._class_predictions(logits, tf.nn.softmax(two, name="probabilities"), ids)}

    def _unreduced(self, labels, logits):
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def _metrics(self, labels, predictions, weights, unreduced):
        metrics, logistic, ids = tf.metrics, predictions["logistic"], predictions["class_ids"]
        weights = weights if isinstance(weights, tf.Tensor) else None
        mean_label = metrics.mean(labels, weights)
        made = {
            "average_loss": metrics.mean(unreduced, weights),
            "accuracy": metrics.accuracy(labels, ids, weights),
            "precision": metrics.precision(labels, ids, weights),
            "recall": metrics.recall(labels, ids, weights),
            "prediction/mean": metrics.mean(logistic, weights),
            "label/mean": mean_label,
            "accuracy_baseline": tuple(tf.maximum(x, 1 - x) for x in mean_label),
            "auc": metrics.auc(labels, logistic, weights),
            "auc_precision_recall": metrics.auc(labels, logistic, weights, curve="PR"),
        }
        for threshold in self._thresholds:
            made.update(at_threshold(labels, logistic, weights, threshold))
        return made

    def _export_outputs(self, predictions):
        classes = self._classification(predictions)
        return {keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY: classes, "classification": classes,
                "regression": outputs.RegressionOutput(predictions["logistic"]),
                "predict": outputs.PredictOutput(predictions)}


def at_threshold(labels, probabilities, weights, threshold):
    """Accuracy, precision and recall of what is called 1 from a threshold on."""
    called = tf.cast(tf.greater_equal(probabilities, threshold), tf.float32)
    end = f"positive_threshold_{threshold:g}"
    accuracy = tf.metrics.accuracy(labels, called, weights)
    precision, precision_op = tf.metrics.precision_at_thresholds(
        labels, probabilities, [threshold], weights)
    recall, recall_op = tf.metrics.recall_at_thresholds(
        labels, probabilities, [threshold], weights)
    return {f"accuracy/{end}": accuracy,
            f"precision/{end}": (tf.squeeze(precision), tf.squeeze(precision_op)),
            f"recall/{end}": (tf.squeeze(recall), tf.squeeze(recall_op))}


class MultiClassHead(_Classes):
    """Labels below n_classes, or as many words; n_classes logits; softmax cross entropy.

    ValueError for fewer than three classes. TF: tf.estimator.MultiClassHead."""

    def __init__(self, n_classes, weight_column=None, label_vocabulary=None,
                 loss_reduction=MEAN_OVER_EXAMPLES, loss_fn=None, name=None):
        if n_classes is None or n_classes <= 2:
            raise ValueError(f"n_classes must be > 2: {n_classes}.")
        super().__init__(n_classes, label_vocabulary, weight_column, loss_reduction, loss_fn, name)

    @property
    def logits_dimension(self):
        """n_classes."""
        return self._n_classes

    def _checked_labels(self, labels, logits):
        return self._class_ids(dense_labels(labels, logits, 1))

    def _predictions(self, logits):
        ids = tf.expand_dims(tf.argmax(logits, -1), -1)
        return {"logits": logits, **self._class_predictions(
            logits, tf.nn.softmax(logits, name="probabilities"), ids)}

    def _unreduced(self, labels, logits):
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(labels, [-1]), logits=logits)
        return tf.expand_dims(each, -1)

    def _metrics(self, labels, predictions, weights, unreduced):
        weights = weights if isinstance(weights, tf.Tensor) else None
        return {"average_loss": tf.metrics.mean(unreduced, weights),
                "accuracy": tf.metrics.accuracy(labels, predictions["class_ids"], weights)}

    def _export_outputs(self, predictions):
        classes = self._classification(predictions)
        return {keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY: classes, "classification": classes,
                "predict": outputs.PredictOutput(predictions)}


class MultiLabelHead(Head):
    """Any of n classes at once: labels [batch, n_classes] of 0 and 1, or a SparseTensor of class
    numbers or words; sigmoid cross entropy, the mean over classes.

    thresholds as BinaryClassHead's. TF: tf.estimator.MultiLabelHead."""

    def __init__(self, n_classes, weight_column=None, thresholds=None, label_vocabulary=None,
                 loss_reduction=MEAN_OVER_EXAMPLES, loss_fn=None,
                 classes_for_class_based_metrics=None, name=None):
        if n_classes is None or n_classes < 2:
            raise ValueError(f"n_classes must be > 1 for multi-label classification. Given: "
                             f"{n_classes}")
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._n_classes, self._thresholds = n_classes, tuple(thresholds or ())
        for threshold in self._thresholds:
            if not 0.0 < threshold < 1.0:
                raise ValueError(f"thresholds must be in (0, 1) range. Given: {threshold}")
        self._vocabulary = list(label_vocabulary) if label_vocabulary else None
        self._measured = list(classes_for_class_based_metrics or ())
        for measured in self._measured:
            if isinstance(measured, str) and measured not in (self._vocabulary or ()):
                raise ValueError(f"classes_for_class_based_metrics: {measured!r} is not in "
                                 f"label_vocabulary {self._vocabulary}")

    @property
    def logits_dimension(self):
        """n_classes."""
        return self._n_classes

    def _checked_labels(self, labels, logits):
        if isinstance(labels, (tf.SparseTensor, tf.SparseTensorValue)):
            labels = tf.SparseTensor.from_value(labels)
            ids = labels.values
            if labels.dtype == tf.string:
                if self._vocabulary is None:
                    raise ValueError("Labels of words need label_vocabulary.")
                ids = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
                    self._vocabulary, list(range(self._n_classes)), value_dtype=tf.int64),
                    -1).lookup(ids)
            sparse = tf.SparseTensor(labels.indices, tf.to_int64(ids), labels.dense_shape)
            return tf.to_int64(tf.sparse_to_indicator(sparse, self._n_classes))
        return dense_labels(labels, logits, self._n_classes)

    def _predictions(self, logits):
        return {"logits": logits, "probabilities": tf.sigmoid(logits, name="probabilities"),
                "classes": all_names(logits, self._n_classes, self._vocabulary)}

    def _unreduced(self, labels, logits):
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.to_float(labels), logits=logits)
        return tf.reduce_mean(each, -1, keepdims=True)

    def _metrics(self, labels, predictions, weights, unreduced):
        probabilities = predictions["probabilities"]
        weights = weights if isinstance(weights, tf.Tensor) else None
        labels = tf.to_float(labels)
        made = {"average_loss": tf.metrics.mean(unreduced, weights),
                "auc": tf.metrics.auc(labels, probabilities, weights),
                "auc_precision_recall": tf.metrics.auc(
                    labels, probabilities, weights, curve="PR",
                    summation_method="careful_interpolation")}
        for threshold in self._thresholds:
            made.update(at_threshold(labels, probabilities, weights, threshold))
        for measured in self._measured:
            named = isinstance(measured, str)
            at = self._vocabulary.index(measured) if named else measured
            suffix = measured if named else f"class{measured}"
            made[f"probability_mean/{suffix}"] = tf.metrics.mean(
                probabilities[:, at:at + 1], weights)
            made[f"auc/{suffix}"] = tf.metrics.auc(
                labels[:, at:at + 1], probabilities[:, at:at + 1], weights)
            made[f"auc_precision_recall/{suffix}"] = tf.metrics.auc(
                labels[:, at:at + 1], probabilities[:, at:at + 1], weights, curve="PR",
                summation_method="careful_interpolation")
        return made

    def _export_outputs(self, predictions):
        classes = outputs.ClassificationOutput(scores=predictions["probabilities"],
                                               classes=predictions["classes"])
        return {keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY: classes, "classification": classes,
                "predict": outputs.PredictOutput(predictions)}


class RegressionHead(Head):
    """Labels [batch, label_dimension] of numbers; squared errors, the mean over dimensions.

    inverse_link_fn: logits -> predictions. TF: tf.estimator.RegressionHead."""

    def __init__(self, label_dimension=1, weight_column=None, loss_reduction=MEAN_OVER_EXAMPLES,
                 loss_fn=None, inverse_link_fn=None, name=None):
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}.")
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._size, self._link = label_dimension, inverse_link_fn

    @property
    def logits_dimension(self):
        """label_dimension."""
        return self._size

    def _checked_labels(self, labels, logits):
        return tf.to_float(dense_labels(labels, logits, self._size))

    def _predictions(self, logits):
        if self._link is None:
            return {"predictions": logits}
        return {"predictions": self._link(logits), "logits": logits}

    def _unreduced(self, labels, logits):
        return tf.squared_difference(logits, labels)

    def _metrics(self, labels, predictions, weights, unreduced):
        weights = weights if isinstance(weights, tf.Tensor) else None
        values = predictions["predictions"]
        return {"average_loss": tf.metrics.mean(unreduced, weights),
                "prediction/mean": _mean(values, weights), "label/mean": _mean(labels, weights)}

    def _export_outputs(self, predictions):
        value = outputs.RegressionOutput(predictions["predictions"])
        return {keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY: value, "regression": value,
                "predict": outputs.PredictOutput(predictions)}


class LogisticRegressionHead(RegressionHead):
    """Labels in [0, 1]; the logits' sigmoid is predicted, by cross entropy.
    TF: tf.estimator.LogisticRegressionHead."""

    def __init__(self, weight_column=None, loss_reduction=MEAN_OVER_EXAMPLES, name=None):
        super().__init__(1, weight_column, loss_reduction, _cross_entropy, tf.sigmoid, name)


def _cross_entropy(labels, logits):
    inside = tf.logical_and(tf.greater_equal(labels, 0.0), tf.less_equal(labels, 1.0))
    with tf.control_dependencies([tf.Assert(
            tf.reduce_all(inside), ["Labels must be in range [0, 1]:", labels])]):
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.identity(labels), logits=logits)


class PoissonRegressionHead(RegressionHead):
    """Labels that count; the logits' exponential is predicted, by the Poisson distribution's
    likelihood. compute_full_loss: with the term that labels alone give.
    TF: tf.estimator.PoissonRegressionHead."""

    def __init__(self, label_dimension=1, weight_column=None, loss_reduction=MEAN_OVER_EXAMPLES,
                 compute_full_loss=True, name=None):
        def loss_fn(labels, logits):
            return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=compute_full_loss)
        super().__init__(label_dimension, weight_column, loss_reduction, loss_fn, tf.exp, name)


def _mean(values, weights):
    """tf.metrics.mean with the values' weights."""
    return tf.metrics.mean(values, None if weights is None else weights * tf.ones_like(values))


def binary_or_multi_class_head(n_classes, weight_column, label_vocabulary, loss_reduction):
    """The head of a classifier."""
    if n_classes == 2:
        return BinaryClassHead(weight_column, None, label_vocabulary, loss_reduction)
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction)


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    Head, BinaryClassHead, MultiClassHead, MultiLabelHead, RegressionHead, LogisticRegressionHead,
    PoissonRegressionHead)}
PUBLIC.update({
    "contrib.estimator.binary_classification_head": BinaryClassHead,
    "contrib.estimator.multi_class_head": MultiClassHead,
    "contrib.estimator.multi_label_head": MultiLabelHead,
    "contrib.estimator.regression_head": RegressionHead,
    "contrib.estimator.logistic_regression_head": LogisticRegressionHead,
    "contrib.estimator.poisson_regression_head": PoissonRegressionHead,
})
