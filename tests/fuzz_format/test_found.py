"""What fuzzing found, replayed without clang: each graph is given to the core in a child process,
so that a crash is this test's failure and not its end.

A graph here is made by hand from bytes, as `tf` would refuse to build it.
"""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent

PROLOGUE = """
import resource, time
import numpy as np
import pyflow as tf
from pyflow import _executor
from pyflow.framework import wire
from pyflow.session import contract

tf.Session().close()                    # plugins are open
F, I = tf.float32, tf.int32

def node(name, op, inputs=(), **attrs):
    return wire.encode_node_parts(name, op, list(inputs), "", attrs)

def const(name, value=1.0):
    array = np.array(value, np.float32)
    return node(name, "Const", value=array, dtype=F)

def enter(name, source, frame):
    return node(name, "Enter", [source], T=F, frame_name=frame, is_constant=False)

def loop():
    return [const("c"), enter("e", "c", "f"), node("m", "Merge", ["e", "n"], T=F, N=2),
            node("less", "Less", ["m", "m"], T=F), node("p", "LoopCond", ["less"]),
            node("s", "Switch", ["m", "p"], T=F), node("a", "Neg", ["s:1"], T=F),
            node("n", "NextIteration", ["a"], T=F), node("x", "Exit", ["s"], T=F)]

def compiled(nodes):
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        return _executor.compile(wire.encode_graph(nodes, b""), {}, _executor.State("s"),
                                 _executor.Pool(1), contract.PlanOptions(threads=1))
    finally:
        seconds = time.process_time() - began
        megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        assert seconds < 5 and megabytes < 1024, (seconds, megabytes)

def refused(nodes, *words, code=3):
    try:
        compiled(nodes)
    except _executor.StepError as error:
        assert error.code == code, error.code
        assert all(w in f"{error.node}: {error}" for w in words), (error.node, error)
        return
    raise AssertionError("it compiled")
"""

CASES = {
    # The plan checked the last of two entries of a map and wrote results where the first one said.
    "an index given twice": """
again = wire.field(5, wire.field(1, b"index") + wire.field(2, wire.encode_attr(0)))
retval = node("r", "_Retval", ["c"], T=F, index=1 << 20) + again
assert compiled([const("c", 7.0), retval]).run(())[0] == 7.0
""",
    # Its value was overwritten every turn and never released.
    "a NextIteration that no Merge reads": """
refused(loop() + [node("n2", "NextIteration", ["a"], T=F)], "n2", "Merge")
""",
    "a NextIteration that two Merges read": """
refused(loop() + [node("m2", "Merge", ["e", "n"], T=F, N=2)], "Merge")
""",
    # The last turn's result replaced the one before, which was never released.
    "a result inside a loop": """
refused(loop() + [node("r", "_Retval", ["m"], T=F, index=0)], "r", "Exit")
""",
    # Ordering took time and memory for all nodes in every loop: 10 s and 5 GB.
    "many loops": """
compiled([const("c")] + [node(f"e{i}", "Enter", ["c"], T=F, frame_name=f"f{i}", is_constant=True)
                         for i in range(20000)])
""",
    # Each took a kilobyte of the stack; clang's code overflowed 8 MB.
    "loops in loops": """
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))
deep = [node(f"e{i}", "Enter", [f"e{i - 1}" if i else "c"], T=F, frame_name=f"f{i}",
             is_constant=True) for i in range(20000)]
assert compiled([const("c")] + deep).run(()) == []
""",
    # The error listed them in quadratic time.
    "many unknown ops": """
refused([node(f"n{i}", f"Op{i}") for i in range(100000)], "40 or more", "Op7", code=5)
""",
    "a chain told backwards": """
compiled([const("c")] + [node(f"n{i}", "Neg", [f"n{i + 1}" if i < 50000 else "c"], T=F)
                         for i in range(50001)])
""",
    "more outputs than memory": """
splits = [node(f"s{i}", "Split", ["d", "c"], T=F, num_split=1 << 17) for i in range(8000)]
dim = node("d", "Const", value=np.array(0, np.int32), dtype=I)
refused([dim, const("c"), *splits], "node 's", "memory", code=8)
""",
    "three million outputs of one node": """
dim = node("d", "Const", value=np.array(0, np.int32), dtype=I)
split = node("s", "Split", ["d", "c"], T=F, num_split=3 << 20)
refused([dim, const("c"), split], "node 's'", "at most 131072", code=3)
""",
    # The cap's error names node and bytes.
    "a constant of 16 GB in 100 bytes": """
def number(tag, value):
    out = bytearray([tag << 3])
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])
dims = b"".join(wire.field(2, number(1, size)) for size in (1 << 20, 1 << 12))
tensor = number(1, 1) + wire.field(2, dims) + wire.field(5, np.float32(1).tobytes())
value = wire.field(5, wire.field(1, b"value") + wire.field(2, wire.field(8, tensor)))
refused([node("big", "Const", dtype=F) + value], "node 'big'", "17179869184 bytes", code=8)
""",
}


@pytest.mark.parametrize("name", CASES)
def test_found(name):
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + CASES[name]], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def test_python_import_path():
    """300 mutated graphs and checkpoints through Python; 10^4 of them in `long.py fuzz`."""
    done = subprocess.run(
        [sys.executable, str(HERE / "import_path.py"), "--runs", "300"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    assert "300 runs" in done.stdout
