"""Records TensorFlow's answers to the cases beside it (TF 2.21 with tf-keras 2.21 and tf_slim 1.2):

    TF_USE_LEGACY_KERAS=1 python tests/contrib/record.py
"""
import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import numpy as np
import tensorflow.compat.v1 as tf
import tf_slim
from tensorflow.python.framework import ops, tensor
from tensorflow.python.ops import control_flow_ops

import contrib_cases
import training_cases

tf.disable_v2_behavior()
ops.Tensor, ops.IndexedSlices = tensor.Tensor, tf.IndexedSlices    # where tf_slim looks for them
control_flow_ops.cond = tf.cond
sys.modules["tf_slim.layers.layers"].normalization_layers = tf.layers
tf_slim.utils = sys.modules["tf_slim.layers.utils"]
for name in ("adaptive_clipping_fn", "optimize_loss"):
    setattr(tf_slim.layers, name, getattr(sys.modules["tf_slim.layers.optimizers"], name))
made = {}
for cases in (contrib_cases, training_cases):
    for name in cases.CASES:
        for key, value in cases.answers(tf, tf_slim, name).items():
            made[f"{name}|{key}"] = np.asarray(value)
np.savez_compressed(pathlib.Path(__file__).parent / "contrib_answers.npz", **made)
print(len(made), "answers")
