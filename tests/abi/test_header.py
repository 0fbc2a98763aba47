"""The plugin ABI's header: compiles as C11 and C++17 without a warning, parses as a cffi cdef, and
keeps its layout."""

import ctypes
import importlib.util
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


header = load("header")
USE = (
    '#include <pyflow/kernel.h>\n#include <pyflow/kernel.h>\n'
    '#include <pyflow/link.h>\n#include <pyflow/link.h>\nPF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h)'
    ' { (void)h; return 0; }\n'
)


def compile_text(tmp_path, text, compiler, suffix, *flags):
    if not shutil.which(compiler):
        pytest.fail(f"the tests need {compiler}")
    source, output = tmp_path / ("use" + suffix), tmp_path / "use.out"
    source.write_text(text, encoding="utf-8")
    command = [
        compiler,
        *flags,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        str(header.INCLUDE),
        str(source),
        "-o",
        str(output),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


@pytest.mark.parametrize(
    "compiler, suffix, standard",
    [("cc", ".c", "-std=c11"), ("c++", ".cc", "-std=c++17"), ("c++", ".cc", "-std=c++20")],
)
def test_compiles_without_warning(tmp_path, compiler, suffix, standard):
    compile_text(tmp_path, USE, compiler, suffix, standard, "-pedantic", "-shared", "-fPIC")


def test_layout_is_the_golden_one():
    golden = (HERE / "golden_v1.txt").read_text(encoding="utf-8")
    assert (
        header.golden() == golden
    ), "the ABI changed: append fields only, then write the table anew (see header.py)"


def test_the_compiler_agrees_with_cffi(tmp_path):
    ffi, lines = header.parsed(), [
        "#include <stdio.h>",
        "#include <pyflow/link.h>",
        "int main(void) {",
    ]
    expected = []
    for name, kind in header.structs(ffi).items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ffi.sizeof(kind))
        for field, f in kind.fields:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            expected.append(f.offset)
    for name, value in header.constants().items():
        lines.append(f'printf("%lld\\n", (long long){name});')
        expected.append(value)
    program = compile_text(tmp_path, "\n".join(lines + ["return 0; }"]), "cc", ".c", "-std=c11")
    assert [int(x) for x in subprocess.check_output([program], text=True).split()] == expected


def test_growing_structs_start_with_their_size():
    for name, kind in header.structs(header.parsed()).items():
        fields = [field for field, _ in kind.fields]
        if "flags" in fields and not name.startswith("DL"):
            assert fields[:2] == ["size", "flags"], name


def test_dlpack_layout_is_numpys():
    """Reads a tensor NumPy exported through our own declaration of DLPack's structs."""
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    capsule = array.__dlpack__(max_version=(1, 0))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    ffi = header.parsed()
    managed = ffi.cast("DLManagedTensorVersioned *", get(capsule, b"dltensor_versioned"))
    tensor = managed.dl_tensor
    assert managed.version.major == 1
    assert (tensor.device.device_type, tensor.ndim, list(tensor.shape[0:2])) == (1, 2, [2, 3])
    assert (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) == (0, 16, 1)
    assert int(ffi.cast("intptr_t", tensor.data)) + tensor.byte_offset == array.ctypes.data
