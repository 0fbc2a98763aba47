"""Writes down TensorFlow's summaries of summary_cases.py, and its files of records (run with
TensorFlow 2): tensorflow.json, records.json.

    python tests/summary/record.py
"""
import base64
import json
import pathlib
import tempfile

import summary_cases
import tensorflow

tf = tensorflow.compat.v1
HERE = pathlib.Path(__file__).resolve().parent


RECORDS = [b"", b"one", bytes(range(256)) * 9]


def files():
    """{compression: the bytes of a TFRecord file of RECORDS}."""
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("", "ZLIB", "GZIP"):
            path = pathlib.Path(folder) / "records"
            with tf.io.TFRecordWriter(str(path), kind) as writer:
                for record in RECORDS:
                    writer.write(record)
            made[kind] = base64.b85encode(path.read_bytes()).decode()
    return made


def main():
    (HERE / "records.json").write_text(json.dumps(files(), indent=1) + "\n", encoding="utf-8")
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
