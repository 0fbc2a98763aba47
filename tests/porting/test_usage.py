"""Symbols that public programs use (pyflow/interop/tensorflow/usage.csv), each with an argument that is not its default
and a value worked out by hand or with NumPy, where no other test does so by name."""
import logging
import os

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph(request):
    if request.cls is not None:         # tf.test.TestCase has graphs of its own
        yield
        return
    with tf.Graph().as_default():
        yield


def value(x, feed=None):
    """x's value in a new session, variables initialised."""
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer(),
                  tf.tables_initializer()])
        return sess.run(x, feed)


def close(x, wanted, **tolerance):
    np.testing.assert_allclose(value(x), wanted, **{"rtol": 1e-5, "atol": 1e-6, **tolerance})


# ---------------------------------------------------------------- arithmetic and arrays

def test_rounding_and_signs():
    close(tf.round(tf.constant([0.5, 1.5, -2.6])), [0., 2., -3.])
    close(tf.sign(tf.constant([-2., 0., 3.])), [-1., 0., 1.])
    close(tf.tan(tf.constant([0.3, -1.2])), np.tan([0.3, -1.2]))
    close(tf.truediv(tf.constant([7, 8]), 2), [3.5, 4.])
    close(tf.to_int32(tf.constant([1.7, -1.7])), [1, -1])
    close(tf.nn.softsign(tf.constant([1., -3.])), [.5, -.75])
    close(tf.less_equal(tf.constant([1, 2, 3]), 2), [True, True, False])
    close(tf.arg_min(tf.constant([[3, 1], [0, 2]]), 1, output_type=tf.int32), [1, 0])


def test_sizes_and_likes():
    x = tf.constant([[1., 2., 3.]])
    assert value(tf.size(x, out_type=tf.int64)).dtype == np.int64 and value(tf.size(x)) == 3
    like = value(tf.ones_like(x, dtype=tf.int32))
    assert like.dtype == np.int32 and like.tolist() == [[1, 1, 1]]
    converted = tf.convert_to_tensor([1, 2], dtype=tf.float64, name="c")
    assert converted.dtype == tf.float64 and converted.op.name == "c"
    assert value(converted).tolist() == [1., 2.]


def test_gathers_scatters_and_diagonals():
    close(tf.gather_nd([[1, 2], [3, 4], [5, 6]], [[0, 1], [2, 0]]), [2, 5])
    close(tf.gather_nd([[1, 2], [3, 4]], [[1], [0]], batch_dims=1), [2, 3])
    p = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    i = np.random.default_rng(0).integers(0, 4, (2, 3, 6, 2))
    wanted = [[p[a, b][tuple(i[a, b].T)] for b in range(3)] for a in range(2)]
    held = tf.placeholder(tf.float32, [None, 3, 4, 5])
    found = tf.gather_nd(held, i, batch_dims=2)
    assert found.shape.as_list() == [2, 3, 6]
    np.testing.assert_array_equal(value(found, {held: p}), wanted)
    with pytest.raises(ValueError, match=r"batch_dims = 2 must be less than rank\(indices\) = 2"):
        tf.gather_nd(p, [[0, 1]], batch_dims=2)
    close(tf.matrix_determinant([[2., 1.], [1., 3.]]), 5.)
    close(tf.matrix_diag_part([[1., 2., 3.], [4., 5., 6.]], k=1), [2., 6.])
    close(tf.sparse_segment_sum([[1., 2.], [3., 4.], [5., 6.]], [0, 2, 1], [0, 0, 2],
                                num_segments=4), [[6., 8.], [0., 0.], [3., 4.], [0., 0.]])
    v = tf.Variable([1., 2., 3.])
    close(tf.scatter_update(v, [1], [9.], use_locking=False), [1., 9., 3.])
    close(tf.scatter_add(v, [0, 0], [1., 2.], use_locking=True), [4., 2., 3.])
    close(tf.scatter_mul(v, [2], [5.], use_locking=True), [1., 2., 15.])
    close(tf.assign_sub(v, [1., 1., 1.], use_locking=True), [0., 1., 2.])


def test_norms():
    x = tf.constant([[3., 4.], [6., 8.]])
    close(tf.clip_by_norm(x, 5., axes=[1]), [[3., 4.], [3., 4.]])
    clipped, norm = tf.clip_by_global_norm([x, None, tf.constant([0.])], 1., use_norm=tf.constant(10.))
    close(clipped[0], [[.3, .4], [.6, .8]])
    assert clipped[1] is None and value(norm) == 10


def test_maps_and_scans():
    close(tf.map_fn(lambda x: tf.cast(x, tf.float32) / 2, tf.constant([1, 2]), dtype=tf.float32), [.5, 1.])
    close(tf.scan(lambda a, x: a + x, tf.constant([1, 2, 3]), initializer=10, reverse=True), [16, 15, 13])


def test_sparse_values_serialised():
    s = tf.SparseTensor([[0, 1], [2, 0]], [5., 7.], [3, 2])
    line = tf.serialize_sparse(s, out_type=tf.string)
    many = tf.deserialize_many_sparse(tf.stack([line, line]), tf.float32, rank=2)
    got = value(many)
    assert got.indices.tolist() == [[0, 0, 1], [0, 2, 0], [1, 0, 1], [1, 2, 0]]
    assert got.values.tolist() == [5, 7, 5, 7] and got.dense_shape.tolist() == [2, 3, 2]
    p = tf.sparse_placeholder(tf.float32, shape=[3, 2])
    assert value(tf.sparse_tensor_to_dense(p), {p: value(s)}).tolist() == [[0, 5], [0, 0], [7, 0]]


def test_assertions():
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        value(tf.Assert(tf.constant(False), ["too large", tf.constant(3)], summarize=2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Condition x > 0"):
        value(tf.assert_positive(tf.placeholder_with_default([-1.], [1]), message="no"))


# ---------------------------------------------------------------- images

def test_images():
    x = np.linspace(0.1, 0.8, 2 * 2 * 3, dtype=np.float32).reshape(2, 2, 3)
    bright = value(tf.image.random_brightness(x, 0.2, seed=3)) - x
    np.testing.assert_allclose(bright, np.full_like(x, bright[0, 0, 0]), atol=1e-6)
    assert 0 < abs(bright[0, 0, 0]) <= 0.2
    mean = x.mean((0, 1), keepdims=True)
    factor = (value(tf.image.random_contrast(x, 0.5, 0.6, seed=1)) - mean) / (x - mean)
    np.testing.assert_allclose(factor, factor[0, 0, 0], rtol=1e-4)
    assert 0.5 <= factor[0, 0, 0] <= 0.6
    gray = np.full((2, 2, 3), 0.4, np.float32)              # has neither hue nor saturation
    np.testing.assert_allclose(value(tf.image.random_saturation(gray, 0.2, 0.9, seed=1)), gray, atol=1e-6)
    np.testing.assert_allclose(value(tf.image.random_hue(gray, 0.3, seed=1)), gray, atol=1e-6)
    close(tf.image.convert_image_dtype(np.array([[[1.5]]], np.float32), tf.uint8, saturate=True), [[[255]]])
    ramp = np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1)
    close(tf.image.resize_bilinear(ramp, [1, 2], align_corners=True)[0, 0, :, 0], [0., 3.])
    close(tf.image.resize_bicubic(ramp, [1, 2], align_corners=True)[0, 0, :, 0], [0., 3.])
    nearest = tf.image.resize_images(ramp, [1, 2], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)
    close(nearest[0, 0, :, 0], [0., 2.])


def test_codecs():
    x = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    close(tf.image.decode_png(tf.image.encode_png(x, compression=9)), x)
    smooth = np.full((8, 8, 3), 100, np.uint8)
    lossy = value(tf.image.decode_jpeg(tf.image.encode_jpeg(smooth, quality=80)))
    assert np.abs(lossy.astype(int) - smooth).max() <= 2


# ---------------------------------------------------------------- layers' parts

def test_initializers():
    close(tf.get_variable("o", [2], initializer=tf.ones_initializer(dtype=tf.float32)), [1., 1.])
    assert value(tf.get_variable("z", [2], tf.int32, tf.zeros_initializer(dtype=tf.int32))).dtype == np.int32
    u = value(tf.get_variable("u", [500], initializer=tf.random_uniform_initializer(2., 3., seed=1)))
    assert 2 <= u.min() < 2.05 and 2.95 < u.max() < 3
    x = value(tf.get_variable("x", [30, 20], initializer=tf.contrib.layers.xavier_initializer(uniform=False, seed=1)))
    assert abs(x.std() - np.sqrt(2 / 50)) < 0.02                # a normal cut off at two deviations, rescaled
    s = value(tf.get_variable("s", [300, 4], initializer=tf.uniform_unit_scaling_initializer(factor=2., seed=1)))
    limit = 2 * np.sqrt(3 / 300)
    assert 0.95 * limit < np.abs(s).max() <= limit
    regular = tf.contrib.layers.l2_regularizer(0.5, scope="r")
    close(regular(tf.constant([3., 4.])), 0.5 * 25 / 2)


def test_cells():
    x = np.ones((2, 3), np.float32)
    lstm = tf.contrib.rnn.BasicLSTMCell(4, forget_bias=0.5)
    stacked = tf.contrib.rnn.MultiRNNCell([lstm, tf.contrib.rnn.GRUCell(2, bias_initializer=tf.ones_initializer())])
    held = tf.contrib.rnn.DropoutWrapper(stacked, output_keep_prob=1.0, seed=1)
    assert held.output_size == 2
    with tf.variable_scope("w", initializer=tf.constant_initializer(0.)):
        outputs, _ = tf.contrib.rnn.static_rnn(held, [x, x], dtype=tf.float32)
        both, fw, bw = tf.contrib.rnn.static_bidirectional_rnn(
            tf.contrib.rnn.GRUCell(2, bias_initializer=tf.ones_initializer()),
            tf.contrib.rnn.GRUCell(1, bias_initializer=tf.ones_initializer()), [x, x], dtype=tf.float32)
    # weights 0, biases 1: u = sigmoid(1), candidate tanh(1), h' = u h + (1 - u) c
    u, c = 1 / (1 + np.exp(-1)), np.tanh(1)
    h1 = (1 - u) * c
    h2 = u * h1 + (1 - u) * c
    close(outputs[1], np.full((2, 2), h2))
    close(both[0], [[h1, h1, h2]] * 2)
    close(fw, np.full((2, 2), h2))
    close(tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicRNNCell(3)], state_is_tuple=False).zero_state(2, tf.float32),
          np.zeros((2, 3)))


def test_losses():
    logits = tf.constant([[2., 0.], [0., 1.]])
    each = np.log(1 + np.exp([-2., 1.]))
    close(tf.losses.sparse_softmax_cross_entropy([0, 0], logits, weights=[1., 3.]), (each[0] + 3 * each[1]) / 2)
    close(tf.losses.softmax_cross_entropy([[1., 0.], [1., 0.]], logits, weights=2.), 2 * each.mean())
    tf.losses.add_loss(tf.constant(5.), loss_collection=tf.GraphKeys.LOSSES)
    close(tf.losses.get_total_loss(add_regularization_losses=False, name="t"),
          (each[0] + 3 * each[1]) / 2 + 2 * each.mean() + 5)
    targets, weights = [tf.constant([0, 0])], [tf.constant([1., 3.])]
    close(tf.contrib.legacy_seq2seq.sequence_loss_by_example([logits], targets, weights, average_across_timesteps=False),
          each * [1, 3])
    close(tf.contrib.legacy_seq2seq.sequence_loss([logits], targets, weights, average_across_batch=False), each.sum())
    loss = tf.nn.nce_loss(tf.ones([3, 2]), tf.zeros([3]), [[1]], tf.ones([1, 2]), 1, 3,
                          sampled_values=(tf.constant([0], tf.int64), tf.constant([[1.]]), tf.constant([1.])))
    close(loss, [np.log1p(np.exp(-2)) + np.log1p(np.exp(2))])


def test_labels_of_another_rank_than_logits():
    """Both are matrices in TensorFlow, whatever their ranks (lab-06-2 of DeepLearningZeroToAll)."""
    logits = tf.placeholder(tf.float32, [None, 3])
    loss = tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.stop_gradient([[[.1, .2, .7], [.3, .3, .4]]]), logits=logits)
    assert loss.shape.as_list() == [2]
    np.testing.assert_allclose(value(loss, {logits: [[1, 2, 3], [2, 1, 0]]}), [0.8076059, 1.5076059], rtol=1e-6)


def test_convolution():
    x = np.arange(5, dtype=np.float32).reshape(1, 5, 1)
    close(tf.nn.convolution(x, np.ones((2, 1, 1), np.float32), "VALID", dilation_rate=[2])[0, :, 0], [2., 4., 6.])


# ---------------------------------------------------------------- training

def minimized(optimizer, steps=2):
    """A variable that began at 1 after steps down its own value (gradient 1)."""
    v = tf.Variable(1.)
    step = optimizer.minimize(tf.identity(v))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            sess.run(step)
        return sess.run(v)


def test_optimizers():
    assert np.isclose(minimized(tf.train.MomentumOptimizer(0.1, 0.5, use_nesterov=True)), 1 - .1 * (1.5 + 1.75))
    ms1 = 0.9 + 0.1
    assert np.isclose(minimized(tf.train.RMSPropOptimizer(0.1, decay=0.9, momentum=0.5), 1), 1 - .1 / np.sqrt(ms1))
    assert np.isclose(minimized(tf.train.AdagradOptimizer(0.1, initial_accumulator_value=1.), 1), 1 - .1 / np.sqrt(2))
    update = np.sqrt(1e-2) / np.sqrt(.1 + 1e-2)
    assert np.isclose(minimized(tf.train.AdadeltaOptimizer(1., rho=0.9, epsilon=1e-2), 1), 1 - update)
    # n = 1 + 1, sigma = (sqrt 2 - 1) / 0.5, z = 1 - sigma; w = (sign(z) l1 - z) / (sqrt 2 / 0.5)
    sigma = (np.sqrt(2) - 1) / 0.5
    ftrl = tf.train.FtrlOptimizer(0.5, initial_accumulator_value=1.0, l1_regularization_strength=0.1)
    assert np.isclose(minimized(ftrl, 1), (0.1 - (1 - sigma)) / (np.sqrt(2) / 0.5))


def test_steps_and_rates():
    step = tf.train.get_or_create_global_step(graph=tf.get_default_graph())
    assert tf.contrib.framework.get_or_create_global_step(tf.get_default_graph()) is step
    assert tf.train.get_global_step(tf.get_default_graph()) is step
    assert tf.contrib.framework.get_global_step(tf.get_default_graph()) is step
    close(tf.train.exponential_decay(0.1, 5, 2, 0.5, staircase=True), 0.1 * 0.5 ** 2)
    close(tf.train.polynomial_decay(1., 5, 10, end_learning_rate=0.2, power=2.), 0.8 * 0.25 + 0.2)


def test_averages_and_collections():
    v = tf.Variable(2., name="v")
    hidden = tf.Variable(5., trainable=False, collections=[tf.GraphKeys.GLOBAL_VARIABLES, "mine"])
    average = tf.train.ExponentialMovingAverage(0.9, num_updates=1, name="avg")
    update = average.apply([v])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(v.assign(4.))
        sess.run(update)                                    # decay min(0.9, (1 + 1) / (10 + 1))
        assert np.isclose(sess.run(average.average(v)), 2 + (4 - 2) * (1 - 2 / 11))
    assert tf.trainable_variables(scope="v") == [v] and tf.moving_average_variables(scope="v") == [v]
    assert tf.global_variables(scope="Var") == [hidden] and tf.get_collection("mine") == [hidden]


def test_checkpoints(tmp_path):
    tf.Variable(3., name="v")
    local = tf.Variable(4., collections=[tf.GraphKeys.LOCAL_VARIABLES])
    saver = tf.train.Saver(max_to_keep=2)
    sess = tf.InteractiveSession(config=tf.ConfigProto(intra_op_parallelism_threads=1))
    tf.global_variables_initializer().run()
    tf.local_variables_initializer().run()
    assert local.eval() == 4
    for step in range(3):
        saver.save(sess, str(tmp_path / "m"), global_step=step, latest_filename="newest")
    sess.close()
    state = tf.train.get_checkpoint_state(str(tmp_path), latest_filename="newest")
    assert [os.path.basename(p) for p in state.all_model_checkpoint_paths] == ["m-1", "m-2"]
    assert tf.train.checkpoint_exists(state.model_checkpoint_path)
    written = tf.train.write_graph(tf.get_default_graph(), str(tmp_path), "g.pb", as_text=False)
    assert tf.GraphDef.FromString(open(written, "rb").read()).node[0].name == "v/initial_value"
    assert tf.train.SaverDef(max_to_keep=7).max_to_keep == 7


def test_frozen_graph():
    y = tf.multiply(tf.Variable(3., name="w"), 2., name="y")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(
            sess, tf.get_default_graph().as_graph_def(), [y.op.name], variable_names_whitelist=["w"])
    with tf.Graph().as_default():
        [again] = tf.import_graph_def(frozen, return_elements=["y:0"], name="f")
        assert value(again) == 6
    proto = tf.contrib.util.make_tensor_proto([1, 2], dtype=tf.float32, shape=[2, 1])
    assert tf.make_ndarray(proto).tolist() == [[1.], [2.]]


def test_scopes():
    with tf.name_scope("given", default_name="unused", values=[]) as scope:
        assert scope == "given/"
    with tf.name_scope(None, "default", []) as scope:
        assert scope == "default/"
    with tf.op_scope([tf.constant(1.)], "s", default_name="unused") as scope:
        assert tf.zeros([]).op.name == "s/zeros" and scope == "s/"


# ---------------------------------------------------------------- around the graph

def test_flags_and_app():
    tf.flags.DEFINE_string("u_string", "a", "text")
    tf.flags.DEFINE_integer("u_integer", 1, "number")
    tf.flags.DEFINE_float("u_float", 0.5, "number")
    tf.flags.DEFINE_bool("u_bool", False, "choice")
    tf.app.flags.DEFINE_boolean("u_boolean", True, "choice")
    tf.app.flags.DEFINE_string("u_app", "x", "text")
    tf.app.flags.DEFINE_integer("u_app_integer", 3, "number")
    tf.app.flags.DEFINE_float("u_app_float", 1.5, "number")
    tf.app.flags.DEFINE_bool("u_app_bool", False, "choice")
    tf.flags.DEFINE_boolean("u_flags_boolean", False, "choice")
    seen = []
    argv = ["p", "--u_string=b", "--u_integer", "7", "--u_float=2.5", "--u_bool", "--nou_boolean", "rest"]
    with pytest.raises(SystemExit) as ended:
        tf.app.run(main=lambda rest: seen.append(rest), argv=argv)
    F = tf.flags.FLAGS
    assert ended.value.code is None and seen == [["p", "rest"]] and F is tf.app.flags.FLAGS
    assert (F.u_string, F.u_integer, F.u_float, F.u_bool, F.u_boolean) == ("b", 7, 2.5, True, False)
    assert (F.u_app, F.u_app_integer, F.u_app_float, F.u_app_bool, F.u_flags_boolean) == ("x", 3, 1.5, False, False)


def test_logging(caplog):
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.DEBUG)
    with caplog.at_level(logging.DEBUG, "tensorflow"):
        tf.logging.debug("d %d", 1)
        tf.logging.info("i %d", 2)
        tf.logging.warning("w %d", 3)
        tf.logging.error("e %d", 4)
        tf.logging.fatal("f %d", 5)
    tf.logging.flush()
    tf.logging.set_verbosity(before)
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (tf.logging.DEBUG, "d 1"), (tf.logging.INFO, "i 2"), (tf.logging.WARN, "w 3"), (tf.logging.ERROR, "e 4"),
        (tf.logging.FATAL, "f 5")]


def test_files_and_text(tmp_path):
    tf.gfile.MkDir(str(tmp_path / "d"))
    with tf.gfile.Open(str(tmp_path / "d/f"), "w") as file:
        file.write("text")
    assert tf.gfile.Open(str(tmp_path / "d/f"), "rb").read() == b"text"
    assert tf.compat.as_bytes("é", encoding="latin-1") == b"\xe9" and tf.compat.as_text(b"\xe9", "latin-1") == "é"
    assert tf.compat.as_str(b"\xe9", encoding="latin-1") == "é"


def test_switches():
    tf.disable_v2_behavior()
    assert tf.executing_eagerly() is False and tf.test.is_built_with_cuda() in (False, True)


class AssertionsTest(tf.test.TestCase):
    def test_values(self):
        with self.cached_session(use_gpu=False) as sess:
            self.assertAllClose(sess.run(tf.constant([1., 2.]) * 2), [2., 4.], rtol=1e-5)


def test_unittest_main():
    with pytest.raises(SystemExit) as ended:
        tf.test.main(argv=["p", "--help"])
    assert ended.value.code == 0


# ---------------------------------------------------------------- layers, metrics, summaries

def test_layers():
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    ones = tf.ones_initializer()
    conv = tf.layers.conv2d(x, 2, 3, strides=2, padding="same", activation=tf.nn.relu, kernel_initializer=ones,
                            bias_initializer=tf.constant_initializer(-50.), name="c")
    # 3 x 3 places from (0, 0), (0, 2), (2, 0) and (2, 2), cut at the edge: "same" pads below and to the right
    sums = np.array([[x[0, r:r + 3, c:c + 3].sum() for c in (0, 2)] for r in (0, 2)])
    np.testing.assert_allclose(value(conv)[0, :, :, 1], np.maximum(sums - 50, 0))
    assert [v.op.name for v in tf.trainable_variables()] == ["c/kernel", "c/bias"]
    close(tf.layers.max_pooling2d(x, 3, 2, padding="same")[0, :, :, 0], [[10, 11], [14, 15]])
    close(tf.layers.average_pooling2d(x, 2, 2, padding="same")[0, :, :, 0], [[2.5, 4.5], [10.5, 12.5]])
    first = tf.layers.flatten(x.reshape(1, 2, 4, 2), data_format="channels_first")
    close(first, x.reshape(1, 2, 4, 2).transpose(0, 2, 3, 1).reshape(1, 16))
    up = tf.layers.conv2d_transpose(x, 1, 2, strides=2, kernel_initializer=ones, use_bias=False, name="t")
    close(up[0, :, :, 0], np.kron(x[0, :, :, 0], np.ones((2, 2))))


def test_metrics():
    accuracy, update = tf.metrics.accuracy([1, 2, 3], [1, 2, 0], weights=[1., 1., 2.], metrics_collections=["m"], name="a")
    with tf.Session() as sess:
        sess.run(tf.local_variables_initializer())
        assert sess.run(update) == 0.5 == sess.run(accuracy) and tf.get_collection("m") == [accuracy]


def test_summaries():
    loss = tf.summary.scalar("a b", tf.constant(2.), collections=["mine"], family="f")
    image = tf.summary.image("im", tf.zeros([2, 3, 4, 1]), max_outputs=1)
    both = tf.Summary.FromString(value(tf.summary.merge([loss, image], collections=["all"], name="both")))
    assert [v.tag for v in both.value] == ["f/f/a_b", "im/image"] and both.value[0].simple_value == 2
    assert (both.value[1].image.height, both.value[1].image.width) == (3, 4)
    assert tf.get_collection("mine") == [loss] and len(tf.get_collection("all")) == 1
