"""tf.feature_column: what it refuses, examples that are parsed for it, sequences."""
import os

import numpy as np
import pytest

import pyflow as tf

fc = tf.feature_column


def run(*fetches):
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return sess.run(fetches)


@pytest.mark.parametrize("make, error, text", [
    (lambda: fc.numeric_column("x", shape=[0]), ValueError, "must be greater than 0"),
    (lambda: fc.numeric_column("x", shape=[1.5]), TypeError, "shape dimensions must be integer"),
    (lambda: fc.numeric_column("x", dtype=tf.string), ValueError, "must be convertible to float"),
    (lambda: fc.numeric_column("x", default_value="a"), TypeError, "must be compatible with dtype"),
    (lambda: fc.numeric_column("x", 2, default_value=[1.0]), ValueError, "must be equal to given"),
    (lambda: fc.numeric_column("x", normalizer_fn=3), TypeError, "must be a callable"),
    (lambda: fc.bucketized_column("x", [1]), ValueError, "must be a column generated with"),
    (lambda: fc.bucketized_column(fc.numeric_column("x"), [2, 1]), ValueError, "a sorted list"),
    (lambda: fc.categorical_column_with_hash_bucket("x", 0), ValueError, "must be at least 1"),
    (lambda: fc.categorical_column_with_identity("x", 3, 3), ValueError, "not in range"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", ["a", "a"]), ValueError, "Duplicate"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", ["a"], dtype=tf.int64), ValueError,
     "do not match"),
    (lambda: fc.categorical_column_with_vocabulary_file("x", "/no"), ValueError, "does not exist"),
    (lambda: fc.crossed_column(["x"], 5), ValueError, "length > 1"),
    (lambda: fc.crossed_column(["x", fc.categorical_column_with_hash_bucket("y", 3)], 5),
     ValueError, "is not supported for crossing"),
    (lambda: fc.indicator_column(fc.numeric_column("x")), ValueError, "Unsupported input type"),
    (lambda: fc.embedding_column(fc.categorical_column_with_identity("x", 3), 0), ValueError,
     "Invalid dimension 0"),
    (lambda: fc.input_layer({"x": [1.0]}, []), ValueError, "must not be empty"),
    (lambda: fc.input_layer({"x": [1.0]}, [fc.numeric_column("y")]), ValueError,
     "Feature y is not in features dictionary. It has: x"),
    (lambda: fc.input_layer({"x": [1.0]}, [fc.numeric_column("x")] * 2), ValueError,
     "Duplicate feature column name"),
    (lambda: fc.input_layer({"x": [1]}, [fc.categorical_column_with_identity("x", 3)]), ValueError,
     "You can wrap a categorical column"),
    (lambda: fc.input_layer({"x": 1.0}, [fc.numeric_column("x")]), ValueError,
     "cannot have rank 0"),
])
def test_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_ids_out_of_range():
    layer = fc.input_layer({"x": [0, 3]}, [fc.indicator_column(
        fc.categorical_column_with_identity("x", 3))])
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(layer)


def test_variables_of_columns():
    column = fc.embedding_column(fc.categorical_column_with_identity("x", 3), 2, trainable=False)
    variables, outputs = {}, {}
    fc.input_layer({"x": [0, 1]}, [column], weight_collections=["mine"], cols_to_vars=variables,
                   cols_to_output_tensors=outputs)
    assert variables[column] == tf.get_collection("mine") and not tf.trainable_variables()
    assert outputs[column].shape.as_list() == [2, 2]


def test_values_from_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.get_variable("table", initializer=np.arange(6.0, dtype="f").reshape(3, 2))
        sess.run(table.initializer)
        path = tf.train.Saver().save(sess, os.path.join(tmp_path, "m"))
    column = fc.embedding_column(fc.categorical_column_with_identity("x", 3), 2,
                                 ckpt_to_load_from=path, tensor_name_in_ckpt="table")
    (found,) = run(fc.input_layer({"x": [2, 0]}, [column]))
    assert found.tolist() == [[4, 5], [0, 1]]


def examples():
    """Two serialised tf.train.Examples: x of two numbers, words, and a label."""
    def one(x, words, label):
        feature, features = tf.train.Feature, tf.train.Features
        return tf.train.Example(features=features(feature={
            "x": feature(float_list=tf.train.FloatList(value=x)),
            "word": feature(bytes_list=tf.train.BytesList(value=words)),
            "y": feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString()
    return [one([1.0, 2.0], [b"a", b"b"], 1), one([3.0, 4.0], [], 0)]


def test_examples_parsed_for_columns(tmp_path):
    """make_parse_example_spec, an input function of it, and a served model that takes Examples."""
    columns = [fc.numeric_column("x", shape=2), fc.indicator_column(
        fc.categorical_column_with_vocabulary_list("word", ["a", "b"]))]
    spec = tf.feature_column.make_parse_example_spec(columns)
    assert spec == {"x": tf.FixedLenFeature([2], tf.float32), "word": tf.VarLenFeature(tf.string)}
    with_label = tf.estimator.classifier_parse_example_spec(columns, "y", weight_column="w")
    assert with_label["y"] == tf.FixedLenFeature((1,), tf.int64, None)
    assert with_label["w"] == tf.FixedLenFeature([1], tf.float32)
    with pytest.raises(ValueError, match="label should not be used as feature"):
        tf.estimator.regressor_parse_example_spec(columns, "x")
    (found,) = run(fc.input_layer(tf.parse_example(tf.constant(examples()), spec), columns))
    assert found.tolist() == [[1, 1, 1, 2], [0, 0, 3, 4]]

    one = tf.parse_single_example(examples()[1], {"x": spec["x"]})
    assert run(one["x"])[0].tolist() == [3, 4]

    def input_fn():
        parsed = tf.parse_example(tf.constant(examples()), {
            **spec, "y": tf.FixedLenFeature([1], tf.int64)})
        return parsed, parsed.pop("y")
    model = tf.estimator.LinearClassifier(columns, str(tmp_path / "model"))
    model.train(input_fn, steps=5)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    path = model.export_saved_model(str(tmp_path / "out"), receiver)
    chances = [one["probabilities"] for one, _ in zip(model.predict(input_fn), range(2))]
    with tf.Session(graph=tf.Graph()) as sess:
        signatures = tf.saved_model.loader.load(sess, ["serve"], path.decode()).signature_def
        assert {name: s.method_name.rpartition("/")[2] for name, s in signatures.items()} == {
            "serving_default": "classify", "classification": "classify", "regression": "regress",
            "predict": "predict"}
        classes = signatures["serving_default"]
        got = sess.run({key: info.name for key, info in classes.outputs.items()},
                       {classes.inputs["inputs"].name: examples()})
    np.testing.assert_allclose(got["scores"], chances, rtol=1e-5)
    assert got["classes"].tolist() == [[b"0", b"1"]] * 2


def test_sequences():
    words = tf.feature_column.sequence_categorical_column_with_vocabulary_list("w", ["a", "b"])
    numbers = tf.feature_column.sequence_numeric_column("n", shape=(2,), default_value=-1.0)
    table = np.array([[1.0, 2.0], [3.0, 4.0]], "f")
    features = {
        "w": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["b", "a", "a"], [2, 2]),
        "n": tf.SparseTensor([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]],
                             [1.0, 2, 3, 4, 5, 6], [2, 4])}
    layer, length = tf.contrib.feature_column.sequence_input_layer(features, [
        fc.embedding_column(words, 2, initializer=tf.constant_initializer(table)),
        fc.indicator_column(words), numbers])
    found, steps = run(layer, length)
    assert steps.tolist() == [2, 1]
    assert found[0].tolist() == [[1, 2, 3, 4, 0, 1], [3, 4, 1, 2, 1, 0]]
    assert found[1].tolist() == [[5, 6, 1, 2, 1, 0], [-1, -1, 0, 0, 0, 0]]
    with pytest.raises(ValueError, match="use sequence_input_layer instead"):
        fc.input_layer(features, [fc.indicator_column(words)])
