"""What kernels make of constants is made once for all nodes, plans, sessions and threads with equal
constants, and let go with the last of them (pf_host.shared, shared/shared.c)."""

import gc
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow import plugins


@pytest.fixture(scope="module")
def acme(build_plugin):
    return plugins.load_library(build_plugin("shared"))


@pytest.fixture
def counts(acme):
    """(made, let go) since the test began."""
    with tf.Graph().as_default() as graph:
        op = acme.counts()
    with tf.Session(graph=graph) as session:
        start = session.run(op)
        yield lambda: tuple(int(n) for n in session.run(op) - start)


def session_of(acme, w, **attributes):
    """A session, and the sum of 1 and w in it."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [])
        return tf.Session(graph=graph), acme.total(x, tf.constant(w), **attributes), x


W = np.arange(6000, dtype=np.float32) % 7


def test_nodes_and_sessions_share(acme, counts):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        same = [acme.total(x, w) for w in [tf.constant(W), tf.constant(W.copy())] for _ in "ab"]
        with tf.Session() as session:
            assert session.run(same, {x: 1}) == [1 + W.sum()] * 4
            assert counts() == (1, 0)
            other, total, fed = session_of(acme, W.copy())
            assert other.run(total, {fed: 2}) == 2 + W.sum()
            assert counts() == (1, 0)
    del session, same
    gc.collect()
    assert counts() == (1, 0), "another session still has it"
    other.close()
    del other, total, fed
    gc.collect()
    assert counts() == (1, 1)


def test_other_elements_shapes_and_forms_are_others(acme, counts):
    changed = W.copy()
    changed[-1] += 1
    kept = []
    for w, form in ((W, "a"), (changed, "a"), (W.reshape(60, 100), "a"), (W, "b"), (W, "a")):
        session, total, x = session_of(acme, w, form=form)
        assert session.run(total, {x: 1}) == 1 + w.sum()
        kept.append(session)
    assert counts() == (4, 0)


def test_threads_that_ask_at_once_get_one(acme, counts):
    w = np.linspace(0, 1, 2_000_000, dtype=np.float32)
    made = [session_of(acme, w) for _ in range(8)]
    results, threads = [], []
    for session, total, x in made:
        threads.append(threading.Thread(
            target=lambda s=session, t=total, x=x: results.append(s.run(t, {x: 0}))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(results)) == 1 and len(results) == 8
    assert counts() == (1, 0)


def test_what_cannot_be_made_says_so_every_time(acme, counts):
    for _ in range(2):
        session, total, x = session_of(acme, -W - 1)
        with pytest.raises(tf.errors.OutOfRangeError, match="begins with a negative number"):
            session.run(total, {x: 1})
    assert counts() == (0, 0)


def test_what_is_no_constant_is_not_found(acme):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3])
        with tf.Session() as session, pytest.raises(tf.errors.NotFoundError):
            session.run(acme.total(1.0, x), {x: [1, 2, 3]})
