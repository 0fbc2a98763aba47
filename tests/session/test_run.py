"""Session.run: structures of fetches, kinds of feeds, caching of plans, life of a session."""
import collections
import threading

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


Pair = collections.namedtuple("Pair", "first second")


# ---------------------------------------------------------------- fetches

def test_fetch_structures():
    a, b = tf.constant(1.0, name="a"), tf.constant([2, 3], name="b")
    no_op = tf.no_op()
    with tf.Session() as sess:
        assert sess.run(a) == np.float32(1) and isinstance(sess.run(a), np.float32)
        assert sess.run(no_op) is None
        assert sess.run("a:0") == 1 and sess.run("a") is None
        assert sess.run([]) == [] and sess.run({}) == {}
        got = sess.run([a, (b, no_op), {"k": a, "l": [b]}])
        assert type(got) is list and type(got[1]) is tuple and got[1][1] is None
        assert got[2]["k"] == 1 and list(got[2]["l"][0]) == [2, 3]
        pair = sess.run(Pair(a, Pair(b, a)))
        assert isinstance(pair, Pair) and isinstance(pair.second, Pair) and pair.second.second == 1
        ordered = sess.run(collections.OrderedDict([("z", a), ("y", b)]))
        assert type(ordered) is collections.OrderedDict and list(ordered) == ["z", "y"]


def test_equal_structures_of_different_types_are_told_apart():
    a, b = tf.constant(1), tf.constant(2)
    with tf.Session() as sess:
        for _ in range(2):
            assert type(sess.run((a, b))) is tuple
            assert type(sess.run([a, b])) is list
            assert type(sess.run(Pair(a, b))) is Pair


def test_one_tensor_fetched_twice_runs_once():
    calls = []

    def count():
        calls.append(1)
        return np.float32(len(calls))
    y = tf.py_func(count, [], tf.float32)
    with tf.Session() as sess:
        assert sess.run([y, y, {"a": y}]) == [1, 1, {"a": 1}]


def test_variables_and_slices_and_sparse():
    v = tf.Variable([1.0, 2.0], name="v")
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]), tf.constant([5, 1]))
    bare = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
    sparse = tf.SparseTensor([[0, 1]], [7.0], [2, 2])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert list(sess.run(v)) == [1, 2] and list(sess.run("v:0")) == [1, 2]
        got = sess.run(slices)
        assert got.indices == [3] and list(got.dense_shape) == [5, 1] and got.values == [[1]]
        assert sess.run(bare).dense_shape is None
        got = sess.run({"s": sparse})["s"]
        assert type(got).__name__ == "SparseTensorValue" and got.values == [7]
        again = sess.run(sparse, {sparse: got})
        assert (again.indices == got.indices).all()


def test_strings():
    x = tf.placeholder(tf.string, [None])
    y, scalar = tf.identity(x), tf.constant("hi")
    with tf.Session() as sess:
        assert sess.run(scalar) == b"hi"
        for fed in (
            ["a", "bc"],
            [b"a", b"bc"],
            np.array(["a", "bc"]),
            np.array([b"a", b"bc"], object),
        ):
            got = sess.run(y, {x: fed})
            assert got.dtype == object and got.tolist() == [b"a", b"bc"]


# ---------------------------------------------------------------- feeds

def test_feeds_by_tensor_name_and_any_tensor():
    x = tf.placeholder(tf.float32, [None], name="x")
    c = tf.constant(5.0, name="c")
    y = x * c
    with tf.Session() as sess:
        assert list(sess.run(y, {x: [1, 2]})) == [5, 10]
        assert list(sess.run(y, {"x:0": [1, 2], c: 2.0})) == [2, 4]
        assert sess.run(y, {y: np.float32([9])}) == [9]
        fed = np.float32([1, 2])
        assert sess.run([x, y], {x: fed})[0] is fed


def test_feed_conversions():
    f, i, b = tf.placeholder(tf.float32), tf.placeholder(tf.int32), tf.placeholder(tf.bool)
    with tf.Session() as sess:
        assert sess.run(tf.identity(f), {f: 1}) == 1
        assert sess.run(tf.identity(f), {f: np.float64(0.1)}) == np.float32(0.1)
        assert sess.run(tf.identity(i), {i: np.int64(7)}) == 7
        assert sess.run(tf.identity(i), {i: 3.0}) == 3
        assert sess.run(tf.identity(b), {b: True})
        strided = np.arange(12, dtype=np.float32).reshape(3, 4).T
        assert (sess.run(f + 0.0, {f: strided}) == strided).all()
        assert (sess.run(f + 0.0, {f: strided[::2]}) == strided[::2]).all()
        assert sess.run(f + 0.0, {f: np.zeros((0, 3), np.float32)}).shape == (0, 3)


def test_fed_arrays_are_never_changed_and_fetched_arrays_never_change():
    x = tf.placeholder(tf.float32, [4])
    v = tf.Variable(tf.zeros([4]))
    add = tf.assign_add(v, x)
    y = tf.nn.relu(-x)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        fed = np.float32([1, -2, 3, -4])
        before = fed.copy()
        first = sess.run(v)
        sess.run([add, y], {x: fed})
        assert (fed == before).all() and (first == 0).all()
        second = sess.run(v)
        kept = second.copy()
        sess.run(add, {x: fed})
        assert (second == kept).all()
        fed.setflags(write=False)
        assert (sess.run(x * 2, {x: fed}) == before * 2).all()


def test_feeding_a_variable_of_a_batch():
    x = tf.placeholder_with_default([1.0, 2.0], [2])
    with tf.Session() as sess:
        assert list(sess.run(x)) == [1, 2]
        assert list(sess.run(x, {x: [3, 4]})) == [3, 4]


# ---------------------------------------------------------------- plans and the graph

def test_plans_are_kept(graph):
    x = tf.placeholder(tf.float32, [2])
    y = x + 1
    with tf.Session() as sess:
        sess.run(y, {x: [1, 2]})
        steps = dict(sess._steps)
        for _ in range(3):
            sess.run(y, {x: [1, 2]})
        assert sess._steps == steps


def test_the_graph_may_grow_between_runs_and_variables_keep_values():
    v = tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(v.initializer)
        sess.run(tf.assign_add(v, 2.0))
        assert sess.run(v) == 3
        assert sess.run(v * 2) == 6


def test_growth_is_warned_of_once(graph, caplog):
    x = tf.constant(1.0)
    with tf.Session() as sess:
        sess.run(x)
        tf.add(x, 1.0, name="late")
        late = tf.add(x, 2.0)
        sess.run(late)
        sess.run(tf.add(x, 3.0))
        assert not caplog.records
        for i in range(8):
            sess.run(tf.add(x, float(i)))
    warnings = [r for r in caplog.records if "after the graph has run" in r.getMessage()]
    assert len(warnings) == 1 and __file__.rsplit("/", 1)[-1] in warnings[0].getMessage()


def test_changing_an_operation_makes_new_plans(graph):
    a, b = tf.constant(1.0), tf.constant(10.0)
    y = tf.negative(a)
    with tf.Session() as sess:
        assert sess.run(y) == -1
        y.op._update_input(0, b)
        assert sess.run(y) == -10


def test_control_inputs_run_before():
    v = tf.Variable(0.0)
    with tf.control_dependencies([tf.assign(v, 5.0)]):
        y = tf.identity(v.read_value())
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(y) == 5


# ---------------------------------------------------------------- life

def test_context_manager_eval_run():
    v = tf.Variable(3.0)
    with tf.Session() as sess:
        v.initializer.run()
        assert v.eval() == 3 and tf.constant(2.0).eval() == 2
        assert tf.get_default_session() is sess
    assert tf.get_default_session() is None
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session."):
        sess.run(v)
    sess.close()


def test_as_default_does_not_close():
    sess = tf.Session()
    x = tf.constant(1)
    with sess.as_default():
        assert x.eval() == 1
    assert sess.run(x) == 1
    sess.close()


def test_interactive_session():
    sess = tf.InteractiveSession()
    assert tf.constant(4).eval() == 4
    sess.close()
    assert tf.get_default_session() is None


def test_closed_session_refuses_everything():
    x = tf.constant(1)
    sess = tf.Session()
    call = sess.make_callable(x)
    sess.close()
    for use in (lambda: sess.run(x), lambda: sess.make_callable(x), sess.list_devices,
                lambda: sess.partial_run_setup([x]), call):
        with pytest.raises(RuntimeError, match="closed Session"):
            use()


def test_sessions_have_variables_of_their_own():
    v = tf.Variable(0.0)
    add = tf.assign_add(v, 1.0)
    with tf.Session() as one, tf.Session() as two:
        one.run(v.initializer)
        two.run(v.initializer)
        one.run(add)
        assert one.run(v) == 1 and two.run(v) == 0


def test_named_containers_are_shared_until_reset():
    with tf.container("shared box"):
        v = tf.Variable(0.0, name="boxed")
    with tf.Session() as one:
        one.run(v.initializer)
        one.run(tf.assign_add(v, 1.0))
    with tf.Session() as two:
        assert two.run(v) == 1
    tf.Session.reset("", ["shared box"])
    with tf.Session() as three:
        with pytest.raises(tf.errors.FailedPreconditionError):
            three.run(v)


def test_runs_from_many_threads(graph):
    x = tf.placeholder(tf.float32, [])
    v = tf.Variable(0.0)
    add = tf.assign_add(v, 1.0, use_locking=True)
    y = x * 2
    sess = tf.Session()
    sess.run(v.initializer)
    wrong = []

    def work(k):
        for i in range(50):
            if sess.run(y, {x: k * 100 + i}) != 2 * (k * 100 + i):
                wrong.append((k, i))
            sess.run(add)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and sess.run(v) == 300
    sess.close()


def test_list_devices():
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as sess:
        names = [d.name for d in sess.list_devices()]
        assert names[:3] == [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(3)]
        assert sess.list_devices()[0].device_type == "CPU"


def test_run_metadata_has_the_partition_graphs():
    x = tf.constant(1.0, name="the_constant")
    metadata = tf.RunMetadata()
    with tf.Session() as sess:
        sess.run(x, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    assert [n.name for g in metadata.partition_graphs for n in g.node if n.op == "Const"] == [
        "the_constant"
    ]


def test_complex_numbers_are_fed_as_floats_are():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.complex64, [2])
        got = sess.run(x, {x: [complex(np.nan, np.inf), 1j]})
        assert np.isnan(got[0].real) and np.isinf(got[0].imag) and got[1] == 1j
        assert sess.run(x, {x: [0.1 + 0.2j, 1e300]})[0] == np.complex64(0.1 + 0.2j)
        y = tf.placeholder(tf.float32, [1])
        with pytest.raises(TypeError, match="values would change"):
            sess.run(y, {y: np.array([1j])})


def test_sessions_are_entered_once():
    sess = tf.Session()
    with sess:
        with pytest.raises(RuntimeError, match="not re-entrant"):
            with sess:
                pass
        with sess.as_default(), sess.as_default():
            assert sess.run(tf.constant(1)) == 1
    with pytest.raises(RuntimeError, match="closed"):
        sess.run(tf.constant(1))


def test_a_deadline_is_kept_to_the_millisecond():
    """It was looked at every 20 ms."""
    import time
    with tf.Graph().as_default(), tf.Session() as sess:
        n = tf.placeholder(tf.int32, [])
        loop = tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])
        sess.run(loop, {n: 5})
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(loop, {n: 2**31 - 1}, options=tf.RunOptions(timeout_in_ms=3))
            taken.append(time.perf_counter() - start)
        assert 0.003 <= min(taken) < 0.012


def test_run_metadata_has_all_fields_of_the_message():
    metadata = tf.RunMetadata()
    assert not metadata.HasField("cost_graph") and not metadata.HasField("step_stats")
    assert len(metadata.cost_graph.node) == 0
    with pytest.raises(ValueError):
        metadata.HasField("nothing")


def test_py_func_without_results():
    with tf.Graph().as_default():
        assert tf.py_func(lambda: None, [], [], stateful=False) == []
        assert isinstance(tf.py_func(lambda: None, [], []), tf.Operation)


def test_stop_gradient_is_no_part_of_a_graph_for_inference():
    with tf.Graph().as_default() as g:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.stop_gradient(tf.check_numerics(tf.identity(x), "m"))
        tf.exp(y, name="z")
        nodes = tf.graph_util.remove_training_nodes(g.as_graph_def()).node
        assert [(n.name, list(n.input)) for n in nodes] == [("x", []), ("z", ["x"])]
