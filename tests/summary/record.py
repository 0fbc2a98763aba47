"""Writes down TensorFlow's summaries of summary_cases.py (run with TensorFlow 2): tensorflow.json.

    python tests/summary/record.py
"""
import base64
import json
import pathlib

import summary_cases
import tensorflow

tf = tensorflow.compat.v1
HERE = pathlib.Path(__file__).resolve().parent


def main():
    made = {}
    for name, case in summary_cases.CASES.items():
        with tf.Graph().as_default() as graph:
            tensor = case(tf)
            with tf.Session(graph=graph) as session:
                data = session.run(tensor)
            made[name] = [base64.b85encode(data).decode(), tensor.name]
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items())
    (HERE / "tensorflow.json").write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
