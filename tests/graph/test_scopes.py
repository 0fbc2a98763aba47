"""Devices, control dependencies, colocation, attribute scopes, collections, containers, seeds."""

import pytest

from pyflow.framework import graph as ops
from pyflow.framework.device import DeviceSpec, merge_device
from pyflow.framework.graph import GraphKeys
from pyflow.framework.op import get_op
from pyflow.ops.control import identity_ops
from pyflow.ops.state import state_ops  # noqa: F401 - registers ops

Identity = get_op("Identity")


class TestDevice:
    @pytest.mark.parametrize("outer,inner,merged", [
        ("/cpu:0", "/gpu:1", "/device:GPU:1"),
        ("/job:ps/task:1", "/gpu:0", "/job:ps/task:1/device:GPU:0"),
        ("/job:ps/task:1", "/task:2", "/job:ps/task:2"),
        ("/device:GPU:3", "/job:w", "/job:w/device:GPU:3"),
        ("/job:w/replica:1", "", "/job:w/replica:1"),
        ("/job:w", None, ""),
    ])
    def test_nesting(self, graph, outer, inner, merged):
        with ops.device(outer), ops.device(inner):
            assert ops.constant(0).device == merged

    def test_function(self, graph):
        def place(op):
            return "/job:ps" if op.type == "Const" else op.device
        with ops.device("/gpu:0"), ops.device(place):
            c = ops.constant(0)
            assert c.device == "/job:ps/device:GPU:0"
            assert Identity(c).device == "/device:GPU:0"

    def test_merge_device_function(self, graph):
        with ops.device(merge_device("/job:ps/cpu:0")), ops.device("/task:3"):
            assert ops.constant(0).device == "/job:ps/task:3/device:CPU:0"

    def test_spec_object(self, graph):
        with ops.device(DeviceSpec(job="w", device_type="gpu", device_index=2)):
            assert ops.constant(0).device == "/job:w/device:GPU:2"

    @pytest.mark.parametrize("bad", ["/foo:0", "/job", "/task:x", "/device:GPU",
                                     "/cpu:0/gpu:0"])
    def test_malformed(self, graph, bad):
        with pytest.raises(ValueError):
            with ops.device(bad):
                pass

    @pytest.mark.parametrize("text",
                             ["", "/job:a", "/replica:3", "/job:a/replica:0/task:2/device:TPU:1",
                                      "/device:GPU:*", "/job:a/task:1"])
    def test_spec_round_trip(self, text):
        assert DeviceSpec.from_string(text).to_string() == text


class TestControlDependencies:
    def test_edges(self, graph):
        a, b = ops.constant(1), ops.constant(2)
        with ops.control_dependencies([a, b.op, a]):
            c = ops.constant(3)
        assert c.op.control_inputs == [a.op, b.op]

    def test_data_edge_is_not_doubled(self, graph):
        a = ops.constant(1)
        with ops.control_dependencies([a]):
            assert Identity(a).op.control_inputs == []

    def test_dominated_inputs(self, graph):
        a = ops.constant(1)
        with ops.control_dependencies([a]):
            b = ops.constant(2)
            assert Identity(b).op.control_inputs == []    # b waits for a already

    def test_none_clears(self, graph):
        a = ops.constant(1)
        with ops.control_dependencies([a]):
            with ops.control_dependencies(None):
                assert ops.constant(2).op.control_inputs == []
            assert ops.constant(3).op.control_inputs == [a.op]

    def test_nesting_adds(self, graph):
        a, b = ops.constant(1), ops.constant(2)
        with ops.control_dependencies([a]), ops.control_dependencies([b]):
            assert set(ops.constant(3).op.control_inputs) == {a.op, b.op}

    def test_names_and_bad_values(self, graph):
        a = ops.constant(1, name="a")
        with ops.control_dependencies(["a"]):
            assert ops.constant(2).op.control_inputs == [a.op]
        with pytest.raises(TypeError):
            ops.control_dependencies([3])

    def test_other_graph(self, graph):
        with ops.Graph().as_default():
            foreign = ops.constant(1)
        with pytest.raises(ValueError, match="not an element of this graph"):
            graph.control_dependencies([foreign])

    def test_context_gets_new_ops_and_none_leaves_it(self, graph):
        class Context:
            def __init__(self):
                self.ops = []

            def add_op(self, op):
                self.ops.append(op)
        context = Context()
        graph._control_flow_context = context
        inside = ops.constant(1).op
        with ops.control_dependencies(None):
            outside = ops.constant(2).op
        assert context.ops == [inside]
        assert inside._control_flow_context is context and outside._control_flow_context is None
        assert graph._get_control_flow_context() is context


class TestColocation:
    def test_group_and_device(self, graph):
        with ops.device("/gpu:1"):
            a = ops.constant(1, name="a")
        with ops.device("/cpu:0"), ops.colocate_with(a.op):
            b = ops.constant(2, name="b")
        assert b.op.get_attr("_class") == [b"loc:@a"] and b.device == "/device:GPU:1"
        with ops.colocate_with(b.op):      # the group of b is that of a
            assert ops.constant(3).op.colocation_groups() == [b"loc:@a"]
        assert a.op.colocation_groups() == [b"loc:@a"]

    def test_ignore_existing(self, graph):
        a, b = ops.constant(1, name="a"), ops.constant(2, name="b")
        with ops.colocate_with(a):
            with ops.colocate_with(b):
                assert ops.constant(0).op.colocation_groups() == [b"loc:@a", b"loc:@b"]
            with ops.colocate_with(b, ignore_existing=True):
                assert ops.constant(0).op.colocation_groups() == [b"loc:@b"]
            with ops.colocate_with(None, ignore_existing=True):
                assert "_class" not in ops.constant(0).op.attrs
        with pytest.raises(ValueError, match="ignore_existing"):
            with ops.colocate_with(None):
                pass


class TestAttributeScopes:
    def test_gradient_override_map(self, graph):
        with graph.gradient_override_map({"Identity": "Mine"}):
            inside = Identity(ops.constant(1)).op
        assert inside.get_attr("_gradient_op_type") == b"Mine"
        assert "_gradient_op_type" not in Identity(ops.constant(1)).op.attrs
        with pytest.raises(TypeError):
            with graph.gradient_override_map({"Identity": 3}):
                pass
        with pytest.raises(TypeError):
            with graph.gradient_override_map("Identity"):
                pass

    def test_attr_scope(self, graph):
        with graph._attr_scope({"_a": 1}):
            with graph._attr_scope({"_a": None, "_b": b"x"}):
                inner = ops.constant(0).op
            outer = ops.constant(0).op
        assert "_a" not in inner.attrs and inner.get_attr("_b") == b"x"
        assert outer.get_attr("_a") == 1

    def test_kernel_label_map(self, graph):
        with graph._kernel_label_map({"Const": "special"}):
            assert ops.constant(0).op.get_attr("_kernel") == b"special"

    def test_container(self, graph):
        Variable = get_op("VariableV2")
        with graph.container("box"):
            v = Variable(shape=[], dtype="float32")
            named = Variable(shape=[], dtype="float32", container="own")
            assert "container" not in ops.constant(0).op.attrs
        assert v.op.get_attr("container") == b"box" and named.op.get_attr("container") == b"own"


class TestCollections:
    def test_basics(self, graph):
        ops.add_to_collection("k", 1)
        ops.add_to_collections(["k", "l", "k"], 2)
        ops.add_to_collections("m", 3)
        assert ops.get_collection("k") == [1, 2] and ops.get_collection("l") == [2]
        assert ops.get_collection("m") == [3] and ops.get_collection("none") == []
        ops.get_collection("k").append(9)
        assert ops.get_collection("k") == [1, 2]
        ops.get_collection_ref("k").append(9)
        assert ops.get_collection("k") == [1, 2, 9]
        assert set(ops.get_all_collection_keys()) == {"k", "l", "m"}
        graph.clear_collection("k")
        assert ops.get_collection("k") == []

    def test_scope_is_a_regex_from_the_start(self, graph):
        for name in ("layer1/w", "layer2/w", "my/layer1/w"):
            ops.add_to_collection("v", ops.constant(0, name=name))
        ops.add_to_collection("v", "no name attribute")
        found = [t.op.name for t in ops.get_collection("v", "layer.*/")]
        assert found == ["layer1/w", "layer2/w"]

    def test_graph_keys(self):
        assert GraphKeys.GLOBAL_VARIABLES == "variables" == GraphKeys.VARIABLES
        assert GraphKeys.TRAINABLE_VARIABLES == "trainable_variables"
        assert GraphKeys.TABLE_INITIALIZERS == "table_initializer"
        assert GraphKeys.WHILE_CONTEXT == "while_context"
        keys = [v for k, v in vars(GraphKeys).items() if k.isupper() and isinstance(v, str)]
        assert len(keys) >= 30 and len(set(keys)) == len(keys) - 1    # VARIABLES is an alias


class TestSeeds:
    """TensorFlow's rule (tf.random.set_random_seed)."""

    def test_no_seed(self, graph):
        assert ops.get_seed(None) == (None, None)

    def test_op_seed_only(self, graph):
        assert ops.get_seed(5) == (87654321, 5)

    def test_graph_seed_uses_the_last_id(self, graph):
        ops.set_random_seed(7)
        assert ops.get_seed(None) == (7, 0)
        ops.constant(1)
        assert ops.get_seed(None) == (7, 1)
        assert ops.get_seed(3) == (7, 3)

    def test_never_zero_zero_and_truncated(self, graph):
        ops.set_random_seed(0)
        assert ops.get_seed(0) == (0, 2**31 - 1)
        ops.set_random_seed(2**31 + 5)
        assert ops.get_seed(2**31) == (6, 1)


@pytest.mark.alone
def test_many_variable_scopes_take_linear_time():
    """Default names are numbered, and closed scopes forgotten, without looking at all others."""
    import time

    import pyflow as tf

    def seconds(n):
        with tf.Graph().as_default():
            start = time.process_time()
            for _ in range(n):
                with tf.variable_scope(None, default_name="layer"), tf.variable_scope("inner"):
                    pass
            with tf.variable_scope(None, default_name="layer") as last:
                assert last.name == f"layer_{n}"
            return time.process_time() - start
    assert seconds(4000) < 24 * min(seconds(500) for _ in range(3))
