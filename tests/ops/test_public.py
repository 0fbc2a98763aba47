"""The public functions beside the blocks: operators, deprecated names, static shapes, frugal
gradient graphs."""
import numpy as np
import pytest

import pyflow as tf


def run(*tensors, **feeds):
    with tf.Session() as session:
        found = session.run(list(tensors), {k + ":0": v for k, v in feeds.items()})
    return found[0] if len(found) == 1 else found


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


# --------------------------------------------------------------------------------------- operators
def test_arithmetic_operators_take_the_tensors_type():
    x = tf.placeholder(tf.float64, [3], name="x")
    results = [x + 1, 1 + x, x - 1, 1 - x, 2 * x, x * 2, x / 2, 2 / x, x // 2, x % 2, x ** 2,
               2 ** x, -x, abs(x)]
    assert all(r.dtype == tf.float64 and r.shape == (3,) for r in results)
    v = np.array([1.5, -2.0, 3.0])
    wanted = [v + 1, 1 + v, v - 1, 1 - v, 2 * v, v * 2, v / 2, 2 / v, v // 2, v % 2, v ** 2,
              2 ** v, -v, abs(v)]
    np.testing.assert_allclose(run(*results, x=v), wanted)


def test_division_of_integers_is_python_3s():
    x = tf.constant([7, -7], tf.int32)
    assert (x / 2).dtype == tf.float64
    assert (tf.constant([7], tf.int8) / 2).dtype == tf.float32
    np.testing.assert_array_equal(run(x / 2), [3.5, -3.5])
    np.testing.assert_array_equal(run(x // 2), [3, -4])
    np.testing.assert_array_equal(run(x % 4), [3, 1])
    np.testing.assert_array_equal(run(tf.div(x, 2)), [3, -4])
    np.testing.assert_array_equal(run(tf.truncatediv(x, 2)), [3, -3])


def test_equality_is_identity():
    x, y = tf.constant(1), tf.constant(1)
    assert (x == x) is True and (x == y) is False and len({x, y}) == 2
    assert run(tf.equal(x, y))


def test_comparison_and_logic_operators():
    x = tf.constant([1, 2, 3])
    np.testing.assert_array_equal(run((x > 1) & (x <= 3)), [False, True, True])
    np.testing.assert_array_equal(run((x < 2) | (x >= 3)), [True, False, True])
    np.testing.assert_array_equal(run(~(x < 2) ^ (x > 2)), [False, True, False])
    np.testing.assert_array_equal(run(x & 1, x | 4, x ^ 1, ~x),
                                  [[1, 0, 1], [5, 6, 7], [0, 3, 2], [-2, -3, -4]])
    with pytest.raises(TypeError, match="bool or integer"):
        tf.constant(1.0) & tf.constant(2.0)


def test_matmul_operator():
    a = tf.constant([[1.0, 2.0]])
    np.testing.assert_allclose(run(a @ [[3.0], [4.0]]), [[11.0]])


@pytest.mark.parametrize("index", [
    np.s_[0], np.s_[-1], np.s_[1:], np.s_[:, 1], np.s_[..., 0], np.s_[::-1], np.s_[1:3, ::2],
    np.s_[None],
    np.s_[:, None, 1:2], np.s_[0, 1, 2], np.s_[..., -1:, :], np.s_[5:1:-2], np.s_[2:2],
    np.s_[-2:, ..., None]],
    ids=str)
def test_indexing_is_numpys(index):
    array = np.arange(4 * 3 * 5).reshape(4, 3, 5)
    x = tf.placeholder(tf.int64, array.shape, name="x")
    y = x[index]
    assert y.shape == array[index].shape
    np.testing.assert_array_equal(run(y, x=array), array[index])


def test_indexing_with_tensors():
    array = np.arange(12).reshape(4, 3)
    x, i = tf.constant(array), tf.placeholder(tf.int32, [], name="i")
    rows, cell = run(x[i:i + 2], x[i, 2], i=1)
    np.testing.assert_array_equal(rows, array[1:3])
    assert cell == array[1, 2]
    for bad in (1.5, [0, 1], tf.constant([0, 1]), "a"):
        with pytest.raises(TypeError, match="valid indices"):
            x[bad,]
    with pytest.raises(ValueError, match="out of bounds"):
        x[4]


# ------------------------------------------------------------------------------- deprecated names
def test_old_and_new_argument_names():
    x = tf.constant(np.arange(6.0).reshape(2, 3))
    for call in (tf.reduce_sum(x, 1, True), tf.reduce_sum(x, axis=1, keepdims=True),
                 tf.reduce_sum(x, reduction_indices=[1], keep_dims=True)):
        np.testing.assert_array_equal(run(call), [[3.0], [12.0]])
    with pytest.raises(ValueError, match="not both"):
        tf.reduce_sum(x, axis=1, reduction_indices=1)
    with pytest.raises(ValueError, match="not both"):
        tf.reduce_mean(x, keepdims=True, keep_dims=True)
    assert tf.argmax(x, dimension=1).shape == tf.argmax(x, 1).shape == (2,)
    assert tf.expand_dims(x, dim=0).shape == (1, 2, 3)
    assert tf.squeeze(tf.expand_dims(x, 0), squeeze_dims=[0]).shape == (2, 3)
    with pytest.raises(ValueError, match="both labels and logits"):
        tf.nn.softmax_cross_entropy_with_logits(logits=x)
    with pytest.raises(ValueError, match="named arguments"):
        tf.nn.sigmoid_cross_entropy_with_logits(x, x)


def test_reduction_over_everything_is_a_scalar():
    assert tf.reduce_mean(tf.placeholder(tf.float32)).shape == ()
    assert tf.reduce_max(tf.placeholder(tf.float32, [None, 3])).shape == ()


# ------------------------------------------------------------------------------------ static values
def test_static_shapes_through_shape_arithmetic():
    x = tf.placeholder(tf.float32, [None, 4])
    assert tf.reshape(x, [tf.shape(x)[0], 2, 2]).shape.as_list() == [None, 2, 2]
    assert tf.reshape(x, [-1, x.shape[1]]).shape.as_list() == [None, 4]
    assert tf.zeros([tf.shape(x)[0], 3]).shape.as_list() == [None, 3]
    assert tf.reshape(tf.zeros([2, 6]), [4, -1]).shape == (4, 3)
    assert tf.shape(tf.zeros([2, 3])).op.type == "Const"
    assert tf.concat([x, x], 1).shape.as_list() == [None, 8]
    assert tf.matmul(x, tf.zeros([4, 5])).shape.as_list() == [None, 5]
    assert tf.nn.conv2d(tf.placeholder(tf.float32, [None, 28, 28, 1]), tf.zeros([5, 5, 1, 8]),
                        [1, 2, 2, 1],
                        "SAME").shape.as_list() == [None, 14, 14, 8]


@pytest.mark.parametrize("build, words", [
    (lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3])), "3 and 2"),
    (lambda: tf.zeros([2, 3]) + tf.zeros([2, 4]), "3 and 4|2, 3.*2, 4"),
    (lambda: tf.concat([tf.zeros([2, 3]), tf.zeros([3, 4])], 0), "dimension 1"),
    (lambda: tf.reshape(tf.zeros([6]), [4, 2]), "6 elements"),
    (lambda: tf.reduce_sum(tf.zeros([2]), axis=1), "axis 1 is out of range"),
    (lambda: tf.split(tf.zeros([5]), 2), "multiple of"),
    (lambda: tf.transpose(tf.zeros([2, 3]), [0, 0]), "permutation"),
    (lambda: tf.nn.conv2d(tf.zeros([1, 4, 4, 3]), tf.zeros([3, 3, 2, 8]), [1, 1, 1, 1], "SAME"),
     "3 channels"),
    (lambda: tf.squeeze(tf.zeros([2, 3]), [0]), "not 1"),
    (lambda: tf.nn.bias_add(tf.zeros([2, 3]), tf.zeros([4])), "3.*4"),
    (lambda: tf.nn.dropout(tf.zeros([2]), rate=1.5), "rate"),
    (lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[[1]], logits=[[1.0]]),
     "Rank mismatch"),
])
def test_shape_errors_say_what_is_wrong(build, words):
    with pytest.raises(ValueError, match=words):
        build()


# --------------------------------------------------------------------------- frugal gradient graphs
def nodes_of_gradient(y, x):
    before = len(tf.get_default_graph().get_operations())
    tf.gradients(y, x)
    return [op.type for op in tf.get_default_graph().get_operations()[before:]]


def test_gradients_of_known_shapes_ask_for_no_shapes():
    x, w, b = tf.placeholder(tf.float32, [8, 3]), tf.placeholder(tf.float32,
                                                                 [3,
                                                                  5]), tf.placeholder(tf.float32,
                                                                                      [5])
    y = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, w) + b) - tf.ones([8, 5])))
    types = nodes_of_gradient(y, [x, w, b])
    assert not {"Shape", "BroadcastGradientArgs", "Size", "Rank",
                "DynamicStitch"} & set(types), types


def test_gradient_of_a_sum_of_equal_shapes_adds_nothing():
    x, y = tf.placeholder(tf.float32, [8, 3]), tf.placeholder(tf.float32, [8, 3])
    dy = tf.placeholder(tf.float32, [8, 3])
    z = x + y
    before = len(tf.get_default_graph().get_operations())
    grads = tf.gradients(z, [x, y], grad_ys=dy)
    added = tf.get_default_graph().get_operations()[before:]
    assert grads[0] is grads[1] and [op.type for op in added] in ([], ["Identity"])


def test_gradient_of_a_bias_with_unknown_batch_asks_for_no_shapes():
    x, b = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [3])
    dy = tf.placeholder(tf.float32, [None, 3])
    before = len(tf.get_default_graph().get_operations())
    grads = tf.gradients(x * b, [x, b], grad_ys=dy)
    types = [op.type for op in tf.get_default_graph().get_operations()[before:]]
    assert "Shape" not in types, types
    value = run(*grads, **{x.op.name: np.full((4, 3), 2.0), b.op.name: [1, 2, 3],
                           dy.op.name: np.ones((4, 3))})
    np.testing.assert_allclose(value[1], [8, 8, 8])


def test_gather_gradient_is_sparse():
    table = tf.placeholder(tf.float32, [1000, 4])
    grad, = tf.gradients(tf.nn.embedding_lookup(table, [3, 3, 7]), table)
    assert isinstance(grad, tf.IndexedSlices)
    dense = run(tf.convert_to_tensor(grad), **{table.op.name: np.zeros((1000, 4))})
    assert dense[3, 0] == 2 and dense[7, 0] == 1 and dense.sum() == 12


# ----------------------------------------------------------------------------------- random numbers
def test_random_numbers_have_their_moments():
    n = 40_000
    uniform, normal, truncated, whole = run(
        tf.random_uniform([n], 2.0, 4.0, seed=1), tf.random_normal([n], 1.0, 2.0, seed=2),
        tf.truncated_normal([n], seed=3), tf.random_uniform([n], 0, 10, dtype=tf.int32, seed=4))
    assert uniform.min() >= 2 and uniform.max() < 4 and abs(uniform.mean() - 3) < 0.02
    assert abs(normal.mean() - 1) < 0.05 and abs(normal.std() - 2) < 0.05
    assert abs(truncated).max() <= 2 and abs(truncated.std() - 0.88) < 0.02
    assert np.bincount(whole, minlength=10).min() > n / 10 * 0.9


def test_seeds_repeat_and_steps_differ():
    tf.set_random_seed(5)
    x, y = tf.random_normal([4]), tf.random_normal([4], seed=7)
    with tf.Session() as session:
        first = [session.run([x, y]) for _ in range(2)]
    with tf.Session() as session:
        second = [session.run([x, y]) for _ in range(2)]
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1]) and not np.array_equal(first[0][0], first[0][1])


def test_dropout_keeps_the_mean():
    x = tf.ones([100, 100])
    for kept in (tf.nn.dropout(x, 0.25, seed=1), tf.nn.dropout(x, rate=0.75, seed=1)):
        value = run(kept)
        assert set(np.unique(value)) == {0.0, 4.0} and abs(value.mean() - 1) < 0.1
    assert tf.nn.dropout(x, rate=0) is x
    shared = run(tf.nn.dropout(x, 0.5, noise_shape=[100, 1], seed=1))
    assert (shared == shared[:, :1]).all()
    grad, = tf.gradients(tf.nn.dropout(x, rate=0.5, seed=1), x)
    assert set(np.unique(run(grad))) == {0.0, 2.0}


def test_multinomial_follows_the_logits():
    drawn = run(tf.multinomial(tf.log([[0.1, 0.2, 0.7]]), 20_000, seed=1))
    np.testing.assert_allclose(np.bincount(drawn[0]) / 20_000, [0.1, 0.2, 0.7], atol=0.02)


def test_random_shuffle_and_crop():
    shuffled = run(tf.random_shuffle(tf.range(50), seed=1))
    assert sorted(shuffled) == list(range(50)) and list(shuffled) != list(range(50))
    block = run(tf.random_crop(tf.reshape(tf.range(100), [10, 10]), [3, 4], seed=1))
    assert block.shape == (3, 4)
    assert (np.diff(block, axis=1) == 1).all() and (np.diff(block, axis=0) == 10).all()


# ------------------------------------------------------------------------------------------- losses
def test_losses_reduce_and_collect():
    x, y = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.zeros([2, 2])
    loss = tf.losses.mean_squared_error(y, x)
    weighted = tf.losses.absolute_difference(y, x, weights=[[1.0], [0.0]])
    plain = tf.losses.mean_squared_error(y, x, reduction=tf.losses.Reduction.NONE)
    np.testing.assert_allclose(run(loss), 7.5)
    np.testing.assert_allclose(run(weighted), 1.5)
    assert run(plain).shape == (2, 2)
    assert tf.losses.get_losses() == [loss, weighted, plain]
    with pytest.raises(ValueError, match="broadcast"):
        tf.losses.mean_squared_error(y, x, weights=[1.0, 2.0, 3.0])


def test_dynamic_partition_of_the_most_dimensions_by_a_scalar():
    """Its results would have one more than there may be."""
    data = tf.placeholder_with_default(np.zeros([1] * 32, np.float32), None)
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="rank 33"):
        sess.run(tf.dynamic_partition(data, tf.constant(1), 3))


def test_bincount_of_integers_wraps_around():
    counted = tf.math.bincount(tf.constant([1, 1]), weights=tf.constant([2**31 - 1, 3], tf.int32))
    with tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(counted), [0, -2**31 + 2])
