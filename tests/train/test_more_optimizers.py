"""AdagradDA and the optimizers of tf.contrib.opt beside their formulas in NumPy.

Hyperparameters are float32 tensors, as in TensorFlow, whatever the variable: hence the tolerance.
"""
import math

import numpy as np
import pytest

import pyflow as tf

opt = tf.contrib.opt
START = np.array([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.0]])
DENSE = [np.array([[0.1, -0.3], [2.0, 0.0], [-0.5, 0.2]]),
         np.array([[-0.4, 0.2], [1.0, 0.5], [0.3, -0.1]]),
         np.array([[0.2, 0.2], [-1.0, 0.7], [0.1, 0.4]])]
ROWS = np.array([0, 2])
KINDS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        yield


def train(make, sparse=False, resource=False, steps=3):
    """(the variable after `steps` steps, {slot name: value})."""
    with tf.Graph().as_default():
        var = tf.Variable(START, name="w", use_resource=resource)
        step = tf.Variable(0, trainable=False, name="step")
        held = tf.placeholder(tf.float64, [None, 2])
        grad = tf.IndexedSlices(held, tf.constant(ROWS), tf.constant([3, 2])) if sparse else held
        optimizer = make(step)
        op = optimizer.apply_gradients([(grad, var)], global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for given in DENSE[:steps]:
                sess.run(op, {held: given[ROWS] if sparse else given})
            slots = {name: sess.run(optimizer.get_slot(var, name))
                     for name in optimizer.get_slot_names()}
            return sess.run(var), slots


def expect(update, sparse, zero_slots, full=False):
    """var after three steps of update(var, slots, gradient, t), of the rows that have a gradient,
    or, `full`, of all, with the mask of those rows."""
    var = START.copy()
    slots = [np.full_like(START, start) for start in zero_slots]
    for t, grad in enumerate(DENSE, 1):
        rows = ROWS if sparse else np.arange(3)
        if full:
            mask = np.zeros((3, 1))
            mask[rows] = 1
            update(var, slots, grad * mask, t, mask)
            continue
        part, held = var[rows], [slot[rows] for slot in slots]
        update(part, held, grad[rows], t)
        var[rows] = part
        for slot, value in zip(slots, held):
            slot[rows] = value
    return var, slots


def check(make, update, slots, sparse, resource, full=False):
    found, kept = train(make, sparse, resource)
    wanted, wanted_slots = expect(update, sparse, slots, full)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    for value, want in zip(kept.values(), wanted_slots, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found, START)


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_adagrad_da(sparse, resource):
    def update(var, slots, grad, t):
        slots[0] += grad
        slots[1] += grad ** 2
        shrunk = np.sign(slots[0]) * np.maximum(np.abs(slots[0]) - 0.05 * t, 0)
        var[...] = -0.3 * shrunk / (0.01 * t * 0.3 + np.sqrt(slots[1]))
    check(lambda step: tf.train.AdagradDAOptimizer(
        0.3, step, initial_gradient_squared_accumulator_value=0.2, l1_regularization_strength=0.05,
        l2_regularization_strength=0.01), update, [0, 0.2], sparse, resource)


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_adamax(sparse, resource):
    def update(var, slots, grad, t):
        slots[0] += (1 - 0.8) * (grad - slots[0])
        slots[1][...] = np.maximum(0.95 * slots[1], np.abs(grad))
        var -= 0.1 / (1 - 0.8 ** t) * slots[0] / (slots[1] + 1e-3)
    check(lambda step: opt.AdaMaxOptimizer(0.1, beta1=0.8, beta2=0.95, epsilon=1e-3), update,
          [0, 0], sparse, resource)


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_lazy_adam(sparse, resource):
    def update(var, slots, grad, t):
        slots[0] += (1 - 0.8) * (grad - slots[0])
        slots[1] += (1 - 0.95) * (grad ** 2 - slots[1])
        var -= 0.1 * math.sqrt(1 - 0.95 ** t) / (1 - 0.8 ** t) * slots[0] / (
            np.sqrt(slots[1]) + 1e-3)
    check(lambda step: opt.LazyAdamOptimizer(0.1, beta1=0.8, beta2=0.95, epsilon=1e-3), update,
          [0, 0], sparse, resource)


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_nadam(sparse, resource):
    def update(var, slots, grad, t, mask):
        slots[0] += (1 - 0.8) * (grad - slots[0])
        slots[1] += (1 - 0.95) * (grad ** 2 - slots[1])
        ahead = 0.8 * slots[0] + (1 - 0.8) * grad
        var -= mask * 0.1 * math.sqrt(1 - 0.95 ** t) / (1 - 0.8 ** t) * ahead / (
            np.sqrt(slots[1]) + 1e-3)
    check(lambda step: opt.NadamOptimizer(0.1, beta1=0.8, beta2=0.95, epsilon=1e-3), update,
          [0, 0], sparse, resource, full=True)


@pytest.mark.parametrize("sparse, resource", KINDS)
@pytest.mark.parametrize("kind", ["power", "add"])
def test_signs(kind, sparse, resource):
    def update(var, slots, grad, t, mask):
        slots[0] += (1 - 0.8) * (grad - slots[0])
        agree = 0.5 * (1 + math.cos(math.pi * (t - 1) / 10)) * np.sign(grad) * np.sign(slots[0])
        var -= 0.1 * (2.0 ** agree if kind == "power" else 0.5 + agree) * grad
    decay = opt.get_cosine_decay_fn(10)

    def make(step):
        if kind == "power":
            return opt.PowerSignOptimizer(0.1, base=2.0, beta=0.8, sign_decay_fn=decay)
        return opt.AddSignOptimizer(0.1, alpha=0.5, beta=0.8, sign_decay_fn=decay)
    found, kept = train(make, sparse, resource)
    wanted, slots = expect(update, sparse, [0], full=True)
    np.testing.assert_allclose(found, wanted, rtol=2e-6)        # the schedule is float32
    np.testing.assert_allclose(kept["m"], slots[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="global_step is required"):
        make(None).apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])


def test_sign_schedules():
    with tf.Session() as sess:
        for made, wanted in (
                (opt.get_linear_decay_fn(8), lambda x: 1 - x),
                (opt.get_cosine_decay_fn(8, num_periods=3, zero_after=2),
                 lambda x: 0 if 3 * x >= 2 else 0.5 + 0.5 * math.cos(6 * math.pi * x)),
                (opt.get_restart_decay_fn(8, num_periods=4, zero_after=3),
                 lambda x: 0 if 4 * x >= 3 else 0.5 + 0.5 * math.cos(math.pi * (4 * x % 1)))):
            found = sess.run([made(step) for step in range(11)])
            np.testing.assert_allclose(found, [wanted(min(s, 8) / 8) for s in range(11)], atol=1e-6)
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match="integer >= 1"):
            opt.get_linear_decay_fn(bad)


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_adam_with_weight_decay(sparse, resource):
    """AdamW; TF's sparse Adam moves all rows, the decay only those of the gradient."""
    def update(var, slots, grad, t, mask):
        var -= mask * 0.05 * var
        slots[0] += (1 - 0.9) * (grad - slots[0])
        slots[1] += (1 - 0.999) * (grad ** 2 - slots[1])
        var -= 0.1 * math.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * slots[0] / (
            np.sqrt(slots[1]) + 1e-8)
    check(lambda step: opt.AdamWOptimizer(0.05, learning_rate=0.1), update, [0, 0], sparse,
          resource, full=True)


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_momentum_with_weight_decay(sparse, resource):
    def update(var, slots, grad, t):
        var -= 0.05 * var
        slots[0][...] = 0.9 * slots[0] + grad
        var -= 0.1 * slots[0]
    for make in (lambda step: opt.MomentumWOptimizer(0.05, 0.1, 0.9),
                 lambda step: opt.extend_with_decoupled_weight_decay(tf.train.MomentumOptimizer)(
                     lambda: 0.05, 0.1, momentum=0.9)):
        check(make, update, [0], sparse, resource)


def test_only_some_variables_decay():
    a, b = (tf.Variable([2.0, 4.0], name=name) for name in "ab")
    optimizer = opt.MomentumWOptimizer(0.5, learning_rate=0.0, momentum=0.0)
    step = optimizer.minimize(tf.reduce_sum(a * b), decay_var_list=[b])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step)
        np.testing.assert_array_equal(sess.run([a, b]), [[2.0, 4.0], [1.0, 2.0]])


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("skipped", [False, True])
def test_lars(skipped, resource):
    def update(var, slots, grad, t):
        rate = 0.5
        if not skipped:
            weight, slope = np.linalg.norm(var), np.linalg.norm(grad)
            rate *= 0.02 * weight / (slope + 0.01 * weight + 1e-3)
            grad = grad + 0.01 * var
        slots[0][...] = 0.9 * slots[0] + rate * grad
        var -= rate * grad + 0.9 * slots[0]
    check(lambda step: opt.LARSOptimizer(
        0.5, weight_decay=0.01, eeta=0.02, epsilon=1e-3, use_nesterov=True,
        skip_list=["w"] if skipped else ["other"]), update, [0], False, resource)


def test_moving_averages_are_saved_in_the_variables_place(tmp_path):
    var = tf.Variable(START, name="w")
    optimizer = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.5), 0.75)
    with pytest.raises(RuntimeError, match="before creating the swapping_saver"):
        optimizer.swapping_saver()
    step = optimizer.minimize(tf.reduce_sum(var))
    average = [v for v in tf.global_variables() if v.name != "w:0"][0]
    saver = optimizer.swapping_saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            sess.run(step)
        mean = 0.75 * (0.75 * START + 0.25 * (START - 0.5)) + 0.25 * (START - 1.0)
        np.testing.assert_allclose(sess.run([var, average]), [START - 1.0, mean], rtol=1e-6)
        path = saver.save(sess, str(tmp_path / "model"))
        tf.train.Saver([var]).restore(sess, path)
        np.testing.assert_allclose(sess.run(var), mean, rtol=1e-6, atol=1e-6)
        saver.restore(sess, path)
        np.testing.assert_allclose(sess.run([var, average]), [START - 1.0, mean], rtol=1e-6)
    with pytest.raises(ValueError, match="not in variables to save"):
        optimizer.swapping_saver([var])


@pytest.mark.parametrize("sparse, resource", KINDS)
def test_variables_are_clipped_after_the_step(sparse, resource):
    def update(var, slots, grad, t):
        var -= 0.5 * grad
        norms = np.linalg.norm(var, axis=1, keepdims=True)
        var *= np.minimum(1.0, 1.5 / norms)
    with tf.Graph().as_default():
        var = tf.Variable(START, name="w", use_resource=resource)
        held = tf.placeholder(tf.float64, [None, 2])
        grad = tf.IndexedSlices(held, tf.constant(ROWS), tf.constant([3, 2])) if sparse else held
        optimizer = opt.VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.5),
                                                  {var: [1]}, 1.5)
        op = optimizer.apply_gradients([(grad, var)])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for given in DENSE:
                sess.run(op, {held: given[ROWS] if sparse else given})
            found = sess.run(var)
    np.testing.assert_allclose(found, expect(update, sparse, [])[0], rtol=2e-6)


def test_cosine_schedules():
    def restarts(step, first, longer, higher, alpha):
        at, size, height = step, first, 1.0
        while at >= size:
            at, size, height = at - size, size * longer, height * higher
        half = 0.5 * height * (1 + math.cos(math.pi * at / size))
        return 0.2 * ((1 - alpha) * half + alpha)

    def linear(step):
        done = min(step, 12) / 12
        return 0.2 * ((0.1 + 1 - done) * (0.5 + 0.5 * math.cos(2 * math.pi * 1.5 * done)) + 0.01)
    steps = [0, 1, 4, 6, 9, 11, 20]
    held = tf.placeholder(tf.int32, [])
    made = [tf.train.cosine_decay_restarts(0.2, held, 5, t_mul=2.0, m_mul=0.5, alpha=0.1),
            tf.train.cosine_decay_restarts(0.2, held, 5, t_mul=1.0, m_mul=0.5),
            tf.train.linear_cosine_decay(0.2, held, 12, num_periods=1.5, alpha=0.1, beta=0.01),
            tf.train.noisy_linear_cosine_decay(0.2, held, 12, initial_variance=1e-12,
                                               num_periods=1.5, alpha=0.1, beta=0.01)]
    with tf.Session() as sess:
        for step in steps:
            wanted = [restarts(step, 5, 2.0, 0.5, 0.1), restarts(step, 5, 1.0, 0.5, 0.0),
                      linear(step), linear(step)]
            np.testing.assert_allclose(sess.run(made, {held: step}), wanted, rtol=1e-4, atol=1e-6)
        noisy = tf.train.noisy_linear_cosine_decay(1.0, 0, 12, initial_variance=4.0, beta=0.0)
        drawn = [sess.run(noisy) for _ in range(200)]
    assert abs(np.std(drawn) - 2.0) < 0.4 and abs(np.mean(drawn) - 1.0) < 0.6
