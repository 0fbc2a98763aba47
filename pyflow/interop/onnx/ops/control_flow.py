"""If, Loop and Scan, by tf.cond and tf.while_loop; their bodies are imported in place.

Invariants:
1. Values made in a branch or body stay inside; what comes out are the outputs it names.
2. A loop's state keeps its type; its shape may change from turn to turn.  Where its rank does, in
   the first turn, that one is built by itself, before the loop of the others.
3. Outputs collected over turns are TensorArrays; without a turn they have size 0."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.errors import OnnxError
from pyflow.interop.onnx.importer import Scope
from pyflow.interop.onnx.ops.common import Value, ints, sizes, stacked
from pyflow.interop.onnx.registry import converter
from pyflow.interop.onnx.sequences import Nothing, Sequence

_MAX_TURNS = 1 << 10        # of a loop that is unrolled


@converter("If")
def if_op(node):
    known = node.known(0)
    branches = node.attr("then_branch"), node.attr("else_branch")
    if known is not None:
        return node.importer.subgraph(node, branches[0 if known.reshape(-1)[0] else 1], [])
    chosen, forms = tf.reshape(node.x(0), []), []

    def branch(graph):
        def build():
            values = node.importer.subgraph(node, graph, [])
            forms.append([_form(v) for v in values])
            if len(forms) > 1 and forms[0] != forms[-1]:
                node.need(0, "the condition, as the branches' sequences or optionals differ,")
            return [tf.identity(t) for v in values for t in _tensors(v)]
        return build
    made = tf.cond(chosen, branch(branches[0]), branch(branches[1]))
    tensors = iter(made if isinstance(made, (list, tuple)) else [made])
    return [Value(next(tensors)) if form is None else
            Sequence([Value(next(tensors)) for _ in range(form[1])]) if form[0] is Sequence else
            Nothing() for form in forms[0]]


def _form(value):
    """None for a tensor, (class, length) for a sequence or nothing."""
    return (type(value), len(value.items)) if isinstance(value, Sequence) else None


def _tensors(value):
    return [item.plain for item in value.items] if isinstance(value, Sequence) else [value.plain]


@converter("OptionalHasElement", since=15)
def optional_has_element(node):
    """Of a tensor: whether it is given at all."""
    return np.array(node.has(0) and not isinstance(node.value(0), Nothing))


@converter("OptionalGetElement", since=15)
def optional_get_element(node):
    """A tensor is what it holds."""
    if isinstance(node.value(0), Nothing):
        raise node.error("the optional is empty")
    return node.value(0)


def _trial(node, body, inputs):
    """(DTypes, shapes) of a body's outputs: it is imported once into a graph that is dropped.

    inputs: (dtype, shape) of each of its inputs, or an array where its value is known."""
    scratch = tf.Graph()
    importer = node.importer
    outer, opsets, references = node.scope
    seen = importer.knowledge
    with scratch.as_default():
        scope = _Outside(outer)
        values = [Value(array=given) if isinstance(given, np.ndarray) else
                  Value(tf.placeholder(*given)) for given in inputs]
        node.scope = scope, opsets, references
        importer.knowledge = type(seen)()
        try:
            made = importer.subgraph(node, body, values)
            return [(v.dtype, v.plain.shape) for v in made]
        finally:
            node.scope = outer, opsets, references
            importer.knowledge = seen


class _Outside(Scope):
    """The names around a body, as placeholders of another graph."""

    def __init__(self, real):
        super().__init__()
        self.real, self.depth = real, real.depth
        self.graph = tf.get_default_graph()     # a trial inside of this one asks from another graph

    def find(self, name):
        found = self.values.get(name)
        if found is None:
            value = self.real.find(name)
            if value is None:
                return None
            if value.is_array:
                found = Value(array=value.array)
            else:
                with self.graph.as_default(), self.graph.control_dependencies(None):
                    found = Value(tf.placeholder(value.dtype, value.shape))
            self.values[name] = found
        return found


class _OtherRank(Exception):
    """A turn gives a state another known rank than it has."""


def _settled(node, body, states, others, place, lead):
    """Shapes of the state that hold for all turns, and what the body makes of them.  _OtherRank:
    the rank of one changes.

    states: tensors.  others: (dtype, shape) of the body's further inputs, which come before the
    states if `place` is "before", else after.  lead: outputs of the body before the new states."""
    shapes = [t.shape for t in states]
    while True:
        given = [(t.dtype.base_dtype, s) for t, s in zip(states, shapes)]
        made = _trial(node, body, others + given if place == "before" else given + others)
        new = []
        for (dtype, shape), have, old in zip(given, made[lead:], shapes):
            if have[0] is not dtype:
                raise node.error(f"a state of type {dtype.name} becomes {have[0].name} in the body")
            if None not in (old.ndims, have[1].ndims) and old.ndims != have[1].ndims:
                raise _OtherRank
            new.append(_common(old, have[1]))
        if [s.as_tuple() for s in new] == [s.as_tuple() for s in shapes]:
            return shapes, made
        shapes = new


def _common(a, b):
    """The shape that holds for both."""
    da, db = a.as_tuple(), b.as_tuple()
    if da is None or db is None or len(da) != len(db):
        return tf.TensorShape(None)
    return tf.TensorShape([x if x == y else None for x, y in zip(da, db)])


def _array(dtype, shape):
    return tf.TensorArray(dtype, size=0, dynamic_size=True, infer_shape=False,
                          element_shape=shape, clear_after_read=False)


@converter("Loop")
def loop(node):
    """for i in range(M) while cond: cond, *state, *outputs = body(i, cond, *state)."""
    body = node.attr("body")
    if any(isinstance(node.value(i), Sequence) for i in range(2, len(node))):
        return _unrolled(node, body)
    states = [node.x(i) for i in range(2, len(node))]
    limit = tf.cast(tf.reshape(node.x(0), []), tf.int64) if node.has(0) else None
    going = tf.reshape(node.x(1), []) if node.has(1) else tf.constant(True)
    try:
        shapes, made = _loop_shapes(node, body, states)
    except (_OtherRank, OnnxError):
        if not _gets_other_rank(node, body, states):
            raise
        return _first_apart(node, body, limit, going, states)
    return _turns(node, body, limit, going, states, shapes, made)


def _loop_shapes(node, body, states):
    return _settled(node, body, states, [(tf.int64, ()), (tf.bool, ())], "before", 1)


def _gets_other_rank(node, body, states):
    """Whether the first turn, whose number is known, gives a state another rank."""
    made = _trial(node, body, [np.array(0), np.array(True),
                               *((t.dtype.base_dtype, t.shape) for t in states)])
    return any(None not in (t.shape.ndims, shape.ndims) and t.shape.ndims != shape.ndims
               for t, (_, shape) in zip(states, made[1:]))


def _first_apart(node, body, limit, going, states):
    """A loop whose first turn changes a state's rank."""
    n = len(states)

    def some():
        first = node.importer.subgraph(node, body, [
            Value(array=np.array(0)), Value(array=np.array(True)), *map(Value, states)])
        _check_count(node, len(first) - 1, n)
        results = [v.plain for v in first]
        state = results[1:1 + n]
        try:
            shapes, made = _loop_shapes(node, body, state)
        except _OtherRank:
            raise node.unsupported("a state whose rank changes from turn to turn") from None
        made = _turns(node, body, limit, tf.reshape(results[0], []), state, shapes, made,
                      results[1 + n:])
        rows.extend((t.dtype, t.shape) for t in made[n:])
        return [tf.identity(t) for t in made]

    def none():
        empty = [tf.zeros([0, *(d or 0 for d in (shape.as_tuple() or (0,))[1:])], dtype)
                 for dtype, shape in rows]
        return [tf.identity(t) for t in (*states, *empty)]
    rows = []
    limits = node.known(0) if node.has(0) else np.array(1)
    conditions = node.known(1) if node.has(1) else np.array(True)
    if limits is not None and conditions is not None and limits.reshape(-1)[0] > 0 \
            and conditions.reshape(-1)[0]:
        return some()
    begins = going if limit is None else tf.logical_and(going, limit > ints([0])[0])
    made = tf.cond(begins, some, none)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _turns(node, body, limit, going, states, shapes, made, before=None):
    """States and collected outputs of a loop.  shapes, made: of `_loop_shapes`; before: what a
    first turn, which is over, gave to collect; the turns are counted from 1 then."""
    n, start = len(states), 0 if before is None else 1
    _check_count(node, len(made) - 1, n)
    collected = made[1 + n:]

    def test(i, go, state, arrays):
        return tf.logical_and(go, tf.less(i, limit)) if limit is not None else go

    def turn(i, go, state, arrays):
        results = [v.plain for v in node.importer.subgraph(
            node, body, [Value(i), Value(go), *[Value(t) for t in state]])]
        at = tf.cast(i, tf.int32)
        new = [a.write(at, t) for a, t in zip(arrays, results[1 + n:])]
        return (i + ints([1])[0], tf.reshape(results[0], []),
                [tf.identity(t) for t in results[1:1 + n]], new)
    arrays = [_array(dtype, shape) for dtype, shape in collected]
    arrays = [a.write(0, t) for a, t in zip(arrays, before)] if before else arrays
    scalar = tf.TensorShape([])
    _, _, state, arrays = tf.while_loop(
        test, turn, (ints([start])[0], going, states, arrays),
        shape_invariants=(scalar, scalar, shapes, [scalar] * len(arrays)))
    return list(state) + [stacked(a, shape) for a, (_, shape) in zip(arrays, collected)]


def _unrolled(node, body):
    """A loop whose state has sequences: its turns one after the other, so they must be known."""
    limit = int(node.need(0, "the number of turns").reshape(-1)[0]) if node.has(0) else _MAX_TURNS + 1
    going = bool(node.need(1, "the condition").reshape(-1)[0]) if node.has(1) else True
    states, collected = [node.value(i) for i in range(2, len(node))], None
    turns = 0
    while going and turns < limit:
        if turns == _MAX_TURNS:
            raise node.unsupported(f"a state of sequences for more than {_MAX_TURNS} turns")
        results = node.importer.subgraph(node, body, [
            Value(array=np.array(turns)), Value(array=np.array(True)), *states])
        known = node.importer.array_of(results[0])
        if known is None:
            raise node.needs(results[0].tensor, "the condition of a loop with a state of sequences")
        going, states = bool(known.reshape(-1)[0]), results[1:1 + len(states)]
        rows = results[1 + len(states):]
        collected = collected or [[] for _ in rows]
        for column, value in zip(collected, rows):
            column.append(value.plain)
        turns += 1
    if collected is None and len(node.outputs) > len(states):
        raise node.unsupported("outputs collected over no turn")
    return [*states, *(tf.stack(column) for column in collected or ())]


def _check_count(node, made, states):
    if made < states or made < len(node.outputs):
        raise node.error(f"the body gives {made} values for {states} states and "
                         f"{len(node.outputs)} outputs")


# Scan
@converter("Scan", since=9)
def scan(node):
    """Slices of inputs go in, slices of outputs come out, states go along."""
    count = node.attr("num_scan_inputs")
    return _scan(node, [node.x(i) for i in range(len(node))], count)


@converter("Scan", since=8)
def scan_of_batches(node):
    """Opset 8: each batch entry is scanned on its own, over sequence_lens slices."""
    count = node.attr("num_scan_inputs")
    inputs = [node.x(i) for i in range(1, len(node))]
    batch = inputs[0].shape.as_tuple()[0]
    if batch is None or batch > 256:
        raise node.needs(inputs[0], "the batch size (at most 256)")
    if node.has(0):
        raise node.unsupported("sequence_lens")
    parts = [_scan(node, [t[b] for t in inputs], count) for b in range(batch)]
    return [tf.stack([getattr(v, "plain", v) for v in column]) for column in zip(*parts)]


def _scan(node, inputs, count):
    body = node.attr("body")
    n = len(inputs) - count
    if count < 1 or n < 0:
        raise node.error(f"num_scan_inputs is {count}, {len(inputs)} inputs are given")
    states, scanned = inputs[:n], inputs[n:]
    axes = node.attr("scan_input_axes", None) or [0] * count
    back = (node.attr("scan_input_directions", None) or node.attr("directions", None)
            or [0] * count)
    scanned = [_to_front(node, t, axis) for t, axis in zip(scanned, axes)]
    scanned = [tf.reverse(t, [0]) if d else t for t, d in zip(scanned, back)]
    slices = [(t.dtype.base_dtype, t.shape.as_list()[1:]) for t in scanned]
    shapes, made = _settled(node, body, states, slices, "after", 0)
    _check_count(node, len(made), n)
    state, arrays = _scan_loop(node, body, states, shapes, scanned, made[n:])
    results = [stacked(a, shape) for a, (_, shape) in zip(arrays, made[n:])]
    return list(state) + _turned(node, results)


def _to_front(node, t, axis):
    rank = t.shape.ndims
    axis = node.axis(axis, rank)
    return tf.transpose(t, [axis] + [i for i in range(rank) if i != axis]) if axis else t


def _scan_loop(node, body, states, shapes, scanned, collected):
    total = sizes(scanned[0])[0]
    n = len(states)

    def turn(i, state, arrays):
        values = [Value(t) for t in state] + [Value(tf.gather(t, i)) for t in scanned]
        results = [v.plain for v in node.importer.subgraph(node, body, values)]
        at = tf.cast(i, tf.int32)
        new = [a.write(at, t) for a, t in zip(arrays, results[n:])]
        return i + ints([1])[0], [tf.identity(t) for t in results[:n]], new
    arrays = [_array(dtype, shape) for dtype, shape in collected]
    scalar = tf.TensorShape([])
    _, state, arrays = tf.while_loop(
        lambda i, state, arrays: tf.less(i, total), turn, (ints([0])[0], states, arrays),
        shape_invariants=(scalar, shapes, [scalar] * len(arrays)))
    return state, arrays


def _turned(node, results):
    """Outputs in their directions and with the collected axis where it belongs."""
    back = node.attr("scan_output_directions", None) or [0] * len(results)
    axes = node.attr("scan_output_axes", None) or [0] * len(results)
    made = []
    for t, reverse, axis in zip(results, back, axes):
        t = tf.reverse(t, [0]) if reverse else t
        rank = t.shape.ndims
        axis = node.axis(axis, rank) if rank else 0
        order = list(range(1, rank)) if rank else []
        order.insert(axis, 0)
        made.append(tf.transpose(t, order) if axis else t)
    return made
