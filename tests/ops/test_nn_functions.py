"""Functions of tf.nn that draw, keep state or wrap cells: what recorded answers cannot show."""
import itertools

import numpy as np
import pytest

import pyflow as tf

CELL = tf.nn.rnn_cell


def run(tensors, feeds=None, times=1):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = [session.run(tensors, feeds) for _ in range(times)]
    return found[0] if times == 1 else found


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


# ----------------------------------------------------------------------------------------- samplers
RANGE, DRAWS = 8, 40_000
WEIGHTS = [5.0, 1.0, 2.0, 8.0, 1.0, 3.0, 4.0, 6.0]
EXPECTED = {
    "uniform": np.full(RANGE, 1 / RANGE),
    "log_uniform": np.log((np.arange(RANGE) + 2) / (np.arange(RANGE) + 1)) / np.log(RANGE + 1),
    "fixed_unigram": np.array(WEIGHTS) / sum(WEIGHTS),
    "learned_unigram": np.full(RANGE, 1 / RANGE)}


@pytest.mark.parametrize("name", EXPECTED)
def test_candidates_follow_their_distribution(name):
    more = {"unigrams": WEIGHTS} if name == "fixed_unigram" else {}
    sample = getattr(tf.nn, name + "_candidate_sampler")
    drawn, true_count, count = run(sample(tf.constant([[3, 0]], tf.int64), 2, DRAWS, False, RANGE,
                                          seed=1, **more))
    share = np.bincount(drawn, minlength=RANGE) / DRAWS
    np.testing.assert_allclose(share, EXPECTED[name], atol=0.01)
    np.testing.assert_allclose(true_count[0] / DRAWS, EXPECTED[name][[3, 0]], rtol=1e-5)
    np.testing.assert_allclose(count / DRAWS, EXPECTED[name][drawn], rtol=1e-5)


@pytest.mark.parametrize("name", EXPECTED)
def test_unique_candidates_are_unique_and_all_can_be_had(name):
    more = {"unigrams": WEIGHTS} if name == "fixed_unigram" else {}
    sample = getattr(tf.nn, name + "_candidate_sampler")
    drawn, true_count, count = run(sample(tf.constant([[3]], tf.int64), 1, RANGE, True, RANGE,
                                          **more))
    assert sorted(drawn) == list(range(RANGE))
    assert (count > 0).all() and (count <= 1).all() and true_count[0, 0] == count[drawn == 3][0]


def test_learned_sampler_learns_across_steps_and_plans():
    true = tf.placeholder(tf.int64, [None, 1])
    drawn, count, _ = tf.nn.learned_unigram_candidate_sampler(true, 1, 100, False, 4, seed=1)
    with tf.Session() as session:
        first = session.run(count, {true: [[2]] * 96})
        again = session.run([drawn, count], {true: [[2]]})     # another plan of the same node
    np.testing.assert_allclose(first, 25)
    np.testing.assert_allclose(again[1], [[97.0]], rtol=1e-6)
    assert (again[0] == 2).mean() > 0.9


def test_samplers_refuse_what_cannot_be_done():
    true = tf.constant([[1]], tf.int64)
    tries = [(tf.nn.uniform_candidate_sampler(true, 1, 9, True, 8), "range is too small"),
             (tf.nn.fixed_unigram_candidate_sampler(true, 1, 3, True, 3, unigrams=[1., 0., 2.]),
              "only 2 classes"),
             (tf.nn.fixed_unigram_candidate_sampler(true, 1, 3, True, 5, unigrams=[1., 2.]),
              "there are 2 classes"),
             (tf.nn.fixed_unigram_candidate_sampler(true, 1, 1, True, 1, vocab_file="/no/file"),
              "cannot be read"),
             (tf.nn.learned_unigram_candidate_sampler(true + 7, 1, 3, True, 8), "not in")]
    with tf.Session() as session:
        for tensors, words in tries:
            with pytest.raises(tf.errors.OpError, match=words):
                session.run(tensors)


def test_fixed_sampler_reads_a_vocabulary(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("the,5\nof,1\na,2\n")
    _, count, _ = run(tf.nn.fixed_unigram_candidate_sampler(
        tf.constant([[1, 2, 3, 0]], tf.int64), 4, 8, False, 4, vocab_file=str(path),
        num_reserved_ids=1))
    np.testing.assert_allclose(count, [[5, 1, 2, 0]])


def test_sampled_softmax_of_all_classes_is_the_softmax():
    rng = np.random.default_rng(0)
    w, b, x = (rng.standard_normal(s).astype("f") for s in ((6, 3), (6,), (4, 3)))
    labels = tf.constant([[5], [1], [0], [2]], tf.int64)
    sampled = tf.nn.all_candidate_sampler(labels, 1, 6, True)
    loss = tf.nn.sampled_softmax_loss(w, b, labels, x, 6, 6, sampled_values=sampled)
    full = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[:, 0],
                                                          logits=tf.matmul(x, w.T) + b)
    found, wanted = run([loss, full])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


# -------------------------------------------------------------------------------------- CTC decoder
@pytest.mark.parametrize("seed", range(5))
def test_beam_search_of_unlimited_width_is_exact(seed):
    """Against the sum over all paths of every labelling."""
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal((5, 1, 3)) * 2).astype("f")
    rows, scores = run(tf.nn.ctc_beam_search_decoder(logits, [5], beam_width=1000, top_paths=4,
                                                     merge_repeated=False))
    y = np.exp(logits[:, 0]) / np.exp(logits[:, 0]).sum(1, keepdims=True)
    chance = {}
    for path in itertools.product(range(3), repeat=5):
        short = tuple(k for k, _ in itertools.groupby(path) if k != 2)
        chance[short] = chance.get(short, 0) + np.prod([y[t, k] for t, k in enumerate(path)])
    best = sorted(chance, key=lambda k: -chance[k])[:4]
    assert [tuple(r.values) for r in rows] == best
    np.testing.assert_allclose(scores[0], np.log([chance[k] for k in best]), rtol=1e-5)


@pytest.mark.parametrize("width", [1, 3, 17])
def test_beams_of_a_long_input_are_narrow_and_sane(width):
    """Prefixes that leave the beam and come back: probabilities stay below the exact ones."""
    rng = np.random.default_rng(width)
    logits = tf.constant((rng.standard_normal((200, 3, 9)) * 2).astype("f"))
    rows, scores = tf.nn.ctc_beam_search_decoder(logits, [200, 150, 0], beam_width=width,
                                                 merge_repeated=False)
    labels = tf.SparseTensor(rows[0].indices, tf.cast(rows[0].values, tf.int32),
                             rows[0].dense_shape)
    exact = -tf.nn.ctc_loss(labels, logits, [200, 150, 0])
    found, limit = run([scores, exact])
    assert (found[:2, 0] <= limit[:2] + 1e-3).all() and found[2, 0] == 0


def test_ctc_errors_name_the_batch():
    labels = tf.SparseTensor([[0, 0], [1, 0], [1, 1], [1, 2]], [0, 1, 1, 0], [2, 3])
    logits = tf.zeros([3, 2, 3])
    for lengths, words in (([3, 3], "required: 4, available: 3"), ([3, 4], "sequence_length")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            run(tf.nn.ctc_loss(labels, logits, lengths))


# ------------------------------------------------------------------------------------------ pooling
@pytest.mark.parametrize("function, name", [(np.max, "max"), (np.mean, "avg")])
@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("pseudo", [False, True])
def test_fractional_pools_are_what_their_sequences_say(function, name, overlapping, pseudo):
    x = np.random.default_rng(3).standard_normal((2, 13, 10, 2)).astype("f")
    pooled, rows, columns = run(getattr(tf.nn, f"fractional_{name}_pool")(
        x, [1.0, 1.6, 2.3, 1.0], pseudo_random=pseudo, overlapping=overlapping))
    assert pooled.shape == (2, 8, 4, 2) and rows[0] == columns[0] == 0
    assert rows[-1] == 13 and columns[-1] == 10
    assert set(np.diff(rows)) <= {1, 2} and set(np.diff(columns)) <= {2, 3}
    more = 1 if overlapping else 0
    for i, j in np.ndindex(8, 4):
        part = x[:, rows[i]:rows[i + 1] + more, columns[j]:columns[j + 1] + more]
        np.testing.assert_allclose(pooled[:, i, j], function(part, (1, 2)), rtol=1e-5)


def test_pool_refuses_what_tensorflow_refuses():
    x = tf.zeros([1, 8, 8, 2])
    for arguments in (dict(window_shape=[2, 2], padding="SAME", dilation_rate=[2, 2]),
                      dict(window_shape=[2, 2], padding="VALID", strides=[3, 1]),
                      dict(window_shape=[2, 2], padding="VALID", strides=[2, 2],
                           dilation_rate=[2, 1]),
                      dict(window_shape=[2], padding="VALID")):
        with pytest.raises(ValueError):
            tf.nn.pool(x, pooling_type="MAX", **arguments)
    with pytest.raises(ValueError, match="not supported"):
        tf.nn.pool(x, [2, 2], "L3", "VALID")


# -------------------------------------------------------------------------------------------- cells
def test_dropout_wrapper_keeps_the_mean_and_spares_memory():
    cell = CELL.DropoutWrapper(CELL.BasicLSTMCell(50), input_keep_prob=0.5, output_keep_prob=0.5,
                               state_keep_prob=0.25, seed=1)
    state = CELL.LSTMStateTuple(tf.ones([40, 50]), tf.ones([40, 50]))
    output, new = cell(tf.ones([40, 6]), state)
    value, (c, h) = run([output, new])
    assert 0.4 < (value == 0).mean() < 0.6 and 0.65 < (h == 0).mean() < 0.85
    assert (c != 0).all()
    kept = (value != 0) & (h != 0)
    np.testing.assert_allclose(value[kept] / h[kept], 0.5, rtol=1e-5)


def test_variational_dropout_has_one_mask_for_all_steps():
    cell = CELL.DropoutWrapper(CELL.BasicRNNCell(30), output_keep_prob=0.5, seed=1,
                               variational_recurrent=True, dtype=tf.float32)
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.random_normal([4, 7, 5]), dtype=tf.float32)
    one, two = run(outputs, times=2)
    zero = one == 0
    assert (zero == zero[:1, :1]).all() and 0 < zero.mean() < 1
    assert ((two == 0) != zero).any()


def test_cells_say_what_is_wrong():
    with pytest.raises(ValueError, match="between 0 and 1"):
        CELL.DropoutWrapper(CELL.GRUCell(2), output_keep_prob=1.5)
    with pytest.raises(TypeError, match="the class GRUCell, not a cell"):
        tf.nn.dynamic_rnn(CELL.GRUCell, tf.ones([1, 2, 3]), dtype=tf.float32)
    with pytest.raises(ValueError, match="at least one cell"):
        CELL.MultiRNNCell([])
    with pytest.raises(ValueError, match="dtype"):
        tf.nn.dynamic_rnn(CELL.GRUCell(2), tf.ones([1, 2, 3]))
    with pytest.raises(ValueError, match="Input size"):
        tf.nn.dynamic_rnn(CELL.GRUCell(2), tf.placeholder(tf.float32, [1, 2, None]),
                          dtype=tf.float32)
    with pytest.raises(TypeError, match="unknown keyword"):
        CELL.GRUCell(2, units=3)
    with pytest.raises(ValueError, match="batch_size"):
        tf.nn.dynamic_rnn(CELL.GRUCell(2), tf.ones([2, 2, 3]), sequence_length=[1, 2, 3],
                          dtype=tf.float32)


def test_reuse_of_cells_follows_variable_scopes():
    x = tf.ones([2, 3, 4])

    def net(reuse=None):
        with tf.variable_scope("net", reuse=reuse):
            return tf.nn.dynamic_rnn(CELL.GRUCell(5), x, dtype=tf.float32)[0]
    first = net()
    with pytest.raises(ValueError, match="already exists"):
        net()
    second = net(reuse=True)
    assert len(tf.trainable_variables()) == 4
    np.testing.assert_array_equal(*run([first, second]))


def test_unknown_batch_and_time():
    x = tf.placeholder(tf.float32, [None, None, 3])
    n = tf.placeholder(tf.int32, [None])
    outputs, (c, h) = tf.nn.dynamic_rnn(CELL.LSTMCell(4), x, sequence_length=n, dtype=tf.float32)
    assert outputs.shape.as_list() == [None, None, 4] and c.shape.as_list() == [None, 4]
    grads = tf.gradients(outputs, tf.trainable_variables())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch, steps in ((2, 5), (1, 1), (3, 7)):
            feeds = {x: np.ones((batch, steps, 3)), n: np.arange(batch) % steps + 1}
            y, last, *slopes = session.run([outputs, h] + grads, feeds)
            assert y.shape == (batch, steps, 4) and np.isfinite(slopes[0]).all()
            np.testing.assert_allclose(y[np.arange(batch), feeds[n] - 1], last, rtol=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape for Tensor"):
            session.run(outputs, {x: np.ones((2, 5, 3)), n: [1, 2, 3]})


def test_cell_lists_its_variables():
    stack = CELL.MultiRNNCell([CELL.ResidualWrapper(CELL.GRUCell(4)), CELL.GRUCell(4)])
    stack(tf.ones([1, 4]), stack.zero_state(1, tf.float32))
    assert len(stack.trainable_variables) == 8 and stack.variables == stack.weights
    assert stack.scope_name == "multi_rnn_cell" and stack.trainable_weights[0].name == \
        "multi_rnn_cell/cell_0/gru_cell/gates/kernel:0"
    assert not stack.non_trainable_variables


def test_training_an_unrolled_lstm_learns():
    """Whether a bit came three steps ago."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (64, 12)).astype("f")
    wanted = np.concatenate([np.zeros((64, 3), "f"), bits[:, :-3]], 1)
    outputs, _ = tf.nn.dynamic_rnn(CELL.BasicLSTMCell(16), bits[..., None], dtype=tf.float32)
    w = tf.get_variable("w", [16, 1])
    logits = tf.reshape(tf.matmul(tf.reshape(outputs, [-1, 16]), w), [64, 12])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.constant(wanted),
                                                                  logits=logits)[:, 3:])
    step = tf.train.AdamOptimizer(0.03).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(150):
            session.run(step)
        assert session.run(loss) < 0.1


@pytest.mark.parametrize("factor", [0.5, 2.0, 1e38])
def test_batch_norm_reads_no_running_mean_that_is_empty(factor):
    from pyflow.ops.norm.norm_ops import FusedBatchNorm
    with tf.Graph().as_default(), tf.Session() as session:
        ones, empty = tf.ones([3]), tf.zeros([0])
        y = FusedBatchNorm(tf.ones([2, 2, 2, 3]), ones, ones, empty, empty,
                           exponential_avg_factor=factor)
        with pytest.raises(tf.errors.InvalidArgumentError, match="mean must have"):
            session.run(list(y))


@pytest.mark.parametrize("combiner", ("sum", "mean", "sqrtn"))
def test_embedding_lookup_sparse_is_twice_differentiable(combiner):
    """Without weights another op does the work than with: both give the same second derivatives."""
    table = np.random.default_rng(4).standard_normal((6, 3))
    places = [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]
    with tf.Graph().as_default(), tf.Session() as session:
        params = tf.constant(table)
        ids = tf.SparseTensor(places, tf.constant([1, 2, 1, 1, 5], tf.int64), [4, 3])
        ones = tf.SparseTensor(places, tf.ones([5], tf.float64), [4, 3])
        found = []
        for weights in (None, ones):
            rows = tf.nn.embedding_lookup_sparse(params, ids, weights, combiner=combiner)
            first, = tf.gradients(tf.reduce_sum(rows ** 3), params)
            second, = tf.gradients(tf.reduce_sum(tf.convert_to_tensor(first) ** 2), params)
            found.append(session.run(tf.convert_to_tensor(second)))
    assert np.abs(found[1]).max() > 0.1
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 2, -2])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_repeat_by_a_scalar(axis, times):
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("f")
    expected = np.repeat(x, times, axis)
    with tf.Graph().as_default(), tf.Session() as session:
        known = tf.repeat(x, tf.constant(times, tf.int64), axis=axis)
        some, count = tf.placeholder(tf.float32, [None, 4, None]), tf.placeholder(tf.int32, [])
        fed = tf.repeat(some, count, axis=axis)
        assert known.shape.as_list() == list(expected.shape)
        np.testing.assert_array_equal(session.run(known), expected)
        np.testing.assert_array_equal(session.run(fed, {some: x, count: times}), expected)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(fed, {some: x, count: -1})


@pytest.mark.parametrize("axis", [2, -3])
def test_repeat_along_no_axis(axis):
    with pytest.raises(ValueError, match=rf"axis must be in \[-2, 2\).*got {axis}"):
        tf.repeat(tf.zeros([2, 3]), 2, axis=axis)
