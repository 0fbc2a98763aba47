"""pyflow writes a checkpoint and a SavedModel for TensorFlow to read (read_by_tensorflow.py).

    python tests/saved/written.py FOLDER
"""
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
import pyflow as tf  # noqa: E402
import saved_values as values  # noqa: E402
from test_saved_models import written  # noqa: E402


def main(folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    given = values.tensors()
    with tf.Graph().as_default(), tf.Session() as sess:
        tensors = [tf.constant(v.tolist() if v.dtype == object else v) for v in given.values()]
        half = tf.cast(values.bfloat16_source(), tf.bfloat16)
        save = tf.raw_ops.SaveV2(prefix=str(folder / "ckpt"), tensor_names=[*given, "half"],
                                 shape_and_slices=[""] * (len(given) + 1), tensors=[*tensors, half])
        save._set_attr("_format", "tensorflow")
        sess.run(save)
    x, y = written(folder)
    np.savez(folder / "answers.npz", x=x, y=y)


if __name__ == "__main__":
    main(sys.argv[1])
