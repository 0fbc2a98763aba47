"""Copies the API's .pxd files to where Cython finds them: a package's folder, by its modules' full names.

    python stage_pxd.py STAMP FOLDER/pyflow/_executor api/values.pxd ...
"""

import pathlib
import shutil
import sys


def main(stamp, folder, *files):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for package in (folder.parent, folder):
        (package / "__init__.pxd").touch()
    for old in folder.glob("*.pxd"):
        if old.name not in {"__init__.pxd", *(pathlib.PurePath(file).name for file in files)}:
            old.unlink()
    for file in map(pathlib.Path, files):
        staged = folder / file.name
        if not staged.exists() or staged.read_bytes() != file.read_bytes():  # else its modules need not be compiled
            shutil.copyfile(file, staged)
    pathlib.Path(stamp).touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
