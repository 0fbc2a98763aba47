"""Programs with estimators as users write them, small, with the quality they reach."""
import csv
import os

import numpy as np

import pyflow as tf


def flowers():
    """150 rows of three kinds, as irises are: one apart, two that touch."""
    rs = np.random.RandomState(0)
    means = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    kind = np.repeat([0, 1, 2], 50)
    return (means[kind] + rs.randn(150, 4) * [0.4, 0.3, 0.35, 0.2]).astype("f"), kind


KEYS = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth"]


def test_flowers(tmp_path):
    """The tutorial of pre-made estimators."""
    x, y = flowers()
    order = np.random.RandomState(1).permutation(150)
    train, test = order[:120], order[120:]

    def train_input_fn(features, labels, batch_size):
        dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
        return dataset.shuffle(1000, seed=3).repeat().batch(batch_size)

    def eval_input_fn(features, labels, batch_size):
        inputs = dict(features) if labels is None else (dict(features), labels)
        return tf.data.Dataset.from_tensor_slices(inputs).batch(batch_size)

    def table(rows):
        return {key: x[rows, at] for at, key in enumerate(KEYS)}
    classifier = tf.estimator.DNNClassifier(
        feature_columns=[tf.feature_column.numeric_column(key=key) for key in KEYS],
        hidden_units=[10, 10], n_classes=3, model_dir=str(tmp_path), optimizer="Adam",
        config=tf.estimator.RunConfig(tf_random_seed=5))
    classifier.train(lambda: train_input_fn(table(train), y[train], 40), steps=150)
    result = classifier.evaluate(lambda: eval_input_fn(table(test), y[test], 40))
    assert result["accuracy"] >= 0.93 and result["average_loss"] < 0.3
    predictions = classifier.predict(lambda: eval_input_fn(table(test), None, 40))
    found = [(one["class_ids"][0], one["probabilities"], one["classes"][0]) for one in predictions]
    assert [int(name) for _, _, name in found] == [number for number, _, _ in found]
    np.testing.assert_allclose(np.mean([n for n, _, _ in found] == y[test]), result["accuracy"],
                               rtol=1e-5)
    np.testing.assert_allclose([p.sum() for _, p, _ in found], 1.0, rtol=1e-5)


def digits():
    """200 pictures 8x8 of a bar that stands, lies, or leans either way."""
    rs = np.random.RandomState(2)
    kind = rs.randint(0, 4, 200)
    pictures = rs.rand(200, 8, 8) * 0.4
    for picture, k in zip(pictures, kind):
        at, line = rs.randint(1, 7), np.arange(8)
        picture[(line, at) if k == 0 else (at, line) if k == 1 else
                (line, line) if k == 2 else (line, 7 - line)] += 0.7
    return pictures.astype("f"), kind.astype(np.int64)


def cnn_model_fn(features, labels, mode, params):
    """The tutorial of convolutional networks."""
    net = tf.reshape(features["x"], [-1, 8, 8, 1])
    net = tf.layers.conv2d(net, 8, 3, padding="same", activation=tf.nn.relu)
    net = tf.layers.max_pooling2d(net, pool_size=[2, 2], strides=2)
    net = tf.layers.dropout(tf.layers.flatten(net), params["drop"],
                            training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(net, 4)
    predictions = {"classes": tf.argmax(logits, axis=1),
                   "probabilities": tf.nn.softmax(logits, name="softmax_tensor")}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        train_op = tf.train.AdamOptimizer(0.01).minimize(
            loss=loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=train_op)
    return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops={
        "accuracy": tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])})


def test_pictures(tmp_path, caplog):
    """A training in two parts, with a hook that logs by a tensor's name; what is served."""
    x, y = digits()
    classifier = tf.estimator.Estimator(
        model_fn=cnn_model_fn, model_dir=str(tmp_path), params={"drop": 0.4},
        config=tf.estimator.RunConfig(tf_random_seed=1))
    log = tf.train.LoggingTensorHook({"probabilities": "softmax_tensor"}, every_n_iter=50)
    train_fn = tf.estimator.inputs.numpy_input_fn(x={"x": x[:160]}, y=y[:160], batch_size=40,
                                                  num_epochs=None, shuffle=True)
    classifier.train(input_fn=train_fn, steps=40, hooks=[log])
    classifier.train(input_fn=train_fn, steps=60)
    eval_fn = tf.estimator.inputs.numpy_input_fn(x={"x": x[160:]}, y=y[160:], num_epochs=1,
                                                 shuffle=False)
    result = classifier.evaluate(input_fn=eval_fn)
    assert result["accuracy"] > 0.9 and result["global_step"] == 100
    assert not [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert any("loss" in [v.tag for v in event.summary.value] for name in os.listdir(tmp_path)
               if "tfevents" in name
               for event in tf.train.summary_iterator(str(tmp_path / name)))


COLUMNS = ["age", "work", "education", "hours", "income"]


def census(path):
    """A table of people whose income follows from age, hours, and work with education."""
    rs = np.random.RandomState(4)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        for _ in range(240):
            age, hours = rs.randint(18, 80), rs.randint(10, 60)
            work, education = rs.choice(["state", "own", "firm"]), rs.choice(["low", "high"])
            rich = hours + 30 * (28 < age < 60) + 20 * (work == "own" and education == "high") > 62
            writer.writerow([age, work, education, hours, ">50K" if rich else "<=50K"])


def test_wide_and_deep(tmp_path):
    """The tutorial of wide and deep learning."""
    census(tmp_path / "people.csv")
    with open(tmp_path / "people.csv", encoding="utf-8") as file:
        rows = list(zip(*csv.reader(file)))
    table = {name: np.array(column, np.int32 if name in ("age", "hours") else None)
             for name, column in zip(COLUMNS, rows)}
    labels = (table.pop("income") == ">50K").astype(np.int32)
    fc = tf.feature_column
    age, hours = fc.numeric_column("age"), fc.numeric_column("hours")
    work = fc.categorical_column_with_vocabulary_list("work", ["state", "own", "firm"])
    education = fc.categorical_column_with_hash_bucket("education", hash_bucket_size=100)
    ages = tf.feature_column.bucketized_column(age, boundaries=[28, 40, 60])
    wide = [work, education, ages, fc.bucketized_column(hours, list(range(15, 60, 5))),
            fc.crossed_column(["work", "education"], hash_bucket_size=1000)]
    deep = [fc.numeric_column("age", normalizer_fn=lambda x: (x - 45) / 20),
            fc.numeric_column("hours", normalizer_fn=lambda x: (x - 35) / 15),
            fc.indicator_column(work), fc.embedding_column(education, dimension=4)]
    model = tf.estimator.DNNLinearCombinedClassifier(
        config=tf.estimator.RunConfig(str(tmp_path / "model"), tf_random_seed=6),
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[20, 10],
        dnn_optimizer=tf.train.AdagradOptimizer(0.05))
    model.train(tf.estimator.inputs.numpy_input_fn(table, labels, batch_size=40, num_epochs=15,
                                                   shuffle=True))
    result = model.evaluate(tf.estimator.inputs.numpy_input_fn(table, labels, shuffle=False))
    assert result["accuracy"] > result["accuracy_baseline"] + 0.2 and result["accuracy"] > 0.88
    assert result["auc"] > 0.95
