"""tf.version: the level of TensorFlow's API that programs find here, and of its graphs.

VERSION is what programs compare before they choose a spelling: the API is TensorFlow 1.15's.
pyflow's own version is PYFLOW_VERSION (also `tf.pyflow_version`), COMMIT what it was built from, ""
where that is not known (an editable install, a tree that is no checkout).
"""
import pathlib
import platform

import pyflow
from pyflow.framework import graph as _graph

PYFLOW_VERSION = pyflow.pyflow_version
_commit = pathlib.Path(pyflow.__file__).with_name("commit.txt")     # written by the wheel's build
COMMIT = _commit.read_text(encoding="ascii").strip() if _commit.is_file() else ""
VERSION = pyflow.__version__
GIT_VERSION = f"pyflow-{PYFLOW_VERSION}" + (f"-{COMMIT}" if COMMIT else "")
COMPILER_VERSION = platform.python_compiler()
GRAPH_DEF_VERSION = _graph.PRODUCER_VERSION
GRAPH_DEF_VERSION_MIN_CONSUMER = _graph.MIN_CONSUMER_VERSION
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
MONOLITHIC_BUILD, CXX11_ABI_FLAG = 0, 1        # what programs that build TensorFlow ops ask
