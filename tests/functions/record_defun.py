"""Writes defun_answers.json: what TensorFlow 2.21 computes for defun_programs.py, the signatures of
the functions and the nodes that call them.

    python tests/functions/record_defun.py              # with TensorFlow installed
"""
import json
import pathlib

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import function

import defun_programs

tf.disable_v2_behavior()
HERE = pathlib.Path(__file__).parent


def answers(make):
    with tf.Graph().as_default() as graph:
        fetches, feeds, *first = make(tf, function)
        with tf.Session() as session:
            for op in first:
                session.run(op)
            values = session.run(fetches, feeds)
        graph_def = graph.as_graph_def()
    return {"values": [np.asarray(v).tolist() for v in values],
            "types": [np.asarray(v).dtype.name for v in values],
            "signatures": defun_programs.signatures(graph_def),
            "calls": defun_programs.calls(graph_def)}


if __name__ == "__main__":
    found = {name: answers(make) for name, make in defun_programs.PROGRAMS.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    (HERE / "defun_answers.json").write_text("{\n" + lines + "\n}\n")
    print(f"{len(found)} programs")
