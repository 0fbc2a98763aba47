"""A synchronous training whose processes are killed: every step's variables equal those of a run
that nobody disturbed.  chaos.py does it; `long.py chaos` does it a hundred times."""
import pathlib
import sys
import tempfile
import threading
import time

import pytest

import pyflow as tf
from pyflow.distributed.train import training

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import between_graph  # noqa: E402 - beside this file
import chaos  # noqa: E402
import chaos_async  # noqa: E402


def assert_holds(plan, *words):
    report = chaos.several(plan, chaos.arguments(words))
    assert chaos.holds(report), chaos.shown(report)
    assert report["compared"] > len(report["hits"])
    alone = [one for one in report["hits"] if one["kinds"] == ["worker"]]
    for what in ("processes", "sessions", "plans"):
        assert not any(one[f"new_{what}"] for one in alone), f"the survivors keep their {what}"


def test_a_worker_a_parameter_server_and_the_chief_are_killed():
    assert_holds([("worker",), ("ps",), ("chief",)])


@pytest.mark.long
def test_five_of_each_are_killed_and_two_at_once():
    plan = [(kind,) for kind in chaos.KINDS for _ in range(5)]
    assert_holds([*plan, ("worker", "chief"), ("ps", "chief")], "--seed", "1")


@pytest.mark.long
def test_kernels_crash():
    assert_holds([(kind,) for kind in chaos.KINDS], "--how", "crash")


@pytest.mark.long
def test_processes_are_frozen_replaced_and_thawed():
    assert_holds([(kind,) for kind in chaos.KINDS], "--how", "freeze", "--jobs", "3")


@pytest.mark.long
def test_parameter_servers_are_frozen_and_replaced_where_there_are_no_links(monkeypatch):
    """All that spoke to one over gRPC goes on with its successor, at another address."""
    monkeypatch.setenv("PYFLOW_LINKS", "none")
    assert_holds([("ps",)] * 2, "--how", "freeze")


@pytest.mark.long
def test_the_gil_is_held_for_longer_than_any_lease():
    assert_holds([(kind,) for kind in chaos.KINDS], "--how", "hold", "--seconds", "12", "--jobs", "3")


@pytest.mark.long
def test_survivors_compute_the_shards_of_a_worker_that_died():
    assert_holds([("worker",)] * 5, "--workers", "3", "--shards", "4")


@pytest.mark.parametrize("kinds", [["chief"], pytest.param(
    [*chaos.KINDS] * 4, marks=pytest.mark.long)], ids=len)
def test_no_step_of_an_asynchronous_training_is_lost_or_done_twice(kinds):
    """The chief's death alone took it back to its checkpoint once."""
    report = chaos_async.run(kinds)
    assert chaos_async.holds(report), chaos_async.shown(report)


@pytest.mark.long
def test_an_asynchronous_training_with_kills_learns_as_much():
    still, _ = chaos_async.accuracy([], 0, 6000)
    found, killed = chaos_async.accuracy(["worker", "ps", "chief", "worker"], 1, 6000)
    assert killed > 1 and abs(found - still) < chaos_async.BAND


def trained(folder, steps, first=True, draws=None):
    """The digest of the checkpoint at `steps`: one worker and a parameter server in this process,
    with random numbers in each step."""
    workers, ps, spec = between_graph.local_cluster(tf, 1, 1)
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        with tf.device(tf.train.replica_device_setter(
                cluster=spec, worker_device="/job:worker/task:0")):
            step = tf.train.get_or_create_global_step()
            w = tf.get_variable("w", [4])                  # a random first value
            x = tf.placeholder(tf.float32, [4])
            noise = tf.random_normal([4])
            loss = tf.reduce_sum(tf.square(w - x) * tf.nn.dropout(noise, 0.5))
            made = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.1), 1)
            train = made.minimize(loss, global_step=step)
        with training.training_session(
                workers[0], True, made, lambda step, source: {x: [step, source, 1, 2]},
                checkpoint_dir=str(folder), save_steps=3, last_step=steps) as sess:
            while not sess.should_stop():
                value, _ = sess.run([noise, train])
                if draws is not None:
                    draws.append(value.tolist())
    for server in workers + ps:
        server.stop()
    from pyflow.distributed.train import commits
    newest = commits.CheckpointFolder(str(folder)).newest()
    assert newest.step == steps
    return training.digest(newest.prefix)


def test_random_numbers_are_those_of_the_step(tmp_path):
    whole, first, rest = [], [], []
    wanted = trained(tmp_path / "whole", 10, draws=whole)
    trained(tmp_path / "parts", 5, draws=first)
    assert trained(tmp_path / "parts", 10, draws=rest) == wanted
    assert first + rest == whole and len(set(map(str, whole))) == 10


def test_replicas_with_tokens_cannot_be_recovered_exactly():
    workers, ps, spec = between_graph.local_cluster(tf, 1, 1)
    with tf.Graph().as_default():
        step, w = tf.train.get_or_create_global_step(), tf.get_variable("w", [])
        made = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1)
        made.minimize(w * w, global_step=step)
        with pytest.raises(ValueError, match="wait for tokens"):
            training.training_session(workers[0], True, made)
    for server in workers + ps:
        server.stop()


def test_a_worker_waits_until_all_variables_are_whole():
    """All have values, but the chief has yet to restore them."""
    workers, ps, spec = between_graph.local_cluster(tf, 2, 1)
    began = [threading.Event(), threading.Event()]

    def work(worker):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=spec, worker_device=f"/job:worker/task:{worker}")):
                step = tf.train.get_or_create_global_step()
                train = step.assign_add(1)
            if worker == 1:
                with tf.Session(workers[1].target) as sess:
                    sess.run(step.initializer)
            with training.training_session(workers[worker], worker == 0, last_step=10) as sess:
                began[worker].set()
                while not sess.should_stop():
                    sess.run(train)
    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(2)]
    threads[1].start()
    assert not began[1].wait(0.5)
    threads[0].start()
    assert began[1].wait(20)
    for thread in threads:
        thread.join()
    for server in workers + ps:
        server.stop()


def test_asynchronous_training_goes_on_from_its_checkpoint(tmp_path):
    workers, ps, spec = between_graph.local_cluster(tf, 2, 1)
    seen, both = [], threading.Barrier(2)

    def work(worker, until):
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=spec, worker_device=f"/job:worker/task:{worker}")):
                step = tf.train.get_or_create_global_step()
                w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
                x = tf.placeholder(tf.float32, [])
                train = tf.train.GradientDescentOptimizer(0.1).minimize(
                    tf.square(w - x), global_step=step)
            with training.training_session(
                    workers[worker], worker == 0, feed=lambda step, source: {x: 3.0},
                    checkpoint_dir=str(tmp_path), save_steps=10, last_step=until) as sess:
                both.wait(20)
                while not sess.should_stop():
                    sess.run(train)
                    seen.append(worker)
    for until in (40, 80):
        threads = [threading.Thread(target=work, args=(k, until)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for server in workers + ps:
        server.stop()
    assert 80 <= len(seen) <= 84 and set(seen) == {0, 1}


@pytest.mark.long
def test_workers_join_and_leave_while_it_runs():
    """Four shards under 1, 2, 4, 2, 1 processes: the bits of one."""
    with tempfile.TemporaryDirectory() as folder:
        training_of = chaos.Training(folder, 10**9, workers=1, shards=4)
        with training_of.cluster as cluster:
            assert training_of.wait_for_step(0.0), training_of.output[-20:]
            for count in (2, 4, 2, 1):
                began = time.monotonic()
                cluster.scale("worker", count)
                new = [f"worker-{n}" for n in range(1, count)]
                while not all(training_of.sessions(label) for label in new):
                    assert time.monotonic() < began + 30, training_of.output[-20:]
                    time.sleep(0.01)
                assert training_of.wait_for_step(time.monotonic() + 0.3)
            seen = training_of.steps()
        assert training_of.sessions("worker-0") == 1
    wanted = chaos.reference(seen[-1][1], 1, 1, 4)
    assert [sha for _, _, sha in seen] == [wanted[step] for _, step, _ in seen]


def test_a_program_of_tensorflow_s_goes_on_when_its_parameter_server_is_replaced(tmp_path):
    """MonitoredTrainingSession and its hooks, nothing of pyflow's own."""
    workers, ps, spec = between_graph.local_cluster(tf, 2, 1)
    ends, replaced = {}, []

    def work(worker):
        with tf.Graph().as_default():
            train, _, variables, step, made = between_graph.model(
                tf, spec, worker, lambda tf: between_graph.sync(tf, 2))
            hooks = [made.make_session_run_hook(worker == 0), tf.train.StopAtStepHook(last_step=60)]
            with tf.train.MonitoredTrainingSession(
                    workers[worker].target, worker == 0, str(tmp_path) if worker == 0 else None,
                    hooks=hooks, save_checkpoint_steps=5, log_step_count_steps=None,
                    save_summaries_steps=None, save_summaries_secs=None) as sess:
                while not sess.should_stop():
                    seen = sess.run([step, train])[0]
                    if worker == 0 and seen >= 25 and not replaced:
                        replaced.append(ps[0])
                        ps[0].stop()
                        ps.append(tf.train.Server(spec, "ps", 0))
            ends[worker] = True
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ends == {0: True, 1: True} and replaced
    reader = tf.train.NewCheckpointReader(tf.train.latest_checkpoint(str(tmp_path)))
    found = {name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()}
    for server in workers + ps[1:]:
        server.stop()
    workers, ps, spec = between_graph.local_cluster(tf, 2, 1)
    wanted = between_graph.train_sync(tf, workers, spec, 60)
    for server in workers + ps:
        server.stop()
    assert found == wanted
