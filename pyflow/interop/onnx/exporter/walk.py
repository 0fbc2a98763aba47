"""What a graph's outputs need, and its loops and branches, told from version 1's control flow.

    loop:    x -> Enter -> Merge -> Switch --0--> Exit           Merge <- NextIteration
    branch:  x -> Switch --k--> ... -> Merge

Invariants:
1. The guards of a tensor are the (predicate, side) of the conditionals it stands in: it has a value
   only if all of them hold.  A Merge that is none of a loop ends those of its own conditional.
2. Merges of one predicate, none of which needs another's result, are one conditional (`Branch`).
3. Nothing recurses: graphs may be deep.

Threads: a pure function of the graph, which must not change meanwhile.
"""

from pyflow.interop.onnx.errors import UnsupportedError

_SWITCHES = frozenset(("Switch", "RefSwitch", "_SwitchN"))
_ENTERS = frozenset(("Enter", "RefEnter"))
_EXITS = frozenset(("Exit", "RefExit"))
_MERGES = frozenset(("Merge", "RefMerge"))
_NEXTS = frozenset(("NextIteration", "RefNextIteration"))
_ALIASES = frozenset(("Identity", "RefIdentity", "StopGradient", "Snapshot", "PreventGradient",
                      "EnsureShape", "CheckNumerics"))


class Loop:
    """One frame: `variables` are (Enter, Merge, Switch or None, Exit or None), `constants` the
    other Enters, `test` the tensor of LoopCond."""

    def __init__(self, name):
        self.name, self.variables, self.constants, self.test = name, [], [], None

    @property
    def captures(self):
        """The tensors that go in."""
        return [v[0].inputs[0] for v in self.variables] + [e.inputs[0] for e in self.constants]


class Branch:
    """One conditional: `pred` a bool (or an index), `merges` its results, `sides[i]` which input of
    merge i belongs to which side."""

    def __init__(self, pred):
        self.pred, self.merges, self.sides, self.captures = pred, [], [], []


def source(tensor):
    """The tensor behind identities."""
    while tensor.op.type in _ALIASES and tensor.value_index == 0:
        tensor = tensor.op.inputs[0]
    return tensor


def is_header(op):
    """Whether a Merge begins a loop."""
    return any(t.op.type in _NEXTS for t in op.inputs)


class Walk:
    """needed: operations whose values the outputs need, inputs first; loops: Loop by Exit;
    branches: Branch by Merge."""

    def __init__(self, outputs, inputs):
        self.given, self.asked = set(inputs), set(outputs)
        self.needed = self._ordered(outputs, controls=False)
        self.within = frozenset(self.needed)    # gradients may read more of an operation
        self.guards = {}
        self.loops, self.branches = {}, {}
        if any(op.type in _MERGES for op in self.needed):
            self._everything = self._ordered(outputs, controls=True)
            self._guard()
            self._find_loops()
            self._find_branches()

    def _ordered(self, outputs, controls):
        """Operations by depth-first search; what a NextIteration needs comes later."""
        done, order, roots = set(), [], [t.op for t in outputs if t not in self.given]
        while roots:
            stack = [(roots.pop(), None)]
            while stack:
                op, waiting = stack.pop()
                if waiting is None:
                    if op in done:
                        continue
                    done.add(op)
                    waiting = iter(self._needs(op, controls, roots))
                following = next(waiting, None)
                if following is None:
                    order.append(op)
                    continue
                stack.append((op, waiting))
                if following not in done:
                    stack.append((following, None))
        return order

    def _needs(self, op, controls, roots):
        found = []
        for tensor in op.inputs:
            if tensor in self.given:
                continue
            if op.type in _MERGES and tensor.op.type in _NEXTS:
                roots.append(tensor.op)
            else:
                found.append(tensor.op)
        return found + list(op.control_inputs) if controls else found

    # guards
    def guard(self, tensor):
        """The guards of a tensor: a frozenset of (predicate, side)."""
        base = self.guards.get(tensor.op, frozenset())
        op = tensor.op
        if op.type in _SWITCHES and source(op.inputs[1]).op.type != "LoopCond":
            return base | {(source(op.inputs[1]), tensor.value_index)}
        return base

    def _guard(self):
        for op in self._everything:
            if op.type in _MERGES and not is_header(op):
                pred, _ = self._sides(op)
                sets = [self.guard(t) for t in op.inputs]
                common = frozenset.intersection(*sets)
                self.guards[op] = frozenset(g for g in common if g[0] is not pred)
                continue
            found = frozenset()
            for tensor in op.inputs:
                if tensor.op.type not in _NEXTS or op.type not in _MERGES:
                    found |= self.guard(tensor)
            for control in op.control_inputs:
                found |= self.guards.get(control, frozenset())
            self.guards[op] = found

    def _sides(self, op):
        """(predicate, side of each input) of a Merge, (None, None) where it cannot be told."""
        sets = [dict(self.guard(t)) for t in op.inputs]
        for pred in sorted(sets[0], key=lambda t: t.op._id):
            sides = [s.get(pred) for s in sets]
            if None not in sides and len(set(sides)) == len(sides):
                return pred, sides
        return None, None

    # loops
    def _find_loops(self):
        needed, frames = set(self.needed), {}
        for op in self.needed:
            if op.type in _ENTERS:
                frame = frames.setdefault(op.attr("frame_name"), Loop(op.attr("frame_name")))
                merge = next((c for c in op.outputs[0].consumers()
                              if c.type in _MERGES and c in needed and is_header(c)), None)
                if merge is None:
                    frame.constants.append(op)
                else:
                    self._variable(frame, op, merge, needed)
        for frame in frames.values():
            for variable in frame.variables:
                if variable[3] is not None:
                    self.loops[variable[3]] = frame

    def _variable(self, frame, enter, merge, needed):
        switch = next((c for c in merge.outputs[0].consumers() if c.type in _SWITCHES
                       and c.inputs[0] is merge.outputs[0] and c in needed
                       and source(c.inputs[1]).op.type == "LoopCond"), None)
        leave = None
        if switch is not None:
            frame.test = source(switch.inputs[1])
            leave = next((c for c in switch.outputs[0].consumers()
                          if c.type in _EXITS and c in needed), None)
        frame.variables.append((enter, merge, switch, leave))

    # branches
    def _find_branches(self):
        levels, groups = {}, {}
        merges = [op for op in self.needed if op.type in _MERGES and not is_header(op)]
        for op in merges:
            pred, sides = self._sides(op)
            if pred is None:
                raise UnsupportedError(
                    f"node {op.name!r} (op Merge; {op.user_frame}): the conditional that it ends "
                    f"cannot be told from its inputs {[t.name for t in op.inputs]}")
            level = self._level(op, pred, levels)
            raw = self._raw_pred(op, pred)
            branch = groups.setdefault((raw, level, self.guards[op]), Branch(pred))
            branch.merges.append(op)
            branch.sides.append(sides)
            self.branches[op] = branch
        for branch in dict.fromkeys(self.branches.values()):
            branch.captures = self._captures(branch)

    def _raw_pred(self, merge, pred):
        """The predicate as this conditional's Switches name it: tf.cond makes an identity each."""
        stack, seen = [t for t in merge.inputs], set()
        while stack:
            tensor = stack.pop()
            op = tensor.op
            if op.type in _SWITCHES and source(op.inputs[1]) is pred:
                return op.inputs[1]
            if op in seen:
                continue
            seen.add(op)
            stack += [t for t in op.inputs if any(g[0] is pred for g in self.guard(t))]
            stack += [c.outputs[0] for c in op.control_inputs if c.outputs]
        return pred

    def _level(self, merge, pred, levels):
        """How many conditionals of the same predicate one after the other end here."""
        best, stack, seen = 0, list(merge.inputs), set()
        while stack:
            op = stack.pop().op
            if op in seen:
                continue
            seen.add(op)
            known = levels.get((op, pred))
            if known is not None:
                best = max(best, known)
                continue
            if op.type in _MERGES and is_header(op):
                stack.append(op.inputs[0])
            else:
                stack += [t for t in op.inputs if t not in self.given]
        levels[merge, pred] = best + 1
        return best + 1

    def _captures(self, branch):
        """Tensors that the branches take from outside of the conditional."""
        found, seen = {}, set()
        stack = [t for merge in branch.merges for t in merge.inputs]
        while stack:
            tensor = stack.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            if not any(g[0] is branch.pred for g in self.guard(tensor)):
                found[tensor] = None
                continue
            stack += self.needs(tensor.op)
        return list(found)

    def needs(self, op):
        """The tensors that must be there before an operation is written; a loop or a conditional is
        written at its Exit or Merge."""
        if op.type in _EXITS and op in self.loops:
            return self.loops[op].captures
        if op in self.branches:
            branch = self.branches[op]
            return [branch.pred, *branch.captures]
        if op.type in _SWITCHES:
            return [op.inputs[0]]
        return list(op.inputs)
