"""Public functions given tensors of which little is known: the cases of tests/oracle, built with
placeholders of unknown sizes ("any") or unknown rank ("none").

    build(tf, case, "none") -> (placeholders, outputs)      # under pyflow and under TensorFlow
"""
import pathlib
import sys

ORACLE = str(pathlib.Path(__file__).resolve().parent.parent / "oracle")
if ORACLE not in sys.path:
    sys.path.insert(0, ORACLE)

import cases  # noqa: E402

WAYS = ("any", "none")


def all_cases():
    """The Ops of all areas."""
    return cases.load_all()[0]


def build(tf, case, way):
    """The placeholders and the outputs of a case in the current graph."""
    inputs = [tf.placeholder(x.dtype, None if way == "none" else [None] * x.ndim)
              for x in cases.arrays(case)]
    found = case.function(tf, *inputs)
    return inputs, list(found) if isinstance(found, (list, tuple)) else [found]
