"""Writes scope_answers.json with TensorFlow's answers: run with a Python that has TensorFlow.

    python tests/graph/record_scopes.py
"""

import json
import os

import tensorflow.compat.v1 as tf
from scope_programs import make_program, run

tf.disable_eager_execution()
PROGRAMS = 90

answers = [run(tf, make_program(seed)) for seed in range(PROGRAMS)]
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scope_answers.json")
with open(path, "w") as f:
    json.dump(answers, f, separators=(",", ":"))
    f.write("\n")
print(f"{PROGRAMS} programs, {sum(map(len, answers))} operations, TensorFlow {tf.__version__}")
