"""Why a gradient is None: names the operation that breaks the path.

Pure reading of the graph; any thread.  Called by `gradients(explain=True)` and by optimizers.

Example:  missing_gradient([loss], w) -> "w: the path to loss ends at 'ArgMax' (op ArgMax,
train.py:12): ..."
"""
import collections

from pyflow.framework import graph as ops
from pyflow.framework.convert import to_tensor
from pyflow.framework.gradient_registry import get_gradient_function

_FLOWS = frozenset(("float16", "bfloat16", "float32", "float64", "complex64", "complex128",
                    "resource", "variant"))
_STOPS = ("StopGradient", "PreventGradient")


def missing_gradient(ys, x):
    """One line on why no gradient flows from `ys` to `x`."""
    source = _tensor_of(x)
    name = getattr(x, "name", source.name)
    targets = ", ".join(y.name for y in ys)
    onward = _on_paths(source.op, [y.op for y in ys])
    if not onward:
        return f"{name}: {targets} does not depend on it; check that it is used to compute the loss"
    breaks = _breaks(source.op, onward)
    if not breaks:
        return (f"{name}: every op between it and {targets} has a gradient function, but one "
                "returned None for this input")
    return f"{name}: the path to {targets} ends at " + "; and at ".join(
        f"{_where(op)}: {reason}" for op, reason in breaks[:3])


def _tensor_of(x):
    handle = getattr(x, "handle", None)
    if isinstance(handle, ops.Tensor):
        return handle
    return x if isinstance(x, ops.Tensor) else to_tensor(x, as_ref=True)


def _on_paths(source, targets):
    """Operations on some data path from `source` to a target."""
    after = _closure([source], lambda op: [c for t in op.outputs for c in t.consumers()])
    before = _closure(targets, lambda op: [t.op for t in op.inputs])
    return after & before


def _closure(start, neighbours):
    found, queue = set(start), collections.deque(start)
    while queue:
        for op in neighbours(queue.popleft()):
            if op not in found:
                found.add(op)
                queue.append(op)
    return found


def _breaks(source, onward):
    """[(operation, reason)] where gradients stop, nearest to the source first."""
    seen, queue, breaks = {source}, collections.deque([source]), []
    while queue:
        op = queue.popleft()
        reason = _reason(op) if op is not source else None
        if reason:
            breaks.append((op, reason))
            continue
        for tensor in op.outputs:
            for consumer in tensor.consumers():
                if consumer in onward and consumer not in seen:
                    seen.add(consumer)
                    queue.append(consumer)
    return breaks


def _reason(op):
    if op.type in _STOPS:
        return "it stops gradients on purpose"
    if op.outputs and all(t.dtype.base_dtype.name not in _FLOWS for t in op.outputs):
        kinds = ", ".join(sorted({t.dtype.base_dtype.name for t in op.outputs}))
        return f"its output is {kinds}, and gradients flow through floating point only"
    try:
        function = get_gradient_function(op)
    except LookupError:
        return "it has no gradient function; give it one with tf.RegisterGradient"
    return "it is not differentiable" if function is None and op.inputs else None


def _where(op):
    return f"'{op.name}' (op {op.type}, made at {op.user_frame})"
