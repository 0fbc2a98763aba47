"""tf.get_session_handle of a device's tensor: it stays in the device's memory, and comes to where it is
read."""
import numpy as np

import pyflow as tf


def test_a_tensor_stays_on_its_device(fake):
    x = tf.placeholder(tf.float32, [1000])
    with tf.device("/device:FAKE:0"):
        handle = tf.get_session_handle(tf.sqrt(x, name="root"))
    array = np.arange(1000, dtype=np.float32)
    with tf.Session() as sess:
        h = sess.run(handle, {x: array})
        assert h.handle == "GetSessionHandle;0;/job:localhost/replica:0/task:0/device:FAKE:0"
        assert not sess._state.kept(h.handle).on_host
        fake[0].settle()
        held = fake[0]["bytes_in_use"]
        assert held >= 4000
        np.testing.assert_allclose(h.eval(), np.sqrt(array), rtol=1e-6)
        holder, kept = tf.get_session_tensor(h.handle, tf.float32)
        assert kept.device.endswith("FAKE:0")
        with tf.device("/device:FAKE:1"):
            there = tf.sqrt(kept)
        with tf.device("/cpu:0"):
            here, fed = tf.identity(kept) + 1.0, x + 2.0
        for tensor, want in ((there, np.sqrt(np.sqrt(array))), (here, np.sqrt(array) + 1)):
            np.testing.assert_allclose(sess.run(tensor, {holder: h.handle}), want, rtol=1e-6)
        np.testing.assert_allclose(sess.run(fed, {x: h}), np.sqrt(array) + 2, rtol=1e-6)
        h.delete()
        fake[0].settle()
        assert fake[0]["bytes_in_use"] < held
