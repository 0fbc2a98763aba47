"""Puts the sliced C of the core into a source distribution, for those who build without Cython.

Run by `meson dist` (so by `python -m build --sdist`): slices every core module into
_executor/sliced/ of the archive's tree and
writes op_table.c beside them.  Then `meson setup build -Dpython=false -Dsliced=_executor/sliced`
needs neither Cython nor NumPy.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main(modules):
    target = pathlib.Path(os.environ["MESON_DIST_ROOT"], "_executor", "sliced")
    target.mkdir(exist_ok=True)
    core = HERE / "core"
    for module in modules:
        subprocess.run(
            [
                sys.executable,
                str(HERE / "slice.py"),
                str(core / f"{module}.pyx"),
                str(target / f"{pathlib.PurePath(module).name}.c"),
                *(x for folder in core.iterdir() if folder.is_dir() for x in ("-I", str(folder))),
            ],
            check=True,
        )
    subprocess.run(
        [sys.executable, str(HERE / "gen_op_table.py"), str(target / "op_table.c"), os.devnull],
        check=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
