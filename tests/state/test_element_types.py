"""A node that declares another element type than its variable, slot, table, array, stack or list
has is an InvalidArgument that names node, op, object and both types; no memory is touched.

Before, the kernels took the buffer for elements of the declared type: AssignAddVariableOp of double
on a float variable wrote past its end, ResourceGather of double read behind it,
ResourceApplyGradientDescent on a string variable overwrote the strings' descriptors.
"""
import gc

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor
from pyflow.framework import wire
from pyflow.session import contract
from pyflow.framework.op import registered_ops

INVALID_ARGUMENT = 3
VALUES = {tf.float32: [1.0, 2.0, 3.0], tf.int32: [1, 2, 3], tf.string: [b"a", b"b" * 40, b""]}
CHECKED_BY_T = ("ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
                "ResourceGather", "ResourceGatherNd", "ResourceScatterAdd", "ResourceScatterSub",
                "ResourceScatterMul", "ResourceScatterDiv", "ResourceScatterMin",
                "ResourceScatterMax", "ResourceScatterUpdate")


@pytest.fixture(scope="module", autouse=True)
def plugins():
    tf.Session().close()                # they are open from now on


def type_attr(op):
    """The attribute that says what the variables behind the op's handles hold."""
    return "dtype" if "dtype" in op.attrs else "T"


def ops_on_variables():
    return {name: op for name, op in registered_ops().items()
            if (op.module or "").rpartition(".")[2] in ("resource_handles", "training_ops",
                                                        "state_ops")
            and any(a.dtype == tf.resource for a in op.inputs)
            and type_attr(op) in op.attrs}


class Raw:
    """A graph of nodes as no front end makes it, run by the core itself."""

    def __init__(self):
        self.nodes = []

    def node(self, name, op, inputs=(), **attrs):
        self.nodes.append(wire.encode_node_parts(name, op, list(inputs), "", attrs))
        return name

    def const(self, name, value, dtype):
        array = np.array(value, object if dtype == tf.string else dtype.as_numpy_dtype)
        return self.node(name, "Const", value=array, dtype=dtype)

    def variable(self, name, value, dtype):
        """-> (handle, the node that gives it its value)"""
        handle = self.node(name, "VarHandleOp", dtype=dtype, shape=tf.TensorShape(None),
                           shared_name=name)
        value = self.const(name + "_value", value, dtype)
        return handle, self.node(name + "_assign", "AssignVariableOp", [handle, value], dtype=dtype)

    def run(self):
        plan = _executor.compile(wire.encode_graph(self.nodes, b""), {}, _executor.State("types"),
                                 _executor.Pool(1), contract.PlanOptions(threads=1))
        return plan.run(())

    def refused(self, *words, node="op"):
        with pytest.raises(_executor.StepError) as caught:
            self.run()
        error = caught.value
        assert error.code == INVALID_ARGUMENT and error.node == node, (error.node, error)
        assert all(word in str(error) for word in words), error


def add_call(graph, op, said, held):
    """A call of the op that declares `said`; its k-th variable holds held[k]."""
    inputs, ready, many = [], [], 0
    for k, arg in enumerate(op.inputs):
        if arg.dtype == tf.resource:
            handle, done = graph.variable(f"v{many}", VALUES[held[many]], held[many])
            ready.append("^" + done)
            inputs.append(handle)
            many += 1
        elif arg.type_attr == type_attr(op):
            scalar = arg.name not in ("value", "grad", "delta", "updates")
            inputs.append(graph.const(f"x{k}", 1 if scalar else [1, 2, 3], said))
        else:                           # indices, begin, end and strides; a count of steps
            dtype = tf.int32 if arg.type_attr else arg.dtype
            inputs.append(graph.const(f"x{k}", 1 if arg.dtype else [0], dtype))
    attrs = {a.name: a.default for a in op.attrs.values() if a.has_default}
    attrs |= {a.name: tf.int32 for a in op.attrs.values() if a.kind == "type"}
    attrs |= {"limit": 10} if "limit" in op.attrs else {}
    graph.node("op", op.name, [*inputs, *ready], **attrs | {type_attr(op): said})


def handles(op):
    return sum(a.dtype == tf.resource for a in op.inputs)


ON_VARIABLES = ops_on_variables()


def test_all_of_them_are_looked_at():
    assert len(ON_VARIABLES) > 40 and {"ResourceApplyAdam", "ResourceSparseApplyFtrl",
                                       "ResourceStridedSliceAssign"} <= set(ON_VARIABLES)


@pytest.mark.parametrize("name", ON_VARIABLES)
def test_another_type_than_the_variables(name):
    op = ON_VARIABLES[name]
    counts = name == "ResourceCountUpTo"
    said, held = (tf.int64, tf.int32) if counts else (tf.float64, tf.float32)
    graph = Raw()
    add_call(graph, op, said, [held] * handles(op))
    graph.refused("'v0'", "Expected int64 got int32" if counts else "Expected double got float")


@pytest.mark.parametrize("name", [n for n in ON_VARIABLES if handles(ON_VARIABLES[n]) > 1])
def test_another_type_than_a_slots(name):
    op = ON_VARIABLES[name]
    for k in range(1, handles(op)):
        held = [tf.float32] * handles(op)
        held[k] = tf.string
        graph = Raw()
        add_call(graph, op, tf.float32, held)
        graph.refused(f"'v{k}'", f"input {k}", "Expected float got string")


@pytest.mark.parametrize("name", ["AssignAddVariableOp", "ResourceApplyGradientDescent",
                                  "ResourceGather", "ResourceScatterUpdate"])
def test_numbers_on_a_string_variable(name):
    graph = Raw()
    add_call(graph, ON_VARIABLES[name], tf.float32, [tf.string])
    graph.refused("'v0'", "Expected float got string")


def test_a_table_or_an_array_is_no_variable():
    for maker, attrs, inputs in (
            ("HashTableV2", {"key_dtype": tf.string, "value_dtype": tf.float32}, ()),
            ("StackV2", {"elem_type": tf.float32}, ("size",)),
            ("TensorArrayV3", {"dtype": tf.float32, "element_shape": None}, ("size",))):
        graph = Raw()
        graph.const("size", 3, tf.int32)
        graph.node("made", maker, inputs, **{k: v for k, v in attrs.items() if v is not None}
                   | ({"element_shape": tf.TensorShape(None)} if "element_shape" in attrs else {}))
        graph.const("x", [1, 2, 3], tf.float32)
        graph.node("op", "AssignAddVariableOp", ["made", "x"], dtype=tf.float32)
        graph.refused("input 0 is not a variable")


# ---------------------------------------------------------------- other objects behind handles
def test_elements_of_stacks_arrays_and_lists():
    def stack(graph):
        graph.node("made", "StackV2", ["size"], elem_type=tf.float32)
        return graph.node("op", "StackPushV2", ["made", "x"], T=tf.float64)

    def array(graph):
        graph.node("made", "TensorArrayV3", ["size"], dtype=tf.float32,
                   element_shape=tf.TensorShape(None))
        return graph.node("op", "TensorArrayWriteV3", ["made", "size", "x", "made:1"],
                          T=tf.float64)

    def items(graph):
        graph.const("shape", -1, tf.int32)
        graph.node("made", "TensorListReserve", ["shape", "size"], element_dtype=tf.float32,
                   shape_type=tf.int32)
        graph.const("at", 0, tf.int32)
        return graph.node("op", "TensorListSetItem", ["made", "at", "x"],
                          element_dtype=tf.float64)

    for make in (stack, array, items):
        graph = Raw()
        graph.const("size", 1, tf.int32)
        graph.const("x", [1.0, 2.0], tf.float64)
        make(graph)
        graph.refused("double", "float")


def test_strings_of_an_array_are_read_twice():
    """Were "out of memory": strings cannot be lent under another header."""
    with tf.Graph().as_default(), tf.Session() as session:
        array = tf.TensorArray(tf.string, 1, clear_after_read=False)
        array = array.write(0, [b"a" * 50, b""])
        assert [v.tolist() for v in session.run([array.read(0), array.read(0)])] == \
            [[b"a" * 50, b""]] * 2


def test_keys_and_values_of_tables():
    graph = Raw()
    graph.node("made", "MutableHashTableV2", key_dtype=tf.int64, value_dtype=tf.string)
    graph.const("keys", [1, 2], tf.int64)
    graph.const("values", [1.0, 2.0], tf.float64)
    graph.node("op", "LookupTableInsertV2", ["made", "keys", "values"], Tin=tf.int64,
               Tout=tf.float64)
    graph.refused("int64->double", "int64->string")


# ---------------------------------------------------------------- building and importing
def imported(name):
    """The GraphDef of one op on a float variable, with the op's type changed to double."""
    with tf.Graph().as_default() as graph:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3], name="v", shared_name="v")
        double = tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=[3], name="d", shared_name="d")
        op, k = ON_VARIABLES[name], 0
        kinds = {"indices": [[0]] if name == "ResourceGatherNd" else [0],
                 "updates": [1.0], "value": [1.0, 2.0, 3.0]}
        values = {a.name: tf.constant(kinds[a.name], tf.float64 if a.type_attr == "dtype"
                                      else tf.int32) for a in op.inputs[1:]}
        getattr(tf.raw_ops, name)(**{op.inputs[0].name: double}, **values, name="op",
                                  **({} if "value" in values or "updates" in values
                                     else {"dtype": tf.float64}))
        graph_def = graph.as_graph_def()
        for node in graph_def.node:
            if node.name == "op":
                node.input[k] = handle.op.name
        return graph_def


@pytest.mark.parametrize("name", CHECKED_BY_T)
def test_import_refuses_what_tensorflow_refuses(name):
    """TF 2.21, import_graph_def: "Trying to read variable with wrong dtype. Expected float got
    double for '{{node op}} = ...'"."""
    with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
        tf.import_graph_def(imported(name), name="")
    text = str(caught.value)
    assert "Trying to read variable with wrong dtype. Expected float got double" in text
    assert "'v'" in text and "'op'" in text and name in text


def test_a_counter_of_another_type_is_refused():
    """TF 2.21: "Data types do not match: int64 and int32"."""
    with tf.Graph().as_default():
        handle = tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[], shared_name="n")
        with pytest.raises(ValueError, match="Data types do not match: int64 and int32.*op"):
            tf.raw_ops.ResourceCountUpTo(resource=handle, limit=3, T=tf.int64, name="op")


def test_a_value_of_another_shape_is_refused():
    """TF 2.21: "Shapes must be equal rank"; ops without outputs were not looked at."""
    with tf.Graph().as_default():
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3], shared_name="w")
        with pytest.raises(ValueError, match=r"AssignVariableOp.*\[3\].*\[2,2\]|\(3,\).*\(2, 2\)"):
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.ones([2, 2]))


def test_handles_that_go_in_circles_end():
    """A Merge whose first input is the NextIteration of itself: shapes are asked for all the
    same."""
    with tf.Graph().as_default() as graph:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[3], shared_name="c", name="v")
        entered = tf.raw_ops.Enter(data=handle, frame_name="f", name="e")
        merged = tf.raw_ops.Merge(inputs=[entered, entered], name="m")[0]
        step = tf.raw_ops.NextIteration(data=merged, name="n")
        tf.raw_ops.ReadVariableOp(resource=step, dtype=tf.float32, name="op")
        graph_def = graph.as_graph_def()
    for node in graph_def.node:
        if node.name == "m":
            node.input[0] = "n"
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        circle = graph.get_tensor_by_name("n:0")
        assert circle.op.inputs[0].op.inputs[0] is circle
        read = tf.raw_ops.ReadVariableOp(resource=circle, dtype=tf.float32)
    assert read.shape.ndims is None


def test_a_handle_is_fed_as_what_it_is():
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)
        handle = session.run(table)
        lists = tf.placeholder(tf.variant, [])
        length = tf.raw_ops.TensorListLength(input_handle=lists)
        with pytest.raises(TypeError, match="variant.*resource"):
            session.run(length, {lists: handle})
        again = tf.placeholder(tf.resource, [])
        read = tf.raw_ops.ReadVariableOp(resource=again, dtype=tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a variable"):
            session.run(read, {again: handle})


def test_a_variable_that_holds_its_own_handle_ends_with_its_session():
    """The fuzzer's: object, handle and value held each other for ever."""
    def tensors():
        with tf.Graph().as_default(), tf.Session() as session:
            handle = tf.raw_ops.VarHandleOp(dtype=tf.resource, shape=[], shared_name="itself")
            session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=handle))
        del session, handle
        gc.collect()
        return _executor.memory_stats()["in_use"]

    tensors()
    before = tensors()
    assert [tensors() for _ in range(3)] == [before] * 3
