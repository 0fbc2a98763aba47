"""If and Loop out of version 1's conditionals and frames.

Invariants:
1. What a branch or a body makes stays in its own `Body`; what it needs from outside is written
   before it, outside.
2. A loop tests before its first turn, ONNX's Loop after each: the test is written twice, on the
   values that go in and on those that a turn makes.
3. A list (TensorArray, TensorList) that a loop fills one element a turn, at the turn's number, is
   one of Loop's collected outputs; any other becomes a tensor that is written into
   (lists.NotCollected starts the loop again so).

One model is written by one thread.
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.errors import UnsupportedError
from pyflow.interop.onnx.exporter import lists, writing
from pyflow.interop.onnx.exporter.body import Body, Value
from pyflow.interop.onnx.exporter.walk import source
from pyflow.interop.onnx.messages import CLASSES


def graph_of(body, name, inputs, outputs):
    """The GraphProto of a body.  inputs, outputs: (name, dtype, sizes or None)."""
    return CLASSES["GraphProto"](
        node=body.nodes, name=name, input=[writing.value_info(*i) for i in inputs],
        output=[writing.value_info(*o) for o in outputs])


# Conditionals

def write_branch(exporter, branch, body):
    """Writes a conditional and binds its Merges."""
    pred = exporter.value_of(branch.pred, body)
    sides = sorted(branch.sides[0])
    index = branch.pred.dtype.base_dtype is not dtypes.bool
    name = branch.merges[0].name
    results = _branches(exporter, branch, body, pred, sides, index, name)
    for merge, result in zip(branch.merges, results):
        body.values[merge.outputs[0]] = _result(exporter, merge, result, body)


def _result(exporter, merge, name, body):
    if isinstance(name, Value):
        return name
    out = merge.outputs[0]
    return Value(name, None, out.shape.as_tuple(), exporter.type_of(out), body)


def _branches(exporter, branch, body, pred, sides, index, name):
    """Names of the results of an If over the sides, the last of which needs no test."""
    if len(sides) == 1:
        return _values(exporter, branch, sides[0], body)
    if index:
        test = body.emit("Equal", [pred.plain, np.asarray(
            sides[0], pred.dtype.as_numpy_dtype)], f"{name}/is_{sides[0]}")
        order = [[sides[0]], sides[1:]]
    else:
        test, order = pred.plain, [[1], [0]]
    graphs = [_branch_graph(exporter, branch, body, pred, part, index, f"{name}_{i}")
              for i, part in enumerate(order)]
    outputs = [body.names.unique(m.name) for m in branch.merges]
    body.emit("If", [test], name, outputs, then_branch=graphs[0], else_branch=graphs[1])
    return outputs


def _branch_graph(exporter, branch, outer, pred, sides, index, name):
    body = Body(exporter.names, outer)
    values = _branches(exporter, branch, body, pred, sides, index, name)
    outputs = []
    for merge, value in zip(branch.merges, values):
        made = body.own(value, f"{merge.name}/out")
        outputs.append((made, exporter.type_of(merge.outputs[0]),
                        merge.outputs[0].shape.as_tuple()))
    return graph_of(body, name, [], outputs)


def _values(exporter, branch, side, body):
    """The names of what the Merges get from one side."""
    tensors = [merge.inputs[sides.index(side)]
               for merge, sides in zip(branch.merges, branch.sides)]
    exporter.run(tensors, body)
    values = [body.find(t) for t in tensors]
    if any(isinstance(v, lists.List) for v in values):
        raise UnsupportedError("a conditional whose result is a TensorArray or TensorList")
    return [v.plain for v in values]


# Loops

def write_loop(exporter, loop, body):
    """Writes a loop and binds its Exits."""
    if loop.test is None:
        raise UnsupportedError(f"the loop {loop.name!r} has no condition that can be found")
    for enter in loop.constants:
        body.values[enter.outputs[0]] = body.find(enter.inputs[0])
    dense = set()
    while True:         # what a trial leaves behind is never read, and left out in the end
        try:
            return _Writer(exporter, loop, body, dense).write()
        except lists.NotCollected as found:
            if found.variable in dense or found.variable is None:
                raise UnsupportedError(f"the loop {loop.name!r}: {found}") from None
            dense.add(found.variable)


def _returning(merge):
    """What a turn gives to the variable of a Merge."""
    return next(t.op for t in merge.inputs if t.op.type in ("NextIteration",
                                                            "RefNextIteration")).inputs[0]


class _Writer:
    """One Loop node.  dense: the variables that are lists and become tensors."""

    def __init__(self, exporter, loop, body, dense):
        self.exporter, self.loop, self.outer, self.dense = exporter, loop, body, dense
        self.kinds = [self._kind(i) for i in range(len(loop.variables))]

    def _kind(self, i):
        """"tensor", "list" (collected) or "dense" (a list as a tensor)."""
        enter = self.loop.variables[i][0]
        given = self.outer.find(enter.inputs[0])
        if not isinstance(given, lists.List):
            return "tensor"
        if given.is_empty and i not in self.dense:
            return "list"
        return "dense"

    def _entering(self, i):
        given = self.outer.find(self.loop.variables[i][0].inputs[0])
        if self.kinds[i] == "dense":
            return given.dense(self.outer).plain
        return given.plain

    def write(self):
        """Writes the node."""
        loop, exporter = self.loop, self.exporter
        states = [i for i, kind in enumerate(self.kinds) if kind != "list"]
        start = Body(exporter.names, self.outer)
        for i, (_, merge, switch, _) in enumerate(loop.variables):
            self._bind_variable(start, i, self.outer.find(loop.variables[i][0].inputs[0]))
        exporter.run([loop.test], start)
        first = start.find(loop.test).plain
        entering = [self._entering(i) for i in states]
        graph, collected = self._body_graph(states)
        self.outer.take(start)
        outputs = [self._exit_name(i) for i in [*states, *collected]]
        self.outer.emit("Loop", ["", first, *entering], loop.name, outputs, body=graph)
        for i, name in zip([*states, *collected], outputs):
            self._bind_exit(i, name)

    def _bind_variable(self, body, i, value):
        _, merge, switch, _ = self.loop.variables[i]
        body.values[merge.outputs[0]] = value
        if switch is not None:
            for tensor in switch.outputs:
                body.values[tensor] = value

    def _exit_name(self, i):
        enter, _, _, leave = self.loop.variables[i]
        return self.exporter.names.unique(leave.name if leave is not None else f"{enter.name}/out")

    def _bind_exit(self, i, name):
        merge, leave = self.loop.variables[i][1], self.loop.variables[i][3]
        if leave is None:
            return
        out = merge.outputs[0]
        if self.kinds[i] == "tensor":
            made = Value(name, None, leave.outputs[0].shape.as_tuple(),
                         self.exporter.type_of(out), self.outer)
        else:
            given = self.outer.find(self.loop.variables[i][0].inputs[0])
            made = given.stacked_as(name, self.outer, None) if i not in self._written else \
                given.collected_as(name, self.outer, self._written[i], self._is_filled(given))
        self.outer.values[leave.outputs[0]] = made

    def _is_filled(self, given):
        """Whether a list surely gets all its elements: the loop counts its turns from 0 up to the
        list's size, and nothing else ends it."""
        counters = {self.loop.variables[i][1].outputs[0] for i in self._counters()}
        tests = [source(self.loop.test.op.inputs[0])]
        while tests:
            test = tests.pop().op
            sides = [source(t) for t in test.inputs]
            if test.type == "LogicalAnd":
                tests += sides
            elif test.type != "Less" or sides[0] not in counters \
                    or not self._is_size(sides[1], given):
                return False
        return True

    def _is_size(self, bound, given):
        if bound.op.type in ("Enter", "RefEnter"):
            bound = bound.op.inputs[0]
        number = self.exporter.array_of(bound, self.outer)
        if number is not None and isinstance(given.size, np.ndarray):
            return number == given.size
        return given.reserved is not None and source(bound) is source(given.reserved)

    def _counters(self):
        """Variables that begin at 0 and grow by 1 each turn."""
        found = set()
        for i, (enter, merge, switch, _) in enumerate(self.loop.variables):
            given = self.outer.find(enter.inputs[0])
            if switch is None or isinstance(given, lists.List) or given.array is None \
                    or given.array.shape != () or given.array.dtype == object or given.array != 0:
                continue
            step = source(_returning(merge))
            if step.op.type not in ("Add", "AddV2"):
                continue
            a, b = (source(t) for t in step.op.inputs)
            a, b = (b, a) if b is switch.outputs[1] else (a, b)
            one = self.exporter.array_of(b, self.outer)
            if a is switch.outputs[1] and one is not None and one.shape == () and one == 1:
                found.add(i)
        return found

    def _body_graph(self, states):
        """(the GraphProto, the variables that are collected)."""
        exporter, names = self.exporter, self.exporter.names
        body = Body(names, self.outer, turns=set())
        turn = names.unique(f"{self.loop.name}/turn")
        going = names.unique(f"{self.loop.name}/going")
        inputs = [(turn, dtypes.int64, ()), (going, dtypes.bool, ())]
        body.values[self.loop.test] = Value(going, None, (), dtypes.bool, body)
        self._written, counters = {}, self._counters()
        for i in range(len(self.kinds)):
            inputs += self._bind_in(body, i, i in counters)
        nexts = [_returning(merge) for _, merge, _, _ in self.loop.variables]
        exporter.run(nexts, body)
        results = [body.find(t) for t in nexts]
        after = Body(names, self.outer)     # which does not find this turn's values by tensors
        for i, result in enumerate(results):
            self._bind_variable(after, i, result)
        exporter.run([self.loop.test], after)
        test = after.find(self.loop.test).plain
        body.take(after)
        outputs = [(body.own(test, f"{going}_next"), dtypes.bool, ())]
        collected = []
        for i in states:
            outputs.append(self._state_out(body, i, results[i]))
        for i, kind in enumerate(self.kinds):
            if kind == "list":
                written = lists.collected(results[i], i)
                if written is not None:
                    self._written[i], element = written, written.element
                    collected.append(i)
                    outputs.append((body.own(element.plain, f"{self.loop.name}/element"),
                                    element.dtype, element.shape))
                else:
                    leave = self.loop.variables[i][3]
                    if leave is not None:
                        self.outer.values[leave.outputs[0]] = self.outer.find(
                            self.loop.variables[i][0].inputs[0])
        return graph_of(body, self.loop.name, inputs, outputs), collected

    def _bind_in(self, body, i, counter):
        enter, merge, switch, _ = self.loop.variables[i]
        given = self.outer.find(enter.inputs[0])
        out = merge.outputs[0]
        if self.kinds[i] == "list":
            self._bind_variable(body, i, lists.Open(given, i))
            return []
        name = self.exporter.names.unique(f"{enter.name}/in")
        if self.kinds[i] == "dense":
            stacked = given.dense(self.outer)
            value = given.stacked_as(name, body, None)
            value.stack.shape = None if stacked.shape is None else (None, *stacked.shape[1:])
            self._bind_variable(body, i, value)
            return [(name, stacked.dtype, value.stack.shape)]
        value = Value(name, None, out.shape.as_tuple(), self.exporter.type_of(out), body)
        if counter:
            body.turns.add(name)
        self._bind_variable(body, i, value)
        return [(name, value.dtype, out.shape.as_tuple())]

    def _state_out(self, body, i, result):
        merge = self.loop.variables[i][1]
        wanted = f"{self.loop.variables[i][0].name}/next"
        if self.kinds[i] == "dense":
            stacked = result.dense(body)
            return (body.own(stacked.plain, wanted), stacked.dtype,
                    None if stacked.shape is None else (None, *stacked.shape[1:]))
        out = merge.outputs[0]
        return body.own(result.plain, wanted), self.exporter.type_of(out), out.shape.as_tuple()
