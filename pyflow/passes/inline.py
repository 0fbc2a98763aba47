"""Calls of functions become the functions' nodes; what stays a call is prepared for the core.

    c = f(a)                        c/...  the nodes of f's body, with a for its argument
    b(c), ^c                        b(c/result), ^c/done: after the results and the effects

Invariants
    1. A plain call (PartitionedCall, StatefulPartitionedCall, a function's name) goes, unless its
       function is recursive, it or its function is marked `_noinline`, or inlining is off.
    2. Who waits for a call waits for the body's results and effects; what a call waits for, the
       body's nodes wait for.
    3. Behind a Switch or an Enter a body's nodes without inputs wait for the call's inputs, so that
       they run in the call's branch and iteration.
    4. A call that stays is PartitionedCall, StatefulPartitionedCall, If, Case, While, MapDefun, or
       an op of a plugin with attributes of kind func; it names functions of `functions`:
       {name: Body}, one for each combination of attributes.

Threads: as pipeline.py.  Source: TF's inline_function_utils.
"""
from pyflow.framework import dtypes, errors, function_library
from pyflow.framework.function_library import CALLS, PLAIN_CALLS
from pyflow.framework.op_attrs import FunctionName
from pyflow.passes import node as node_lib
from pyflow.passes import pure

MAX_NODES = 1_000_000
_QUIET_ATTRS = ("_noinline", "_disable_call_shape_inference")


def inline(graph, functions, enabled=True):
    """Inlines the calls of a pass graph, in place; `functions` gets what the calls left name.

    Returns how many calls went, or None if there was none.  NotFoundError, InvalidArgumentError and
    ValueError for calls of unknown functions, or with other types than theirs."""
    if not any(_is_call(node) for node in graph.nodes):
        return None
    work = _Inlining(graph, functions, enabled)
    return work.run()


def _is_call(node):
    if function_library.names_functions(node.op):
        return True
    origin = node.origin
    return origin is not None and origin.type == node.op and function_library.is_function(origin)


class _Inlining:
    """One pass graph."""

    def __init__(self, graph, functions, enabled):
        self.graph, self.functions, self.enabled = graph, functions, enabled
        self.used = {node.name for node in graph.nodes}
        self.results = {}               # (call's node, output) -> (node, output)
        self.done = {}                  # call's node -> the node that is done when it is
        self.recursive = {}             # (Library, its size) -> names
        self.waited = {c for node in graph.nodes for c in node.controls}
        self.count = 0

    def run(self):
        inside = pure.conditional(self.graph) if self.graph.has_control_flow() else set()
        todo = self.graph.nodes[::-1]
        kept = []
        while todo:
            node = todo.pop()
            if not _is_call(node):
                kept.append(node)
                continue
            if node.op == "SymbolicGradient":
                made = self.call_of_gradient(node)
                inside.update(made if node in inside else ())
                todo.extend(reversed(made))
                continue
            body = self.body_to_inline(node)
            if body is None:
                kept.append(node)
                continue
            made, flow = self.nodes_of(node, body, node in inside)
            inside.update(made if node in inside else flow)
            todo.extend(reversed(made))
            self.count += 1
            if len(todo) + len(kept) > MAX_NODES:
                raise errors.ResourceExhaustedError(None, node.origin, (
                    f"Node {node.name!r}: the functions it calls, inlined, are more than "
                    f"{MAX_NODES:,} nodes"))
        for node in kept:
            node.inputs = [self.source(*edge) for edge in node.inputs]
            node.controls = list(dict.fromkeys(self.waited_for(c) for c in node.controls))
        self.graph.nodes = kept
        return self.count

    def source(self, node, index):
        while (node, index) in self.results:
            node, index = self.results[node, index]
        return node, index

    def waited_for(self, node):
        while node in self.done:
            node = self.done[node]
        return node

    # What a call calls

    def body_to_inline(self, node):
        """The Body to be put in the place of a call; None: it stays, prepared for the core."""
        library = _library(node)
        if node.op in PLAIN_CALLS:
            name, attrs = node.attrs["f"].name, node.attrs["f"].attrs
        elif function_library.names_functions(node.op):
            self.keep(node, library)
            return None
        else:
            name, attrs = node.op, node.attrs
        body = library.body(name, attrs, node.name)
        _check_call(node, body)
        if self.enabled and not node.attrs.get("_noinline") and not body.noinline \
                and name not in self.recursive_names(library):
            return body
        self.keep_plain(node, body)
        return None

    def recursive_names(self, library):
        key = len(library.definitions)
        found = self.recursive.get((library, key))
        if found is None:
            found = self.recursive[library, key] = function_library.recursive_names(
                library.definitions)
        return found

    def call_of_gradient(self, node):
        """The nodes in the place of a SymbolicGradient: a call of the gradient function, and zeros
        for what has no gradient."""
        library, ref = _library(node), node.attrs["f"]
        name, wanted, given = function_library.gradient_body(library, ref.name, ref.attrs,
                                                             node.name)
        count = len(node.types)
        args, dys = node.inputs[:count], node.inputs[count:]
        if wanted is None:
            wanted, given = range(count), range(len(dys))
        body = library.body(name, None, node.name)
        if len(dys) <= max(given, default=-1) or len(body.results) != len(wanted):
            raise errors.InvalidArgumentError(None, node.origin, (
                f"Node {node.name!r} (SymbolicGradient) has {len(node.inputs)} inputs and {count} "
                f"outputs, the gradient of {ref.name!r} has {len(body.args)} arguments and "
                f"{len(body.results)} results"))
        call = node_lib.Node(
            node.name, "StatefulPartitionedCall", args + [dys[i] for i in given], node.controls,
            {"f": FunctionName(name), **{k: v for k, v in node.attrs.items() if k[0] == "_"}},
            node.device, tuple(t.dtype.base_dtype for t in body.results), node.origin)
        made = [call]
        for i in range(count):
            if i in wanted:
                self.results[node, i] = call, list(wanted).index(i)
                continue
            dtype = _type(*args[i])
            made.append(node_lib.Node(self.unique(f"{node.name}/zeros_{i}"), "ZerosLike", [args[i]],
                                      (), {"T": dtype}, node.device, (dtype,), node.origin))
            self.results[node, i] = made[-1], 0
        if node in self.waited:
            self.waited.add(call)
        self.done[node] = call
        return made

    def keep(self, node, library):
        """If, Case, While, MapDefun, ops of plugins: their functions become those of the plan."""
        node.attrs = dict(node.attrs)
        for key, position, ref in function_library.function_refs(node.attrs):
            if node.op not in CALLS and ref.name not in library:
                continue                # a plugin's kernel may ask for it, and is told
            body = library.body(ref.name, ref.attrs, node.name)
            if node.op in CALLS:        # what a plugin's op calls its functions with, it knows
                _check_part(node, key, body)
            self.functions[body.name] = body
            if position is None:
                node.attrs[key] = FunctionName(body.name)
            else:
                node.attrs[key] = list(node.attrs[key])
                node.attrs[key][position] = FunctionName(body.name)

    def keep_plain(self, node, body):
        self.functions[body.name] = body
        stateful = bool(body.effects) or any(
            op.op_def.stateful for op in _ops_of(body))
        attrs = {key: value for key, value in node.attrs.items()
                 if key.startswith("_") and key not in _QUIET_ATTRS}
        attrs.update(f=FunctionName(body.name), Tin=[t.dtype.base_dtype for t in body.args],
                     Tout=[t.dtype.base_dtype for t in body.results], config="", config_proto="",
                     executor_type="")
        node.op = "StatefulPartitionedCall" if stateful else "PartitionedCall"
        node.attrs = attrs
        node.types = tuple(t.dtype.base_dtype for t in body.results)

    # Putting a body in

    def nodes_of(self, call, body, in_flow):
        """The body's nodes in the place of `call`."""
        part = node_lib.prune(body.results, body.effects, body.args)
        arg_source = dict(zip(part.args, call.inputs))
        gates = self.gates(call, in_flow)
        own = [n for n in part.nodes if n not in arg_source and n.op != "_Retval"]
        flow = pure.conditional(part) if part.has_control_flow() else set()
        renamed = {n.name: self.unique(f"{call.name}/{n.name}") for n in own}
        made = list(gates)
        for node in own:
            node.name = renamed[node.name]
            node.device = node.device or call.device
            _rename_groups(node, renamed)
            if node.op in ("Enter", "RefEnter"):
                node.attrs = dict(node.attrs, frame_name=f"{call.name}/{node.attrs['frame_name']}")
            first = all(source in arg_source for source, _ in node.inputs) and all(
                source in arg_source for source in node.controls)
            node.controls = [gates[0] if gates and c in arg_source
                             else self.source(*arg_source[c])[0] if c in arg_source else c
                             for c in node.controls]
            if first and (gates or node.op != "Const"):
                node.controls += gates or call.controls
            node.inputs = [arg_source[s] if s in arg_source else (s, i) for s, i in node.inputs]
            made.append(node)
        for i, ret in enumerate(part.rets):
            source, index = ret.inputs[0]
            if gates and source in arg_source:      # an argument, alive when the call is
                self.results[call, i] = gates[0], part.args.index(source)
            else:
                self.results[call, i] = arg_source.get(source, (source, index))
        if call in self.waited:
            made.append(self.waiting(call, part, body, arg_source, flow, gates))
        self.waited.update(c for node in made for c in node.controls)
        return made, flow

    def gates(self, call, in_flow):
        """[the node that body nodes without inputs wait for], where the call may be dead or run
        more than once."""
        if not in_flow:
            return []
        inputs = list(call.inputs)
        name = self.unique(f"{call.name}/called")
        types = tuple(_type(*edge) for edge in inputs)
        if not inputs:
            return [node_lib.Node(name, "NoOp", (), call.controls, {}, call.device, (),
                                  call.origin)]
        return [node_lib.Node(name, "IdentityN", inputs, call.controls, {"T": list(types)},
                              call.device, types, call.origin)]

    def waiting(self, call, part, body, arg_source, flow, gates):
        """The node that is done when the call is: it stands for the call in control edges."""
        sources = [ret.inputs[0][0] for ret in part.rets]
        effects = set(body.effects)
        controls = [n for n in sources if n not in arg_source]
        controls += [n for n in part.nodes if n.origin in effects and n not in flow
                     and n not in arg_source and n.op != "_Retval"]
        if not controls or any(s in arg_source for s in sources):
            controls += gates or [self.source(*edge)[0] for edge in call.inputs]
            controls += call.controls
        name = self.unique(f"{call.name}/done")
        node = node_lib.Node(name, "NoOp", (), dict.fromkeys(controls), {}, call.device, (),
                             call.origin)
        self.done[call] = node
        return node

    def unique(self, name):
        found, count = name, 0
        while found in self.used:
            count += 1
            found = f"{name}_{count}"
        self.used.add(found)
        return found


def _library(node):
    return node.origin.graph._library


def _type(node, index):
    return node.types[index].base_dtype


def _ops_of(body):
    from pyflow.framework import function_export
    return function_export.reachable(body.results, body.effects, body.args)


def _rename_groups(node, renamed):
    """Colocation groups in the plan's names; those outside the body go."""
    groups = node.attrs.get("_class")
    if groups:
        kept = [f"loc:@{renamed[g[5:]]}" if g.startswith("loc:@") else g for g in groups
                if not g.startswith("loc:@") or g[5:] in renamed]
        node.attrs = dict(node.attrs, _class=kept)
        if not kept:
            del node.attrs["_class"]


def _check_part(node, attr, body):
    """As `_check_call`, for a function that attribute `attr` of an If, Case, ... names."""
    args = [_type(*edge) for edge in node.inputs]
    results = [t.base_dtype for t in node.types]
    if node.op in ("If", "StatelessIf", "Case", "StatelessCase"):
        args = args[1:]
    elif attr == "cond":
        results = [dtypes.bool]
    _check_types(node, body, args, results)


def _check_call(node, body):
    """InvalidArgumentError unless the call has the types of the function."""
    _check_types(node, body, [_type(*edge) for edge in node.inputs],
                 [t.base_dtype for t in node.types])


def _check_types(node, body, args, results):
    for what, has, wanted in (("arguments", args, body.args), ("results", results, body.results)):
        wanted = [t.dtype.base_dtype for t in wanted]
        if has != wanted:
            raise errors.InvalidArgumentError(None, node.origin, (
                f"Node {node.name!r} calls the function {body.name!r} with {what} of types "
                f"[{', '.join(t.name for t in has)}], expected "
                f"[{', '.join(t.name for t in wanted)}]"))
