"""What pyflow writes of its ops against TensorFlow's own tables of 1.15.5 and 2.21 (record_ops.py):
attributes, signatures, defaults, static shapes."""
import gzip
import importlib
import json
import pathlib
import pkgutil
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "ops"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import record_ops  # noqa: E402
from test_tf_opdefs import plain  # noqa: E402

import pyflow as tf  # noqa: E402
import pyflow.ops  # noqa: E402
from pyflow.framework import exported  # noqa: E402
from pyflow.framework.op import registered_ops  # noqa: E402

for _module in pkgutil.walk_packages(pyflow.ops.__path__, "pyflow.ops."):
    importlib.import_module(_module.name)
TABLES = json.loads(gzip.decompress((HERE / "op_tables.json.gz").read_bytes()))
OLD, NEW = TABLES["1.15.5"], TABLES["2.21.0"]
OURS = {name: op for name, op in registered_ops().items()
        if name in NEW and (op.module or "").startswith("pyflow.ops.")}


def test_newer_attributes_are_those_that_tensorflow_1_15_lacks():
    newer = {name: sorted(k for k in op.attrs if k not in OLD[name]["attrs"])
             for name, op in OURS.items() if name in OLD}
    assert {name: attrs for name, attrs in newer.items() if attrs} == {
        name: sorted(attrs) for name, attrs in exported.NEWER.items()}
    assert all(OURS[name].attrs[a].has_default for name, attrs in exported.NEWER.items()
               for a in attrs)


def test_attributes_that_both_know_are_equal():
    wrong = []
    for version, table in TABLES.items():
        for name, op in OURS.items():
            for attr in op.attrs.values() if name in table else ():
                ours = [attr.kind] + ([plain(attr.default)] if attr.has_default else [])
                theirs = table[name]["attrs"].get(attr.name, ours)
                if ours != theirs:
                    wrong.append((version, name, attr.name, ours, theirs))
    assert not wrong


def test_arguments_are_those_of_tensorflow_1_15():
    """A type that became an attribute since then is that attribute's default."""
    wrong = []
    for name, op in OURS.items():
        newer = {a: plain(op.attrs[a].default) for a in exported.NEWER.get(name, ())}
        for side in ("inputs", "outputs") if name in OLD else ():
            ours = [tuple(str(arg).split(": ", 1)) for arg in getattr(op, side)]
            texts = []
            for arg, kind in ours:
                head, star, last = kind.rpartition(" * ")
                texts.append(f"{arg}: {head}{star}{newer.get(last, last)}")
            if texts != OLD[name][side]:
                wrong.append((name, texts, OLD[name][side]))
    assert not wrong


def inferred(op):
    """The static shapes of a node of which nothing is known, as record_ops.py writes them."""
    graph_def = record_ops.node_of(op.as_proto(), tf.GraphDef())
    graph_def.versions.producer = 134
    with tf.Graph().as_default():
        try:
            node, = tf.import_graph_def(graph_def, name="", return_elements=["node"])
        except (ValueError, tf.errors.OpError):
            return "!"
        return ";".join(record_ops.shape_text(t.shape) for t in node.outputs)


def weaker_or_other(ours, theirs):
    for a, b in zip(ours.split(";"), theirs.split(";")):
        if "*" in (a, b):
            if b != "*":
                return True
            continue
        a, b = (x.split(",") if x else [] for x in (a, b))
        if len(a) != len(b) or any(x != y and y != "?" for x, y in zip(a, b)):
            return True
    return False


# Ops whose node of record_ops.py pyflow refuses, as it has no such function or strides, or infers
# otherwise on purpose.
ASIDE = {
    **dict.fromkeys("If StatelessIf While StatelessWhile Case StatelessCase MapDefun "
                    "PartitionedCall StatefulPartitionedCall SymbolicGradient".split(),
                    "the function is not there"),
    **dict.fromkeys("Conv2DBackpropFilter Conv2DBackpropInput DepthwiseConv2dNativeBackpropFilter "
                    "DepthwiseConv2dNativeBackpropInput".split(), "strides of one number"),
    "EncodePng": "2.21's: batches of images", "ExtractVolumePatches": "tests/shapes/known.py",
    "TensorListElementShape": "1.15 says a vector of a scalar", "UniqueV2": "of a vector alone",
}


@pytest.mark.parametrize("version", TABLES)
def test_static_shapes_of_unknown_inputs(version):
    """Of every op; handles have the shapes that TensorFlow's tables say."""
    wrong = {}
    for name, op in OURS.items():
        theirs = TABLES[version].get(name, {}).get("shapes", "!")
        if theirs != "!" and name not in ASIDE:
            ours = inferred(op)
            if ours == "!" or weaker_or_other(ours, theirs):
                wrong[name] = (ours, theirs)
    assert not wrong


def test_handles_of_arrays_stacks_and_accumulators():
    """Container and name, says TensorFlow's table; who reads a MetaGraphDef compares."""
    with tf.Graph().as_default():
        array = tf.TensorArray(tf.float32, 3)
        stack = tf.raw_ops.StackV2(max_size=3, elem_type=tf.float32)
        total = tf.ConditionalAccumulator(tf.float32, [2])
        handles = (array.handle, stack, total.accumulator_ref)
        assert [x.shape.as_list() for x in handles] == [[2]] * 3


def first_samples():
    import derive
    for name, op in sorted(derive.own_ops().items()):
        if name in OLD and op.samples:
            sample = op.samples[0]
            choices = derive.type_choices(op, sample)
            choices.sort(key=lambda types: tf.float32 not in types.values())
            yield derive.Case(op, 0, sample, choices[0])


def test_nodes_have_no_attribute_that_1_15_does_not_know():
    """A node of each op by its first sample, in a GraphDef, a MetaGraphDef, and its node_def."""
    wrong, count = [], 0
    with tf.Graph().as_default() as graph:
        for case in first_samples():
            case.node(lambda a: tf.placeholder(
                tf.string if a.dtype == object else tf.as_dtype(a.dtype), a.shape))
            count += 1
        written = [graph.as_graph_def(), tf.train.export_meta_graph().graph_def]
        for graph_def in written:
            for node in graph_def.node:
                wrong += [(node.op, key) for key in node.attr if key[0] != "_"
                          and node.op in OLD and key not in OLD[node.op]["attrs"]]
        assert not any(key in exported.NEWER.get(op.type, ())
                       for op in graph.get_operations() for key in op.node_def.attr)
    assert not wrong and count > 450


def test_a_newer_attribute_that_says_something_stays():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 2, 3])
        tf.raw_ops.CTCGreedyDecoder(inputs=x, sequence_length=[4, 4], blank_index=0)
        attrs = graph.as_graph_def().node[-1].attr
        assert attrs["blank_index"].i == 0 and "blank_index" in attrs


def test_functions_leave_them_out_too():
    from pyflow.python.framework import function

    @function.Defun(tf.float32)
    def square(x):
        return tf.raw_ops.MatMul(a=x, b=x)
    with tf.Graph().as_default() as graph:
        square(tf.placeholder(tf.float32, [2, 2]))
        library = graph.as_graph_def().library
        assert [sorted(n.attr) for n in library.function[0].node_def] == [
            ["T", "transpose_a", "transpose_b"]]
        library.function[0].node_def[0].attr["grad_a"].b = False     # as TensorFlow 2.21 writes it
        foreign = graph.as_graph_def()
        foreign.library.CopyFrom(library)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(foreign, name="")
        again = graph.as_graph_def().library.function[0]
        assert "grad_a" not in again.node_def[0].attr


def written_for_old(tf):
    """Functions of 1.15's whose first nodes here were later versions' ops."""
    text, one = tf.placeholder(tf.string, [None]), tf.placeholder(tf.string, [])
    asked = {"a": tf.FixedLenFeature([], tf.float32, 0.0), "b": tf.VarLenFeature(tf.int64)}
    lists = {"c": tf.FixedLenSequenceFeature([], tf.int64)}
    tf.parse_example(text, asked)
    tf.parse_single_example(one, asked)
    tf.parse_single_example(one, asked, example_names=one)
    tf.io.parse_sequence_example(text, asked, lists)
    tf.parse_single_sequence_example(one, asked, lists)
    tf.sparse.cross([tf.SparseTensor([[0, 0]], ["x"], [1, 1]), tf.constant([["y"]])])
    tf.image.decode_image(one, 3, tf.float32)
    for dataset in (tf.data.Dataset.range(3).map(lambda x: x + 1, 2).batch(2),
                    tf.data.TFRecordDataset(["none"]).shuffle(3).repeat(2),
                    tf.data.experimental.RandomDataset(1)):
        tf.data.make_one_shot_iterator(dataset).get_next()


def test_functions_of_1_15_write_ops_that_it_knows():
    with tf.Graph().as_default() as graph:
        written_for_old(tf)
        graph_def = graph.as_graph_def()
    names = {node.op for node in graph_def.node}
    names |= {node.op for f in graph_def.library.function for node in f.node_def}
    assert not names - set(OLD)
    assert names >= {"ParseExample", "ParseSingleExample", "ParseSequenceExample",
                     "ParseSingleSequenceExample", "SparseCross", "DecodeJpeg", "RandomDataset"}
