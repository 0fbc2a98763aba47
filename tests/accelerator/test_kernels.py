"""Every kernel of the fake accelerator against its op's NumPy reference: the samples of the ops'
blocks, all element types it takes, on FAKE:0."""

import json
import re
import subprocess
import sys

import numpy as np
from derive import cases, own_ops
from fake_build import EXAMPLE, ROOT, SOURCES

import pyflow as tf
from pyflow import _executor, plugins
from pyflow.framework import dtypes

# What FAKE's kernels decline.
DECLINED = {("data_format", "NCHW"), ("batch_dims", 1)}


def kernel_types(library):
    """{op: {attribute: type names}} of the kernels on FAKE."""
    found = {}
    for kernel in _executor.kernels():
        if kernel["device"] == "FAKE":
            parts = re.findall(r"(\w+)=([\w|]+)", kernel["where"])
            found[kernel["op"]] = {name: names.split("|") for name, names in parts}
    return found


def runnable(case, where):
    types = {k: v for k, v in {**case.sample.attrs, **case.types}.items() if k in where}
    fits = all(dtypes.as_dtype(v).name in names_of(where[k]) for k, v in types.items())
    return fits and not any(case.sample.attrs.get(name) == value for name, value in DECLINED)


def names_of(names):
    numpy = {"float": "float32", "double": "float64", "half": "float16"}
    return {dtypes.as_dtype(numpy.get(name, name)).name for name in names}


def check(case, feeds, outputs, session):
    found = session.run(outputs, feeds)
    for got, wanted in zip(found, case.expected()):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(
            np.asarray(got, np.float64), np.asarray(wanted, np.float64), **case.tolerance()
        )


def test_kernels_agree_with_their_references(fake, library):
    where = kernel_types(library)
    where = {op: types for op, types in where.items() if "." not in op}
    ops = {name: op for name, op in own_ops().items() if name in where}
    chosen = [c for c in cases(ops) if c.op.reference and runnable(c, where[c.op.name])]
    assert len(chosen) > 150 and len({c.op.name for c in chosen}) > 60
    nodes = []
    for case in chosen:
        feeds = {}

        def make(array):
            tensor = tf.placeholder(dtypes.as_dtype(array.dtype), array.shape)
            feeds[tensor] = array
            return tensor

        with tf.device("/device:FAKE:0"):
            nodes.append((case, feeds, case.node(make)))
    failed = []
    with tf.Session() as session:
        for case, feeds, node in nodes:
            try:
                check(case, feeds, list(node.outputs), session)
            except (AssertionError, tf.errors.OpError) as error:
                failed.append(f"{case.id}: {str(error)[:400]}")
    assert not failed, "\n".join(failed)
    assert fake[0]["launches"] > len(chosen) // 2


def test_random_numbers_are_the_cpus(fake):
    found = {}
    with tf.Session() as session:
        for device in ("CPU:0", "FAKE:0"):
            with tf.device("/device:" + device):
                draws = [
                    op([7, 3], seed=5, dtype=dtype)
                    for op in (tf.random_uniform, tf.random_normal, tf.truncated_normal)
                    for dtype in (tf.float32, tf.float64)
                ]
            found[device] = [session.run(draws) for _ in range(2)]
    for on_cpu, on_fake in zip(found["CPU:0"], found["FAKE:0"]):
        for a, b in zip(on_cpu, on_fake):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(*[run[0] for run in found["FAKE:0"]]), "each step draws anew"


def test_the_examples_build_and_description(library):
    """meson.build lists every source, and plugin.json says what is in the library."""
    build = (EXAMPLE / "meson.build").read_text()
    assert set(re.findall(r"src/(\w+\.c)", build)) == {p.name for p in SOURCES.glob("*.c")}
    script = ROOT / "include" / "pyflow" / "make_plugin_json.py"
    target = library.parent / "described.json"
    subprocess.run([sys.executable, str(script), str(library), str(target)], check=True)
    found = json.loads(target.read_text())
    assert found["devices"] == ["FAKE"] and found["id"] == "pyflow.fake"
    assert len(found["kernels"]) > 80 and {k["device"] for k in found["kernels"]} == {"FAKE"}


def test_the_example_ops(fake):
    op = plugins.op
    with tf.device("/device:FAKE:1"):
        x = tf.placeholder(tf.float32, [3])
        total, slow = op("fake.HostSum")(x), op("fake.Busy")(x, micros=2000)
    with tf.Session() as session:
        found = session.run([total, slow], {x: [1, 2, 3]})
    assert found[0] == 6 and found[1].tolist() == [1, 2, 3]
    assert total.shape.as_list() == [] and slow.shape.as_list() == [3]
