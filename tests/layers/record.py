"""Records TensorFlow's answers to layer_cases.py (TF 2.21 with tf-keras 2.21, as compat.v1):

    TF_USE_LEGACY_KERAS=1 python tests/layers/record.py
"""
import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import numpy as np
import tensorflow.compat.v1 as tf

import layer_cases as cases

tf.disable_v2_behavior()
made = {}
for name in cases.CASES:
    for key, value in cases.answers(tf, name).items():
        made[f"{name}|{key}"] = np.asarray(value)
np.savez_compressed(pathlib.Path(__file__).parent / "answers.npz", **made)
print(len(cases.CASES), "cases,", len(made), "answers")
