"""Where ops on variables and gradients are put.  Literals are TF 2.21's answers."""
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_what_writes_a_variable_is_where_the_variable_is():
    with tf.device("/cpu:1"):
        v, i = tf.Variable(1.0, name="v"), tf.Variable(1, name="i")
        m = tf.Variable([1.0, 2.0], name="m")
    with tf.device("/cpu:2"):
        made = {
            "v": [tf.assign(v, 2.0), tf.assign_add(v, 1.0), tf.assign_sub(v, 1.0),
                  tf.is_variable_initialized(v), v.assign(3.0)],
            "i": [tf.count_up_to(i, 3), i.count_up_to(3)],
            "m": [tf.scatter_add(m, [0], [1.0]), tf.scatter_nd_update(m, [[0]], [1.0]),
                  tf.scatter_mul(m, [0], [1.0]), m[0:1].assign([3.0])]}
        read = v.read_value()
    for name, tensors in made.items():
        for tensor in tensors:
            assert tensor.op.device == "/device:CPU:1", tensor.name
            assert tensor.op.colocation_groups() == [f"loc:@{name}".encode()], tensor.name
    assert made["m"][-1].op.name == "strided_slice/_assign"
    assert read.op.device == "/device:CPU:2"


def test_sums_of_gradients_are_beside_the_first_of_them(graph):
    with tf.device("/cpu:1"):
        w = tf.Variable([[1.0]], use_resource=True)
    with tf.device("/cpu:2"):
        y = tf.matmul([[2.0]], w, name="MM")
        z = tf.nn.relu(y + w)
    tf.gradients(z, w, colocate_gradients_with_ops=True)
    add = graph.get_operation_by_name("gradients/AddN")
    assert (add.device, add.colocation_groups()) == ("/device:CPU:2", [b"loc:@Relu"])


def test_gradients_of_several_devices_are_added_where_they_are(graph):
    x = tf.constant([1.0])
    a, b, c, d = tf.square(x), tf.exp(x), tf.sin(x), tf.cos(x)
    with tf.device("/cpu:1"):
        ys = [tf.identity(t) for t in (a, b)]
    tf.gradients(ys + [c, d], x, colocate_gradients_with_ops=True)
    sums = [op for op in graph.get_operations() if op.type == "AddN"]
    total = tf.gradients([a, b, c], x)[0]
    assert total.op.colocation_groups() == [
        f"loc:@{total.op.inputs[0].op.name}".encode()] and len(sums) == 1


def test_counters_of_loops_are_with_their_exit(graph):
    x = tf.constant(1.0)
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, x])[1]
    with tf.device("/cpu:2"):
        tf.gradients(y, x, colocate_gradients_with_ops=True)
    count = graph.get_operation_by_name("gradients/f_count")
    assert (count.device, count.colocation_groups()) == ("", [b"loc:@while/Exit_1"])
