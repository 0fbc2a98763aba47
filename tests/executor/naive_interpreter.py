"""A naive interpreter of TF 1.x graphs: tokens, tags and frames in plain Python, to compare the executor with.

Written from the paper's description, not from the executor: every (operation, tag) collects its inputs in a dictionary and
fires when all have come; a tag is a tuple of (frame name, iteration).  No blocks, no plan, no order but first come.
"""
import collections

import numpy as np

DEAD = object()

KERNELS = {
    "Const": lambda op: [op.get_attr("value_array")],
    "Add": lambda op, a, b: [a + b], "AddV2": lambda op, a, b: [a + b], "Sub": lambda op, a, b: [a - b],
    "Mul": lambda op, a, b: [a * b], "Neg": lambda op, a: [-a], "Square": lambda op, a: [a * a],
    "Maximum": lambda op, a, b: [np.maximum(a, b)], "Minimum": lambda op, a, b: [np.minimum(a, b)],
    "Less": lambda op, a, b: [a < b], "Greater": lambda op, a, b: [a > b], "LogicalNot": lambda op, a: [not a],
    "LogicalAnd": lambda op, a, b: [np.logical_and(a, b)],
    "Identity": lambda op, a: [a], "LoopCond": lambda op, a: [a], "NoOp": lambda op: [], "PyFunc": lambda op, *a: op.py(*a),
}


class Interpreter:
    """run(fetches, feeds): values by tensor name, DEAD where a fetch did not get one."""

    def __init__(self, ops, constant, py_func=None):
        self.ops = list(ops)
        self.constant = constant                # op -> its value
        self.py_func = py_func
        self.readers = collections.defaultdict(list)
        for op in self.ops:
            for k, t in enumerate(op.inputs):
                self.readers[t.op].append((op, k, t.value_index))
            for k, c in enumerate(op.control_inputs):
                self.readers[c].append((op, ("control", k), None))

    def run(self, feeds):
        self.values, self.got, self.fired = {}, collections.defaultdict(dict), set()
        self.constants, self.iterations = collections.defaultdict(list), collections.defaultdict(set)
        self.exits, self.work = {}, collections.deque()
        self.feeds = feeds
        for op in self.ops:
            if not op.inputs and not op.control_inputs:
                self.work.append((op, ()))
        while self.work or self.deliver_dead_exits():
            if not self.work:
                continue
            op, tag = self.work.popleft()
            if (op, tag) not in self.fired:
                self.fired.add((op, tag))
                self.fire(op, tag)
        return self.values

    def ready(self, op, tag):
        got = self.got[op, tag]
        if op.type == "Merge":
            controls = all(("control", k) in got for k in range(len(op.control_inputs)))
            data = [got[k] for k in range(len(op.inputs)) if k in got]
            wanted = 1 if any(t.op.type == "NextIteration" for t in op.inputs) else len(op.inputs)
            return controls and (any(v is not DEAD for v in data) or len(data) >= wanted)
        return len(got) == len(op.inputs) + len(op.control_inputs)

    def fire(self, op, tag):
        got = self.got[op, tag]
        inputs = [got.get(k, DEAD) for k in range(len(op.inputs))]
        dead = any(v is DEAD for v in got.values())
        if op.type == "Merge":
            live = [k for k, v in enumerate(inputs) if v is not DEAD]
            self.deliver(op, tag, [inputs[live[0]], np.int32(live[0])] if live else [DEAD, DEAD], not live)
        elif op.type == "Switch":
            out = [DEAD, DEAD]
            if not dead:
                out[bool(inputs[1])] = inputs[0]
            self.deliver(op, tag, out, dead)
        elif op.type == "Enter":
            self.enter(op, tag, inputs[0] if not dead else DEAD)
        elif op.type == "Exit":
            key = (op, tag[:-1])
            if not dead:
                self.exits[key] = True
                self.deliver(op, tag[:-1], inputs, False)
            else:
                self.exits.setdefault(key, False)
        elif op.type == "NextIteration":
            if not dead:
                self.deliver(op, tag[:-1] + ((tag[-1][0], tag[-1][1] + 1),), inputs, False)
        elif dead:
            self.deliver(op, tag, [DEAD] * len(op.outputs), True)
        else:
            self.deliver(op, tag, self.compute(op, inputs), False)

    def compute(self, op, inputs):
        if op in self.feeds:
            return [self.feeds[op]]
        if op.type == "Const":
            return [self.constant(op)]
        if op.type == "PyFunc":
            return [np.asarray(self.py_func(*inputs))]
        with np.errstate(all="ignore"):
            return KERNELS[op.type](op, *inputs)

    def enter(self, op, tag, value):
        frame = op.get_attr("frame_name")
        frame = frame.decode() if isinstance(frame, bytes) else frame
        if op.get_attr("is_constant"):
            self.constants[tag, frame].append((op, value))
            for iteration in list(self.iterations[tag, frame]):
                self.deliver(op, tag + ((frame, iteration),), [value], value is DEAD)
        else:
            self.deliver(op, tag + ((frame, 0),), [value], value is DEAD)

    def deliver(self, op, tag, outputs, dead):
        if tag and tag[-1][1] not in self.iterations[tag[:-1], tag[-1][0]]:
            self.iterations[tag[:-1], tag[-1][0]].add(tag[-1][1])
            for constant, value in list(self.constants[tag[:-1], tag[-1][0]]):
                if constant is not op:
                    self.deliver(constant, tag, [value], value is DEAD)
        if not tag:
            for k, value in enumerate(outputs):
                self.values[f"{op.name}:{k}"] = value
        for reader, k, index in self.readers[op]:
            self.got[reader, tag][k] = (DEAD if dead else None) if index is None else outputs[index]
            if self.ready(reader, tag):
                self.work.append((reader, tag))

    def deliver_dead_exits(self):
        """A loop that ended without a live Exit: dead outside, innermost frames first."""
        pending = [(op, tag) for (op, tag), live in self.exits.items() if not live]
        for op, tag in sorted(pending, key=lambda p: -len(p[1]))[:1]:
            self.exits[op, tag] = True
            self.deliver(op, tag, [DEAD], True)
        return bool(pending)
