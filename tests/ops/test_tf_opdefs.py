"""Every op has TensorFlow's OpDef: inputs, outputs, attributes, defaults and statefulness (recorded
from TF 2.21)."""
import json
import pathlib

import numpy as np
import pytest

import pyflow  # noqa: F401 - registers the ops
from pyflow.framework import dtypes
from pyflow.framework.op import registered_ops
from pyflow.framework.tensor_shape import TensorShape

RECORD = json.loads((pathlib.Path(__file__).parent / "tf_opdefs.json").read_text())
# Ops TF 2.21 does not have under this name; ours alone.
OURS = {"_AccumulatorApplyFrom", "_AccumulatorTakeAt", "_CheckpointEntries", "_DynamicQuantizeLSTM",
        "_FusedElementwise", "_FusedLayerNorm", "_FusedMoments", "_GRU", "_MatMulInteger",
        "_RestoreIterator", "_SaveIterator", "_SparseAccumulatorApplyFrom",
        "_SparseAccumulatorTakeAt", "_StepGate", "_StepGateBegin", "_StepGateNext",
        "_StepGateOpen", "_TreeEnsemble", "_TreeEnsembleClassifier"}


def plain(value):
    """A default as the record writes it."""
    if isinstance(value, dtypes.DType):
        return dtypes.schema_name(value)
    if isinstance(value, TensorShape):
        dims = value.as_tuple()
        return "?" if dims is None else [-1 if d is None else d for d in dims]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return [dtypes.schema_name(dtypes.as_dtype(value.dtype)), value.tolist()]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def described(op):
    return {"inputs": [str(a) for a in op.inputs], "outputs": [str(a) for a in op.outputs],
            "attrs": {a.name: [a.kind] + ([plain(a.default)] if a.has_default else [])
                      for a in sorted(op.attrs.values(), key=lambda a: a.name)},
            "stateful": op.stateful}


@pytest.mark.parametrize("name", sorted(set(registered_ops()) & set(RECORD)))
def test_opdef_is_tensorflow_s(name):
    op, expected = registered_ops()[name], RECORD[name]
    if op.module in ("pyflow.ops.dataset.dataset_ops", "pyflow.ops.dataset.tensorflow_ops"):
        assert op.stateful                              # all of them: dataset_ops.py
        expected = {**expected, "stateful": True}
    assert described(op) == expected


def test_every_op_is_recorded():
    own = {n for n, op in registered_ops().items() if (op.module or "").startswith("pyflow.")}
    unknown = own - set(RECORD) - OURS
    assert not unknown, f"not recorded: {sorted(unknown)}; record again, or list them as OURS"
