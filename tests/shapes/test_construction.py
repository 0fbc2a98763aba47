"""What public functions refuse, name and take while the graph is built; answers of TensorFlow
2.21's compat.v1 where it has one, as literals."""
import numpy as np
import pytest

import pyflow as tf

INVALID = tf.errors.InvalidArgumentError


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


def fed(array):
    """A placeholder of unknown rank and its feed."""
    array = np.asarray(array)
    made = tf.placeholder(array.dtype)
    return made, {made: array}


def sparse(*dims):
    return tf.SparseTensor(np.zeros([1, len(dims)], np.int64), np.ones(1, np.float32),
                           np.array(dims, np.int64))


# ------------------------------------------------------------------------------------ unknown ranks
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_matmul_of_unknown_rank_multiplies_batches():
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    product = tf.matmul(a, b, transpose_b=True)
    assert product.shape.ndims is None and product.op.type == "BatchMatMulV2"
    np.testing.assert_array_equal(run(product, {a: X, b: X}), X @ np.swapaxes(X, 1, 2))
    np.testing.assert_array_equal(run(product, {a: X[0], b: X[0]}), X[0] @ X[0].T)


def test_sparse_matmul_mixes_float32_and_bfloat16():
    a, b = tf.constant(X[0]), tf.cast(tf.constant(X[1].T), tf.bfloat16)
    product = tf.matmul(a, b, b_is_sparse=True)
    assert product.dtype == tf.float32 and product.shape == (3, 3)
    np.testing.assert_allclose(run(product), X[0] @ X[1].T)


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
def test_sort_and_argsort(axis):
    values = np.sin(X * 7)
    x, feeds = fed(values)
    ours = run([tf.sort(x, axis=axis), tf.argsort(x, axis=axis),
                tf.sort(x, axis=axis, direction="DESCENDING")], feeds)
    np.testing.assert_array_equal(ours[0], np.sort(values, axis))
    np.testing.assert_array_equal(ours[1], np.argsort(values, axis))
    np.testing.assert_array_equal(ours[2], -np.sort(-values, axis))


@pytest.mark.parametrize("axes", [1, 0, [[0, -1], [1, 0]], np.array([[2], [0]], np.int32)])
def test_tensordot(axes):
    y = np.arange(40, dtype=np.float32).reshape(4, 2, 5)
    (a, first), (b, second) = fed(X), fed(y)
    np.testing.assert_allclose(run(tf.tensordot(a, b, axes), {**first, **second}),
                               np.tensordot(X, y, axes if np.ndim(axes) == 0 else list(axes)))
    given, third = fed(np.array([[2], [0]], np.int32))
    np.testing.assert_allclose(run(tf.tensordot(X, y, given), third), np.tensordot(X, y, 1))


def test_unsorted_segment_means():
    (data, first), (ids, second) = fed(X[0]), fed(np.array([0, 2, 0], np.int32))
    mean, root = run([tf.unsorted_segment_mean(data, ids, 3),
                      tf.unsorted_segment_sqrt_n(data, ids, 3)], {**first, **second})
    np.testing.assert_allclose(mean, [[4, 5, 6, 7], [0] * 4, [4, 5, 6, 7]])
    np.testing.assert_allclose(root[0], np.array([8, 10, 12, 14]) / np.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize("build", [
    lambda x: tf.image.crop_to_bounding_box(x, 1, 0, 1, 2),
    lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 6, 7),
    lambda x: tf.image.resize_image_with_crop_or_pad(x, 1, 7),
    tf.image.flip_left_right, tf.image.flip_up_down, tf.image.transpose_image,
    lambda x: tf.image.rot90(x, 3), lambda x: tf.image.rot90(x, tf.constant(1)),
    lambda x: tf.image.random_flip_up_down(x, seed=1)])
def test_an_image_of_unknown_rank(build):
    known = tf.constant(X)
    x, feeds = fed(X)
    tf.set_random_seed(3)
    ours = build(x)
    assert ours.shape.ndims in (None, 3)
    found = run(ours, feeds)
    if "random" in ours.op.name:
        assert any(np.array_equal(found, y) for y in (X, X[::-1]))
    else:
        np.testing.assert_array_equal(found, run(build(known)))


def test_a_batch_of_unknown_rank_is_flipped_as_one():
    x, feeds = fed(X[None])
    for build, wanted in ((tf.image.flip_left_right, X[None, :, ::-1]),
                          (tf.image.transpose_image, X.transpose(1, 0, 2)[None])):
        np.testing.assert_array_equal(run(build(x), feeds), wanted)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_embedding_lookup_of_unknown_lengths(strategy):
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    parts = (rows[::2], rows[1::2]) if strategy == "mod" else (rows[:4], rows[4:])
    tables, feeds = zip(*map(fed, parts))
    found = tf.nn.embedding_lookup(list(tables), [[6, 1], [2, 5]], partition_strategy=strategy)
    np.testing.assert_array_equal(run(found, {k: v for f in feeds for k, v in f.items()}),
                                  rows[[[6, 1], [2, 5]]])


def test_the_rank_of_a_comparison_of_unknown_rank():
    """A pass moved Rank's input past the comparison and left its element type."""
    x, feeds = fed(np.array([3, 1], np.int32))
    condition = tf.reduce_all(tf.greater_equal(x, 0))
    assert run([condition, tf.rank(tf.greater(x, 2)), tf.size(tf.greater(x, 2))],
               feeds) == [True, 1, 2]


# ----------------------------------------------------------------------------------- static shapes
def test_shapes_that_tensorflow_knows():
    x = tf.placeholder(tf.float32, [2, 8, 8, 3])
    unknown = tf.placeholder(tf.float32)
    keep = tf.placeholder(tf.float32)
    assert tf.nn.dropout(x, keep).shape == (2, 8, 8, 3)
    assert tf.nn.conv2d(x, unknown, [1, 2, 2, 1], "SAME").shape.as_list() == [2, 4, 4, None]
    assert tf.random_gamma([5], unknown).shape.ndims is None
    assert tf.random_gamma([5], tf.placeholder(tf.float32, [3])).shape == (5, 3)
    assert tf.nn.lrn(unknown).shape.ndims == 4
    assert tf.nn.in_top_k(tf.placeholder(tf.float32, [4, 3]),
                          tf.placeholder(tf.int32), 1).shape == (4,)
    assert tf.invert_permutation(tf.placeholder(tf.int32)).shape.ndims == 1
    assert tf.reverse_sequence(tf.placeholder(tf.float32, [None, 4]), [3, 1],
                               seq_axis=1).shape == (2, 4)
    loss = tf.nn.softmax_cross_entropy_with_logits(
        logits=tf.placeholder(tf.float32, [None, 3]), labels=tf.placeholder(tf.float32, [2, 3]))
    assert loss.shape == (2,)
    y, mean, variance = tf.nn.fused_batch_norm(unknown, [1.0, 1.0], [0.0, 0.0])
    assert y.shape.as_list() == [None, None, None, 2] and mean.shape == variance.shape == (2,)
    moved = tf.space_to_batch_nd(tf.placeholder(tf.float32, [None, 4, 6, 5]), [2, 2],
                                 [[0, 0], [0, 0]])
    assert moved.shape.as_list() == [None, 2, 3, 5]
    joined = tf.sparse_concat(0, [sparse(2, 3), sparse(1, 3)])
    assert joined.indices.shape == (2, 2) and joined.values.shape == (2,)


# ------------------------------------------------------------------------ refused while it is built
@pytest.mark.parametrize("error, build", [
    (ValueError, lambda: tf.dynamic_stitch([[0, 1], [2]], [[1.0, 2, 3], [1.0]])),
    (ValueError, lambda: tf.matrix_solve(tf.ones([3, 3]), tf.ones([2, 1]))),
    (ValueError, lambda: tf.fill([2], [1.0])),
    (ValueError, lambda: tf.fill([-2], 1.0)),
    (ValueError, lambda: tf.sparse_concat(0, [sparse(2, 3), sparse(2, 3, 4)])),
    (ValueError, lambda: tf.sparse_tensor_dense_matmul(sparse(2, 3), tf.ones([2, 3]))),
    (ValueError, lambda: tf.space_to_batch_nd(tf.ones([1, 4, 4, 1]), [2, 2], [[0, 0], [0, -2]])),
    (ValueError, lambda: tf.space_to_batch_nd(tf.ones([1, 4, 4, 1]), [2, 2], [0, 0])),
    (ValueError, lambda: tf.scatter_nd([[0], [1]], [1.0, 2, 3], [4])),
    (ValueError, lambda: tf.scatter_nd([[0], [1]], [[1.0], [2]], [4])),
    (INVALID, lambda: tf.as_string(3, scientific=True)),
    (INVALID, lambda: tf.as_string(3, shortest=True)),
    (INVALID, lambda: tf.sparse_to_dense([0], [3], [1.0], default_value=[0.0])),
    (ValueError, lambda: tf.train.piecewise_constant(tf.constant(1), [1.5], [1.0, 2.0])),
    (ValueError, lambda: tf.train.piecewise_constant(tf.constant(1), [1], [1.0, 2])),
    (ValueError, lambda: tf.get_variable("v", [1], custom_getter=3)),
    (ValueError, lambda: tf.nn.dropout(tf.ones([3]), [0.5])),
    (ValueError, lambda: tf.nn.dropout(tf.ones([3]), rate=[0.5])),
    (INVALID, lambda: tf.nn.softmax(tf.ones([2, 3]), dim=100)),
    (INVALID, lambda: tf.nn.log_softmax(tf.ones([2, 3]), axis=-3)),
    (ValueError, lambda: tf.sequence_mask([1, 2], maxlen=[3])),
    (ValueError, lambda: tf.transpose(tf.ones([2, 3]), [[1, 0]])),
    (ValueError, lambda: tf.assert_equal(tf.constant([1, 2, 3]), tf.constant([1, 2]))),
    (ValueError, lambda: tf.assert_less(tf.constant([1, 2, 3]), [1, 2])),
    (ValueError, lambda: tf.nn.max_pool(tf.ones([1, 2, 2, 4]), [1, 2, 2, 2], [1, 2, 2, 2],
                                        "VALID"))])
def test_refused_at_once(error, build):
    with pytest.raises(error) as caught:
        build()
    assert "operands could not be broadcast" not in str(caught.value)   # NumPy's own words


def test_boundaries_may_be_int32_for_an_int64_step():
    rate = tf.train.piecewise_constant(tf.constant(2, tf.int64), [1], [0.5, 0.25])
    assert run(rate) == 0.25


def test_an_entered_session_is_not_entered_again():
    session = tf.Session()
    with session:
        with pytest.raises(RuntimeError, match="re-entrant"):
            session.__enter__()


def test_an_empty_checkpoint_file_is_an_error(tmp_path):
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.get_checkpoint_state(str(tmp_path))
    assert tf.train.latest_checkpoint(str(tmp_path / "none")) is None


def test_a_partial_run_fetches_something():
    x = tf.placeholder(tf.float32)
    with tf.Session() as session, pytest.raises(INVALID, match="at least one target"):
        session.partial_run_setup([], [x])


def test_an_operand_of_another_type_names_the_line():
    for build in (lambda: tf.constant(1) + 1.5, lambda: 1.5 - tf.constant(1)):
        with pytest.raises(TypeError, match="test_construction.py"):
            build()


# ------------------------------------------------------------------------------------ taken, too
def test_max_pool_over_channels():
    image = np.sin(np.arange(32, dtype=np.float32)).reshape(1, 2, 4, 4)
    x = tf.constant(image)
    pooled = tf.nn.max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID")
    assert pooled.shape == (1, 2, 4, 2)
    np.testing.assert_array_equal(run(pooled), image.reshape(1, 2, 4, 2, 2).max(-1))


@pytest.mark.parametrize("name", "negative sign square sqrt tanh erf sin asin atan tan identity "
                                 "abs".split())
def test_unary_functions_of_sparse_tensors(name):
    x = tf.SparseTensor([[0, 0], [1, 2]], [0.5, 0.25], [2, 3])
    found = getattr(tf, name)(x)
    assert isinstance(found, tf.SparseTensor)
    values, wanted = run([found.values, getattr(tf, name)(x.values)])
    np.testing.assert_array_equal(values, wanted)


def test_shape_size_and_rank_of_a_sparse_tensor_value():
    value = tf.SparseTensorValue(np.array([[0, 0]]), np.array([1.5]), np.array([2, 3]))
    found = run([tf.shape(value), tf.size(value), tf.rank(value)])
    np.testing.assert_array_equal(found[0], [2, 3])
    assert found[1:] == [6, 2]


def test_tuple_takes_numbers():
    assert run(tf.tuple([tf.constant(1.5), 2])) == [1.5, 2]


def test_bytes_are_names():
    assert tf.constant(1.0, name=b"abc").name == "abc:0"
    assert tf.add(1, 2, name=b"sum").name == "sum:0"
    assert tf.get_default_graph().unique_name(b"abc") == "abc_1"
