"""What the tests of frozen graphs share: reading a graph, running it, comparing with TensorFlow."""
import pathlib

import numpy as np

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent


def load(name, scope=""):
    """Imports NAME.pb into the default graph; gives the GraphDef."""
    graph_def = tf.GraphDef.FromString((HERE / f"{name}.pb").read_bytes())
    tf.import_graph_def(graph_def, name=scope)
    return graph_def


class Answers:
    """TensorFlow's results, of which floats must agree within `tolerance`, others exactly."""

    def __init__(self, file, tolerance):
        self.arrays = np.load(HERE / file)
        self.tolerance = tolerance

    def __getitem__(self, key):
        return self.arrays[key]

    def count(self, name):
        """How many results a model has."""
        return sum(key.startswith(f"{name}/out") and key[len(name) + 4:].isdigit()
                   for key in self.arrays.files)

    def check(self, found, name, index):
        """AssertionError unless `found` is result number `index` of model `name`."""
        wanted = self.arrays[f"{name}/out{index}"]
        found = np.asarray(found)
        if found.dtype == object:
            found = found.astype("S")
        assert found.shape == wanted.shape
        if wanted.dtype.kind == "f":
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=self.tolerance, atol=self.tolerance)
        else:
            np.testing.assert_array_equal(found, wanted)

    def check_model(self, name, outputs, arrays, threads):
        """Runs `outputs` of NAME.pb twice, as constants are prepared by the first run."""
        assert len(outputs) == self.count(name) > 0
        feeds = dict(zip(self.arrays[f"{name}/inputs"].tolist(), arrays))
        with tf.Graph().as_default():
            load(name)
            with tf.Session(threads=threads) as session:
                for _ in range(2):
                    for index, value in enumerate(session.run(outputs, feeds)):
                        self.check(value, name, index)
