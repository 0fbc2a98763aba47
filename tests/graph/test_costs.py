"""What the graph layer costs: linear building, time per op, what imports load. USERS row 18."""

import subprocess
import sys
import time

import pytest

import pyflow.ops  # noqa: F401 - registers ops
from pyflow.framework import graph as ops, graph_io
from pyflow.framework.op import get_op

pytestmark = pytest.mark.alone

Add = get_op("Add")


def _build(count):
    """Seconds of CPU per op for a chain of `count` adds."""
    with ops.Graph().as_default() as g:
        y = one = ops.constant([1.0, 2.0])
        start = time.process_time()
        for _ in range(count):
            y = Add(y, one)
        return (time.process_time() - start) / count, g


def test_building_takes_under_60_us_per_op():
    seconds, _ = min((_build(10_000) for _ in range(3)), key=lambda r: r[0])
    assert seconds < 60e-6, f"{seconds * 1e6:.1f} us per op"


def test_building_is_linear():
    small = min(_build(2_000)[0] for _ in range(3))
    large, _ = _build(40_000)
    assert large < 4 * small, f"{small * 1e6:.1f} us at 2,000 ops, {large * 1e6:.1f} at 40,000"


def test_nested_scopes_stay_cheap():
    with ops.Graph().as_default():
        start = time.process_time()
        for _ in range(3_000):
            with ops.name_scope("s"), ops.device("/cpu:0"):
                ops.constant(1.0)
        assert (time.process_time() - start) / 3_000 < 200e-6


def test_export_is_linear_and_cheap():
    _, g = _build(10_000)
    start = time.process_time()
    data = graph_io.graph_bytes(g)
    assert len(data) > 10_000 and (time.process_time() - start) / 10_000 < 60e-6


@pytest.mark.parametrize("module", ["google.protobuf", "ml_dtypes", "cffi", "grpc", "inspect",
                                    "dataclasses"])
def test_graph_layer_does_not_import(module):
    code = ("import sys, types, numpy; before = set(sys.modules)\n"
            "import importlib.util as u; p = types.ModuleType('pyflow')\n"
            "p.__path__ = u.find_spec('pyflow').submodule_search_locations\n"
            "sys.modules['pyflow'] = p\n"
            "import pyflow.framework.graph, pyflow.framework.graph_io, pyflow.config\n"
            f"assert {module!r} not in set(sys.modules) - before")
    subprocess.run([sys.executable, "-c", code], check=True)
