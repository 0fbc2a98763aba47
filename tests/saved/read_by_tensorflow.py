"""TensorFlow reads what written.py had pyflow write, in both of its ways: the same answers.

    python tests/saved/read_by_tensorflow.py FOLDER         # with TensorFlow 2.21
"""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf2  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

import saved_values as values  # noqa: E402


def main(folder):
    folder = pathlib.Path(folder)
    reader = tf2.train.load_checkpoint(str(folder / "ckpt"))
    for name, value in values.tensors().items():
        found = np.asarray(reader.get_tensor(name))
        wanted = np.asarray(value, found.dtype) if value.dtype == object else value
        assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
        np.testing.assert_array_equal(found, wanted, name)
    np.testing.assert_array_equal(reader.get_tensor("half").astype(np.float32)[:3],
                                  values.bfloat16_source()[:3])
    answers = np.load(folder / "answers.npz")
    signatures = tf2.saved_model.load(str(folder / "model"), tags=["serve"]).signatures
    found = signatures["serving_default"](x=tf2.constant(answers["x"]))["y"]
    np.testing.assert_allclose(found, answers["y"], rtol=1e-6)
    numbers = signatures["words"](word=tf2.constant(["blue", "pink"]))["n"]
    assert numbers.numpy().tolist() == [2, -1]
    for tags, key in ((["serve"], "serving_default"), (["serve", "again"], "rows")):
        with tf.Graph().as_default(), tf.Session() as sess:
            graph = tf.saved_model.loader.load(sess, tags, str(folder / "model"))
            signature = graph.signature_def[key]
            found = sess.run(signature.outputs["y"].name,
                             {signature.inputs["x"].name: answers["x"]})
            np.testing.assert_allclose(found, answers["y"], rtol=1e-6)
    print(f"TensorFlow {tf2.__version__} reads {len(values.tensors()) + 1} tensors and 3 signatures"
          " that pyflow wrote")


if __name__ == "__main__":
    main(sys.argv[1])
