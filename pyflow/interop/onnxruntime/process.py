"""What onnxruntime's module itself answers.

    get_available_providers()       # ["CPUExecutionProvider"]
"""

import pyflow as tf
from pyflow.interop.onnxruntime.session import PROVIDERS

__version__ = "1.32.0"              # the release whose surface and answers were compared


def get_version_string():
    """`__version__`."""
    return __version__


def get_build_info():
    """Which pyflow this is."""
    return f"pyflow {tf.pyflow_version}, onnxruntime's interface of {__version__}"


def get_device():
    """"CPU"."""
    return "CPU"


def get_available_providers():
    """["CPUExecutionProvider"]."""
    return list(PROVIDERS)


def get_all_providers():
    """["CPUExecutionProvider"]."""
    return list(PROVIDERS)


def set_seed(seed):
    """The seed of random ops in models that are loaded from now on."""
    tf.set_random_seed(int(seed))


def set_default_logger_severity(severity):
    """Nothing: pyflow logs by PYFLOW_DEBUG."""


def set_default_logger_verbosity(verbosity):
    """Nothing: pyflow logs by PYFLOW_DEBUG."""


def enable_telemetry_events():
    """Nothing: pyflow sends none."""


def disable_telemetry_events():
    """Nothing: pyflow sends none."""


def preload_dlls(cuda=True, cudnn=True, msvc=True, directory=None):
    """Nothing: plugins load their own libraries."""
