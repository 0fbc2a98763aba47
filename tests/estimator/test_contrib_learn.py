"""tf.contrib.learn and the feature columns of tf.contrib.layers."""
import numpy as np
import pytest

import pyflow as tf

RS = np.random.RandomState(1)
X = RS.rand(60, 2).astype("f")
CLASSES = (X[:, 0] * 2 + X[:, 1] > 1.4).astype(np.int64)
NUMBERS = (X @ [1.0, -2.0]).astype("f")
learn = tf.contrib.learn


def test_mode_keys_and_config(tmp_path):
    assert (tf.contrib.learn.ModeKeys.TRAIN, tf.contrib.learn.ModeKeys.INFER) == ("train", "infer")
    config = tf.contrib.learn.RunConfig(model_dir=str(tmp_path), num_cores=3, tf_random_seed=4,
                                        save_checkpoints_steps=8)
    assert config.tf_config.inter_op_parallelism_threads == 3
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (8, None)
    assert tf.contrib.learn.RunConfig().save_checkpoints_secs == 600
    with pytest.raises(ValueError, match="a cluster is TF_CONFIG's"):
        tf.contrib.learn.RunConfig(master="grpc://a:1")


def test_a_network_of_arrays(tmp_path):
    columns = learn.infer_real_valued_columns_from_input(X)
    assert columns[0].shape == (2,)
    model = learn.DNNClassifier([12], columns, model_dir=str(tmp_path), activation_fn=tf.nn.tanh,
                                config=learn.RunConfig(tf_random_seed=2),
                                optimizer=tf.train.AdamOptimizer(0.05))
    model.fit(X, CLASSES, steps=150, batch_size=30)
    found = model.evaluate(X, CLASSES, metrics={
        "mine": learn.MetricSpec(tf.metrics.accuracy, prediction_key="classes")})
    assert found["accuracy"] > 0.9 and found["global_step"] == 150
    np.testing.assert_allclose(found["mine"], found["accuracy"])
    predicted = list(model.predict(X))
    np.testing.assert_allclose(np.mean(predicted == CLASSES), found["accuracy"], rtol=1e-6)
    chances = model.predict_proba(X, as_iterable=False)
    assert chances.shape == (60, 2) and (chances.argmax(1) == predicted).all()
    assert {"labels/actual_label_mean", "accuracy/baseline_label_mean", "auc"} <= set(found)


def test_a_linear_model_with_sk_compat(tmp_path):
    """Least squares by gradient descent, beside NumPy's."""
    model = learn.SKCompat(learn.LinearRegressor(
        learn.infer_real_valued_columns_from_input(X), str(tmp_path),
        optimizer=tf.train.MomentumOptimizer(0.1, 0.9), gradient_clip_norm=5.0))
    model.fit(X, NUMBERS, batch_size=60, steps=300)
    np.testing.assert_allclose(model.predict(X)["scores"], NUMBERS, atol=0.02)
    inner = model._estimator
    (weights,) = inner.weights_.values()
    np.testing.assert_allclose(weights[:, 0], [1, -2], atol=0.05)
    assert abs(inner.bias_[0]) < 0.03 and "loss" in model.score(X, NUMBERS)


def test_a_model_function_of_a_tuple(tmp_path):
    def model_fn(features, labels, mode, params):
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        y = tf.reduce_sum(features * w, 1) * params["scale"]
        if mode == learn.ModeKeys.INFER:
            return y, None, None
        loss = tf.losses.mean_squared_error(labels, y)
        train = tf.contrib.layers.optimize_loss(
            loss, tf.contrib.framework.get_global_step(), 0.3, "SGD")
        return y, loss, train
    model = learn.Estimator(model_fn, str(tmp_path), params={"scale": 2.0})
    model.fit(X, NUMBERS, steps=400, batch_size=60)
    np.testing.assert_allclose(model.get_variable_value("w"), [0.5, -1.0], atol=0.01)
    np.testing.assert_allclose(model.predict(X, as_iterable=False), NUMBERS, atol=0.02)
    found = model.evaluate(X, NUMBERS, metrics={"far": tf.metrics.mean_absolute_error})
    assert found["far"] < 0.02


def test_an_experiment(tmp_path):
    def inputs():
        return {"x": tf.constant(X)}, tf.constant(CLASSES)

    def experiment_fn(run_config, hparams):
        columns = [tf.contrib.layers.real_valued_column("x", dimension=2,
                                                        normalizer=lambda x: x * 2)]
        estimator = learn.LinearClassifier(columns, config=run_config)
        return learn.Experiment(estimator, inputs, inputs, train_steps=hparams, eval_steps=1,
                                min_eval_frequency=10)
    config = learn.RunConfig(model_dir=str(tmp_path))
    metrics, _ = learn.learn_runner.run(experiment_fn, run_config=config, hparams=20,
                                        schedule="train_and_evaluate")
    assert metrics["global_step"] == 20 and metrics["accuracy"] > 0.8
    with pytest.raises(ValueError, match="non-existent task walk"):
        learn.learn_runner.run(experiment_fn, run_config=config, hparams=20, schedule="walk")


def test_columns_of_contrib_layers():
    layers = tf.contrib.layers
    age = layers.real_valued_column("age")
    columns = [
        layers.bucketized_column(age, [30, 10, 30]),
        layers.one_hot_column(layers.sparse_column_with_keys("word", ["a", "b"])),
        layers.one_hot_column(layers.sparse_column_with_integerized_feature("id", 3)),
        layers.embedding_column(layers.crossed_column(
            [layers.sparse_column_with_hash_bucket("word", 5), layers.bucketized_column(age, [20])],
            1), 2, initializer=tf.ones_initializer()),
    ]
    features = {"age": tf.constant([5.0, 50.0]), "word": tf.constant(["b", "?"]),
                "id": tf.constant([2, 0], tf.int64)}
    layer = layers.input_from_feature_columns(features, columns)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        found = sess.run(layer)
    wanted = {"age_bucketized": [[1, 0, 0], [0, 0, 1]], "id_indicator": [[0, 0, 1], [1, 0, 0]],
              "word_X_": [[1, 1], [1, 1]], "word_indicator": [[0, 1], [0, 0]]}
    order = sorted(columns, key=lambda c: c.name)
    parts = [next(v for k, v in wanted.items() if (
        c.name == k or k == "word_X_" and c.name.endswith("_embedding"))) for c in order]
    np.testing.assert_array_equal(found, np.concatenate(parts, 1))
    assert layer.op.name.startswith("input_from_feature_columns/")


def test_csv_files(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("2,3,a,b\n1.5,2,3,0\n4,5,6,1\n")
    found = tf.contrib.learn.datasets.base.load_csv_with_header(
        str(path), target_dtype=np.int32, features_dtype=np.float32)
    assert found.data.tolist() == [[1.5, 2, 3], [4, 5, 6]] and found.target.tolist() == [0, 1]
    assert found.data.dtype == np.float32 and found.target.dtype == np.int32
    path.write_text("7,1.5\n8,2.5\n")
    found = tf.contrib.learn.datasets.base.load_csv_without_header(
        str(path), target_dtype=np.int64, features_dtype=np.float64, target_column=0)
    assert found.target.tolist() == [7, 8] and found.data.tolist() == [[1.5], [2.5]]
    with pytest.raises(ValueError, match="line 1: expected the numbers of rows and features"):
        tf.contrib.learn.datasets.base.load_csv_with_header(str(path), np.int32, np.float32)
    with pytest.raises(ValueError, match="data set iris is not part of this package"):
        tf.contrib.learn.datasets.load_iris()


def test_predictions_as_arrays_are_of_an_input_functions_first_batch(tmp_path):
    """It may go on for ever."""
    def endless():
        data = tf.data.Dataset.from_tensor_slices((X, CLASSES)).repeat().batch(4)
        return data.make_one_shot_iterator().get_next()
    model = learn.LinearClassifier([tf.contrib.layers.real_valued_column("", 2)],
                                   model_dir=str(tmp_path))
    model.fit(input_fn=endless, steps=2)
    assert len(model.predict_classes(input_fn=endless, as_iterable=False)) == 4
