"""The plugin's own declarations of cuBLAS and cuDNN agree with the vendors' headers and libraries.

Collected only where those are installed (vendor.py; conftest.py says so in pytest's header).
"""
import ctypes
import re
import subprocess

import vendor
from plugin_build import INCLUDE, PLUGIN, ROOT, compiler


def compile_declarations(libraries):
    """Compiles declarations.cpp against the folder with libraries.h; the finished process."""
    flags = [f"-I{folder}" for folder in [libraries, INCLUDE, *vendor.headers()]]
    return subprocess.run(
        [compiler(), "-std=c++20", "-fsyntax-only", *flags,
         str(ROOT / "tests" / "cuda" / "declarations.cpp")],
        capture_output=True, text=True, check=False)


def test_values_and_signatures_are_the_headers():
    run = compile_declarations(PLUGIN / "source")
    assert run.returncode == 0, run.stderr


def test_a_wrong_declaration_is_noticed(tmp_path):
    for file in (PLUGIN / "source").glob("*.h"):
        text = file.read_text()
        if file.name == "libraries.h":
            text = text.replace("DNN_FMA_MATH = 3", "DNN_FMA_MATH = 2")
            text = text.replace("(*conv_groups)(dnn_conv, int", "(*conv_groups)(dnn_conv, double")
        (tmp_path / file.name).write_text(text)
    run = compile_declarations(tmp_path)
    assert "CUDNN_FMA_MATH" in run.stderr and "cudnnSetConvolutionGroupCount" in run.stderr
    assert run.stderr.count("static assertion failed") == 2


def missing(pattern, names):
    library = ctypes.CDLL(str(vendor.library(pattern)))
    return [name for name in names if not hasattr(library, name)]


def test_the_libraries_export_every_function():
    source = (PLUGIN / "source" / "libraries.cu").read_text()
    dnn = ["cudnn" + name for name in re.findall(r'DNN\("(\w+)"', source)]
    blas = re.findall(r'"(cublas\w+)"', source)
    assert len(dnn) == 24 and len(blas) == 6
    assert missing("libcudnn.so.*", dnn) == []
    assert missing("libcublas.so.*", blas) == []
