"""Small parts of tf.contrib: values by enumeration, by formula, or as TensorFlow 1.15's documentation gives them."""
import itertools
import math

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def value(x):
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(x)


# ---------------------------------------------------------------- crf

LENGTHS = [4, 2, 1, 0]


def chains():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(4, 4, 3)).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32),
            rng.integers(0, 3, (4, 4)))


def score(inputs, transitions, tags):
    return (sum(inputs[t, tag] for t, tag in enumerate(tags)) +
            sum(transitions[a, b] for a, b in zip(tags, tags[1:])))


def test_crf_beside_all_tags_written_out():
    inputs, transitions, tags = chains()
    held = tf.placeholder_with_default(inputs, [None, None, 3])
    likelihood, params = tf.contrib.crf.crf_log_likelihood(held, tags, LENGTHS, transition_params=transitions)
    norms = tf.contrib.crf.crf_log_norm(held, LENGTHS, transitions)
    decoded, best = tf.contrib.crf.crf_decode(held, transitions, LENGTHS)
    found = value([likelihood, norms, decoded, best])
    assert params is transitions
    for row, n in enumerate(LENGTHS):
        if n == 0:
            assert found[0][row] == found[1][row] == found[3][row] == 0 and not found[2][row].any()
            continue
        scores = {each: score(inputs[row], transitions, each) for each in itertools.product(range(3), repeat=n)}
        norm = np.log(sum(np.exp(s) for s in scores.values()))
        top = max(scores, key=scores.get)
        np.testing.assert_allclose(found[1][row], norm, rtol=1e-5)
        np.testing.assert_allclose(found[0][row], scores[tuple(tags[row, :n])] - norm, rtol=1e-4, atol=1e-5)
        assert tuple(found[2][row]) == top + (0,) * (4 - n)
        np.testing.assert_allclose(found[3][row], scores[top], rtol=1e-5)
        again, its_score = tf.contrib.crf.viterbi_decode(inputs[row, :n], transitions)
        assert tuple(again) == top and np.isclose(its_score, scores[top])


def test_crf_learns_its_transitions():
    inputs, _, tags = chains()
    likelihood, transitions = tf.contrib.crf.crf_log_likelihood(tf.constant(inputs), tags, LENGTHS)
    assert transitions.op.name == "transitions" and transitions.shape == [3, 3]
    step = tf.train.GradientDescentOptimizer(0.5).minimize(-tf.reduce_sum(likelihood))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(likelihood)
        for _ in range(20):
            sess.run(step)
        assert sess.run(likelihood).sum() > before.sum() + 0.5


# ---------------------------------------------------------------- distributions

def test_normal():
    d = tf.distributions.Normal(loc=[0., 1.], scale=2., validate_args=True)
    x = np.array([0.5, 3.0])
    z = (x - [0, 1]) / 2
    np.testing.assert_allclose(value(d.log_prob(x)), -z * z / 2 - math.log(2 * math.sqrt(2 * math.pi)), rtol=1e-5)
    np.testing.assert_allclose(value(d.prob(x)), np.exp(-z * z / 2) / (2 * math.sqrt(2 * math.pi)), rtol=1e-5)
    cdf = [(1 + math.erf(v / math.sqrt(2))) / 2 for v in z]
    np.testing.assert_allclose(value(d.cdf(x)), cdf, rtol=1e-5)
    np.testing.assert_allclose(value(d.quantile(np.float32(cdf))), x, rtol=1e-4)
    np.testing.assert_allclose(value(d.entropy()), [0.5 * math.log(2 * math.pi * math.e * 4)] * 2, rtol=1e-5)
    other = tf.contrib.distributions.Normal(1., [1., 4.])
    kl = np.log(np.array([1, 4]) / 2) + (4 + np.array([1, 0.])) / (2 * np.array([1., 16])) - 0.5
    np.testing.assert_allclose(value(tf.distributions.kl_divergence(d, other)), kl, rtol=1e-5)
    drawn = value(d.sample([20000], seed=1))
    assert drawn.shape == (20000, 2) and d.batch_shape == [2] and d.event_shape == []
    np.testing.assert_allclose(drawn.mean(0), [0, 1], atol=0.05)
    np.testing.assert_allclose(drawn.std(0), value(d.stddev()), atol=0.05)
    with pytest.raises(tf.errors.InvalidArgumentError):
        value(tf.distributions.Normal(tf.constant(0.), tf.placeholder_with_default(-1., []), validate_args=True).sample())


def test_uniform():
    d = tf.distributions.Uniform(low=[1., 2.], high=3.)
    assert value(d.prob(2.5)).tolist() == [0.5, 1.0] and value(d.prob([3., 1.])).tolist() == [0, 0]
    np.testing.assert_allclose(value([d.cdf(1.5), d.mean(), d.variance()]),
                               [[.25, 0], [2, 2.5], [4 / 12, 1 / 12]], rtol=1e-6)
    np.testing.assert_allclose(value(d.entropy()), [math.log(2), 0], atol=1e-6)
    drawn = value(d.sample(1000, seed=2))
    assert drawn.min(0)[0] >= 1 and drawn.max() < 3 and 1.9 < drawn.mean(0)[0] < 2.1
    wider = tf.distributions.Uniform(0., 4.)
    np.testing.assert_allclose(value(d.kl_divergence(wider)), [math.log(2), math.log(4)], rtol=1e-6)
    assert value(wider.kl_divergence(d)).tolist() == [math.inf] * 2


def test_bernoulli():
    d = tf.distributions.Bernoulli(probs=[0.2, 0.5])
    p = np.array([.2, .5])
    np.testing.assert_allclose(value(d.log_prob([[1, 0], [0, 1]])), [np.log([.2, .5]), np.log([.8, .5])], rtol=1e-5)
    np.testing.assert_allclose(value(d.entropy()), -p * np.log(p) - (1 - p) * np.log(1 - p), rtol=1e-5)
    np.testing.assert_allclose(value(tf.distributions.Bernoulli(logits=0.).kl_divergence(d)),
                               [.5 * math.log(.5 / .2) + .5 * math.log(.5 / .8), 0], rtol=1e-4, atol=1e-6)
    drawn = value(d.sample(5000, seed=3))
    assert drawn.dtype == np.int32 and set(np.unique(drawn)) == {0, 1}
    np.testing.assert_allclose(drawn.mean(0), p, atol=0.03)
    with pytest.raises(ValueError, match="probs or logits, but not both"):
        tf.distributions.Bernoulli(logits=0., probs=0.5)


def test_categorical():
    p = np.array([[.1, .2, .7], [.3, .3, .4]], np.float32)
    d = tf.distributions.Categorical(probs=p)
    np.testing.assert_allclose(value(d.prob([[2, 0], [0, 1]])), [[.7, .3], [.1, .3]], rtol=1e-5)
    np.testing.assert_allclose(value(d.entropy()), -(p * np.log(p)).sum(1), rtol=1e-5)
    assert value(d.mode()).tolist() == [2, 2] and d.batch_shape == [2]
    drawn = value(d.sample([40, 100], seed=4))
    assert drawn.shape == (40, 100, 2)
    for row in range(2):
        np.testing.assert_allclose(np.bincount(drawn[..., row].ravel(), minlength=3) / 4000, p[row], atol=0.03)
    flat = tf.distributions.Categorical(logits=[0., 0., 0.])
    np.testing.assert_allclose(value(d.kl_divergence(flat)), (p * np.log(p * 3)).sum(1), rtol=1e-5)


# ---------------------------------------------------------------- losses, vocabularies, parameters

def test_losses_with_predictions_first():
    logits, labels = tf.constant([[2., 0.], [0., 1.]]), [[1., 0.], [1., 0.]]
    each = np.log(1 + np.exp([-2., 1.]))
    losses = tf.contrib.losses
    found = value([losses.softmax_cross_entropy(logits, labels, weights=2.),
                   losses.sparse_softmax_cross_entropy(logits, [0, 0], weights=[1., 3.]),
                   losses.mean_squared_error(logits, labels, weights=0.5),
                   losses.absolute_difference(logits, labels), losses.log_loss([0.5], [1.])])
    np.testing.assert_allclose(found, [2 * each.mean(), (each[0] + 3 * each[1]) / 2, .5 * 3 / 4, 3 / 4, math.log(2)],
                               rtol=1e-5)
    np.testing.assert_allclose(value(losses.hinge_loss([[.5, -2.]], [[1., 0.]])), [[.5, 0]])
    assert len(losses.get_losses()) == 5
    np.testing.assert_allclose(value(losses.get_total_loss(add_regularization_losses=False)), sum(found), rtol=1e-5)


def test_vocabulary(tmp_path):
    made = tf.contrib.learn.preprocessing.VocabularyProcessor(4, min_frequency=1)
    rows = np.array(list(made.fit_transform(["the cat, the dog", "a cat's dog - the dog x"])))
    # "dog" and "the" three times, by the alphabet; what occurs once is dropped
    assert rows.tolist() == [[2, 0, 2, 1], [0, 0, 1, 0]]
    assert len(made.vocabulary_) == 3 and rows.dtype == np.int64
    assert list(made.reverse([[1, 2, 0]])) == ["dog the <UNK>"]
    made.save(str(tmp_path / "v"))
    again = tf.contrib.learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "v"))
    assert [r.tolist() for r in again.transform(["the new dog"])] == [[2, 0, 1, 0]]
    (tmp_path / "w").write_bytes(b"\x80\x04N.")
    with pytest.raises(ValueError, match="pickles, which are not read"):
        tf.contrib.learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "w"))
    words = next(tf.contrib.learn.preprocessing.tokenizer(["I'm HTTPServer-2 fooBar"]))
    assert words == ["I'm", "HTTP", "Server-2", "fooBar"]


def test_hparams():
    h = tf.contrib.training.HParams(rate=0.1, units=[64, 32], name="a", on=True, layers=2)
    assert h.parse("rate=1, units[1]=16,name=long text,on=false").rate == 1.0
    assert h.values() == {"rate": 1.0, "units": [64, 16], "name": "long text", "on": False, "layers": 2}
    h.parse("units=[1,2,3]")
    assert h.units == [1, 2, 3] and "units" in h and h.get("absent", 5) == 5
    h.override_from_dict({"layers": 3}).parse_json('{"rate": 2}')
    assert (h.layers, h.rate) == (3, 2.0) and '"layers": 3' in h.to_json()
    for text, message in (("layers=1.5", "Could not parse hparam 'layers' of type 'int'"), ("what=1", "Unknown hyperparam"),
                          ("layers=1,layers=2", "Multiple assignments"), ("layers", "Malformed"),
                          ("layers[0]=1", "takes one value")):
        with pytest.raises(ValueError, match=message):
            h.parse(text)
    with pytest.raises(ValueError, match="Could not cast hyperparameter 'layers'"):
        h.set_hparam("layers", "3")
    with pytest.raises(ValueError, match="reserved"):
        h.add_hparam("rate", 1)


def test_resources(tmp_path):
    here = tf.resource_loader.get_data_files_path()
    assert here.endswith("porting")
    assert tf.resource_loader.load_resource("test_contrib.py").startswith(b'"""Small parts')
    assert tf.resource_loader.get_path_to_datafile("x") == f"{here}/x"


def test_model_analysis(capsys):
    analyzer = tf.contrib.tfprof.model_analyzer
    with tf.variable_scope("net"):
        x = tf.ones([8, 28, 28, 1])
        y = tf.nn.bias_add(tf.nn.conv2d(x, tf.get_variable("filter", [5, 5, 1, 4]), [1, 2, 2, 1], "SAME", name="conv"),
                           tf.get_variable("bias", [4]), name="add")
        tf.matmul(tf.reshape(y, [8, -1]), tf.get_variable("w", [14 * 14 * 4, 10]), name="product")
    tf.Variable(3., trainable=False)
    stats = analyzer.print_model_analysis(tf.get_default_graph())
    assert stats.total_parameters == 100 + 4 + 7840
    assert capsys.readouterr().out == ("_TFProfRoot (0/7,944 params)\n  net (0/7,944 params)\n    net/bias (4/4 params)\n"
                                       "    net/filter (100/100 params)\n    net/w (7,840/7,840 params)\n")
    options = {**analyzer.FLOAT_OPS_OPTIONS, "output": "none"}
    flops = analyzer.print_model_analysis(tf.get_default_graph(), tfprof_options=options).total_float_ops
    assert flops == 2 * 8 * 14 * 14 * 4 * 25 + 8 * 14 * 14 * 4 + 2 * 8 * 10 * 784 and not capsys.readouterr().out
    with pytest.raises(ValueError, match="'scope' is offered"):
        analyzer.print_model_analysis(tf.get_default_graph(), tfprof_cmd="code")


def test_keras_data(tmp_path, monkeypatch):
    monkeypatch.setenv("PYFLOW_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert tf.keras.__version__ == "2.2.4-tf"
    with pytest.raises(FileNotFoundError, match="MNIST is not there"):
        tf.keras.datasets.mnist.load_data()
    with pytest.raises(FileNotFoundError, match="lacks data_batch_1.bin, .*, test_batch.bin"):
        tf.keras.datasets.cifar10.load_data()
    with pytest.raises(AttributeError, match="datasets only"):
        tf.keras.layers
    x = np.arange(2 * 784, dtype=np.uint8).reshape(2, 28, 28)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=[1, 2], x_test=x[:1], y_test=[3])
    (a, b), (c, d) = tf.keras.datasets.mnist.load_data()
    assert (a == x).all() and b.tolist() == [1, 2] and c.shape == (1, 28, 28) and d.tolist() == [3]
    rows = np.arange(2 * 3073).reshape(2, 3073).astype(np.uint8)
    rows[:, 0] = [4, 9]
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]:
        (tmp_path / name).write_bytes(rows.tobytes())
    (a, b), (c, d) = tf.keras.datasets.cifar10.load_data()
    assert a.shape == (10, 32, 32, 3) and b.tolist() == [[4], [9]] * 5 and c.shape == (2, 32, 32, 3)
    assert a[1, 2, 3].tolist() == rows[1, [1 + 67, 1 + 1024 + 67, 1 + 2048 + 67]].tolist()
    (tmp_path / "test_batch.bin").write_bytes(rows.tobytes()[:-1])
    with pytest.raises(ValueError, match="not a binary file of CIFAR-10: 6145 bytes"):
        tf.keras.datasets.cifar10.load_data()


# ---------------------------------------------------------------- framework

def test_framework_checks():
    f = tf.contrib.framework
    x = tf.placeholder_with_default(np.ones((2, 3), np.float32), [None, 3], name="x")
    assert f.is_tensor(x) and f.is_tensor(tf.Variable(1.)) and f.is_tensor(tf.SparseTensor([[0]], [1.], [2]))
    assert not f.is_tensor(3) and not f.is_tensor(np.ones(2)) and f.is_numeric_tensor(x)
    assert f.with_shape([None, 3], x).shape.as_list() == [None, 3] and value(f.with_shape([2, 3], x)).shape == (2, 3)
    with pytest.raises(ValueError, match="Invalid shape for tensor x:0"):
        f.with_shape([None, 4], x)
    for shape in ([3, 3], tf.placeholder_with_default([3, 3], [2])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            value(f.with_shape(shape, x))
    assert value(f.with_same_shape(tf.zeros([2, 3]), x)).shape == (2, 3)
    assert value(f.reduce_sum_n([x, tf.constant([2., 3.])])) == 11
    assert f.assert_scalar_int(tf.constant(3)).dtype == tf.int32
    for wrong in (3.0, [1, 2]):
        with pytest.raises(ValueError, match="Expected"):
            f.assert_scalar_int(tf.constant(wrong))
    made = f.convert_to_tensor_or_sparse_tensor(tf.SparseTensorValue([[0]], [1.], [2]), dtype=tf.float32)
    assert isinstance(made, tf.SparseTensor)
    with pytest.raises(RuntimeError, match="requested"):
        f.convert_to_tensor_or_sparse_tensor(made, dtype=tf.int32)


def test_graphs_compared(caplog):
    a = tf.Graph()
    with a.as_default():
        tf.constant(1., name="a"), tf.constant(2., name="b")
    b = tf.GraphDef(node=reversed(a.as_graph_def().node))
    tf.test.assert_equal_graph_def(a.as_graph_def(), b)
    b.node[0].name = "c"
    with pytest.raises(AssertionError, match="^Found unexpected node '{{node b}}'"):
        tf.test.assert_equal_graph_def(a.as_graph_def(), b)
    with caplog.at_level(10, "tensorflow"):
        tf.logging.log_if(tf.logging.WARN, "no %d", False, 1)
        tf.logging.log_if(tf.logging.WARN, "yes %d", True, 2)
    assert [r.getMessage() for r in caplog.records] == ["yes 2"] and tf.MONOLITHIC_BUILD == 0


# ---------------------------------------------------------------- cells

def named():
    """{name in its scope: value} of all variables, after initialisation of the session at hand."""
    return {v.op.name: v.eval() for v in tf.global_variables()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_projections_and_embeddings():
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    inner = tf.nn.rnn_cell.BasicRNNCell(4)
    cell = tf.contrib.rnn.OutputProjectionWrapper(
        tf.contrib.rnn.InputProjectionWrapper(inner, 5, activation=tf.nn.relu), 2, activation=tf.sigmoid)
    output, state = cell(x, cell.zero_state(2, tf.float32))
    outer, middle = "output_projection_wrapper", "output_projection_wrapper/input_projection_wrapper"
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        v = named()
        assert list(v) == [f"{middle}/kernel", f"{middle}/bias", f"{middle}/basic_rnn_cell/kernel",
                           f"{middle}/basic_rnn_cell/bias", f"{outer}/kernel", f"{outer}/bias"]
        h = np.tanh(np.maximum(x @ v[f"{middle}/kernel"], 0) @ v[f"{middle}/basic_rnn_cell/kernel"][:5])
        got = sess.run([output, state])
    np.testing.assert_allclose(got[1], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[0], sigmoid(h @ v[f"{outer}/kernel"]), rtol=1e-5)
    assert cell.output_size == 2 and cell.state_size == 4 and len(cell.trainable_variables) == 6
    words = tf.contrib.rnn.EmbeddingWrapper(tf.nn.rnn_cell.BasicRNNCell(4), 7, 3,
                                            initializer=tf.constant_initializer(0.5))
    output, _ = words(tf.constant([[6], [1]]), words.zero_state(2, tf.float32))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        kernel = named()["embedding_wrapper/basic_rnn_cell/kernel"]
        np.testing.assert_allclose(sess.run(output), [np.tanh(0.5 * kernel[:3].sum(0))] * 2, rtol=1e-5)
    with pytest.raises(ValueError, match="must be > 0"):
        tf.contrib.rnn.EmbeddingWrapper(inner, 0, 3)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_layer_norm_lstm(layer_norm):
    rng = np.random.default_rng(1)
    x, c, h = (rng.normal(size=(3, n)).astype(np.float32) for n in (2, 4, 4))
    cell = tf.contrib.rnn.LayerNormBasicLSTMCell(4, forget_bias=0.5, layer_norm=layer_norm, norm_gain=1.5, norm_shift=0.1)
    output, state = cell(x, tf.nn.rnn_cell.LSTMStateTuple(tf.constant(c), tf.constant(h)))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        v = named()
        got = sess.run([output, state])
    scope = "layer_norm_basic_lstm_cell"
    assert set(v) == {f"{scope}/kernel"} | ({f"{scope}/{gate}/{p}" for gate in (
        "input", "transform", "forget", "output", "state") for p in ("gamma", "beta")} if layer_norm else {f"{scope}/bias"})

    def norm(a):
        return (a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True) * 1.5 + 0.1 if layer_norm else a
    i, j, f, o = (norm(a) for a in np.split(
        np.concatenate([x, h], 1) @ v[f"{scope}/kernel"] + v.get(f"{scope}/bias", 0), 4, 1))
    new_c = norm(c * sigmoid(f + 0.5) + sigmoid(i) * np.tanh(j))
    np.testing.assert_allclose(got[1].c, new_c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[0], np.tanh(new_c) * sigmoid(o), rtol=1e-4, atol=1e-5)
    dropped = tf.contrib.rnn.LayerNormBasicLSTMCell(4, dropout_keep_prob=0.5, dropout_prob_seed=1)
    with tf.variable_scope("dropped"):
        assert value(dropped(x, dropped.zero_state(3, tf.float32))[0]).shape == (3, 4)


def test_cells_take_arrays():
    """As TensorFlow's layers do."""
    cell = tf.nn.rnn_cell.BasicRNNCell(2)
    assert value(cell(np.ones((1, 3), np.float32), cell.zero_state(1, tf.float32))[0]).shape == (1, 2)


def test_update_gate():
    x, h = np.ones((1, 2), np.float32), np.full((1, 3), 0.2, np.float32)
    cell = tf.contrib.rnn.UGRNNCell(3, initializer=tf.constant_initializer(0.1), forget_bias=0.5)
    output, _ = cell(x, tf.constant(h))
    a = 0.1 * (2 + 0.6)
    g = sigmoid(a + 0.5)
    np.testing.assert_allclose(value(output), g * h + (1 - g) * np.tanh(a), rtol=1e-5)


@pytest.mark.parametrize("is_tuple", [True, False])
def test_attention_over_the_last_outputs(is_tuple):
    rng = np.random.default_rng(2)
    x, h, attention = (rng.normal(size=(2, n)).astype(np.float32) for n in (3, 4, 4))
    outputs = rng.normal(size=(2, 3 * 4)).astype(np.float32)
    cell = tf.contrib.rnn.AttentionCellWrapper(tf.nn.rnn_cell.BasicRNNCell(4), 3, attn_vec_size=5, state_is_tuple=is_tuple)
    state = (tf.constant(h), tf.constant(attention), tf.constant(outputs))
    output, new = cell(x, state if is_tuple else tf.concat(state, 1))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        v = {name.removeprefix("attention_cell_wrapper/"): a for name, a in named().items()}
        got, after = sess.run([output, new])
    assert set(v) == {"kernel", "bias", "basic_rnn_cell/kernel", "basic_rnn_cell/bias", "attention/attn_w", "attention/attn_v",
                      "attention/kernel", "attention/bias", "attn_output_projection/kernel", "attn_output_projection/bias"}
    inner = np.concatenate([x, attention], 1) @ v["kernel"]
    h2 = np.tanh(np.concatenate([inner, h], 1) @ v["basic_rnn_cell/kernel"])
    past = outputs.reshape(2, 3, 4)
    scores = np.tanh(past @ v["attention/attn_w"][0, 0] + (h2 @ v["attention/kernel"])[:, None]) @ v["attention/attn_v"]
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    seen = (weights[:, :, None] * past).sum(1)
    wanted = np.concatenate([h2, seen], 1) @ v["attn_output_projection/kernel"]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    last = np.concatenate([past[:, 1:], wanted[:, None]], 1).reshape(2, 12)
    parts = after if is_tuple else np.split(after, [4, 8], 1)
    for a, b in zip(parts, (h2, seen, last)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="state_is_tuple is not set"):
        tf.contrib.rnn.AttentionCellWrapper(tf.nn.rnn_cell.BasicLSTMCell(4), 3, state_is_tuple=False)


def test_stacked_bidirectional_layers():
    x = np.random.default_rng(3).normal(size=(2, 4, 3)).astype(np.float32)

    def cells():
        return [tf.nn.rnn_cell.BasicRNNCell(5), tf.nn.rnn_cell.BasicRNNCell(2)]
    with tf.variable_scope("a"):
        dynamic, fw, bw = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(
            cells(), cells(), x, dtype=tf.float32, sequence_length=[4, 2])
    with tf.variable_scope("b"):
        static, fw2, bw2 = tf.contrib.rnn.stack_bidirectional_rnn(
            cells(), cells(), tf.unstack(tf.constant(x), axis=1), dtype=tf.float32, sequence_length=[4, 2])
    ours, theirs = (sorted((v for v in tf.global_variables() if v.op.name.startswith(s)), key=lambda v: v.op.name)
                    for s in "ab")
    names = [f"a/stack_bidirectional_rnn/cell_{k}/bidirectional_rnn/{d}/basic_rnn_cell/{p}"
             for k in (0, 1) for d in ("bw", "fw") for p in ("bias", "kernel")]
    assert [v.op.name for v in ours] == names
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in zip(ours, theirs):
            assert a.shape == b.shape
            sess.run(b.assign(a))
        one, other, states, states2 = sess.run([dynamic, tf.stack(static, 1), (fw, bw), (fw2, bw2)])
        v = {k: a.eval() for k, a in zip([n.split("/", 2)[2] for n in names], ours)}
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for a, b in zip(states, states2):
        np.testing.assert_allclose(a[1], b[1], rtol=1e-5, atol=1e-6)
    first = np.tanh(x[0, 0] @ v["cell_0/bidirectional_rnn/fw/basic_rnn_cell/kernel"][:3])
    assert one.shape == (2, 4, 4) and not one[1, 2:].any() and np.abs(first).max() < 1
    with pytest.raises(ValueError, match="same depth"):
        tf.contrib.rnn.stack_bidirectional_dynamic_rnn(cells(), cells()[:1], x, dtype=tf.float32)
    assert value(tf.contrib.rnn.transpose_batch_time(x)).shape == (4, 2, 3)
