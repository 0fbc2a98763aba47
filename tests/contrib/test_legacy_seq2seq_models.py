"""Encoders and decoders of tf.contrib.legacy_seq2seq beside their formulas in NumPy.

TF 1.15's names and shapes of variables are written here; values come from the formulas of Sutskever
et al. 2014 (encoder, decoder) and Vinyals et al. 2015 (attention).
"""
import numpy as np
import pytest

import pyflow as tf

s2s = tf.contrib.legacy_seq2seq
UNITS, WORDS, SAYS, WIDTH = 5, 7, 6, 4
ASKED = np.array([[1, 2], [3, 4], [5, 6]], np.int32)           # [steps, batch]
GIVEN = np.array([[0, 1], [2, 3], [4, 5], [1, 1]], np.int32)


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        with tf.variable_scope("", initializer=tf.random_uniform_initializer(-0.7, 0.7, seed=3)):
            yield


def run(*fetches, feed=None):
    """Values, and {name: value} of all variables."""
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        values = sess.run({v.op.name: v for v in tf.global_variables()})
        return sess.run(fetches, feed), values


def words(steps):
    return tf.unstack(tf.constant(steps))


def cell_step(v, scope, x, h):
    return np.tanh(np.concatenate([x, h], 1) @ v[f"{scope}/kernel"] + v[f"{scope}/bias"])


def encode(v, scope, table, steps):
    """All states of a plain cell over rows of a table."""
    h, found = np.zeros((steps.shape[1], UNITS), np.float32), []
    for step in steps:
        h = cell_step(v, scope, table[step], h)
        found.append(h)
    return found


def dense(v, scope, x):
    return x @ v[f"{scope}/kernel"] + v[f"{scope}/bias"]


def close(found, wanted):
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


def speak(v, scope, project, table, h, steps, feeds):
    """Outputs and the last state of a decoder."""
    found = []
    for i, step in enumerate(steps):
        x = table[found[-1].argmax(1) if feeds and i else step]
        h = cell_step(v, scope, x, h)
        found.append(dense(v, project, h))
    return found, h


@pytest.mark.parametrize("feeds", [False, True, "fed"])
def test_embedding_rnn_seq2seq(feeds):
    given = tf.placeholder(tf.bool, []) if feeds == "fed" else feeds
    cell = tf.nn.rnn_cell.BasicRNNCell(UNITS)
    outputs, state = s2s.embedding_rnn_seq2seq(words(ASKED), words(GIVEN), cell, WORDS, SAYS, WIDTH,
                                               feed_previous=given, scope="talk")
    for choice in ([True, False] if feeds == "fed" else [feeds]):
        (found, last), v = run(outputs, state, feed={given: choice} if feeds == "fed" else None)
        root = "talk/embedding_rnn_decoder/rnn_decoder/output_projection_wrapper"
        encoded = encode(v, "talk/rnn/embedding_wrapper/basic_rnn_cell",
                         v["talk/rnn/embedding_wrapper/embedding"], ASKED)
        wanted, h = speak(v, f"{root}/basic_rnn_cell", root,
                          v["talk/embedding_rnn_decoder/embedding"], encoded[-1], GIVEN, choice)
        close([*found, last], [*wanted, h])
    assert len(v) == 8


def test_tied_and_basic_models():
    x, y = (np.random.default_rng(k).standard_normal((3, 2, UNITS)).astype(np.float32)
            for k in range(2))
    cell = tf.nn.rnn_cell.BasicRNNCell(UNITS)
    steps = tf.unstack(tf.constant(x)), tf.unstack(tf.constant(y))
    plain = s2s.basic_rnn_seq2seq(*steps, cell, scope="plain")
    tied = s2s.tied_rnn_seq2seq(*steps, tf.nn.rnn_cell.BasicRNNCell(UNITS),
                                loop_function=lambda output, i: output * 0.5 * i)
    (first, second), v = run(plain, tied)
    h = np.zeros((2, UNITS), np.float32)
    for step in x:
        h = cell_step(v, "plain/rnn/basic_rnn_cell", step, h)
    wanted = []
    for step in y:
        h = cell_step(v, "plain/rnn_decoder/basic_rnn_cell", step, h)
        wanted.append(h)
    close([*first[0], first[1]], [*wanted, h])
    scope = "combined_tied_rnn_seq2seq/tied_rnn_seq2seq/basic_rnn_cell"
    h, wanted = np.zeros((2, UNITS), np.float32), []
    for step in x:
        h = cell_step(v, scope, step, h)
    for i in range(3):
        h = cell_step(v, scope, h * 0.5 * i if i else y[0], h)
        wanted.append(h)
    close([*second[0], second[1]], [*wanted, h])


@pytest.mark.parametrize("feeds", [True, "fed"])
def test_embedding_tied_rnn_seq2seq(feeds):
    given = tf.constant(True) if feeds == "fed" else feeds
    cell = tf.nn.rnn_cell.BasicRNNCell(UNITS)
    outputs, state = s2s.embedding_tied_rnn_seq2seq(
        words(ASKED), words(GIVEN), cell, WORDS, WIDTH, num_decoder_symbols=SAYS,
        feed_previous=given)
    (found, last), v = run(outputs, state)
    root = "embedding_tied_rnn_seq2seq"
    wraps = f"{root}/combined_tied_rnn_seq2seq/tied_rnn_seq2seq/output_projection_wrapper"
    encoded = encode(v, f"{wraps}/basic_rnn_cell", v[f"{root}/embedding"], ASKED)
    wanted, h = speak(v, f"{wraps}/basic_rnn_cell", wraps, v[f"{root}/embedding"], encoded[-1],
                      GIVEN, True)
    close([*found, last], [*wanted, h])


def attend(v, scope, states, query, heads):
    """What each head reads: states [batch, length, size] by softmax(v . tanh(W s + U q))."""
    found = []
    for a in range(heads):
        y = dense(v, f"{scope}/Attention_{a}", query)
        score = (v[f"{scope}/AttnV_{a}"] * np.tanh(
            states @ v[f"{scope}/AttnW_{a}"][0, 0] + y[:, None])).sum(-1)
        share = np.exp(score - score.max(1, keepdims=True))
        found.append(((share / share.sum(1, keepdims=True))[..., None] * states).sum(1))
    return found


def attended(v, scope, cell, states, h, steps, heads, reads_first):
    """Outputs and the last state of attention_decoder over inputs [steps, batch, size]."""
    read = (attend(v, scope, states, h, heads) if reads_first else
            [np.zeros_like(states[:, 0])] * heads)
    found = []
    for x in steps:
        h = cell_step(v, cell, dense(v, scope, np.concatenate([x, *read], 1)), h)
        read = attend(v, scope, states, h, heads)
        found.append(dense(v, f"{scope}/AttnOutputProjection", np.concatenate([h, *read], 1)))
    return found, h


@pytest.mark.parametrize("reads_first", [False, True])
def test_attention_decoder(reads_first):
    rng = np.random.default_rng(0)
    x, states, h = (rng.standard_normal(shape).astype(np.float32)
                    for shape in ((3, 2, WIDTH), (2, 6, 3), (2, UNITS)))
    outputs, state = s2s.attention_decoder(
        tf.unstack(tf.constant(x)), tf.constant(h), tf.placeholder_with_default(
            states, [None, None, 3]), tf.nn.rnn_cell.BasicRNNCell(UNITS), output_size=8,
        num_heads=2, initial_state_attention=reads_first)
    (found, last), v = run(outputs, state)
    wanted, end = attended(v, "attention_decoder", "attention_decoder/basic_rnn_cell", states, h, x,
                           2, reads_first)
    close([*found, last], [*wanted, end])
    assert found[0].shape == (2, 8)


@pytest.mark.parametrize("feeds", [True, "fed"])
def test_embedding_attention_seq2seq(feeds):
    given = tf.constant(True) if feeds == "fed" else feeds
    outputs, state = s2s.embedding_attention_seq2seq(
        words(ASKED), words(GIVEN), tf.nn.rnn_cell.BasicRNNCell(UNITS), WORDS, SAYS, WIDTH,
        num_heads=2, feed_previous=given)
    (found, last), v = run(outputs, state)
    root = "embedding_attention_seq2seq"
    encoded = encode(v, f"{root}/rnn/embedding_wrapper/basic_rnn_cell",
                     v[f"{root}/rnn/embedding_wrapper/embedding"], ASKED)
    table = v[f"{root}/embedding_attention_decoder/embedding"]
    scope = f"{root}/embedding_attention_decoder/attention_decoder"
    cell = f"{scope}/output_projection_wrapper"

    h, read, wanted = encoded[-1], [np.zeros((2, UNITS), np.float32)] * 2, []
    states = np.stack(encoded, 1)
    for i, step in enumerate(GIVEN):
        x = table[wanted[-1].argmax(1) if i else step]
        h = cell_step(v, f"{cell}/basic_rnn_cell",
                      dense(v, scope, np.concatenate([x, *read], 1)), h)
        read = attend(v, scope, states, h, 2)
        wanted.append(dense(v, f"{scope}/AttnOutputProjection",
                            np.concatenate([dense(v, cell, h), *read], 1)))
    close([*found, last], [*wanted, h])


def test_projected_symbols_are_read_back_and_gradients_stop():
    rng = np.random.default_rng(2)
    w, b = rng.standard_normal((UNITS, SAYS)).astype(np.float32), np.arange(SAYS, dtype=np.float32)
    h = rng.standard_normal((2, UNITS)).astype(np.float32)
    decoders = [s2s.embedding_rnn_decoder(
        words(GIVEN), tf.constant(h), tf.nn.rnn_cell.BasicRNNCell(UNITS), SAYS, WIDTH,
        output_projection=(w, b), feed_previous=True, update_embedding_for_previous=kept,
        scope=f"kept_{kept}") for kept in (True, False)]
    tables = [v for v in tf.global_variables() if "embedding:" in v.name]
    slopes = [tf.convert_to_tensor(tf.gradients(tf.add_n(outputs), [table])[0])
              for (outputs, _), table in zip(decoders, tables)]
    (found, slopes), v = run([outputs for outputs, _ in decoders], slopes)
    for kept, ours, slope in zip((True, False), found, slopes):
        state, seen, at = h, [], GIVEN[0]
        for _ in GIVEN:
            seen.append(at)
            state = cell_step(v, f"kept_{kept}/rnn_decoder/basic_rnn_cell",
                              v[f"kept_{kept}/embedding"][at], state)
            np.testing.assert_allclose(ours[len(seen) - 1], state, rtol=2e-5, atol=1e-6)
            at = (state @ w + b).argmax(1)
        touched = set(np.unique(seen if kept else seen[0]))
        assert touched == set(np.flatnonzero(np.abs(slope).sum(1)))
    with pytest.raises(ValueError, match="[Ii]ncompatible"):
        s2s.embedding_rnn_decoder(words(GIVEN), tf.constant(h), tf.nn.rnn_cell.BasicRNNCell(UNITS),
                                  SAYS + 1, WIDTH, output_projection=(w, b), scope="bad")


def test_one2many():
    names = {"fr": SAYS, "de": SAYS + 2}
    outputs, states = s2s.one2many_rnn_seq2seq(
        words(ASKED), {name: words(GIVEN) for name in names}, tf.nn.rnn_cell.BasicRNNCell(UNITS),
        {name: tf.nn.rnn_cell.BasicRNNCell(UNITS) for name in names}, WORDS, names, WIDTH,
        feed_previous=True, scope="many")
    (found, last), v = run(outputs, states)
    encoded = encode(v, "many/rnn/embedding_wrapper/basic_rnn_cell",
                     v["many/rnn/embedding_wrapper/embedding"], ASKED)
    for name in names:
        scope = f"many/one2many_decoder_{name}/embedding_rnn_decoder"
        project = f"{scope}/rnn_decoder/output_projection_wrapper"
        wanted, h = speak(v, f"{project}/basic_rnn_cell", project, v[f"{scope}/embedding"],
                          encoded[-1], GIVEN, True)
        close([*found[name], last[name]], [*wanted, h])
        assert found[name][0].shape == (2, names[name])


def test_buckets_share_variables_and_lose_as_by_hand():
    weights = [tf.constant(np.float32(w)) for w in ([1, 1], [1, 0.5], [1, 0], [0, 0])]

    def model(encoder_inputs, decoder_inputs):
        return s2s.embedding_rnn_seq2seq(encoder_inputs, decoder_inputs,
                                         tf.nn.rnn_cell.GRUCell(UNITS), WORDS, SAYS, WIDTH)
    buckets, given = [(2, 2), (3, 4)], words(GIVEN)
    outputs, losses = s2s.model_with_buckets(words(ASKED), given, given, weights, buckets, model,
                                             per_example_loss=True)
    count = len(tf.global_variables())
    with tf.variable_scope("", reuse=True):
        whole = s2s.model_with_buckets(words(ASKED), given, given, weights, buckets[1:], model)[1]
    assert len(tf.global_variables()) == count and [len(x) for x in outputs] == [2, 4]
    (found, lost, total), _ = run(outputs, losses, whole)
    w = np.array([[1, 1], [1, 0.5], [1, 0], [0, 0]])
    for (_, says), logits, loss in zip(buckets, found, lost):
        logits = np.stack(logits)
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        each = -np.take_along_axis(logs, GIVEN[:says, :, None], -1)[..., 0] * w[:says]
        np.testing.assert_allclose(loss, each.sum(0) / w[:says].sum(0), rtol=1e-5)
    np.testing.assert_allclose(total[0], lost[1].mean(), rtol=1e-5)
    with pytest.raises(ValueError, match=r"encoder_inputs \(2\) must be at least .*\(3\)"):
        s2s.model_with_buckets(words(ASKED)[:2], given, given, weights, buckets, model)


def test_bad_attention_is_refused():
    cell, states = tf.nn.rnn_cell.GRUCell(UNITS), tf.zeros([2, 3, 4])
    for given, message in ((([], states, 1), "at least 1 input"),
                           (([tf.zeros([2, 3])], states, 0), "less than 1 heads: use|got 0"),
                           (([tf.zeros([2, 3])], tf.placeholder(tf.float32, [2, 3, None]), 1),
                            "must be known"),
                           (([tf.placeholder(tf.float32, [2, None])], states, 1), "input size")):
        inputs, states_, heads = given
        with pytest.raises(ValueError, match=message):
            s2s.attention_decoder(inputs, tf.zeros([2, UNITS]), states_, cell, num_heads=heads)
