"""Threads that save one prefix at once: each save succeeds, and what is there is whole."""
import threading

import numpy as np
import pytest

import pyflow as tf


@pytest.mark.parametrize("how", [{}, {"format": "tensorflow"}, {"sharded": True}, {"savers": 2}],
                         ids=str)
def test_two_threads_save_one_prefix(tmp_path, how):
    """As Supervisor.stop does beside its thread that saves: 42 of 200 failed, "cannot rename"."""
    how = dict(how)
    with tf.Graph().as_default():
        values = [tf.Variable(tf.fill([64], float(k))) for k in range(4)]
        savers = [tf.train.Saver(**{k: v for k, v in how.items() if k != "savers"})
                  for _ in range(how.get("savers", 1))]
        failed, prefix = [], str(tmp_path / "model")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())

            def save(k):
                try:
                    for _ in range(12):
                        savers[k % len(savers)].save(sess, prefix)
                except Exception as problem:
                    failed.append(problem)
            threads = [threading.Thread(target=save, args=(k,)) for k in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failed, failed[0]
            sess.run([v.assign(tf.zeros([64])) for v in values])
            savers[0].restore(sess, prefix)
            for k, value in enumerate(sess.run(values)):
                assert np.array_equal(value, np.full([64], k, np.float32))
    left = [path.name for path in tmp_path.iterdir() if "tmp" in path.name or "_temp" in path.name]
    assert not left
