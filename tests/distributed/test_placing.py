"""Which task the nodes are on that name no job: TensorFlow 1.15.5's rule."""
import pytest

import pyflow as tf


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
