"""Functional loops on the way of a gradient become loops of version 1, in place.

    w = While(x, c, b)      ->      w = IdentityN(exits of while_loop(call of c, call of b) over x)

Invariants
  1. The node keeps its name and its tensors, so whoever has or reads one of them reads the loop's
     result; the loop runs once, whether or not a gradient is fetched, and what its body draws is
     what its gradient sees: the calls in it save that (call_gradient.py), iteration by iteration.
  2. Condition and body stay calls, which are inlined, or run, as others: a recursive body is called
     in the loop and its gradient function in the gradient loop.
  3. What the body returns as it got it is no loop variable: it is read inside, from outside.
  4. The loop's nodes stand before the node in the graph's order, in its context, on its device.

Thread: the one building the graph.  Who calls it: backprop.py, before it counts.  Source: TF's
lower_while_op, which does this when a graph is run; while_v2 gives such nodes gradients in TF.
"""
from pyflow.framework import dtypes, function_export, graph as ops
from pyflow.framework.op import find_op
from pyflow.lib.control_flow.while_loop import while_loop
from pyflow.ops.base import tensors
from pyflow.ops.control import functional_ops, identity_ops
from pyflow.ops.elementwise import logic_ops

OPS = frozenset(("While", "StatelessWhile"))


def lower(op):
    """Makes a While or StatelessWhile Operation the results of a loop of version 1.

    NotFoundError for functions that the library lacks, ValueError for such of other types."""
    library, count = op.graph._library, len(op.inputs)
    types = [t.dtype.base_dtype for t in op.inputs]
    cond = _function(op, library, "cond", types, None)
    body = _function(op, library, "body", types, types)
    loop = _Loop(op, cond, body, _varying(body) if count else [])
    if not count:
        raise ValueError(f"No gradient of operation {op.name!r} ({op.type}): it has no variables")
    first = op.graph.version
    context = op._get_control_flow_context()
    with op.graph.as_default(), ops.control_dependencies(None), ops.device(op.device or None):
        if context is not None:
            context.Enter()
        try:
            with ops.name_scope(f"{op.name}/lowered/"), ops.control_dependencies(op.control_inputs):
                results = loop.build()
        finally:
            if context is not None:
                context.Exit()
    op._become(find_op("IdentityN"), results, {"T": types})
    op.graph._put_before(op, first)


def _function(op, library, key, args, results):
    """The Body of the function in attribute `key`; ValueError unless it has these types."""
    ref = op.attrs[key]
    body = library.body(ref.name, ref.attrs, op.name)
    for what, wanted, found in (("arguments", args, body.args), ("results", results, body.results)):
        found = [t.dtype.base_dtype for t in found]
        if wanted is not None and found != wanted or wanted is None and len(found) != 1:
            raise ValueError(
                f"Operation {op.name!r} ({op.type}): its {key} {ref.name!r} has {what} "
                f"{[t.name for t in found]}, expected "
                f"{'one result' if wanted is None else [t.name for t in wanted]}")
    return body


def _varying(body):
    """The arguments that the body may return otherwise than it got them; at least one."""
    found = [i for i, t in enumerate(body.results) if _source(t) is not body.args[i]]
    return found or [0]


def _source(tensor):
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


class _Loop:
    """One loop, while it is built."""

    def __init__(self, op, cond, body, varying):
        self.op, self.cond, self.body, self.varying = op, cond, body, varying

    def build(self):
        """A result for each variable."""
        op = self.op
        exits = while_loop(
            self.test, self.step, [op.inputs[i] for i in self.varying],
            shape_invariants=[op.outputs[i].shape for i in self.varying],
            parallel_iterations=op.attrs.get("parallel_iterations") or 10,
            return_same_structure=True, name="while")
        results = list(op.inputs)
        for i, tensor in zip(self.varying, exits):
            results[i] = tensor
        return results

    def arguments(self, variables):
        found = list(self.op.inputs)
        for i, tensor in zip(self.varying, variables):
            found[i] = tensor
        return found

    def test(self, *variables):
        """What While takes for true: a number that is not 0, a text or a tensor that is not empty."""
        held, = _call(self.op.attrs["cond"], self.cond, self.arguments(variables))
        rank = self.cond.results[0].shape.ndims
        if rank:
            return logic_ops.NotEqual(tensors.size(held), 0)
        if rank == 0:
            held.set_shape([])
            return _true(held)
        some = logic_ops.NotEqual(tensors.size(held), 0)
        scalar = logic_ops.Equal(tensors.rank(held), 0)
        padded = tensors.concat([tensors.reshape(held, [-1]), _false(held)], 0)
        first = _true(padded[0])
        return logic_ops.LogicalAnd(some, logic_ops.LogicalOr(logic_ops.LogicalNot(scalar), first))

    def step(self, *variables):
        results = _call(self.op.attrs["body"], self.body, self.arguments(variables))
        for i in self.varying:
            results[i].set_shape(self.op.outputs[i].shape)
        return [results[i] for i in self.varying]


def _false(tensor):
    """What `_true` takes for false, as a vector."""
    return tensors.zeros([1], tensor.dtype.base_dtype)


def _true(scalar):
    if scalar.dtype.base_dtype == dtypes.bool:
        return scalar
    return logic_ops.NotEqual(scalar, _false(scalar)[0])


def _call(ref, body, args):
    """The results of a call, after its effects."""
    stateful = bool(body.effects) or any(
        op.op_def.stateful for op in function_export.reachable(body.results, [], body.args))
    block = functional_ops.StatefulPartitionedCall if stateful else functional_ops.PartitionedCall
    found = block(args, Tout=[t.dtype.base_dtype for t in body.results], f=ref)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    if not body.effects:
        return found
    with ops.control_dependencies([found[0].op]):
        return [identity_ops.Identity(t) for t in found]
