"""tf.train.replica_device_setter: as TensorFlow's recorded answers say."""
import json
import os
import types

import pytest
import record_replicas

import pyflow as tf
from pyflow.framework import protos

PATH = os.path.join(os.path.dirname(__file__), "replica_answers.json")
with open(PATH, encoding="utf-8") as file:
    RECORDED = json.load(file)
HERE = json.loads(json.dumps(record_replicas.answers(tf)))


@pytest.mark.parametrize("setter", sorted(RECORDED))
def test_as_in_tensorflow(setter):
    assert HERE[setter] == RECORDED[setter]


def test_a_cluster_def_and_a_cluster_spec_say_the_same_as_a_dict():
    message = protos.ClusterDef()
    for name, tasks in record_replicas.CLUSTER.items():
        job = message.job.add(name=name)
        for i, task in enumerate(tasks):
            job.tasks[i] = task

    class ClusterSpec:
        def as_dict(self):
            return record_replicas.CLUSTER

    for cluster in (message, ClusterSpec(), record_replicas.CLUSTER):
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
            tasks = [tf.get_variable(f"v{i}", []).op.device for i in range(4)]
        assert tasks == [f"/job:ps/task:{i % 3}" for i in range(4)]


def test_it_takes_node_defs():
    setter = tf.train.replica_device_setter(1)
    assert setter(protos.NodeDef(op="VariableV2", device="/cpu:1")) == "/job:ps/task:0/device:CPU:1"
    assert setter(protos.NodeDef(op="Add")) == "/job:worker"


def test_what_is_no_cluster_and_no_strategy_is_an_error():
    with pytest.raises(TypeError, match="cluster must be.*'int'"):
        tf.train.replica_device_setter(cluster=3)
    with pytest.raises(TypeError, match="ps_strategy must be callable"):
        tf.train.replica_device_setter(2, ps_strategy=[0, 1])
    with pytest.raises(ValueError, match="/job:a/bogus:1"):
        tf.train.replica_device_setter(2, worker_device="/job:a/bogus:1")


def test_slots_are_beside_their_variable():
    with tf.Graph().as_default() as graph, tf.device(tf.train.replica_device_setter(2)):
        v, w = tf.get_variable("v", [2]), tf.get_variable("w", [2])
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(v * w))
        assert graph.get_operation_by_name("v/Momentum").device == v.op.device == "/job:ps/task:0"
        assert graph.get_operation_by_name("w/Momentum").device == w.op.device == "/job:ps/task:1"


TRAINING = tf.contrib.training
STRATEGIES = {       # TensorFlow 1.15's own tests of its contrib's device_setter: what they expect
    "equal loads": (lambda: TRAINING.GreedyLoadBalancingStrategy(2, lambda op: 1), [0, 1, 0, 1]),
    "bytes": (lambda: TRAINING.GreedyLoadBalancingStrategy(2, TRAINING.byte_size_load_fn),
              [0, 1, 1, 0]),
    "random": (lambda: TRAINING.RandomStrategy(2, seed=0), [1, 0, 1, 1]),
}


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_of_contrib(name, use_resource):
    make, expected = STRATEGIES[name]
    setter = tf.train.replica_device_setter(cluster=record_replicas.CLUSTER, ps_strategy=make())
    with tf.Graph().as_default(), tf.device(setter):
        made = [tf.Variable(tf.zeros(shape), use_resource=use_resource)
                for shape in ([2, 2], [2, 1], [2, 2], [1, 3])]
        total = made[1] + made[2]
    assert [v.device for v in made] == [f"/job:ps/task:{i}" for i in expected]
    assert [v.initializer.device for v in made] == [v.device for v in made]
    assert total.device == "/job:worker"


def test_loads_and_names_that_strategies_take():
    named = types.SimpleNamespace(name="A unicode \u018e string \xf1")
    assert TRAINING.RandomStrategy(2)(named) == 1
    load = TRAINING.byte_size_load_fn
    with tf.Graph().as_default():
        assert load(tf.Variable(0, use_resource=False).op) == 4
        assert load(tf.get_variable("r", [3, 5], tf.float64, use_resource=True).op) == 120
        with pytest.raises(ValueError, match="'split' .Split. must have a single output"):
            load(tf.split(tf.zeros([2, 2]), 2, name="split")[0].op)
        with pytest.raises(ValueError, match=r"'fed' \(Placeholder\): the shape \(\?, 3\) of its"):
            load(tf.placeholder(tf.float32, [None, 3], name="fed").op)
    for strategy in (TRAINING.RandomStrategy, TRAINING.GreedyLoadBalancingStrategy):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            strategy(0, load)
