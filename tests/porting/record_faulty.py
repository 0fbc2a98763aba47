"""Records TensorFlow's tensors of the network of faulty.py, computed by it from the GraphDef.

    .venv/bin/python tests/porting/record_faulty.py graph faulty.pb      # pyflow writes the graph
    python tests/porting/record_faulty.py answers faulty.pb              # with tensorflow 2.21
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def main(what, path):
    if what == "graph":
        sys.path.insert(0, str(HERE))
        import faulty
        pathlib.Path(path).write_bytes(faulty.network().SerializeToString())
        return
    import tensorflow
    tf = tensorflow.compat.v1
    graph = tf.GraphDef.FromString(pathlib.Path(path).read_bytes())
    names = [n.name for n in graph.node if n.op not in ("Const", "Placeholder")]
    x = np.random.default_rng(0).standard_normal((8, 8, 8, 3)).astype(np.float32)
    with tf.Graph().as_default():
        tf.import_graph_def(graph, name="")
        with tf.Session() as session:
            values = session.run([name + ":0" for name in names], {"x:0": x})
    np.savez_compressed(HERE / "faulty.npz", **dict(zip(names, values)))


if __name__ == "__main__":
    main(*sys.argv[1:])
