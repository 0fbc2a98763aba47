"""Records what TensorFlow says to the programs of input_programs.py, into answers.json.

    .venv-tf/bin/python tests/readers/record.py [NAME ...]

TensorFlow 1.15's own words are in dense_features 0 and 4, unfit_messages 14 and unfit_sequences 1: what
parses there is the first version of the ops, which pyflow writes, too.
"""
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import input_programs  # noqa: E402


def main(names):
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    file = HERE / "answers.json"
    found = json.loads(file.read_text()) if file.exists() and names else {}
    for name in names or input_programs.PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = input_programs.answers(tf, name, pathlib.Path(folder), 0.3)
    found = {name: found[name] for name in input_programs.PROGRAMS if name in found}
    lines = [f" {json.dumps(name)}: {json.dumps(said)}" for name, said in found.items()]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
