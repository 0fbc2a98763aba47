"""Loops: `tf.while_loop` over Enter, Merge, Switch, NextIteration and Exit.

One loop variable:

    x -> Enter -> Merge -> Switch --false--> Exit -> result
                    ^         `--true--> Identity -> body ... -> NextIteration
                    `------------------------------------------------'
    the predicate, from the Merges:  pred ... -> LoopCond -> every Switch

Invariants
  1. A value from outside enters as a constant Enter, once per loop, through every loop between.
  2. An operation inside that has no input from this iteration waits on the control pivot: the first
     Merge while the predicate is built, the first body Identity after; so it runs once per
     iteration and never one too many.
  3. In a gradient loop (`grad_state` set) a value of the forward loop comes from `grad_state`,
     which saves it on a stack; see gradients/loop_state.py.
  4. Shapes of loop variables hold for all iterations, or `shape_invariants` says what does.

Thread: the one building the graph.  Source: TF 1.x while_loop; EuroSys 2018 (see control_flow_ops).

Example:  `tf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, x * 2.0), (0, 1.0))`
"""
from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.control_flow.cond import flows_to_tensor_arrays, is_tensor_array
from pyflow.lib.control_flow.control_flow_context import ControlFlowContext, while_context_of
from pyflow.lib.variables import resource_functions
from pyflow.ops.base import tensors
from pyflow.ops.control import control_flow_ops as cf, identity_ops, routing
from pyflow.ops.elementwise import binary_ops, logic_ops

_SHAPE_OPS = ("Shape", "Size", "Rank")


class WhileContext(ControlFlowContext):
    """The body and predicate of one loop, forward or gradient."""

    def __init__(self, maximum_iterations=None, parallel_iterations=10, back_prop=True,
                 swap_memory=False, name="while_context", grad_state=None, **outer):
        super().__init__(name, **outer)
        if not isinstance(parallel_iterations, int) or parallel_iterations <= 0:
            raise ValueError("`parallel_iterations` must be a positive integer: "
                             f"{parallel_iterations}")
        self.maximum_iterations = maximum_iterations
        self.parallel_iterations = parallel_iterations
        self.swap_memory = swap_memory
        self.loop_enters = []
        self.loop_exits = []
        self.pivot = None               # the LoopCond's output
        self.pivot_for_pred = None      # control pivots: see invariant 2
        self.pivot_for_body = None
        self._back_prop = back_prop
        self._grad_state = grad_state

    @property
    def grad_state(self):
        return self._grad_state

    @property
    def back_prop(self):
        return self._back_prop

    def is_while_context(self):
        return True

    def to_proto(self, export_scope=None):
        """The WhileContextDef; names relative to `export_scope`."""
        from pyflow.lib.control_flow import context_protos
        return context_protos.while_proto(self, export_scope)

    @staticmethod
    def from_proto(context_def, import_scope=None):
        """The loop that a WhileContextDef tells of, and what is inside it."""
        from pyflow.lib.control_flow import context_protos
        return context_protos.read(context_def, import_scope)

    def while_context(self):
        return self

    def control_pivot(self):
        return self.pivot_for_pred if self.pivot_for_body is None else self.pivot_for_body

    # -------------------------------------------------------------------------- values from outside
    def add_value(self, value):
        if value.name in self._values or value.op._control_flow_context is self:
            return self._external_values.get(value.name, value)
        self.add_name(value.name)
        saved = self._saved_forward_value(value)
        if saved is not None:
            self._external_values[value.name] = saved
            return saved
        outer = self._outer_context.add_value(value) if self._outer_context else value
        inside = self._constant_enter(outer)
        self.add_name(inside.name)
        self._external_values[value.name] = inside
        return inside

    def _constant_enter(self, outer):
        with ops.control_dependencies(None):
            inside = routing.enter(outer, self._name, is_constant=True,
                                   parallel_iterations=self.parallel_iterations)
            inside.graph.prevent_feeding(inside)
            if self._outer_context:
                self._outer_context.add_inner_op(inside.op)
        self._adopt_enters([inside])
        return inside

    def _saved_forward_value(self, value):
        """In a gradient loop: the history of `value` if it is the forward loop's, else None."""
        current = ops.get_default_graph()._get_control_flow_context()
        loop = current.while_context() if current is not None else None
        if loop is None or loop.grad_state is None:
            return None
        forward = while_context_of(value.op)
        if forward is not None and routing.is_loop_exit(value.op):
            forward = forward.outer_context
            forward = forward.while_context() if forward is not None else None
        if forward is None or forward is not loop.grad_state.forward_context:
            return None
        return loop.grad_state.real_value(value)

    def _adopt_enters(self, enters):
        """Takes the Enters as members, keeping control inputs that exist outside this loop."""
        graph = ops.get_default_graph()
        for tensor in nest.flatten(enters, expand_composites=True):
            source = tensor.op.inputs[0].op
            controls = graph._control_dependencies_for_inputs([source])
            tensor.op._set_control_flow_context(self)
            tensor.op._add_control_inputs([c for c in controls if self._is_visible_outside(c)])
            graph._record_op_seen_by_control_dependencies(tensor.op)

    def _is_visible_outside(self, op):
        """True if `op` stands in a context around this loop, within the next outer loop."""
        target, context = routing.output_context(op), self._outer_context
        limit = context.while_context() if context is not None else None
        while context is not target:
            if context is None or context is limit:
                return False
            context = context.outer_context
        return True

    # ------------------------------------------------------------------------------------- members
    def _take(self, op):
        if op.type in _SHAPE_OPS and self._moved_to_forward(op):
            return
        self._add_member(op)

    def _moved_to_forward(self, op):
        """Takes a forward tensor's shape in the forward loop, so that the shape is saved, not the
        tensor."""
        current = ops.get_default_graph()._get_control_flow_context()
        loop = current.while_context() if current is not None else None
        if loop is None or loop.grad_state is None:
            return False
        if while_context_of(op.inputs[0].op) is not loop.grad_state.forward_context:
            return False
        context = op.inputs[0].op._get_control_flow_context()
        op._set_control_flow_context(context)
        (context._add_member if context.is_while_context() else context._take)(op)
        return True

    def _add_member(self, op):
        if op.inputs:
            for index, value in enumerate(list(op.inputs)):
                inside = self.add_value(value)
                if inside is not value:
                    op._update_input(index, inside)
            _, dropped = self.drop_external_control_inputs(op)
            if not op.control_inputs and all(_is_constant_enter(x.op) for x in op.inputs):
                op._add_control_input(self.control_pivot().op)
        else:
            kept, dropped = self.drop_external_control_inputs(op)
            if not kept:
                op._add_control_input(self.control_pivot().op)
        for tensor in op.outputs:
            self.add_name(tensor.name)
        self._reattach(op, dropped)
        self._protect_member(op)

    def _reattach(self, op, dropped):
        """Keeps the order after outside operations: their data enters, and its Identity is waited
        for."""
        sources = [source for source in dropped if source.outputs]
        if not sources:
            return
        with ops.control_dependencies(None):
            self.enter()
            try:
                waits = [identity_ops.Identity(source.outputs[0]).op for source in sources]
            finally:
                self.exit()
        op._add_control_inputs(waits)

    def _protect_member(self, op):
        if self._outer_context or not routing.is_loop_exit(op):
            op.graph.prevent_fetching(op)
            for tensor in op.outputs:
                op.graph.prevent_feeding(tensor)
        if self._outer_context:
            self._outer_context.add_inner_op(op)

    # ------------------------------------------------------------------------------------ building
    def build(self, pred, body, loop_vars, shape_invariants, return_same_structure):
        """The loop's nodes; returns the results arranged as the body returned them."""
        originals = loop_vars
        flat = nest.flatten(loop_vars, expand_composites=True)
        tensors = [_loop_tensor(v) for v in flat]
        shapes = _invariant_shapes(loop_vars, tensors, shape_invariants)
        self.enter()
        try:
            returned, exits = self._build_loop(pred, body, originals, tensors, shapes)
        finally:
            self.exit()
        leaves = flows_to_tensor_arrays(nest.flatten(returned, expand_composites=True), exits)
        result = nest.pack_sequence_as(returned, leaves, expand_composites=True)
        if return_same_structure:
            return result
        return result[0] if len(exits) == 1 else result

    def _build_loop(self, pred, body, originals, tensors, shapes):
        flat_originals = nest.flatten(originals, expand_composites=True)

        def arranged(values):
            leaves = flows_to_tensor_arrays(flat_originals, values)
            return nest.pack_sequence_as(originals, leaves, expand_composites=True)

        merges = self._build_entry(tensors, shapes)
        decision = ops.convert_to_tensor(pred(*arranged(merges)))
        self.pivot = cf.LoopCond(decision, name="LoopCond")
        switches = [routing.switch_ref_or_tensor(merged, self.pivot) for merged in merges]
        inside = [routing.identity_of(pair[1]) for pair in switches]
        self.pivot_for_body = inside[0]
        arguments = arranged(inside)
        returned = body(*arguments)
        if not nest.is_nested(returned, expand_composites=True):
            returned = [returned]
        nest.assert_same_structure(list(arguments), list(returned), expand_composites=True)
        results = [_loop_tensor(v) for v in nest.flatten(returned, expand_composites=True)]
        if len(results) != len(merges):
            raise ValueError("Number of inputs and outputs of body must match loop_vars: "
                             f"{len(merges)}, {len(results)}")
        for merged, value in zip(merges, results):
            _require_same_dtype(merged, value)
            routing.add_back_edge(merged, value)
        exits = [routing.exit(pair[0]) for pair in switches]
        self.loop_exits = exits
        self.exit_result(exits)
        self.collect()
        return returned, exits

    def _build_entry(self, tensors, shapes):
        """Enter and Merge of each loop variable."""
        self._values = {tensor.name for tensor in tensors}
        if self._outer_context:
            tensors = [self._outer_context.add_value(tensor) for tensor in tensors]
        enters = []
        with ops.control_dependencies(None):
            for tensor, shape in zip(tensors, shapes):
                value = routing.enter(tensor, self._name, is_constant=False, use_input_shape=False,
                                      parallel_iterations=self.parallel_iterations)
                value.set_shape(shape)
                value.graph.prevent_feeding(value)
                if self._outer_context:
                    self._outer_context.add_inner_op(value.op)
                enters.append(value)
        self._adopt_enters(enters)
        self._values = {value.name for value in enters}
        self.loop_enters = enters
        merges = [routing.merge([value, value])[0] for value in enters]
        self.pivot_for_pred = merges[0]
        return merges

    # ------------------------------------------------------------------------ loops for gradients
    def _loop_variable(self, initial, name, merge_name=None, use_input_shape=True):
        """Enter and Merge of one more variable of this loop; call while entered. Returns (entered,
        merged)."""
        self.add_name(initial.name)
        value = routing.enter(initial, self._name, is_constant=False,
                              use_input_shape=use_input_shape,
                              parallel_iterations=self.parallel_iterations, name=name)
        self.loop_enters.append(value)
        return value, routing.merge([value, value], name=merge_name)[0]

    def _loop_result(self, value, name):
        """Exit of one more variable of this loop; call while entered."""
        result = routing.exit(value, name=name)
        self.loop_exits.append(result)
        return result

    def add_forward_counter(self, outer_grad_state):
        """Counts this loop's iterations. Returns (total, counter's NextIteration)."""
        start = ops.constant(0, name="f_count")
        if outer_grad_state is not None:    # pushes of one execution come before those of the next
            start.op._add_control_input(outer_grad_state.forward_index.op.inputs[0].op)
        self.enter()
        _, merged = self._loop_variable(start, "f_count")
        done, going = routing.switch(merged, self.pivot)
        following = routing.next_iteration(binary_ops.Add(going, 1))
        merged.op._update_input(1, following)
        total = self._loop_result(done, "f_count")
        self.exit_result([total])
        self.exit()
        return total, following

    def add_backprop_counter(self, count, outer_grad_state):
        """Makes this (gradient) loop run `count` times. Returns the counter's NextIteration."""
        one = ops.constant(1, name="b_count")
        self.enter()
        _, merged = self._loop_variable(count, "b_count")
        self.pivot_for_pred = merged
        self.pivot = cf.LoopCond(logic_ops.GreaterEqual(merged, one), name="b_count")
        done, going = routing.switch(merged, self.pivot)
        index = binary_ops.Sub(going, one)
        self.pivot_for_body = index
        following = routing.next_iteration(index)
        merged.op._update_input(1, following)
        final = self._loop_result(done, "b_count")
        if outer_grad_state is not None:    # pops of one execution come before those of the next
            outer_grad_state.grad_sync._add_control_input(final.op)
        self.exit_result([final])
        self.exit()
        return following

    def accumulate(self, enter_op, grad):
        """Sums the gradient of a loop invariant over the iterations. Called and left while
        entered."""
        self.exit()
        initial = self._zeros_like_invariant(enter_op.inputs[0], grad)
        self.enter()
        _, merged = self._loop_variable(initial, "b_acc", "b_acc")
        done, going = routing.switch(merged, self.pivot)
        sum_ = binary_ops.AddN([going, grad]) if grad.dtype == dtypes.variant \
            else binary_ops.Add(going, grad)
        merged.op._update_input(1, routing.next_iteration(sum_))
        total = self._loop_result(done, "b_acc")
        self.exit_result([total])
        return total

    def _zeros_like_invariant(self, value, grad):
        """Zeros outside this loop: the total when there are no iterations."""
        if grad.dtype == dtypes.variant:
            return self._zeros_like_list(value)
        if grad.shape.is_fully_defined():
            with entered(self._outer_context):
                return ops.constant(0, grad.dtype, shape=grad.shape, name="b_acc")
        with entered(self._outer_context):
            return tensors.zeros(self._invariant_shape(value), grad.dtype)

    def _zeros_like_list(self, value):
        outer = self._outer_context
        with entered(outer):
            if outer is not None and outer.is_while_context() and outer.grad_state is not None:
                value = outer.grad_state.real_value(value)
            return tensors.zeros_like(value, optimize=False)

    def _invariant_shape(self, value):
        """The run-time shape of `value`, valid around this gradient loop, where this is called."""
        outer = self._outer_context
        if outer is None or not outer.is_while_context() or outer.grad_state is None:
            return resource_functions.value_shape(value)
        outer.exit()
        with entered(self.grad_state.forward_context.outer_context):
            shape = resource_functions.value_shape(value)
        history = self.grad_state.outer_grad_state.save(shape)
        outer.enter()
        return self.grad_state.outer_grad_state.restore(history, shape)

    def accumulate_slices(self, enter_op, grad):
        """Concatenates the IndexedSlices gradients of a loop invariant. Called and left while
        entered."""
        self.exit()
        with entered(self._outer_context):
            initial = self._empty_slices(enter_op.inputs[0], grad)
        self.enter()
        pairs = [self._loop_variable(part, "b_acc", "b_acc", use_input_shape=False)
                 for part in initial]
        pairs[0][0].set_shape([None])
        if initial[1].shape.ndims is not None:
            pairs[1][0].set_shape([None] + initial[1].shape.as_list()[1:])
        switches = [routing.switch(merged, self.pivot) for _, merged in pairs]
        grown = [tensors.concat([pair[1], part], 0)
                 for pair, part in zip(switches, (grad.indices, grad.values))]
        if grad.dense_shape is not None:
            grown.append(binary_ops.Maximum(grad.dense_shape, switches[2][1]))
        for (_, merged), value in zip(pairs, grown):
            merged.op._update_input(1, routing.next_iteration(value))
        exits = [self._loop_result(pair[0], "b_acc") for pair in switches]
        self.exit_result(exits)
        return ops.IndexedSlices(exits[1], exits[0], exits[2] if len(exits) == 3 else None)

    def _zero_shape(self, value, dtype):
        """As many zeros as `value` has dimensions, around this gradient loop."""
        shape = tensors.cast(self._invariant_shape(value), dtype)
        return tensors.zeros_like(shape, optimize=False)

    def _empty_slices(self, value, grad):
        """[indices, values, dense_shape?] of one zero row: slices cannot have zero rows
        everywhere."""
        shape = grad.values.shape
        if shape.ndims is not None and shape[1:].is_fully_defined():
            values = ops.constant(0, grad.values.dtype, name="b_acc",
                                        shape=TensorShape([1] + shape.as_list()[1:]))
        else:
            row = tensors.concat([[1], self._invariant_shape(value)[1:]], 0)
            values = tensors.zeros(row, grad.values.dtype)
        parts = [ops.constant([0], grad.indices.dtype), values]
        if grad.dense_shape is not None:
            rank = grad.values.shape.ndims if shape.ndims is not None else value.shape.ndims
            parts.append(ops.constant(0, grad.dense_shape.dtype, shape=[rank])
                         if rank is not None else self._zero_shape(value, grad.dense_shape.dtype))
        return parts


class entered:
    """`with entered(context)`: `context` is current inside; None changes nothing."""

    def __init__(self, context):
        self._context = context

    def __enter__(self):
        if self._context is not None:
            self._context.enter()

    def __exit__(self, *unused):
        if self._context is not None:
            self._context.exit()


def _is_constant_enter(op):
    return op.type in ("Enter", "RefEnter") and op.get_attr("is_constant")


def _loop_tensor(value):
    return value.flow if is_tensor_array(value) else ops.convert_to_tensor(value)


def _require_same_dtype(merged, value):
    if merged.dtype.base_dtype != value.dtype.base_dtype:
        source = merged.op.inputs[0].op.inputs[0]
        raise TypeError(
            f"The loop variable that starts as '{source.name}' has dtype "
            f"{merged.dtype.base_dtype.name}, but the body returned '{value.name}' of dtype "
            f"{value.dtype.base_dtype.name} for it. Cast the returned value, or start with the "
            "other dtype.")


def _invariant_shapes(loop_vars, tensors, shape_invariants):
    """What shape each loop variable promises to keep."""
    if shape_invariants is None:
        return [tensor.shape for tensor in tensors]
    nest.assert_same_structure(loop_vars, shape_invariants, check_types=False)
    shapes = []
    for variable, shape in zip(nest.flatten(loop_vars), nest.flatten(shape_invariants)):
        shapes.extend(_component_shapes(variable, TensorShape(shape)))
    for tensor, shape in zip(tensors, shapes):
        if not routing.is_less_specific(shape, tensor.shape):
            raise ValueError(
                f"The shape invariant specified for {tensor.name} is not compatible with the "
                "initial shape of the loop variable. It enters the loop with shape "
                f"{tensor.shape}, but the specified shape invariant is {shape}.")
    return shapes


def _component_shapes(variable, shape):
    """The shapes of a loop variable's tensors, from the one shape the user gives."""
    if isinstance(variable, ops.SparseTensor):
        return [TensorShape([None, shape.ndims]), TensorShape([None]), TensorShape([shape.ndims])]
    if isinstance(variable, ops.IndexedSlices):
        parts = [shape, TensorShape([shape[0] if shape.ndims else None])]
        return parts if variable.dense_shape is None else parts + [TensorShape([shape.ndims])]
    return [shape]


# ------------------------------------------------------------------------------------- while_loop
def while_loop(cond, body, loop_vars, shape_invariants=None, parallel_iterations=10, back_prop=True,
               swap_memory=False, name=None, maximum_iterations=None, return_same_structure=False):
    """Repeats `body` while `cond` is true, and returns the loop variables' last values.

    `cond` and `body` take as many arguments as `loop_vars` has elements: tensors, TensorArrays,
    sparse tensors, or nests of them; `body` returns the same structure. `shape_invariants` (same
    structure, of TensorShapes) lets shapes vary. At most `parallel_iterations` iterations run at
    once and at most `maximum_iterations` in all. One loop variable comes back unpacked unless
    `return_same_structure`.
    Raises TypeError if cond or body is not callable or a dtype changes, ValueError for empty
    loop_vars or a shape that varies. TF: tf.while_loop.
    Loop variables: any shape and dtype."""
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    with ops.name_scope(name, "while", loop_vars):
        if not loop_vars:
            raise ValueError("No loop variables provided")
        single = len(loop_vars) == 1 and not return_same_structure
        if maximum_iterations is not None:
            maximum_iterations = _limit(maximum_iterations)
            cond, body, loop_vars, shape_invariants = _with_counter(
                cond, body, loop_vars, shape_invariants, maximum_iterations, single)
        context = WhileContext(maximum_iterations, parallel_iterations, back_prop, swap_memory)
        if maximum_iterations is None:
            return context.build(cond, body, loop_vars, shape_invariants, return_same_structure)
        return context.build(cond, body, loop_vars, shape_invariants, False)[1]


def _limit(maximum_iterations):
    limit = ops.convert_to_tensor(maximum_iterations, name="maximum_iterations")
    if limit.shape.ndims is not None and limit.shape.ndims != 0:
        raise ValueError(f"maximum_iterations must be a scalar, saw shape: {limit.shape}")
    return limit


def _with_counter(cond, body, loop_vars, shape_invariants, limit, single):
    """The loop with an iteration counter as first variable and its test in the predicate."""
    counter = ops.constant(0, dtype=limit.dtype, name="iteration_counter")
    spread = (lambda f: lambda lv: f(lv)) if single else (lambda f: lambda lv: f(*lv))
    inner_cond, inner_body = spread(cond), spread(body)

    def counted_cond(i, lv):
        return logic_ops.LogicalAnd(i < limit, inner_cond(lv))

    def counted_body(i, lv):
        returned = inner_body(lv)
        if isinstance(lv, list) and type(returned) is tuple:
            returned = list(returned)
        return i + 1, returned
    if shape_invariants is not None:
        invariants = shape_invariants[0] if single else shape_invariants
        shape_invariants = (TensorShape([]), invariants)
    loop_vars = (counter, loop_vars[0] if single else loop_vars)
    return counted_cond, counted_body, loop_vars, shape_invariants


PUBLIC = {"while_loop": while_loop}
