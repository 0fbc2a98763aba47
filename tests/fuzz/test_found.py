"""What random programs and the soak found, each as the small program it came down to."""
import dataclasses
import threading

import pytest

import pyflow as tf
import plugins_of_fuzz


@pytest.mark.parametrize("inline", [True, False])
def test_control_edges_from_a_loop_whose_value_nobody_reads(inline):
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=0.0, use_resource=True)
        end = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        with tf.control_dependencies([end.op]):
            done = tf.identity(v.assign_add(1.0))
        with tf.Session() as session:
            session._compiler.options = session._compiler.options.of_plan(inline=inline)
            session.run(v.initializer)
            assert [session.run(done) for _ in range(2)] == [1.0, 2.0]


def test_the_same_inside_a_loop():
    with tf.Graph().as_default():
        def body(i, x):
            inner = tf.while_loop(lambda j: j < 2, lambda j: j + 1, [tf.constant(0)])
            with tf.control_dependencies([inner.op]):
                return i + 1, tf.identity(x + 1)
        x = tf.while_loop(lambda i, x: i < 3, body, [tf.constant(0), tf.constant(0.0)])[1]
        with tf.Session() as session:
            assert session.run(x) == 3.0


def test_closing_a_session_while_a_step_begins(libraries):
    """Neither the step nor close hangs, whoever comes first."""
    never = plugins_of_fuzz.load_kernels(libraries)("Never")
    with tf.Graph().as_default() as graph:
        y = never(tf.constant(1.0))
    for _ in range(200):
        session = tf.Session(graph=graph, threads=2)
        closer = threading.Thread(target=session.close)
        closer.start()
        with pytest.raises((tf.errors.CancelledError, RuntimeError)):
            session.run(y, options=tf.RunOptions(timeout_in_ms=60000))
        closer.join()


def test_a_split_after_which_one_device_remains():
    """An Enter on another device, read on this one alone, moves here: nothing is left to split."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3])

        def body(i, y):
            with tf.device("/cpu:1"):
                tf.negative(x)                      # takes x into the loop there; nobody reads it
            return i + 1, y + x
        end = tf.while_loop(lambda i, y: i < 2, body, [tf.constant(0), tf.zeros([3])])[1]
        assert graph.get_operation_by_name("while/Neg/Enter").device == "/device:CPU:1"
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            session._compiler.options = dataclasses.replace(session._compiler.options,
                                                            partitions="device")
            assert list(session.run(end, {x: [1, 2, 3]})) == [2, 4, 6]


def test_a_merge_that_is_given_one_tensor_twice():
    """Found by libFuzzer: the second mention released the value before it was taken."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.int32, [2])
        no, yes = tf.raw_ops.Switch(data=x, pred=tf.placeholder(tf.bool, [], name="p"))
        merges = [tf.raw_ops.Merge(inputs=inputs) for inputs in ([x, x], [no, yes, yes], [no, no])]
        with tf.Session() as session:
            for take in (True, False):
                wanted = merges if not take else merges[:2]
                found = session.run([(m.output + 1, m.value_index) for m in wanted],
                                    {x: [1, 2], "p:0": take})
                assert [list(y) for y, _ in found] == [[2, 3]] * len(wanted)
                assert [k for _, k in found] == ([0, 1] if take else [0, 0, 0])
