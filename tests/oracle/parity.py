"""Which ops TensorFlow's recorded answers speak about.

    python tests/oracle/parity.py            # the counts, and the ops without a recorded case

An op is compared in value if it is run for an answer of some case: it lies above an output or, in
a script, above something a session of the script fetched (test_oracle.py checks the answers).  It
is compared in gradient if it lies between a float input and an output of a case whose gradients
are recorded, or if a script asked for its gradient function.  An op counts if both are, or if its
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
from pyflow.gradients import backprop  # noqa: E402

# What TensorFlow 2.21 cannot answer on a CPU in a graph (EagerPyFunc takes eager tensors).
WITHOUT_KERNEL = set("BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D BatchIFFT3D TopK "
                     "EagerPyFunc MaxPoolGradGradWithArgmax".split())
WITHOUT_GRADIENT = set(
    "GRUBlockCell IRFFT3D LSTMBlockCell Lu MaxPoolGradGradV2 MaxPoolGradWithArgmax PreventGradient "
    "QuantizeAndDequantize RFFT3D ResizeBilinearGrad ResizeNearestNeighborGrad Snapshot "
    "SparseDenseCwiseAdd SparseSegmentMeanGrad SparseSegmentSqrtNGrad "
    "SparseSegmentSumGrad".split())


def answered():
    """Names of the cases that have answers."""
    names = set()
    for path in (HERE / "answers").glob("*.npz"):
        with np.load(path) as file:
            names |= {key.split("/", 1)[0] for key in file.files}
    return names


def _above(found_at):
    """The ops that these tensors and operations need, control inputs and the backward edges of
    loops included."""
    found, pending = set(), [getattr(x, "op", x) for x in found_at]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending.extend([t.op for t in op.inputs] + list(op.control_inputs))
    return found


def _below(graph, inputs):
    """The ops that depend on these placeholders."""
    found = {t.op for t in inputs}
    for op in graph.get_operations():
        if any(t.op in found for t in op.inputs):
            found.add(op)
    return found


def _leaves(graph, fetches):
    """The operations and tensors in what a script fetches."""
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        return [leaf for part in fetches for leaf in _leaves(graph, part)]
    try:
        return [graph.as_graph_element(fetches)]
    except (TypeError, ValueError):  # sparse tensors: their parts are
        return [t for t in vars(fetches).values() if isinstance(t, tf.Tensor)]


class _Watch:
    """Within it, sessions and the gradient code tell which op types they were asked for."""

    def __enter__(self):
        self.values, self.gradients = set(), set()
        self.run, self.lookup = tf.Session.run, backprop.get_gradient_function

        def run(session, fetches, *args, **kwargs):
            above = _above(_leaves(session.graph, fetches))
            self.values |= {op.type for op in above}
            return self.run(session, fetches, *args, **kwargs)

        def lookup(op):
            self.gradients.add(op.type)
            return self.lookup(op)

        tf.Session.run, backprop.get_gradient_function = run, lookup
        return self

    def __exit__(self, *error):
        tf.Session.run, backprop.get_gradient_function = self.run, self.lookup


def compared():
    """(op types compared in value, op types compared in gradient)."""
    values, gradients, names = set(), set(), answered()
    ops, scripts = cases.load_all()
    for case in ops:
        if case.name not in names:
            continue
        with tf.Graph().as_default() as graph:
            inputs, outputs, grads = cases.build(tf, case)
            forward = _above(outputs)
            values |= {op.type for op in forward | _above(grads)}
            if grads:
                smooth = [x for x in inputs if x.dtype.is_floating or x.dtype.is_complex]
                gradients |= {op.type for op in forward & _below(graph, smooth)}
    for name in sorted(names & set(scripts)):
        with tf.Graph().as_default(), _Watch() as seen:
            scripts[name](tf)
        values |= seen.values
        gradients |= seen.gradients
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
    for key, lacking in [("no value", WITHOUT_KERNEL), ("no gradient", WITHOUT_GRADIENT)]:
        print(f"{key} in TensorFlow either: {' '.join(sorted(found[key] & lacking))}")
        print(f"{key}: {' '.join(sorted(found[key] - lacking))}")
