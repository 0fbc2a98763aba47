"""A naive interpreter: computes tensors of a graph from the blocks' NumPy references, without the
executor.

No control flow, no state.  It serves as the oracle of the executor (random graphs) and checks
gradient functions without kernels.

Example:  `evaluate([y], {x: array})`.
"""
import numpy as np

from pyflow.framework.op import get_op
from pyflow.ops.base.common import text


def evaluate(tensors, feeds):
    """Values of `tensors` with `feeds` {Tensor: array}, in order."""
    values = {(t.op, t.value_index): np.asarray(v) for t, v in feeds.items()}
    return [_value(t, values) for t in tensors]


def _value(tensor, values):
    pending = [tensor.op]
    while (tensor.op, tensor.value_index) not in values:
        op = pending[-1]
        missing = [t.op for t in op.inputs if (t.op, t.value_index) not in values]
        if missing:
            pending.append(missing[0])
            continue
        for i, array in enumerate(_run(op, [values[t.op, t.value_index] for t in op.inputs])):
            values.setdefault((op, i), array)
        pending.pop()
    return values[tensor.op, tensor.value_index]


def _run(op, inputs):
    if op.type == "Const":
        return [op._const_value]
    block = get_op(op.type)
    if block.reference is None:
        raise ValueError(f"{op.name} ({op.type}) has no reference: the interpreter cannot run it")
    attrs = {name: text(op.get_attr(name)) for name in block.attrs}
    with np.errstate(all="ignore"):
        result = block.call_reference(inputs, attrs)
    arrays = list(result) if isinstance(result, tuple) else [result]
    return [_typed(a, t, inputs) for a, t in zip(arrays, op.outputs)]


def _typed(array, tensor, inputs):
    """The array in the tensor's dtype; floats stay as wide as they are, for exact derivatives."""
    array = np.asarray(array)
    wanted = tensor.dtype.base_dtype
    if wanted.is_floating and array.dtype.kind == "f":
        return array
    return array.astype(wanted.as_numpy_dtype)
