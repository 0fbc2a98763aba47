"""Between-graph training: replicas in step and not, backups, stale gradients, sums in task order,
savers of several parameter servers.  between_graph.py has the programs, and TensorFlow's
answers."""
import json
import pathlib
import random
import sys
import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.lib.queue import accumulators
from pyflow.train.sync_replicas import source_of

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import between_graph  # noqa: E402 - beside this file
import slow_worker  # noqa: E402

ANSWERS = json.loads((HERE / "between_graph.json").read_text())


@pytest.fixture
def cluster():
    workers, ps, spec = between_graph.local_cluster(tf, 2, 2)
    yield workers, ps, spec
    for server in workers + ps:
        server.stop()


def assert_like(found, expected):
    assert set(found) == set(expected)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-6, atol=1e-6, err_msg=name)


def test_synchronous_training_ends_where_tensorflow_s_does(cluster):
    workers, _, spec = cluster
    assert_like(between_graph.train_sync(tf, workers, spec, 5), ANSWERS)


def expected_with_rows(steps):
    """The embedding of train_sync with sparse_ids, and its momentum: each row's mean is over the
    workers that had it, and rows that none had are left alone."""
    values = {"w": np.zeros([3, 1]), "b": np.zeros([1]), "table": np.ones([6, 1])}
    momenta = {name: np.zeros_like(value) for name, value in values.items()}
    for _ in range(steps):
        sums, counts = {n: np.zeros_like(v) for n, v in values.items()}, np.zeros([6, 1])
        for worker in range(2):
            (x, y), ids = between_graph.data(worker), between_graph.sparse_ids(worker)
            off = 2 / 8 * (x @ values["w"] + values["b"] + values["table"][ids] - y)
            sums["w"] += x.T @ off / 2
            sums["b"] += off.sum() / 2
            np.add.at(sums["table"], ids, off)
            counts[np.unique(ids)] += 1
        sums["table"] /= np.maximum(counts, 1)
        for name in values:
            momenta[name] = momenta[name] * 0.9 + sums[name]
            values[name] = values[name] - 0.05 * momenta[name]
    return values["table"], momenta["table"]


def test_synchronous_training_of_an_embedding(cluster):
    workers, _, spec = cluster
    found = between_graph.train_sync(tf, workers, spec, 5, between_graph.sparse_ids)
    table, momentum = expected_with_rows(5)
    np.testing.assert_allclose(found["table"], table, rtol=2e-5)
    np.testing.assert_allclose(found["table/Momentum"], momentum, rtol=2e-5, atol=1e-5)


def test_bits_do_not_depend_on_who_is_late():
    found = []
    for seed in range(3):
        workers, ps, spec = between_graph.local_cluster(tf, 2, 1)
        rng = random.Random(seed)
        found.append(between_graph.train_sync(
            tf, workers, spec, 8, delay=lambda worker, k: time.sleep(rng.random() * 0.01)))
        for server in workers + ps:
            server.stop()
    assert found[0] == found[1] == found[2] and found[0]["global_step"] == 8


def test_gradients_are_summed_in_the_order_of_their_sources_each_once():
    big, small = np.float32([1e8, 1.0]), np.float32([1.0, 1e-8])
    given = [big, small, -big, small]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        with tf.Graph().as_default(), tf.Session() as sess:
            sums = accumulators.ConditionalAccumulator(tf.float32, [2], reduction_type="SUM")
            x, source = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int64, [])
            step = tf.placeholder_with_default(tf.constant(7, tf.int64), [])
            apply, taken = sums._apply_from(x, step, source), sums._take_at(4, step)
            sess.run(sums.set_global_step(7))
            for k in order:
                sess.run(apply, {x: given[k], source: k})
                sess.run(apply, {x: given[k] + 1, source: k})       # again: dropped
            sess.run(apply, {x: big, source: 9, step: 6})           # stale
            sess.run(apply, {x: big, source: 9, step: 8})           # of what was before a restore
            assert sess.run(sums.num_accumulated()) == 4
            expected = ((given[0] + given[1]) + given[2]) + given[3]
            np.testing.assert_array_equal(sess.run(taken), expected)
            with pytest.raises(tf.errors.AbortedError, match="another step"):
                sess.run(taken)                                     # it is at 8 by now
            assert sess.run(sums.num_accumulated()) == 0


def test_rows_of_sources_are_summed_in_their_order():
    with tf.Graph().as_default(), tf.Session() as sess:
        sums = accumulators.SparseConditionalAccumulator(tf.float32, [4, 1])
        rows, values = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 1])
        source, step = tf.placeholder(tf.int64, []), tf.constant(0, tf.int64)
        apply = sums._apply_from(
            tf.IndexedSlices(values, rows, tf.constant([4, 1], tf.int64)), step, source)
        taken = sums._take_at(3, step)
        for k, ids, xs in ((2, [1, 3], [-1e8, 2]), (0, [1, 2], [1e8, 5]), (1, [1], [1])):
            sess.run(apply, {rows: ids, values: np.reshape(xs, [-1, 1]), source: k})
        found = sess.run(taken)
        assert found.indices.tolist() == [1, 2, 3]
        first = ((np.float32(1e8) + np.float32(1)) + np.float32(-1e8)) / np.float32(3)
        np.testing.assert_array_equal(found.values, [[first], [5], [2]])


def test_gradients_with_and_without_a_source_do_not_mix():
    with tf.Graph().as_default(), tf.Session() as sess:
        sums = accumulators.ConditionalAccumulator(tf.float32, [])
        named = sums._apply_from(1.0, tf.constant(0, tf.int64), tf.constant(1, tf.int64))
        sess.run(named)
        with pytest.raises(tf.errors.InvalidArgumentError, match="names none"):
            sess.run(sums.apply_grad(1.0))
        sess.run(sums.take_grad(1))
        sess.run(sums.apply_grad(1.0, local_step=1))
        with pytest.raises(tf.errors.InvalidArgumentError, match="name no source"):
            sess.run(sums._apply_from(1.0, tf.constant(1, tf.int64), tf.constant(1, tf.int64)))


def test_a_task_s_number_orders_its_gradients():
    assert source_of("/job:worker/task:3/device:CPU:0") == 3
    assert source_of("/job:chief/task:0") == -1
    assert source_of("/job:worker") is None and source_of("") is None and source_of(None) is None


def test_asynchronous_training_loses_no_step(cluster):
    workers, _, spec = cluster
    ends, both = [], threading.Barrier(2)

    def work(worker):
        with tf.Graph().as_default():
            train, loss, _, step, _ = between_graph.model(
                tf, spec, worker, lambda tf: tf.train.GradientDescentOptimizer(0.02))
            hooks = [tf.train.StopAtStepHook(last_step=150)]
            with tf.train.MonitoredTrainingSession(
                    workers[worker].target, is_chief=worker == 0, hooks=hooks) as sess:
                first, runs = sess.run(loss), 0
                both.wait(20)
                while not sess.should_stop():
                    last, _ = sess.run([loss, train])
                    runs += 1
            ends.append((first, last, runs))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ends) == 2 and sum(runs for _, _, runs in ends) in (150, 151)
    assert all(last < first / 4 for first, last, _ in ends)


def test_backups_are_not_waited_for_and_their_stale_gradients_dropped():
    workers, ps, spec = between_graph.local_cluster(tf, 3, 1)
    there, late, stop = (threading.Event() for _ in range(3))
    ends = {}

    def work(worker):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=spec, worker_device=f"/job:worker/task:{worker}")):
                step = tf.train.get_or_create_global_step()
                w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
                grad = tf.placeholder(tf.float32, [])
                made = tf.train.SyncReplicasOptimizer(
                    tf.train.GradientDescentOptimizer(1.0), 2, total_num_replicas=3)
                train = made.apply_gradients([(grad, w)], global_step=step)
            with tf.train.MonitoredTrainingSession(
                    workers[worker].target, is_chief=worker == 0,
                    hooks=[made.make_session_run_hook(worker == 0)]) as sess:
                if worker == 2:         # there at step 0; gives its gradient when the others are at 5
                    there.set()
                    late.wait(20)
                    sess.run(train, {grad: 1000.0})
                    ends[2] = sess.run([made.position[0], step])
                    stop.set()
                else:
                    there.wait(20)
                    for _ in range(5):
                        sess.run(train, {grad: 1.0})
                    ends[worker] = sess.run([w, step])
                    if len(ends) == 2:
                        late.set()
                    stop.wait(20)
    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    for server in workers + ps:
        server.stop()
    assert ends[0] == ends[1] == [-5.0, 5] and ends[2] == [5, 5]


def test_no_variable_changes_before_the_gradients_of_all_are_there(cluster):
    """Else a replica that was killed between two of its gradients, and begins anew, would compute
    the second with a variable of the next step."""
    workers, _, spec = cluster
    with tf.Graph().as_default() as graph:
        with tf.device(tf.train.replica_device_setter(
                cluster=spec, worker_device="/job:worker/task:0")):
            step = tf.train.get_or_create_global_step()
            made = [tf.get_variable(name, [], initializer=tf.zeros_initializer())
                    for name in ("v", "w")]
            sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 2)
            sync.apply_gradients([(tf.constant(1.0), v) for v in made], global_step=step)
        init = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        other = sync._local_source.assign(1)
    first, second = [op for op in graph.get_operations() if op.type == "_AccumulatorApplyFrom"]
    with tf.Session(workers[0].target, graph=graph) as sess:
        sess.run(init)
        sess.run(sync.chief_init_op)
        update = threading.Thread(target=sess.run, args=(sync._update_op,))
        update.start()
        sess.run([first, second])
        sess.run(other)
        sess.run(first)                     # of both; the second of one alone
        time.sleep(0.2)
        assert sess.run(made) == [0.0, 0.0] and update.is_alive()
        sess.run(second)
        update.join(20)
        assert sess.run(made) == [-1.0, -1.0]


@pytest.mark.parametrize("format", ["pyflow", "tensorflow"])
def test_each_parameter_server_writes_its_part_of_a_sharded_checkpoint(cluster, format, tmp_path):
    workers, _, spec = cluster
    with tf.Graph().as_default() as graph:
        with tf.device(tf.train.replica_device_setter(
                cluster=spec, worker_device="/job:worker/task:0")):
            made = [tf.get_variable(f"v{k}", [k + 1], initializer=tf.ones_initializer())
                    for k in range(5)]
        double = [v.assign(2 * v) for v in made]
        saver = tf.train.Saver(sharded=True, format=format)
        init = tf.global_variables_initializer()
    writers = {op.device for op in graph.get_operations() if op.type == "SaveV2"}
    assert writers == ({"/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0"}
                       if format == "pyflow" else {"/device:CPU:0"})
    with tf.Session(workers[0].target, graph=graph) as sess:
        sess.run(init)
        path = saver.save(sess, str(tmp_path / "model"), global_step=1)
        sess.run(double)
        saver.restore(sess, path)
        assert [sess.run(v).tolist() for v in made] == [[1.0] * (k + 1) for k in range(5)]
        sess.run(double)
        saver.save(sess, str(tmp_path / "model"), global_step=1)        # again, over it
    assert not [p for p in tmp_path.iterdir() if "_temp_" in p.name]
    reader = tf.train.NewCheckpointReader(path)
    assert [reader.get_tensor(f"v{k}").tolist() for k in range(5)] == [
        [2.0] * (k + 1) for k in range(5)]


@pytest.mark.long
def test_a_slow_worker_costs_nothing_where_there_is_a_backup():
    healthy, slow = slow_worker.measure(20.0, 60)
    assert slow < slow_worker.BOUND * healthy, (healthy, slow)


@pytest.mark.parametrize("tasks, slow", [(True, 3), (False, 3), (False, 2)])
def test_groups_are_in_step_within_and_not_with_each_other(tasks, slow):
    """Two groups of two workers on one variable.  The second waits for one of its own while the
    first takes 20 steps; then it takes 3.  tasks: replicas at a gate, or with tokens.  slow: 2, its
    chief, who has no session yet when 3 has one (at a gate 3 waits for it), or 3."""
    workers, ps, spec = between_graph.local_cluster(tf, 4, 1)
    there, chief_is_there, late = (threading.Event() for _ in range(3))
    ends = {}
    given = {0: 0.5, 1: 1.5, 2: 50.0, 3: 150.0}            # a mean of 1, and of 100

    def work(worker):
        group, chief, steps = worker // 2, worker % 2 == 0, 3 if worker > 1 else 20
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=spec, worker_device=f"/job:worker/task:{worker}" if tasks else None)):
                step = tf.train.get_or_create_global_step()
                w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
                sgd = tf.train.GradientDescentOptimizer(1.0, use_locking=True)
                made = tf.train.SyncReplicasOptimizer(sgd, 2, group=f"group{group}")
                train = made.apply_gradients([(tf.constant(given[worker]), w)], global_step=step)
            if worker == slow == 2:
                late.wait(20)
            with tf.train.MonitoredTrainingSession(
                    workers[worker].target, is_chief=worker == 0,
                    hooks=[made.make_session_run_hook(chief, num_tokens=0)]) as sess:
                if worker == 3:
                    there.set()
                    (late if slow == 3 else chief_is_there).wait(20)
                elif worker == 2:
                    chief_is_there.set()
                else:
                    there.wait(20)
                for _ in range(steps):
                    sess.run(train)
                ends[worker] = sess.run([w, step])
                if {0, 1} <= set(ends):
                    late.set()
    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    for server in workers + ps:
        server.stop()
    assert ends[0] == ends[1] == [-20.0, 20] and ends[2] == ends[3] == [-320.0, 23]
