"""libpyflow_rt, the Python-free runtime: no symbol of Python's, none undefined but the C
library's."""

import ctypes
import importlib.resources
import pathlib
import re
import subprocess
import sys

import pytest

import pyflow as tf
from pyflow.ops.control import functional_ops
from pyflow.python.framework import function


@pytest.fixture(scope="module")
def library():
    path = importlib.resources.files("pyflow") / "lib" / "libpyflow_rt.so"
    assert path.is_file(), "libpyflow_rt.so is part of every build"
    return path


def symbols(path, *flags):
    return subprocess.check_output(["nm", *flags, str(path)], text=True).split("\n")


def test_no_python_symbol(library):
    found = [
        line
        for line in symbols(library) + symbols(library, "-D")
        if re.search(r"\b_?Py[A-Z_]", line)
    ]
    assert not found, found


def test_needs_only_the_c_library(library):
    text = subprocess.check_output(["readelf", "-d", str(library)], text=True)
    needed = re.findall(r"NEEDED.*\[(.*?)\]", text)
    assert all(
        re.match(r"(libc|libm|libdl|libpthread|ld-linux.*)\.so", name) for name in needed
    ), needed


def test_exports_only_pf_names(library):
    names = [line.split()[-1] for line in symbols(library, "-D", "--defined-only") if line]
    assert names and all(name.startswith("pf_") for name in names), names


def test_no_initialised_variable_of_a_core_module(library):
    """slice.py drops the code that would set them: Cython's variables may only be in .bss."""
    found = [line for line in symbols(library) if re.search(r" [dD] __pyx_v_", line)]
    assert not found, found


class Tensor(ctypes.Structure):
    """A DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def test_an_input_of_another_element_size_is_refused(library):
    """The graph wants doubles and would have read past the end of the caller's floats."""
    with tf.Graph().as_default() as graph:
        tf.identity(tf.placeholder(tf.float64, [None], name="x"), name="y")
        data = graph.as_graph_def().SerializeToString()
    rt, why, model = ctypes.CDLL(str(library)), ctypes.create_string_buffer(500), ctypes.c_void_p()
    ends = [(ctypes.c_char_p * 2)(name, None) for name in (b"x", b"y")]
    assert rt.pf_rt_load(data, ctypes.c_int64(len(data)), *ends, 1, ctypes.byref(model), why,
                         ctypes.c_int64(500)) == 0, why.value
    values, shape = (ctypes.c_float * 2)(1.5, 2.5), (ctypes.c_int64 * 1)(2)
    x = Tensor(ctypes.cast(values, ctypes.c_void_p), (1, 0), 1, 2, 32, 1, shape, None, 0)
    outputs = (ctypes.c_void_p * 1)()
    code = rt.pf_rt_run(model, (ctypes.POINTER(Tensor) * 1)(ctypes.pointer(x)), outputs, why,
                        ctypes.c_int64(500))
    assert code == 3 and b"'x'" in why.value and b"double" in why.value and b"32" in why.value
    rt.pf_rt_free(model)


READS = """
import ctypes, sys
sys.path.insert(0, sys.argv[4])
from test_runtime import Tensor
rt, why, model = ctypes.CDLL(sys.argv[1]), ctypes.create_string_buffer(500), ctypes.c_void_p()
room = ctypes.c_int64(500)
assert rt.pf_rt_plugin(sys.argv[2].encode(), why, room) == 0, why.value
data = open(sys.argv[3], "rb").read()
ends = [(ctypes.c_char_p * 2)(name, None) for name in (b"x", b"y")]
assert rt.pf_rt_load(data, ctypes.c_int64(len(data)), *ends, 1, ctypes.byref(model), why, room) == 0, why.value
values, shape = (ctypes.c_float * 2)(1.5, 2.5), (ctypes.c_int64 * 1)(2)
x = Tensor(ctypes.cast(values, ctypes.c_void_p), (1, 0), 1, 2, 32, 1, shape, None, 0)
outputs = (ctypes.c_void_p * 1)()
for _ in range(2):
    code = rt.pf_rt_run(model, (ctypes.POINTER(Tensor) * 1)(ctypes.pointer(x)), outputs, why, room)
    assert code == 0, why.value
    y = ctypes.cast(outputs[0] + 32, ctypes.POINTER(Tensor)).contents     # after version, ctx, deleter, flags
    print([ctypes.cast(y.data, ctypes.POINTER(ctypes.c_float))[i] for i in range(2)])
rt.pf_rt_free(model)
"""


def test_reads_of_variables_follow_the_order_of_updates(library, tmp_path):
    """As in sessions (tests/state/test_refs.py): the name is made before the update, read behind it."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        v = tf.Variable([0.0, 0.0], name="v")
        with tf.control_dependencies([tf.assign(v, x)]):
            name = tf.identity(v._ref())
        with tf.control_dependencies([name]):
            update = tf.assign_add(v, [10.0, 10.0])
        with tf.control_dependencies([update]):
            tf.multiply(name, 2.0, name="y")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    cpu = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
    done = subprocess.run([sys.executable, "-c", READS, str(library), str(cpu), str(tmp_path / "graph.pb"),
                           str(pathlib.Path(__file__).parent)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["[23.0, 25.0]"] * 2


def test_a_graph_with_its_library_of_functions_runs(library, tmp_path):
    """A recursive function, a While and a MapDefun that stay calls: no Python made them plans."""
    with tf.Graph().as_default() as graph:
        declared = function.Declare("power", [("x", tf.float32), ("n", tf.int32)], [("y", tf.float32)])

        @function.Defun(tf.float32, tf.int32, func_name="power", out_names=["y"])
        def power(x, n):
            return tf.cond(n < 1, lambda: tf.ones_like(x), lambda: x * declared(x, n - 1))

        @function.Defun(tf.float32, tf.int32, func_name="few", noinline=True)
        def few(x, n):
            return n < 3

        @function.Defun(tf.float32, tf.int32, func_name="more", noinline=True)
        def more(x, n):
            return x + 1.0, n + 1

        @function.Defun(tf.float32, func_name="half", noinline=True)
        def half(x):
            return x * 0.5

        for one in (few, more, half):
            one.add_to_graph(graph)
        cubes = power(tf.placeholder(tf.float32, [2], name="x"), tf.constant(3))
        added, _ = functional_ops.While([cubes, tf.constant(0)], cond="few", body="more")
        halves = functional_ops.MapDefun([added], [], output_types=[tf.float32], output_shapes=[[]], f="half")
        tf.identity(halves[0], name="y")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        with tf.Session() as session:
            expected = session.run("y:0", {"x:0": [1.5, 2.5]}).tolist()
    cpu = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
    done = subprocess.run([sys.executable, "-c", READS, str(library), str(cpu), str(tmp_path / "graph.pb"),
                           str(pathlib.Path(__file__).parent)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert expected == [(1.5 ** 3 + 3) / 2, (2.5 ** 3 + 3) / 2]
    assert done.stdout.splitlines() == [str(expected)] * 2


def test_a_path_with_a_scheme_is_refused(library, tmp_path):
    """It needs Python and fsspec: the message says so, and what to do."""
    with tf.Graph().as_default() as graph:
        number = tf.string_to_number(tf.read_file("memory://number"))
        tf.add(tf.placeholder(tf.float32, [2], name="x"), number, name="y")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    cpu = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
    done = subprocess.run([sys.executable, "-c", READS, str(library), str(cpu), str(tmp_path / "graph.pb"),
                           str(pathlib.Path(__file__).parent)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "memory://number; a path with a scheme needs Python with the package fsspec" in done.stderr


STREAMS = """
import ctypes, sys
rt, why, room = ctypes.CDLL(sys.argv[1]), ctypes.create_string_buffer(500), ctypes.c_int64(500)
sys.path.insert(0, sys.argv[4])
from test_runtime import Tensor
assert rt.pf_rt_plugin(sys.argv[2].encode(), why, room) == 0, why.value
data = open(sys.argv[3], "rb").read()
def load():
    model = ctypes.c_void_p()
    ends = [(ctypes.c_char_p * 1)(None), (ctypes.c_char_p * 2)(b"y", None)]
    assert rt.pf_rt_load(data, ctypes.c_int64(len(data)), *ends, 1, ctypes.byref(model), why, room) == 0, why.value
    return model
def draw(model):
    outputs = (ctypes.c_void_p * 1)()
    assert rt.pf_rt_run(model, None, outputs, why, room) == 0, why.value
    y = ctypes.cast(outputs[0] + 32, ctypes.POINTER(Tensor)).contents
    return [ctypes.cast(y.data, ctypes.POINTER(ctypes.c_float))[i] for i in range(4)]
first, second, n = load(), load(), ctypes.c_int64()
draw(first)
assert rt.pf_rt_random_state(first, None, ctypes.c_int64(0), ctypes.byref(n), why, room) == 0
state = ctypes.create_string_buffer(n.value)
assert rt.pf_rt_random_state(first, state, ctypes.c_int64(n.value - 1), ctypes.byref(n), why, room) == 11, why.value
assert rt.pf_rt_random_state(first, state, n, ctypes.byref(n), why, room) == 0, why.value
assert rt.pf_rt_set_random_state(second, state, n, why, room) == 0, why.value
drawn = [draw(first) for _ in range(2)]
assert drawn[0] != drawn[1] and drawn == [draw(second) for _ in range(2)], drawn
for bad, code, text in [(state.raw[:-1], 3, b"cut off"), (b"nonsense and more", 3, b"no state of random"),
                        (state.raw.replace(b"Uniform", b"Uniferm"), 5, b"Uniferm")]:
    assert rt.pf_rt_set_random_state(second, bad, ctypes.c_int64(len(bad)), why, room) == code, why.value
    assert text in why.value, why.value
assert draw(first) == draw(second)
"""


def test_random_streams_are_read_and_set(library, tmp_path):
    with tf.Graph().as_default() as graph:
        tf.add(tf.random_uniform([4]), 1.0, name="y")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    cpu = importlib.resources.files("pyflow_cpu") / "libpyflow_cpu.so"
    done = subprocess.run([sys.executable, "-c", STREAMS, str(library), str(cpu), str(tmp_path / "graph.pb"),
                           str(pathlib.Path(__file__).parent)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
