"""Writes constant_answers.json with TensorFlow's answers: run with a Python that has TensorFlow.

    python tests/graph/record_constants.py
"""

import json
import os

import numpy as np
import tensorflow.compat.v1 as tf
from constant_cases import answer, cases

tf.disable_eager_execution()
answers = [[case, answer(tf, np, case)] for case in cases()]
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constant_answers.json")
with open(path, "w") as f:
    f.write("[" + ",\n".join(json.dumps(a) for a in answers) + "]\n")
print(f"{len(answers)} cases, TensorFlow {tf.__version__}")
