"""tf.sysconfig: where the plugin header is."""
import importlib.resources
import os
import pathlib


def get_include():
    """The folder that holds pyflow/kernel.h, for a compiler's -I."""
    package = importlib.resources.files("pyflow")
    if not isinstance(package, os.PathLike):         # an editable install: the header is in the source tree
        import pyflow
        package = pathlib.Path(pyflow.__file__).parent
    for folder in (package / "include", package / ".." / "include"):
        path = os.path.normpath(os.fspath(folder))
        if os.path.isfile(os.path.join(path, "pyflow", "kernel.h")):
            return path
    raise FileNotFoundError("pyflow/kernel.h is not installed beside the package; reinstall pyflow")
