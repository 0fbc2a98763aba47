"""What the gradient of a while loop needs: counters, saved values, and the gradient loop itself.

The gradient of a loop is another loop that runs as many times, backwards:

    forward loop                                gradient loop
    f_count: 0, 1, ..., n  ---- n ------------> b_count: n, n-1, ..., 0
    value v of iteration i -- push -> stack --> pop: v of iteration i
    invariant c                                 accumulator: sum of dc over the iterations

Invariants
  1. One LoopState per forward loop and call of `gradients`; loops inside loops have
     `outer_grad_state`.
  2. Pushes of iteration i happen before those of i+1: each push is a control input of the forward
     counter (directly, or through `forward_sync` for a value of a conditional).  Pops likewise,
     through `grad_sync`.
  3. A value is saved once however often it is used; constants and loop invariants are not saved at
     all.
  4. Stacks pass no gradient on: a gradient of a gradient through them is refused
     [refuse_second_order].
  5. A saved value of a conditional inside the loop is popped under a Switch on the saved predicate,
     because nothing was pushed when the other branch was taken.

Who calls it: backprop, WhileContext, gradients of control flow ops.  Thread: the one building the
graph.
Source: "Dynamic Control Flow in Large-Scale Machine Learning", section 5; TF 1.x
control_flow_state.
"""
import collections
import contextlib

from pyflow.framework import dtypes, graph as ops, tensor_util
from pyflow.lib.control_flow.control_flow_context import (constant_enter, is_loop_switch,
                                                          is_switch, while_context_of)
from pyflow.lib.control_flow.switch_case import know_branches
from pyflow.lib.control_flow.while_loop import WhileContext, entered
from pyflow.ops.control import control_flow_ops as cf, identity_ops, routing
from pyflow.ops.containers import stack_ops
from pyflow.ops.base import tensors
from pyflow.ops.move import array_ops
from pyflow.lib.variables import resource_functions


class LoopState:
    """The gradient side of one forward loop."""

    def __init__(self, forward_context, outer_grad_state):
        self.forward_context = forward_context
        self.outer_grad_state = outer_grad_state
        self.grad_context = None
        self.switch_merges = {}             # forward Switch -> Merge of the gradient loop
        self.history = {}                   # name of a forward tensor -> value in the gradient loop
        self.unused_exits = []
        self.deferred_exits = []
        self.forward_exits = list(forward_context.loop_exits)
        self.pending_exits = len(forward_context.loop_exits)
        self._forward_sync = None
        self._grad_sync = None
        outer = (outer_grad_state.forward_context if outer_grad_state
                 else forward_context.outer_context)
        with entered(outer):
            count, self.forward_index = forward_context.add_forward_counter(outer_grad_state)
        if outer_grad_state:
            self._make_nested_grad_context(count, outer)
        else:
            with entered(outer):
                self._make_grad_context(count)

    def _make_grad_context(self, count):
        forward = self.forward_context
        self.grad_context = WhileContext(
            maximum_iterations=forward.maximum_iterations, back_prop=forward.back_prop,
            parallel_iterations=forward.parallel_iterations, swap_memory=forward.swap_memory,
            name=forward.name, grad_state=self)
        self.grad_index = self.grad_context.add_backprop_counter(
            count() if callable(count) else count, self.outer_grad_state)

    def _make_nested_grad_context(self, count, outer_forward):
        """The count differs in each execution of an inner loop: it is saved by the outer one."""
        outer = self.outer_grad_state
        outer_forward.add_name(count.name)
        history = outer.save(count)
        with entered(outer.grad_context):
            self._make_grad_context(lambda: outer.restore(history, count))

    # ---------------------------------------------------------------------------- ordering points
    @property
    def forward_sync(self):
        """A ControlTrigger of the forward loop that the next iteration's pushes wait for."""
        if self._forward_sync is None:
            self._forward_sync = self._sync("f_sync", self.forward_context)
            self.forward_index.op._add_control_input(self._forward_sync)
        return self._forward_sync

    @property
    def grad_sync(self):
        """A ControlTrigger of the gradient loop that the next iteration's pops wait for."""
        if self._grad_sync is None:
            self._grad_sync = self._sync("b_sync", self.grad_context)
            self.grad_index.op._add_control_input(self._grad_sync)
            if self.grad_context.outer_context:
                self.grad_context.outer_context.add_inner_op(self._grad_sync)
        return self._grad_sync

    @staticmethod
    def _sync(name, context):
        with ops.control_dependencies(None):
            sync = cf.ControlTrigger(name=name)
        sync._set_control_flow_context(context)
        return sync

    # ------------------------------------------------------------------------------ saving values
    def save(self, value, dead_branch=False):
        """Pushes forward tensor `value` on a new stack in each iteration. Returns the stack's
        handle."""
        current = ops.get_default_graph()._get_control_flow_context()
        with ops.control_dependencies(None):
            with entered(current), ops.colocate_with(value):
                unlimited = ops.constant(-1, dtypes.int32)
                stack = stack_ops.StackV2(unlimited, elem_type=value.dtype.base_dtype,
                                              name="f_acc")
            push = self._push(self.forward_context.add_value(stack), value, dead_branch)
            push.op._add_control_input(self.forward_index.op.inputs[0].op)
        return stack

    def _push(self, stack, value, dead_branch):
        context = routing.output_context(value.op)
        if context is self.forward_context:
            with entered(context):
                push = self._push_op(stack, value)
            self.forward_index.op._add_control_input(push.op)
            return push
        if context is None or not context.is_cond_context():
            raise TypeError(f"The gradient needs '{value.name}' of each iteration of the loop "
                            f"'{self.forward_context.name}', but that tensor is not part of it")
        with entered(context.outer_context if dead_branch else context):
            push = self._push_op(stack, value)
        if dead_branch:
            push.op._set_control_flow_context(context)
        self.forward_sync._add_control_input(push.op)
        return push

    def _push_op(self, stack, value):
        return stack_ops.StackPushV2(stack, value, swap_memory=self.forward_context.swap_memory)

    def restore(self, stack, value, dead_branch=False):
        """In the gradient loop: pops what `save(value)` pushed."""
        branch = _enclosing_branch(value, stack)
        with ops.control_dependencies(None):
            with entered(self.grad_context):
                if branch is not None:
                    stack = self._guarded(stack, branch, dead_branch)
                popped = stack_ops.StackPopV2(stack, elem_type=value.dtype.base_dtype)
                popped.set_shape(value.shape)
        if self.grad_context.parallel_iterations > 1:
            self.grad_sync._add_control_input(popped.op)
        return popped

    def _guarded(self, stack, branch, dead_branch):
        """The stack, alive only when the branch that pushed was taken."""
        pred, state = None, self
        while pred is None and state is not None:
            pred = state.history.get(branch.pred.name)
            state = state.outer_grad_state
        pred = branch.pred if pred is None else pred
        if dead_branch:
            return routing.switch_ref_or_tensor(stack, pred)[1 - branch.branch]
        return branch.alive(stack, pred)

    def real_value(self, value):
        """The gradient loop's counterpart of forward tensor `value`. Call while `grad_context` is
        current."""
        if value.op.type in ("Variable", "VariableV2"):
            raise TypeError(f"The reference '{value.name}' of a variable cannot be saved per "
                            "iteration: read the variable inside the loop instead")
        while value.op.type == "_SwitchN":      # of a Case: alive in every iteration is its data
            value = value.op.inputs[0]
        known = self.history.get(value.name)
        if known is None:
            known = self.history[value.name] = self._real_value(value)
        return known

    def _real_value(self, value):
        state = self
        while True:
            constant = constant_enter(value)
            if constant is None:
                break
            value, state = constant.inputs[0], state.outer_grad_state
            if state is None:               # outside all loops of this gradient: a loop invariant
                return self.grad_context.add_value(value)
        if value.op.type == "Const":
            return ops.constant(tensor_util.constant_value(value), dtype=value.dtype)
        self.grad_context.exit()
        stack = state.save(value)
        self.grad_context.enter()
        popped = state.restore(stack, value)
        return popped if state is self else self.grad_context.add_value(popped)

    def recorded_predicate(self, pred):
        """The predicate of a conditional inside the loop, as it was in the iteration being
        undone."""
        known = self.history.get(pred.name)
        if known is None:
            context = self.grad_context
            context.exit()
            stack = self.save(pred)
            context.enter()
            known = self.history[pred.name] = self.restore(stack, pred)
        return known


def _enclosing_branch(value, stack):
    """The innermost conditional branch around `value` that `stack` is not in, or None."""
    limit = stack.op._get_control_flow_context()
    context = value.op._get_control_flow_context()
    while context is not None and context is not limit:
        if context.is_cond_context():
            return context
        context = context.outer_context
    return None


class LoopStates:
    """The LoopState of every loop that one call of `gradients` goes through."""

    def __init__(self):
        self._states = {}

    def of(self, op, before):
        """The state for `op`; for an Exit the loop it leaves (`before`: the one around it). None
        outside."""
        if before and routing.is_loop_exit(op):
            context = op._get_control_flow_context().outer_context
            context = context.while_context() if context is not None else None
        else:
            context = while_context_of(op)
        return self._states.get(context) if context is not None else None

    def enter(self, op, before):
        """Makes the gradient loop of `op`'s loop current."""
        state = self.of(op, before)
        if state is not None:
            state.grad_context.enter()

    def exit(self, op, before):
        """Undoes `enter`."""
        state = self.of(op, before)
        if state is not None:
            state.grad_context.exit()

    def add_loop(self, op, between_list, between):
        """Makes the state of `op`'s loop and takes all its exits into the differentiated
        subgraph."""
        forward = while_context_of(op)
        if forward is None:
            raise ValueError(
                f"The gradient goes through the loop that '{op.name}' ({op.type}) leaves, but the "
                "graph does not know that loop: it was imported from a GraphDef, which does not tell "
                "of loops. Import its MetaGraphDef (tf.train.import_meta_graph), or build the loop "
                "with tf.while_loop in this program")
        if forward in self._states:
            return
        outer = forward.outer_context.while_context() if forward.outer_context else None
        state = LoopState(forward, self._states.get(outer) if outer is not None else None)
        self._states[forward] = state
        for loop_exit in state.forward_exits:
            if loop_exit.op not in between:
                between.add(loop_exit.op)
                between_list.append(loop_exit.op)

    def unused_exits(self, pending, targets):
        """Exits that no gradient will reach: they get zeros. Also lets Enters be visited."""
        ready = []
        for state in self._states.values():
            for loop_exit in state.forward_exits:
                if not pending.get(loop_exit.op):
                    state.pending_exits -= 1
                    if loop_exit.op not in targets:
                        state.unused_exits.append(loop_exit)
                    if state.pending_exits == 0:
                        ready.extend(state.unused_exits)
            for loop_enter in state.forward_context.loop_enters:
                if not pending.get(loop_enter.op):
                    pending[loop_enter.op] = 1
        return ready

    def close_back_edges(self):
        """A loop variable that does not depend on its last value has gradient zero in earlier
        iterations."""
        for state in self._states.values():
            for merged in state.switch_merges.values():
                if merged.op.inputs[0] is merged.op.inputs[1]:
                    merged.op._update_input(1, _next_zeros(state.grad_context, merged))

    # -------------------------------------------------------------------------------------- zeros
    def zeros_for_exit(self, value):
        """Zeros like the unused Exit `value`, in the gradient context around its loop."""
        around = value.op._get_control_flow_context().outer_context
        loop = around.while_context() if around is not None else None
        outer = self._states.get(loop) if loop is not None else None
        if _is_list(value):
            with entered(outer.grad_context if outer is not None else None):
                kept = value if outer is None else outer.real_value(value)
                return tensors.zeros_like(kept, optimize=False)
        if outer is None:
            if value.shape.is_fully_defined():
                return tensors.zeros(value.shape, value.dtype)
            return tensors.zeros_like(value, optimize=False)
        if value.shape.is_fully_defined():
            with entered(outer.grad_context):
                return tensors.zeros(value.shape, value.dtype)
        with entered(around):
            shape = array_ops.Shape(value)
        history = outer.save(shape)
        with entered(outer.grad_context):
            return tensors.zeros(outer.restore(history, shape), value.dtype)

    def zeros_like(self, op, index):
        """Zeros for output `index` of `op`, which no gradient reached. None for a loop's own
        Switch."""
        if is_loop_switch(op):
            return None
        loop = while_context_of(op)
        state = self._states.get(loop) if loop is not None else None
        if state is None:
            return zeros_like_output(op, index)
        if op.type == "_SwitchN":
            zeros = self._zeros_of_case(state, op)
            chosen = state.recorded_predicate(op.inputs[1])
            return routing.switch_n(zeros, chosen, len(op.outputs))[index]
        value = op.outputs[index]
        if _is_list(value):
            return self._recorded_list(state, op, value)
        if value.shape.is_fully_defined() and value.dtype.base_dtype != dtypes.resource:
            return self._static_zeros(state, op, value)
        return self._recorded_zeros(state, op, value)

    @staticmethod
    def _zeros_of_case(state, op):
        """Zeros like the data of a _SwitchN, alive in every iteration."""
        value, context = op.inputs[0], op._get_control_flow_context()
        if context.case_count and context.pred is op.inputs[1]:
            context = context.outer_context
        if _is_list(value):
            return tensors.zeros_like(state.real_value(value), optimize=False)
        if value.shape.is_fully_defined() and value.dtype.base_dtype != dtypes.resource:
            return ops.constant(0, shape=value.shape, dtype=value.dtype.base_dtype)
        with entered(context):
            shape = resource_functions.value_shape(value)
        return tensors.zeros(state.real_value(shape), _dtype_of(value))

    @staticmethod
    def _static_zeros(state, op, value):
        zeros = ops.constant(0, shape=value.shape, dtype=value.dtype.base_dtype)
        if not is_switch(op):
            return zeros
        context = op._get_control_flow_context()
        pred = state.recorded_predicate(context.pred)
        return routing.switch_ref_or_tensor(zeros, pred)[1 - context.branch]

    @staticmethod
    def _recorded_list(state, op, value):
        """Zeros like a list: the list itself is saved in each iteration."""
        if not is_switch(op):
            return tensors.zeros_like(state.real_value(value), optimize=False)
        context = op._get_control_flow_context()
        state.grad_context.exit()
        with entered(context.outer_context):
            value = routing.switch_ref_or_tensor(op.inputs[0], context.pred)[1 - context.branch]
        value.op._set_control_flow_context(context)
        history = state.save(value, dead_branch=True)
        state.grad_context.enter()
        return tensors.zeros_like(state.restore(history, value, True), optimize=False)

    @staticmethod
    def _recorded_zeros(state, op, value):
        """Saves the shape in each iteration; for a conditional's Switch, on the branch not
        taken."""
        context, dead = op._get_control_flow_context(), is_switch(op)
        if dead:
            with entered(context.outer_context):
                value = routing.switch_ref_or_tensor(op.inputs[0], context.pred)[1 - context.branch]
                shape = resource_functions.value_shape(value)
            value.op._set_control_flow_context(context)
            shape.op._set_control_flow_context(context)
        else:
            with entered(context):
                shape = resource_functions.value_shape(value)
        state.grad_context.exit()
        history = state.save(shape, dead_branch=dead)
        state.grad_context.enter()
        return tensors.zeros(state.restore(history, shape, dead), _dtype_of(value))


def _next_zeros(grad_context, merged):
    """Zeros, one iteration on, like the gradient that enters at `merged`."""
    first = merged.op.inputs[0]
    if _is_list(first):
        with entered(grad_context.outer_context):
            zeros = tensors.zeros_like(first.op.inputs[0], optimize=False)
        with entered(grad_context):
            return routing.next_iteration(zeros)
    if first.shape.is_fully_defined():
        with entered(grad_context):
            zeros = ops.constant(0, dtype=first.dtype, shape=first.shape)
            return routing.next_iteration(zeros)
    with entered(grad_context.outer_context):
        shape = array_ops.Shape(first.op.inputs[0])
        zeros = tensors.zeros(shape, first.dtype)
    with entered(grad_context):
        return routing.next_iteration(zeros)


def zeros_like_output(op, index):
    """Zeros for an output outside loops; for a conditional's Switch, made only on the branch not
    taken."""
    value = op.outputs[index]
    context = op._get_control_flow_context()
    if not is_switch(op) or context is None:
        if value.dtype.base_dtype == dtypes.resource:
            return tensors.zeros(resource_functions.value_shape(value), _dtype_of(value))
        return tensors.zeros_like(value, optimize=False)
    other = routing.switch(op.inputs[0], context.pred)[1 - context.branch]
    pivot = identity_ops.Identity(other)
    if value.dtype.base_dtype == dtypes.resource:
        with ops.control_dependencies([pivot]):
            return tensors.zeros(resource_functions.value_shape(other), _dtype_of(value))
    if _is_list(value):
        return tensors.zeros_like(other, optimize=False)
    shape = array_ops.Shape(other)
    with ops.control_dependencies([pivot]):
        return tensors.zeros(shape, value.dtype.base_dtype)


def _is_list(value):
    """True for a variant: its zeros are a list as long, made from the list itself."""
    return value.dtype.base_dtype == dtypes.variant


def _dtype_of(value):
    """The element type of a tensor, or of the variable behind a handle."""
    if value.dtype.base_dtype == dtypes.resource:
        return resource_functions.handle_dtype(value)
    return value.dtype.base_dtype


def loop_states(between_list, between, colocate=False):
    """States of all loops left by the operations of `between_list`, or None if there is no loop.

    With `colocate` what counts a loop's turns is placed with the loop's exit."""
    states = None
    know_branches(op for op in between_list if op.type == "_SwitchN" and while_context_of(op))
    for op in list(between_list):
        if routing.is_loop_exit(op):
            states = states or LoopStates()
            with ops.colocate_with(op) if colocate else contextlib.nullcontext():
                states.add_loop(op, between_list, between)
    return states


def refuse_second_order(reached, ys, stops, passes):
    """TypeError where some y depends on what a loop among `reached` saved for its gradient: that
    gradient is not differentiable itself, and leaving the path out would be silently wrong.

    reached: operations that depend on some x; stops: tensors taken as constants; passes: whether
    gradients may flow through an operation."""
    pushes = [op for op in reached if op.type == "StackPushV2"]
    if not pushes:
        return
    stacks = {_origin_of_stack(op.inputs[0]) for op in pushes}
    pops = [op for stack in stacks for op in _pops_of(stack)]
    wanted, seen, queue = {y.op for y in ys}, set(), collections.deque(pops)
    while queue:
        op = queue.popleft()
        if op in seen:
            continue
        seen.add(op)
        if op in wanted:
            loop = while_context_of(pops[0])
            raise TypeError(cf.second_order_message(pops[0].name if loop is None else loop.name))
        if op.type == "StackPopV2" or passes(op):
            queue.extend(reader for tensor in op.outputs if tensor not in stops
                         and (tensor.dtype.is_floating or tensor.dtype.is_complex)
                         for reader in tensor.consumers())


def _origin_of_stack(handle):
    while handle.op.type != "StackV2" and handle.op.inputs:
        handle = handle.op.inputs[0]
    return handle.op


def _pops_of(stack):
    """The StackPops of a stack, whose handle may come through Enters and Switches."""
    found, seen, queue = [], set(), collections.deque([stack])
    while queue:
        op = queue.popleft()
        if op in seen:
            continue
        seen.add(op)
        if op.type == "StackPopV2":
            found.append(op)
        elif op is stack or op.type in _PASS_HANDLES:
            queue.extend(reader for tensor in op.outputs for reader in tensor.consumers())
    return found


_PASS_HANDLES = frozenset(("Enter", "Switch", "Merge", "Identity", "NextIteration"))
