"""as_graph_def and import_graph_def: TensorFlow's GraphDefs, prefixes, maps, loops, malformed
input."""

import base64
import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflow as tf
import pyflow.ops  # noqa: F401 - registers ops
from pyflow.framework import errors, graph as ops, graph_io, protos, wire
from pyflow.framework.graph_io import import_graph_def
from pyflow.framework.op import get_op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.framework.tensor_util import MakeNdarray, make_tensor_proto

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tf_graphs.json")
with open(_PATH) as _f:
    TF_GRAPHS = {name: base64.b64decode(text) for name, text in json.load(_f).items()}

Add, Identity, Placeholder = get_op("AddV2"), get_op("Identity"), get_op("Placeholder")


@pytest.fixture
def small():
    """a -> b = a + 1, as a GraphDef."""
    with ops.Graph().as_default() as g:
        a = ops.constant(1.0, name="a")
        Add(a, 1.0, name="b")
    return g.as_graph_def()


def _plain(node):
    """`node` with its constant in one spelling: TensorFlow writes [0, 0] as one 0 and a shape."""
    if node.op == "Const":
        tensor = node.attr["value"].tensor
        tensor.CopyFrom(make_tensor_proto(MakeNdarray(tensor)))
    return node


def loop_graph():
    """A while loop of raw nodes: Enter, Merge, Switch, NextIteration, Exit."""
    with ops.Graph().as_default() as g:
        enter = get_op("Enter")(0.0, frame_name="f", name="enter")
        merge = get_op("Merge")([enter, enter], name="merge")
        less = get_op("Less")(merge.output, 10.0, name="less")
        cond = get_op("LoopCond")(less, name="cond")
        switch = get_op("Switch")(merge.output, cond, name="switch")
        get_op("Exit")(switch.output_false, name="exit")
        following = get_op("NextIteration")(Add(switch.output_true, 1.0, name="next_value"),
                                            name="next")
        merge.output.op._update_input(1, following)
    return g


class TestTensorFlowsGraphs:
    @pytest.mark.parametrize("name", sorted(TF_GRAPHS))
    def test_messages_keep_every_byte(self, name):
        data = TF_GRAPHS[name]
        message = protos.GraphDef.FromString(data)
        assert message.SerializeToString(deterministic=True) == data

    @pytest.mark.parametrize("name", sorted(TF_GRAPHS))
    def test_import_and_export(self, name):
        wanted = protos.GraphDef.FromString(TF_GRAPHS[name])
        with ops.Graph().as_default() as g:
            import_graph_def(wanted, name="")
        got = {n.name: n for n in g.as_graph_def().node}
        assert set(got) == {n.name for n in wanted.node}
        for node in wanted.node:
            node.attr.pop("_output_shapes", None)
            for key in set(node.attr) - set(got[node.name].attr):
                value = wire.from_attr_value(node.attr.pop(key))
                assert value in (False, 0, "", []), f"{node.name} lost {key}={value}"
            assert _plain(got[node.name]) == _plain(node)

    @pytest.mark.parametrize("name", [n for n in sorted(TF_GRAPHS) if n.endswith("_shapes")])
    def test_our_shapes_agree(self, name):
        """Our shape functions say what TensorFlow's say, or less; never something else."""
        wanted = protos.GraphDef.FromString(TF_GRAPHS[name])
        recorded = {n.name: wire.from_attr_value(n.attr.pop("_output_shapes"))
                    for n in wanted.node if "_output_shapes" in n.attr}
        with ops.Graph().as_default() as g:
            import_graph_def(wanted, name="")
        vaguer = []     # Enter forgets shapes, here as there, unless while_loop says otherwise
        for op_name, shapes in recorded.items():
            for tensor, shape in zip(g.get_operation_by_name(op_name).outputs, shapes):
                assert tensor.shape.is_compatible_with(shape), (tensor, shape)
                if tensor.shape.merge_with(shape) != tensor.shape:
                    vaguer.append((tensor.name, str(tensor.shape), str(shape)))
        assert not vaguer or name == "control_flow_shapes", vaguer

    def test_own_bytes_are_canonical(self):
        with ops.Graph().as_default() as g:
            x = Placeholder("float32", [None, 2], name="x")
            with ops.device("/gpu:0"), ops.control_dependencies([x]):
                ops.constant([[1, 2], [3, 4]])
                ops.constant("text")
                ops.constant(np.float64(-0.0))
            node = Identity(x).op
            node._set_attr("_list", [1, -2])
            node._set_attr("_types", [x.dtype])
            node._set_attr("_floats", [1.0, 2.5])
            node._set_attr("_shapes", [TensorShape([1, None]), TensorShape(None), TensorShape([0])])
            node._set_attr("_empty", [])
            node._set_attr("_bools", [True, False])
        data = graph_io.graph_bytes(g, add_shapes=True)
        assert protos.GraphDef.FromString(data).SerializeToString(deterministic=True) == data


class TestExport:
    def test_versions(self, graph):
        ops.constant(1)
        versions = graph.as_graph_def().versions
        assert (versions.producer, versions.min_consumer) == (134, 0)
        assert graph.graph_def_versions == versions

    def test_from_version(self, graph):
        ops.constant(1, name="a")
        version = graph.version
        ops.constant(1, name="b")
        assert [n.name for n in graph.as_graph_def(from_version=version).node] == ["b"]

    def test_shapes_only_when_asked(self, graph):
        Placeholder("float32", [None, 2], name="x")
        assert "_output_shapes" not in graph.as_graph_def().node[0].attr
        shape = graph.as_graph_def(add_shapes=True).node[0].attr["_output_shapes"].list.shape[0]
        assert [d.size for d in shape.dim] == [-1, 2]
        assert "_output_shapes" not in graph.get_operation_by_name("x").attrs

    def test_node_def_and_text(self, graph):
        c = ops.constant(1.0, name="c")
        y = Identity(c, name="y").op
        assert y.node_def.op == "Identity" and list(y.node_def.input) == ["c"]
        again = graph_io.parse_graph_def(str(graph.as_graph_def()).encode())
        assert again == graph.as_graph_def()

    @pytest.mark.parametrize("data", [b"\xff\xff", b"node { nam", b"not a graph"])
    def test_parse_refuses(self, data):
        with pytest.raises(ValueError, match="not a GraphDef"):
            graph_io.parse_graph_def(data)

    def test_no_protobuf_needed(self):
        """Bytes come without loading google.protobuf."""
        import subprocess
        import sys
        code = ("import sys; from pyflow.framework import graph as g, graph_io\n"
                "c = g.constant([1.0]); data = graph_io.graph_bytes(c.graph)\n"
                "assert data and 'google.protobuf' not in sys.modules, sorted(sys.modules)")
        subprocess.run([sys.executable, "-c", code], check=True, cwd="/")


class TestImport:
    def test_prefix(self, graph, small):
        assert import_graph_def(small) is None
        import_graph_def(small)
        import_graph_def(small, name="p/q")
        with ops.name_scope("outer"):
            import_graph_def(small, name="in")
        assert [op.name for op in graph.get_operations()] == [
            f"{p}/{n}" for p in ("import", "import_1", "p/q", "outer/in") for n in ("a", "b/y",
                                                                                    "b")]

    def test_no_prefix_makes_names_unique(self, graph, small):
        import_graph_def(small, name="")
        import_graph_def(small, name="")
        assert [op.name for op in graph.get_operations()] == ["a", "b/y", "b", "a_1", "b/y_1",
                                                              "b_1"]
        assert [t.name for t in graph.get_operation_by_name("b_1").inputs] == ["a_1:0", "b/y_1:0"]

    def test_return_elements(self, graph, small):
        b, a0 = import_graph_def(small, return_elements=["b", "a:0"])
        assert b is graph.get_operation_by_name("import/b") and a0 is b.inputs[0]
        for bad in (["q"], ["q:0"], ["b:3"]):
            with pytest.raises(ValueError, match="not found in graph def"):
                import_graph_def(small, return_elements=bad)

    def test_input_map(self, graph, small):
        c = ops.constant(3.0, name="c")
        b, mapped = import_graph_def(small, input_map={"a:0": c}, return_elements=["b", "a:0"],
                                     name="p")
        assert b.inputs[0] is c and mapped is c
        b, = import_graph_def(small, input_map={"a": 5.0}, return_elements=["b"], name="q")
        assert b.inputs[0].name == "q/_inputs/Const:0"
        with pytest.raises(ValueError, match=r"not found in graph_def: \[zz:0\]"):
            import_graph_def(small, input_map={"zz:0": c})
        with pytest.raises(ValueError, match="non-empty `name`"):
            import_graph_def(small, input_map={"a": 5.0}, name="")
        with pytest.raises(ValueError, match="must be float32|expected"):
            import_graph_def(small, input_map={"a": ops.constant(3)})

    def test_control_input_map(self, graph):
        with ops.Graph().as_default() as g:
            a = ops.constant(1.0, name="a")
            with ops.control_dependencies([a]):
                ops.constant(2.0, name="b")
        other = ops.constant(5.0, name="other")
        b, = import_graph_def(g.as_graph_def(), input_map={"^a": other.op}, return_elements=["b"],
                              name="p")
        assert b.control_inputs == [other.op]

    def test_order_of_the_file_does_not_matter(self, graph, small):
        nodes = list(small.node)
        del small.node[:]
        small.node.extend(reversed(nodes))
        import_graph_def(small, name="")
        assert [op.name for op in graph.get_operations()] == ["b/y", "a", "b"]

    def test_loop_with_back_edge(self, graph):
        g = loop_graph()
        exit_op, merge = import_graph_def(g.as_graph_def(), return_elements=["exit", "merge"])
        assert [t.op.name for t in merge.inputs] == ["import/enter", "import/next"]
        assert graph.get_tensor_by_name("import/next:0").consumers() == [merge]
        assert merge.inputs[0].consumers() == [merge]
        again = ops.Graph()
        with again.as_default():
            import_graph_def(g.as_graph_def(), name="")
        a, b = (sorted((n.SerializeToString(deterministic=True)) for n in x.as_graph_def().node)
                for x in (g, again))
        assert a == b

    def test_scopes_apply(self, graph, small):
        first = ops.constant(0.0, name="first")
        small.node[0].device = "/gpu:1"
        with ops.device("/job:w"), ops.control_dependencies([first]):
            import_graph_def(small, name="")
        assert graph.get_operation_by_name("a").device == "/job:w/device:GPU:1"
        assert graph.get_operation_by_name("a").control_inputs == [first.op]
        assert graph.get_operation_by_name("b").control_inputs == []

    def test_colocation_is_renamed(self, graph, small):
        small.node[0].device = "/gpu:1"
        small.node[2].attr["_class"].list.s.append(b"loc:@a")
        b, = import_graph_def(small, name="p", return_elements=["b"])
        assert b.get_attr("_class") == [b"loc:@p/a"] and b.device == "/gpu:1"
        small.node[2].attr["_class"].list.s.append(b"loc:@zz")
        with pytest.raises(ValueError, match="colocated with unknown node 'zz'"):
            import_graph_def(small)

    def test_defaults_are_filled_in(self, graph):
        with ops.Graph().as_default() as g:
            x = ops.constant([[1.0]])
            get_op("MatMul")(x, x, name="m")
        graph_def = g.as_graph_def()
        for key in ("transpose_a", "transpose_b"):
            del graph_def.node[1].attr[key]
        m, = import_graph_def(graph_def, return_elements=["m"])
        assert m.get_attr("transpose_a") is False

    def test_newer_attributes(self, graph, small):
        small.node[2].attr["new_and_off"].b = False
        small.node[2].attr["_private"].i = 3
        b, = import_graph_def(small, return_elements=["b"])
        assert "new_and_off" not in b.attrs and b.get_attr("_private") == 3
        small.node[2].attr["new_and_on"].i = 7
        with pytest.raises(ValueError, match="'b' .AddV2.: new_and_on = 7"):
            import_graph_def(small)
        op_list = protos.OpList()
        added = op_list.op.add(name="AddV2").attr.add(name="new_and_on", type="int")
        added.default_value.i = 7
        import_graph_def(small, producer_op_list=op_list)

    def test_output_shapes(self, graph):
        with ops.Graph().as_default() as g:
            Placeholder("float32", [None, 2], name="x")
        graph_def = g.as_graph_def(add_shapes=True)
        graph_def.node[0].attr["_output_shapes"].list.shape[0].dim[0].size = 5
        x, = import_graph_def(graph_def, return_elements=["x:0"])
        assert x.shape == [5, 2] and "_output_shapes" not in x.op.attrs
        graph_def.node[0].attr["_output_shapes"].list.shape[0].dim[1].size = 7
        with pytest.raises(ValueError, match="_output_shapes attribute inconsistent"):
            import_graph_def(graph_def)

    def test_library_is_kept(self, graph, small):
        small.library.function.add().signature.name = "f"
        import_graph_def(small)
        assert [f.signature.name for f in graph.as_graph_def().library.function] == ["f"]
        small.library.function[0].signature.input_arg.add(name="x")
        with pytest.raises(ValueError, match="different function with the same name"):
            import_graph_def(small)

    def test_accepts_bytes_and_foreign_messages(self, graph, small):
        import_graph_def(small.SerializeToString())

        class Foreign:       # as TensorFlow's own GraphDef class looks to us
            node = small.node

            def SerializeToString(self):
                return small.SerializeToString()
        import_graph_def(Foreign())
        for bad in ("text", 3, None, [small]):
            with pytest.raises(TypeError, match="must be a GraphDef proto"):
                import_graph_def(bad)
        with pytest.raises(ValueError, match="is not a GraphDef"):
            import_graph_def(b"\xff\xff\xff")
        with pytest.raises(TypeError, match="input_map must be a dictionary"):
            import_graph_def(small, input_map=[1])
        with pytest.raises(TypeError, match="return_elements must be a list"):
            import_graph_def(small, return_elements="b")


class TestRefusals:
    def test_all_missing_ops_at_once(self, graph, small):
        """USERS row 11."""
        small.node[0].op, small.node[1].op = "FancyOne", "FancyTwo"
        with pytest.raises(errors.NotFoundError) as caught:
            import_graph_def(small)
        assert "2 op type(s)" in str(caught.value)
        assert "FancyOne: node a" in str(caught.value) and "FancyTwo: node b/y" in str(caught.value)
        assert graph.version == 0

    @pytest.mark.parametrize("change,problem", [
        (lambda d: d.node[2].input.__setitem__(0, "nope"), "Node 'b': Unknown input node 'nope'"),
        (lambda d: d.node[2].input.__setitem__(0, "a:7"), "invalid output 7 of source node a which "
                                                          "has 1"),
        (lambda d: d.node[2].input.append("a"), "has 3 inputs, its schema says 2"),
        (lambda d: d.node[2].input.insert(0, "^a"), "Control dependencies must come after"),
        (lambda d: d.node[2].input.__setitem__(0, "b"), "1 nodes in a cycle: b"),
        (lambda d: setattr(d.node[1], "name", "a"), "'a' is not unique"),
        (lambda d: setattr(d.node[1], "name", "a b"), "invalid characters"),
        (lambda d: setattr(d.node[1], "name", ""), "invalid characters"),
        (lambda d: setattr(d.node[0], "device", "/foo:x"), "Unknown attribute"),
        (lambda d: d.node[2].attr["T"].__setattr__("type", 3), "must be int32, but"),
        (lambda d: d.node[2].attr["T"].__setattr__("type", 7777), "no DataType"),
        (lambda d: d.node[2].attr["T"].__setattr__("s", b"x"), "value with type .* expected"),
        (lambda d: d.node[2].attr["_x"].SetInParent(), "has no value"),
        (lambda d: d.node[2].attr["_x"].__setattr__("placeholder", "p"), "only function bodies"),
        (lambda d: d.node[0].attr.pop("value"), "lacks attr 'value'"),
        (lambda d: d.node[2].attr["_class"].__setattr__("i", 3), "must be a list of strings"),
        (lambda d: d.node[2].attr["_output_shapes"].__setattr__("i", 3), "_output_shapes has"),
        (lambda d: setattr(d.versions, "min_consumer", 10**6), "above current version"),
        (lambda d: d.versions.bad_consumers.append(2474), "disallows consumer"),
        (lambda d: d.node[0].attr["value"].tensor.tensor_shape.dim.add(size=-4), "negative size"),
    ])
    def test_value_error_names_the_problem(self, graph, small, change, problem):
        change(small)
        with pytest.raises(ValueError, match=problem):
            import_graph_def(small, name="")

    def test_absurd_counts(self, graph):
        with ops.Graph().as_default() as g:
            get_op("Split")(0, [1.0, 2.0], num_split=2, name="split")
        graph_def = g.as_graph_def()
        graph_def.node[-1].attr["num_split"].i = 1 << 60
        with pytest.raises(ValueError, match="asks for more than"):
            import_graph_def(graph_def)

    def test_loop_without_entry(self, graph):
        graph_def = loop_graph().as_graph_def()
        merge = next(n for n in graph_def.node if n.name == "merge")
        merge.input[0] = "next"
        with pytest.raises(ValueError, match="the loop can never start"):
            import_graph_def(graph_def)

    def test_finalized(self, graph, small):
        graph.finalize()
        with pytest.raises(RuntimeError, match="finalized"):
            import_graph_def(small)


BASE = TF_GRAPHS["control_flow_shapes"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_bytes_never_crash(data):
    """Any damage ends in a clean Python error, or in a graph that can be written again."""
    damaged = bytearray(BASE)
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(1, len(damaged))):]
    with ops.Graph().as_default() as g:
        try:
            import_graph_def(bytes(damaged), name="")
        except (ValueError, TypeError, errors.OpError):
            return
    g.as_graph_def()


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8", "float16", "bool"])
def test_large_arrays_reach_protobuf_whole(kind):
    """From 64 KB on their bytes go into the node without passing through each field around them."""
    numbers = np.random.default_rng(0).integers(0, 2 if kind == "bool" else 100, [60, 3000])
    for value in (numbers.astype(kind), numbers.astype(kind).T, np.asfortranarray(numbers, kind),
                  numbers.astype(np.dtype(kind).newbyteorder(">")), np.zeros([300, 500], kind)):
        data = wire.encode_node_parts("c", "Const", attrs={"before": 1, "value": value, "z": "s"})
        node = protos.NodeDef.FromString(data)
        assert node.attr["before"].i == 1 and node.attr["z"].s == b"s"
        found = MakeNdarray(node.attr["value"].tensor)
        assert found.dtype == np.dtype(kind) and (found == value).all()
    assert node.ByteSize() < 1000               # zeros are written once


def test_functions_with_large_constants_keep_them():
    values = np.random.default_rng(1).random([200, 100]).astype(np.float32)

    @tf.function
    def table(k):
        return tf.gather(tf.constant(values), k)
    with tf.Session() as session:
        assert (session.run(table(tf.constant([7, 3]))) == values[[7, 3]]).all()
