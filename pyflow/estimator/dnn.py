"""tf.estimator.DNNClassifier, DNNRegressor, DNNEstimator.

Variables: dnn/hiddenlayer_N/{kernel,bias}, dnn/logits/{kernel,bias}, and the columns' below
dnn/input_from_feature_columns/input_layer.

Thread: one.  Source: TF 1.15 tf.estimator canned dnn.

    tf.estimator.DNNClassifier([64, 32], columns, n_classes=10).train(input_fn, steps=1000)
"""
import pyflow as tf
from pyflow.estimator import heads
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.linear import check_features, partitioner_of
from pyflow.estimator.modes import ModeKeys
from pyflow.estimator.optimizers import optimizer_of

_RATE = 0.05


def dnn_logits(features, mode, units, hidden_units, columns, activation_fn, dropout, batch_norm,
               partitioner):
    """The network's logits [batch, units], in the scope of the caller, and its summaries."""
    training = mode == ModeKeys.TRAIN
    with tf.variable_scope("input_from_feature_columns", values=tuple(features.values()),
                           partitioner=partitioner):
        net = tf.feature_column.input_layer(features, columns)
    for at, size in enumerate(hidden_units):
        with tf.variable_scope(f"hiddenlayer_{at}", values=(net,)) as scope:
            net = tf.layers.dense(net, size, activation=activation_fn, name=scope,
                                  kernel_initializer=tf.glorot_uniform_initializer())
            if dropout is not None and training:
                net = tf.layers.dropout(net, rate=dropout, training=True)
            if batch_norm:
                net = tf.layers.batch_normalization(net, momentum=0.999, training=training,
                                                    name=f"batchnorm_{at}")
            _summarise(net, scope.name)
    with tf.variable_scope("logits", values=(net,)) as scope:
        logits = tf.layers.dense(net, units, name=scope,
                                 kernel_initializer=tf.glorot_uniform_initializer())
        _summarise(logits, scope.name)
    return logits


def _summarise(value, name):
    with tf.name_scope(""):
        tf.summary.scalar(f"{name}/fraction_of_zero_values", tf.nn.zero_fraction(value))
        tf.summary.histogram(f"{name}/activation", value)


def _dnn_spec(features, labels, mode, head, options, optimizer, config):
    check_features(features)
    optimizer = optimizer_of(optimizer or "Adagrad", _RATE)
    options = dict(options)
    inputs = options.pop("input_layer_partitioner") or partitioner_of(config)
    hidden = tf.min_max_variable_partitioner(max_partitions=1)
    with tf.variable_scope("dnn", values=tuple(features.values()), partitioner=hidden):
        logits = dnn_logits(features, mode, head.logits_dimension, partitioner=inputs, **options)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if mode == ModeKeys.TRAIN else None
        # In the scope, as TensorFlow does: checkpoints have its names of slots.
        return head.create_estimator_spec(features, mode, logits, labels, optimizer=optimizer,
                                          update_ops=updates)


def _estimator_init(self, head, options, optimizer, config, model_dir, warm_start_from):
    def model_fn(features, labels, mode, config):
        return _dnn_spec(features, labels, mode, head, options, optimizer, config)
    Estimator.__init__(self, model_fn, model_dir, config, warm_start_from=warm_start_from)


def _options(hidden_units, feature_columns, activation_fn, dropout, batch_norm, partitioner):
    return {"hidden_units": hidden_units, "columns": list(feature_columns),
            "activation_fn": activation_fn, "dropout": dropout, "batch_norm": batch_norm,
            "input_layer_partitioner": partitioner}


class DNNClassifier(Estimator):
    """A network of dense layers for two or n_classes classes.

    hidden_units: the sizes of the hidden layers. feature_columns: dense columns. activation_fn: of
    hidden layers. dropout: the share of outputs left out in training. batch_norm: whether hidden
    layers are normalised. optimizer: a name ("Adagrad"), a tf.train.Optimizer or a function. The
    rest as LinearClassifier's. TF: tf.estimator.DNNClassifier."""

    def __init__(self, hidden_units, feature_columns, model_dir=None, n_classes=2,
                 weight_column=None, label_vocabulary=None, optimizer="Adagrad",
                 activation_fn=tf.nn.relu, dropout=None, input_layer_partitioner=None, config=None,
                 warm_start_from=None, loss_reduction="weighted_sum", batch_norm=False):
        head = heads.binary_or_multi_class_head(n_classes, weight_column, label_vocabulary,
                                                loss_reduction)
        options = _options(hidden_units, feature_columns, activation_fn, dropout, batch_norm,
                           input_layer_partitioner)
        _estimator_init(self, head, options, optimizer, config, model_dir, warm_start_from)


class DNNRegressor(Estimator):
    """A network of dense layers for label_dimension numbers; arguments as DNNClassifier's.
    TF: tf.estimator.DNNRegressor."""

    def __init__(self, hidden_units, feature_columns, model_dir=None, label_dimension=1,
                 weight_column=None, optimizer="Adagrad", activation_fn=tf.nn.relu, dropout=None,
                 input_layer_partitioner=None, config=None, warm_start_from=None,
                 loss_reduction="weighted_sum", batch_norm=False):
        head = heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        options = _options(hidden_units, feature_columns, activation_fn, dropout, batch_norm,
                           input_layer_partitioner)
        _estimator_init(self, head, options, optimizer, config, model_dir, warm_start_from)


class DNNEstimator(Estimator):
    """A network of dense layers with a head of the caller's. TF: tf.estimator.DNNEstimator."""

    def __init__(self, head, hidden_units, feature_columns, model_dir=None, optimizer="Adagrad",
                 activation_fn=tf.nn.relu, dropout=None, input_layer_partitioner=None, config=None,
                 warm_start_from=None, batch_norm=False):
        options = _options(hidden_units, feature_columns, activation_fn, dropout, batch_norm,
                           input_layer_partitioner)
        _estimator_init(self, head, options, optimizer, config, model_dir, warm_start_from)


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    DNNClassifier, DNNRegressor, DNNEstimator)}
