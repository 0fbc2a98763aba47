"""What cond and while contexts have in common, and questions about where an operation stands.

A context is the static trace of a conditional branch or a loop.  While one is entered, the graph
hands it each new operation (`add_op`), and the context rewires the operation's inputs so that
values from outside arrive through Switch or a constant Enter.

Invariants
  1. `outer_context` never changes; contexts form a tree under None (the top).
  2. `enter`/`exit` nest; the graph's current context is the innermost one entered.
  3. `_values` holds names of tensors already known inside; `_external_values` maps the name of an
     outside tensor to the tensor that stands for it inside.
  4. An operation's context is set once, when it is added (Switch and Enter made by the context
     itself aside).

Who calls it: Graph when it makes an operation, cond.py, while_loop.py, gradients.  Thread: the one
building the graph.
"""
import abc

from pyflow.framework import graph as ops
from pyflow.ops.control import control_flow_ops as cf, routing

_CURRENT = object()
_MADE_BY_CONTEXTS = ("Enter", "RefEnter", "Switch", "RefSwitch", "_SwitchN")


class ControlFlowContext(abc.ABC):
    """A node of the tree of conditional branches and loops."""

    case_count = None           # a branch of a Case: how many branches it has

    def __init__(self, name, outer=_CURRENT):
        """name None, and outer: of a context that was read, which has them already."""
        self._graph = ops.get_default_graph()
        self._name = name and self._graph.unique_name(name)
        self._outer_context = self._graph._get_control_flow_context() if outer is _CURRENT \
            else outer
        self._nested = []
        if self._outer_context is not None:
            self._outer_context._nested.append(self)
        self._entered_from = []
        self._values = set()
        self._external_values = {}

    # ------------------------------------------------------------------------------------- facts
    @property
    def name(self):
        return self._name

    @property
    def graph(self):
        return self._graph

    @property
    def outer_context(self):
        return self._outer_context

    @property
    def grad_state(self):
        """The gradient loop's state; None except in a gradient loop."""
        return None

    @property
    def back_prop(self):
        """False if gradients shall not enter."""
        return self._outer_context.back_prop if self._outer_context else True

    def is_cond_context(self):
        return False

    def is_while_context(self):
        return False

    def while_context(self):
        """The innermost enclosing while context, this one included; None outside loops."""
        return self._outer_context.while_context() if self._outer_context else None

    def control_pivot(self):
        """The tensor on which operations without inputs wait; None at a place without one."""
        return None

    # TF 1.x's spelling, for programs that ask a graph where they are.
    def IsWhileContext(self):
        return self.is_while_context()

    def IsCondContext(self):
        return self.is_cond_context()

    def GetWhileContext(self):
        return self.while_context()

    def Enter(self):
        self.enter()

    def Exit(self):
        self.exit()

    # ------------------------------------------------------------------------------ being current
    def enter(self):
        """Makes this the graph's current context."""
        graph = ops.get_default_graph()
        self._entered_from.append(graph._get_control_flow_context())
        graph._set_control_flow_context(self)

    def exit(self):
        """Undoes the last `enter`."""
        ops.get_default_graph()._set_control_flow_context(self._entered_from.pop())

    def collect(self):
        """Enters an outermost context into its collection, which MetaGraphDefs hold."""
        if self._outer_context is None and self.case_count is None and self.grad_state is None:
            keys = ops.GraphKeys
            self._graph.add_to_collection(
                keys.WHILE_CONTEXT if self.is_while_context() else keys.COND_CONTEXT, self)

    # ---------------------------------------------------------------------------------- members
    def add_name(self, name):
        """Marks the tensor `name` as known inside."""
        self._values.add(name)

    def add_op(self, op):
        """Takes in a new operation: rewires its inputs and control inputs.

        What that adds to the graph is named under the operation (`while/add/Enter`), as in TF."""
        scopes = op.graph._scopes
        saved = scopes.name
        if op.type != "Const":
            scopes.name = op.name
        try:
            self._take(op)
        finally:
            scopes.name = saved

    @abc.abstractmethod
    def _take(self, op):
        """The work of `add_op`."""

    def stand_in(self, value):
        """The tensor that stands inside for `value`, which is outside; None if there is none."""
        return self._external_values.get(value.name)

    @abc.abstractmethod
    def add_value(self, value):
        """The tensor that stands inside for `value`."""

    def check_use(self, op, source):
        """ValueError if `op`, elsewhere, uses the output of `source`, which is here, and may not.

        A value inside a loop exists once per iteration, so there is nothing to use outside."""
        loop = while_context_of(op)
        context = routing.output_context(source)
        source_loop = context.while_context() if context is not None else None
        if source_loop is None or is_containing(source_loop, loop):
            return
        if _may_cross(op, source, source_loop, loop):
            return
        raise ValueError(
            f"Cannot use '{source.name}' as input to '{op.name}' because '{source.name}' is in a "
            f"while loop ({source_loop.name}). Return it from the loop's body as a loop variable, "
            f"and use the result of tf.while_loop. ({op.user_frame})")

    def add_inner_op(self, op):
        """Tells this context of an operation added to a context inside it."""
        if self._outer_context:
            self._outer_context.add_inner_op(op)

    def exit_result(self, result):
        """Makes the results of this context known to the one around it."""
        if self._outer_context:
            for tensor in cf.nest.flatten(result, expand_composites=True):
                self._outer_context.add_name(tensor.name)

    def mark_known(self, names):
        """Marks tensors as known here and in all contexts around."""
        context = self
        while context is not None:
            context._values.update(names)
            context = context._outer_context

    def drop_external_control_inputs(self, op):
        """Keeps only control inputs from the same loop. Returns (kept, dropped)."""
        loop = self.while_context()
        if loop is None:
            return list(op.control_inputs), []
        kept, dropped = [], []
        for source in op.control_inputs:
            context = routing.output_context(source)
            inside = context is not None and context.while_context() is loop
            (kept if inside else dropped).append(source)
        if dropped:
            op._remove_all_control_inputs()
            op._add_control_inputs(kept)
        return kept, dropped

    def protect(self, op):
        """An operation inside cannot be fetched; it would be dead or have one value per
        iteration."""
        if self._outer_context or not routing.is_loop_exit(op):
            op.graph.prevent_fetching(op)


# --------------------------------------------------------------------------------------- questions
def while_context_of(op):
    """The innermost while context of `op`, or None."""
    context = op._get_control_flow_context()
    return context.while_context() if context is not None else None


def is_inside(op, context):
    """Whether `op` belongs to `context` or to one within it."""
    found = op._get_control_flow_context()
    while found is not None and found is not context:
        found = found.outer_context
    return found is context


def is_switch(op):
    return op.type in ("Switch", "RefSwitch")


def is_loop_switch(op):
    """A Switch that belongs to a loop's own machinery."""
    context = op._get_control_flow_context()
    return is_switch(op) and context is not None and context.is_while_context()


def is_in_context(op, context):
    """True if `op` stands in `context` or in one inside it."""
    inner = op._get_control_flow_context()
    while inner is not None:
        if inner is context:
            return True
        inner = inner.outer_context
    return False


def is_containing(outer, inner):
    """True if `outer` is `inner` or encloses it; None (the top) encloses everything."""
    while inner is not outer and inner is not None:
        inner = inner.outer_context
    return inner is outer


def constant_enter(value):
    """The constant Enter behind `value`, seen through Identity and Switch, or None."""
    op = value.op
    while op.type in ("Identity", "RefIdentity", "Switch", "RefSwitch", "_SwitchN"):
        op = op.inputs[0].op
    return op if op.type in ("Enter", "RefEnter") and op.get_attr("is_constant") else None


def _may_cross(op, input_op, source_loop, loop):
    """Edges that leave a loop by design: Exit's, those a context makes itself, those of gradient
    loops."""
    if routing.is_loop_exit(input_op) or (loop is None and op.type in _MADE_BY_CONTEXTS):
        return True
    return source_loop.grad_state is not None or (loop is not None and loop.grad_state is not None)
