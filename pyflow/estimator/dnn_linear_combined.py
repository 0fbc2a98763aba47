"""tf.estimator.DNNLinearCombinedClassifier, -Regressor, -Estimator: wide and deep.

Thread: one.  Source: TF 1.15 tf.estimator canned dnn_linear_combined; Cheng et al., "Wide & Deep
Learning for Recommender Systems" (2016).

    tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[100, 50])
"""
import math

import pyflow as tf
from pyflow.estimator import dnn, heads
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.linear import check_features, linear_logits, partitioner_of
from pyflow.estimator.modes import ModeKeys
from pyflow.estimator.optimizers import optimizer_of

_LINEAR_RATE, _DNN_RATE = 0.005, 0.001


def _spec(features, labels, mode, config, head, wide, deep, combiner, partitioner):
    """wide: (columns, optimizer). deep: (columns, optimizer, hidden units, more)."""
    check_features(features)
    if not wide[0] and not deep[0]:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    parted = partitioner or partitioner_of(config)
    values, logits, optimizers = tuple(features.values()), [], {}
    if deep[0]:
        columns, optimizer, hidden_units, more = deep
        if not hidden_units:
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is "
                             "specified.")
        optimizers["dnn"] = optimizer_of(optimizer, _DNN_RATE)
        hidden = tf.min_max_variable_partitioner(max_partitions=1)
        with tf.variable_scope("dnn", values=values, partitioner=hidden):
            logits.append(dnn.dnn_logits(
                features, mode, head.logits_dimension, hidden_units, columns, partitioner=parted,
                **more))
    if wide[0]:
        rate = min(_LINEAR_RATE, 1.0 / math.sqrt(len(wide[0])))
        optimizers["linear"] = optimizer_of(wide[1], rate)
        with tf.variable_scope("linear", values=values, partitioner=parted):
            logits.append(linear_logits(features, wide[0], head.logits_dimension, combiner))

    def train_op_fn(loss):
        step = tf.train.get_global_step()
        ops = [optimizer.minimize(loss, var_list=tf.get_collection(
            tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope + "/"))
            for scope, optimizer in optimizers.items()]
        with tf.control_dependencies([tf.group(*ops)]):
            return tf.assign_add(step, 1).op
    return head.create_estimator_spec(
        features, mode, tf.add_n(logits) if len(logits) > 1 else logits[0], labels,
        train_op_fn=train_op_fn,
        update_ops=tf.get_collection(tf.GraphKeys.UPDATE_OPS) if mode == ModeKeys.TRAIN else None)


def _estimator_init(self, head, wide, deep, combiner, partitioner, config, model_dir,
                    warm_start_from):
    wide = (list(wide[0] or ()), wide[1])
    deep = (list(deep[0] or ()), *deep[1:])
    if not wide[0] and not deep[0]:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")

    def model_fn(features, labels, mode, config):
        return _spec(features, labels, mode, config, head, wide, deep, combiner, partitioner)
    Estimator.__init__(self, model_fn, model_dir, config, warm_start_from=warm_start_from)


def _more(activation_fn, dropout, batch_norm):
    return {"activation_fn": activation_fn, "dropout": dropout, "batch_norm": batch_norm}


class DNNLinearCombinedClassifier(Estimator):
    """A linear model and a network of dense layers, whose logits are added, for classes.

    linear_*: as LinearClassifier's; dnn_*: as DNNClassifier's; each with its optimizer. ValueError
    without columns. TF: tf.estimator.DNNLinearCombinedClassifier."""

    def __init__(self, model_dir=None, linear_feature_columns=None, linear_optimizer="Ftrl",
                 dnn_feature_columns=None, dnn_optimizer="Adagrad", dnn_hidden_units=None,
                 dnn_activation_fn=tf.nn.relu, dnn_dropout=None, n_classes=2, weight_column=None,
                 label_vocabulary=None, input_layer_partitioner=None, config=None,
                 warm_start_from=None, loss_reduction="weighted_sum", batch_norm=False,
                 linear_sparse_combiner="sum"):
        head = heads.binary_or_multi_class_head(n_classes, weight_column, label_vocabulary,
                                                loss_reduction)
        _estimator_init(
            self, head, (linear_feature_columns, linear_optimizer),
            (dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
             _more(dnn_activation_fn, dnn_dropout, batch_norm)),
            linear_sparse_combiner, input_layer_partitioner, config, model_dir, warm_start_from)


class DNNLinearCombinedRegressor(Estimator):
    """The same for label_dimension numbers. TF: tf.estimator.DNNLinearCombinedRegressor."""

    def __init__(self, model_dir=None, linear_feature_columns=None, linear_optimizer="Ftrl",
                 dnn_feature_columns=None, dnn_optimizer="Adagrad", dnn_hidden_units=None,
                 dnn_activation_fn=tf.nn.relu, dnn_dropout=None, label_dimension=1,
                 weight_column=None, input_layer_partitioner=None, config=None,
                 warm_start_from=None, loss_reduction="weighted_sum", batch_norm=False,
                 linear_sparse_combiner="sum"):
        head = heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        _estimator_init(
            self, head, (linear_feature_columns, linear_optimizer),
            (dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
             _more(dnn_activation_fn, dnn_dropout, batch_norm)),
            linear_sparse_combiner, input_layer_partitioner, config, model_dir, warm_start_from)


class DNNLinearCombinedEstimator(Estimator):
    """The same with a head of the caller's. TF: tf.estimator.DNNLinearCombinedEstimator."""

    def __init__(self, head, model_dir=None, linear_feature_columns=None, linear_optimizer="Ftrl",
                 dnn_feature_columns=None, dnn_optimizer="Adagrad", dnn_hidden_units=None,
                 dnn_activation_fn=tf.nn.relu, dnn_dropout=None, input_layer_partitioner=None,
                 config=None, linear_sparse_combiner="sum", batch_norm=False):
        _estimator_init(
            self, head, (linear_feature_columns, linear_optimizer),
            (dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
             _more(dnn_activation_fn, dnn_dropout, batch_norm)),
            linear_sparse_combiner, input_layer_partitioner, config, model_dir, None)


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    DNNLinearCombinedClassifier, DNNLinearCombinedRegressor, DNNLinearCombinedEstimator)}
