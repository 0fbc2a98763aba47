"""Graph, Operation, Tensor: names, elements, life cycle, origins, errors a user meets."""

import logging
import threading

import numpy as np
import pytest
from quiet import clock

from pyflow.framework import default_graph, errors
from pyflow.framework import graph as ops
from pyflow.framework.op import get_op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move import array_ops  # noqa: F401 - registers ops

Add, Identity, Placeholder = get_op("Add"), get_op("Identity"), get_op("Placeholder")


def test_names_are_unique_and_nested(graph):
    names = [ops.constant(0, name=n).op.name for n in ("a", "a", "A", "a_1", "a", "b/c", "b/c")]
    assert names == ["a", "a_1", "A_2", "a_1_1", "a_3", "b/c", "b/c_1"]
    with ops.name_scope("s") as scope:
        assert scope == "s/"
        assert ops.constant(0, name="x").name == "s/x:0"
        with ops.name_scope("s"):
            assert ops.get_name_scope() == "s/s"
    with ops.name_scope("s") as again:
        assert again == "s_1/"
    with ops.name_scope("s/"):
        assert ops.constant(0, name="x").name == "s/x_1:0"
    with ops.name_scope("q"), ops.name_scope(None):
        assert ops.constant(0, name="top").name == "top:0"
    assert ops.constant(0, name="s/").op.name == "s"   # a trailing slash: the name as it is


@pytest.mark.parametrize("name", ["_a", "a b", "-x", "ä", "a:0"])
def test_invalid_names(graph, name):
    with pytest.raises(ValueError, match="not a valid"):
        ops.constant(0, name=name)
    with pytest.raises(ValueError, match="not a valid"):
        with ops.name_scope(name):
            pass


@pytest.mark.alone
def test_unique_name_is_linear():
    """20,000 equal names take well under a second; a quadratic search would take minutes."""
    graph = ops.Graph()
    start = clock()
    names = {graph.unique_name("x") for _ in range(20_000)}
    assert len(names) == 20_000 and clock() - start < 2


def test_python_operands_are_named_after_the_argument(graph):
    y = Add(ops.constant(1.0), 2.0, name="sum")
    assert [t.op.name for t in y.op.inputs] == ["Const", "sum/y"]


def test_element_lookup(graph):
    c = ops.constant(1.0, name="c")
    assert graph.get_tensor_by_name("c:0") is c
    assert graph.get_operation_by_name("c") is c.op
    assert graph.as_graph_element("c:0") is c and graph.as_graph_element(c.op) is c.op
    with pytest.raises(KeyError, match="does not exist in the graph.*Did you mean 'c'"):
        graph.get_tensor_by_name("cc:0")
    with pytest.raises(KeyError, match="only has 1 outputs"):
        graph.get_tensor_by_name("c:1")
    with pytest.raises(ValueError, match="looks a like a Tensor name"):
        graph.get_tensor_by_name("c:x")
    with pytest.raises(ValueError, match="refers to an Operation, not a Tensor"):
        graph.get_tensor_by_name("c")
    with pytest.raises(ValueError, match="appears to refer to a Tensor"):
        graph.get_operation_by_name("c:0")
    with pytest.raises(TypeError, match="Can not convert a int into a Tensor or Operation"):
        graph.as_graph_element(3)
    with pytest.raises(TypeError):
        graph.get_tensor_by_name(c)

    class Holder:
        def _as_graph_element(self):
            return c
    assert graph.as_graph_element(Holder()) is c


def test_two_graphs_error_names_both_and_the_thread():
    with ops.Graph().as_default() as other:
        foreign = ops.constant(1.0, name="foreign")
    with ops.Graph().as_default() as mine:
        own = ops.constant(1.0)
        with pytest.raises(ValueError) as caught:
            mine.as_graph_element(foreign)
        with pytest.raises(ValueError, match="same graph"):
            Add(own, foreign)
    text = str(caught.value)
    assert "'foreign:0' is not an element of this graph" in text
    assert f"{id(mine):#x}" in text and f"{id(other):#x}" in text
    assert text.count("test_graph.py:") == 2 and threading.current_thread().name in text


def test_inputs_choose_the_graph():
    with ops.Graph().as_default() as g:
        c = ops.constant(1.0)
    assert Identity(c).graph is g
    assert Add(c, 1.0).op.inputs[1].graph is g


def test_default_graph_is_per_thread():
    seen = []
    with ops.Graph().as_default() as g:
        thread = threading.Thread(target=lambda: seen.append(ops.get_default_graph() is g))
        thread.start()
        thread.join()
        assert ops.get_default_graph() is g
    assert seen == [False]


def test_reset_default_graph():
    before = ops.get_default_graph()
    ops.reset_default_graph()
    assert ops.get_default_graph() is not before
    with ops.Graph().as_default(), pytest.raises(AssertionError):
        ops.reset_default_graph()


def test_finalize(graph):
    c = ops.constant(1.0)
    graph.finalize()
    assert graph.finalized
    for change in (lambda: ops.constant(2.0), lambda: c.op._set_attr("x", 1),
                   lambda: graph.add_to_collection("k", 1)):
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
            change()
    assert graph.version == 1


def test_ids_versions_and_revision(graph):
    a, b = ops.constant(1.0), ops.constant(2.0)
    assert (a.op._id, b.op._id, graph.version, graph._last_id) == (1, 2, 2, 2)
    before = graph.revision
    c = Identity(a)
    c.op._add_control_input(b.op)
    c.op._update_input(0, b)
    c.op._set_attr("_note", b"x")
    c.op._set_device("/cpu:0")
    assert graph.revision >= before + 5 and graph.version == 3
    assert a.consumers() == [] and b.consumers() == [c.op] and b.op.control_outputs == [c.op]
    assert c.op.control_inputs == [b.op] and c.op.get_attr("_note") == b"x"
    with pytest.raises(TypeError, match="incompatible types"):
        c.op._update_input(0, ops.constant(1))


def test_failed_node_leaves_no_trace(graph):
    a = ops.constant([1.0, 2.0])
    with pytest.raises(ValueError):
        Add(a, ops.constant([1.0, 2.0, 3.0], name="b"), name="bad")
    assert [op.name for op in graph.get_operations()] == ["Const", "b"]
    assert a.consumers() == []


def test_shape_error_says_where(graph):
    with pytest.raises(ValueError) as caught:
        Add(ops.constant([1.0, 2.0]), ops.constant([1.0, 2.0, 3.0]), name="bad")
    text = str(caught.value)
    assert text.startswith("Dimensions must be equal, but are 2 and 3 for 'bad'")
    assert "'bad' (op: 'Add') with input shapes: [2], [3]" in text and "test_graph.py:" in text


def test_user_frame_and_traceback(graph):
    c = ops.constant(1.0)
    frame = c.op.user_frame
    assert frame.filename == __file__ and frame.function == "test_user_frame_and_traceback"
    assert frame.line == "c = ops.constant(1.0)"
    filename, lineno, function, line = c.op.traceback[-1]
    assert (filename, lineno, function) == (__file__, frame.lineno, frame.function)
    assert "c = ops.constant(1.0)" in c.op.creation_trace()
    assert c.op.describe() == f"Const node 'Const' ({__file__}:{frame.lineno}; inputs: none)"


def test_error_shows_where_the_node_was_made(graph):
    c = ops.constant(1.0, name="c")
    error = errors.InvalidArgumentError(None, c.op, "bad value")
    assert str(error).startswith("bad value") and "Node 'c' (Const) was made here" in str(error)
    assert 'c = ops.constant(1.0, name="c")' in str(error)
    assert error.node_def.name == "c" and error.message == "bad value"


class TestTensor:
    def test_no_truth_value(self, graph):
        with pytest.raises(TypeError, match="as a Python `bool` is not allowed"):
            bool(ops.constant(True))

    def test_no_length(self, graph):
        with pytest.raises(TypeError, match="len is not well defined"):
            len(ops.constant([1]))

    def test_no_array(self, graph):
        with pytest.raises(NotImplementedError, match="symbolic Tensor"):
            np.array(ops.constant([1.0]))

    def test_iteration_is_refused(self, graph):
        x = Placeholder(ops.constant(1.0).dtype, shape=[None, 2])
        for tensor in (x, ops.constant(1.0), ops.constant([1.0, 2.0]), Placeholder(x.dtype)):
            for use in (iter, list, tuple, sum, lambda t: [*t], lambda t: 1.0 in t):
                with pytest.raises(TypeError, match="tf.unstack|not iterable"):
                    use(tensor)

    def test_set_shape(self, graph):
        x = Placeholder("float32", shape=[None, 2])
        x.set_shape([3, None])
        assert x.shape == TensorShape([3, 2]) and x.get_shape().as_list() == [3, 2]
        with pytest.raises(ValueError, match="cannot be"):
            x.set_shape([4, 2])

    def test_text(self, graph):
        x = Placeholder("float32", shape=[None, 2], name="x")
        assert str(x) == 'Tensor("x:0", shape=(?, 2), dtype=float32)'
        assert repr(x) == "<tf.Tensor 'x:0' shape=(?, 2) dtype=float32>"
        assert str(Placeholder("int32", name="y")) == 'Tensor("y:0", dtype=int32)'

    def test_hash_and_identity(self, graph):
        a, b = ops.constant(1.0), ops.constant(1.0)
        assert {a: 1}[a] == 1 and a != b and a == a

    def test_eval_without_session(self, graph):
        with pytest.raises(ValueError, match="No default session is registered"):
            ops.constant(1.0).eval()

    def test_eval_uses_the_default_session(self, graph):
        class Session:
            def run(self, fetches, feed_dict):
                return fetches, feed_dict
        session = Session()
        session.graph = graph
        c = ops.constant(1.0)
        with default_graph.default_session(session):
            assert c.eval({"a": 1}) == (c, {"a": 1})
            c.op.run()
        session.graph = ops.Graph()
        with pytest.raises(ValueError, match="its graph is different"):
            c.eval(session=session)


class TestGrowth:
    """USERS row 5: a graph that a line makes grow between runs says so once, or refuses."""

    def test_warns_once_with_the_line(self, graph, caplog):
        ops.constant(1.0)
        with caplog.at_level(logging.WARNING, logger="pyflow"):
            for _ in range(7):
                graph.mark_run()
                ops.constant(2.0)
        assert len(caplog.records) == 1
        text = caplog.records[0].getMessage()
        assert "test_graph.py:" in text and "after the graph has run" in text

    def test_what_is_built_late_but_once_is_not_worth_a_warning(self, graph, caplog):
        with caplog.at_level(logging.WARNING, logger="pyflow"):
            graph.mark_run()
            for _ in range(50):             # layers of a second network
                ops.constant(2.0)
            graph.mark_run()
            ops.constant(3.0)
            graph.mark_run()
            ops.constant(4.0)
        assert not caplog.records

    def test_ops_made_without_being_run_are_noticed_too(self, graph, caplog):
        graph.mark_run()                    # session.run of known fetches does not tell the graph
        with caplog.at_level(logging.WARNING, logger="pyflow"):
            for _ in range(1500):
                ops.constant(2.0)
        assert len(caplog.records) == 1

    def test_silent_before_the_first_run(self, graph, caplog):
        for _ in range(3):
            ops.constant(2.0)
        assert not caplog.records

    def test_strict_graph_raises(self):
        with ops.Graph(strict=True).as_default() as g:
            ops.constant(1.0)
            g.mark_run()
            with pytest.raises(RuntimeError, match="Strict graph"):
                ops.constant(2.0)
            assert g.version == 1

    def test_strict_by_default(self, graph, monkeypatch):
        graph.mark_run()
        monkeypatch.setenv("PYFLOW_STRICT_GRAPH", "1")
        with pytest.raises(RuntimeError, match="Strict graph"):
            ops.constant(2.0)
        ops.set_strict_graph(False)
        try:
            ops.constant(2.0)
        finally:
            ops.set_strict_graph(None)


def test_feedable_and_fetchable(graph):
    c = ops.constant(1.0)
    assert graph.is_feedable(c) and graph.is_fetchable(c.op)
    graph.prevent_feeding(c)
    graph.prevent_fetching(c.op)
    assert not graph.is_feedable(c) and not graph.is_fetchable(c) and not graph.is_fetchable(c.op)


def test_building_from_many_threads():
    graph = ops.Graph()

    def build():
        with graph.as_default(), ops.name_scope("t"), ops.device("/cpu:0"):
            x = ops.constant(1.0)
            for _ in range(200):
                x = Add(x, 1.0)

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [op.name for op in graph.get_operations()]
    assert len(names) == len(set(names)) == 4 * 401
    assert all(op._id == i + 1 for i, op in enumerate(graph.get_operations()))
    assert {op.device for op in graph.get_operations()} == {"/device:CPU:0"}


def test_graph_is_collected():
    import gc
    import weakref
    graph = ops.Graph()
    with graph.as_default():
        Identity(ops.constant(1.0))
    watcher = weakref.ref(graph)
    del graph
    gc.collect()
    assert watcher() is None
