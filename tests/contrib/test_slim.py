"""slim beyond layers: arg_scope's rules, variables by name, checkpoints, the training loop."""
import os

import numpy as np
import pytest

import pyflow as tf

slim = tf.contrib.slim


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        tf.set_random_seed(1)
        yield made


def test_imported_as_tensorflow_names_it():
    from pyflow.contrib import slim as by_from
    import pyflow.contrib.slim as by_import
    assert by_from is by_import is slim
    assert slim.layers is tf.contrib.layers and slim.losses is tf.contrib.losses
    assert slim.conv2d is tf.contrib.layers.conv2d
    assert slim.arg_scope is tf.contrib.framework.arg_scope


def test_arg_scope_inner_values_win_and_calls_win_over_all():
    @slim.add_arg_scope
    def told(a, b=1, c=2):
        return a, b, c

    with slim.arg_scope([told], b=10) as outer:
        with slim.arg_scope([told], c=20):
            assert told(0) == (0, 10, 20) and told(0, c=5) == (0, 10, 5)
            with slim.arg_scope(outer):
                assert told(0) == (0, 10, 2)
    assert told(0) == (0, 1, 2)
    assert slim.has_arg_scope(told) and slim.arg_scoped_arguments(told) == ("b", "c")


def test_arg_scope_refuses():
    with pytest.raises(ValueError, match="is not decorated with @add_arg_scope"):
        with slim.arg_scope([len], a=1):
            pass
    with pytest.raises(TypeError, match="list/tuple"):
        with slim.arg_scope(slim.conv2d, a=1):
            pass
    with slim.arg_scope([slim.conv2d], stride=2) as scope:
        pass
    with pytest.raises(ValueError, match="no further arguments, got padding"):
        with slim.arg_scope(scope, padding="SAME"):
            pass


def test_variables_are_found():
    a = slim.model_variable("one/weights", [2])
    b = slim.variable("one/biases", [2], trainable=False)
    c = slim.model_variable("two/weights", [2], collections=["mine"])
    local = slim.local_variable(0.0, name="local")
    assert slim.get_variables() == [a, b, c] and slim.get_local_variables() == [local]
    assert slim.get_model_variables() == [a, c] == slim.get_trainable_variables()
    assert slim.get_variables("one") == [a, b] and tf.get_collection("mine") == [c]
    assert slim.get_variables_by_suffix("weights") == [a, c]
    assert slim.get_variables_by_name("weights", "two") == [c]
    assert slim.get_unique_variable("one/biases") is b
    assert slim.get_variables_to_restore(include=["one"], exclude=["one/bi"]) == [a]
    assert slim.filter_variables([a, b, c], ["weights"], ["^two"]) == [a]
    with pytest.raises(ValueError, match="Couldn't find variable three"):
        slim.get_unique_variable("three")
    with pytest.raises(ValueError, match="does not uniquely identify"):
        slim.get_unique_variable("one")
    with pytest.raises(TypeError, match="include must be a list"):
        slim.get_variables_to_restore(include="one")


def test_values_and_checkpoints_are_assigned(tmp_path):
    a, b = slim.model_variable("a", [2]), slim.model_variable("b", [3])
    path = str(tmp_path / "model")
    with tf.Session() as sess:
        slim.assign_from_values_fn({"a": np.float32([1, 2]), "b": np.float32([3, 4, 5])})(sess)
        tf.train.Saver().save(sess, path)
    other = slim.model_variable("other", [2])
    with tf.Session() as sess:
        sess.run(*slim.assign_from_checkpoint(path, {"a": [other, a]}))
        assert sess.run([other, a])[0].tolist() == [1, 2]
        slim.assign_from_checkpoint_fn(path, [b, other], ignore_missing_vars=True)(sess)
        assert sess.run(b).tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="Checkpoint is missing variable .other."):
        slim.assign_from_checkpoint(path, [other])
    with pytest.raises(ValueError, match="Total size of new array must be unchanged for b"):
        slim.assign_from_checkpoint(path, {"b": other})
    assert slim.assign_from_checkpoint_fn(path, [other], ignore_missing_vars=True) is None


def regression(rate=0.1):
    x = tf.constant(np.float32([[1, 2], [3, 1], [0, 1]]))
    y = slim.fully_connected(x, 1, activation_fn=None, weights_initializer=tf.zeros_initializer())
    slim.losses.mean_squared_error(y, tf.constant(np.float32([[1], [2], [0]])))
    loss = slim.losses.get_total_loss()
    tf.summary.scalar("loss", loss)
    return loss, slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(rate))


def test_train_runs_saves_and_goes_on(tmp_path):
    first = slim.learning.train(regression()[1], str(tmp_path), number_of_steps=5,
                                save_summaries_secs=1000)
    assert os.path.basename(tf.train.latest_checkpoint(str(tmp_path))) == "model.ckpt-5"
    with tf.Graph().as_default():
        more = slim.learning.train(regression()[1], str(tmp_path), number_of_steps=8)
    with tf.Graph().as_default():
        plain = slim.learning.train(regression()[1], None, number_of_steps=8)
    assert more < first and plain == pytest.approx(more, rel=1e-5)
    assert os.path.basename(tf.train.latest_checkpoint(str(tmp_path))) == "model.ckpt-8"


def test_train_takes_functions():
    loss, train_op = regression()
    seen = []

    def step(sess, op, global_step, kwargs):
        seen.append(sess.run([op, global_step])[0])
        return seen[-1], len(seen) == 3

    last = slim.learning.train(train_op, None, train_step_fn=step,
                               init_fn=lambda sess: seen.clear())
    assert len(seen) == 3 and last == seen[-1]


def test_train_refuses():
    _, train_op = regression()
    for given, said in (({"number_of_steps": 0}, "positive number"),
                        ({"saver": tf.train.Saver()}, "logdir=None"),
                        ({"sync_optimizer": object()}, "several processes")):
        with pytest.raises(ValueError, match=said):
            slim.learning.train(train_op, None, **given)
    with pytest.raises(ValueError, match="train_op cannot be None"):
        slim.learning.train(None, None)


def test_a_loss_that_is_no_number_is_told():
    w = tf.get_variable("w", initializer=0.0)
    train_op = slim.learning.create_train_op(tf.log(w) * w, tf.train.GradientDescentOptimizer(0.1))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
            sess.run(train_op)


def test_analyzer_counts(capsys):
    slim.fully_connected(tf.zeros([2, 3]), 4, scope="f")
    assert slim.model_analyzer.analyze_vars(slim.get_model_variables(), print_info=True) == (16, 64)
    assert "f/weights:0 (float32_ref 3x4) [12, bytes: 48]" in capsys.readouterr().out
    assert slim.model_analyzer.analyze_ops(tf.get_default_graph()) > 16


def test_layers_refuse():
    x = tf.placeholder(tf.float32, [None, 4, 4, 3])
    for make, said in (
            (lambda: slim.fully_connected(x, 2.5), "num_outputs should be an int"),
            (lambda: slim.conv1d(x, 2, 3), "expects input with rank 3, got 4"),
            (lambda: slim.conv2d(x, 2, 3, data_format="HWCN"), "Invalid data_format"),
            (lambda: slim.max_pool2d(x, 2, data_format="NDHWC"), "either NCHW or NHWC"),
            (lambda: slim.batch_norm(x, renorm=True, updates_collections=None),
             "not supported with"),
            (lambda: slim.group_norm(x, 2), "not commensurate with 2 groups"),
            (lambda: slim.layers.maxout(x, 2), "not a multiple of num_units"),
            (lambda: slim.unit_norm(x, 7), "smaller than the input rank 4"),
            (lambda: slim.stack(x, slim.conv2d, 3), "list or tuple"),
            (lambda: slim.layers.embed_sequence([[1]]), "Must specify vocab size"),
            (lambda: slim.layers.optimize_loss(tf.constant(1.0), None, 0.1, "Best"),
             "Optimizer name should be one of")):
        with pytest.raises(ValueError, match=said):
            make()


def test_embeddings():
    ids = tf.constant([[2, 1], [2, 0]])
    plain = slim.embed_sequence(ids, 3, 4, scope="e")
    unique = slim.embed_sequence(ids, unique=True, scope="e", reuse=True, vocab_size=3, embed_dim=4)
    of = [tf.gradients(y * y, tf.global_variables())[0] for y in (plain, unique)]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        a, b = sess.run([plain, unique])
        assert a.shape == (2, 2, 4) and a.tolist() == b.tolist()
        assert a[0, 0].tolist() == a[1, 0].tolist()
        for g, h in zip(*(sess.run([g.values, g.indices]) for g in of)):
            assert g.size and h.size


def test_dropout_and_summaries_by_collection():
    y = slim.dropout(slim.fully_connected(tf.ones([50, 4]), 100, activation_fn=None,
                                          weights_initializer=tf.ones_initializer()), 0.5)
    tf.add_to_collection(tf.GraphKeys.ACTIVATIONS, tf.nn.relu6(y - 5, name="six"))
    tf.contrib.layers.summarize_activations()
    tf.contrib.layers.summarize_variables()
    names = [s.op.name for s in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert names == ["six/zeros", "six/sixes", "six/activation",
                     "fully_connected/weights_summary", "fully_connected/biases_summary"]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        value = sess.run(y)
        assert set(np.unique(value)) == {0.0, 8.0} and 0.4 < (value == 0).mean() < 0.6


def test_variance_scaling_is_contribs():
    make = slim.variance_scaling_initializer(factor=2.0, mode="FAN_IN")
    values = tf.Session().run(make([400, 300]))
    assert values.std() == pytest.approx((2.0 / 400 * 1.3) ** 0.5 * 0.8796, rel=0.01)
    with pytest.raises(TypeError, match="Unknown mode"):
        slim.variance_scaling_initializer(mode="fan_in")


def test_metrics_with_predictions_first():
    labels, predictions = tf.constant([1, 0, 1, 1]), tf.constant([1, 1, 1, 0])
    values, updates = slim.metrics.aggregate_metric_map({
        "accuracy": slim.metrics.streaming_accuracy(predictions, labels),
        "precision": slim.metrics.streaming_precision(predictions, labels=labels),
        "recall": slim.metrics.streaming_recall(predictions, labels, tf.constant([1, 1, 1, 0])),
        "mean": slim.metrics.streaming_mean(tf.constant([1.0, 2.0]))})
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        sess.run(list(updates.values()))
        got = sess.run(values)
        assert sess.run(slim.metrics.accuracy(predictions, labels, [3, 1, 0, 0])) == 0.75
    assert got == pytest.approx({"accuracy": 0.5, "precision": 2 / 3, "recall": 1.0, "mean": 1.5})
    with pytest.raises(ValueError, match="got float32"):
        slim.metrics.accuracy(tf.constant([1.0]), [1.0])


def test_layers_by_their_full_names():
    images = tf.ones([2, 4, 4, 1])
    net = tf.contrib.layers.conv2d(images, 1, [3, 3], weights_initializer=tf.ones_initializer())
    flat = tf.contrib.layers.flatten(net, outputs_collections="flat")
    assert tf.get_collection("flat") == [flat]
    y = tf.contrib.layers.fully_connected(flat, 1, activation_fn=None,
                                          weights_initializer=tf.ones_initializer())
    assert tf.contrib.slim.get_model_variables()[0].op.name == "Conv/weights"
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(y).tolist() == [[100.0], [100.0]]       # 4 corners 4, 8 edges 6, 4 inner 9


def test_checkpoints_are_evaluated(tmp_path):
    folder, logs = str(tmp_path / "model"), str(tmp_path / "logs")
    slim.learning.train(regression()[1], folder, number_of_steps=3)
    with tf.Graph().as_default():
        loss, _ = regression()
        weights = slim.get_variables_by_suffix("weights")[0]
        value, update = slim.metrics.streaming_mean(loss)
        path = tf.train.latest_checkpoint(folder)
        given = dict(num_evals=2, eval_op=update, final_op=[value, weights])
        once = slim.evaluation.evaluate_once("", path, logs, **given)
    saved = tf.train.load_checkpoint(path).get_tensor("fully_connected/weights")
    with tf.Graph().as_default():
        loss, _ = regression()
        weights = slim.get_variables_by_suffix("weights")[0]
        value, update = slim.metrics.streaming_mean(loss)
        given = dict(num_evals=2, eval_op=update, final_op=[value, weights])
        many = slim.evaluation.evaluation_loop("", folder, None, timeout=0, eval_interval_secs=0,
                                               **given)
    assert once[0] == many[0] > 0 and once[1].tolist() == saved.tolist() == many[1].tolist()
    assert os.listdir(logs)
    assert list(slim.evaluation.checkpoints_iterator(folder, timeout=0)) == [path]
    assert slim.evaluation.wait_for_new_checkpoint(folder, path, timeout=0) is None
