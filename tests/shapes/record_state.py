"""Records what TensorFlow says of the GraphDefs of state_cases.py and handle_cases.py.

    python -P tests/shapes/state_cases.py state.pkl                  # where pyflow is
    .venv-tf/bin/python tests/shapes/record_state.py state.pkl       # writes state.json.gz here, of the same name

Needs TensorFlow 2.21, not pyflow.
"""
import gzip
import json
import os
import pathlib
import pickle
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def answer(tf, data):
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(tf.GraphDef.FromString(data), name="")
        except Exception as error:  # noqa: BLE001  what is raised is the answer
            return "!" + type(error).__name__
        return ";".join("*" if t.shape.rank is None else
                        ",".join("?" if d is None else str(d) for d in t.shape.as_list())
                        for t in graph.get_operation_by_name("node").outputs)


def main(path):
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    with open(path, "rb") as file:
        asked = pickle.load(file)
    found = {key: answer(tf, data) for key, data in asked.items()}
    target = pathlib.Path(__file__).resolve().parent / (pathlib.Path(path).stem + ".json.gz")
    text = json.dumps(found, indent=0, sort_keys=True)
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        file.write(text.encode())
    print(len(found), "answers,", sum(v[:1] == "!" for v in found.values()), "refusals")


if __name__ == "__main__":
    main(sys.argv[1])
