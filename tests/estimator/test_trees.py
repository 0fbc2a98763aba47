"""Boosted trees, beside a recursive implementation in NumPy."""
import numpy as np
import pytest

import pyflow as tf

RS = np.random.RandomState(3)
X = RS.rand(80, 3).astype("f")
WORD = RS.choice(["a", "b", "c"], 80)
NUMBERS = (np.sin(6 * X[:, 0]) + X[:, 1] * (WORD == "a")).astype("f")
CLASSES = (NUMBERS > 0.3).astype(np.int32)
EDGES = [0.2, 0.4, 0.6, 0.8]


def columns():
    fc = tf.feature_column
    numbers = fc.bucketized_column(fc.numeric_column("x", shape=3), EDGES)
    words = fc.categorical_column_with_vocabulary_list("word", ["a", "b", "c"])
    return [numbers, fc.indicator_column(words)]


def input_fn(labels, batch_size=80, epochs=None):
    return tf.estimator.inputs.numpy_input_fn({"x": X, "word": WORD}, labels, shuffle=False,
                                              batch_size=batch_size, num_epochs=epochs)


def numpy_trees(labels, slopes, trees, depth, rate, l2):
    """Logits of boosted trees grown layer by layer; slopes(z, labels) -> (g, h)."""
    table = np.concatenate([(WORD[:, None] == np.array(["a", "b", "c"])) + 0,
                            np.digitize(X, EDGES)], 1)
    z = np.zeros(len(table))
    for _ in range(trees):
        parts = [np.arange(len(table))]
        for _ in range(depth):
            g, h = slopes(z, labels)
            grown = []
            for rows in parts:
                best = None
                for f in range(table.shape[1]):
                    for b in range(table[:, f].max() if f > 2 else 1):
                        left, right = rows[table[rows, f] <= b], rows[table[rows, f] > b]
                        if len(left) and len(right):
                            gain = sum(g[s].sum() ** 2 / (h[s].sum() + l2) for s in (left, right))
                            if best is None or gain > best[0] + 1e-9:
                                best = gain, left, right
                for side in best[1:] if best else ():
                    z[side] -= rate * g[side].sum() / (h[side].sum() + l2)
                    grown.append(side)
            parts = grown
    return z


def logistic(z, y):
    p = 1 / (1 + np.exp(-z))
    return (p - y) / len(y), p * (1 - p) / len(y)


def squares(z, y):
    return 2 * (z - y) / len(y), np.full(len(y), 2.0 / len(y))


def test_a_classifier_equals_numpy(tmp_path):
    estimator = tf.estimator.BoostedTreesClassifier(
        columns(), 1, str(tmp_path), n_trees=4, max_depth=3, learning_rate=0.3,
        l2_regularization=0.01)
    estimator.train(input_fn(CLASSES), max_steps=100)
    assert estimator.get_variable_value("global_step") == 12        # ended when all were grown
    got = [one["logits"][0] for one in estimator.predict(input_fn(None, epochs=1))]
    wanted = numpy_trees(CLASSES, logistic, 4, 3, 0.3, 0.01)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    metrics = estimator.evaluate(input_fn(CLASSES, epochs=1))
    np.testing.assert_allclose(metrics["accuracy"], np.mean((wanted > 0) == CLASSES))
    assert metrics["accuracy"] > 0.9 and metrics["auc"] > 0.95


def test_a_regressor_equals_numpy(tmp_path):
    """Layers of two batches each; a training in two parts."""
    estimator = tf.estimator.BoostedTreesRegressor(
        columns(), 2, str(tmp_path), n_trees=3, max_depth=2, learning_rate=0.5)
    estimator.train(input_fn(NUMBERS, 40), steps=5)
    estimator.train(input_fn(NUMBERS, 40), max_steps=5)
    assert estimator.get_variable_value("boosted_trees/state").tolist()[:3] == [1, 0, 1]
    rest = tf.estimator.inputs.numpy_input_fn(
        {"x": np.roll(X, 40, 0), "word": np.roll(WORD, 40)}, np.roll(NUMBERS, 40), shuffle=False,
        batch_size=40, num_epochs=None)
    estimator.train(rest, steps=100)
    assert estimator.get_variable_value("global_step") == 12
    got = [one["predictions"][0] for one in estimator.predict(input_fn(None, epochs=1))]
    wanted = numpy_trees(NUMBERS, squares, 3, 2, 0.5, 0.0)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_three_classes_of_numeric_columns(tmp_path):
    """Quantiles of the first batch, a bias at the labels' frequencies, pruning."""
    labels = np.digitize(NUMBERS, [-0.3, 0.6]).astype(np.int32)
    column = tf.feature_column.numeric_column("x", shape=3)
    estimator = tf.estimator.BoostedTreesClassifier(
        [column], n_batches_per_layer=1, model_dir=str(tmp_path), n_classes=3, n_trees=8,
        max_depth=3, center_bias=True, pruning_mode="post", tree_complexity=1e-4,
        learning_rate=0.5, quantile_sketch_epsilon=0.05)
    estimator.train(input_fn(labels), max_steps=60)
    edges = estimator.get_variable_value("boosted_trees/x_boundaries")
    np.testing.assert_allclose(edges, np.quantile(X, np.linspace(0, 1, 22)[1:-1], axis=0).T,
                               rtol=1e-5)
    shares = np.bincount(labels) / len(labels)
    bias = estimator.get_variable_value("boosted_trees/bias")
    np.testing.assert_allclose(np.exp(bias) / np.exp(bias).sum(), shares, atol=0.02)
    assert estimator.evaluate(input_fn(labels, epochs=1))["accuracy"] > 0.9


def test_what_is_refused():
    make = tf.estimator.BoostedTreesClassifier
    words = tf.feature_column.categorical_column_with_hash_bucket("word", 3)
    with pytest.raises(ValueError, match="must be a bucketized_column, an indicator_column"):
        make([words], 1)
    with pytest.raises(ValueError, match="pruning_mode must be one of"):
        make(columns(), 1, pruning_mode="other")
    with pytest.raises(ValueError, match="max_depth must be at least 1"):
        tf.estimator.BoostedTreesRegressor(columns(), 1, max_depth=0)
