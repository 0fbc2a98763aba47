"""All rewrites: options, reports, and random programs with effects that give the same without."""
import random
import time

import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.passes import pipeline
from pyflow.passes.options import OFF, Options

PROGRAMS = 40


def test_options():
    def on(config):
        found = Options.of(config)
        return found.fold, found.cse, found.arithmetic
    config = tf.ConfigProto()
    assert on(None) == on(config) == (True, True, True)
    config.graph_options.optimizer_options.opt_level = -1
    assert on(config) == (False, False, False)
    config.graph_options.optimizer_options.do_constant_folding = True
    assert on(config) == (True, False, False)
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.constant_folding = OFF
    assert on(config) == (False, True, True)
    config.graph_options.rewrite_options.common_subgraph_elimination = OFF
    config.graph_options.rewrite_options.arithmetic_optimization = OFF
    assert on(config) == (False, False, False)
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    assert on(config) == (False, False, False)


def test_report():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        y = tf.square(x) * 1.0 + tf.square(x) * tf.sqrt(tf.constant(4.0))
        graph = rewriting.pruned([y], [x])
        text = pipeline.report(rewriting.rewrite(graph, Options(), rewriting.evaluator()))
        assert text == "folded: 1\ncse: 1\narithmetic: 1 (1 multiply by 1)"
        assert pipeline.report({"cse": 0, "arithmetic": {}}) == "cse: 0\narithmetic: 0"


class Program:
    """A random program of float32 tensors: constants, arithmetic that rules know, conditionals,
    loops; and effects: counters, seeded draws, Python calls."""

    def __init__(self, seed):
        self.rng, self.calls = random.Random(seed), []
        self.counters = [tf.Variable(0.0, name=f"counter_{i}") for i in range(2)]
        self.x = tf.placeholder(tf.float32, [2, 3], name="x")
        pool = [self.x, tf.constant(np.float32(self.rng.random()), shape=[2, 3])]
        for _ in range(25):
            pool.append(self.step(pool, 0))
        self.fetches = self.rng.sample(pool[2:], 6)
        self.init = tf.global_variables_initializer()

    def step(self, pool, depth):
        a, b, kind = self.rng.choice(pool), self.rng.choice(pool), self.rng.randrange(17)
        if kind < 10:
            return self.arithmetic(kind, a, b)
        if kind == 10:
            return tf.clip_by_value(a, -5.0, 5.0) + tf.random_uniform([2, 3], seed=7)
        if kind == 11:
            y = tf.py_func(self.note, [a], tf.float32)
            y.set_shape([2, 3])
            return y
        if kind == 12:
            with tf.control_dependencies([tf.assign_add(self.rng.choice(self.counters), 1.0)]):
                return tf.identity(a)
        if kind == 13:
            return tf.fill(tf.shape(a), tf.cast(tf.size(b), tf.float32)) * 0.1
        if depth == 2:
            return tf.maximum(a, b)
        return self.branch(pool, depth) if kind == 14 else self.loop(pool, depth)

    def arithmetic(self, kind, a, b):
        c = tf.constant(self.rng.choice([1.0, 0.0, -0.0, 2.0, 0.5]))
        return [lambda: a * c, lambda: a + c, lambda: a - c, lambda: (a * 0.5) * 0.25,
                lambda: tf.negative(tf.negative(a)) + b, lambda: tf.tanh(a) - tf.tanh(a),
                lambda: tf.transpose(tf.transpose(tf.tanh(b))),
                lambda: tf.matmul(tf.tanh(a), tf.transpose(tf.tanh(b)) @ tf.ones([2, 3])),
                lambda: tf.reshape(tf.reshape(a, [6]), tf.shape(b)),
                lambda: tf.pow(tf.tanh(a), 2.0)][kind]()

    def note(self, a):
        self.calls.append(float(np.nansum(a)))
        return a * np.float32(0.5)

    def inside(self, pool, depth):
        pool = list(pool)
        for _ in range(self.rng.randint(1, 3)):
            pool.append(self.step(pool, depth + 1))
        return tf.tanh(pool[-1])

    def branch(self, pool, depth):
        pred = tf.reduce_sum(self.rng.choice(pool)) < tf.reduce_sum(self.rng.choice(pool))
        return tf.cond(pred, lambda: self.inside(pool, depth), lambda: self.inside(pool, depth))

    def loop(self, pool, depth):
        turns = self.rng.randint(0, 3)
        return tf.while_loop(lambda i, a: i < turns,
                             lambda i, a: (i + 1, self.inside([*pool, a], depth)),
                             [tf.constant(0), self.rng.choice(pool)], parallel_iterations=1)[1]

    def run(self, rewrites):
        """([fetches of each step], counters, Python calls)."""
        self.calls.clear()
        results = []
        with rewriting.session(rewrites, threads=1) as sess:
            sess.run(self.init)
            for value in (0.25, -1.5):
                results.append(sess.run(self.fetches, {self.x: np.full((2, 3), value)}))
            return results, sess.run(self.counters), list(self.calls)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(seed):
    """Equal results within 1e-5, equal counters, and as many Python calls, with and without."""
    with tf.Graph().as_default():
        program = Program(seed)
        found, counters, calls = program.run(True)
        wanted, wanted_counters, wanted_calls = program.run(False)
    assert counters == wanted_counters
    assert len(calls) == len(wanted_calls)
    np.testing.assert_allclose(sorted(calls), sorted(wanted_calls), rtol=1e-5, atol=1e-5)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_draws_continue_the_same_stream():
    """A draw of which only the size is wanted, and that is known, still moves the generator on."""
    with tf.Graph().as_default():
        shape = tf.placeholder(tf.int32, [1])
        draw = tf.random_uniform(shape, seed=5)
        size = tf.size(draw)
        draw.set_shape([2])
        graph = rewriting.pruned([size], [shape])
        rewriting.rewrite(graph, Options(), rewriting.evaluator())
        assert "Size" not in rewriting.ops(graph) and "RandomUniform" in rewriting.ops(graph)
        values = []
        for rewrites in (True, False):
            with rewriting.session(rewrites) as sess:
                assert sess.run([size, size], {shape: [2]}) == [2, 2]
                values.append([sess.run(draw, {shape: [2]}).tolist() for _ in range(2)])
    assert values[0] == values[1] and values[0][0] != values[0][1]


def test_gradients_of_a_net_are_the_same():
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [4, 6])
        w, b = tf.Variable(tf.truncated_normal([6, 3])), tf.Variable(tf.zeros([3]))
        loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, w) + b) * 1.0) + tf.nn.l2_loss(w)
        step = tf.train.AdamOptimizer(0.1).minimize(loss)
        losses, init = [], tf.global_variables_initializer()
        for rewrites in (True, False):
            with rewriting.session(rewrites) as sess:
                sess.run(init)
                data = np.linspace(-1, 1, 24).reshape(4, 6)
                losses.append([sess.run([loss, step], {x: data})[0] for _ in range(10)])
        np.testing.assert_allclose(*losses, rtol=1e-4)


def test_explain_says_what_rewrites_do(tmp_path, capsys):
    from pyflow.tools import explain
    path = tmp_path / "model.pb"
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        two = tf.sqrt(tf.constant(4.0), name="two")
        tf.multiply(tf.square(x) * two, 1.0 + 0 * tf.square(x), name="y")
        tf.identity(tf.identity(x, name="inner"), name="outer")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    assert explain.main([str(path)]) == 0
    text = capsys.readouterr().out
    assert "%two = Sqrt(" in text and "# rewrites (see --rewritten): " in text
    assert "#   folded: 1\n#   cse: 1\n" in text and "identity" in text
    assert explain.main([str(path), "--rewritten"]) == 0
    text = capsys.readouterr().out
    assert "%two = Const() {value: 2.0}" in text
    assert 'program: "Square 0;Mul 4 1;Mul 2 4;AddV2 3 6;Mul 5 7"' in text


@pytest.mark.alone
def test_a_graph_with_nothing_to_do_costs_little():
    """The three walks take less than the two that make the graph and its bytes (a third here)."""
    from pyflow.passes import wire
    with tf.Graph().as_default():
        y = x = tf.placeholder(tf.float32, [])
        for _ in range(4000):
            y = y + x
        rewriting_time, rest = 1e9, 1e9
        for _ in range(5):
            start = time.process_time()
            graph = rewriting.pruned([y], [x])
            made = time.process_time()
            counts = rewriting.rewrite(graph, Options(), None)
            rewritten = time.process_time()
            wire.graph_bytes(graph)
            rest = min(rest, made - start + time.process_time() - rewritten)
            rewriting_time = min(rewriting_time, rewritten - made)
    assert counts == {"folded": 0, "cse": 0, "arithmetic": {}}
    assert rewriting_time < 0.6 * rest
