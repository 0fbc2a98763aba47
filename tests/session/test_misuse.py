"""What a user sees after a mistake: the right exception class, the names, the line, and what to
do."""
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework.op import op, register

HERE = os.path.basename(__file__)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def sess(graph):
    with tf.Session(graph=graph) as s:
        yield s


def message(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# ---------------------------------------------------------------- feeds and fetches

def test_wrong_feed_shape(sess):
    x = tf.placeholder(tf.float32, [None, 4], name="images")
    text = message(ValueError, lambda: sess.run(x * 1, {x: np.zeros((2, 3))}))
    assert (
        "Cannot feed value of shape (2, 3) for Tensor 'images:0'" in text
        and "(?, 4)" in text
        and HERE in text
    )
    assert "Feed a batch of one" in message(ValueError, lambda: sess.run(x * 1, {x: np.zeros(4)}))
    y = tf.placeholder(tf.float32, [4], name="one")
    assert "first dimension of None" in message(
        ValueError, lambda: sess.run(y * 1, {y: np.zeros((7, 4))})
    )
    z = tf.placeholder(tf.float32, [2, 2])
    assert "reshape the value to (2, 2)" in message(
        ValueError, lambda: sess.run(z * 1, {z: np.zeros(4)})
    )


def test_wrong_feed_type(sess):
    i, f, s = (
        tf.placeholder(tf.int32, name="i"),
        tf.placeholder(tf.float32),
        tf.placeholder(tf.string),
    )
    for value in (1.5, 2**40, [1, 2.5], 1j, np.float32("nan")):
        text = message(TypeError, lambda: sess.run(i + 1, {i: value}))
        assert "'i:0'" in text or "i:0" in text
    message(TypeError, lambda: sess.run(f + 1, {f: 1j}))
    message((TypeError, ValueError), lambda: sess.run(f + 1, {f: "three"}))
    message((TypeError, ValueError), lambda: sess.run(f + 1, {f: [[1, 2], [3]]}))
    message(TypeError, lambda: sess.run(tf.identity(s), {s: 5}))
    assert "cannot be a tf.Tensor object" in message(TypeError, lambda: sess.run(f + 1, {f: i}))


def test_keys_that_cannot_be_fed(graph, sess):
    x = tf.constant(1.0, name="x")
    assert "Cannot interpret feed_dict key as Tensor" in message(
        TypeError, lambda: sess.run(x, {"nope:0": 1})
    )
    assert "Cannot interpret feed_dict key as Tensor" in message(
        TypeError, lambda: sess.run(x, {3: 1})
    )
    message(TypeError, lambda: sess.run(x, [(x, 1)]))
    y = x + 1
    graph.prevent_feeding(y)
    assert "may not be fed" in message(ValueError, lambda: sess.run(y, {y: 1}))


def test_wrong_fetches(graph, sess):
    x = tf.constant(1.0, name="loss")
    assert "Cannot fetch None" in message(TypeError, lambda: sess.run(None))
    assert "invalid type" in message(TypeError, lambda: sess.run([x, 3.5]))
    text = message(ValueError, lambda: sess.run("los:0"))
    assert "cannot be interpreted as a Tensor" in text and "'loss'" in text
    graph.prevent_fetching(x.op)
    assert "has been marked as not fetchable" in message(ValueError, lambda: sess.run(x))


def test_empty_graph():
    with tf.Graph().as_default(), tf.Session() as sess:
        assert "graph is empty" in message(RuntimeError, lambda: sess.run([]))


def test_element_of_another_graph(sess):
    tf.constant(0.0)
    with tf.Graph().as_default():
        other = tf.constant(1.0, name="other")
    text = message(ValueError, lambda: sess.run(other))
    assert "not an element of this graph" in text and text.count(HERE) >= 2
    text = message(TypeError, lambda: sess.run(tf.constant(1.0), {other: 1.0}))
    assert "not an element of this graph" in text
    found = []

    def in_thread():
        found.append(message(ValueError, lambda: sess.run(other)))
    thread = threading.Thread(target=in_thread, name="web-worker-7")
    thread.start()
    thread.join()
    assert "web-worker-7" in found[0]


def test_wrong_constructor_arguments():
    message(TypeError, lambda: tf.Session(graph=3))
    message(TypeError, lambda: tf.Session(target=3))
    message(TypeError, lambda: tf.Session(config="fast"))
    assert "nowhere" in message(tf.errors.NotFoundError, lambda: tf.Session("nowhere://localhost:2222"))
    message(ValueError, lambda: tf.Session(threads=0))


# ---------------------------------------------------------------- failing steps

def test_unfed_placeholder(sess):
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    text = message(tf.errors.InvalidArgumentError, lambda: sess.run(x + 1))
    assert (
        "You must feed a value for placeholder tensor 'x' with dtype float and shape [2,3]" in text
        and HERE in text
    )


def test_uninitialised_variable_is_named_with_its_reader(sess):
    w = tf.Variable(tf.zeros([2]), name="weights")
    y = tf.multiply(w, 2.0, name="scaled")
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        sess.run(y)
    text = str(caught.value)
    assert "weights" in text and HERE in text and "initializ" in text
    assert caught.value.op is not None and caught.value.node_def.name == caught.value.op.name
    r = tf.Variable([1.0], name="behind_handle", use_resource=True)
    text = message(tf.errors.FailedPreconditionError, lambda: sess.run(r + 1.0))
    assert "behind_handle" in text


def test_failing_kernel_names_node_op_shapes_and_line(sess):
    x, y = tf.placeholder(tf.float32, name="x"), tf.placeholder(tf.float32, name="y")
    z = tf.matmul(x, y, name="product")
    line = z.op.user_frame.lineno
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        sess.run(z, {x: np.zeros((2, 3)), y: np.zeros((4, 5))})
    e, text = caught.value, str(caught.value)
    assert e.op is z.op and e.error_code == tf.errors.INVALID_ARGUMENT
    for part in ("MatMul", "'product'", f"{HERE}:{line}", "x:0 float32", "device:CPU:0"):
        assert part in text, part


def test_a_failing_gradient_shows_the_forward_line(sess):
    x, w, dy = (tf.placeholder(tf.float32, name=n) for n in ("x", "w", "dy"))
    y = tf.multiply(x, w, name="forward_product")
    grad = tf.gradients(y, [x], grad_ys=[dy])[0]
    with pytest.raises(tf.errors.OpError) as caught:
        sess.run(grad, {x: [1, 2], w: [3, 4], dy: [1, 1, 1]})
    text = str(caught.value)
    assert "gradient of 'forward_product' (Mul)" in text
    assert f"{HERE}:{y.op.user_frame.lineno}" in text


@op("tests.Unheard", inputs="x: T", outputs="y: T")
class Unheard:
    """An op that no plugin has a kernel for."""
    def shape(x): return x
    gradient = reference = None
    samples = []


register(Unheard)


def test_missing_kernels_are_listed_at_once(sess):
    x = Unheard(tf.constant(1.0), name="first")
    y = Unheard(tf.constant(1), name="second")
    with pytest.raises(tf.errors.NotFoundError) as caught:
        sess.run([x, y])
    text = str(caught.value)
    for part in (
        "tests.Unheard",
        "T=float32",
        "T=int32",
        "'first'",
        "'second'",
        "install a plugin",
        HERE,
    ):
        assert part in text, part


def test_missing_types_name_those_there_are(sess):
    m = tf.matmul(tf.zeros([2, 2], tf.float32), tf.zeros([2, 2], tf.float32))
    m.op._set_attr("T", tf.string)
    text = message(tf.errors.OpError, lambda: sess.run(m.op))
    assert "MatMul" in text and HERE in text


def test_unknown_device(sess):
    with tf.device("/device:GPU:3"):
        y = tf.add(1.0, 2.0, name="on_gpu")
    text = message(tf.errors.InvalidArgumentError, lambda: sess.run(y))
    assert "on_gpu" in text and "GPU:3" in text and "device:CPU:0" in text and HERE in text
    assert "allow_soft_placement" in text
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as soft:
        assert soft.run(y) == 3
    with tf.device("/cpu:1"):
        z = tf.add(1.0, 2.0)
    assert "device_count={'CPU': 2}" in message(tf.errors.InvalidArgumentError, lambda: sess.run(z))


def test_dtype_mismatch_when_building():
    text = message((TypeError, ValueError), lambda: tf.add(tf.constant(1.0), tf.constant(1)))
    assert "float32" in text and "int32" in text


def test_typos_in_names():
    with pytest.raises(AttributeError, match="tf.placeholder"):
        tf.placehoder
    with pytest.raises(AttributeError, match="did you mean tf.nn.relu"):
        tf.nn.rellu
    with pytest.raises(AttributeError, match="did you mean tf.nn.relu"):
        tf.relu
    with pytest.raises(AttributeError, match="tf.train.AdamOptimizer"):
        tf.train.AdamOptimzer
    with pytest.raises(AttributeError, match="MatMul"):
        tf.raw_ops.MatMull


@pytest.mark.parametrize("written, meant", [
    ("nn.rleu", "tf.nn.relu?"), ("rleu", "tf.nn.relu?"), ("Sesion", "tf.Session?"),
    ("nn.conv2", "tf.nn.conv2d?"), ("initializers.glorot", "glorot_normal"),
    ("gfile.Opne", "tf.gfile.Open?"), ("app.rnu", "tf.app.run?"), ("test.TestCas", "tf.test.TestCase"),
    ("logging.inof", "tf.logging.info?"), ("flags.DEFINE_strng", "tf.flags.DEFINE_string"),
    ("errors.InvalidArgumentEror", "tf.errors.InvalidArgumentError"),
    ("compat.as_byte", "tf.compat.as_bytes"), ("compat.v1.placehodler", "tf.placeholder?"),
    ("plugins.laod_all", "tf.plugins.load_all"), ("contrib.rnn.LSTMcell", "rnn.LSTMCell?"),
    ("train.AdamOptimiser", "tf.train.AdamOptimizer?"), ("nest.flaten", "tf.nest.flatten?"),
])
def test_what_was_meant(written, meant):
    """Letters swapped, left out, wrong; in tf, its namespaces, and modules that are names of tf."""
    *outer, name = written.split(".")
    module = tf
    for part in outer:
        module = getattr(module, part)
    with pytest.raises(AttributeError, match="did you mean ") as caught:
        getattr(module, name)
    assert meant in str(caught.value)


def test_what_nobody_can_have_meant():
    for module in (tf, tf.nn, tf.gfile):
        with pytest.raises(AttributeError) as caught:
            module.xqzzy
        assert "did you mean" not in str(caught.value)
        assert not hasattr(module, "__wrapped__")


def test_names_that_lack_their_index(graph, sess):
    x = tf.placeholder(tf.float32, [], name="x")
    assert "Did you mean 'x:0'" in message(TypeError, lambda: sess.run(x + 1, {"x": 1}))
    assert "Did you mean 'x'" in message(ValueError, lambda: graph.get_operation_by_name("x:0"))


def test_concat_with_the_arguments_of_tf_0():
    assert "tensors first" in message(TypeError, lambda: tf.concat(0, [tf.ones([1])]))


def test_misspelt_type():
    assert "'float32'" in message(TypeError, lambda: tf.placeholder("flot32"))


def test_traceback_of_a_py_func_is_the_users(sess):
    y = tf.py_func(lambda: 1 / 0, [], tf.float32)
    text = message(tf.errors.OpError, lambda: sess.run(y))
    assert "ZeroDivisionError" in text and HERE in text and "KeyError" not in text


def test_feeding_none(sess):
    x = tf.placeholder(tf.float32, [], name="x")
    assert "is None" in message(TypeError, lambda: sess.run(x + 1, {x: None}))


def test_closed_session_says_where(graph):
    with tf.Session() as sess:
        pass
    text = message(RuntimeError, lambda: sess.run(tf.constant(1)))
    assert f"closed at {__file__}" in text and "tf.Session()" in text


# ---------------------------------------------------------------- loops and conditionals

def test_inside_of_a_loop_cannot_be_fetched(sess):
    inner = []

    def body(i):
        inner.append(i + 1)
        return inner[0]
    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    assert "marked as not fetchable" in message(ValueError, lambda: sess.run(inner[0]))


def test_dead_fetch(graph, sess):
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: tf.constant(1), lambda: tf.constant(2))
    assert sess.run(y, {p: True}) == 1 and sess.run(y, {p: False}) == 2
    switch = next(op for op in graph.get_operations() if op.type == "Switch")
    graph._unfetchable.clear()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Retval\[0\] does not have value"):
        sess.run(switch.outputs[0], {p: True})


def test_error_inside_a_loop_names_the_line(sess):
    x = tf.placeholder(tf.float32, [None, None])
    y = tf.while_loop(
        lambda i, m: i < 3,
        lambda i, m: (i + 1, tf.matmul(m, x, name="in_body")),
        [tf.constant(0), tf.zeros([2, 2])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None])],
    )
    text = message(tf.errors.InvalidArgumentError, lambda: sess.run(y, {x: np.zeros((3, 3))}))
    assert "in_body" in text and HERE in text


@pytest.mark.parametrize("call, text", [
    (lambda: tf.constant(1.0).numpy(), "session.run(x) gives its value"),
    (lambda: list(tf.data.Dataset.range(3)), "dataset.make_one_shot_iterator()"),
    (lambda: tf.optimizers.Adam(), "tf.train.AdamOptimizer"),
    (lambda: tf.enable_eager_execution(), "there is no eager mode"),
    (lambda: tf.zeros([-1, 3]), "got -1 in the shape [-1, 3] ("),
    (lambda: tf.nn.conv2d(tf.zeros([1, 4, 4, 3]), tf.zeros([2, 2, 1, 8]), [1, 1, 1, 1], "SAME"),
     "the input has 3 channels, the filter takes 1"),
    (lambda: tf.Session().run([tf.constant(1.0), None]), "element [1] of the fetches is None"),
    (lambda: tf.Session().run({"a": tf.gradients(tf.constant(1.0), tf.constant(2.0))}),
     "explain=True"),
    (lambda: tf.Session().run(tf.placeholder(tf.int32, [], name="q"), {"q:0": 1.5}), "tf.float32"),
])
def test_what_the_message_says_to_do(call, text):
    with tf.Graph().as_default(), pytest.raises(Exception) as caught:
        call()
    assert text in str(caught.value)


def test_a_cell_that_is_run_again():
    def cell():
        return tf.placeholder(tf.float32, [2], name="x")

    with tf.Graph().as_default():
        y = cell() * 2
        x = cell()
        with pytest.raises(tf.errors.InvalidArgumentError, match="'x_1' was made later.*reset_default"):
            tf.Session().run(y, {x: [1.0, 2.0]})


def test_one_suggestion_for_a_typo():
    """Python adds one of its own where it knows the object."""
    done = subprocess.run([sys.executable, "-c", "import pyflow as tf\ntf.matmull"],
                          capture_output=True, text=True)
    assert done.stderr.lower().count("did you mean") == 1
