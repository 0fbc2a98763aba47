"""Monitored sessions, their hooks, scaffolds, session managers and the supervisor."""
import glob
import logging
import os
import re
import threading

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made
    tf.summary.FileWriterCache.clear()


def counting():
    """(global step, an op that adds one to it and to `v`, v)."""
    step = tf.train.get_or_create_global_step()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    return step, tf.group(step.assign_add(1), v.assign_add(2.0)), v


class Recorder(tf.train.SessionRunHook):
    def __init__(self, fetch=None, feeds=None):
        self.calls, self.fetch, self.feeds = [], fetch, feeds

    def begin(self):
        self.calls.append("begin")

    def after_create_session(self, session, coord):
        assert not coord.should_stop()
        self.calls.append("session")

    def before_run(self, run_context):
        self.calls.append("before")
        return tf.train.SessionRunArgs(self.fetch, self.feeds)

    def after_run(self, run_context, run_values):
        self.calls.append(("after", run_values.results))

    def end(self, session):
        self.calls.append("end")


def test_the_order_of_a_hooks_calls_and_its_fetches():
    _, train, v = counting()
    x = tf.placeholder(tf.float32, [])
    hook = Recorder({"twice": x * 2.0}, {x: 4.0})
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        assert sess.run([train, v.name])[1] is not None
        assert sess.graph is tf.get_default_graph() and tf.get_default_graph().finalized
    assert hook.calls == ["begin", "session", "before", ("after", {"twice": 8.0}), "end"]
    assert not tf.get_default_graph().finalized and sess.should_stop()
    with pytest.raises(RuntimeError, match="already closed"):
        sess.run(v)


def test_feeds_of_two_are_refused():
    x = tf.placeholder(tf.float32, [])
    with tf.train.MonitoredSession(hooks=[Recorder(x, {x: 1.0})]) as sess:
        with pytest.raises(RuntimeError, match="fed by a SessionRunHook and user"):
            sess.run(x, {x: 2.0})


@pytest.mark.parametrize("hook, steps", [
    (lambda: tf.train.StopAtStepHook(num_steps=3), 3),
    (lambda: tf.train.StopAtStepHook(last_step=5), 5)])
def test_stop_at_step(hook, steps):
    step, train, _ = counting()
    with tf.train.MonitoredTrainingSession(hooks=[hook()]) as sess:
        while not sess.should_stop():
            at = sess.run([train, step])[1]
        with pytest.raises(RuntimeError, match="after should_stop"):
            sess.run(train)
    assert at in (steps, steps - 1)         # read before or after the update
    with pytest.raises(ValueError, match="Only one of"):
        tf.train.StopAtStepHook(1, 2)


def test_checkpoints_are_written_restored_and_counted(tmp_path):
    def run(steps):
        with tf.Graph().as_default():
            step, train, v = counting()
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), save_checkpoint_steps=2,
                    hooks=[tf.train.StopAtStepHook(last_step=steps)]) as sess:
                begun = sess.run(step)
                while not sess.should_stop():
                    sess.run(train)
        return begun
    assert run(5) == 0 and run(9) == 5
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-9")
    reader = tf.train.load_checkpoint(str(tmp_path)) if hasattr(tf.train, "load_checkpoint") else None
    if reader is not None:
        assert reader.get_tensor("v") == 18.0
    assert os.path.exists(tmp_path / "graph.pbtxt") and glob.glob(str(tmp_path / "events.out.*"))


def test_random_streams_go_on_after_a_restart(tmp_path):
    def run(last, folder):
        with tf.Graph().as_default():
            tf.set_random_seed(4)
            step = tf.train.get_or_create_global_step()
            v = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
            noise = tf.random_normal([3])
            train = tf.group(v.assign_add(noise), step.assign_add(1))
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(folder), save_checkpoint_steps=3,
                    hooks=[tf.train.StopAtStepHook(last_step=last)]) as sess:
                while not sess.should_stop():
                    sess.run(train)
                return sess._inner.sess.run(v)
    whole = run(12, tmp_path / "whole")
    run(5, tmp_path / "parts")
    np.testing.assert_array_equal(run(12, tmp_path / "parts"), whole)
    kept = {re.search(r"-(\d+)\.streams", p)[1] for p in glob.glob(f"{tmp_path}/parts/*.streams.npz")}
    saved = tf.train.get_checkpoint_state(str(tmp_path / "parts")).all_model_checkpoint_paths
    assert kept == {path.rpartition("-")[2] for path in saved}


def test_damaged_streams_are_told_and_do_not_stop_a_restore(tmp_path, caplog):
    _, train, _ = counting()
    noise = tf.random_normal([])
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "pyflow"), \
                tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as sess:
            sess.run([train, noise])
        [path] = sorted(glob.glob(f"{tmp_path}/*.streams.npz"))[-1:]
        with open(path, "wb") as file:
            file.write(b"PK\x03\x04 nothing of the kind")
        tf.summary.FileWriterCache.clear()
    assert "were not set" in caplog.text


def test_a_lost_session_is_made_again_and_restored(tmp_path):
    step, train, v = counting()
    lose = [True]

    def fail():
        if lose and sess._inner is not None:
            lose.clear()
            raise tf.errors.AbortedError(None, None, "preempted")

    class Loser(tf.train.SessionRunHook):
        def before_run(self, run_context):
            if run_context.session.run(step) == 3:
                fail()
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), save_checkpoint_steps=1,
            hooks=[Loser(), tf.train.StopAtStepHook(last_step=6)]) as sess:
        runs = 0
        while not sess.should_stop():
            sess.run(train)
            runs += 1
        assert sess._inner.sess.run(v) == 12.0
    assert not lose and runs == 6


def test_a_session_that_a_thread_loses_while_it_is_made_is_made_again():
    """As a chief's thread of steps does when a parameter server dies at once."""
    step, train, _ = counting()
    lose = [True]

    class Loser(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            def fail():
                coord.request_stop(tf.errors.UnavailableError(None, None, "it is gone"))
                session.close()
            if lose:
                lose.clear()
                thread = threading.Thread(target=fail)
                thread.start()
                thread.join()

    class Later(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            session.run(step)                   # in a session that is closed

    with tf.train.MonitoredSession(hooks=[Loser(), Later()]) as sess:
        sess.run(train)
        assert not lose and sess.run(step) == 1

    class Wrong(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            raise KeyError("a hook's own")
    with pytest.raises(KeyError, match="a hook's own"):
        tf.train.MonitoredSession(hooks=[Wrong()])


def test_singular_sessions_do_not_recover():
    _, train, _ = counting()

    class Loser(tf.train.SessionRunHook):
        def before_run(self, run_context):
            raise tf.errors.AbortedError(None, None, "preempted")
    with pytest.raises(tf.errors.AbortedError):
        with tf.train.SingularMonitoredSession(hooks=[Loser()]) as sess:
            assert isinstance(sess.raw_session(), tf.Session)
            sess.run(train)


def test_the_end_of_input_ends_the_loop():
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue_many([[1, 2, 3]])])
    limited = tf.train.limit_epochs(tf.constant([1, 2, 3]), 1)
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue_many([limited])]))
    got, item = [], queue.dequeue()
    with tf.train.MonitoredTrainingSession() as sess:
        while not sess.should_stop():
            got.append(sess.run(item))
    assert got == [1, 2, 3] and runner.name


def test_tf_logging_decides_what_hooks_say(caplog):
    """As in TensorFlow: set_verbosity(INFO) shows LoggingTensorHook's lines, WARN does not."""
    before = tf.logging.get_verbosity()
    for level in (tf.logging.INFO, tf.logging.WARN):
        with tf.Graph().as_default():
            step, train, v = counting()
            hooks = [tf.train.LoggingTensorHook({"v": v * 0.05}, every_n_iter=1),
                     tf.train.StopAtStepHook(last_step=2)]
            caplog.clear()
            try:
                tf.logging.set_verbosity(level)
                with tf.train.SingularMonitoredSession(hooks) as sess:
                    while not sess.should_stop():
                        sess.run(train)
            finally:
                tf.logging.set_verbosity(before)
        assert ("v = 0.1 (" in caplog.text) == (level == tf.logging.INFO)


def test_nan_logging_and_final_ops(caplog):
    step, train, v = counting()
    loss = tf.where(tf.greater(v, 3.0), v / 0.0 - v / 0.0, v)
    final = tf.train.FinalOpsHook({"v": v + 1.0})
    with caplog.at_level(logging.INFO, "tensorflow"):
        with tf.train.MonitoredSession(hooks=[
                tf.train.LoggingTensorHook({"v": v}, every_n_iter=1), final,
                tf.train.NanTensorHook(loss, fail_on_nan_loss=False)]) as sess:
            while not sess.should_stop():
                sess.run(train)
    assert "v = " in caplog.text and "Model diverged with loss = NaN" in caplog.text
    assert final.final_ops_values["v"] >= 5.0
    with pytest.raises(tf.train.NanLossDuringTrainingError, match="NaN loss"):
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(tf.constant(np.nan))]) as sess:
            sess.run(train)


def test_summaries_and_steps_per_second(tmp_path):
    step, train, v = counting()
    tf.summary.scalar("value", v)
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path), save_summaries_steps=2, log_step_count_steps=3,
            hooks=[tf.train.StopAtStepHook(last_step=10)]) as sess:
        while not sess.should_stop():
            sess.run(train)
    tf.summary.FileWriterCache.clear()
    tags = {}
    for path in glob.glob(str(tmp_path / "events.out.*")):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                tags.setdefault(value.tag, []).append(event.step)
    assert len(tags["value"]) >= 4 and len(tags["global_step/sec"]) >= 2


def test_the_profiler_hook_writes_timelines(tmp_path):
    step, train, _ = counting()
    hook = tf.train.ProfilerHook(save_steps=2, output_dir=str(tmp_path))
    with tf.train.MonitoredSession(hooks=[hook]) as sess:
        for _ in range(6):
            sess.run(train)
    assert glob.glob(str(tmp_path / "timeline-*.json"))


def test_step_functions():
    step, train, v = counting()
    with tf.train.MonitoredSession() as sess:
        def two(step_context):
            step_context.session.run(train)
            return step_context.run_with_hooks(v)
        assert sess.run_step_fn(two) == 2.0
        with pytest.raises(ValueError, match="step_context"):
            sess.run_step_fn(lambda other: None)
        with pytest.raises(StopIteration):
            sess.run_step_fn(lambda step_context: step_context.request_stop())


def test_scaffolds_find_make_and_say_what_is_missing():
    _, train, v = counting()
    seen = []
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, sess: seen.append(sess.run(v)))
    with tf.train.MonitoredTrainingSession(scaffold=scaffold) as sess:
        sess.run(train)
    assert seen == [0.0] and scaffold.saver in tf.get_collection(tf.GraphKeys.SAVERS)
    tf.add_to_collection(tf.GraphKeys.INIT_OP, tf.no_op())
    tf.add_to_collection(tf.GraphKeys.INIT_OP, tf.no_op())
    with pytest.raises(RuntimeError, match="More than one item"):
        tf.train.Scaffold().finalize()


def test_session_managers_name_what_has_no_value(tmp_path):
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with pytest.raises(RuntimeError, match="Variables not initialized: w"):
        manager.prepare_session("", init_op=v.initializer)
    with pytest.raises(RuntimeError, match="no init_op"):
        tf.train.SessionManager().prepare_session("")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(w.assign(7.0))
        saver.save(sess, str(tmp_path / "model"))
    sess, restored = manager.recover_session("", saver=saver, checkpoint_dir=str(tmp_path))
    assert restored and sess.run(w) == 7.0
    _, restored = manager.recover_session("", saver=saver, checkpoint_dir=str(tmp_path / "none"))
    assert not restored
    with pytest.raises(tf.errors.DeadlineExceededError, match="not ready after"):
        tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(),
                                recovery_wait_secs=0.05).wait_for_session("", max_wait_secs=0.1)


def test_the_supervisor(tmp_path):
    step, train, v = counting()
    tf.summary.scalar("value", v)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0.05,
                                     save_model_secs=0.05)
    waits = threading.Event()
    with supervisor.managed_session() as sess:
        for _ in range(20):
            assert not supervisor.should_stop()
            sess.run(train)
            waits.wait(0.02)
    assert tf.train.latest_checkpoint(str(tmp_path)) and supervisor.coord.joined
    with supervisor.managed_session(start_standard_services=False) as sess:
        assert sess.run(step) > 0
    with pytest.raises(ZeroDivisionError):
        with supervisor.managed_session(start_standard_services=False):
            raise ZeroDivisionError


def test_an_initialisable_iterator_goes_on_after_a_restart(tmp_path):
    def run(last):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            data = tf.data.Dataset.range(1000).shuffle(100, seed=2)
            iterator = data.make_initializable_iterator()
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS,
                                 tf.data.experimental.make_saveable_from_iterator(iterator))
            item, got = iterator.get_next(), []
            train = step.assign_add(1)
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), save_checkpoint_steps=5,
                    hooks=[tf.train.StopAtStepHook(last_step=last)]) as sess:
                while not sess.should_stop():
                    got.append(int(sess.run([item, train])[0]))
        return got
    parts = run(7) + run(20)
    assert len(set(parts)) == len(parts) == 20
    with tf.Session() as sess:
        following = tf.data.Dataset.range(1000).shuffle(
            100, seed=2).make_one_shot_iterator().get_next()
        assert parts == [int(sess.run(following)) for _ in range(20)]


def test_a_profiler_writes_into_the_folder_it_is_in(tmp_path, monkeypatch):
    """Its default folder, "", was one that could not be made."""
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        step = tf.train.create_global_step()
        grow = step.assign_add(1)
        with tf.train.MonitoredSession(hooks=[tf.train.ProfilerHook(save_steps=1)]) as sess:
            for _ in range(3):
                sess.run(grow)
    assert list(tmp_path.glob("timeline-*.json"))
