"""Loads the CUDA plugin: the installed one on a machine with a GPU, else its emulated build."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plugin_build


def pytest_report_header(config):
    if plugin_build.installed():
        return "cuda: the installed plugin, on the GPU"
    return "cuda: no GPU; kernels run in the emulated build of plugins/cuda"


@pytest.fixture(scope="session")
def gpu():
    """Loads the plugin; True on a real GPU, False on the emulated one."""
    import pyflow as tf

    real = plugin_build.installed() is not None
    if not real:
        folder = plugin_build.emulated_folder()
        os.environ["PYFLOW_CUDA_LIB_DIR"] = str(folder)
        tf.load_op_library(str(folder / "libpyflow_cuda.so"))
    return real
