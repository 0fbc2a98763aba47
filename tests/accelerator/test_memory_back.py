"""A device's memory is taken as it is needed and given back: when a value's last reader ran, when
its session closes, on `tf.release_memory()`; somebody else can have it then.  And NaN checks of
values that lie on the device.
"""
import gc

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor

MB = 1 << 20


def held(name, megabytes, value=1.0):
    """A variable of that size on FAKE:0, and its initializer."""
    with tf.device("/device:FAKE:0"):
        w = tf.get_variable(name, initializer=tf.fill([megabytes * MB // 4], value),
                            use_resource=True)
    return w, w.initializer


def in_use(fake):
    fake[0].settle()
    return fake[0]["bytes_in_use"]


def test_memory_grows_with_need(fake):
    """A session takes nothing by itself; a step takes what its values need, and gives it back."""
    x = tf.placeholder(tf.float32, [None])
    with tf.device("/device:FAKE:0"):
        y = tf.reduce_sum(x * 2.0)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        assert in_use(fake) == 0
        peaks = []
        for n in (1000, 1 * MB, 4 * MB, 1000):
            _executor.reset_device_peak("FAKE", 0)
            session.run(y, {x: np.ones(n, np.float32)})
            peaks.append(_executor.device_stats("FAKE", 0)["peak"])
            assert in_use(fake) < 4096
        assert 4 * MB <= peaks[1] < 16 * MB <= peaks[2] < 64 * MB and peaks[3] < MB


def test_a_closed_sessions_memory_is_anybodys(fake):
    """Two sessions, a device with room for one of them."""
    fake[0].set(memory=16 * MB)
    tf.release_memory()
    others = _executor.memory_stats()["cached"]         # of threads that other tests left waiting
    w, init = held("w", 12)
    a, b = tf.Session(), tf.Session()
    a.run(init)
    assert 12 * MB <= in_use(fake) < 13 * MB
    with pytest.raises(tf.errors.ResourceExhaustedError):
        b.run(init)
    a.close()
    assert in_use(fake) < MB
    b.run(init)
    total = b.run(tf.reduce_sum(w[:10]))
    assert total == 10
    b.close()
    gc.collect()
    assert in_use(fake) == 0
    tf.release_memory()         # sessions of other tests may be open still
    assert in_use(fake) == 0 and _executor.memory_stats()["cached"] < others + MB


def test_a_fraction_of_the_memory_is_a_limit(fake):
    config = tf.ConfigProto()
    config.pluggable_device_options.per_process_gpu_memory_fraction = 0.25
    fake[0].set(memory=64 * MB)
    w, init = held("w", 12)
    _, too_much = held("v", 6)
    try:
        with tf.Session(config=config) as session:
            assert _executor.device_stats("FAKE", 0)["limit"] == 16 * MB
            session.run(init)
            with pytest.raises(tf.errors.ResourceExhaustedError, match="OOM.*FAKE:0"):
                session.run(too_much)
            assert session.run(tf.reduce_sum(w[:4])) == 4       # the error broke nothing
    finally:
        for k in range(2):
            _executor.device_limit("FAKE", k, 0)
    gc.collect()
    assert in_use(fake) == 0


@pytest.mark.parametrize("mode", [dict(check_numerics=True), dict(debug=True)])
def test_values_on_the_device_are_checked(fake, mode):
    x = tf.placeholder(tf.float32, [200])
    with tf.device("/device:FAKE:0"):
        a = tf.add(x, 1.0, name="one")
        b = tf.multiply(a, a, name="squared")
    fake[0].set(delay_us=300, seed=3)
    with tf.Session(**mode) as session:
        np.testing.assert_array_equal(session.run(b, {x: np.ones(200)}), 4)
        feed = np.ones(200, np.float32)
        feed[77] = 3e38
        with pytest.raises(tf.errors.InvalidArgumentError, match="check_numerics") as caught:
            session.run(b, {x: feed})
        assert caught.value.op.name == "squared" and "the first at [77]" in caught.value.message
    if "debug" in mode:
        step = caught.value.__traceback__
        while step.tb_next:
            step = step.tb_next
        assert step.tb_frame.f_code.co_filename == __file__
        assert set(step.tb_frame.f_locals["inputs"]) == {"one:0"}
    del caught


def test_an_error_on_the_stream_is_raised_at_its_op(fake):
    """Without debug mode it is an error of the step, found when the stream reports."""
    with tf.device("/device:FAKE:0"):
        x = tf.placeholder(tf.float32, [8])
        y = tf.multiply(tf.add(x, 1.0, name="first"), 2.0, name="second") + 3.0
    fake[0].set(delay_us=500, seed=5)
    with tf.Session(debug=True) as session:
        session.run(y, {x: np.ones(8)})
        fake[0].set(fail_launch_late=2)
        with pytest.raises(tf.errors.InternalError) as caught:
            session.run(y, {x: np.ones(8)})
        fake[0].set(fail_launch_late=0)
        fake[0].settle()
        assert caught.value.op.name == "second"
    del caught
