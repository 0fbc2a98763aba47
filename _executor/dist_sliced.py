"""Puts the sliced C of the core into a source distribution, for those who build without Cython.

Run by `meson dist` (so by `python -m build --sdist`) with the core's modules and headers: slices every
module into _executor/sliced/ of the archive's tree and writes op_table.c beside them.  Then
`meson setup build -Dpython=false -Dsliced=_executor/sliced` needs neither Cython nor NumPy.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CORE = HERE / "core"


def run(script, *words):
    subprocess.run([sys.executable, HERE / script, *words], check=True)


def main(names):
    target = pathlib.Path(os.environ["MESON_DIST_ROOT"], "_executor", "sliced")
    target.mkdir(exist_ok=True)
    headers = [CORE / name for name in names if name.endswith(".h")]
    with tempfile.TemporaryDirectory() as declared:
        run("gen_pxd.py", "-I", CORE, "-I", HERE.parent / "include", "--out", declared, *headers)
        modules = [CORE / f"{name}.pyx" for name in names if not name.endswith(".h")]
        run("slice.py", *modules, "--out", target, "-I", CORE, "-I", declared)
        for rule in target.glob("*.dep"):  # what they came from: of no use there
            rule.unlink()
    run("gen_op_table.py", target / "op_table.c", os.devnull)


if __name__ == "__main__":
    main(sys.argv[1:])
