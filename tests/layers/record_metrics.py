"""Records TensorFlow's answers to layer_metric_cases.py (TF 2.21 with tf-keras 2.21, as compat.v1):

    python tests/layers/record_metrics.py
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import numpy as np
import tensorflow.compat.v1 as tf

import metric_cases as cases

tf.disable_v2_behavior()
made = {}
for name in cases.CASES:
    for key, value in cases.answers(tf, name).items():
        made[f"{name}|{key}"] = np.asarray(value)
np.savez_compressed(pathlib.Path(__file__).parent / "metric_answers.npz", **made)
print(len(cases.CASES), "cases,", len(made), "answers")
