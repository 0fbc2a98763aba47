"""Records what TensorFlow makes and runs of the functions of functions.py.

    .venv-tf/bin/python tests/shapes/record_functions.py      # writes functions.json.gz

An answer is the outputs' shapes, as record_nodes.py writes them, "!ValueError" for what was raised,
or "~" before the shapes if the step fails.  Needs TensorFlow 2.21, not pyflow.
"""
import gzip
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import functions  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402
from record_nodes import shape_text  # noqa: E402

tf.disable_v2_behavior()
ANSWERS = pathlib.Path(__file__).resolve().parent / "functions.json.gz"


def answer(case, way):
    with tf.Graph().as_default():
        try:
            inputs, outputs = functions.build(tf, case, way)
            outputs = [tf.convert_to_tensor(y) for y in outputs]
        except Exception as error:  # noqa: BLE001  what is raised is the answer
            return "!" + type(error).__name__
        text = ";".join(shape_text(y.shape) for y in outputs)
        with tf.Session() as session:
            try:
                session.run(outputs, dict(zip(inputs, functions.cases.arrays(case))))
            except Exception:  # noqa: BLE001
                return "~" + text
        return text


def main():
    found = {case.name: {way: answer(case, way) for way in functions.WAYS}
             for case in functions.all_cases()}
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(found)} functions")


if __name__ == "__main__":
    main()
