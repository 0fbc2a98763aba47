"""tf.estimator.LinearClassifier, LinearRegressor, LinearEstimator.

Variables: linear/linear_model/COLUMN/weights and linear/linear_model/bias_weights.

Thread: one.  Source: TF 1.15 tf.estimator canned linear.

    tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x")]).train(input_fn, steps=9)
"""
import math

import pyflow as tf
from pyflow.estimator import heads
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.optimizers import optimizer_of

_RATE = 0.2


def partitioner_of(config, bytes_each=64 << 20):
    """As many parts of a large variable as there are parameter servers: one here."""
    parts = max(1, config.num_ps_replicas if config else 0)
    return tf.min_max_variable_partitioner(max_partitions=parts, min_slice_size=bytes_each)


def check_features(features):
    """ValueError unless features are a dict."""
    if not isinstance(features, dict):
        raise ValueError("features should be a dictionary of `Tensor`s. Given type: "
                         f"{type(features)}")


def linear_logits(features, columns, units, sparse_combiner):
    """The linear model's logits [batch, units], in the scope of the caller, and its summaries."""
    found = {}
    logits = tf.feature_column.linear_model(features, columns, units, sparse_combiner,
                                            cols_to_vars=found)
    bias = found.pop("bias")
    if units > 1:
        tf.summary.histogram("bias", tf.concat([tf.reshape(v, [-1]) for v in bias], 0))
    else:
        tf.summary.scalar("bias", bias[0][0])
    weights = [tf.reshape(v, [-1]) for variables in found.values() for v in variables]
    tf.summary.scalar("fraction_of_zero_weights", tf.nn.zero_fraction(tf.concat(weights, 0)))
    return logits


def linear_spec(features, labels, mode, head, columns, optimizer, partitioner, config,
                sparse_combiner):
    """The EstimatorSpec of a linear model with a head."""
    check_features(features)
    columns = list(columns)
    optimizer = optimizer_of(optimizer or "Ftrl", min(_RATE, 1.0 / math.sqrt(len(columns))))
    with tf.variable_scope("linear", values=tuple(features.values()),
                           partitioner=partitioner or partitioner_of(config)):
        logits = linear_logits(features, columns, head.logits_dimension, sparse_combiner)
        # In the scope, as TensorFlow does: checkpoints have its names of slots.
        return head.create_estimator_spec(features, mode, logits, labels, optimizer=optimizer)


def _estimator_init(self, head, feature_columns, optimizer, config, partitioner, sparse_combiner,
                    model_dir, warm_start_from):
    def model_fn(features, labels, mode, config):
        return linear_spec(features, labels, mode, head, feature_columns, optimizer, partitioner,
                           config, sparse_combiner)
    Estimator.__init__(self, model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearClassifier(Estimator):
    """A linear model of two or n_classes classes.

    feature_columns: any columns. model_dir, config, warm_start_from: as Estimator's. weight_column:
    the feature that weighs examples. label_vocabulary: the classes' names, if labels are words.
    optimizer: a name ("Ftrl"), a tf.train.Optimizer or a function that makes one. partitioner: of
    variables. loss_reduction: of a batch's losses. sparse_combiner: of a column's weights.
    TF: tf.estimator.LinearClassifier."""

    def __init__(self, feature_columns, model_dir=None, n_classes=2, weight_column=None,
                 label_vocabulary=None, optimizer="Ftrl", config=None, partitioner=None,
                 warm_start_from=None, loss_reduction="weighted_sum", sparse_combiner="sum"):
        head = heads.binary_or_multi_class_head(n_classes, weight_column, label_vocabulary,
                                                loss_reduction)
        _estimator_init(self, head, feature_columns, optimizer, config, partitioner,
                        sparse_combiner, model_dir, warm_start_from)


class LinearRegressor(Estimator):
    """A linear model of label_dimension numbers; arguments as LinearClassifier's.
    TF: tf.estimator.LinearRegressor."""

    def __init__(self, feature_columns, model_dir=None, label_dimension=1, weight_column=None,
                 optimizer="Ftrl", config=None, partitioner=None, warm_start_from=None,
                 loss_reduction="weighted_sum", sparse_combiner="sum"):
        head = heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        _estimator_init(self, head, feature_columns, optimizer, config, partitioner,
                        sparse_combiner, model_dir, warm_start_from)


class LinearEstimator(Estimator):
    """A linear model with a head of the caller's. TF: tf.estimator.LinearEstimator."""

    def __init__(self, head, feature_columns, model_dir=None, optimizer="Ftrl", config=None,
                 partitioner=None, sparse_combiner="sum", warm_start_from=None):
        _estimator_init(self, head, feature_columns, optimizer, config, partitioner,
                        sparse_combiner, model_dir, warm_start_from)


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    LinearClassifier, LinearRegressor, LinearEstimator)}
