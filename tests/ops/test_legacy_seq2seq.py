"""tf.contrib.legacy_seq2seq and tf.contrib.rnn, as character models of 2016 use them."""
import numpy as np
import pytest

import pyflow as tf

seq2seq = tf.contrib.legacy_seq2seq


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        yield


def entropies(logits, targets):
    """Cross entropy by NumPy, [steps, batch]."""
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, targets[..., None], -1)[..., 0]


def test_losses():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 3, 7))
    targets = rng.integers(0, 7, (4, 3)).astype(np.int32)
    weights = rng.uniform(0, 1, (4, 3))
    lists = [tf.unstack(tf.constant(a)) for a in (logits, targets, weights)]
    each = (entropies(logits, targets) * weights).sum(0)
    with tf.Session() as sess:
        for kept, wanted in ((True, each / weights.sum(0)), (False, each)):
            found = seq2seq.sequence_loss_by_example(*lists, average_across_timesteps=kept)
            np.testing.assert_allclose(sess.run(found), wanted, rtol=1e-12)
        np.testing.assert_allclose(sess.run(seq2seq.sequence_loss(*lists)),
                                   (each / weights.sum(0)).sum() / 3, rtol=1e-12)
        found = seq2seq.sequence_loss(*lists, average_across_batch=False,
                                      softmax_loss_function=lambda labels, logits: logits[:, 0])
        np.testing.assert_allclose(
            sess.run(found), ((logits[:, :, 0] * weights).sum(0) / weights.sum(0)).sum(), rtol=1e-9)


def test_losses_want_one_tensor_per_step():
    with pytest.raises(ValueError, match="got 2, 1 and 2"):
        seq2seq.sequence_loss_by_example([1.0, 2.0], [1], [1.0, 1.0])


@pytest.mark.parametrize("fed_back", [False, True])
def test_decoder(fed_back):
    rnn = tf.contrib.rnn
    cell = rnn.MultiRNNCell([rnn.BasicRNNCell(5), rnn.DropoutWrapper(rnn.BasicRNNCell(5))])
    x = np.random.default_rng(0).standard_normal((3, 2, 5)).astype(np.float32)
    steps = []

    def loop_function(output, i):
        steps.append(i)
        return output * 0.5
    outputs, states = seq2seq.rnn_decoder(
        tf.unstack(tf.constant(x)), cell.zero_state(2, tf.float32), cell,
        loop_function=loop_function if fed_back else None, scope="decoder")
    assert steps == ([1, 2] if fed_back else []) and len(tf.trainable_variables()) == 4
    assert all(v.name.startswith("decoder/multi_rnn_cell/") for v in tf.trainable_variables())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        found, last, (w1, b1, w2, b2) = sess.run([outputs, states, tf.trainable_variables()])
    h1 = h2 = np.zeros((2, 5), np.float32)
    for i in range(3):
        given = h2 * 0.5 if fed_back and i else x[i]
        h1 = np.tanh(np.concatenate([given, h1], 1) @ w1 + b1)
        h2 = np.tanh(np.concatenate([h1, h2], 1) @ w2 + b2)
        np.testing.assert_allclose(found[i], h2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last[0], h1, rtol=1e-5, atol=1e-6)
