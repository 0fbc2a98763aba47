"""Functions in a GraphDef's library: what calls become, in which order effects happen, and typed
errors for libraries that do not hold together.  (Real ones: tests/frozen/test_functions.py.)"""

import pathlib

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyflow as tf
from pyflow.framework import function_inline, protos

FROZEN = pathlib.Path(__file__).resolve().parents[1] / "frozen"
FLOAT = "{ type: DT_FLOAT }"


def arg(name, kind="type: DT_FLOAT"):
    return f'{{ name: "{name}" {kind} }}'


def node(name, op, *inputs, device="", **attrs):
    text = f'name: "{name}" op: "{op}" device: "{device}" '
    text += " ".join(f'input: "{i}"' for i in inputs)
    return text + "".join(f' attr {{ key: "{k}" value {v} }}' for k, v in attrs.items())


def call(name, function, *inputs, op="PartitionedCall", key="f", **attrs):
    return node(name, op, *inputs, **{key: func(function)}, **attrs)


def func(name, **attrs):
    inner = "".join(f' attr {{ key: "{k}" value {v} }}' for k, v in attrs.items())
    return f'{{ func {{ name: "{name}" {inner} }} }}'


def function(name, args, results, *nodes, controls=(), attrs=()):
    """results: {result: what it is}; args and results are floats unless written by `arg`."""
    parts = [f'input_arg {a if a[0] == "{" else arg(a)}' for a in args]
    parts += [f"output_arg {arg(r)}" for r in results]
    parts += [f"attr {a}" for a in attrs]
    text = f'signature {{ name: "{name}" {" ".join(parts)} }} '
    text += " ".join(f"node_def {{ {n} }}" for n in nodes)
    text += "".join(f' ret {{ key: "{k}" value: "{v}" }}' for k, v in results.items())
    return text + "".join(f' control_ret {{ key: "{c}" value: "{c}" }}' for c in controls)


def graph_def(nodes, functions):
    text = " ".join(f"node {{ {n} }}" for n in nodes)
    text += " library {" + " ".join(f"function {{ {f} }}" for f in functions) + "}"
    return text_format.Parse(text + " versions { producer: 1286 }", protos.GraphDef())


X = node("x", "Placeholder", dtype=FLOAT, shape="{ shape { } }")
DOUBLE = function("double", ["a"], {"y": "twice:z:0"}, node("twice", "AddV2", "a", "a", T=FLOAT))
TWO_TYPES = {"Tin": "{ list { type: DT_FLOAT } }", "Tout": "{ list { type: DT_FLOAT } }"}


def run(nodes, functions, fetches, feeds=None, **kwargs):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def(nodes, functions), name="", **kwargs)
        return session.run(fetches, feeds or {})


def refused(nodes, functions, kind, match):
    with tf.Graph().as_default() as graph:
        with pytest.raises(kind, match=match):
            tf.import_graph_def(graph_def(nodes, functions), name="")
        assert not graph.get_operations()


# -------------------------------------------------------------------------------- what calls become


def test_a_call_and_a_call_in_it():
    outer = function("outer", ["b"], {"y": "c2:output:0"}, call("c1", "double", "b"),
                     call("c2", "double", "c1:output"))
    nodes = [X, call("c", "outer", "x"), node("z", "Identity", "c", T=FLOAT)]
    assert run(nodes, [DOUBLE, outer], ["c:0", "z:0"], {"x:0": 3.0}) == [12.0, 12.0]
    with tf.Graph().as_default() as graph:
        y, op = tf.import_graph_def(graph_def(nodes, [DOUBLE, outer]), name="net",
                                    return_elements=["c:0", "c/c1/twice"])
        assert y.name == "net/c:0" and op.type == "AddV2"
        assert [o.name for o in graph.get_operations()] == [
            "net/x", "net/c/c1/twice", "net/c/c1", "net/c/c2/twice", "net/c/c2", "net/c", "net/z"]
        assert graph.get_operation_by_name("net/c").type == "Identity"
        assert [f.signature.name for f in graph.as_graph_def().library.function] == [
            "double", "outer"]


def test_the_function_as_an_op_with_attributes():
    """The older form: the op's name is the function's, and its node gives the attributes."""
    generic = function(
        "twice_of", [arg("a", 'type_attr: "T"')], {"y": "sum:z:0"},
        node("sum", "AddV2", "a", "a", T='{ placeholder: "T" }'),
        attrs=['{ name: "T" type: "type" }'])
    nodes = [node("x", "Placeholder", dtype="{ type: DT_INT32 }"),
             node("c", "twice_of", "x", T="{ type: DT_INT32 }")]
    assert run(nodes, [generic], "c:0", {"x:0": 21}) == 42
    refused([X, node("c", "twice_of", "x")], [generic], ValueError, "without its attr 'T'")


def test_lists_as_arguments_and_results():
    listed = function("listed", [arg("a", 'type: DT_FLOAT number_attr: "N"')],
                      {"y": "pack:output:0"},
                      node("pack", "Pack", "a:0", "a:1", "parts:output:1", N="{ i: 3 }", T=FLOAT),
                      node("both", "Pack", "a:0", "a:1", N="{ i: 2 }", T=FLOAT),
                      node("parts", "Unpack", "both:output:0", num="{ i: 2 }", T=FLOAT),
                      attrs=['{ name: "N" type: "int" }'])
    nodes = [X, node("z", "Neg", "x", T=FLOAT), node("c", "listed", "x", "z", N="{ i: 2 }")]
    np.testing.assert_array_equal(run(nodes, [listed], "c:0", {"x:0": 2.0}), [2.0, -2.0, -2.0])


def test_a_result_that_is_an_argument():
    swap = function("swap", ["a", "b"], {"first": "b", "second": "a"})
    nodes = [X, node("z", "Neg", "x", T=FLOAT), call("c", "swap", "x", "z"),
             call("d", "swap", "c:0", "c:1"), node("y", "Sub", "d:0", "d:1", T=FLOAT)]
    assert run(nodes, [swap], ["y:0", "c:1", "d:0"], {"x:0": 5.0}) == [10.0, 5.0, 5.0]


def test_devices_are_inherited():
    nodes = [X, call("c", "double", "x").replace('device: ""', 'device: "/device:CPU:0"')]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def(nodes, [DOUBLE]), name="")
        assert graph.get_operation_by_name("c/twice").device == "/device:CPU:0"


def test_input_map_replaces_a_result():
    nodes = [X, call("c", "double", "x"), node("y", "Neg", "c", T=FLOAT)]
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(graph_def(nodes, [DOUBLE]), name="", return_elements=["y:0"],
                                   input_map={"c:0": tf.constant(7.0, name="given")})
        assert session.run(y) == -7.0


VARIABLE = node("v", "VarHandleOp", dtype=FLOAT, shape="{ shape { } }", shared_name='{ s: "v" }')
ONE = 'tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 }'
ADD_ONE = function(
    "add_one", [arg("h", "type: DT_RESOURCE")], {},
    node("one", "Const", dtype=FLOAT, value=f"{{ {ONE} }}"),
    node("more", "AssignAddVariableOp", "h", "one:output:0", dtype=FLOAT), controls=["more"])


def test_effects_come_before_who_waits_and_after_what_the_call_waits_for():
    nodes = [VARIABLE, node("zero", "Const", dtype=FLOAT,
                            value=f"{{ {ONE.replace('float_val: 1', 'float_val: 0')} }}"),
             node("start", "AssignVariableOp", "v", "zero", dtype=FLOAT),
             call("c1", "add_one", "v", "^start", op="StatefulPartitionedCall"),
             call("c2", "add_one", "v", "^c1", op="StatefulPartitionedCall"),
             node("read", "ReadVariableOp", "v", "^c2", dtype=FLOAT)]
    for _ in range(5):
        assert run(nodes, [ADD_ONE], "read:0") == 2.0


def test_effects_in_branches_and_loops():
    """An If whose branch only has an effect; a While that counts on a variable."""
    nothing = function("nothing", [arg("h", "type: DT_RESOURCE")], {})
    below = function("below", [arg("h", "type: DT_RESOURCE"), "n"], {"go": "less:z:0"},
                     node("read", "ReadVariableOp", "h", dtype=FLOAT),
                     node("less", "Less", "read:value:0", "n", T=FLOAT))
    below = below.replace('output_arg { name: "go" type: DT_FLOAT }',
                          'output_arg { name: "go" type: DT_BOOL }')
    more = function("more", [arg("h", "type: DT_RESOURCE"), "n"], {"h2": "h", "n2": "n"},
                    call("add", "add_one", "h", op="StatefulPartitionedCall"), controls=["add"])
    more = more.replace('output_arg { name: "h2" type: DT_FLOAT }',
                        'output_arg { name: "h2" type: DT_RESOURCE }')
    nodes = [X, VARIABLE, node("p", "Placeholder", dtype="{ type: DT_BOOL }"),
             node("start", "AssignVariableOp", "v", "x", dtype=FLOAT),
             node("i", "If", "p", "v", "^start", then_branch=func("add_one"),
                  else_branch=func("nothing")),
             node("first", "ReadVariableOp", "v", "^i", dtype=FLOAT),
             node("w", "While", "v", "x", "^first", cond=func("below"), body=func("more")),
             node("last", "ReadVariableOp", "v", "^w", dtype=FLOAT)]
    functions = [ADD_ONE, nothing, below, more]
    assert run(nodes, functions, ["first:0"], {"p:0": True, "x:0": 3.0}) == [4.0]
    found = run(nodes, functions, ["first:0", "last:0"], {"p:0": False, "x:0": -3.0})
    assert found == [-3.0, -3.0]


# -------------------------------------------------------------------------------- what is refused


def test_functions_that_are_not_there():
    refused([X, call("c", "none", "x")], [DOUBLE], tf.errors.NotFoundError, "does not define")
    refused([X, node("c", "MapDefun", "x", f=func("none"))], [DOUBLE], tf.errors.NotFoundError,
            "does not define")


def test_calls_that_stay():
    """Of functions that call themselves, directly or not, and where _noinline says so."""
    own = function("own", ["a"], {"y": "c:output:0"}, call("c", "own", "a"))
    ping = function("ping", ["a"], {"y": "c:output:0"}, call("c", "pong", "a"))
    pong = function("pong", ["a"], {"y": "d:y:0"}, node("d", "ping", "a"))
    nodes = [X, call("c", "own", "x", **TWO_TYPES), call("d", "double", "x", **TWO_TYPES),
             call("e", "double", "x", _noinline="{ b: true }", **TWO_TYPES), node("p", "pong", "x")]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def(nodes, [own, ping, pong, DOUBLE]), name="")
        assert {op.name: op.type for op in graph.get_operations()} == {
            "x": "Placeholder", "c": "PartitionedCall", "d/twice": "AddV2", "d": "Identity",
            "e": "PartitionedCall", "p": "pong"}
        assert graph.get_operation_by_name("c").get_attr("f").name == "own"
        again = graph.as_graph_def()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(again, name="")
        assert graph.as_graph_def() == again


def test_more_nodes_than_any_model_has():
    """Thirty functions, each calling the next twice: 2^30 nodes; and a chain that is too deep."""
    def calls(name, other, times):
        nodes = [call("c0", other, "a")] + [
            call(f"c{i}", other, f"c{i - 1}:output:0") for i in range(1, times)]
        return function(name, ["a"], {"y": f"c{times - 1}:output:0"}, *nodes)
    for times, kind in ((2, "more than 200,000 nodes"), (1, "more than 100 deep")):
        many = [calls(f"f{i}", f"f{i + 1}", times) for i in range(30 if times == 2 else 150)]
        many.append(DOUBLE.replace('"double"', f'"f{len(many)}"'))
        refused([X, call("c", "f0", "x")], many, tf.errors.ResourceExhaustedError, kind)


NO_OP = function("no_op", ["a"], {"y": "a"})


def test_small_files_that_would_become_large():
    """A long name, a long list of results, a long chain: little in the file, a lot when inlined."""
    long = function("long", ["a"], {"y": "a"}, node("n" * 10 ** 6, "NoOp"))
    refused([X] + [call(f"c{i}", "long", "x") for i in range(200)], [long],
            tf.errors.ResourceExhaustedError, "names of more than")
    many = function("many", ["a"], {}, node("n", "Neg", "a", T=FLOAT),
                    attrs=['{ name: "N" type: "int" }'])
    result = ' output_arg { name: "y" type: DT_FLOAT number_attr: "N" } attr {'
    many = many.replace(" attr {", result, 1) + ' ret { key: "y" value: "n:y" }'
    refused([X] + [node(f"c{i}", "many", "x", N="{ i: 100000 }") for i in range(20)], [many],
            tf.errors.ResourceExhaustedError, "inputs and results")
    chain = [X, call("c0", "no_op", "x")] + [
        call(f"c{i}", "no_op", f"c{i - 1}") for i in range(1, 4000)]
    assert run(chain, [NO_OP], "c3999:0", {"x:0": 2.0}) == 2.0


BOOL = function("true", ["a"], {"y": "t:output:0"}, node(
    "t", "Const", dtype="{ type: DT_BOOL }",
    value="{ tensor { dtype: DT_BOOL tensor_shape { } bool_val: true } }")).replace(
        'output_arg { name: "y" type: DT_FLOAT }', 'output_arg { name: "y" type: DT_BOOL }')


@pytest.mark.parametrize("nodes,functions,problem", [
    ([call("c", "double", "x", "x")], [], "with 2 arguments, it has 1"),
    ([call("c", "double")], [], "with 0 arguments, it has 1"),
    ([node("c", "PartitionedCall", "x")], [], "has no function in its attr 'f'"),
    ([call("c", "double", "x"), node("c", "Neg", "x", T=FLOAT)], [], "not unique"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "gone:z:0"})], "reads 'gone:z:0'"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "n:w:0"}, node("n", "Neg", "a", T=FLOAT))],
     "reads 'n:w:0'"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "n:y:99999999999"}, node("n", "Neg", "a"))],
     "reads 'n:y:99999999999'"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "n:y:0"}, node("n", "Neg", "^gone"))],
     "reads '\\^gone'"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "a"}, node("n", "Neg", "a"),
                                      node("n", "Neg", "a"))], "'n' is not unique"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "a"}).partition(" ret")[0]],
     "says nothing of its result 'y'"),
    ([call("c", "no_op", "c")], [NO_OP], "only depends on itself"),
    ([node("c", "f", "x", N="{ i: 1152921504606846976 }")],
     [function("f", [arg("a", 'type: DT_FLOAT number_attr: "N"')], {"y": "a"},
               attrs=['{ name: "N" type: "int" }'])],
     "has 1152921504606846976 tensors"),
    ([node("w", "While", cond=func("true"), body=func("no_op"))], [BOOL, NO_OP],
     "has no loop variables"),
    ([node("w", "While", "x", "x", cond=func("true"), body=func("double"))], [BOOL],
     "has 1 arguments, expected 2"),
    ([node("w", "While", "x", cond=func("true"))], [BOOL], "no function in its attr 'body'"),
    ([node("i", "If", then_branch=func("no_op"), else_branch=func("no_op"))], [NO_OP],
     "has no condition"),
    ([node("p", "Placeholder", dtype="{ type: DT_BOOL }"),
      node("i", "If", "p", "x", then_branch=func("no_op"), else_branch=func("none"))],
     [NO_OP, function("none", ["a"], {})], "0 results, expected 1|1 results, expected 0"),
    ([node("s", "Case", "x", branches="{ list { } }")], [], "has no branches"),
])
def test_libraries_that_do_not_hold_together(nodes, functions, problem):
    refused([X] + nodes, [DOUBLE] + functions, ValueError, problem)


@pytest.mark.parametrize("nodes,functions,problem", [
    ([call("c", "double", "x"), node("z", "Neg", "c:3", T=FLOAT)], [], "invalid output 3"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "n:y:7"}, node("n", "Neg", "a", T=FLOAT))],
     "invalid output 7"),
    ([call("c", "f", "x")], [function("f", ["a"], {"y": "n:y:0"}, node("n", "Neg", "m:y:0"),
                                      node("m", "Neg", "n:y:0"))], "nodes in a cycle"),
    ([node("w", "While", "x", cond=func("true"), body=func("true"))], [BOOL], "bool"),
    ([node("w", "While", "x", cond=func("no_op"), body=func("double"))], [NO_OP], "LoopCond"),
])
def test_edges_that_do_not_fit(nodes, functions, problem):
    """Found while nodes are added, as in a graph without functions."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match=problem):
        tf.import_graph_def(graph_def([X] + nodes, [DOUBLE] + functions), name="")


def test_unknown_ops_in_bodies_are_listed_together():
    strange = function("strange", ["a"], {"y": "n:out:0"}, node("n", "NoSuchOp", "a"))
    refused([X, call("c", "strange", "x"), node("m", "NorThis")], [strange],
            tf.errors.NotFoundError, "(?s)needs 2 op type.*NoSuchOp: node c/n.*NorThis: node m")


def test_conditions_of_other_types():
    chosen = [node("p", "Placeholder", dtype="{ type: DT_INT32 }", shape="{ shape { } }"),
              node("i", "If", "p", "x", then_branch=func("double"), else_branch=func("no_op"),
                   Tcond="{ type: DT_INT32 }")]
    assert run([X] + chosen, [DOUBLE, NO_OP], "i:0", {"x:0": 3.0, "p:0": 7}) == 6.0
    assert run([X] + chosen, [DOUBLE, NO_OP], "i:0", {"x:0": 3.0, "p:0": 0}) == 3.0
    text = [c.replace("DT_INT32", "DT_STRING") for c in chosen]
    refused([X] + text, [DOUBLE, NO_OP], tf.errors.UnimplementedError, "condition of type number 7")


SEEDS = [(FROZEN / f"{name}.pb").read_bytes() for name in ("branches", "array_in_loop")]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_libraries_never_crash(data):
    """Any damage ends in a clean Python error, or in a graph that can be written again."""
    damaged = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(bytes(damaged), name="")
        except (ValueError, TypeError, tf.OpError):
            return
    graph.as_graph_def()


def test_flat_graph_def_leaves_others_alone():
    plain = graph_def([X], [])
    assert function_inline.flat_graph_def(plain) is plain
    flat = function_inline.flat_graph_def(graph_def([X, call("c", "double", "x")], [DOUBLE]))
    assert [n.op for n in flat.node] == ["Placeholder", "AddV2", "Identity"]
