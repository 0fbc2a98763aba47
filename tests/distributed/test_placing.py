"""Which task the nodes are on that name no job: TensorFlow 1.15.5's rule."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.distributed.wire import rpc
from pyflow.framework import protos
from pyflow.session import targets


@pytest.fixture(scope="module")
def cluster():
    """{"ps": servers, "worker": servers} of this process."""
    workers, ps = tf.test.create_local_cluster(2, 1)
    yield {"ps": ps, "worker": workers}
    for server in workers + ps:
        server.stop()


def parts(session, fetch):
    """The tasks on which a fetch is computed, but for its own arrival."""
    metadata = tf.RunMetadata()
    session.run(fetch, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    specs = [tf.DeviceSpec.from_string(node.device) for part in metadata.partition_graphs
             for node in part.node if not node.op.startswith("_")]
    return {f"{spec.job}/{spec.task}" for spec in specs}


def test_a_variable_without_a_job_is_all_sessions(cluster):
    """B1: each worker trained a variable of its own."""
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name="of_all")
        grown, init = v.assign_add(5.0), v.initializer
        one, two = (tf.Session(server.target) for server in cluster["worker"])
        with one, two:
            one.run(init)
            one.run(grown)
            assert two.run(v) == 6.0
            assert parts(two, v) == {"ps/0"}


def test_what_filters_hide_is_not_first(cluster):
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name="of_those_seen") * 2.0
        config = tf.ConfigProto(device_filters=["/job:worker"])
        with tf.Session(cluster["worker"][1].target, config=config) as sess:
            sess.run(tf.global_variables_initializer())
            assert parts(sess, v) == {"worker/0"}


def test_what_only_waits_is_where_it_waits(cluster):
    """A group of nodes of a worker is no reason to tell another task."""
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:1"):
            v = tf.Variable(1.0, name="of_a_worker")
            both = [v.assign_add(1.0), v.assign_add(2.0)]
        done = tf.group(*[op.op for op in both], name="done")
        c = v + tf.constant(3.0, name="beside_its_reader")
        with tf.device("/job:worker/task:1"):
            there = v + tf.identity(2.0)
        with tf.Session(cluster["worker"][1].target) as sess:
            sess.run(v.initializer)
            assert parts(sess, done) == {"worker/1"}
            assert parts(sess, there) == {"worker/1"}
            assert parts(sess, c) == {"worker/1", "ps/0"}       # as in TensorFlow


def test_python_functions_stay_with_their_process(cluster):
    with tf.Graph().as_default():
        y = tf.py_func(lambda x: x + 1, [tf.constant(1.0)], tf.float32) * 2.0
        data = tf.data.Dataset.from_generator(lambda: iter([1, 2]), tf.int32)
        following = data.make_one_shot_iterator().get_next()
        with tf.Session(cluster["worker"][1].target) as sess:
            assert sess.run(y) == 4.0
            assert parts(sess, y) == {"worker/1"}
            assert sess.run(following) == 1


def test_a_sparse_job_called_local():
    """"local" is the old name of the only process where no job is called so."""
    with tf.train.Server({"local": {37: "localhost:0"}}) as server:
        with tf.Graph().as_default(), tf.device("/job:local/task:37"):
            x = tf.constant(1.0) + 1.0
            with tf.Session(server.target) as sess:
                assert sess.run(x) == 2.0
                assert parts(sess, x) == {"local/37"}


def test_what_a_stopped_server_raises_is_typed():
    """The executor's own StepError came out of a session's making, and of Session.reset."""
    server = tf.train.Server({"a": ["localhost:0"]})
    place = targets.find(server.target)
    server.stop()
    targets.register("test://stopped", place)
    try:
        with pytest.raises(tf.errors.UnavailableError, match="was stopped"):
            tf.Session("test://stopped", graph=tf.Graph())
    finally:
        targets.unregister("test://stopped")


def test_values_that_no_message_holds():
    said = rpc.error_message(protos.EncodeError("Failed to serialize proto"))
    assert said.code == tf.errors.INVALID_ARGUMENT and "over 2147483647 bytes" in said.message


@pytest.mark.long
def test_a_feed_of_more_than_two_gigabytes(cluster):
    """Its session goes on."""
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder(tf.uint8, [None])
            there = tf.shape(x)
        with tf.device("/job:worker/task:0"):
            n = there + 1
        target = cluster["worker"][0].target.replace("localhost", "127.0.0.1")
        with tf.Session(target) as sess:
            with pytest.raises(tf.errors.InvalidArgumentError, match="feed and fetch such values"):
                sess.run(n, {x: np.zeros(int(2.2e9), np.uint8)})
            assert sess.run(n, {x: np.zeros(3, np.uint8)}) == [4]


@pytest.mark.parametrize("way", ["here", "client"])
def test_a_session_brings_its_cluster_along(way):
    """ConfigProto.cluster_def: servers that know nothing of each other, under its names."""
    one, two = tf.train.Server.create_local_server(), tf.train.Server.create_local_server()
    config = tf.ConfigProto()
    job = config.cluster_def.job.add(name="worker")
    job.tasks[0], job.tasks[1] = one.address, two.address
    target = one.target if way == "here" else one.target.replace("localhost", "127.0.0.1")
    try:
        with tf.Graph().as_default(), tf.device("/job:worker/task:1"):
            v = tf.Variable(2.0, name="there")
            grown = v.assign_add(1.0)
            with tf.device("/job:worker/task:0"):
                y = v * 10.0
            init = tf.global_variables_initializer()
            with tf.Session(target, config=config) as sess:
                sess.run(init)
                assert sess.run(grown) == 3.0 and sess.run(y) == 30.0
                assert parts(sess, y) == {"worker/0", "worker/1"}
                assert {d.name for d in sess.list_devices()} == {
                    f"/job:worker/replica:0/task:{k}/device:CPU:0" for k in range(2)}
                with tf.Session(target, config=config) as other:        # its own, as in TensorFlow
                    assert not other.run(tf.is_variable_initialized(v))
        wrong = tf.ConfigProto()
        wrong.cluster_def.job.add(name="worker").tasks[0] = "localhost:1"
        with pytest.raises(tf.errors.InvalidArgumentError, match="cluster_def has no task at"):
            tf.Session(target, config=wrong, graph=tf.Graph())
    finally:
        one.stop()
        two.stop()
