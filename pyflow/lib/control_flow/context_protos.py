"""Loops and branches in MetaGraphDefs: WhileContextDef and CondContextDef, written and read.

Invariants
  1. The collections "while_context" and "cond_context" hold the outermost contexts; those inside
     them are nested messages.  Loops of gradients are in none, as in TensorFlow.
  2. What is read comes from anywhere: all names are looked up before an operation gets a context;
     ValueError or KeyError for a message that does not fit the graph.
  3. A loop read from a message knows what it would know if tf.while_loop had built it, so that
     gradients go through it.

Who calls it: to_proto and from_proto of the contexts; train/meta_graph.py.  Thread: the one
building the graph.
"""
from pyflow.framework import graph as ops
from pyflow.lib.control_flow.cond import CondContext
from pyflow.lib.control_flow.while_loop import WhileContext

_ENTERS, _EXITS = ("Enter", "RefEnter"), ("Exit", "RefExit")


# ----------------------------------------------------------------------------------- writing
def while_proto(context, scope=None):
    """The WhileContextDef of a WhileContext; names relative to `scope`."""
    from pyflow.framework import protos
    made = protos.WhileContextDef(
        context_name=_stripped(context.name, scope), back_prop=context.back_prop,
        parallel_iterations=context.parallel_iterations, swap_memory=context.swap_memory,
        pivot_name=_stripped(context.pivot.name, scope),
        pivot_for_pred_name=_stripped(context.pivot_for_pred.name, scope),
        pivot_for_body_name=_stripped(context.pivot_for_body.name, scope),
        loop_exit_names=[_stripped(t.name, scope) for t in context.loop_exits],
        loop_enter_names=[_stripped(t.name, scope) for t in context.loop_enters])
    limit = context.maximum_iterations
    if isinstance(limit, ops.Tensor):
        made.maximum_iterations_name = _stripped(limit.name, scope)
    initial = {t.op.inputs[0].name for t in context.loop_enters}
    _write_values(context, made.values_def, scope, initial)
    _write_nested(context, made.nested_contexts, scope)
    return made


def cond_proto(context, scope=None):
    """The CondContextDef of a CondContext; names relative to `scope`."""
    from pyflow.framework import protos
    made = protos.CondContextDef(
        context_name=_stripped(context.name, scope), branch=context.branch,
        pred_name=_stripped(context.pred.name, scope),
        pivot_name=_stripped(context.pivot.name, scope))
    _write_values(context, made.values_def, scope)
    _write_nested(context, made.nested_contexts, scope)
    return made


def _stripped(name, scope):
    prefix = scope.rstrip("/") + "/" if scope else ""
    return name[len(prefix):] if name.startswith(prefix) else name


def _write_values(context, message, scope, outside=()):
    names = (name for name in context._values
             if name not in outside or name in context._external_values)
    message.values.extend(sorted(_stripped(name, scope) for name in names))
    for name, inside in context._external_values.items():
        message.external_values[_stripped(name, scope)] = _stripped(inside.name, scope)


def _write_nested(context, messages, scope):
    for inner in context._nested:
        if inner.is_while_context():
            if not inner.loop_exits:            # its body raised an error
                continue
            messages.add().while_ctxt.CopyFrom(while_proto(inner, scope))
        elif inner.case_count is None:          # the branches of a Case have no message
            messages.add().cond_ctxt.CopyFrom(cond_proto(inner, scope))


# ----------------------------------------------------------------------------------- reading
def read(message, scope=None):
    """The context of a WhileContextDef or CondContextDef, its operations being in the default
    graph, below `scope`; those inside it, too."""
    reader = _Reader(ops.get_default_graph(), scope)
    found = reader.context(message, ops.get_default_graph()._get_control_flow_context())
    reader.adopt()
    return found


class _Reader:
    """One outermost message."""

    def __init__(self, graph, scope):
        self.graph = graph
        self.prefix = scope.rstrip("/") + "/" if scope else ""
        self.members = []           # [(context, operations)], outer before inner

    def context(self, message, outer):
        is_loop = hasattr(message, "pivot_for_pred_name")
        found = (self._loop if is_loop else self._branch)(message)
        found._outer_context = outer
        self._take_values(found, message.values_def)
        for inner in message.nested_contexts:
            kind = inner.WhichOneof("ctxt")
            if kind is not None:
                self.context(getattr(inner, kind), found)
        return found

    def _loop(self, message):
        found = WhileContext(parallel_iterations=max(1, message.parallel_iterations),
                             back_prop=message.back_prop, swap_memory=message.swap_memory,
                             name=None, outer=None)
        found.loop_enters = [self._of_type(n, _ENTERS) for n in message.loop_enter_names]
        found.loop_exits = [self._of_type(n, _EXITS) for n in message.loop_exit_names]
        found.pivot = self._of_type(message.pivot_name, ("LoopCond",))
        found.pivot_for_pred = self._tensor(message.pivot_for_pred_name)
        found.pivot_for_body = self._tensor(message.pivot_for_body_name)
        if message.maximum_iterations_name:
            found.maximum_iterations = self._tensor(message.maximum_iterations_name)
        if not found.loop_enters:
            raise ValueError(f"loop {message.context_name!r} has no variables")
        found._name = found.loop_enters[0].op.attrs["frame_name"]   # the import's, below a scope
        return found

    def _branch(self, message):
        if message.branch not in (0, 1):
            raise ValueError(f"branch {message.branch} of {message.context_name!r} is not 0 or 1")
        found = CondContext(self._tensor(message.pred_name), self._tensor(message.pivot_name),
                            message.branch, name=None, outer=None)
        found._name = self.prefix + message.context_name
        return found

    def _of_type(self, name, types):
        found = self._tensor(name)
        if found.op.type not in types:
            raise ValueError(f"expected {' or '.join(types)}, but {name!r} is {found.op.type}")
        return found

    def _tensor(self, name):
        return self.graph.as_graph_element(self.prefix + name, allow_operation=False)

    def _take_values(self, context, message):
        external = {self.prefix + name: self._tensor(inside)
                    for name, inside in message.external_values.items()}
        names = {self.prefix + name for name in message.values}
        context._values.update(names, external)
        context._external_values.update(external)
        outside = {t.op.inputs[0].op for t in context.loop_enters} \
            if context.is_while_context() else ()
        found = dict.fromkeys(name.rpartition(":")[0] for name in names - set(external))
        members = []
        for name in found:
            op = self.graph._nodes_by_name.get(name)
            if op is not None and op not in outside:
                members.append(op)
        self.members.append((context, members))

    def adopt(self):
        """The operations become members; what an inner context has, it gets last."""
        for context, members in self.members:
            if context.outer_context is not None:
                context.outer_context._nested.append(context)
            for op in members:
                op._set_control_flow_context(context)
            if context.is_cond_context():
                context.pivot.op._set_control_flow_context(context)
