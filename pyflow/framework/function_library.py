"""`Library`: the functions of a graph by name, their signatures as ops, and their bodies.

    library.add(function_def)               # ValueError: another function has that name
    library.op_def("double")                # the OpDef of nodes whose op is the function
    library.body("double", attrs)           # Body: a Graph, its arguments, results and effects

Invariants
  1. A name has one definition; adding an equal one changes nothing.  Nothing is removed.
  2. `definitions` are what `as_graph_def` writes, in the order they were added, never changed.
  3. The body of an imported definition is made when first asked for: nodes of version 1, except
     calls that are recursive or marked `_noinline`.  That of a function made by a program is the
     graph in which it was traced, so that errors name its lines.

A function's graph and the graphs it is called from share one Library; it holds the Python objects
that their nodes name.  Threads: adding takes
`_lock`; definitions and bodies are read-only once they are there.
"""
import threading

from pyflow.framework import errors, held, op as op_lib, op_schema, wire
from pyflow.framework.op_attrs import FunctionName
from pyflow.framework.tensor_shape import unknown_shape

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If",
                   "StatelessIf", "Case", "StatelessCase", "MapDefun", "SymbolicGradient"))
_QUIET = frozenset(("Placeholder", "PlaceholderV2", "VarHandleOp", "ReadVariableOp", "Variable",
                    "VariableV2", "VarIsInitializedOp", "VariableShape", "ResourceGather",
                    "ResourceGatherNd", "TemporaryVariable", "IsVariableInitialized"))
PLAIN_CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
_naming = {}                # op -> names_functions

call_gradient = None        # (op, dys) -> gradients of the inputs; pyflow.gradients sets it
body_of = None              # function_import.body_of, which makes graphs; pyflow.lib sets it
gradient_body = None        # (library, name, attributes, node) -> as gradients/call_gradient.py


class Body:
    """A function as a graph: `args` and `results` are its tensors, `effects` the operations that
    run whether or not a result needs them; `names`: (argument names, result names); `imported`: its
    nodes were made of a definition, by no line of the program."""

    __slots__ = ("name", "graph", "args", "results", "effects", "names", "noinline", "imported")

    def __init__(self, name, graph, args, results, effects, names, noinline=False, imported=False):
        self.name, self.graph, self.names = name, graph, names
        self.noinline, self.imported = noinline, imported
        self.args, self.results, self.effects = list(args), list(results), list(effects)


class Library:
    """The functions of one graph, and of the functions' own graphs."""

    def __init__(self):
        self._lock = threading.RLock()
        self.definitions = {}       # name -> FunctionDef
        self.gradients = {}         # name -> its gradient function's name
        self.python = {}            # name -> what a program defined it with (lib/function/defun.py)
        self.defuns = {}            # DefinedFunction -> the Body of its trace here
        self.derived = {}           # (Body's name, saving) -> its gradient (pyflow.gradients)
        self.forwards = {}          # functions that save for a gradient -> key of `derived`
        self.held = {}              # token -> the Python object that nodes name by it (held.py)
        self._bodies = {}           # (name, attributes) -> Body
        self._op_defs = {}

    def __contains__(self, name):
        return name in self.definitions

    def check(self, function_def):
        """ValueError if another function has that name."""
        name = function_def.signature.name
        known = self.definitions.get(name)
        if known not in (None, function_def) and _bytes(known) != _bytes(function_def):
            raise ValueError(f"Cannot add function {name!r} because a different function with the "
                             f"same name already exists.")

    def add(self, function_def, body=None, python=None):
        """Adds a FunctionDef; `body`: its Body, where there is one already."""
        name = function_def.signature.name
        with self._lock:
            try:
                self.check(function_def)
            except ValueError as error:
                raise errors.InvalidArgumentError(None, None, str(error)) from None
            self.definitions.setdefault(name, function_def)
            self.held.update(held.named_by_nodes(function_def.node_def))
            if body is not None:
                self._bodies.setdefault((name, ()), body)
            if python is not None:
                self.python.setdefault(name, python)

    def hold(self, attrs):
        """Keeps the Python objects that a node's attributes name as long as the graph."""
        self.held.update(held.named_by(attrs))

    def add_gradient(self, name, gradient):
        """Says which function is the gradient of function `name`; ValueError for a second one."""
        with self._lock:
            self.check_gradient(name, gradient)
            self.gradients[name] = gradient

    def check_gradient(self, name, gradient):
        """ValueError if function `name` has another gradient function."""
        if self.gradients.get(name, gradient) != gradient:
            raise ValueError(f"Cannot assign gradient function {gradient!r} to {name!r} because it "
                             f"already has gradient function {self.gradients[name]!r}")

    def copy_to(self, other, name):
        """Adds function `name` and what it calls to another library."""
        waiting, seen = [name], set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.definitions:
                continue
            seen.add(name)
            other.add(self.definitions[name], self._bodies.get((name, ())), self.python.get(name))
            if name in self.gradients:
                other.add_gradient(name, self.gradients[name])
                waiting.append(self.gradients[name])
            waiting.extend(called_names(self.definitions[name].node_def, self.definitions))

    def op_def(self, name):
        """The OpDef of nodes that call function `name`; None if there is no such function."""
        found = self._op_defs.get(name)
        if found is None and name in self.definitions:
            found = self._op_defs[name] = op_def_of(self.definitions[name].signature)
        return found

    def find_op(self, name):
        """The OpDef of an op, or of a function where no op has the name; None: neither."""
        return op_lib.find_op(name) or self.op_def(name)

    def body(self, name, attrs=None, where=None):
        """The Body of function `name` with the attributes of a call (native values).  NotFoundError
        names `where`, the node that calls it."""
        function_def = self.definitions.get(name)
        if function_def is None:
            raise errors.NotFoundError(None, None, (
                f"Node {where!r} calls the function {name!r}, which the graph's library does not "
                f"define"))
        given = _given(function_def.signature, attrs or {})
        key = name, tuple((n, wire.encode_attr(v)) for n, v in sorted(given.items()))
        with self._lock:
            found = self._bodies.get(key)
            if found is None:
                found = self._bodies[key] = body_of(self, instance_name(key), function_def, given)
        return found

    def traced_body(self, name):
        """The Body of a function that the program made; None for others."""
        found = self._bodies.get((name, ()))
        return None if found is None or found.imported else found

    def as_bytes(self):
        """A FunctionDefLibrary; no bytes if there are no functions."""
        if not self.definitions and not self.gradients:
            return b""
        from pyflow.framework import protos, written_messages
        found = protos.FunctionDefLibrary()
        found.function.extend(map(written_messages.function_of, self.definitions.values()))
        for name, gradient in self.gradients.items():
            found.gradient.add(function_name=name, gradient_func=gradient)
        return found.SerializeToString(deterministic=True)


def _bytes(function_def):
    return function_def.SerializeToString(deterministic=True)


def _given(signature, attrs):
    """Of a call's attributes those that the signature has."""
    return {a.name: attrs[a.name] for a in signature.attr if a.name in attrs}


def instance_name(key):
    """What a plan calls a function with these attributes."""
    name, attrs = key
    if not attrs:
        return name
    import hashlib
    return f"{name}_{hashlib.sha256(repr(attrs).encode()).hexdigest()[:12]}"


# ------------------------------------------------------------------------------------------- calls


def is_call(op_type, names):
    """True for an op that calls one of `names` (of functions), or a function it names."""
    return op_type in CALLS or (op_type in names and op_lib.find_op(op_type) is None)


def names_functions(op_type):
    """True for an op with an attribute of kind func: those of CALLS, and ops of plugins whose
    kernels call functions."""
    found = _naming.get(op_type)
    if found is None:
        op_def = op_lib.find_op(op_type)
        if op_def is None:
            return False
        found = _naming[op_type] = op_type in CALLS or any(
            a.kind in ("func", "list(func)") for a in op_def.attrs.values())
    return found


def called_names(nodes, names):
    """Names of the functions that NodeDefs call."""
    found = []
    for node in nodes:
        if node.op in names and op_lib.find_op(node.op) is None:
            found.append(node.op)
        for value in node.attr.values():
            if value.HasField("func"):
                found.append(value.func.name)
            found.extend(f.name for f in value.list.func)
    return found


def recursive_names(definitions):
    """The functions that call themselves, directly or through others (Tarjan's components)."""
    calls = {name: [c for c in dict.fromkeys(called_names(f.node_def, definitions))
                    if c in definitions] for name, f in definitions.items()}
    order, low, stack, inside, found = {}, {}, [], set(), set()
    for start in calls:
        if start in order:
            continue
        work = [(start, iter(calls[start]))]
        order[start] = low[start] = len(order)
        stack.append(start)
        inside.add(start)
        while work:
            name, following = work[-1]
            for called in following:
                if called not in order:
                    order[called] = low[called] = len(order)
                    stack.append(called)
                    inside.add(called)
                    work.append((called, iter(calls[called])))
                    break
                if called in inside:
                    low[name] = min(low[name], order[called])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    found.update(_component(stack, inside, name, calls))
    return found


def _component(stack, inside, name, calls):
    """Takes the component of `name` off the stack; its members if they are in a circle."""
    members = []
    while True:
        member = stack.pop()
        inside.discard(member)
        members.append(member)
        if member == name:
            return members if len(members) > 1 or name in calls[name] else ()


def effects_of(graph, args, held=()):
    """The Operations of a body that always run: `held`, and what changes or tells something."""
    ends = {t.op for t in args}
    found = dict.fromkeys(held)
    found.update(dict.fromkeys(op for op in graph.get_operations()
                               if op not in ends and has_effect(op)))
    return list(found)


def has_effect(op):
    """True for an Operation whose running can be told from its not running."""
    return tells(op.op_def)


def tells(op_def):
    """The same of any node of an op."""
    return op_def.stateful and op_def.name not in _QUIET and not (
        op_def.module or "").startswith("pyflow.ops.random.")


def function_refs(attrs):
    """[(attribute, position or None, FunctionName)] of a node's native attributes."""
    found = []
    for key, value in attrs.items():
        if isinstance(value, FunctionName):
            found.append((key, None, value))
        elif isinstance(value, list):
            found.extend((key, i, v) for i, v in enumerate(value) if isinstance(v, FunctionName))
    return found


# -------------------------------------------------------------------------------------- signatures


def op_def_of(signature):
    """The OpDef of a function's signature; ValueError if the signature is malformed."""
    inputs = [_argument(signature, a) for a in signature.input_arg]
    outputs = [_argument(signature, a) for a in signature.output_arg]
    attrs = {a.name: _attribute(signature, a) for a in signature.attr}
    for arg in inputs + outputs:
        for name, kind in ((arg.type_attr, "type"), (arg.number_attr, "int"),
                           (arg.type_list_attr, "list(type)")):
            if name is not None and (name not in attrs or attrs[name].kind != kind):
                raise ValueError(f"Function {signature.name!r}: argument {arg.name!r} needs an "
                                 f"attr {name!r} of kind {kind}")

    def shape(op):
        return [unknown_shape()] * len(op.outputs)

    def gradient(op, *dys):
        return call_gradient(op, dys)

    parts = {"shape": shape, "gradient": gradient, "reference": None, "samples": [],
             "is_function": True}
    return op_lib.OpDef(signature.name, lambda: (inputs, outputs, attrs), signature.is_stateful,
                        signature.description, parts)


def _argument(signature, arg):
    from pyflow.framework import dtypes
    try:
        dtype = dtypes.as_dtype(arg.type) if arg.type else None
    except TypeError as error:
        raise ValueError(f"Function {signature.name!r}: argument {arg.name!r}: {error}") from None
    found = op_schema.ArgDef(arg.name, dtype, arg.type_attr or None, arg.number_attr or None,
                             arg.type_list_attr or None, arg.is_ref)
    if dtype is None and not arg.type_attr and not arg.type_list_attr:
        raise ValueError(f"Function {signature.name!r}: argument {arg.name!r} has no type")
    return found


def _attribute(signature, attr):
    kind = attr.type[5:-1] if attr.type.startswith("list(") else attr.type
    if kind not in op_schema.KINDS:
        raise ValueError(f"Function {signature.name!r}: attr {attr.name!r} is of kind "
                         f"{attr.type!r}, expected one of {', '.join(sorted(op_schema.KINDS))}")
    default = op_schema.NO_DEFAULT
    if attr.HasField("default_value"):
        default = wire.from_attr_value(attr.default_value)
    return op_schema.AttrDef(attr.name, attr.type, default, None,
                             attr.minimum if attr.has_minimum else None)


def is_function(op):
    """True for an Operation whose op is a function."""
    return getattr(op.op_def, "is_function", False)
