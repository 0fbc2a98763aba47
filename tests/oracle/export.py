"""Writes the GraphDef that pyflow makes of every Op case, for TensorFlow to load and run.

python tests/oracle/export.py FILE.npz          # by pyflow, in `long.py oracle`
"""

import hashlib
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import cases  # noqa: E402


def fingerprint(graph_def):
    """A hash of nodes, inputs and attributes, whichever library parsed it."""
    digest = hashlib.sha256()
    for node in graph_def.node:
        digest.update(repr((node.name, node.op, list(node.input), node.device)).encode())
        for key in sorted(node.attr):
            digest.update(key.encode() + node.attr[key].SerializeToString(deterministic=True))
    return digest.hexdigest()[:16]


def graph_of(tf, case):
    with tf.Graph().as_default() as graph:
        cases.build(tf, case)
        return graph.as_graph_def()


def main(path):
    import pyflow as tf

    graphs = {}
    for case in cases.load_all()[0]:
        try:
            graphs[case.name] = np.frombuffer(graph_of(tf, case).SerializeToString(), np.uint8)
        except Exception as error:  # noqa: BLE001  record.py reports what is missing
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr)
    np.savez_compressed(path, **graphs)
    print(f"{len(graphs)} graphs written by pyflow")


if __name__ == "__main__":
    main(sys.argv[1])
