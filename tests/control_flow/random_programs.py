"""Random programs of nested conditionals and loops, with their gradients: `build(tf, seed)`.

The same seed builds the same program under TensorFlow (record.py keeps its answers) and under
pyflow (test_random.py). Shapes are static in some programs and unknown in others; loops differ in
parallel_iterations, in what they capture, and in what they pass on unchanged.
"""
import random

import numpy as np

SEEDS = range(80)
X = np.float32([[0.5, -1.0], [0.25, 0.8]])
W = np.float32([[0.1, 0.7], [-0.4, 0.6]])
V = np.float32([[0.3, -0.2], [0.1, 0.4]])


def build(tf, seed):
    """(fetches, feeds) of program `seed`."""
    program = Program(tf, seed)
    values = [program.x, program.w, program.v * 1.0]
    for _ in range(program.random.randrange(1, 3)):
        values.append(program.expression(values, 3, [program.n]))
    y = values[-1]
    if program.random.random() < 0.3:
        y = y + values[-2]
    target = tf.reduce_sum(tf.square(y)) if program.random.random() < 0.5 else y
    fetches = {"y": y}
    for name, grad in zip("xwv", tf.gradients(target, [program.x, program.w, program.v])):
        if grad is not None:
            fetches["d" + name] = tf.convert_to_tensor(grad)
    return fetches, [{program.x: X, program.w: W, program.n: k} for k in (0, 1, 3)]


def flat(results):
    """One vector of the results of all feeds, for the record."""
    return np.concatenate([np.ravel(result[key]) for result in results for key in sorted(result)])


class Program:
    """Inputs and random choices of one program."""

    def __init__(self, tf, seed):
        self.tf, self.random = tf, random.Random(seed)
        self.static = self.random.random() < 0.6
        shape = [2, 2] if self.static else None
        self.x = tf.placeholder(tf.float32, shape, name="x")
        self.w = tf.placeholder(tf.float32, shape, name="w")
        self.n = tf.placeholder(tf.int32, [], name="n")
        self.v = tf.Variable(V, name="v", use_resource=self.random.random() < 0.5)

    def expression(self, values, depth, ints):
        kind, a = self.random.random(), self.random.choice(values)
        if depth <= 0 or kind < 0.35:
            if self.random.random() < 0.5:
                return self.unary(a)
            return self.binary(a, self.random.choice(values))
        if kind < 0.55:
            return self.conditional(values, depth - 1, ints, a)
        if kind < 0.85:
            return self.loop(values, depth - 1, ints)
        return self.binary(self.expression(values, depth - 1, ints), a)

    def unary(self, a):
        tf = self.tf
        return self.random.choice([
            tf.tanh, tf.sin, tf.identity, lambda t: t * 0.5, lambda t: tf.square(t) * 0.3,
            lambda t: tf.matmul(t, t) * 0.2 if self.static else t * t * 0.1])(a)

    def binary(self, a, b):
        tf = self.tf
        return self.random.choice([
            tf.add, tf.subtract, tf.multiply,
            lambda p, q: tf.matmul(p, q) if self.static else p * q])(a, b)

    def conditional(self, values, depth, ints, a):
        tf, choose = self.tf, self.random
        if choose.random() < 0.6:
            pred = tf.less(choose.choice(ints), choose.randrange(4))
        else:
            pred = tf.less(tf.reduce_sum(a), choose.random() * 2)

        def branch():
            if choose.random() < 0.2:
                return choose.choice(values)
            return self.expression(values, depth, ints)
        return tf.cond(pred, branch, branch)

    def loop(self, values, depth, ints):
        tf, choose = self.tf, self.random
        times, count = choose.randrange(1, 4), choose.randrange(1, 3)
        start = [choose.choice(values) for _ in range(count)]
        limit = choose.choice(ints) if choose.random() < 0.4 else times

        def body(i, *state):
            following = [self.next_value(values, state, k, depth, ints + [i]) for k in range(count)]
            return [i + 1] + following
        invariants = None if self.static else [tf.TensorShape([])] + [tf.TensorShape(None)] * count
        options = {"maximum_iterations": 3} if choose.random() < 0.3 else {}
        results = tf.while_loop(
            lambda i, *state: tf.logical_and(tf.less(i, limit), tf.less(i, 4)), body,
            [tf.constant(0)] + start, shape_invariants=invariants,
            parallel_iterations=choose.choice([1, 2, 10]), **options)
        return results[choose.randrange(1, count + 1)]

    def next_value(self, values, state, k, depth, ints):
        kind = self.random.random()
        if kind < 0.15:
            return state[k]
        known = values + list(state) if kind < 0.7 else list(state)
        value = self.expression(known, depth, ints)
        if kind > 0.9:
            value = self.tf.clip_by_value(value, -3.0, 3.0)
        if self.static:
            value.set_shape([2, 2])
        return value
