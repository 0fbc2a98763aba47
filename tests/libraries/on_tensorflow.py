"""Runs a job on TensorFlow 2's compat.v1: python on_tensorflow.py SCRIPT.

As tests/programs/oracle.py runs programs, with what Python and NumPy have removed since given back
as `python -m pyflow exec --old-python` does, and names of tensorflow.python that 1.15 still had.
"""
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path):
    """A module by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def main():
    load(ROOT / "pyflow/interop/old_python.py").install()
    sys.path.insert(0, str(ROOT / "tests/programs"))
    import oracle
    oracle.install()
    from tensorflow.python.util import nest
    nest.is_sequence = nest.is_nested
    import runpy
    runpy.run_path(sys.argv[1], run_name="__main__")


if __name__ == "__main__":
    main()
