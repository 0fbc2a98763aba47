"""Static shapes and checks of ops on variables against TensorFlow's recorded answers (state_cases.py, record_state.py)."""
import gzip
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import ask  # noqa: E402
import state_cases  # noqa: E402

import pyflow as tf  # noqa: E402

RECORDED = json.loads(gzip.decompress((HERE / "state.json.gz").read_bytes()))
# TensorFlow looks at a gradient's shape in the step where the variable is behind a handle, and never at the last scalar of FtrlV2.
STRICTER = re.compile(r"Resource(Sparse)?Apply\w+ (grad|delta|indices)=|\w+FtrlV2 lr_power="
                      r"|Resource(Sparse)?ApplyProximalGradientDescent var=")


def answer(data):
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(tf.GraphDef.FromString(data), name="")
        except ValueError as error:
            return "!" + str(error)
        return ";".join(ask.shape_text(t.shape) for t in graph.get_operation_by_name("node").outputs)


def test_shapes_and_checks_are_tensorflow_s():
    cases, wrong, stricter = state_cases.cases(), [], 0
    assert cases.keys() == RECORDED.keys(), "tests/shapes/record_state.py has not been asked about these"
    for key, data in cases.items():
        ours, theirs = answer(data), RECORDED[key]
        if theirs[:1] == "!":
            different = ours[:1] != "!"
        elif ours[:1] == "!":
            different = not STRICTER.match(key)
            stricter += not different
        else:
            different = any(map(ask._compared, ours.split(";"), theirs.split(";")))
        if different:
            wrong.append(f"{key}: {ours!r}, TensorFlow {theirs!r}")
    assert not wrong, "\n".join(wrong[:20])
    assert stricter == 231
    assert len({key.split()[0] for key in cases}) == 90
