"""Writes pyflow/interop/tensorflow/exported.py: what TensorFlow 1.15.0's functions and classes are
called in public, of those that their module's row in paths.py does not find by their own name.

    python tests/tf_tests/record_exported.py FOLDER_WITH_TENSORFLOW
"""
import importlib.util
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("tf_tests_run", HERE / "run.py")
run = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run)
ABSENT_FOLDERS = {"keras", "distribute", "autograph", "tpu", "debug", "eager"}

HEAD = '''"""What functions and classes of TensorFlow's modules are called in `tf`, where the module's row in
paths.py does not find them by their own name: reduce_sum_v1 of python.ops.math_ops is
tf.math.reduce_sum.  Recorded from TensorFlow 1.15.0's @tf_export by
tests/tf_tests/record_exported.py.
"""

_TABLE = """
'''
TAIL = '''"""


def _rows():
    found = {}
    for line in _TABLE.split("\\n"):
        if line.startswith(" "):
            found[module] |= dict(word.split("=") for word in line.split())
        elif line:
            module = line
            found[module] = {}
    return found


ROWS = _rows()


def public_name(path):
    """The dotted name in tf of what lies at a path of TensorFlow's, or None."""
    module, _, name = path.rpartition(".")
    return ROWS.get(module, {}).get(name)
'''


def _exports(root, file):
    """run.exports of a file, and of those of which it imports all."""
    text = file.read_text("utf-8")
    found = {}
    for module in re.findall(r"^from tensorflow.python.([\w.]+) import \*", text, re.MULTILINE):
        other = root / f"{module.replace('.', '/')}.py"
        if other.exists():
            found.update(_exports(root, other))
    return {**found, **run.exports(text)}


def main(folder):
    from pyflow.interop.tensorflow import finder, paths
    root, lines = pathlib.Path(folder, "tensorflow/python"), []
    for file in sorted(root.rglob("*.py")):
        if file.name.endswith(("_test.py", "__init__.py")) or ABSENT_FOLDERS & set(file.parts):
            continue
        module = f"python.{file.relative_to(root).with_suffix('')}".replace("/", ".")
        homes = paths.homes_of(module) or ()
        names = {name: public[0] for name, public in _exports(root, file).items()
                 if name and public and (name != public[0].rpartition(".")[2] or all(
                     finder.value_in(home, name) is finder._MISSING for home in homes))}
        if names:
            lines.append(module)
            row = ""
            for name, public in names.items():
                word = f" {name}={public}"
                if len(row) + len(word) > 98 and row:
                    lines.append(row)
                    row = ""
                row += word
            lines.append(row)
    target = HERE.parents[1] / "pyflow/interop/tensorflow/exported.py"
    target.write_text(HEAD + "\n".join(lines) + "\n" + TAIL, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
