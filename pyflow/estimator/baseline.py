"""tf.estimator.BaselineClassifier, BaselineRegressor, BaselineEstimator: what labels alone tell.

Variable: baseline/bias.  They ignore features.

Thread: one.  Source: TF 1.15 tf.estimator canned baseline.
"""
import pyflow as tf
from pyflow.estimator import heads
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.linear import check_features
from pyflow.estimator.optimizers import optimizer_of

_RATE = 0.3


def _spec(features, labels, mode, head, optimizer):
    check_features(features)
    first = features[sorted(features)[0]]
    batch = first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
    size = head.logits_dimension
    with tf.variable_scope("baseline", values=tuple(features.values())):
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        logits = tf.ones(tf.stack([tf.to_int32(batch), size])) * bias
    trainer = optimizer_of(optimizer, _RATE)
    return head.create_estimator_spec(features, mode, logits, labels, optimizer=trainer)


def _estimator_init(self, head, optimizer, config, model_dir):
    def model_fn(features, labels, mode, config):
        return _spec(features, labels, mode, head, optimizer)
    Estimator.__init__(self, model_fn, model_dir, config)


class BaselineClassifier(Estimator):
    """Predicts how often each class occurs; arguments as LinearClassifier's.
    TF: tf.estimator.BaselineClassifier."""

    def __init__(self, model_dir=None, n_classes=2, weight_column=None, label_vocabulary=None,
                 optimizer="Ftrl", config=None, loss_reduction="weighted_sum"):
        head = heads.binary_or_multi_class_head(n_classes, weight_column, label_vocabulary,
                                                loss_reduction)
        _estimator_init(self, head, optimizer, config, model_dir)


class BaselineRegressor(Estimator):
    """Predicts the labels' mean; arguments as LinearRegressor's.
    TF: tf.estimator.BaselineRegressor."""

    def __init__(self, model_dir=None, label_dimension=1, weight_column=None, optimizer="Ftrl",
                 config=None, loss_reduction="weighted_sum"):
        head = heads.RegressionHead(label_dimension, weight_column, loss_reduction)
        _estimator_init(self, head, optimizer, config, model_dir)


class BaselineEstimator(Estimator):
    """The same with a head of the caller's. TF: tf.estimator.BaselineEstimator."""

    def __init__(self, head, model_dir=None, optimizer="Ftrl", config=None):
        _estimator_init(self, head, optimizer, config, model_dir)


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    BaselineClassifier, BaselineRegressor, BaselineEstimator)}
