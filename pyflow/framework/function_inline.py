"""Functions of a GraphDef's library, inlined: calls become nodes, all that can be.

    flat = Inliner(graph_def, kept=()).run()     # [FlatNode], in the file's order; None: no calls

A call is PartitionedCall, StatefulPartitionedCall, While, If, Case (and Stateless...), or a node
whose op is a function of the library.  Calls of functions that call themselves, directly or not,
calls marked `_noinline`, and calls of functions that bring their gradient stay, as do MapDefun and
SymbolicGradient.  The body of another call `c` becomes nodes `c/...`;
function_lower.py makes loops and branches of version 1 of the others (`c/body/...`, `c/then/...`).
A node named `c` stays, an identity of the results: it can be fetched and waited for.

Invariants
  1. Nothing is trusted: a call of a function that is not there, of another arity, deeper than
     MAX_DEPTH or into more than MAX_NODES nodes, MAX_EDGES inputs and results or MAX_TEXT letters
     of names is an error before any node is added. The work is linear in these.
  2. A body's nodes without inputs, or with loop invariants alone, wait for the scope's `pivot`, so
     that they run in the loop or branch they stand in, once an iteration; what a call waits for,
     its body waits for.
  3. Who waits for a call waits for the body's effects (control_ret).
  4. The messages given are read, never changed; large constants are not copied.

Threads: a pure function of the message.  Source: TF's function inlining and lowering of functional
control flow.
"""

from pyflow.framework import errors
from pyflow.framework.function_library import (
    CALLS, PLAIN_CALLS, is_call, recursive_names, tells)
from pyflow.framework.op import find_op

MAX_NODES = 200_000
MAX_EDGES = 1_000_000
MAX_TEXT = 100_000_000
MAX_DEPTH = 100
_FLOW = frozenset(("Switch", "RefSwitch", "Enter", "RefEnter", "_SwitchN"))
LOWERED = CALLS - {"MapDefun", "SymbolicGradient"}


class FlatNode:
    """A node to be added: `inputs` as in a NodeDef; `attr` maps names to AttrValues (or native
    values, for nodes the lowering makes); `context`: the function_lower.Context it stands in."""

    __slots__ = ("name", "op", "inputs", "attr", "device", "context")

    def __init__(self, name, op, inputs, attr, device, context):
        self.name, self.op, self.inputs = name, op, inputs
        self.attr, self.device, self.context = attr, device, context


def flat_graph_def(graph_def):
    """The GraphDef without calls; the one given if it has none.  Errors as `Inliner.run`."""
    flat = Inliner(graph_def).run()
    if flat is None:
        return graph_def
    from pyflow.framework import protos, wire
    result = protos.GraphDef()
    result.versions.CopyFrom(graph_def.versions)
    for node in flat:
        made = result.node.add(name=node.name, op=node.op, device=node.device)
        made.input.extend(node.inputs)
        for key, value in node.attr.items():
            if not hasattr(value, "WhichOneof"):
                value = protos.AttrValue.FromString(wire.encode_attr(value))
            made.attr[key].CopyFrom(value)
    return result


class Function:
    """A FunctionDef, with what one call's attributes make of it."""

    def __init__(self, proto, attrs):
        self.name = proto.signature.name
        self.proto = proto
        self.attrs = attrs
        self.args = []                      # (name, position among the flat arguments or None)
        for arg in proto.signature.input_arg:
            for i in range(self._count(arg)):
                self.args.append((arg.name, i))
        self.results = [(arg.name, i) for arg in proto.signature.output_arg
                        for i in range(self._count(arg))]

    def _count(self, arg):
        if arg.number_attr:
            count = self._attr(arg.number_attr).i
        elif arg.type_list_attr:
            count = len(self._attr(arg.type_list_attr).list.type)
        else:
            return 1
        if not 0 <= count <= MAX_NODES:
            raise ValueError(f"Function {self.name!r}: argument {arg.name!r} has {count} tensors")
        return count

    def types_of(self, arg):
        """The DataType numbers of an argument's tensors."""
        if arg.type_list_attr:
            return list(self._attr(arg.type_list_attr).list.type)
        dtype = self._attr(arg.type_attr).type if arg.type_attr else arg.type
        return [dtype] * self._count(arg)

    def _attr(self, name):
        if name not in self.attrs:
            raise ValueError(f"Function {self.name!r} is called without its attr {name!r}")
        return self.attrs[name]

    def attr_of(self, value):
        """An attribute of a body's node, its placeholder filled in."""
        kind = value.WhichOneof("value")
        if kind == "placeholder":
            return self._attr(value.placeholder)
        if kind == "func" and any(v.WhichOneof("value") == "placeholder"
                                  for v in value.func.attr.values()):
            filled = type(value)()
            filled.func.name = value.func.name
            for key, inner in value.func.attr.items():
                filled.func.attr[key].CopyFrom(self.attr_of(inner))
            return filled
        return value


class Scope:
    """Where a body is put: `prefix` of its names, what stands for its arguments, what its nodes
    without inputs wait for, and the calls around it."""

    def __init__(self, prefix, function, args, pivot, device, chain):
        self.prefix, self.function, self.pivot = prefix, function, list(pivot)
        self.device, self.chain = device, chain
        self.args = dict(zip(function.args, args)) if function is not None else {}
        self.has_flow = False               # nodes of version 1's loops and branches
        self.names = {}                     # names in the body -> names in the graph
        self.protos = {}
        self._attrs = {}

    def attrs(self, node):
        """The attributes of a body's node, placeholders filled in."""
        found = self._attrs.get(node.name)
        if found is None:
            found = self._attrs[node.name] = {
                key: self.function.attr_of(value) for key, value in node.attr.items()}
        return found


class Inliner:
    """One graph.  `kept`: names of nodes whose outputs are read through the node itself; `known`:
    functions ({name: FunctionDef}) besides those of the file."""

    def __init__(self, graph_def, kept=(), known=None, differentiable=()):
        self.graph_def = graph_def
        self.kept = frozenset(kept)
        self.library = {**(known or {}),
                        **{f.signature.name: f for f in graph_def.library.function}}
        self.differentiable = frozenset(differentiable)     # functions with gradients of their own
        self._recursive = None              # names of functions that call themselves
        self.flat = []
        self.used = {node.name for node in graph_def.node}
        self.edges = self.text = 0          # of MAX_EDGES, MAX_TEXT
        self.results = {}                   # (call's name, output) -> the input that stands for it
        self.fixed = set()                  # loop invariants, by their constant Enters
        self.context = None                 # of the nodes being added
        self.contexts = []                  # all, outer before inner

    def run(self):
        """[FlatNode], or None if nothing is called.  ValueError, InvalidArgumentError,
        NotFoundError or ResourceExhaustedError for what cannot be inlined."""
        if not any(is_call(node.op, self.library) for node in self.graph_def.node):
            return None
        self._check_size(self._size(self.graph_def.node, {}, ()))
        root = Scope("", None, (), (), "", ())
        for node in self.graph_def.node:
            root.names[node.name] = node.name
            root.has_flow |= node.op in _FLOW
        for node in self.graph_def.node:
            self.add(root, node, list(node.input))
        for node in self.flat:
            node.inputs = self.resolved(node)
        return self.flat

    def run_body(self, function, args):
        """The nodes of a function's body, as `run`: (flat nodes, its results, its control results);
        args: FlatNodes of its arguments, which come first."""
        self._check_size(self._size(function.proto.node_def, {}, ()))
        for arg in args:
            self.emit(self.unique(arg.name), arg.op, [], arg.attr, "")
        results, controls = self.body(function, "", [node.name for node in self.flat], (), "", (),
                                      function.name)
        for node in self.flat:
            node.inputs = self.resolved(node)
        return self.flat, [self._source("result", text) for text in results], controls

    def _size(self, nodes, known, chain):
        """About how many nodes there will be; linear, each function is counted once."""
        total = len(nodes)
        for node in nodes:
            if not is_call(node.op, self.library):
                continue
            for name in _called(node):
                if name not in known and name in self.library:
                    if len(chain) >= MAX_DEPTH:
                        raise _too_deep(node.name)
                    known[name] = 0                 # a recursion is found when it is inlined
                    known[name] = self._size(self.library[name].node_def, known, chain + (name,))
                total += known.get(name, 0)
        return total

    @staticmethod
    def _check_size(count):
        if count > MAX_NODES:
            raise errors.ResourceExhaustedError(None, None, (
                f"The graph's functions, inlined, are more than {MAX_NODES:,} nodes"))

    def _count_edges(self, count):
        self.edges += count
        if self.edges > MAX_EDGES:
            raise errors.ResourceExhaustedError(None, None, (
                f"The graph's functions, inlined, have more than {MAX_EDGES:,} inputs and results"))

    # ------------------------------------------------------------------------------- bodies
    def add(self, scope, node, inputs):
        """A node of the file or of a body, its inputs already those of the graph."""
        name = scope.names[node.name]
        attr = self._attrs(scope, node)
        device = node.device or scope.device
        if all(text in self.fixed for text in inputs):
            inputs = inputs + [text for text in scope.pivot if text not in inputs]
        if self.is_inlined(node.op, attr, scope):
            self._call(scope, name, node.op, inputs, attr, device)
            return
        if is_call(node.op, self.library):
            self._check_call(name, node.op, inputs, attr)
        self.emit(name, node.op, inputs, attr, device)

    def is_inlined(self, op, attr, scope):
        """True for calls, except of recursive functions and those with a gradient of their own,
        where `_noinline` says no, and plain ones beside control flow of version 1: nobody says which loop or branch these stand in."""
        if op in CALLS and op not in LOWERED or not is_call(op, self.library):
            return False
        called = _called_by(op, attr)
        if any(name in self.recursive for name in called):
            return False
        if op in LOWERED - PLAIN_CALLS:
            return True
        if not self.differentiable.isdisjoint(called):
            return False
        return not scope.has_flow and not any(_flag(holder, "_noinline") for holder in
                       [attr, *(self.library[name].attr for name in called
                                if name in self.library)])

    @property
    def recursive(self):
        if self._recursive is None:
            self._recursive = recursive_names(self.library)
        return self._recursive

    def _check_call(self, name, op, inputs, attr):
        """A call that stays: its functions are there."""
        for called in _called_by(op, attr):
            if called not in self.library:
                raise errors.NotFoundError(None, None, (
                    f"Node {name!r} calls the function {called!r}, which the graph's library does "
                    f"not define"))

    def emit(self, name, op, inputs, attr, device):
        self._check_size(len(self.flat))
        self._count_edges(len(inputs))
        self.flat.append(FlatNode(name, op, inputs, attr, device, self.context))
        return name

    def unique(self, name):
        found, count = name, 0
        while found in self.used:
            count += 1
            found = f"{name}_{count}"
        self.used.add(found)
        self.text += len(found)
        if self.text > MAX_TEXT:
            raise errors.ResourceExhaustedError(None, None, (
                f"The graph's functions, inlined, have names of more than {MAX_TEXT:,} letters"))
        return found

    def _attrs(self, scope, node):
        if scope.function is None:
            return node.attr
        attr = scope.attrs(node)
        if node.op in ("Enter", "RefEnter") and "frame_name" in attr:   # one frame for each call
            name = attr["frame_name"].s.decode(errors="replace")
            attr = dict(attr, frame_name=scope.prefix + name)
        if "_class" in attr:
            groups = [self._group(scope, g.decode(errors="replace")) for g in attr["_class"].list.s]
            attr = dict(attr, _class=[group for group in groups if group is not None])
        return attr

    @staticmethod
    def _group(scope, group):
        """A colocation group in the graph's names; None where it names no node of the body."""
        if not group.startswith("loc:@"):
            return group
        inside = scope.names.get(group[5:])
        return f"loc:@{inside}" if inside is not None else None

    def function(self, ref, chain, where):
        """The Function that a func attribute (NameAttrList) names."""
        proto = self.library.get(ref.name)
        if proto is None:
            raise errors.NotFoundError(None, None, (
                f"Node {where!r} calls the function {ref.name!r}, which the graph's library does "
                f"not define"))
        if len(chain) >= MAX_DEPTH:
            raise _too_deep(where)
        return Function(proto, ref.attr)

    def body(self, function, prefix, args, pivot, device, chain, where):
        """Adds the nodes of a function. Returns (results, control results), inputs for others."""
        if len(args) != len(function.args):
            raise ValueError(f"Node {where!r} calls the function {function.name!r} with "
                             f"{len(args)} arguments, it has {len(function.args)}")
        scope = Scope(prefix, function, args, pivot, device, chain + (function.name,))
        for node in function.proto.node_def:
            if node.name in scope.names:
                raise ValueError(f"Function {function.name!r}: node {node.name!r} is not unique")
            scope.names[node.name] = self.unique(prefix + node.name)
            scope.has_flow |= node.op in _FLOW
            scope.protos[node.name] = node
        for node in function.proto.node_def:
            self.add(scope, node, [self._input(scope, node.name, text) for text in node.input])
        results = [self._input(scope, f"result {name}", self._result(function, name, i))
                   for name, i in function.results]
        effects = function.proto.control_ret.values() or self._effects(function.proto)
        controls = ["^" + scope.names[name] for name in effects if name in scope.names]
        return results, controls

    def _effects(self, proto):
        """The nodes of a function that says nothing of its effects (TensorFlow 1's say nothing)
        which run whether or not a result needs them."""
        if not proto.signature.is_stateful:
            return []
        found = []
        for node in proto.node_def:
            op_def = find_op(node.op)
            called = self.library.get(node.op) if op_def is None else None
            if tells(op_def) if op_def is not None else \
                    called is not None and called.signature.is_stateful:
                found.append(node.name)
        return found

    @staticmethod
    def _result(function, name, index):
        text = function.proto.ret.get(name)
        if text is None:
            raise ValueError(f"Function {function.name!r} says nothing of its result {name!r}")
        if index == 0:
            return text
        head, colon, last = text.rpartition(":")
        if colon and last.isdigit():            # a list result: its tensors follow each other
            return f"{head}:{int(last) + index}"
        return f"{text}:{index}"

    def _input(self, scope, node, text):
        """What `name:output:index`, `argument` or `^name` of a body is in the graph."""
        if text.startswith("^"):
            if text[1:] in scope.names:
                return "^" + scope.names[text[1:]]
            if (text[1:], 0) in scope.args:     # an argument is there when the body starts
                source = scope.args[text[1:], 0]
                return "^" + source.partition(":")[0]
            raise self._unknown(scope, node, text)
        parts = text.split(":")
        if len(parts) > 3 or not all(p.isdigit() and len(p) < 9 for p in parts[2:]):
            raise self._unknown(scope, node, text)
        if len(parts) == 1 or (len(parts) == 2 and parts[1].isdigit()):
            found = scope.args.get((parts[0], int(parts[1]) if len(parts) == 2 else 0))
            if found is not None:
                return found
        source = scope.protos.get(parts[0])
        if source is None:
            raise self._unknown(scope, node, text)
        name = scope.names[parts[0]]
        if len(parts) == 1 or parts[1].isdigit():
            return f"{name}:{parts[1]}" if len(parts) == 2 else name
        first = self._first_output(scope, source, parts[1])
        if first is None:
            raise self._unknown(scope, node, text)
        return f"{name}:{first + (int(parts[2]) if len(parts) == 3 else 0)}"

    @staticmethod
    def _unknown(scope, node, text):
        return ValueError(f"Function {scope.function.name!r}: node {node!r} reads {text!r}, which "
                          f"is neither an argument nor an output of a node of its body")

    def _first_output(self, scope, node, output):
        """The number of the first tensor of a node's output argument; None: no such."""
        attr = scope.attrs(node)
        if is_call(node.op, self.library) and node.op not in CALLS:
            called = Function(self.library[node.op], attr)
            return called.results.index((output, 0)) if (output, 0) in called.results else None
        if node.op in CALLS:
            return 0 if output == "output" else None
        op_def = find_op(node.op)
        if op_def is None:
            return 0                        # the importer lists the missing op
        first = 0
        for arg in op_def.outputs:
            if arg.name == output:
                return first
            first += _tensors(op_def, arg, attr)
        return None

    # -------------------------------------------------------------------------------- calls
    def _call(self, scope, name, op, inputs, attr, device):
        from pyflow.framework import function_lower
        self._count_edges(len(inputs))
        data = [text for text in inputs if not text.startswith("^")]
        call = function_lower.Call(name, op, data, inputs[len(data):], attr, device,
                                   scope.pivot, scope.chain)
        if op in ("While", "StatelessWhile"):
            outputs, effects = function_lower.lower_while(self, call)
        elif op in ("If", "StatelessIf"):
            outputs, effects = function_lower.lower_if(self, call)
        elif op in ("Case", "StatelessCase"):
            outputs, effects = function_lower.lower_case(self, call)
        else:
            outputs, effects = self._inline(call)
        self._count_edges(len(outputs))
        for i, source in enumerate(outputs):
            self.results[name, i] = source
        self._stand_in(call, outputs, effects)

    def _inline(self, call):
        """A plain call: the body's nodes, and what stands for the results."""
        if call.op in CALLS:
            function = self.function(call.func("f"), call.chain, call.name)
        else:
            from pyflow.framework import protos
            ref = protos.NameAttrList(name=call.op)
            for key, value in call.attr.items():
                if key in {a.name for a in self.library[call.op].signature.attr}:
                    ref.attr[key].CopyFrom(value)
            function = self.function(ref, call.chain, call.name)
        args = call.data
        if call.controls:                   # what the call waits for, everything inside waits for
            args = [self.emit(self.unique(f"{call.name}/input"), "Identity", [x] + call.controls,
                              {}, call.device) for x in args]
        outputs, effects = self.body(function, call.name + "/", args, call.pivot + call.controls,
                                     call.device, call.chain, call.name)
        return outputs, effects or call.controls

    def _stand_in(self, call, outputs, effects):
        """The node with the call's name."""
        inputs = list(outputs) + list(effects)
        op = "NoOp" if not outputs else "Identity" if len(outputs) == 1 else "IdentityN"
        self.emit(call.name, op, inputs or list(call.pivot), {}, call.device)

    # -------------------------------------------------------------------------------- edges
    def resolved(self, node):
        """The inputs of a flat node, calls' outputs replaced by what gives them."""
        data = [self._source(node.name, t) for t in node.inputs if not t.startswith("^")]
        return data + list(dict.fromkeys(t for t in node.inputs if t.startswith("^")))

    def _source(self, reader, text):
        """What gives the tensor; every result on the way knows it from now on."""
        passed = set()
        while True:
            name, colon, index = text.rpartition(":")
            key = (name, int(index)) if colon and index.isdigit() and len(index) < 10 else (text, 0)
            following = self.results.get(key)
            if following is None or key[0] in self.kept:
                break
            if key in passed:
                raise ValueError(f"Node {reader!r}: its input {text!r} is a result that only "
                                 f"depends on itself")
            passed.add(key)
            text = following
        for key in passed:
            self.results[key] = text
        return text


def _too_deep(node):
    return errors.ResourceExhaustedError(None, None, (
        f"Node {node!r}: functions call each other more than {MAX_DEPTH} deep"))


def _called(node):
    """Names of the functions a call names."""
    return _called_by(node.op, node.attr)


def _called_by(op, attr):
    if op not in CALLS:
        return [op]
    values = [value for value in attr.values() if hasattr(value, "WhichOneof")]
    found = [value.func.name for value in values if value.WhichOneof("value") == "func"]
    return found + [f.name for value in values for f in value.list.func]


def _flag(attr, name):
    return name in attr and attr[name].b


def _tensors(op_def, arg, attr):
    """How many tensors an output argument is, from a node's AttrValues."""
    if arg.number_attr:
        value = attr.get(arg.number_attr)
        return value.i if value is not None else op_def.attrs[arg.number_attr].default or 0
    if arg.type_list_attr:
        value = attr.get(arg.type_list_attr)
        return len(value.list.type) if value is not None else 0
    return 1
