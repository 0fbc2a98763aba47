"""A SavedModel becomes an ONNX model, and that a frozen graph again: the same answers."""
import numpy as np

import pyflow as tf
from pyflow.interop import onnx
from pyflow.tools.command import main


def test_a_saved_model_as_onnx_and_as_a_frozen_graph(tmp_path, capsys):
    folder, model, frozen = (str(tmp_path / name) for name in ("model", "m.onnx", "m.pb"))
    image = np.random.default_rng(0).normal(size=(3, 8, 8, 1)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 8, 8, 1])
        hidden = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu)
        y = tf.nn.softmax(tf.layers.dense(tf.layers.flatten(hidden), 10))
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, folder, {"image": x}, {"probabilities": y})
        wanted = sess.run(y, {x: image})
    assert main(["convert", folder, "-o", model]) == 0
    assert main(["convert", model, "-o", frozen]) == 0
    assert main(["check", model]) == 0 and main(["check", frozen]) == 0
    assert "nothing is missing" in capsys.readouterr().out
    [found] = onnx.prepare(model).run({"image": image})
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    data = tf.GraphDef()
    with open(frozen, "rb") as file:
        data.ParseFromString(file.read())
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(data, name="")
        np.testing.assert_allclose(sess.run("probabilities:0", {"image:0": image}), wanted,
                                   atol=1e-6)
