"""`tf.gradients`: reverse-mode differentiation of a graph, by adding nodes to it.

How it goes: the operations between `xs` and `ys` are found and counted; then each is visited once,
after all its consumers, its output gradients are summed, its gradient function adds nodes, and
their results become gradients of its inputs.  The work is linear in the operations between `xs`
and `ys`, not in the graph.

Invariants
  1. `pending[op]` is the number of consumers between `xs` and `ys` that have not been visited.
  2. `grads[tensor]` is the list of gradients received so far; it is summed when its operation is
     visited.
  3. A While that calls functions is a loop of version 1 before anything is counted.
  4. Inside a loop the gradient loop's context is current while nodes are added (see loop_state.py).
  5. None means "does not depend on": integers, strings and stopped tensors have no gradient.

Who calls it: users, Optimizer.compute_gradients.  Thread: the one building the graph.  Source: TF
1.x `gradients`.

Example:  `dx, = tf.gradients(tf.reduce_sum(x * x), [x])`   # 2 x
"""
import collections
from collections import abc
import contextlib

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.convert import to_tensor
from pyflow.framework.gradient_registry import get_gradient_function
from pyflow.gradients import aggregate, functional_loop, loop_state
from pyflow.gradients.explain import missing_gradient
from pyflow.lib.control_flow import control_flow_context
from pyflow.lib.control_flow.control_flow_context import is_loop_switch
from pyflow.lib.control_flow import grouping
from pyflow.ops.control import control_flow_ops, identity_ops, routing
from pyflow.ops.base import tensors
from pyflow.ops.state import resource_handles

ARRAYS = frozenset(("TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayGatherV3",
                    "TensorArrayScatterV3", "TensorArrayConcatV3", "TensorArraySplitV3"))
_TRAINABLE = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
                        dtypes.complex64, dtypes.complex128, dtypes.resource, dtypes.variant))


class UnconnectedGradients:
    """What the gradient is where y does not depend on x: "none" or "zero"."""
    NONE = "none"
    ZERO = "zero"


def gradients(ys, xs, grad_ys=None, name="gradients", colocate_gradients_with_ops=False,
              gate_gradients=False, aggregation_method=None, stop_gradients=None,
              unconnected_gradients=UnconnectedGradients.NONE, explain=False):
    """d(sum of ys)/dx for each x in `xs`: a list of Tensor, IndexedSlices or None.

    `grad_ys` are the gradients of `ys` (ones if None). `stop_gradients` are tensors taken as
    constants. `gate_gradients` delivers an op's input gradients only together.
    `colocate_gradients_with_ops` places gradient nodes with their forward op. aggregation_method:
    how several gradients are summed, a tf.AggregationMethod. unconnected_gradients: "none", or
    "zero" for zeros in place of None. With `explain`, an x that y does not depend on raises
    ValueError that names the op which breaks the path, instead of giving None.
    Raises LookupError if an op on the way has no gradient, ValueError and TypeError for bad
    arguments. TF: tf.gradients.
    Each gradient has the shape and dtype of its x. Raises LookupError for an op without
    gradient, ValueError for grad_ys that do not match ys.

        >>> x = tf.constant([1.0, 2.0])
        >>> tf.Session().run(tf.gradients(x * x, [x]))
        [array([2., 4.], dtype=float32)]
    """
    ys, xs = _as_list(ys), _as_list(xs)
    given_xs = xs
    stop_gradients = [] if stop_gradients is None else _as_list(stop_gradients)
    grad_ys = [None] * len(ys) if grad_ys is None else _as_list(grad_ys)
    unconnected_gradients = _unconnected_value(unconnected_gradients)
    values = ys + xs + stop_gradients + [grad for grad in grad_ys if grad is not None]
    with ops.name_scope(name, "gradients", values) as scope:
        ys = _as_tensors(ys, "y")
        xs = [_source_tensor(x) for x in xs]
        stop_gradients = _as_tensors(stop_gradients, "stop_gradients")
        uid = ops.get_default_graph().unique_name("uid", mark_as_used=False)
        insides = [_inside_function(x) for x in xs]
        backward = _Backward(ys, [x for x in insides if x is not None], stop_gradients,
                             colocate_gradients_with_ops, gate_gradients, aggregation_method, uid,
                             scope.rstrip("/"))
        backward.seed(_initial_gradients(grad_ys, ys, colocate_gradients_with_ops))
        backward.run()
        results = [None if x is None else backward.result(x) for x in insides]
    backward.close_loops()
    if explain:
        _require_connected(ys, xs, results)
    if unconnected_gradients == UnconnectedGradients.ZERO:
        results = [_zeros_of(x, given) if grad is None else grad
                   for x, given, grad in zip(xs, given_xs, results)]
    return results


def _zeros_of(x, given):
    """The gradient, zeros, with respect to what no y depends on; x: its tensor, perhaps a
    resource variable's handle."""
    if x.dtype.base_dtype != dtypes.resource:
        return tensors.zeros_like(x)
    if isinstance(given, ops.Tensor):           # a handle given as such
        raise ValueError(f"gradients: {x.name} is a handle, and no y depends on it: for zeros give "
                         "the variable")
    if given.shape.is_fully_defined():
        return tensors.zeros(given.shape, given.dtype.base_dtype)
    return tensors.zeros_like(given.read_value())


def _unconnected_value(value):
    value = getattr(value, "value", value)
    if value not in (UnconnectedGradients.NONE, UnconnectedGradients.ZERO):
        raise ValueError(f"Unknown value for unconnected_gradients: {value!r}; expected 'none' or "
                         f"'zero'")
    return value


def _require_connected(ys, xs, results):
    reasons = [missing_gradient(ys, x) for x, grad in zip(xs, results) if grad is None]
    if reasons:
        raise ValueError("No gradient:\n  " + "\n  ".join(reasons))


def _as_list(x):
    return list(x) if isinstance(x, (list, tuple, abc.MappingView)) else [x]


def _as_tensors(values, name):
    return [value.values if isinstance(value, ops.IndexedSlices) else
            ops.convert_to_tensor(value, name=f"{name}_{i}" if name == "y" else name)
            for i, value in enumerate(values)]


def _source_tensor(x):
    """The tensor that stands for x: a resource variable's handle, a reference variable's
    reference."""
    handle = getattr(x, "handle", None)
    if isinstance(handle, ops.Tensor) and hasattr(x, "initializer"):
        return handle
    if isinstance(x, ops.IndexedSlices):
        return x.values
    return to_tensor(x, None, "x", True)


def _inside_function(x):
    """What stands for x where the gradients are made: in a function's graph its argument for what
    it captured; in a function's loop, whose body is a function of its own in TF 2, the loop's value
    of what is outside, None if the body does not use it.  Elsewhere x itself."""
    graph = ops.get_default_graph()
    if not graph.building_function:
        return x
    if x.op.graph is not graph:
        x = graph.captured(x)
    context = graph._get_control_flow_context()
    loop = context.while_context() if context is not None else None
    if x is None or loop is None or control_flow_context.is_inside(x.op, loop):
        return x
    return loop.stand_in(x)


def _is_trainable(tensor):
    return tensor.dtype.base_dtype in _TRAINABLE


def _has_zeros(tensor):
    """True where a gradient that is missing may stand as zeros: not for a handle of nobody knows
    what variable, such as a call gives back."""
    return _is_trainable(tensor) and (tensor.dtype.base_dtype != dtypes.resource
                                      or resource_handles.known_dtype(tensor) is not None)


def _initial_gradients(grad_ys, ys, colocate):
    """One gradient per y: as given and checked, or ones."""
    if len(grad_ys) != len(ys):
        raise ValueError(f"Must pass {len(ys)} grad_ys, one per y, not {len(grad_ys)}")
    given = []
    for i, (grad, y) in enumerate(zip(grad_ys, ys)):
        scope = ops.colocate_with(y.op) if colocate else contextlib.nullcontext()
        with scope:
            given.append(_ones_like_y(y, i) if grad is None else _checked_gradient(grad, y, i))
    return given


def _ones_like_y(y, i):
    if y.dtype.is_complex:
        raise TypeError(f"Gradients of complex tensors ({y.name}, {y.dtype.name}) must set "
                        f"grad_ys")
    return tensors.ones(tensors.shape(y), dtype=y.dtype.base_dtype, name=f"grad_ys_{i}")


def _checked_gradient(grad, y, i):
    if not isinstance(grad, ops.IndexedSlices):
        dtype = None if isinstance(grad, ops.Tensor) else y.dtype.base_dtype
        grad = ops.convert_to_tensor(grad, dtype=dtype, name=f"grad_y_{i}")
    y_type, grad_type = y.dtype.base_dtype, grad.dtype.base_dtype
    for kind in ("is_floating", "is_integer", "is_complex"):
        if getattr(y_type, kind) and not getattr(grad_type, kind):
            raise TypeError(f"Gradient type {grad_type.name} generated for {kind[3:]}-valued "
                            f"tensor {y.name} of type {y_type.name} must be {kind[3:]}")
    if isinstance(grad, ops.Tensor):
        _check_size(y, grad, i)
        return identity_ops.Identity(grad, name=f"grad_ys_{i}")
    return routing.identity_of(grad, name=f"grad_ys_{i}")


def _check_size(y, grad, i):
    """A given gradient has y's shape, or as many elements: the gradient functions of Reshape, Sum
    and such reshape it, as in TF, those of other ops refuse it."""
    size = y.shape.num_elements()
    if y.shape.is_compatible_with(grad.shape) or (
            size is not None and size == grad.shape.num_elements()):
        return
    raise ValueError(f"grad_ys[{i}] does not fit {y.name}: expected shape {y.shape}, got "
                     f"{grad.shape}")


class _Backward:
    """One backward sweep."""

    def __init__(self, ys, xs, stops, colocate, gate, method, uid, scope):
        if method not in (None,) + aggregate.METHODS:
            raise ValueError(f"Invalid aggregation_method specified {method}.")
        self.ys, self.xs = ys, xs
        self.sources = {x.op for x in xs}
        self.stopped = {t for t in stops}
        self.colocate, self.gate, self.method, self.uid = colocate, gate, method, uid
        self.scope = scope
        self.grads = {}
        reached = _reached_from(xs)
        loop_state.refuse_second_order(reached, ys, self.stopped, _passes_gradients)
        self.pending, self.between, self.loops = _count(ys, reached, colocate)
        functional = [op for op in self.between if op.type in functional_loop.OPS]
        if functional:
            for op in sorted(functional, key=lambda op: op._id):
                functional_loop.lower(op)
            self.pending, self.between, self.loops = _count(ys, _reached_from(xs), colocate)
        _reject_arrays_outside(self.between)
        self.stop_ops = frozenset()
        self.ready = collections.deque()

    def _stop_ops(self):
        """Where the sweep ends: sources none of whose inputs leads on to another source, and
        stopped tensors."""
        ends = set()
        for op in self.sources:
            if not any(self.pending[t.op] > 0 for t in op.inputs):
                ends.add(op)
        return ends | {t.op for t in self.stopped}

    # ----------------------------------------------------------------------------------- gradients
    def seed(self, gradients_of_ys):
        for y, grad in zip(self.ys, gradients_of_ys):
            self.add(y, grad)

    def add(self, tensor, grad):
        """Records one more gradient of `tensor`. A loop's Switch keeps its two visits apart: the
        last counts."""
        if is_loop_switch(tensor.op):
            self.grads[tensor] = [grad]
        else:
            self.grads.setdefault(tensor, []).append(grad)

    def summed(self, tensor):
        """The total gradient of `tensor` so far, or None."""
        parts = [grad for grad in self.grads.get(tensor, ()) if grad is not None]
        if not parts:
            return None
        result = aggregate.total(parts, self.method)
        self.grads[tensor] = [result]
        return result

    def result(self, x):
        parts = self.grads.get(x)
        if not parts:
            return None
        if len(parts) > 1:
            with self._placed(x.op):
                return self.summed(x)
        return parts[0]

    # --------------------------------------------------------------------------------------- sweep
    def run(self):
        for op in dict.fromkeys(y.op for y in self.ys):
            if op in self.between and not self.pending[op]:
                self.ready.append(op)
        if self.loops:
            for loop_exit in self.loops.unused_exits(self.pending, set(self.ready)):
                if _is_trainable(loop_exit):
                    self.add(loop_exit, self.loops.zeros_for_exit(loop_exit))
                    self.ready.append(loop_exit.op)
        self.stop_ops = self._stop_ops()
        while self.ready:
            self._visit(self.ready.popleft())

    def close_loops(self):
        """Gives every gradient loop that still lacks one its back edge."""
        if self.loops:
            self.loops.close_back_edges()

    def _visit(self, op):
        loops = self.loops
        with self._placed(op):
            if loops:
                loops.enter(op, before=True)
            out_grads = [self.summed(t) for t in op.outputs]
            if loops:
                loops.exit(op, before=True)
                loops.enter(op, before=False)
            self._pass_on(op, out_grads)
            if loops:
                loops.exit(op, before=False)
        self._release_inputs(op)

    def _pass_on(self, op, out_grads):
        """Gives the inputs of `op` the gradients that its gradient function makes."""
        if op in self.stop_ops or all(grad is None for grad in out_grads):
            return
        function = gradient_function(op)
        if function is None:
            return
        self._reject_initial_value(op)
        for tensor, grad in zip(op.inputs, self._differentiate(op, function, out_grads)):
            if grad is not None:
                _set_static_shape(tensor, grad, op)
                self.add(tensor, grad)

    def _differentiate(self, op, function, out_grads):
        for i, grad in enumerate(out_grads):
            if grad is None and _has_zeros(op.outputs[i]):
                out_grads[i] = (self.loops.zeros_like(op, i) if self.loops
                                else loop_state.zeros_like_output(op, i))
        graph = op.graph
        with ops.name_scope(op.name + "_grad"), graph._original_op(op), self._named():
            in_grads = function(op, *out_grads)
            in_grads = list(in_grads) if isinstance(in_grads, (list, tuple)) else [in_grads]
            _check_generated(op, in_grads)
            if self.gate and sum(g is not None for g in in_grads) > 1:
                with ops.device(None), ops.colocate_with(None, ignore_existing=True):
                    in_grads = grouping.gated_tuple(in_grads)
        return in_grads

    @contextlib.contextmanager
    def _named(self):
        """Gradient functions find the sweep's name in the graph: TensorArrays have theirs by it."""
        graph = ops.get_default_graph()
        outer, graph.sweep = graph.sweep, self.scope
        try:
            yield
        finally:
            graph.sweep = outer

    def _reject_initial_value(self, op):
        if is_loop_switch(op) and op._get_control_flow_context() is (
                ops.get_default_graph()._get_control_flow_context()):
            names = ", ".join(x.name for x in self.xs)
            raise ValueError(f"Cannot compute gradient inside while loop with respect to {names}: "
                             "call tf.gradients outside the loop, or with respect to the loop "
                             "variable")

    def _release_inputs(self, op):
        """Counts this visit down at the producers. A loop's Switch is ready twice: after Exit,
        after the body."""
        for tensor in op.inputs:
            producer = tensor.op
            self.pending[producer] -= 1
            left = self.pending[producer]
            if left == 0 or (left > 0 and self.loops and is_loop_switch(producer)):
                if routing.is_loop_exit(producer):
                    self._defer_exit(tensor)
                else:
                    self.ready.append(producer)

    def _defer_exit(self, tensor):
        """All exits of a loop are visited together, once each has its gradient, or zeros, or none
        has any."""
        state = self.loops.of(tensor.op, before=False)
        state.deferred_exits.append(tensor)
        state.pending_exits -= 1
        if state.pending_exits:
            return
        reached = [e for e in state.deferred_exits if _any_gradient(self.grads.get(e))]
        state.unused_exits.extend(e for e in state.deferred_exits if e not in set(reached))
        self.ready.extend(e.op for e in reached)
        for loop_exit in state.unused_exits:
            if reached and _is_trainable(loop_exit):
                self.add(loop_exit, self.loops.zeros_for_exit(loop_exit))
            self.ready.append(loop_exit.op)

    # --------------------------------------------------------------------------------------- scopes
    def _placed(self, op):
        if not self.colocate:
            return contextlib.nullcontext()
        return ops.get_default_graph()._colocate_with_for_gradient(op, self.uid)


def _reject_gradient_loops(order):
    """TypeError where the sweep meets a gradient loop: it would be one of a gradient."""
    for op in order:
        if routing.is_loop_exit(op):
            context = op._get_control_flow_context()
            if context is not None and context.grad_state is not None:
                raise TypeError(control_flow_ops.second_order_message(context.name))


def _reject_arrays_outside(between):
    """ValueError where the sweep is made inside a loop and goes through a TensorArray outside it:
    the gradients of all turns would add up in one array."""
    current = ops.get_default_graph()._get_control_flow_context()
    loop = current.while_context() if current is not None else None
    if loop is None:
        return
    for op in between:
        if op.type in ARRAYS and control_flow_context.while_context_of(op) is None:
            raise ValueError(f"Cannot compute gradient inside while loop {loop.name!r} through the "
                             f"TensorArray of {op.name!r}, which is outside of it: call "
                             "tf.gradients outside the loop, once for each turn")


def between(ys, xs):
    """The operations on differentiable paths from `xs` to `ys`."""
    return _leading_to(ys, _reached_from(xs))[0]


def _any_gradient(parts):
    return any(grad is not None for grad in parts or ())


# ------------------------------------------------------------------------------------ reachability


def _count(ys, reached, colocate):
    """(pending, between, loop states) of the operations on paths to ys from the xs, on which those
    of `reached` depend."""
    between, order = _leading_to(ys, reached)
    _reject_gradient_loops(order)
    loops = loop_state.loop_states(order, between, colocate)
    pending = collections.defaultdict(int)
    for op in order:
        for tensor in op.inputs:
            if tensor.op in between:
                pending[tensor.op] += 1
    return pending, between, loops


def _reached_from(xs):
    """Every operation that depends on some x through differentiable tensors."""
    reached, queue = set(), collections.deque(x.op for x in xs)
    while queue:
        op = queue.popleft()
        if op in reached:
            continue
        reached.add(op)
        for tensor in op.outputs:
            if _is_trainable(tensor):
                queue.extend(tensor.consumers())
    return reached


def _leading_to(ys, reached):
    """(set, list in visiting order) of reached operations some y depends on."""
    between, order = set(), []
    queue = collections.deque(y.op for y in ys)
    while queue:
        op = queue.popleft()
        if op in reached and op not in between:
            between.add(op)
            order.append(op)
            queue.extend(tensor.op for tensor in op.inputs)
    return between, order


# ------------------------------------------------------------------------------ gradient functions


def gradient_function(op):
    """The gradient function of `op`; None if it is not differentiable; LookupError names the op."""
    try:
        return get_gradient_function(op)
    except LookupError as error:
        raise LookupError(f"No gradient defined for operation '{op.name}' (op type: {op.type}, "
                          f"made at {op.user_frame}). {error}") from None


def _passes_gradients(op):
    try:
        return get_gradient_function(op) is not None
    except LookupError:
        return True                     # refused if it is met, or else not on the way


def _check_generated(op, in_grads):
    if len(in_grads) != len(op.inputs):
        raise ValueError(f"Num gradients {len(in_grads)} generated for op {op.name} (type "
                         f"{op.type}) do not match num inputs {len(op.inputs)}: its gradient "
                         "function must return one per input, None where there is none")


def _set_static_shape(tensor, grad, op):
    """A gradient has its tensor's shape."""
    if not isinstance(grad, ops.Tensor):
        return
    is_handle = tensor.dtype.base_dtype == dtypes.resource
    try:
        grad.set_shape(resource_handles.handle_shape(tensor) if is_handle else tensor.shape)
    except ValueError:
        raise ValueError(
            "Incompatible shapes between op input and calculated input gradient. Forward "
            f"operation: {op.name}. Input: {tensor.name} with shape {tensor.shape}. Calculated "
            f"gradient: {grad.name} with shape {grad.shape}") from None


PUBLIC = {"gradients": gradients, "AggregationMethod": aggregate.AggregationMethod,
          "UnconnectedGradients": UnconnectedGradients}
