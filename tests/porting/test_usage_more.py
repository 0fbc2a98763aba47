"""Symbols of usage.csv that one or two programs use, each with an argument that is no default and
values by hand."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.tools import coverage


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        yield


def value(x, feed=None):
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return sess.run(x, feed)


# ---------------------------------------------------------------- SavedModels

def test_a_model_is_built_with_several_signatures(tmp_path):
    names = tf.saved_model.signature_constants
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", initializer=[[1.0], [3.0]])
    scores = tf.matmul(x, w)
    classes = tf.as_string(tf.cast(scores > 0, tf.int32))
    info = tf.saved_model.utils.build_tensor_info(scores)
    assert (info.name, info.dtype) == (scores.name, tf.float32.as_datatype_enum)
    assert [d.size for d in info.tensor_shape.dim] == [-1, 1]
    make = tf.saved_model.signature_def_utils.build_signature_def
    predict = make(inputs={"x": tf.saved_model.utils.build_tensor_info(x)}, outputs={"y": info},
                   method_name=names.PREDICT_METHOD_NAME)
    classify = make(
        inputs={names.CLASSIFY_INPUTS: tf.saved_model.utils.build_tensor_info(x)},
        outputs={names.CLASSIFY_OUTPUT_CLASSES: tf.saved_model.utils.build_tensor_info(classes)},
        method_name=names.CLASSIFY_METHOD_NAME)
    builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(
            sess, [tf.saved_model.tag_constants.SERVING],
            signature_def_map={names.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict,
                               "classes": classify})
    builder.save(as_text=True)
    assert (names.CLASSIFY_INPUTS, names.CLASSIFY_OUTPUT_CLASSES, names.CLASSIFY_METHOD_NAME,
            names.DEFAULT_SERVING_SIGNATURE_DEF_KEY) == (
        "inputs", "classes", "tensorflow/serving/classify", "serving_default")
    with tf.Graph().as_default(), tf.Session() as sess:
        meta = tf.saved_model.loader.load(sess, ["serve"], str(tmp_path / "model"))
        said = meta.signature_def["classes"]
        found = sess.run([meta.signature_def["serving_default"].outputs["y"].name,
                          said.outputs["classes"].name],
                         {said.inputs["inputs"].name: [[1.0, 1.0], [-4.0, 1.0]]})
    assert found[0].tolist() == [[4.0], [-1.0]] and found[1].tolist() == [[b"1"], [b"0"]]


# ---------------------------------------------------------------- tf.contrib

def test_activations_are_summarised():
    y = tf.nn.relu6(tf.constant([-1.0, 3.0, 9.0, 7.0]), name="y")
    made = tf.contrib.layers.summarize_activation(y)
    layers = tf.contrib.layers
    assert layers.summaries.summarize_activation is layers.summarize_activation
    assert tf.contrib.layers.summaries.summarize_tensor(y, tag="t").dtype == tf.string
    texts = value([made, *tf.get_collection(tf.GraphKeys.SUMMARIES)])
    found = {v.tag: v for text in texts for v in tf.Summary.FromString(text).value}
    shares = {tag: v.simple_value for tag, v in found.items() if v.HasField("simple_value")}
    assert shares == {"y/zeros": 0.25, "y/sixes": 0.5}
    assert found["y/activation"].histo.num == 4 and found["y/activation"].histo.max == 6.0


def test_one_call_trains():
    w = tf.get_variable("w", initializer=[3.0, 4.0])
    step = tf.train.get_or_create_global_step()
    train = tf.contrib.layers.optimize_loss(
        tf.reduce_sum(w * w) / 2, step, learning_rate=0.5, optimizer="SGD", clip_gradients=1.0,
        learning_rate_decay_fn=lambda rate, at: rate / tf.cast(at + 1, tf.float32))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(train) == 12.5
        np.testing.assert_allclose(sess.run(w), [2.7, 3.6], rtol=1e-6)   # [3, 4] - 0.5 [.6, .8]
        sess.run(train)
        np.testing.assert_allclose(sess.run(w), [2.55, 3.4], rtol=1e-6)
        assert sess.run(step) == 2


def test_nth_element_of_contrib():
    x = tf.constant([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])
    assert value(tf.contrib.nn.nth_element(x, 0, reverse=True)).tolist() == [3.0, 9.0]


def test_ops_are_marked_for_a_compiler():
    jit = tf.contrib.compiler.jit
    with jit.experimental_jit_scope(compile_ops=lambda op: op.type == "AddV2",
                                    separate_compiled_gradients=True):
        a = tf.constant(2.0) + 3.0
        with jit.experimental_jit_scope():
            b = a * 2.0
    with jit.experimental_jit_scope(compile_ops=False):
        c = b - 1.0
    marks = [(x.op.get_attr("_XlaCompile"), x.op.get_attr("_XlaScope"),
              x.op.get_attr("_XlaSeparateCompiledGradients")) for x in (a, b, c)]
    assert marks == [(True, b"jit_scope_0", True), (True, b"jit_scope_0", False),
                     (False, b"jit_scope_1", False)]
    assert value(c) == 9.0
    with pytest.raises(ValueError, match="_XlaCompile"):
        tf.constant(1.0).op.get_attr("_XlaCompile")


def test_cifar10_of_contrib_keras(tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOW_DATA", str(tmp_path))
    rows = (np.arange(2 * 3073) % 251).reshape(2, 3073).astype(np.uint8)
    rows[:, 0] = [3, 8]
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
        (tmp_path / name).write_bytes(rows.tobytes())
    (x, y), (_, tested) = tf.contrib.keras.datasets.cifar10.load_data()
    assert x.shape == (10, 32, 32, 3) and tested.tolist() == [[3], [8]]
    assert x[0, 0, 5].tolist() == rows[0, [6, 1030, 2054]].tolist() and y[1] == 8


# ---------------------------------------------------------------- tf.train

def test_summaries_are_written_every_second_step(tmp_path):
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    written = tf.summary.scalar("twice", tf.cast(step, tf.float32) * 2)
    hook = tf.train.SummarySaverHook(save_steps=2, output_dir=str(tmp_path), summary_op=written)
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(5):
            sess.run(train)
    file, = tmp_path.glob("events*")
    found = [(e.step, v.simple_value) for e in tf.train.summary_iterator(str(file))
             for v in e.summary.value]
    assert [at for at, _ in found] == [1, 3, 5]
    assert all(v in (2 * at, 2 * at - 2) for at, v in found)       # read beside the step's update


def test_slices_are_produced_in_order():
    x = np.arange(8, dtype=np.int32).reshape(4, 2)
    row, name = tf.train.slice_input_producer([x, ["a", "b", "c", "d"]], num_epochs=2,
                                              shuffle=False)
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        found = [sess.run([row, name]) for _ in range(8)]
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(row)
        coordinator.request_stop()
        coordinator.join(threads)
    assert [r.tolist() for r, _ in found] == x.tolist() * 2
    assert [n for _, n in found] == [b"a", b"b", b"c", b"d"] * 2


# ---------------------------------------------------------------- names that only old programs see

def test_names_of_old_programs():
    tf = coverage._tensorflow()

    @tf.RegisterShape("NoSuchOp")
    def shape_of(op):
        return "kept"
    assert shape_of(None) == "kept"
    x, h = tf.constant([[1.0, 2.0]]), tf.constant([[3.0]])
    with tf.variable_scope("cell", initializer=tf.ones_initializer()):
        y = tf.nn.rnn_cell._linear([x, h], 2, True, bias_initializer=tf.constant_initializer(0.5))
    assert [v.name for v in tf.trainable_variables()] == ["cell/kernel:0", "cell/bias:0"]
    assert value(y).tolist() == [[6.5, 6.5]]
    said = tf.Summary.FromString(value(tf.contrib.deprecated.scalar_summary("loss", 2.5)))
    assert [(v.tag, v.simple_value) for v in said.value] == [("loss", 2.5)]


def test_old_sequence_models():
    tf = coverage._tensorflow()
    seq2seq = tf.contrib.legacy_seq2seq
    for name in ("attention_decoder", "embedding_attention_seq2seq", "model_with_buckets"):
        assert getattr(tf.nn.seq2seq, name) is getattr(seq2seq, name)
