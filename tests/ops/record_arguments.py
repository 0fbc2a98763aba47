"""Records the argument names of TensorFlow's tf.raw_ops into tf_arguments.json, a row an op:
those of the release that is run, under its version.  Needs TensorFlow, not pyflow; what other
releases recorded stays.

    python -c "import pyflow, pyflow.framework.op as o; print(*o.op_names())" > names
    python tests/ops/record_arguments.py $(cat names)       # with 1.15, then with a 2.x
"""
import inspect
import json
import pathlib
import sys

import tensorflow as tf

PATH = pathlib.Path(__file__).resolve().parent / "tf_arguments.json"


def main(names):
    rows = json.loads(PATH.read_text()) if PATH.exists() else {}
    version = ".".join(tf.__version__.split(".")[:2])
    for name in names:
        function = None if name.startswith("_") else getattr(tf.raw_ops, name, None)
        if function is not None:
            rows.setdefault(name, {})[version] = list(inspect.signature(function).parameters)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row, sort_keys=True)}"
                      for name, row in sorted(rows.items()))
    PATH.write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
