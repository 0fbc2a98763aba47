"""Records what TensorFlow infers, refuses and runs of the nodes that export_nodes.py wrote.

    python -P tests/shapes/export_nodes.py FILE                      # where pyflow is
    .venv-tf/bin/python tests/shapes/record_nodes.py FILE            # adds to answers.json.gz
    .venv-tf/bin/python tests/shapes/record_nodes.py FILE --only Conv2D    # this op anew, too

An answer is a text: "2,3;?,4" are the outputs' shapes ("?" a size, "*" a rank that is unknown, ""
a scalar), "!ValueError" is what was raised.  A mis-shaped node that TensorFlow does make is also
run, and "~" stands before the shapes if that fails; what ends TensorFlow's process or takes it
10 s has no answer.  Needs TensorFlow 2.21, not pyflow.
"""
import argparse
import gzip
import json
import multiprocessing
import os
import pathlib
import pickle
import signal

import numpy as np

ANSWERS = pathlib.Path(__file__).resolve().parent / "answers.json.gz"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def shape_text(shape):
    if shape.rank is None:
        return "*"
    return ",".join("?" if d is None else str(d) for d in shape.as_list())


def is_wrong(key):
    return key.rpartition(":")[2][0] in "mc"


class Asked:
    """One node in a graph of its own."""

    def __init__(self, tf, definition, arrays):
        self.tf, self.definition, self.arrays = tf, definition, arrays
        self.feeds = {}

    def tensor(self, array, given):
        tf, kind = self.tf, given[0]
        dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
        if kind == "constant":
            return tf.constant(given[1], dtype)
        if kind == "packed":
            scalars = [tf.constant(v, dtype) if known else self.fed(dtype, (), v)
                       for v, known in zip(given[1], given[2])]
            return tf.stack(scalars)
        shape = given[1]
        fixed = shape is not None and None not in shape
        return self.fed(dtype, shape, np.resize(array, shape) if fixed else array)

    def fed(self, dtype, shape, value):
        made = self.tf.placeholder(dtype, shape)
        self.feeds[made] = value
        return made

    def answer(self, given, run):
        tf = self.tf
        with tf.Graph().as_default() as graph:
            inputs = [self.tensor(a, g) for a, g in zip(self.arrays, given)]
            try:
                op = graph._create_op_internal(
                    self.definition.op, inputs, name="node",
                    attrs=dict(self.definition.attr))
            except Exception as error:  # noqa: BLE001  what is raised is the answer
                return "!" + type(error).__name__
            text = ";".join(shape_text(t.shape) for t in op.outputs)
            return "~" + text if run and not self.runs(graph, op) else text

    def runs(self, graph, op):
        config = self.tf.ConfigProto(intra_op_parallelism_threads=1,
                                     inter_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with self.tf.Session(graph=graph, config=config) as session:
            try:
                session.run(op, self.feeds)
            except Exception:  # noqa: BLE001
                return False
        return True


def record_op(asked, results):
    """Answers of one op's nodes, in a process of its own: some odd nodes end the process."""
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    from tensorflow.core.framework import node_def_pb2
    for name, definition, arrays, variants in asked:
        definition = node_def_pb2.NodeDef.FromString(definition)
        for key, given in variants.items():
            results[name + " " + key] = "!!"        # stays if the process ends here
            signal.alarm(10)
            results[name + " " + key] = Asked(tf, definition, arrays).answer(given, is_wrong(key))


def _worker(asked, connection):
    class Sent(dict):
        def __setitem__(self, key, value):
            connection.send((key, value))
    record_op(asked, Sent())
    connection.send(None)


def record(asked, skip):
    """{node: {key: answer}}; a variant that ends the process is left out and told."""
    left = [(n, d, a, {k: g for k, g in v.items() if f"{n} {k}" not in skip})
            for n, d, a, v in asked]
    ours, theirs = multiprocessing.Pipe(False)
    child = multiprocessing.Process(target=_worker, args=(left, theirs))
    child.start()
    theirs.close()
    results = {}
    while True:
        try:
            message = ours.recv()
        except EOFError:
            break
        if message is None:
            break
        results[message[0]] = message[1]
    child.join()
    return results


def record_all(asked):
    results, skip = {}, set()
    while True:
        results.update(record([(n, d, a, {k: g for k, g in v.items()
                                          if f"{n} {k}" not in results})
                               for n, d, a, v in asked], skip))
        ended = {k for k, v in results.items() if v == "!!"} - skip
        if not ended:
            break
        print("ends TensorFlow's process:", *sorted(ended))
        skip |= ended
    found = {}
    for name, _, _, variants in asked:
        answers = {k: results[f"{name} {k}"] for k in variants
                   if results.get(f"{name} {k}", "!!") != "!!"}
        found[name] = answers
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--only", nargs="+", default=[])
    arguments = parser.parse_args()
    with open(arguments.file, "rb") as file:
        asked = pickle.load(file)
    found = json.loads(gzip.decompress(ANSWERS.read_bytes())) if ANSWERS.exists() else {}
    asked = [a for a in asked if a[0] not in found or a[0].rpartition("-")[0] in arguments.only]
    import tensorflow.compat.v1 as tf  # noqa: F401  once, before the processes are made
    for start in range(0, len(asked), 25):
        found.update(record_all(asked[start:start + 25]))
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
        ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(start, flush=True)


if __name__ == "__main__":
    main()
