"""Mutated GraphDefs and checkpoints through Python: only typed errors, at most a second, at most
1 GB.

    python tests/fuzz_format/import_path.py --runs 10000 [--seed 0]

Graphs: real ones (seeds.py, and those of tests/frozen with a library of functions, their inputs
made constants), one to three changes each (a field doubled, deleted, exchanged or given a number,
name, type or length that is known to hurt), through tf.import_graph_def and, if that takes it, a
session.  Checkpoints: bytes and JSON of an index changed, its sum put right, through
CheckpointReader and through Saver.restore's kernel.

The process gives itself a limit of memory; run it as a child where a crash must not take you along.
Prints what came of the runs; exits 1 at the first thing that is not a typed error.
"""

import argparse
import collections
import json
import pathlib
import random
import resource
import sys
import tempfile
import time
import traceback
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "frozen")]

import function_models
import pyflow as tf
import seeds

TYPED = (tf.OpError, ValueError, TypeError)
SECONDS, BYTES = 1.0, 1 << 30
NUMBERS = [
    0,
    1,
    2,
    3,
    -1,
    -2,
    7,
    100,
    255,
    1024,
    1 << 20,
    2**31 - 1,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
]
OPS = [
    "Const",
    "Identity",
    "Switch",
    "Merge",
    "Enter",
    "Exit",
    "NextIteration",
    "LoopCond",
    "Add",
    "MatMul",
    "Split",
    "ConcatV2",
    "Reshape",
    "VariableV2",
    "Assign",
    "NoOp",
    "Placeholder",
    "Nonsense",
    "StridedSlice",
    "TensorArrayV3",
    "VarHandleOp",
    "Cast",
    "Fill",
    "_Arg",
    "_Retval",
    "While",
    "If",
    "Case",
    "PartitionedCall",
]


# ---------------------------------------------------------------- graphs
def change_inputs(rng, nodes, node):
    names = [n.name for n in nodes] + ["", "gone", "^", "a:99999999999"]
    name = rng.choice(names) + rng.choice(["", "", "", ":1", ":7", ":-1", ":output:0", ":z:9"])
    if rng.random() < 0.3:
        name = "^" + name
    inputs = list(node.input)
    if inputs and rng.random() < 0.7:
        inputs[rng.randrange(len(inputs))] = name
    elif inputs and rng.random() < 0.5:
        del inputs[rng.randrange(len(inputs))]
    else:
        inputs.append(name)
    del node.input[:]
    node.input.extend(inputs)


def change_value(rng, value):
    kind = value.WhichOneof("value")
    if kind == "tensor" and rng.random() < 0.8:
        change_tensor(rng, value.tensor)
    elif kind == "shape" and rng.random() < 0.8:
        value.shape.dim.add().size = rng.choice(NUMBERS)
    elif kind == "i" and rng.random() < 0.8:
        value.i = rng.choice(NUMBERS)
    else:
        what = rng.randrange(5)
        if what == 0:
            value.type = rng.randrange(30)
        elif what == 1:
            value.i = rng.choice(NUMBERS)
        elif what == 2:
            value.s = rng.choice([b"", b"\xff", b"SAME", b"x" * 1000])
        elif what == 3:
            value.list.i.extend(rng.choices(NUMBERS, k=3))
        else:
            value.shape.unknown_rank = True


def change_tensor(rng, tensor):
    what = rng.randrange(5)
    if what == 0:
        tensor.dtype = rng.randrange(30)
    elif what == 1:
        tensor.tensor_shape.dim.add().size = rng.choice(NUMBERS)
    elif what == 2 and tensor.tensor_shape.dim:
        rng.choice(tensor.tensor_shape.dim).size = rng.choice(NUMBERS)
    elif what == 3:
        tensor.tensor_content = bytes(rng.randrange(40))
    else:
        tensor.int_val.extend([1, 2, 3])


def change_function(rng, library):
    """One of the functions: its arguments, results, name, or what calls name it."""
    function = rng.choice(library.function)
    what = rng.randrange(6)
    if what == 0:
        function.signature.name = rng.choice(library.function).signature.name
    elif what == 1 and function.signature.input_arg:
        function.signature.input_arg.remove(rng.choice(function.signature.input_arg))
    elif what == 2:
        function.signature.input_arg.add(name="more", type=rng.randrange(30))
    elif what == 3 and function.ret:
        function.ret[rng.choice(sorted(function.ret))] = rng.choice(["", "gone:y:0", "x", ":0"])
    elif what == 4:
        function.signature.output_arg.add(name=rng.choice(["y", "z"]), type=1, number_attr="N")
    else:
        library.function.remove(function)


def change_graph(rng, graph):
    functions = graph.library.function
    if functions and rng.random() < 0.2:
        return change_function(rng, graph.library)
    inside = functions and rng.random() < 0.6
    change_nodes(rng, rng.choice(functions).node_def if inside else graph.node)


def change_nodes(rng, nodes):
    if not nodes:
        return
    node = rng.choice(nodes)
    what = rng.randrange(8)
    if what == 0:
        nodes.add().CopyFrom(node)
    elif what == 1:
        nodes.remove(node)
    elif what == 2:
        node.op = rng.choice(OPS)
    elif what == 3:
        node.name = rng.choice([rng.choice(nodes).name, "", "a b", "^x", "x:1", "ok"])
    elif what == 4 and node.attr:
        del node.attr[rng.choice(sorted(node.attr))]
    elif what in (5, 6) and node.attr:
        change_value(rng, node.attr[rng.choice(sorted(node.attr))])
    else:
        change_inputs(rng, nodes, node)


def frozen():
    """Graphs with functions that TensorFlow wrote; what it would be fed is a constant."""
    for name in ("branches", "array_in_loop", "nested_calls", "mapped"):
        data = (HERE.parent / "frozen" / f"{name}.pb").read_bytes()
        graph, feeds = tf.GraphDef.FromString(data), iter(function_models.feeds(name))
        for node in graph.node:
            if node.op == "Placeholder":
                node.op = "Const"
                del node.attr["shape"]
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(next(feeds)))
        yield graph


def import_one(rng, base):
    graph = tf.GraphDef()
    graph.CopyFrom(base)
    for _ in range(rng.choice([1, 1, 2, 3])):
        change_graph(rng, graph)
    data = graph.SerializeToString()
    if rng.random() < 0.1:
        at = rng.randrange(len(data) + 1)
        data = (
            data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(4))) + data[at + 1 :]
        )
        graph = tf.GraphDef()
        try:
            graph.ParseFromString(data)
        except Exception as error:  # protobuf's own error: the bytes never reach pyflow
            if type(error).__name__ == "DecodeError":
                return "not protobuf"
            raise
    with tf.Graph().as_default() as made:
        tf.import_graph_def(graph, name="")
        if not graph.node:
            return "no nodes"
        found = [made.get_operation_by_name(n.name) for n in graph.node[-3:]]
        fetches = [op.outputs[0] if op.outputs else op for op in found]
        options = tf.RunOptions(timeout_in_ms=200)
        with tf.Session(graph=made) as sess:
            sess.run(fetches, options=options)
    return "ran"


# ---------------------------------------------------------------- checkpoints
def change_json(rng, value):
    """A value somewhere inside becomes another."""
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            del value[key]
        elif isinstance(value[key], (dict, list)) and rng.random() < 0.85:
            change_json(rng, value[key])
        else:
            value[key] = rng.choice(
                [*NUMBERS, "", "float32", "string", "..", None, [], {}, 1.5, [2**62, 4]]
            )
    elif isinstance(value, list) and value:
        at = rng.randrange(len(value))
        if isinstance(value[at], (dict, list)) and rng.random() < 0.85:
            change_json(rng, value[at])
        else:
            value[at] = rng.choice([*NUMBERS, "x", None])


def changed_index(rng, index):
    if rng.random() < 0.3:
        index = bytearray(index)
        for _ in range(rng.randrange(1, 4)):
            index[rng.randrange(19, len(index))] = rng.randrange(256)
        body = bytes(index[19:])
    else:
        document = json.loads(index)
        del document["crc32"]
        for _ in range(rng.choice([1, 1, 2])):
            change_json(rng, document)
        body = b"," + json.dumps(document, separators=(",", ":")).encode()[1:] + b"\n"
    return b'{"crc32":"%08x"' % zlib.crc32(body) + body


def restore_one(rng, base, folder):
    index, data, name = base
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data))]
    pathlib.Path(folder, "c.index").write_bytes(changed_index(rng, index))
    pathlib.Path(folder, name).write_bytes(data)
    prefix = str(pathlib.Path(folder, "c"))
    with tf.Graph().as_default():
        tf.get_variable("w", [2, 3])
        saver = tf.train.Saver()
        with tf.Session() as sess:
            failed = None
            for read in (
                lambda: [tf.train.load_checkpoint(prefix).get_tensor(n) for n in seeds.TENSORS],
                lambda: saver.restore(sess, prefix),
            ):
                try:
                    read()
                except TYPED as error:
                    failed = error
            if failed:
                raise failed
    return "restored"


# ---------------------------------------------------------------- runs
def one(kind, rng, bases, folder):
    try:
        if kind == "graph":
            return import_one(rng, rng.choice(bases))
        return restore_one(rng, rng.choice(bases), folder)
    except TYPED as error:
        if isinstance(error, tf.errors.InternalError):
            raise
        return type(error).__name__


def parsed(data):
    """A graph as a program's own GraphDef: results are fetched, not made nodes."""
    graph = tf.GraphDef.FromString(data)
    for node in [n for n in graph.node if n.op == "_Retval"]:
        graph.node.remove(node)
    for node in graph.node:
        if node.op == "_Arg":
            node.op = "Placeholder"
            node.attr["dtype"].CopyFrom(node.attr["T"])
            del node.attr["T"], node.attr["index"]
    return graph


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    graphs = [parsed(data) for data in seeds.graphs()]
    graphs += list(frozen()) * (1 + len(graphs) // 8)
    with tempfile.TemporaryDirectory() as folder:
        kept = seeds.checkpoint(["w"], folder), seeds.checkpoint(list(seeds.TENSORS), folder)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcomes, slowest = collections.Counter(), 0.0
        for i in range(options.runs):
            rng = random.Random(options.seed * 1_000_003 + i)
            kind = "checkpoint" if i % 4 == 3 else "graph"
            began = time.process_time()
            try:
                came = one(kind, rng, kept if kind == "checkpoint" else graphs, folder)
            except BaseException:
                traceback.print_exc()
                sys.exit(f"run {i} of --seed {options.seed} ({kind}): not a typed error")
            took = time.process_time() - began
            slowest = max(slowest, took)
            outcomes[f"{kind}: {came}"] += 1
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
            if took > SECONDS or grown > BYTES:
                sys.exit(
                    f"run {i} of --seed {options.seed} ({kind}): {took:.2f} s, {grown >> 20} MB"
                )
    for came, n in sorted(outcomes.items()):
        print(f"{n:7d}  {came}")
    print(
        f"{options.runs} runs; the slowest took {slowest:.2f} s of CPU time, {grown >> 20} MB at most"
    )


if __name__ == "__main__":
    main()
