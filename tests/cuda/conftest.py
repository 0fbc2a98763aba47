"""Loads the CUDA plugin: the installed one on a machine with a GPU, else its emulated build."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plugin_build
import vendor

HAVE_VENDOR = vendor.headers() and vendor.library("libcudnn.so.*") and plugin_build.compiler()
collect_ignore = [] if HAVE_VENDOR else ["test_cuda_declarations.py"]
if not plugin_build.installed():
    collect_ignore.append("test_cuda_hardware.py")


def pytest_report_header(config):
    where = "the installed plugin, on the GPU" if plugin_build.installed() else \
        "no GPU; kernels run in the emulated build of plugins/cuda," \
        " test_cuda_hardware.py is left out"
    declared = "" if HAVE_VENDOR else \
        "; cuBLAS's and cuDNN's headers are not installed: test_cuda_declarations.py is left out"
    return f"cuda: {where}{declared}"


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
