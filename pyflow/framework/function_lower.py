"""While, If and Case, lowered to control flow of version 1, as TF's lower_functional_ops does.

    While:  x -> Enter -> Merge -> Switch --false--> Exit      names: W/cond/..., W/body/...
                            ^         `--true--> Identity -> body -> NextIteration -> Merge
    If:     x -> Switch -> branch -> Merge                     names: I/then/..., I/else/...
    Case:   x -> _SwitchN -> branch -> Merge                   names: C/branch0/..., C/branch1/...

Invariants
  1. What a body returns as it got it is a loop invariant: a constant Enter, and its result is what
     went in.
  2. Effects of a body happen before its NextIteration; those of a branch before whoever waits for
     the conditional.
  3. Nodes are emitted with the Context they stand in. The importer has `make_contexts` give the
     graph's objects for them (lib/control_flow/imported_contexts.py), so that tf.gradients goes
     through.

Threads: those of the Inliner.
"""

from pyflow.framework import dtypes, errors
from pyflow.framework.tensor_shape import TensorShape

# (graph, [Context], {Operation: Context}, function: input of the file -> Tensor); ops/ sets it
make_contexts = None
_NUMBERS = 1, 2, 3, 4, 5, 6, 9, 14, 17, 19, 22, 23      # types Cast makes a bool of


class Context:
    """A loop ("while") or a branch ("cond", "case") in terms of names: what its object in ops/ will
    hold.

    `facts`: enters, exits, pred, pivots; `constants`: (outside, its constant Enter or Switch)."""

    def __init__(self, kind, name, outer):
        self.kind, self.name, self.outer = kind, name, outer
        self.facts = {}
        self.constants = []


class Call:
    """A node that calls functions: data and control inputs, attributes, and where it stands."""

    def __init__(self, name, op, data, controls, attr, device, pivot, chain):
        self.name, self.op, self.data, self.controls = name, op, data, controls
        self.attr, self.device, self.pivot, self.chain = attr, device, pivot, chain

    def func(self, key):
        """The NameAttrList of a func attribute."""
        value = self.attr.get(key)
        if value is None or value.WhichOneof("value") != "func":
            raise ValueError(f"Node {self.name!r} ({self.op}) has no function in its attr {key!r}")
        return value.func

    def number(self, key, default):
        value = self.attr.get(key)
        return value.i if value is not None else default

    def shapes(self, count):
        """The TensorShapes of attr output_shapes, or None where it does not say `count` of them."""
        value = self.attr.get("output_shapes")
        found = value.list.shape if value is not None else ()
        return [_shape(s) for s in found] if len(found) == count and count else None


def _shape(proto):
    if proto.unknown_rank:
        return TensorShape(None)
    return TensorShape([d.size if d.size >= 0 else None for d in proto.dim])


def _numbered(name, index):
    return f"{name}_{index}" if index else name


class _Emitter:
    """Emits nodes beside one call."""

    def __init__(self, inliner, call):
        self.inliner, self.call = inliner, call

    def __call__(self, name, op, inputs, **attrs):
        found = self.inliner.unique(f"{self.call.name}/{name}")
        return self.inliner.emit(found, op, inputs, attrs, self.call.device)

    def function(self, ref, arguments, results, what):
        """The function of one part of the call, of the right arity."""
        call = self.call
        found = self.inliner.function(ref, call.chain, call.name)
        for kind, wanted, has in (("arguments", arguments, found.args),
                                  ("results", results, found.results)):
            if wanted is not None and len(has) != wanted:
                raise ValueError(f"Node {call.name!r} ({call.op}): its {what} {found.name!r} has "
                                 f"{len(has)} {kind}, expected {wanted}")
        return found

    def body(self, function, prefix, args, pivot):
        call = self.call
        return self.inliner.body(function, f"{call.name}/{prefix}/", args, pivot, call.device,
                                 call.chain, call.name)


class _inside:
    """`with _inside(inliner, context)`: what is emitted stands in `context`."""

    def __init__(self, inliner, context):
        self.inliner, self.context = inliner, context
        self.outer = inliner.context

    def __enter__(self):
        self.inliner.context = self.context
        return self.context

    def __exit__(self, *unused):
        self.inliner.context = self.outer


def _new_context(inliner, kind, name):
    context = Context(kind, name, inliner.context)
    inliner.contexts.append(context)
    return context


# ------------------------------------------------------------------------------------------- While


def lower_while(inliner, call):
    """(results, effects) of a While or StatelessWhile."""
    count = len(call.data)
    if not count:
        raise ValueError(f"Node {call.name!r} ({call.op}) has no loop variables")
    emit = _Emitter(inliner, call)
    cond = emit.function(call.func("cond"), count, 1, "condition")
    body = emit.function(call.func("body"), count, count, "body")
    constant = _invariants(inliner, body)
    controls = call.controls and ["^" + emit("LoopControlInputs", "NoOp", list(call.controls))]
    with _inside(inliner, _new_context(inliner, "while", call.name)) as context:
        enters = [emit(_numbered("Enter", i), "Enter", [x] + controls, frame_name=call.name,
                       is_constant=constant[i],
                       parallel_iterations=call.number("parallel_iterations", 10))
                  for i, x in enumerate(call.data)]
        inliner.fixed.update(enters[i] for i in range(count) if constant[i])
        exits = _lower_loop(inliner, emit, call, (cond, body), enters, constant, context)
    context.constants = [(x, enters[i]) for i, x in enumerate(call.data) if constant[i]]
    results = [x if constant[i] else exits[i] for i, x in enumerate(call.data)]
    return results, []


def _invariants(inliner, body):
    """Which arguments the body returns as it got them; at least one counts as varying."""
    found = []
    for i, (name, index) in enumerate(body.results):
        text = inliner._result(body, name, index)
        head, colon, last = text.rpartition(":")
        source = (head, int(last)) if colon and last.isdigit() and len(last) < 9 else (text, 0)
        found.append(source == body.args[i])
    if all(found):
        found[0] = False
    return found


def _lower_loop(inliner, emit, call, functions, enters, constant, context):
    """Everything but the Enters. Returns the Exits; of invariants None."""
    cond, body = functions
    shapes = call.shapes(len(enters)) or _argument_shapes(body)
    varying = [i for i, fixed in enumerate(constant) if not fixed]
    nexts = {i: inliner.unique(f"{call.name}/{_numbered('NextIteration', i)}") for i in varying}
    around = list(enters)
    for i in varying:
        known = {} if shapes[i] is None else {"_output_shapes": [shapes[i], TensorShape([])]}
        around[i] = emit(_numbered("Merge", i), "Merge", [enters[i], nexts[i]], **known)
    tested, effects = emit.body(cond, "cond", around, ["^" + around[varying[0]]])
    going = emit("LoopCond", "LoopCond", tested + effects)
    exits, inside = [None] * len(enters), list(enters)
    for i in varying:
        switch = emit(_numbered("Switch", i), "Switch", [around[i], going])
        exits[i] = emit(_numbered("Exit", i), "Exit", [switch])
        inside[i] = emit(_numbered("Identity", i), "Identity", [switch + ":1"])
    results, effects = emit.body(body, "body", inside, ["^" + inside[varying[0]]])
    pivot = inside[varying[0]]
    for i in varying:
        waits = ["^" + pivot] if results[i] in inliner.fixed else []    # it is there in every turn
        inliner.emit(nexts[i], "NextIteration", [results[i]] + effects + waits, {}, call.device)
    context.facts.update(
        enters=[enters[i] for i in varying], exits=[exits[i] for i in varying], pred=going,
        pivot_for_pred=around[varying[0]], pivot_for_body=pivot,
        parallel_iterations=call.number("parallel_iterations", 10))
    return exits


def _argument_shapes(body):
    """What the function says of its arguments' shapes; None where nothing."""
    found = [None] * len(body.args)
    for i, described in body.proto.arg_attr.items():
        shapes = described.attr["_output_shapes"].list.shape \
            if "_output_shapes" in described.attr else ()
        if i < len(found) and len(shapes) == 1:
            found[i] = _shape(shapes[0])
    return found


# ------------------------------------------------------------------------------------ If and Case


def lower_if(inliner, call):
    """(results, effects) of an If or StatelessIf."""
    emit = _Emitter(inliner, call)
    pred = emit("pred_id", "Identity", [_as_bool(emit, call)] + call.controls)
    args, outs = call.data[1:], None
    sides, pivot = [], emit("Switch", "Switch", [pred, pred])
    for branch, key in ((0, "else_branch"), (1, "then_branch")):
        what = key.partition("_")[0]
        function = emit.function(call.func(key), len(args), outs, key)
        outs = len(function.results)

        def choose(x, n, branch=branch, what=what):
            switch = emit(_numbered(f"{what}/Switch", n), "Switch", [x, pred])
            return f"{switch}:{branch}"
        side = pivot + (":1" if branch else "")
        sides.append(_lower_branch(inliner, emit, function, what, (args, choose, side),
                                   {"pred": pred, "branch": branch}))
    return _merged(emit, call, sides)


def _as_bool(emit, call):
    if not call.data:
        raise ValueError(f"Node {call.name!r} ({call.op}) has no condition")
    given = call.attr.get("Tcond")
    if given is None or given.type == 10:
        return call.data[0]
    if given.type in _NUMBERS:
        return emit("Cast", "Cast", [call.data[0]], DstT=dtypes.bool)
    raise errors.UnimplementedError(None, None, (
        f"Node {call.name!r} ({call.op}): a condition of type number {given.type} is not "
        f"supported, give a bool"))


def _lower_branch(inliner, emit, function, what, source, facts):
    """A branch's (results, what stands for its effects: a tensor alive when it was taken).

    source: arguments, the function that takes one inside, and a tensor alive inside. facts: of the
    context, its predicate or index and which branch this is."""
    args, choose, side = source
    kind = "case" if "count" in facts else "cond"
    with _inside(inliner, _new_context(inliner, kind, f"{emit.call.name}/{what}")) as context:
        pivot = emit(f"{what}/pivot", "Identity", [side])
        chosen = [choose(x, n) for n, x in enumerate(args)]
        results, effects = emit.body(function, what, chosen, ["^" + pivot])
        done = emit(f"{what}/done", "Identity", [pivot] + effects) if effects else None
    context.facts.update(facts, pivot=pivot)
    context.constants = list(zip(args, chosen))
    return results, pivot, done


def _merged(emit, call, sides):
    """Merge of each result; one more for the effects, if a branch has any."""
    merged = [emit(_numbered("Merge", k), "Merge", list(found))
              for k, found in enumerate(zip(*(results for results, _, _ in sides)))]
    if not any(done for _, _, done in sides):
        return merged, [] if merged else call.controls
    executed = emit("executed", "Merge", [done or pivot for _, pivot, done in sides])
    return merged, ["^" + executed]


def lower_case(inliner, call):
    """(results, effects) of a Case or StatelessCase: the last branch where the index is none."""
    branches = call.attr["branches"].list.func if "branches" in call.attr else ()
    if not branches or not call.data:
        raise ValueError(f"Node {call.name!r} ({call.op}) has no branches, or no branch index")
    emit = _Emitter(inliner, call)
    index = emit("branch_index", "Identity", [call.data[0]] + call.controls)
    args, count, outs, sides = call.data[1:], len(branches), None, []
    switches = [emit(_numbered("SwitchN", n), "_SwitchN", [x, index], num_outs=count)
                for n, x in enumerate([index] + args)]
    for k, ref in enumerate(branches):
        function = emit.function(ref, len(args), outs, f"branch {k}")
        outs = len(function.results)

        def choose(x, n, k=k):
            return f"{switches[n + 1]}:{k}"
        sides.append(_lower_branch(inliner, emit, function, f"branch{k}",
                                   (args, choose, f"{switches[0]}:{k}"),
                                   {"pred": index, "branch": k, "count": count}))
    return _merged(emit, call, sides)
