"""Records what TensorFlow answers: python tests/estimator/record.py, in an environment with
tensorflow-cpu==2.15.* (the last with tf.estimator) and its estimator package.
"""
import json
import pathlib

import estimator_programs as programs
import tensorflow.compat.v1 as tf

if __name__ == "__main__":
    tf.disable_eager_execution()
    tf.disable_resource_variables()
    for program in (programs.columns, programs.canned, programs.custom):
        path = pathlib.Path(__file__).parent / "answers" / f"{program.__name__}.json"
        path.write_text(json.dumps(program(tf), indent=0, sort_keys=True) + "\n", encoding="utf-8")
