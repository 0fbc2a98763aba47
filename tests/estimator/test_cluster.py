"""tf.estimator under a TF_CONFIG that names a cluster: what RunConfig makes of it, beside
TensorFlow's answers, and train_and_evaluate on servers of ours."""
import json
import pathlib
import sys
import threading

import numpy as np
import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "distributed")]
import ports  # noqa: E402 - of tests/distributed
import record_cluster  # noqa: E402 - beside this file

ANSWERS = json.loads((HERE / "cluster_configs.json").read_text())


@pytest.mark.parametrize("text", ANSWERS)
def test_a_run_config_is_tensorflow_s(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    assert record_cluster.description(tf) == ANSWERS[text]


def test_sessions_speak_to_their_own_task_and_the_parameter_servers(monkeypatch):
    cluster = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "d:1"]}
    for job, index, filters in (("chief", 0, ["/job:ps", "/job:chief"]),
                                ("worker", 1, ["/job:ps", "/job:worker/task:1"]),
                                ("ps", 0, ["/job:ps", "/job:worker", "/job:chief", "/job:master"]),
                                ("evaluator", 0, [])):
        monkeypatch.setenv("TF_CONFIG", json.dumps(
            {"cluster": cluster, "task": {"type": job, "index": index}}))
        config = tf.estimator.Estimator(model_fn, "unused").config
        assert list(config.session_config.device_filters) == filters
        assert config.session_config.allow_soft_placement


def model_fn(features, labels, mode, config):
    net = tf.layers.dense(features["x"], 1, kernel_initializer=tf.zeros_initializer())[:, 0]
    loss = tf.losses.mean_squared_error(labels, net)
    if config.num_ps_replicas and mode == tf.estimator.ModeKeys.TRAIN:
        devices = [v.device for v in tf.global_variables()]
        assert set(devices) == {"/job:ps/task:0"}, devices
    train_op = tf.train.GradientDescentOptimizer(0.1, use_locking=True).minimize(
        loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={
        "far": tf.metrics.mean_absolute_error(labels, net)})


def input_fn():
    x = np.random.RandomState(0).rand(64, 2).astype(np.float32)
    y = (x @ [2.0, -1.0] + 0.5).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat().batch(16)


@pytest.fixture
def cluster():
    jobs = ["chief", "ps", "worker"]
    return {job: [f"localhost:{port}"] for job, port in zip(jobs, ports.free_ports(len(jobs)))}


@pytest.mark.parametrize("chief", ["chief", "master"])
def test_train_and_evaluate_on_a_parameter_server_a_chief_and_a_worker(
        chief, cluster, monkeypatch, tmp_path):
    cluster[chief] = cluster.pop("chief")
    results, estimators = {}, {}
    jobs = ["ps", chief, "worker"] + ["evaluator"] * (chief == "chief")
    for job in jobs:                        # each process has its own TF_CONFIG
        monkeypatch.setenv("TF_CONFIG", json.dumps(
            {"cluster": cluster, "task": {"type": job, "index": 0}}))
        estimators[job] = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(
            str(tmp_path), tf_random_seed=1, save_checkpoints_steps=100,
            experimental_max_worker_delay_secs=0))
    monkeypatch.delenv("TF_CONFIG")
    runs, both = {job: 0 for job in jobs}, threading.Barrier(2)

    class Count(tf.train.SessionRunHook):
        def __init__(self, job):
            self.job = job

        def before_run(self, context):
            if not runs[self.job]:
                both.wait(30)                   # both have sessions before either takes steps

        def after_run(self, context, values):
            runs[self.job] += 1

    def work(job):
        results[job] = tf.estimator.train_and_evaluate(
            estimators[job], tf.estimator.TrainSpec(input_fn, 400, [Count(job)]),
            tf.estimator.EvalSpec(input_fn, 4, start_delay_secs=0, throttle_secs=0))
    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(results) == set(jobs), "each task ends, the parameter server too"
    assert runs["worker"] > 5 and runs[chief] > 5 and runs["worker"] + runs[chief] >= 400
    metrics, _ = results["evaluator" if chief == "chief" else chief]
    assert metrics["global_step"] >= 400 and metrics["far"] < 0.1
    assert results["worker"] == (None, [])
