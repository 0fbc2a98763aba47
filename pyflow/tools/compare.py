"""python -m pyflow compare A B --feeds f.npz: the first tensor that differs beyond its op's
rounding bound.

A is a graph: GraphDef (.pb, .pbtxt), .meta, ONNX model or SavedModel folder.  B is another, A
itself run otherwise (--threads-b, --device-b, --plan-b), or what another system computed: a .npz,
or a folder of .npy files, of arrays by tensor name.

    python -m pyflow compare model.pb model.onnx --feeds f.npz
    python -m pyflow compare model.pb model.pb --feeds f.npz --threads-a 1 --threads-b 2 --exact
    python -m pyflow compare model.pb dumped.npz --feeds f.npz

How: the tensors of A that B has too are compared in topological order.  Each op is run by A on B's
own inputs, so that what differed before, within its bound, is not held against it; the difference
that remains is measured in rounding bounds (tools/rounding.py).  Where B lacks tensors between two
that both have, A's ops between them are run one by one and their bounds are carried on.  Other
systems may keep a name for a product with its bias and activation: that is looked for behind the
tensor.  Converters name parts of an op as they like: between a graph and an ONNX model a tensor is
held against them only if nothing behind it agrees.

Exit status: 0 if all agree, 1 if a tensor differs, 2 if they could not be compared.
Threads: a command of its own; `compare` for one thread.

    report = compare("a.pb", "b.pb", {"x": x});  report.found.node, report.found.type
"""
import argparse
import dataclasses
import json
import re
import sys

import numpy as np

_DOWNSTREAM = 4         # ops that another system may have made one with the op whose name it kept
_SUSPECTS = 12          # differing tensors after which nothing is expected to agree any more
_DEPTHWISE = (2, 3, 0, 1)
# From TensorFlow's axes of filters to other systems': of 2, 3 dimensions, of depthwise ones.
_LAYOUTS = ((3, 2, 0, 1), (4, 3, 0, 1, 2), _DEPTHWISE)
_CARRIED = 4            # how many times the carried error a chain of ops may be off


@dataclasses.dataclass
class Difference:
    """The first tensor that differs.

    tensor, node, type: A's names; line: of the program that made it, or None.  error: the largest,
    in bounds (inf: shapes, NaN, or no rounding is allowed); bound, index, a, b: there; a: what A's
    op gives for B's inputs.  beyond, size: how many of how many elements are beyond.  inputs:
    [(name, "equal bits" or "within its bound")].  between: nodes of A that B shows nothing of,
    that the tensor needs.  notes: what else is known, one line each."""

    tensor: str
    node: str
    type: str
    line: str = None
    error: float = float("inf")
    bound: float = 0.0
    index: tuple = ()
    a: object = None
    b: object = None
    beyond: int = 0
    size: int = 0
    inputs: list = dataclasses.field(default_factory=list)
    between: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Report:
    """found: the Difference, None where all agree.  compared: tensors that both have, of which
    `equal` have equal bits; worst: (error in bounds, tensor) of those within them; only_a, only_b:
    how many tensors one side has alone."""

    found: Difference = None
    compared: int = 0
    equal: int = 0
    worst: tuple = (0.0, "")
    only_a: int = 0
    only_b: int = 0


def compare(a, b, feeds=None, fetches=(), exact=False, options_a=None, options_b=None,
            tags=None, signature=None):
    """Compares a graph with another, with itself run otherwise, or with arrays; returns a Report.

    a: a path, tf.Graph or tf.Session.  b: likewise, or a {tensor name: array}.  feeds: {name:
    array}.  fetches: names of tensors of A that have to be computed, by default its outputs; what
    nobody needs is not compared.  exact: equal bits are asked for.  options_a, options_b:
    sources.Options.
    Raises UnreadableModel, UnreadableArrays, ValueError for what does not fit together, tf.errors
    of the steps."""
    from pyflow.tools import sources
    with _closing(sources.open_source(a, feeds, fetches, options_a, tags, signature)) as left:
        if left.kind == "arrays":
            raise ValueError("A has to be a graph; arrays go second: compare GRAPH ARRAYS")
        asked = fetches if _same_names(a, b) else ()
        with _closing(sources.open_source(b, feeds, asked, options_b, tags, signature)) as right:
            comparison = _Comparison(left, right, exact)
            report = comparison.run()
            if report.found is None and left.kind == right.kind == "graph" and \
                    left.options.rewrites != right.options.rewrites:
                comparison.compare_alone(report)
            return report


def _same_names(a, b):
    kinds = [str(x).endswith(".onnx") for x in (a, b)]
    return kinds[0] == kinds[1]


class _closing:
    def __init__(self, source):
        self.source = source

    def __enter__(self):
        return self.source

    def __exit__(self, *_):
        self.source.close()


class _Comparison:
    """One walk over A's tensors.  known: {tensor of A: B's array, in A's order of axes and
    type}."""

    def __init__(self, a, b, exact):
        self.a, self.b, self.exact = a, b, exact
        self.strict = a.kind == b.kind == "graph"
        self.lenient = {a.kind, b.kind} == {"graph", "onnx"}
        self.theirs = _Names(b)
        self.known, self.bits = {}, set()
        self.points = {p.tensor: p for p in a.points if p.tensor is not None}

    def run(self):
        """The Report."""
        ours, theirs, report = self.a.values(), self.b.values(), Report()
        pairs = [(p, self.theirs.of(p.name)) for p in self.a.points]
        report.only_a = sum(other is None for _, other in pairs)
        report.only_b = len(theirs) - len({other for _, other in pairs if other is not None})
        for tensor, value in self.a.feeds.items():
            self._keep(tensor, np.asarray(value), True)
        suspects = {}                   # tensor of A, or a name: what to call of its difference
        for point, other in pairs:
            if other is None or point.tensor in self.a.feeds:
                continue
            if len(suspects) >= _SUSPECTS or suspects and not self.lenient:
                break
            report.compared += 1
            mine, found = ours[point.name], theirs[other]
            if not self.strict and not _is_constant(point.tensor):
                found = _laid_out(found, mine, True)
            aligned = _aligned(found, mine)
            if aligned is not None and _same_bits(mine, aligned):
                report.equal += 1
                self._clear(point.tensor, suspects, found)
                self._keep(point.tensor, aligned, True)
                continue
            if not self.strict and _is_constant(point.tensor):
                found = _as_weight(mine, found)
                if _same_bits(mine, found):
                    self._keep(point.tensor, mine, True)
                    continue
            difference = self._judge(point, mine, found)
            if difference.error <= 1:
                report.worst = max(report.worst, (difference.error, point.name))
                self._clear(point.tensor, suspects, found)
                self._keep(point.tensor, _aligned(found, mine), False)
            elif self.strict or not self._is_later(point, found, suspects):
                key = point.name if point.tensor is None else point.tensor
                suspects[key] = difference, point, found, mine
        for difference, point, found, _ in suspects.values():
            report.found = self._described(difference, point, found)
            break
        return report

    def _clear(self, tensor, suspects, found):
        """What an agreeing tensor needs is no suspect: B's array of that name is something else.
        But it stays one, if with B's array of it the tensor agrees as well: the fault does not
        show there."""
        region = self._region(tensor) if suspects and tensor is not None else None
        for t in [t for op in region.ops for t in op.outputs if t in suspects] if region else ():
            theirs = _aligned(suspects[t][2], suspects[t][3])
            if theirs is None or not self._agrees_with(tensor, region, {t: theirs}, found):
                del suspects[t]

    def _agrees_with(self, tensor, region, changed, found):
        """Whether A's tensor agrees with `found` when others are `changed`."""
        fed = {t: self.known[t] for t in region.frontier}
        wanted = self.a.again([tensor], {**fed, **changed})
        trial = Difference("", "", "")
        if wanted is not None:
            _measure(trial, wanted[0], found, self._expected(region, tensor, wanted[0])[1])
        return trial.error <= 1

    def _keep(self, tensor, value, bits):
        if tensor is not None:
            self.known[tensor] = value
            if bits:
                self.bits.add(tensor)

    # what A would have given
    def _judge(self, point, mine, found):
        """The Difference of a point from what B has for it; error <= 1: they agree."""
        found = np.asarray(found)
        difference = Difference(point.name, point.node, point.type)
        if point.tensor is None:
            region, wanted, bound = _Region([], []), mine, np.float64(0)
        else:
            region = self._region(point.tensor)
            wanted, bound = self._expected(region, point.tensor, mine)
            difference.line = _line(point.tensor.op)
        own = getattr(point.tensor, "op", None)
        difference.between = [op for op in region.ops if op is not own]
        difference.inputs = [(self._name(t), "equal bits" if t in self.bits else "within its bound")
                             for t in region.frontier]
        _measure(difference, wanted, found, np.float64(0) if self.exact else bound)
        return difference

    def _name(self, tensor):
        return self.points[tensor].name if tensor in self.points else tensor.name

    def _region(self, tensor):
        """The operations between `tensor` and what is known, inputs first, and the known
        tensors."""
        found, frontier, stack = set(), {}, [tensor.op]
        while stack:
            op = stack.pop()
            if op in found:
                continue
            found.add(op)
            for t in op.inputs:
                if t in self.known:
                    frontier[t] = None
                else:
                    stack.append(t.op)
            if op not in self.a.fetchable:
                stack += op.control_inputs
        return _Region([op for op in self.a.order if op in found], list(frontier))

    def _expected(self, region, tensor, mine):
        """(A's array for B's inputs, its bound).  mine: A's array for A's."""
        from pyflow.tools import rounding
        fed = {t: self.known[t] for t in region.frontier}
        if not self.a.can_run(region.ops):
            return mine, _far([mine])[0]
        if self._one_by_one(region):
            found = self.errors(region.ops, fed)
            if found is not None:
                wanted, error = found[tensor]
                return wanted, error * (1 if len(region.ops) == 1 else _CARRIED)
        wanted = self.a.again([tensor], fed)
        if wanted is None:
            return mine, _far([mine])[0]

        def run(inputs, wide=False):
            return self.a.again([tensor], dict(zip(fed, inputs)))
        return wanted[0], rounding.default(list(fed.values()), wanted, run)[0]

    def _one_by_one(self, region):
        from pyflow.tools import sources
        return all(op in self.a.fetchable and all(sources.can_fetch(t) for t in op.inputs)
                   for op in region.ops)

    def errors(self, ops, fed):
        """{tensor: (array, error bound)} of operations that are run one by one, from exact `fed`;
        None where one cannot be run."""
        found = {t: (value, None) for t, value in fed.items()}
        for op in ops:
            got = self._one(op, found)
            if got is None:
                return None
            found.update(zip(op.outputs, got))
        return found

    def _one(self, op, found):
        from pyflow.tools import rounding
        inputs = [found[t][0] for t in op.inputs]
        before = [found[t][1] for t in op.inputs]
        if op.type == "Const":
            return [(op._const_value, np.float64(0))]
        outputs = self.a.run_op(op, inputs)
        if outputs is None:
            return None

        def run(arrays, wide=False):
            return self.a.run_op(op, arrays, wide)
        errors = rounding.bounds(op, inputs, outputs, run)
        if any(e is not None and np.any(e) for e in before):
            moved = rounding.moves(inputs, before, outputs, run)
            if moved is not None:
                errors = [e + by for e, by in zip(errors, moved)]
        return list(zip(outputs, errors))

    # what B may have done
    def _is_later(self, point, found, suspects):
        """Whether B's array is that of an op behind the point's: other systems make one op of a
        product, its bias and its activation, under the first one's name."""
        tensor = point.tensor
        for _ in range(_DOWNSTREAM if tensor is not None else 0):
            users = set(tensor.consumers())
            readers = [op for op in users if op in self.a.fetchable]
            if len(readers) != 1 or not readers[0].outputs or len(users) != 1:
                return False
            tensor = readers[0].outputs[0]
            region = self._region(tensor)
            mine = self.a.alone(tensor) if tensor not in self.points else \
                self.a.values()[self.points[tensor].name]
            wanted, bound = self._expected(region, tensor, mine)
            trial = Difference("", "", "")
            _measure(trial, wanted, found, bound)
            if trial.error <= 1:
                self._clear(tensor, suspects, found)
                self._keep(tensor, _aligned(found, mine), False)
                return True
        return False

    def _described(self, difference, point, found):
        """The Difference with the node that is to blame, as far as it can be told."""
        if point.tensor is None:
            readers = []
        else:
            self._blame_constant(difference, point)
            readers = [f"{op.type} {op.name!r}" for op in point.tensor.consumers()]
            blamed = self._left_out(difference, point, found)
            if blamed is not None:
                difference.notes.append(f"it is as if B had no {blamed.type} {blamed.name!r}")
                difference.node, difference.type = blamed.name, blamed.type
                difference.line = _line(blamed)
            elif self.a.kind == "graph" and not self.a.can_run([point.tensor.op]):
                difference.notes.append("the op draws random numbers or has effects: it was not "
                                        "run again, its result is compared as it is")
        if point.type in ("Const", "input", "Identity", "VariableV2", "ReadVariableOp") and readers:
            difference.notes.append("read by " + ", ".join(readers[:3]))
        if self.strict:
            difference.notes += _structure(self.a.graph, self.b.graph, difference.node)
        difference.between = [f"{op.type} {op.name!r}" for op in difference.between
                              if op.type != "Const" and op.name != difference.node]
        return difference

    def _blame_constant(self, difference, point):
        """Of a constant behind an identity, which B shows under the identity's name, the
        constant."""
        op = point.tensor.op
        if op.type == "Identity" and op.inputs[0] not in self.known and \
                op.inputs[0].op.type in ("Const", "VariableV2"):
            difference.node, difference.type = op.inputs[0].op.name, op.inputs[0].op.type

    def _left_out(self, difference, point, found):
        """The op between whose absence explains B's array: its first input goes on in its place."""
        region = self._region(point.tensor)
        if len(region.ops) < 2 or not self.a.can_run(region.ops):
            return None
        fed = {t: self.known[t] for t in region.frontier}
        values = self.errors(region.ops, fed) if self._one_by_one(region) else None
        if values is None:
            return None
        for op in region.ops:
            if op is point.tensor.op or not op.inputs or op.type in ("Identity", "Const"):
                continue
            source, out = op.inputs[0], op.outputs[0]
            if np.shape(values[source][0]) != np.shape(values[out][0]) or \
                    source.dtype.base_dtype != out.dtype.base_dtype:
                continue
            wanted = self.a.again([point.tensor], {**fed, out: values[source][0]})
            trial = Difference("", "", "")
            if wanted is None:
                continue
            _measure(trial, wanted[0], found, values[point.tensor][1] * _CARRIED)
            if trial.error <= 1:
                return op
        return None

    # plans
    def compare_alone(self, report):
        """Fetching every tensor keeps them from being rewritten: here each is computed in a step
        that fetches it alone, by A's and B's plans, and compared with its bound carried from the
        feeds."""
        ops = [op for op in self.a.order if op in self.a.fetchable]
        if not self.a.can_run(self.a.order):
            return
        fed = {t: np.asarray(v) for t, v in self.a.feeds.items()}
        outputs = [t for t in self.a.outputs if t not in fed]
        if all(_same_bits(self.a.alone(t), self.b.alone(self._twin(t))) for t in outputs):
            return
        region = _Region(ops, list(fed))
        carried = self.errors(ops, fed) if len(ops) == len(self.a.order) and \
            self._one_by_one(region) else None
        for point in self.a.points if carried is not None else ():
            if point.tensor not in carried or point.tensor in fed or point.type == "Const":
                continue
            difference = Difference(point.name, point.node, point.type, _line(point.tensor.op))
            error = carried[point.tensor][1]
            mine = self.a.alone(point.tensor)
            _measure(difference, mine, self.b.alone(self._twin(point.tensor)),
                     np.float64(0) if self.exact or error is None else error * _CARRIED)
            difference.notes = ["the ops agree one by one; the rewritten plan of this tensor does "
                                "not"]
            if difference.error > 1:
                report.found = difference
                return

    def _twin(self, tensor):
        return self.b.graph.get_tensor_by_name(tensor.name)


def _is_constant(tensor):
    """Whether it is a constant, perhaps behind identities; a point without a tensor is one."""
    op = getattr(tensor, "op", None)
    while op is not None and op.type == "Identity":
        op = op.inputs[0].op
    return op is None or op.type == "Const"


class _Region:
    """Operations, inputs first, and the known tensors that they read."""

    def __init__(self, ops, frontier):
        self.ops, self.frontier = ops, frontier


class _Names:
    """B's name for a name of A: the same, without `:0`, or with other characters for / and :."""

    def __init__(self, source):
        self._names = {}
        names = [p.name for p in source.points]
        for form in (_same, lambda n: n.removesuffix(":0"), _plain):
            made = {}
            for name in names if form is _same else _firsts(names):
                made.setdefault(form(name), set()).add(name)
            for key, of in made.items():
                if len(of) == 1:
                    self._names.setdefault(key, next(iter(of)))

    def of(self, name):
        """B's name, or None."""
        for form in (name, *((name.removesuffix(":0"), _plain(name)) if _firsts([name]) else ())):
            if form in self._names:
                return self._names[form]
        return None


def _same(name):
    return name


def _firsts(names):
    """Names but those of second and later outputs, which only an equal name means."""
    return [name for name in names if not re.search(r":[1-9]\d*$", name)]


def _plain(name):
    return re.sub(r"[^A-Za-z0-9]+", "_", name.removesuffix(":0")).strip("_").lower()


# ---------------------------------------------------------------- arrays
def _laid_out(found, mine, turned=False):
    """B's array in A's order of axes: as it is, or where it has another shape, or may be `turned`,
    with the channels (axis 1) last, or back, whichever is the nearest.  As it is, if no shape
    fits."""
    found, mine = np.asarray(found), np.asarray(mine)
    candidates = [found] if found.shape == mine.shape else []
    if found.ndim == mine.ndim > 2 and (turned or not candidates):
        candidates += [moved for moved in (np.moveaxis(found, 1, -1), np.moveaxis(found, -1, 1))
                       if moved.shape == mine.shape]
    if len(candidates) > 1 and "U" not in found.dtype.kind + mine.dtype.kind:
        return min(candidates, key=lambda array: _distance(array, mine))
    return candidates[0] if candidates else found


def _aligned(found, mine):
    """The same with A's type; None if no shape fits."""
    found, mine = _laid_out(found, mine), np.asarray(mine)
    if found.shape != mine.shape or mine.dtype.kind in "OSU" or found.dtype.kind in "OSU":
        return found if found.shape == mine.shape else None
    with np.errstate(all="ignore"):
        return found.astype(mine.dtype, copy=False)


def _distance(a, b):
    from pyflow.tools import rounding
    if "O" in a.dtype.kind + b.dtype.kind:
        return 0.0
    with np.errstate(all="ignore"):
        return np.nansum(np.abs(rounding.wide(a) - rounding.wide(b)))


def _as_weight(mine, found):
    """B's array of a constant in A's layout, as far as it is one of those known here."""
    if mine.size != found.size or mine.shape == found.shape:
        return found
    if [n for n in mine.shape if n != 1] == [n for n in found.shape if n != 1]:
        return found.reshape(mine.shape)
    for axes in _LAYOUTS:
        if len(axes) == mine.ndim:
            turned = mine.transpose(axes).shape
            if turned == found.shape or axes == _DEPTHWISE and found.ndim == 4 and \
                    found.shape == (turned[0] * turned[1], 1, *turned[2:]):
                return found.reshape(turned).transpose(np.argsort(axes))
    return found


def _same_bits(mine, aligned):
    if mine.dtype.kind in "OSU" or aligned.dtype.kind in "OSU":
        return _texts(mine) == _texts(aligned)
    return mine.dtype == aligned.dtype and mine.shape == aligned.shape and \
        np.ascontiguousarray(mine).tobytes() == np.ascontiguousarray(aligned).tobytes()


def _texts(array):
    return [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else str(v)
            for v in np.asarray(array).ravel()]


def _far(outputs):
    """The bound of what cannot be run again."""
    from pyflow.tools import rounding
    return rounding.default([], outputs, lambda *_: None)


def _measure(difference, wanted, found, bound):
    """Fills in how far `found` is from `wanted`, in bounds."""
    from pyflow.tools import rounding
    wanted, found = np.asarray(wanted), np.asarray(found)
    difference.size = wanted.size
    aligned = _aligned(found, wanted)
    if aligned is None:
        difference.error = float("inf")
        difference.notes.append(f"shapes differ: A has {list(wanted.shape)}, B {list(found.shape)}")
        return
    if wanted.dtype.kind in "OSU" or aligned.dtype.kind in "OSU":
        unlike = np.array([a != b for a, b in zip(_texts(wanted), _texts(aligned))], bool)
        error, bound = np.where(unlike, np.inf, 0.0).reshape(wanted.shape), np.float64(0)
    else:
        coarser = rounding.eps_of(found.dtype)
        if coarser > rounding.eps_of(wanted.dtype) and rounding.is_float(wanted):
            bound = bound + coarser * np.abs(rounding.wide(wanted))
        error = _in_bounds(wanted, aligned, bound)
    difference.beyond = int(np.count_nonzero(error > 1))
    if not error.size:
        difference.error = 0.0
        return
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    difference.error, difference.index = float(error[at]), tuple(int(i) for i in at)
    difference.bound = float(np.broadcast_to(0.0 if bound is None else bound, error.shape)[at])
    difference.a, difference.b = _item(wanted[at]), _item(aligned[at])


def _in_bounds(wanted, found, bound):
    """|a - b| / bound by element; NaN agrees with NaN, an infinity with itself."""
    from pyflow.tools import rounding
    if not rounding.is_float(wanted):
        return np.where(wanted != found, np.inf, 0.0)
    a, b = rounding.wide(wanted), rounding.wide(found)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        ratio = np.where(apart == 0, 0.0, apart / bound)
    # an infinity where the other side is about to overflow is no error of the op's
    return np.where(same, 0.0, np.where(np.isfinite(apart) & ~np.isnan(ratio), ratio, np.inf))


def _item(value):
    value = value.item() if hasattr(value, "item") else value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _line(op):
    from pyflow.tools import sources
    return sources.line_of(op)


def _structure(a, b, name):
    """How the node of this name differs in B's graph, one line each."""
    mine, theirs = a._nodes_by_name.get(name), b._nodes_by_name.get(name)
    if mine is None or theirs is None:
        return [f"B has no node {name!r}"] if mine is not None else []
    notes = []
    if mine.type != theirs.type:
        notes.append(f"op: A has {mine.type}, B {theirs.type}")
    reads = [[t.name for t in op.inputs] for op in (mine, theirs)]
    if reads[0] != reads[1]:
        notes.append(f"inputs: A has {', '.join(reads[0])}; B {', '.join(reads[1])}")
    for key in sorted(set(mine.attrs) | set(theirs.attrs)):
        values = [op.attrs.get(key) for op in (mine, theirs)]
        if key not in ("value", "_class", "_output_shapes") and str(values[0]) != str(values[1]):
            notes.append(f"attribute {key}: A has {values[0]}, B {values[1]}")
    return notes


# ---------------------------------------------------------------- the command
def main(argv):
    """Prints the first difference, or that there is none.  Returns 0, 1, or 2: see above."""
    args = _parser().parse_args(argv)
    import pyflow as tf
    from pyflow.tools import arrays, files, models, sources
    try:
        feeds = arrays.read(args.feeds, args.max_mb << 20) if args.feeds else {}
        report = compare(
            args.a, args.b, feeds, args.fetch, args.exact,
            sources.Options(args.threads_a, args.device_a, args.plan_a == "rewritten"),
            sources.Options(args.threads_b, args.device_b, args.plan_b == "rewritten"),
            files.tags_of(args.tags), args.signature)
    except (models.UnreadableModel, arrays.UnreadableArrays, OSError, ValueError, TypeError,
            KeyError, tf.OpError) as e:
        print(f"python -m pyflow compare: {e}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(dataclasses.asdict(report), default=str))
    else:
        print("\n".join(lines_of(report)))
    if not report.compared and report.found is None:
        print("python -m pyflow compare: no tensor of A has a name that B knows; `python -m pyflow "
              "dump` shows A's names", file=sys.stderr)
        return 2
    return 1 if report.found is not None else 0


def lines_of(report):
    """The Report as text."""
    found, lines = report.found, []
    if found is not None:
        lines += [f"first difference: {found.type} '{found.node}'  ({found.tensor})"]
        if found.line:
            lines.append(f"  made at {found.line}")
        if found.index or found.a is not None:
            lines.append(f"  largest error: {found.error:.4g} bounds (of {found.bound:.3g}) at "
                         f"{list(found.index)}: A {found.a}, B {found.b}; "
                         f"{found.beyond} of {found.size} elements are beyond theirs")
        if found.inputs:
            inputs = ", ".join(f"{name} ({how})" for name, how in found.inputs)
            lines.append(f"  its inputs agree: {inputs}")
        if found.between:
            lines.append("  B does not show, before it: " + ", ".join(found.between[:8])
                         + (", ..." if len(found.between) > 8 else ""))
        lines += [f"  {note}" for note in found.notes]
    lines.append(f"{report.compared} tensors compared, {report.equal} of equal bits"
                 + (f"; largest error within its bound: {report.worst[0]:.2g} of it, "
                    f"{report.worst[1]}" if report.worst[1] else "")
                 + f"; {report.only_a} of A's and {report.only_b} of B's have no counterpart")
    if found is None:
        lines.append("no difference beyond rounding")
    return lines


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow compare",
                                     description=__doc__.split("\nHow:")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A", help="GraphDef (.pb, .pbtxt), .meta file, ONNX model or "
                                               "SavedModel folder")
    parser.add_argument("b", metavar="B", help="another, or arrays: .npz or a folder of .npy files")
    parser.add_argument("--feeds", metavar="FILE.npz", help="arrays by input name, for both")
    parser.add_argument("--fetch", action="append", default=[], metavar="TENSOR",
                        help="what has to be computed; default: the model's outputs")
    parser.add_argument("--exact", action="store_true",
                        help="asks for equal bits, as of two runs on different numbers of threads")
    for side in "ab":
        parser.add_argument(f"--threads-{side}", type=int, metavar="N", help="default: all cores")
        parser.add_argument(f"--device-{side}", metavar="DEVICE",
                            help="such as /device:GPU:0, for every node")
        parser.add_argument(f"--plan-{side}", choices=("rewritten", "plain"), default="rewritten",
                            help="plain: none of the rewrites of `explain --passes`")
    parser.add_argument("--tags", default="", help="of a SavedModel's graph; default: serve")
    parser.add_argument("--signature", help="of a SavedModel")
    parser.add_argument("--max-mb", type=int, default=16384, metavar="MB",
                        help="the most that arrays from files may take")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")
    return parser
