"""A step keeps the GIL only where its kernels are over in some microseconds: `Plan.tiny`, by what the kernels declare and by
sizes known while planning.  What is fed counts when it is run."""
import threading
import time

import numpy as np
import pytest

import pyflow as tf

LARGE = 1 << 20


def is_tiny(fetch, feeds=()):
    """Whether a step for it keeps the GIL, while the arguments are small."""
    with tf.Session() as session:
        step, _ = session._step_for(fetch, {f: None for f in feeds})
        return step.compiled.plan.tiny


def matrix(*shape):
    return tf.placeholder(tf.float32, shape)


def sparse():
    return tf.SparseTensor(tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.string, [None]), [9, 9])


# Much work for each element of what may be fed to a step that keeps the GIL.
LASTING = {
    "RandomGamma": lambda: tf.random_gamma(tf.placeholder(tf.int32, [1]), 2.0),
    "RandomPoissonV2": lambda: tf.random_poisson(3.0, tf.placeholder(tf.int32, [1])),
    "StatelessRandomGammaV2": lambda: tf.random.stateless_gamma(tf.placeholder(tf.int32, [1]), [1, 2], 2.0),
    "Multinomial": lambda: tf.multinomial(matrix(2, 9), tf.placeholder(tf.int32, [])),
    "LogUniformCandidateSampler": lambda: tf.nn.log_uniform_candidate_sampler(
        tf.placeholder(tf.int64, [1, 1]), 1, 999_999, True, 1_000_000),
    "MatrixInverse": lambda: tf.linalg.inv(matrix(None, None)),
    "MatrixSolve": lambda: tf.linalg.solve(matrix(None, None), matrix(None, None)),
    "MatrixDeterminant": lambda: tf.linalg.det(matrix(120, 120)),
    "Cholesky": lambda: tf.linalg.cholesky(matrix(120, 120)),
    "a product of three": lambda: tf.einsum("ab,bc,cd->ad", *(matrix(None, None) for _ in "123")),
    "Igamma": lambda: tf.igamma(matrix(None), matrix(None)),
    "Betainc": lambda: tf.betainc(matrix(9000), matrix(9000), matrix(9000)),
    "Zeta": lambda: tf.zeta(matrix(9000), matrix(9000)),
    "Polygamma": lambda: tf.polygamma(matrix(9000), matrix(9000)),
    "EditDistance": lambda: tf.edit_distance(sparse(), sparse()),
}
# Sizes that no fed byte tells.
SIZED = {
    "a draw of a constant size": lambda: tf.reduce_sum(tf.random_uniform([LARGE])),
    "a draw of a fed size": lambda: tf.random_uniform(tf.placeholder(tf.int32, [1])),
    "a fill": lambda: tf.fill(tf.placeholder(tf.int32, [1]), 1.0),
    "a range": lambda: tf.range(tf.placeholder(tf.int32, [])),
    "a large constant": lambda: tf.nn.top_k(
        tf.reshape(tf.constant(np.random.RandomState(1).rand(LARGE).astype(np.float32)), [tf.placeholder(tf.int32, [])])).values,
    "a broadcast": lambda: tf.sin(matrix(900, 1) + matrix(1, 900)),
}
BRIEF = {
    "a small draw": lambda: tf.random_uniform([9]),
    "arithmetic": lambda: matrix(None, 3) * 2.0 + 1.0,
    "a small inverse": lambda: tf.linalg.inv(matrix(3, 3)),
    "a few terms": lambda: tf.igamma(matrix(3), matrix(3)),
    "strings": lambda: tf.string_join([tf.placeholder(tf.string, [3]), "b"]),
}


def made(table, name):
    with tf.Graph().as_default() as graph:
        fetch = table[name]()
        fed = [o.outputs[0] for o in graph.get_operations() if o.type == "Placeholder"]
        return is_tiny(fetch, fed)


@pytest.mark.parametrize("name", LASTING)
def test_a_step_of_a_lasting_kernel_lets_others_run(name):
    assert not made(LASTING, name)


@pytest.mark.parametrize("name", SIZED)
def test_a_step_of_large_tensors_lets_others_run(name):
    assert not made(SIZED, name)


@pytest.mark.parametrize("name", BRIEF)
def test_a_small_step_keeps_the_gil(name):
    assert made(BRIEF, name)


@pytest.mark.alone
def test_another_thread_runs_while_a_million_numbers_are_drawn():
    """The longest pause of a thread that only looks at the clock is a small part of the step."""
    draw = tf.reduce_sum(tf.random_gamma([3_000_000], 2.0, seed=1))
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)) as session:
        session.run(draw)
        pauses, over = [0.0], threading.Event()

        def look():
            last = time.perf_counter()
            while not over.is_set():
                now = time.perf_counter()
                pauses[0], last = max(pauses[0], now - last), now
        watcher = threading.Thread(target=look)
        watcher.start()
        began = time.perf_counter()
        session.run(draw)
        took = time.perf_counter() - began
        over.set()
        watcher.join()
    assert pauses[0] < took / 2, f"a pause of {pauses[0]:.3f} s in a step of {took:.3f} s"
