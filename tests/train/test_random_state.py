"""Random streams read and set: a run killed after some steps and restored in a new process, from its
checkpoint and its streams, goes on with the very bits of the run that was not killed."""
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import pyflow as tf

STEPS, KILLED_AFTER = 6, 3
TRAINING = """
    import os, signal, sys
    import numpy as np
    import pyflow as tf
    mode, folder, seeded = sys.argv[1], sys.argv[2], sys.argv[3] == "seeded"
    if seeded:
        tf.set_random_seed(7)
    order = tf.random_shuffle(tf.range(16))
    x = tf.gather(tf.constant(np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)), order)[:8]
    w = tf.Variable(tf.truncated_normal([4, 5], seed=2), name="w")
    hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(x, w) + tf.truncated_normal([8, 5])), 0.7)
    wait = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.random_uniform([])), [0, 0.])[1]
    loss = tf.reduce_mean(tf.square(hidden - 1.0)) + 0.01 * wait
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    saver, path = tf.train.Saver(), os.path.join(folder, "model")
    with tf.Session() as sess:
        first = 0
        if mode == "restored":
            saver.restore(sess, path)
            with np.load(path + "-streams.npz") as streams:
                sess.set_random_state(dict(streams))
            first = %d
        else:
            sess.run(tf.global_variables_initializer())
        for step in range(first, %d):
            value = sess.run([loss, train])[0]
            print(step, value.tobytes().hex(), flush=True)
            if mode != "restored" and step + 1 == %d:
                saver.save(sess, path)
                np.savez(path + "-streams.npz", **sess.random_state())
                if mode == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
        print(sess.run(w).tobytes().hex())
""" % (KILLED_AFTER, STEPS, KILLED_AFTER)


def train(mode, folder, seeded):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(TRAINING), mode, str(folder), seeded],
                          capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == (-signal.SIGKILL if mode == "killed" else 0), done.stderr[-2000:]
    return done.stdout.splitlines()


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    (tmp_path / "whole").mkdir()
    whole = train("whole", tmp_path / "whole", "seeded")
    killed = train("killed", tmp_path, "seeded")
    assert len(whole) == STEPS + 1 and killed == whole[:KILLED_AFTER]
    assert train("restored", tmp_path, "seeded") == whole[KILLED_AFTER:]


def test_so_does_one_without_seeds(tmp_path):
    """Its streams began with entropy: what the saving process went on to is what comes again."""
    whole = train("whole", tmp_path, "no seeds")
    assert train("restored", tmp_path, "no seeds") == whole[KILLED_AFTER:]


@pytest.fixture(autouse=True)
def _graph_of_its_own():
    with tf.Graph().as_default():
        yield


@pytest.fixture(name="draws")
def _draws():
    """Tensors that draw, one of every kind of random kernel."""
    return [tf.random_uniform([3]), tf.random_normal([2, 2]), tf.random_shuffle(tf.range(9)),
            tf.random_gamma([2], 1.5), tf.multinomial([[1.0, 2.0, 3.0]], 4),
            tf.random_uniform([3], maxval=9, dtype=tf.int32),
            tf.nn.log_uniform_candidate_sampler([[1]], 1, 5, False, 100)[0],
            tf.image.sample_distorted_bounding_box([9, 9, 3], [[[0.1, 0.1, 0.9, 0.9]]])[0]]


@pytest.mark.parametrize("partitions", ["one", "device"])
def test_back_to_where_the_streams_were(draws, partitions):
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2}), partitions=partitions) as sess:
        with tf.device("/cpu:1"):
            other = tf.random_uniform([5])
        sess.run(draws)
        state = sess.random_state()
        want = sess.run([draws, other])     # `other` had no stream: it begins anew with each setting
        assert len(sess.random_state()) == len(state) + 1 == len(draws) + 1
        sess.set_random_state(state)
        got = sess.run([draws, other])
    assert all(np.array_equal(a, b) for a, b in zip(want[0], got[0]))
    assert not np.array_equal(want[1], got[1])          # without a seed: from entropy again


def test_a_state_is_small_arrays_of_numbers():
    tf.set_random_seed(5)
    noise = tf.random_uniform([4], seed=11, name="noise")
    with tf.Session() as sess:
        assert sess.random_state() == {}
        sess.run(noise)
        state = sess.random_state()
    assert list(state) == ["noise/RandomUniform"]
    assert state["noise/RandomUniform"].dtype == np.int64
    assert state["noise/RandomUniform"].tolist()[:4] == [5, 11, 5, 11]
    assert state["noise/RandomUniform"][4] > 0
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.random_state()


def test_streams_that_do_not_belong_to_the_graph_are_refused():
    tf.set_random_seed(5)
    noise, one = tf.random_uniform([4], name="noise"), tf.constant(1.0, name="one")
    with tf.Session() as sess:
        sess.run(noise)
        state = sess.random_state()
        numbers = state["noise/RandomUniform"]
        for bad, text in [({"absent": numbers}, "no operation 'absent'"),
                          ({one.op.name: numbers}, "'one' .Const. draws no random numbers"),
                          ({"noise/RandomUniform": numbers + 1}, "seeds .*the operation in the graph"),
                          ({"noise/RandomUniform": numbers[:3]}, "int64 array of shape .5,."),
                          ({"noise/RandomUniform": numbers * 1.0}, "got float64")]:
            with pytest.raises(ValueError, match=text):
                sess.set_random_state({**state, **bad})
        want = sess.run(noise)                          # nothing was changed
        sess.set_random_state(state)
        assert np.array_equal(sess.run(noise), want)


def test_streams_in_functions_are_set():
    """In functions that are inlined, that run as calls, in their gradients and in tf.data's."""
    from pyflow.python.framework import function

    @function.Defun(tf.float32, func_name="inlined")
    def inlined(x):
        return x + tf.random_normal([], seed=3)

    @tf.function
    def outer(x):
        return inlined(x) + tf.random_uniform([], seed=4)

    @function.Defun(tf.float32, func_name="called", noinline=True)
    def called(x):
        return x + x * tf.random_normal([], seed=5)

    x = tf.constant(2.0)
    element = tf.data.Dataset.range(9).map(
        lambda n: tf.random_normal([], seed=1)).make_one_shot_iterator().get_next()
    fetches = [outer(x), inlined(x), called(x), tf.gradients(called(x), x)[0]]
    with tf.Session() as sess:
        sess.run([fetches, element])
        state = sess.random_state()
        first = sess.run(fetches)
        assert sess.run(fetches) != first
        sess.set_random_state(state)
        assert sess.run(fetches) == first
        with pytest.raises(ValueError, match="no operation 'called/other'"):
            sess.set_random_state({"called/other": state["inlined/random_normal/RandomStandardNormal"]})
