"""Writes the nodes and their variants to a file that record_nodes.py reads where TensorFlow is.

    python -P tests/shapes/export_nodes.py FILE
"""
import pathlib
import pickle
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from nodes import nodes, variants  # noqa: E402


def main(path):
    found = [(node.id, node.operation.node_def.SerializeToString(), node.inputs, variants(node))
             for node in nodes()]
    with open(path, "wb") as file:
        pickle.dump(found, file)
    print(f"{len(found)} nodes, {sum(len(f[-1]) for f in found)} variants")


if __name__ == "__main__":
    main(sys.argv[1])
