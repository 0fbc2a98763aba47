"""Shapes of what goes round in loops that were read from a file.

An importer makes a loop's Merge before what comes back to it, so that it knows nothing of the shape
and, behind it, of any rank.  Here the shape that goes in is assumed, the body's shapes are inferred
anew, and sizes that a turn changes are let go, until nothing changes: the same that tf.while_loop
asks of a program.

    refine(graph)           # a graph of one's own: shapes of its tensors become more specific

Threads: the graph's.  Called by: model.py, on graphs it imported.
"""

from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.interop.onnx.exporter.walk import is_header

_ROUNDS = 20


def refine(graph):
    """Infers the shapes in loops; if that fails they stay as they were."""
    operations = graph.get_operations()
    headers = [op for op in operations if op.type in ("Merge", "RefMerge") and is_header(op)]
    if not headers:
        return
    before = {t: t._shape for op in operations for t in op.outputs}
    assumed = dict.fromkeys(headers)
    try:
        for _ in range(_ROUNDS):
            _infer(operations, assumed, before)
            if _settled(assumed):
                return
    except ValueError:
        pass
    for tensor, shape in before.items():
        tensor._shape = shape


def _entering(header):
    """What goes in; an Enter of a variable says nothing of its shape itself."""
    found = next(t for t in header.inputs if t.op.type not in ("NextIteration", "RefNextIteration"))
    return found.op.inputs[0] if found.op.type in ("Enter", "RefEnter") else found


def _returning(header):
    return next(t for t in header.inputs if t.op.type in ("NextIteration", "RefNextIteration"))


def _infer(operations, assumed, before):
    for op in operations:
        if op in assumed:
            entering = _entering(op).shape
            shape = entering if assumed[op] is None else _common(assumed[op], entering)
            assumed[op] = op.outputs[0]._shape = shape
            continue
        op.op_def.infer_shapes(op)
        for tensor in op.outputs:
            tensor._shape = tensor._shape.merge_with(before[tensor])


def _settled(assumed):
    """Whether what comes back fits; if not, less is assumed."""
    fits = True
    for header, shape in assumed.items():
        common = _common(shape, _returning(header).shape)
        if common.as_tuple() != shape.as_tuple():
            assumed[header], fits = common, False
    return fits


def _common(a, b):
    """The shape that holds for both."""
    first, second = a.as_tuple(), b.as_tuple()
    if first is None or second is None or len(first) != len(second):
        return unknown_shape()
    return TensorShape([x if x == y else None for x, y in zip(first, second)])
