"""Heads, with values computed by NumPy."""
import numpy as np
import pytest

import pyflow as tf

LOGITS = np.array([[0.5], [-1.0], [2.0]], "f")


def values(*fetches):
    with tf.Session() as sess:
        sess.run([tf.local_variables_initializer(), tf.tables_initializer()])
        return sess.run(fetches)


def evaluated(head, labels, logits=LOGITS, features=None):
    """(loss, predictions, metrics after one batch)."""
    spec = head.create_estimator_spec(features or {}, "eval", tf.constant(logits),
                                      tf.constant(labels))
    with tf.Session() as sess:
        sess.run([tf.local_variables_initializer(), tf.tables_initializer()])
        loss, predictions, _ = sess.run([spec.loss, spec.predictions, {
            name: update for name, (_, update) in spec.eval_metric_ops.items()}])
        return loss, predictions, sess.run({
            name: value for name, (value, _) in spec.eval_metric_ops.items()})


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_two_classes():
    head = tf.estimator.BinaryClassHead(weight_column="w", thresholds=[0.7], name="h")
    w = np.array([1.0, 2.0, 3.0], "f")
    loss, predictions, metrics = evaluated(head, [1, 0, 0], features={"w": tf.constant(w)})
    p, y = sigmoid(LOGITS[:, 0]), np.array([1, 0, 0])
    each = -np.where(y, np.log(p), np.log(1 - p))
    np.testing.assert_allclose(loss, (each * w).sum() / 3, rtol=1e-5)
    np.testing.assert_allclose(metrics["average_loss/h"], (each * w).sum() / w.sum(), rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy/h"], 3 / 6)
    np.testing.assert_allclose(metrics["accuracy/positive_threshold_0.7/h"], 2 / 6)
    np.testing.assert_allclose(metrics["label/mean/h"], 1 / 6, rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy_baseline/h"], 5 / 6, rtol=1e-5)
    assert predictions["class_ids"].ravel().tolist() == [1, 0, 1]


def test_words_and_a_loss_of_ones_own():
    head = tf.estimator.MultiClassHead(
        3, label_vocabulary=["a", "b", "c"], loss_reduction=tf.losses.Reduction.SUM,
        loss_fn=lambda labels, logits: tf.to_float(labels) * 2.0)
    loss, predictions, metrics = evaluated(head, ["c", "a"], np.eye(3, dtype="f")[:2])
    assert loss == 4.0 and metrics["accuracy"] == 0.0
    assert predictions["classes"].tolist() == [[b"a"], [b"b"]]


def test_many_labels_as_sparse_words():
    head = tf.estimator.MultiLabelHead(
        n_classes=3, label_vocabulary=["a", "b", "c"], classes_for_class_based_metrics=["c", 0])
    logits = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, -1.0]], "f")
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["c", "a", "b"], [2, 2])
    spec = head.create_estimator_spec({}, "eval", tf.constant(logits), labels)
    dense = np.array([[1, 0, 1], [0, 1, 0]])
    p = sigmoid(logits)
    (loss,) = values(spec.loss)
    np.testing.assert_allclose(loss, -np.where(dense, np.log(p), np.log(1 - p)).mean(), rtol=1e-5)
    assert {"auc/c", "probability_mean/class0"} <= set(spec.eval_metric_ops)


def test_logistic_and_poisson():
    loss, predictions, _ = evaluated(tf.estimator.LogisticRegressionHead(),
                                     np.array([0.2, 0.9, 0.5], "f"))
    p, y = sigmoid(LOGITS[:, 0]), np.array([0.2, 0.9, 0.5])
    np.testing.assert_allclose(loss, -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(), rtol=1e-5)
    np.testing.assert_allclose(predictions["predictions"][:, 0], p, rtol=1e-5)
    counts = np.array([3.0, 0.0, 7.0], "f")
    loss, predictions, _ = evaluated(
        tf.estimator.PoissonRegressionHead(compute_full_loss=False), counts)
    np.testing.assert_allclose(
        loss, (np.exp(LOGITS[:, 0]) - counts * LOGITS[:, 0]).mean(), rtol=1e-5)
    np.testing.assert_allclose(predictions["predictions"], np.exp(LOGITS), rtol=1e-5)


@pytest.mark.parametrize("make, error, text", [
    (lambda: tf.estimator.MultiClassHead(2), ValueError, "n_classes must be > 2: 2"),
    (lambda: tf.estimator.BinaryClassHead(thresholds=[1.0]), ValueError, r"not in \(0, 1\)"),
    (lambda: tf.estimator.RegressionHead(label_dimension=0), ValueError, "Invalid label_dimension"),
    (lambda: tf.estimator.RegressionHead(loss_reduction="none"), ValueError, "Invalid loss_reduc"),
    (lambda: evaluated(tf.estimator.RegressionHead(2), [1.0, 2.0, 3.0], np.zeros((3, 2), "f")),
     ValueError, "Mismatched label shape. Expected labels dimension=2"),
    (lambda: evaluated(tf.estimator.BinaryClassHead(), [0, 1, 2]), tf.errors.InvalidArgumentError,
     "Labels must be <= n_classes - 1 = 1"),
    (lambda: evaluated(tf.estimator.LogisticRegressionHead(), [0.0, 0.5, 1.5]),
     tf.errors.InvalidArgumentError, r"in range \[0, 1\]"),
    (lambda: tf.estimator.BinaryClassHead().create_estimator_spec({}, "train", tf.zeros([2, 1]),
                                                                  tf.zeros([2, 1])),
     ValueError, "train_op_fn and optimizer cannot both be None"),
    (lambda: tf.estimator.BinaryClassHead().create_estimator_spec({}, "eval", tf.zeros([2, 1])),
     ValueError, "You must provide a labels Tensor"),
])
def test_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()
