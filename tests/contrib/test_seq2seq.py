"""tf.contrib.seq2seq beside NumPy's computation (no TensorFlow that is installed has it).

The cell is h' = tanh(x + h), without weights, so that NumPy repeats it in one line.
"""
import numpy as np
import pytest

import pyflow as tf

s2s = tf.contrib.seq2seq
END, GO = 3, 4
RNG = np.random.default_rng(5)
TABLE = RNG.normal(size=(5, 4)).astype(np.float32)          # embeddings of 5 words
OUT = (RNG.normal(size=(4, 5)) * 3).astype(np.float32)      # logits of a state
START = RNG.normal(size=(2, 4)).astype(np.float32)
MEMORY = RNG.normal(size=(2, 3, 4)).astype(np.float32)


class Cell(tf.nn.rnn_cell.RNNCell):
    state_size = output_size = 4

    def call(self, inputs, state):
        h = tf.tanh(inputs + state)
        return h, h


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        tf.set_random_seed(1)
        yield made


def logits_layer():
    return tf.layers.Dense(5, use_bias=False, kernel_initializer=tf.constant_initializer(OUT))


def run(fetches):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("time_major", [False, True])
def test_training_reads_what_is_given(time_major):
    x = RNG.normal(size=(2, 4, 4)).astype(np.float32)
    lengths = [4, 2]
    helper = s2s.TrainingHelper(x.swapaxes(0, 1) if time_major else x, lengths, time_major)
    decoder = s2s.BasicDecoder(Cell(), helper, tf.constant(START), logits_layer())
    made, state, counted = run(s2s.dynamic_decode(decoder, impute_finished=True,
                                                  output_time_major=time_major))
    wanted, h, last = np.zeros((2, 4, 5)), START, np.zeros((2, 4))
    for t in range(4):
        h = np.tanh(x[:, t] + h)
        for b in range(2):
            if t < lengths[b]:
                wanted[b, t], last[b] = h[b] @ OUT, h[b]
    ids = wanted.argmax(-1) * (np.arange(4) < np.array(lengths)[:, None])
    if time_major:
        wanted, ids = wanted.swapaxes(0, 1), ids.T
    np.testing.assert_allclose(made.rnn_output, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state, last, rtol=1e-4)
    assert made.sample_id.tolist() == ids.tolist() and counted.tolist() == lengths


def greedy(h, word, steps):
    said = []
    for _ in range(steps):
        h = np.tanh(TABLE[word] + h)
        word = int((h @ OUT).argmax())
        said.append(word)
        if word == END:
            break
    return said


def test_greedy_says_the_likeliest_until_the_end():
    helper = s2s.GreedyEmbeddingHelper(tf.constant(TABLE), tf.fill([2], GO), END)
    decoder = s2s.BasicDecoder(Cell(), helper, tf.constant(START), logits_layer())
    made, _, lengths = run(s2s.dynamic_decode(decoder, maximum_iterations=6))
    for b in range(2):
        wanted = greedy(START[b], GO, 6)
        assert made.sample_id[b, :lengths[b]].tolist() == wanted


def test_gradients_pass_through_decoding():
    x = tf.constant(RNG.normal(size=(2, 3, 4)).astype(np.float32))
    decoder = s2s.BasicDecoder(Cell(), s2s.TrainingHelper(x, [3, 3]), tf.constant(START))
    made, _, _ = s2s.dynamic_decode(decoder)
    loss = tf.reduce_sum(made.rnn_output ** 2)
    grad, = tf.gradients(loss, x)
    with tf.Session() as sess:
        value, slope = sess.run([x, grad])
        moved = value.copy()
        moved[0, 1, 2] += 1e-2
        low = value.copy()
        low[0, 1, 2] -= 1e-2
        rise = (sess.run(loss, {x: moved}) - sess.run(loss, {x: low})) / 2e-2
    assert slope[0, 1, 2] == pytest.approx(rise, rel=1e-2)


def test_scheduled_sampling_reads_both():
    x = np.zeros((200, 2, 4), np.float32)
    helper = s2s.ScheduledEmbeddingTrainingHelper(x, [2] * 200, tf.constant(TABLE), 0.5, seed=1,
                                                  scheduling_seed=2)
    decoder = s2s.BasicDecoder(Cell(), helper, tf.zeros([200, 4]), logits_layer())
    made, _, _ = run(s2s.dynamic_decode(decoder))
    chosen = made.sample_id[:, 0]
    assert 0.35 < (chosen >= 0).mean() < 0.65
    inputs = np.where(chosen[:, None] >= 0, TABLE[chosen], 0)
    np.testing.assert_allclose(made.rnn_output[:, 1], np.tanh(inputs) @ OUT, rtol=1e-4, atol=1e-5)


def test_samples_follow_the_logits():
    helper = s2s.SampleEmbeddingHelper(tf.constant(TABLE), tf.fill([4000], GO), END, 2.0, seed=3)
    decoder = s2s.BasicDecoder(Cell(), helper, tf.zeros([4000, 4]), logits_layer())
    made, _, _ = run(s2s.dynamic_decode(decoder, maximum_iterations=1))
    wanted = softmax(np.tanh(TABLE[GO]) @ OUT / 2.0)
    assert abs(np.bincount(made.sample_id[:, 0], minlength=5) / 4000 - wanted).max() < 0.03


def test_functions_as_helpers():
    inference = s2s.InferenceHelper(lambda out: out * 2, [4], tf.float32, tf.constant(START),
                                    lambda ids: tf.reduce_sum(ids, 1) > 1e9)
    made, _, lengths = run(s2s.dynamic_decode(
        s2s.BasicDecoder(Cell(), inference, tf.constant(START)), maximum_iterations=3))
    h = np.tanh(START * 2)
    np.testing.assert_allclose(made.sample_id[:, 1], 2 * np.tanh(2 * h + h), rtol=1e-4)
    assert lengths.tolist() == [3, 3]
    custom = s2s.CustomHelper(
        lambda: (tf.constant([False, False]), tf.constant(START)),
        lambda time, outputs, state: tf.fill([2], time),
        lambda time, outputs, state, sample_ids: (sample_ids >= 1, outputs, state))
    with pytest.raises(ValueError, match="before initialize"):
        custom.batch_size
    custom.initialize()
    made, _, lengths = run(s2s.dynamic_decode(s2s.BasicDecoder(Cell(), custom, tf.constant(START))))
    assert made.sample_id.tolist() == [[0, 1], [0, 1]] and lengths.tolist() == [2, 2]


# --------------------------------------------------------------------------------------- attention
def values(graph):
    """Variables by name, assigned: what NumPy computes with."""
    with tf.Session(graph=graph) as sess:
        sess.run(tf.global_variables_initializer())
        return {v.op.name: sess.run(v) for v in tf.global_variables()}, sess


@pytest.mark.parametrize("kind, option", [("Bahdanau", False), ("Bahdanau", True), ("Luong", False),
                                          ("Luong", True)])
def test_attention_as_numpy(kind, option):
    lengths, x = np.array([3, 2]), RNG.normal(size=(2, 4)).astype(np.float32)
    if kind == "Bahdanau":
        attention = s2s.BahdanauAttention(6, tf.constant(MEMORY), lengths, normalize=option)
    else:
        attention = s2s.LuongAttention(4, tf.constant(MEMORY), lengths, scale=option)
    cell = s2s.AttentionWrapper(Cell(), attention, attention_layer_size=4, alignment_history=True,
                                cell_input_fn=lambda inputs, attended: inputs + attended)
    state = cell.zero_state(2, tf.float32).clone(cell_state=tf.constant(START))
    out, state = cell(tf.constant(x), state)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        out, state = cell(tf.constant(x), state)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for v in tf.global_variables():
            sess.run(v.assign(RNG.normal(size=v.shape.as_list()).astype(np.float32)))
        known = {v.op.name: sess.run(v) for v in tf.global_variables()}
        got, aligned, history, time = sess.run([out, state.alignments,
                                                state.alignment_history.stack(), state.time])
    short = "attention_wrapper/"
    memory = MEMORY * (np.arange(3) < lengths[:, None])[..., None]
    keys = memory @ known["memory_layer/kernel"]
    h, attended, every = START, np.zeros((2, 4)), []
    for _ in range(2):
        h = np.tanh(x + attended + h)
        if kind == "Bahdanau":
            at = short + "bahdanau_attention/"
            v, q = known[at + "attention_v"], h @ known[at + "query_layer/kernel"]
            if option:
                v = known[at + "attention_g"] * v / np.sqrt((v ** 2).sum())
                q = q + known[at + "attention_b"]
            score = (v * np.tanh(keys + q[:, None])).sum(2)
        else:
            score = np.einsum("bd,btd->bt", h, keys)
            score = score * known[short + "luong_attention/attention_g"] if option else score
        score[np.arange(3) >= lengths[:, None]] = -np.inf
        every.append(softmax(score))
        context = np.einsum("bt,btd->bd", every[-1], memory)
        attended = np.concatenate([h, context], 1) @ known[short + "attention_layer/kernel"]
    np.testing.assert_allclose(got, attended, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(history, every, rtol=1e-3, atol=1e-4)
    assert time == 2 and aligned[1, 2] == 0.0


def test_two_mechanisms_decode():
    mechanisms = [s2s.LuongAttention(4, tf.constant(MEMORY)),
                  s2s.BahdanauAttention(3, tf.constant(MEMORY))]
    cell = s2s.AttentionWrapper(Cell(), mechanisms, output_attention=False,
                                cell_input_fn=lambda x, a: x + a[:, :4] - a[:, 4:])
    helper = s2s.GreedyEmbeddingHelper(tf.constant(TABLE), tf.fill([2], GO), END)
    decoder = s2s.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), logits_layer())
    made, state, _ = run(s2s.dynamic_decode(decoder, maximum_iterations=4))
    assert made.rnn_output.shape[0::2] == (2, 5) and len(state.alignments) == 2
    assert all(abs(a.sum(1) - 1).max() < 1e-5 for a in state.alignments)


# ------------------------------------------------------------------------------------- beam search
def every_sequence(h, length):
    """{words: log probability} of all sequences up to `length`, END at their end or none."""
    found, going = {}, {(): (0.0, h, GO)}
    for _ in range(length):
        after = {}
        for words, (score, state, word) in going.items():
            new = np.tanh(TABLE[word] + state)
            logs = np.log(softmax(new @ OUT))
            for w in range(5):
                (found if w == END else after)[(*words, w)] = (score + logs[w], new, w)
        going = after
    return {words: entry[0] for words, entry in {**found, **going}.items()}


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all(penalty):
    width, steps = 125, 3
    state = s2s.tile_batch(tf.constant(START), width)
    decoder = s2s.BeamSearchDecoder(Cell(), tf.constant(TABLE), tf.fill([2], GO), END, state, width,
                                    logits_layer(), length_penalty_weight=penalty)
    made, final, lengths = run(s2s.dynamic_decode(decoder, maximum_iterations=steps))
    assert made.predicted_ids.shape == (2, steps, width)
    for b in range(2):
        scores = {words: score / ((5 + len(words)) / 6) ** penalty
                  for words, score in every_sequence(START[b], steps).items()}
        best = sorted(scores, key=scores.get, reverse=True)[:5]
        for k in range(5):
            wanted = [*best[k], *[END] * (steps - len(best[k]))]
            assert made.predicted_ids[b, :, k].tolist() == wanted
            assert made.beam_search_decoder_output.scores[b, -1, k] == pytest.approx(
                scores[best[k]], rel=1e-4)


def test_a_beam_of_one_is_greedy():
    decoder = s2s.BeamSearchDecoder(Cell(), lambda ids: tf.gather(TABLE, ids), tf.fill([2], GO),
                                    END, s2s.tile_batch(tf.constant(START), 1), 1, logits_layer())
    made, _, _ = run(s2s.dynamic_decode(decoder, maximum_iterations=5))
    for b in range(2):
        wanted = greedy(START[b], GO, 5)
        assert made.predicted_ids[b, :len(wanted), 0].tolist() == wanted


def test_beams_attend_and_histories_are_read_back():
    memory = s2s.tile_batch(tf.constant(MEMORY), 3)
    cell = s2s.AttentionWrapper(Cell(), s2s.LuongAttention(4, memory), alignment_history=True,
                                cell_input_fn=lambda x, a: x + a)
    state = cell.zero_state(6, tf.float32).clone(
        cell_state=s2s.tile_batch(tf.constant(START), 3))
    decoder = s2s.BeamSearchDecoder(cell, tf.constant(TABLE), tf.fill([2], GO), END, state, 3,
                                    logits_layer())
    made, final, _ = s2s.dynamic_decode(decoder, maximum_iterations=4)
    ids, history = run([made.predicted_ids, final.cell_state.alignment_history])
    assert ids.shape[2] == 3 and history.shape[1:] == (6, 3)
    np.testing.assert_allclose(history.sum(-1), 1.0, rtol=1e-4)


def test_gather_tree_as_a_loop():
    rng = np.random.default_rng(2)
    ids, parents = rng.integers(0, 6, (5, 3, 4)), rng.integers(0, 4, (5, 3, 4))
    lengths = [5, 3, 0]
    got = run(s2s.gather_tree(ids.astype(np.int32), parents.astype(np.int32), lengths, END))
    wanted = np.full((5, 3, 4), END)
    for b in range(3):
        for k in range(4):
            parent = k
            for t in reversed(range(lengths[b])):
                wanted[t, b, k], parent = ids[t, b, parent], parents[t, b, parent]
            ends = np.flatnonzero(wanted[:, b, k] == END)
            if len(ends):
                wanted[ends[0]:, b, k] = END
    assert got.tolist() == wanted.tolist()


def test_tile_batch_keeps_structure():
    state = tf.nn.rnn_cell.LSTMStateTuple(tf.constant([[1.0], [2.0]]), tf.constant([[3.0], [4.0]]))
    tiled = s2s.tile_batch(state, 2)
    assert tiled.c.shape.as_list() == [4, 1]
    assert run(tiled.h).ravel().tolist() == [3, 3, 4, 4]


# ------------------------------------------------------------------------------------------ others
def test_sequence_loss_as_numpy():
    logits = RNG.normal(size=(2, 3, 5)).astype(np.float32)
    targets, weights = RNG.integers(0, 5, (2, 3)), np.float32([[1, 1, 0.5], [2, 0, 0]])
    each = -np.log(np.take_along_axis(softmax(logits), targets[..., None], 2)[..., 0]) * weights
    for (time, batch), wanted in (((True, True), each.sum() / weights.sum()),
                                  ((True, False), each.sum(1) / weights.sum(1)),
                                  ((False, True), (each.sum(0) / (weights.sum(0) + 1e-12))),
                                  ((False, False), each)):
        got = run(tf.contrib.seq2seq.sequence_loss(logits, targets, weights, time, batch))
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    got = run(s2s.sequence_loss(logits, targets, weights, False, False, True, True))
    assert got == pytest.approx(each.sum() / 4, rel=1e-4)
    assert run(s2s.hardmax([[1.0, 3.0, 2.0]])).tolist() == [[0, 1, 0]]


def test_what_does_not_fit_is_told():
    helper = s2s.GreedyEmbeddingHelper(tf.constant(TABLE), tf.fill([2], GO), END)
    for make, error, said in (
            (lambda: s2s.dynamic_decode(Cell()), TypeError, "to be type Decoder"),
            (lambda: s2s.BasicDecoder(Cell(), 3, START), TypeError, "must be a Helper"),
            (lambda: s2s.BasicDecoder(3, helper, START), TypeError, "cell"),
            (lambda: s2s.BasicDecoder(Cell(), helper, START, tf.nn.relu), TypeError, "be a Layer"),
            (lambda: s2s.GreedyEmbeddingHelper(TABLE, 4, END), ValueError, "must be a vector"),
            (lambda: s2s.GreedyEmbeddingHelper(TABLE, [4], [END]), ValueError, "must be a scalar"),
            (lambda: s2s.TrainingHelper(START, 2), ValueError, "to be a vector"),
            (lambda: s2s.LuongAttention(3, MEMORY)(tf.constant(START), None), ValueError,
             "query has 4 units, the keys 3"),
            (lambda: s2s.LuongAttention(3, START), ValueError, "memory must be"),
            (lambda: s2s.AttentionWrapper(Cell(), 3), TypeError, "AttentionMechanism"),
            (lambda: s2s.tile_batch(tf.constant(1), 2), ValueError, "rank of at least 1"),
            (lambda: s2s.sequence_loss(START, [[1]], [[1.0]]), ValueError, "Logits must be"),
            (lambda: s2s.BeamSearchDecoder(Cell(), TABLE, [4], END, START, 2,
                                           coverage_penalty_weight=0.5), ValueError, "coverage")):
        with pytest.raises(error, match=said):
            make()


def test_the_lengths_of_beams_are_their_own():
    """TensorFlow's are those of the places in the batch in which beams finished: [2, 0, 3]."""
    numbers = np.random.RandomState(0)
    with tf.Graph().as_default(), tf.Session() as session:
        embedding = tf.constant(numbers.randn(5, 4).astype(np.float32) * 2)
        start = tf.contrib.seq2seq.tile_batch(
            tf.constant(numbers.randn(3, 5).astype(np.float32)), 3)
        weights = tf.constant_initializer(numbers.randn(9, 5).astype(np.float32) * 1.5)
        with tf.variable_scope("d", initializer=weights):
            decoder = tf.contrib.seq2seq.BeamSearchDecoder(
                tf.nn.rnn_cell.BasicRNNCell(5), embedding, tf.fill([3], 0), 2, start, 3)
            outputs, state, lengths = tf.contrib.seq2seq.dynamic_decode(
                decoder, maximum_iterations=6)
        assert lengths.dtype == tf.int32 and lengths.shape.as_list() == [3, 3]
        session.run(tf.global_variables_initializer())
        ids, of_state, found = session.run([outputs.predicted_ids, state.lengths, lengths])
        np.testing.assert_array_equal(found, of_state)
        ends = np.argmax(ids == 2, axis=1) + 1          # [batch, beam]: up to the end token
        np.testing.assert_array_equal(found, np.where((ids == 2).any(1), ends, ids.shape[1]))
