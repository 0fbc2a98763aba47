"""Random graphs - data and control edges, cond and while_loop nested, dead branches, py_func - on the executor and on the
naive interpreter: equal results, in every mode of the plan (inline loops, loops in slabs, single-node blocks, threads).
"""
import random

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import tensor_util

import naive_interpreter as naive

GRAPHS = 60


class Builder:
    """A random program over float scalars, built with the public API."""

    def __init__(self, seed, py_funcs):
        self.rng = random.Random(seed)
        self.py_funcs = py_funcs
        self.placeholders = []

    def leaf(self):
        return tf.constant(round(self.rng.uniform(-3, 3), 2), tf.float64)

    def step(self, pool, depth):
        kind = self.rng.random()
        a, b = self.rng.choice(pool), self.rng.choice(pool)
        if kind < 0.5:
            op = self.rng.choice([tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum])
            return tf.clip_by_value(op(a, b), -1e3, 1e3) if self.rng.random() < 0.2 else op(a, b)
        if kind < 0.6:
            with tf.control_dependencies([self.rng.choice(pool).op]):
                return tf.identity(tf.negative(a))
        if kind < 0.66 and self.py_funcs:
            return self.python(a)
        if depth >= 3 or kind < 0.7:
            return tf.square(tf.minimum(a, 10.0))
        return self.branch(pool, depth) if kind < 0.85 else self.loop(pool, depth)

    def python(self, a):
        y = tf.py_func(halve, [a], tf.float64)
        y.set_shape(())
        return y

    def body(self, pool, depth, n):
        pool = list(pool)
        for _ in range(n):
            pool.append(self.step(pool, depth))
        return pool

    def branch(self, pool, depth):
        pred = tf.less(self.rng.choice(pool), self.rng.choice(pool))
        seeds = self.rng.random(), self.rng.random()

        def make(seed):
            def fn():
                self.rng = random.Random(seed)
                return tf.identity(self.body(pool, depth + 1, self.rng.randint(1, 3))[-1])
            return fn
        after = self.rng.random()
        y = tf.cond(pred, make(seeds[0]), make(seeds[1]))
        self.rng = random.Random(after)
        return y

    def loop(self, pool, depth):
        turns = self.rng.randint(0, 4)
        seed, after = self.rng.random(), self.rng.random()

        def body(i, x, y):
            self.rng = random.Random(seed)
            inner = self.body(pool + [x, y], depth + 1, self.rng.randint(1, 4))
            new_x = tf.minimum(tf.maximum(inner[-1], -50.0), 50.0)
            return i + 1, new_x, self.rng.choice([x, inner[-2], new_x])
        _, x, y = tf.while_loop(lambda i, x, y: tf.less(i, turns), body,
                                [tf.constant(0), self.rng.choice(pool), self.rng.choice(pool)],
                                parallel_iterations=self.rng.choice([1, 2, 10]))
        self.rng = random.Random(after)
        return tf.add(x, y)

    def graph(self):
        for k in range(2):
            self.placeholders.append(tf.placeholder(tf.float64, (), name=f"p{k}"))
        return self.body(self.placeholders + [self.leaf(), self.leaf()], 0, self.rng.randint(4, 12))[4:]


def halve(x):
    return np.float64(x / 2)


def expected(graph, feeds):
    ops = graph.get_operations()
    program = naive.Interpreter(ops, lambda op: tensor_util.constant_value(op.outputs[0]), halve)
    return program.run(feeds)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_equals_naive_interpreter(seed):
    with tf.Graph().as_default() as graph:
        builder = Builder(seed, py_funcs=seed % 3 == 0)
        fetches = builder.graph()
        values = [np.float64(0.75 - seed % 3), np.float64(seed % 5 - 2.0)]
        want = expected(graph, {p.op: v for p, v in zip(builder.placeholders, values)})
        for threads in (1, 2):
            with tf.Session(graph=graph, threads=threads) as session:
                for _ in range(2):
                    got = session.run(fetches, dict(zip(builder.placeholders, values)))
                    for tensor, value in zip(fetches, got):
                        np.testing.assert_array_equal(value, want[tensor.name], err_msg=tensor.name)
