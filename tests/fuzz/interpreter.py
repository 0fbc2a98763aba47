"""The naive interpreter of tests/executor, with state, errors, arrays and what gradients need.

    program = Interpreter(graph, fetches, variables={"v": (initial value)}, py_func=f)
    values, failed = program.step({placeholder op: value})

`failed`: names of the operations that fail in this step, in any order of execution, whatever the
executor does first: an operation fails if its inputs say so, and nothing behind it runs.  State
(values of variables) lasts from step to step.  Only what the fetches need is run.
"""
import numpy as np

import naive_interpreter as naive
from naive_interpreter import DEAD
from pyflow.framework import tensor_util


class Failure(Exception):
    """The operation fails, as it should."""


class Cell:
    """What a reference stands for, a variable; reading it gives its value now."""

    def __init__(self, value=None):
        self.value = value


class Handle(Cell):
    """What a handle stands for: a resource variable, a stack, an array with its gradient."""

    gradient = None


def fail_if(op, x):
    if np.any(np.asarray(x) > op.get_attr("above")):
        raise Failure(op.name)
    return [x]


def gather(op, table, index, *axis):
    if np.any(index < 0) or np.any(index >= len(table)):
        raise Failure(op.name)
    return [table[index]]


def update(change):
    def run(op, cell, value):
        cell.value = change(cell.value, value)
        return [cell]
    return run


def push(op, stack, x, *_):
    stack.value.append(x)
    return [x]


def pop(op, stack):
    return [stack.value.pop()]


def write(op, array, index, x, flow):
    """Into the array of a gradient several times: they add up."""
    old = array.value[int(index)]
    array.value[int(index)] = x if old is None else old + x
    return [flow]


def scatter(op, array, indices, values, flow):
    for index, x in zip(indices, values):
        write(op, array, index, x, flow)
    return [flow]


def gradient_array(op, array, flow):
    array.gradient = array.gradient or Handle([None] * len(array.value))
    return [array.gradient, flow]


def reduction(fn):
    return lambda op, x, axis: [fn(x, axis=tuple(np.atleast_1d(axis).tolist()),
                                   keepdims=op.get_attr("keep_dims"))]


def fill(op, dims, value):
    return [np.full(tuple(np.atleast_1d(dims)), value)]


def broadcast_args(op, a, b):
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)
    lone = [i for i in range(rank) if a[i] == b[i] == 1]
    return [np.array(sorted([i for i in range(rank) if x[i] == 1 != y[i]] + lone), np.int32)
            for x, y in ((a, b), (b, a))]


def same(op, x):
    return [x]


IN_PLACE = {  # the first input is a Cell, which is passed on; handles only: no output but the cell
    "Assign": update(lambda old, x: x), "AssignVariableOp": update(lambda old, x: x),
    "AssignAdd": update(lambda old, x: old + x), "AssignSub": update(lambda old, x: old - x),
    "AssignAddVariableOp": update(lambda old, x: old + x),
    "AssignSubVariableOp": update(lambda old, x: old - x),
    "ReadVariableOp": lambda op, cell: [cell.value],
    "TensorArrayScatterV3": scatter, "TensorArrayGradV3": gradient_array,
    "StackPushV2": push, "StackPopV2": pop, "TensorArrayWriteV3": write,
    "TensorArrayReadV3": lambda op, array, index, flow: [array.value[int(index)]],
    "TensorArrayGatherV3": lambda op, array, which, flow: [
        np.stack([array.value[i] for i in which])],
    "TensorArraySizeV3": lambda op, array, flow: [np.int32(len(array.value))],
}
VALUES = {
    "AddN": lambda op, *xs: [sum(xs[1:], xs[0])], "FloorMod": lambda op, a, b: [np.mod(a, b)],
    "Select": lambda op, c, a, b: [np.where(c, a, b)], "Fill": fill, "Shape": lambda op, x: [
        np.array(np.shape(x), np.int32)], "Reshape": lambda op, x, shape: [np.reshape(x, shape)],
    "Sum": reduction(np.sum), "Max": reduction(np.max), "Min": reduction(np.min),
    "Equal": lambda op, a, b: [np.equal(a, b)], "LessEqual": lambda op, a, b: [a <= b],
    "GreaterEqual": lambda op, a, b: [a >= b], "LogicalOr": lambda op, a, b: [np.logical_or(a, b)],
    "ZerosLike": lambda op, x: [np.zeros_like(x)],
    "Cast": lambda op, x: [np.asarray(x).astype(op.outputs[0].dtype.as_numpy_dtype)],
    "GatherV2": gather, "Gather": gather, "BroadcastGradientArgs": broadcast_args,
    "BroadcastTo": lambda op, x, shape: [np.broadcast_to(x, tuple(shape))],
    "Range": lambda op, a, b, c: [np.arange(a, b, c)],
    "Floor": lambda op, x: [np.floor(x)],
    "fuzz.Later": same, "fuzz.Note": same, "fuzz.FailIf": fail_if, "Snapshot": same,
    "ControlTrigger": lambda op: [], "StopGradient": same, "PreventGradient": same,
}


def ancestors(ops):
    """What has to run for these operations."""
    found, todo = set(), list(ops)
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [t.op for t in op.inputs] + list(op.control_inputs)
    return found


class Interpreter(naive.Interpreter):
    def __init__(self, graph, fetches, variables=None, py_func=None):
        needed = ancestors([getattr(f, "op", f) for f in fetches])
        super().__init__([op for op in graph.get_operations() if op in needed],
                         lambda op: tensor_util.constant_value(op.outputs[0]), py_func)
        self.cells = {name: Cell(value) for name, value in (variables or {}).items()}
        self.handles = {name: Handle(value) for name, value in (variables or {}).items()}

    def step(self, feeds):
        self.failed = set()
        return self.run(feeds), self.failed

    def fire(self, op, tag):
        kind = op.type.removeprefix("Ref")
        if kind in ("Merge", "Switch", "Enter", "Exit", "NextIteration"):
            return self.route(op, tag, kind)
        got = self.got[op, tag]
        inputs = [got.get(k, DEAD) for k in range(len(op.inputs))]
        if any(v is DEAD for v in got.values()) and op.type != "ControlTrigger":
            return self.deliver(op, tag, [DEAD] * len(op.outputs), True)
        try:
            outputs = self.compute(op, inputs)
        except Failure:
            return self.failed.add(op.name)
        self.deliver(op, tag, outputs, False)

    def route(self, op, tag, kind):
        """The naive rules, after references that are not passed on have been read."""
        got = self.got[op, tag]
        if kind == op.type:
            for k, value in got.items():
                if type(value) is Cell and op.inputs[k].dtype.name.endswith("_ref"):
                    got[k] = value.value
        if kind != op.type:
            readers, op = self.readers[op], _Plain(op, kind)
            self.readers[op], self.got[op, tag] = readers, got
        super().fire(op, tag)

    def compute(self, op, inputs):
        if op in self.feeds:
            return [self.feeds[op]]
        if op.type in ("VariableV2", "VarHandleOp"):
            return [(self.cells if op.type == "VariableV2" else self.handles)[op.name]]
        if op.type in ("StackV2", "TensorArrayV3"):
            return [Handle([] if op.type == "StackV2" else [None] * int(inputs[0])), np.float32(0)]
        if op.type in IN_PLACE:
            given = [inputs[0]] + [_read(x) for x in inputs[1:]]
            return IN_PLACE[op.type](op, *given)
        if op.type == "RefIdentity":
            return inputs
        inputs = [_read(x) for x in inputs]
        with np.errstate(all="ignore"):
            if op.type in VALUES:
                return VALUES[op.type](op, *inputs)
            if op.type == "PyFunc":
                try:
                    return [np.asarray(self.py_func(*inputs))]
                except ArithmeticError:
                    raise Failure(op.name) from None
        return super().compute(op, inputs)


class _Plain:
    """A routing operation seen without `Ref`; equal for equal operations."""

    def __init__(self, op, kind):
        self.op, self.type = op, kind
        self.inputs, self.outputs = op.inputs, op.outputs
        self.control_inputs, self.name, self.get_attr = op.control_inputs, op.name, op.get_attr

    def __eq__(self, other):
        return isinstance(other, _Plain) and self.op is other.op

    def __hash__(self):
        return hash(self.op.name)


def _read(x):
    return x.value if type(x) is Cell else x
