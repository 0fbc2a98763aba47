"""tf.train.SyncReplicasOptimizer beside TensorFlow's recorded answers, and tf.train.ClusterSpec."""
import json
import pathlib
import sys
import threading

import numpy as np
import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import sync_replicas_script  # noqa: E402 - beside this file

WANTED = json.loads((HERE / "sync_replicas_answers.json").read_text())


@pytest.fixture(autouse=True)
def a_graph():
    with tf.Graph().as_default():
        yield


def test_as_tensorflow():
    found = sync_replicas_script.answers(tf)
    assert found.keys() == WANTED.keys()
    for case, steps in WANTED.items():
        for (step, v), (wanted_step, wanted) in zip(found[case], steps, strict=True):
            assert step == wanted_step, case
            np.testing.assert_allclose(v, wanted, rtol=1e-6, err_msg=case)


def replicas(count, aggregate, rate=1.0):
    """(variable, step, [train operation], [optimizer]) of replicas that give 1, 2, 4, ..."""
    v = tf.Variable([0.0, 8.0], name="v")
    step = tf.train.get_or_create_global_step()
    optimizers, train = [], []
    for k in range(count):
        optimizers.append(tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(rate), replicas_to_aggregate=aggregate,
            total_num_replicas=count))
        train.append(optimizers[-1].apply_gradients([(tf.constant([2.0 ** k, 0.0]), v)], step))
    return v, step, train, optimizers


def together(sess, operations):
    threads = [threading.Thread(target=sess.run, args=(op,)) for op in operations]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_a_backups_late_gradient_is_dropped():
    v, step, train, optimizers = replicas(3, aggregate=2)
    coordinator = tf.train.Coordinator()
    tokens = optimizers[0].get_init_tokens_op(0)
    assert tokens.name == "no_init_tokens" and tokens.type == "NoOp"
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run([optimizers[0].chief_init_op] + [o.local_step_init_op for o in optimizers[1:]])
        optimizers[0].get_chief_queue_runner().create_threads(sess, coordinator, daemon=True,
                                                              start=True)
        together(sess, train[:2])                               # (1 + 2) / 2
        np.testing.assert_array_equal(sess.run(v), [-1.5, 8.0])
        sess.run(train[2])                                      # of step 0: dropped, no error
        together(sess, train[1:])                               # (2 + 4) / 2
        np.testing.assert_array_equal(sess.run(v), [-4.5, 8.0])
        assert sess.run(step) == 2
        coordinator.request_stop()


def test_the_hook_trains_a_monitored_session():
    v = tf.get_variable("v", initializer=[4.0, 2.0])
    averages = tf.train.ExponentialMovingAverage(0.5)
    step = tf.train.get_or_create_global_step()
    inner = tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer = tf.train.SyncReplicasOptimizer(inner, 1, variable_averages=averages,
                                               variables_to_average=[v], name="together")
    for call in (optimizer.get_chief_queue_runner, optimizer.get_init_tokens_op):
        with pytest.raises(ValueError, match="after apply_gradients"):
            call()
    with pytest.raises(ValueError, match="apply_gradient should be called before"):
        optimizer.make_session_run_hook(True).begin()
    train = optimizer.minimize(tf.reduce_sum(v * v) / 2, global_step=step)
    assert train.op.type == "Assign" and optimizer.variables() == inner.variables()
    assert optimizer.get_slot(v, "momentum").name == "v/Momentum:0"
    assert optimizer.get_slot_names() == ["momentum"]
    hook = optimizer.make_session_run_hook(is_chief=True, num_tokens=0)
    average = averages.average(v)
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as sess:
        for _ in range(3):
            sess.run(train)
        sess.run(train)              # by its token the averages of the step before are there
        at, found = sess.run([step, v])
        seen = sess.run(average)
    value, speed, mean, means = np.float32([4, 2]), 0, np.float32([4, 2]), []
    for _ in range(at):
        speed = 0.9 * speed + value
        value = value - 0.1 * speed
        mean = 0.5 * mean + 0.5 * value
        means.append(mean)
    assert at == 4
    np.testing.assert_allclose(found, value, rtol=1e-5)
    assert any(np.allclose(seen, mean, rtol=1e-5) for mean in means[2:])


def test_refused():
    v, step, _, optimizers = replicas(2, aggregate=4)
    with pytest.raises(ValueError, match=r"Too few tokens .* 1 \(given\) vs 2 \(needed\)"):
        optimizers[0].get_init_tokens_op(1)
    fresh = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(), 1)
    with pytest.raises(ValueError, match="at least one variable"):
        fresh.apply_gradients([], step)
    with pytest.raises(ValueError, match="Global step is required"):
        fresh.apply_gradients([(tf.zeros([2]), v)])
    with pytest.raises(ValueError, match="Unknown grad type! 'x' of v:0"):
        fresh.apply_gradients([("x", v)], step)


# ---------------------------------------------------------------- ClusterSpec

DENSE = {"worker": ["a:1", "b:2"], "ps": ("c:3",)}
SPARSE = {"worker": {0: "a:1", 2: "b:2"}, "ps": ["c:3"]}


def test_cluster_spec():
    dense, sparse = tf.train.ClusterSpec(DENSE), tf.train.ClusterSpec(SPARSE)
    assert dense.as_dict() == {"worker": ["a:1", "b:2"], "ps": ["c:3"]}
    assert sparse.as_dict() == {"worker": {0: "a:1", 2: "b:2"}, "ps": ["c:3"]}
    assert sparse.jobs == ["worker", "ps"] and sparse.num_tasks("worker") == 2
    assert sparse.task_indices("worker") == [0, 2]
    assert sparse.task_address("worker", 2) == "b:2"
    assert sparse.job_tasks("worker") == ["a:1", None, "b:2"]
    assert repr(sparse) == "ClusterSpec({'ps': ['c:3'], 'worker': {0: 'a:1', 2: 'b:2'}})"
    assert sparse == tf.train.ClusterSpec(SPARSE) != dense and not tf.train.ClusterSpec({})
    assert tf.train.ClusterSpec({"w": []}).as_dict() == {"w": {}}


def test_cluster_def():
    message = tf.train.ClusterSpec(SPARSE).as_cluster_def()
    wanted = tf.train.ClusterDef()
    wanted.job.add(name="ps").tasks[0] = "c:3"
    job = wanted.job.add(name="worker")
    job.tasks[0], job.tasks[2] = "a:1", "b:2"
    assert message == wanted and [j.name for j in message.job] == ["ps", "worker"]
    for made in (tf.train.ClusterSpec(wanted), tf.train.ClusterSpec(tf.train.ClusterSpec(wanted))):
        assert made == tf.train.ClusterSpec(SPARSE) and made.as_cluster_def() == wanted
    with tf.device(tf.train.replica_device_setter(cluster=tf.train.ClusterSpec(DENSE))):
        assert tf.Variable(0.0).device == "/job:ps/task:0"


def test_bad_clusters_are_refused():
    for bad, message in ((["a:1"], "`cluster` must be a dictionary.*got"),
                         ({"w": "a:1"}, "tasks for job 'w' must be a list"),
                         ({1: ["a:1"]}, "Job name 1 must be bytes or unicode"),
                         ({"w": [7]}, "Task address 7 must be bytes or unicode")):
        with pytest.raises(TypeError, match=message):
            tf.train.ClusterSpec(bad)
    spec = tf.train.ClusterSpec(SPARSE)
    for call in (spec.num_tasks, spec.task_indices, spec.job_tasks):
        with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
            call("x")
    with pytest.raises(ValueError, match="No task with index 1 in job 'worker'"):
        spec.task_address("worker", 1)
