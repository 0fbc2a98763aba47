"""Records TensorFlow's nodes for flow_programs.py, and its answers for value_programs.py and
random_programs.py.  Run in an environment that has TensorFlow (`long.py oracle`).

Each node is kept as "name type input input ^control": what test_structure.py compares.
"""
import gzip
import json
import os

import numpy as np

import flow_programs
import random_programs
import value_programs

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


def record_values():
    """What every fetch of value_programs gives for every feed, as answers.npz."""
    import tensorflow
    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()
    found = {}
    for name, build in value_programs.PROGRAMS.items():
        with tf.Graph().as_default():
            fetches, feeds = build(tf)
            fetches = {k: v for k, v in fetches.items() if v is not None}
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for i, feed in enumerate(feeds):
                    for key, value in session.run(fetches, feed).items():
                        found[f"{name}/{i}/{key}"] = value
    np.savez_compressed(os.path.join(HERE, "answers.npz"), **found)


def record_random():
    """The results of random_programs, as random_answers.npz; programs that fetch dead tensors are
    left out."""
    import tensorflow
    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()
    found = {}
    for seed in random_programs.SEEDS:
        with tf.Graph().as_default():
            fetches, feeds = random_programs.build(tf, seed)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                try:
                    results = [session.run(fetches, feed) for feed in feeds]
                except tf.errors.InvalidArgumentError:
                    continue
        found[str(seed)] = random_programs.flat(results)
    np.savez_compressed(os.path.join(HERE, "random_answers.npz"), **found)


if __name__ == "__main__":
    record()
    record_values()
    record_random()
