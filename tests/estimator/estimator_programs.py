"""Programs that tests/estimator runs here, and record.py in TensorFlow: one text for both.

Each is a function of `tf` that returns {name: values}, without anything random.
"""
import os
import tempfile

import numpy as np


def ramp(tf, low=-1.0, high=1.0):
    """An initializer of evenly spaced numbers."""
    def initializer(shape, dtype=None, partition_info=None):
        values = np.linspace(low, high, int(np.prod(shape))).reshape(shape)
        return tf.constant(values.astype("f"))
    return initializer


def features(tf):
    return {
        "n": tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]]),
        "age": tf.constant([10, 30, 70]),
        "w": tf.constant(["red", "?", "blue"]),
        "s": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], ["a", "b", "a"], [3, 2]),
        "sw": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [0.5, 2.0, 3.0], [3, 2]),
        "id": tf.constant([0, 5, 2]),
        "i2": tf.constant([[3], [-1], [900]]),
        "t": tf.constant([["b", "c"], ["", "a"], ["z", "z"]]),
    }


def columns_of(tf):
    """{name: dense columns}, and {name: columns of a linear model}."""
    fc, ini = tf.feature_column, ramp(tf)
    path = os.path.join(tempfile.mkdtemp(), "words.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("red\ngreen\nblue\nblack\n")
    n = fc.numeric_column("n", shape=2, normalizer_fn=lambda x: x * 10)
    age = fc.numeric_column("age", dtype=tf.int64)
    by_age = fc.bucketized_column(age, [18, 30, 65])
    two = fc.bucketized_column(fc.numeric_column("n", shape=(2,)), [0.0, 2.5])
    hashed = fc.categorical_column_with_hash_bucket("w", 7)
    number = fc.categorical_column_with_identity("id", 4, default_value=1)
    listed = fc.categorical_column_with_vocabulary_list("s", ["a", "b", "c"], num_oov_buckets=2)
    text = fc.categorical_column_with_vocabulary_list("t", ["a", "b", "c"], default_value=2)
    weighted = fc.weighted_categorical_column(listed, "sw")
    crossed = fc.crossed_column(["w", by_age, number], 50, hash_key=17)
    embedded = fc.embedding_column(listed, 3, initializer=ini)
    limited = fc.embedding_column(crossed, 2, combiner="sum", initializer=ini, max_norm=0.5)
    ids = {
        "hashed": hashed, "number": number, "listed": listed, "text": text, "weighted": weighted,
        "hashed_number": fc.categorical_column_with_hash_bucket("i2", 11, dtype=tf.int64),
        "listed_number": fc.categorical_column_with_vocabulary_list("i2", [3, 900]),
        "file": fc.categorical_column_with_vocabulary_file("w", path, vocabulary_size=3,
                                                           num_oov_buckets=2),
        "crossed": crossed,
        "crossed_twice": fc.crossed_column([fc.crossed_column(["w", "s"], 5), "t"], 33),
    }
    dense = {"n": [n], "age": [age], "by_age": [by_age], "two": [two], "embedded": [embedded],
             "sqrtn": [fc.embedding_column(weighted, 2, combiner="sqrtn", initializer=ini)],
             "limited": [limited],
             **{name: [fc.indicator_column(column)] for name, column in ids.items()}}
    shared = fc.shared_embedding_columns(
        [hashed, fc.categorical_column_with_hash_bucket("t", 7)], 2, initializer=ini)
    dense["all"] = [n, by_age, embedded, fc.indicator_column(text), limited, *shared]
    linear = {"sum": ([n, by_age, two, hashed, listed, text, weighted, crossed], 2, "sum"),
              "mean": ([listed, text, age], 1, "mean")}
    return dense, linear


def columns(tf):
    """What input_layer and linear_model make of the columns; names of their variables."""
    dense, linear = columns_of(tf)
    values, names = {}, {}
    for name, given in dense.items():
        with tf.Graph().as_default():
            layer = tf.feature_column.input_layer(features(tf), given)
            names[name] = [v.name for v in tf.global_variables()]
            with tf.Session() as sess:
                sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
                values[name] = sess.run(layer)
    for name, (given, units, combiner) in linear.items():
        with tf.Graph().as_default():
            model = tf.feature_column.linear_model(features(tf), given, units=units,
                                                   sparse_combiner=combiner)
            variables = tf.trainable_variables()
            names[f"linear_{name}"] = [v.name for v in variables]
            with tf.Session() as sess:
                sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
                for v in variables:
                    shape = v.shape.as_list()
                    sess.run(tf.assign(v, np.linspace(0.1, 1, int(np.prod(shape))).reshape(shape)))
                values[f"linear_{name}"] = sess.run(model)
    return {name: {"value": np.asarray(value).tolist(), "variables": names[name]}
            for name, value in values.items()}


ROWS = 60


def examples():
    """(features, {kind: labels}) of 60 rows."""
    rs = np.random.RandomState(7)
    x = {"a": rs.rand(ROWS, 2).astype("f"), "c": rs.choice(["x", "y", "z"], ROWS),
         "w": rs.rand(ROWS).astype("f")}
    binary = (x["a"][:, 0] + (x["c"] == "x") > 0.8).astype(np.int32)
    return x, {
        "binary": binary, "words": np.array(["no", "yes"])[binary],
        "classes": np.floor(x["a"][:, 1] * 3).astype(np.int32),
        "numbers": (x["a"] @ [1.0, -2.0] + (x["c"] == "y")).astype("f"),
        "labels": np.stack([binary, 1 - binary, x["a"][:, 1] > 0.5], 1).astype(np.int32)}


def canned_of(tf):
    """{name: (kind of labels, function of model_dir -> estimator)}."""
    E, fc = tf.estimator, tf.feature_column
    a = fc.numeric_column("a", shape=2)
    c = fc.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
    emb = fc.embedding_column(c, 2, initializer=ramp(tf))
    mean = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
    return {
        "linear_binary": ("binary", lambda d: E.LinearClassifier([a, c], d)),
        "linear_words": ("words", lambda d: E.LinearClassifier(
            [a, c], d, weight_column="w", label_vocabulary=["no", "yes"],
            optimizer=tf.train.GradientDescentOptimizer(0.02))),
        "linear_classes": ("classes", lambda d: E.LinearClassifier(
            [a, c], d, n_classes=3, optimizer="Adam")),
        "linear_numbers": ("numbers", lambda d: E.LinearRegressor([a, c], d)),
        "dnn_binary": ("binary", lambda d: E.DNNClassifier([5, 3], [a, emb], d)),
        "dnn_classes": ("classes", lambda d: E.DNNClassifier(
            [4], [a, fc.indicator_column(c)], d, n_classes=3, activation_fn=tf.nn.tanh,
            optimizer="SGD")),
        "dnn_numbers": ("numbers", lambda d: E.DNNRegressor([4], [a, emb], d, label_dimension=1)),
        "dnn_normalised": ("binary", lambda d: E.DNNClassifier(
            [4, 2], [a, emb], d, batch_norm=True, optimizer="RMSProp")),
        "combined_binary": ("binary", lambda d: E.DNNLinearCombinedClassifier(
            d, [c], dnn_feature_columns=[a, emb], dnn_hidden_units=[4])),
        "combined_numbers": ("numbers", lambda d: E.DNNLinearCombinedRegressor(
            d, linear_feature_columns=[a, c], linear_optimizer="SGD", dnn_feature_columns=[a],
            dnn_hidden_units=[3], loss_reduction=mean)),
        "baseline_classes": ("classes", lambda d: E.BaselineClassifier(d, n_classes=3)),
        "baseline_numbers": ("numbers", lambda d: E.BaselineRegressor(d, weight_column="w")),
        "head_labels": ("labels", lambda d: multi_label(tf, [a, c], d)),
    }


def multi_label(tf, columns, folder):
    """An estimator with a MultiLabelHead."""
    def model_fn(features, labels, mode):
        logits = tf.feature_column.linear_model(features, columns, units=3)
        if hasattr(tf.estimator, "MultiLabelHead"):
            head = tf.estimator.MultiLabelHead(3, weight_column="w", thresholds=[0.4])
        else:                                           # TF 2.15's compat.v1 has it elsewhere
            from tensorflow_estimator.python.estimator.head import multi_label_head as module
            head = module.MultiLabelHead(3, weight_column="w", thresholds=[0.4])
        return head.create_estimator_spec(
            features, mode, logits, labels,
            train_op_fn=lambda loss: tf.train.GradientDescentOptimizer(0.5).minimize(
                loss, global_step=tf.train.get_global_step()))
    return tf.estimator.Estimator(model_fn, folder)


def fixed_start(tf):
    """A hook that gives networks' variables the same first values everywhere."""
    class Fix(tf.train.SessionRunHook):
        def begin(self):
            self.ops = []
            for v in tf.trainable_variables():
                shape = v.shape.as_list()
                if v.op.name.startswith("dnn"):
                    self.ops.append(tf.assign(v, np.linspace(
                        -0.9, 0.8, int(np.prod(shape))).reshape(shape)))

        def after_create_session(self, session, coord):
            if session.run(tf.train.get_global_step()) == 0:
                session.run(self.ops)
    return Fix()


def plain(value):
    array = np.asarray(value)
    if array.dtype.kind in "SO":
        return [text.decode() for text in array.reshape(-1)]
    return array.tolist()


def train_canned(tf, make, labels):
    """{metrics, three predictions, names, values} of a canned estimator after eight steps."""
    x, kinds = examples()

    def batches(y, size, epochs):
        return tf.estimator.inputs.numpy_input_fn(x, y, batch_size=size, num_epochs=epochs,
                                                  shuffle=False)
    estimator = make(tempfile.mkdtemp())
    estimator.train(batches(kinds[labels], 15, None), steps=8, hooks=[fixed_start(tf)])
    metrics = estimator.evaluate(batches(kinds[labels], 20, 1))
    predicted = zip(range(3), estimator.predict(batches(None, 20, 1)))
    return {
        "metrics": {key: float(value) for key, value in metrics.items()},
        "predictions": [{key: plain(value) for key, value in one.items()} for _, one in predicted],
        "variables": {name: np.asarray(estimator.get_variable_value(name), float).ravel()[:4]
                      .tolist() for name in sorted(estimator.get_variable_names())}}


def canned(tf):
    return {name: train_canned(tf, make, labels)
            for name, (labels, make) in canned_of(tf).items()}


def custom(tf):
    """An Estimator with a model function: training in two parts, evaluation, prediction."""
    def model_fn(features, labels, mode, params):
        first = tf.constant_initializer(np.linspace(-1, 1, 8).reshape(2, 4))
        net = tf.layers.dense(features["x"], 4, tf.nn.tanh, kernel_initializer=first, name="d")
        second = tf.constant_initializer([0.1, 0.2, 0.3, 0.4])
        y = tf.layers.dense(net, 1, kernel_initializer=second, name="o")[:, 0]
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.losses.mean_squared_error(labels, y)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={
                "mae": tf.metrics.mean_absolute_error(labels, y)})
        optimizer = tf.train.AdagradOptimizer(params["rate"])
        train = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)
    x = np.random.RandomState(0).rand(50, 2).astype("f")
    y = (x[:, 0] * 2 - x[:, 1]).astype("f")

    def batches(epochs):
        return tf.estimator.inputs.numpy_input_fn({"x": x}, y, batch_size=16, num_epochs=epochs,
                                                  shuffle=False)
    estimator = tf.estimator.Estimator(
        model_fn, tempfile.mkdtemp(), params={"rate": 0.1},
        config=tf.estimator.RunConfig(save_checkpoints_steps=10, tf_random_seed=3))
    estimator.train(batches(None), steps=25)
    estimator.train(batches(None), max_steps=40)
    estimator.train(batches(None), max_steps=40)
    whole = estimator.evaluate(batches(1))
    part = estimator.evaluate(batches(1), steps=1, name="one")
    return {"whole": {key: float(value) for key, value in whole.items()},
            "part": {key: float(value) for key, value in part.items()},
            "names": sorted(estimator.get_variable_names()),
            "predictions": [float(one["y"]) for one in estimator.predict(batches(1))][:5]}
