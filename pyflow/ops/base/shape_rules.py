"""Shape functions written as patterns: what the inputs must look like, what the outputs then are.

    found = match(op, "b h w c", "c", "c")       # ValueError unless the inputs fit
    return [found("b h w c"), found("c")]

A pattern names each dimension of one input; equal names are equal sizes.  "2" is that size, "_"
any; "*" stands, in front, for any number of dimensions, alike wherever it stands; None is an input that
is not looked at.

Invariants
  1. What one input does not tell another does: a size or rank is unknown only if no input knows it.
  2. A pattern of the result may name what no input has; it is unknown.
  3. Pure functions, called while a node is made.
"""
from pyflow.framework.tensor_shape import TensorShape, unknown_shape


class Match:
    """The sizes that a node's inputs have, by name; calling it gives a shape."""

    def __init__(self, op):
        self.op, self.sizes, self.front = op, {}, unknown_shape()

    def __call__(self, pattern):
        """The TensorShape that `pattern` describes."""
        names = pattern.split()
        if names[:1] == ["*"]:
            return self.front.concatenate([self.size(n) for n in names[1:]])
        return TensorShape([self.size(n) for n in names])

    def size(self, name):
        """The size called `name`: an int, or None."""
        return int(name) if name.isdigit() else self.sizes.get(name)

    def take(self, index, pattern):
        """Learns the sizes of input `index`; ValueError if it does not fit."""
        names = pattern.split()
        dims = self.op.inputs[index].shape.as_tuple()
        if dims is None:
            return
        if names[:1] == ["*"]:
            names = names[1:]
            if len(dims) < len(names):
                self._fail(index, pattern, f"must have rank at least {len(names)}")
            cut = len(dims) - len(names)
            self._take_front(index, pattern, TensorShape(dims[:cut]))
            dims = dims[cut:]
        elif len(dims) != len(names):
            self._fail(index, pattern, f"must have rank {len(names)}")
        for name, size in zip(names, dims):
            if name != "_" and size is not None:
                known = self.size(name)
                if known is not None and known != size:
                    self._fail(index, pattern, f"must have {known} as dimension {name}")
                self.sizes[name] = size

    def _take_front(self, index, pattern, front):
        if not self.front.is_compatible_with(front):
            self._fail(index, pattern, f"must have {self.front} in front")
        self.front = self.front.merge_with(front)

    def _fail(self, index, pattern, problem):
        op = self.op
        spans = op.op_def.input_spans(op.attrs)
        name = next(arg.name for arg, (start, stop) in zip(op.op_def.inputs, spans)
                    if start <= index < stop)
        raise ValueError(f"{op.type}: {name} ([{', '.join(pattern.split())}]) {problem}, got shape "
                         f"{op.inputs[index].shape}")


def match(op, *patterns):
    """The sizes of `op`'s inputs, which fit `patterns`, one for each tensor; further inputs are not
    looked at.  ValueError if one does not fit."""
    found = Match(op)
    for index, pattern in enumerate(patterns[:len(op.inputs)]):
        if pattern is not None:
            found.take(index, pattern)
    return found


def by_pattern(*patterns):
    """The shape function of an op whose inputs have these patterns, given "->" and its outputs'.

        shape = by_pattern("n k", "k m", "->", "n m")
    """
    at = patterns.index("->")
    inputs, outputs = patterns[:at], patterns[at + 1:]

    def shape(op):
        found = match(op, *inputs)
        return [found(p) for p in outputs] if len(outputs) > 1 else found(outputs[0])
    return shape


def checked(shape, *patterns):
    """The shape function `shape` (of the node), its inputs fitting `patterns` first."""
    def checked_shape(op):
        match(op, *patterns)
        return shape(op)
    return checked_shape
