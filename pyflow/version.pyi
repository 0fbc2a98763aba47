"""Types of pyflow.version.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import version as _version
COMMIT = _version.COMMIT
COMPILER_VERSION = _version.COMPILER_VERSION
GIT_VERSION = _version.GIT_VERSION
GRAPH_DEF_VERSION = _version.GRAPH_DEF_VERSION
GRAPH_DEF_VERSION_MIN_CONSUMER = _version.GRAPH_DEF_VERSION_MIN_CONSUMER
GRAPH_DEF_VERSION_MIN_PRODUCER = _version.GRAPH_DEF_VERSION_MIN_PRODUCER
PYFLOW_VERSION = _version.PYFLOW_VERSION
VERSION = _version.VERSION
