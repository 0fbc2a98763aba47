"""Records TensorFlow's nodes for flow_programs.py (run in an environment that has TensorFlow;
`make oracle`).

Each node is kept as "name type input input ^control": what test_structure.py compares.
"""
import gzip
import json
import os

import flow_programs

HERE = os.path.dirname(os.path.abspath(__file__))


def nodes_of(graph):
    """The graph's nodes as text, sorted by name."""
    return sorted(f"{n.name} {n.op} {' '.join(n.input)}".strip() for n in graph.as_graph_def().node)


def record():
    import tensorflow
    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()
    found = {}
    for name, build in flow_programs.PROGRAMS.items():
        with tf.Graph().as_default() as graph:
            build(tf)
        found[name] = nodes_of(graph)
    text = json.dumps(found, indent=0).encode()
    with open(os.path.join(HERE, "tf_nodes.json.gz"), "wb") as raw:
        with gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
            file.write(text)


if __name__ == "__main__":
    record()
