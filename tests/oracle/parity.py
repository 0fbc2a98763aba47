"""Which ops TensorFlow's recorded answers speak about.

    python tests/oracle/parity.py            # the counts, and the ops without a recorded case

An op is compared in value if it computes an answer of some case (test_oracle.py checks the
answers); in gradient if it
lies between a float input and an output of a case whose gradients are recorded.  An op counts if
both are, or if its
gradient is declined (None) and its value is.
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import pyflow as tf  # noqa: E402
from pyflow.framework.op import registered_ops  # noqa: E402


def answered():
    """Names of the cases that have answers."""
    names = set()
    for path in (HERE / "answers").glob("*.npz"):
        with np.load(path) as file:
            names |= {key.split("/", 1)[0] for key in file.files}
    return names


def _above(tensors):
    """The ops that compute these tensors."""
    found, pending = set(), [t.op for t in tensors]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending.extend(t.op for t in op.inputs)
    return found


def _below(graph, inputs):
    """The ops that depend on these placeholders."""
    found = {t.op for t in inputs}
    for op in graph.get_operations():
        if any(t.op in found for t in op.inputs):
            found.add(op)
    return found


def compared():
    """(op types compared in value, op types compared in gradient)."""
    values, gradients, names = set(), set(), answered()
    for case in cases.load_all()[0]:
        if case.name not in names:
            continue
        with tf.Graph().as_default() as graph:
            inputs, outputs, grads = cases.build(tf, case)
            forward = _above(outputs)
            values |= {op.type for op in forward | _above(grads)}
            if grads:
                smooth = [x for x in inputs if x.dtype.is_floating or x.dtype.is_complex]
                gradients |= {op.type for op in forward & _below(graph, smooth)}
    return values, gradients


def report():
    """{"registered", "value", "agree", "no value", "no gradient"}: sets of op names."""
    own = {n: op for n, op in registered_ops().items()
           if (op.module or "").startswith("pyflow.") and not n.startswith("_")}
    values, gradients = compared()
    smooth = {n for n, op in own.items() if op.gradient}
    known = set(own)
    return {"registered": known, "value": values & known,
            "agree": {n for n in values & known if n not in smooth or n in gradients},
            "no value": known - values, "no gradient": (values & smooth) - gradients}


if __name__ == "__main__":
    found = report()
    print({key: len(names) for key, names in found.items()})
    for key in ("no value", "no gradient"):
        print(f"{key}: {' '.join(sorted(found[key]))}")
