"""tf.sysconfig: where the plugin header is."""
import importlib.resources
import os


def get_include():
    """The folder that holds pyflow/kernel.h, for a compiler's -I."""
    package = importlib.resources.files("pyflow")
    for folder in (package.joinpath("include"), package.joinpath("..", "include")):
        path = os.path.normpath(os.fspath(folder))
        if os.path.isfile(os.path.join(path, "pyflow", "kernel.h")):
            return path
        if os.path.isfile(os.path.join(path, "kernel.h")):
            return os.path.dirname(path)
    raise FileNotFoundError("pyflow/kernel.h is not installed beside the package; reinstall pyflow")
