"""`tf.switch_case` and the branches of a Case: one of several functions, chosen by a number.

Invariants
  1. A branch is a conditional's branch whose predicate is the branch index: values enter through
     _SwitchN, of which it uses output `branch`; results leave through one Merge per leaf, in order
     of the branches.
  2. A _SwitchN may serve one branch (built here) or all (an imported Case); either way its output
     k is the data where branch k is taken, so gradients take the data instead.
  3. Branches of a _SwitchN that a program wired up itself, with its Merge, inside a loop, become
     known when a gradient first goes through the loop.

Thread: the one building the graph.  Source: TF 1.15 `switch_case`; Case of TF's functional ops.

Example:  `y = tf.switch_case(i, [lambda: x, lambda: 2.0 * x, lambda: tf.sin(x)])`
"""
from collections import abc

from pyflow.framework import dtypes, graph as ops, nest
from pyflow.lib.control_flow.cond import CondContext, built_branch, merged_leaf, repacked
from pyflow.lib.control_flow.while_loop import entered
from pyflow.ops.control import identity_ops, routing
from pyflow.ops.elementwise import logic_ops


class CaseContext(CondContext):
    """Branch number `branch` of `count`; its `pred` is the branch index."""

    def __init__(self, index, pivot, branch, count, name="case_text"):
        super().__init__(index, pivot, branch, name)
        self._count = count

    @property
    def case_count(self):
        return self._count

    def alive(self, value, index, name="SwitchN"):
        value = routing.tensor_or_slices(value, as_ref=True)
        if isinstance(value, ops.Tensor) and value.dtype._is_ref_dtype:
            with entered(self._outer_context):
                taken = self._is_taken(index)
            return routing.switch_ref_or_tensor(value, taken)[1]
        return routing.switch_n(value, index, self._count, name)[self._branch]

    def _is_taken(self, index):
        if self._branch < self._count - 1:
            return logic_ops.Equal(index, self._branch)
        return logic_ops.LogicalOr(logic_ops.Less(index, 0),
                                   logic_ops.GreaterEqual(index, self._branch))


def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    """Function number `branch_index`, an int32 scalar, of `branch_fns`.

    `branch_fns` is a list of callables, or a dict or list of (number, callable) with the numbers
    0 ... n-1. `default` is one more function. The last function also runs where the index is
    negative or too large. All return the same nesting of tensors; a list of one is unpacked.
    TF: tf.switch_case.
    Results agree in dtype and structure; the shape is what they have in common. TypeError for what
    cannot be called or is no int32, ValueError for other numbers and results that differ."""
    functions = _functions(branch_fns, default)
    with ops.name_scope(name, "switch_case", [branch_index]):
        index = ops.convert_to_tensor(branch_index, dtype=dtypes.int32, name="branch_index")
        index = identity_ops.Identity(index, name="index")
        pivots = [identity_ops.Identity(side, name=f"switch_{k}")
                  for k, side in enumerate(routing.switch_n(index, index, len(functions)))]
        for tensor in [index, *pivots]:
            tensor.op.graph.prevent_fetching(tensor.op)
        built = [built_branch(CaseContext(index, pivot, k, len(functions)), function, f"branch {k}")
                 for k, (function, pivot) in enumerate(zip(functions, pivots))]
        for k, (returned, _) in enumerate(built):
            _require_same_structure(built[0][0], returned, k)
        leaves = [nest.flatten(result, expand_composites=True) for _, result in built]
        names = [f"branch {k}" for k in range(len(functions))]
        return repacked(built[0][0], [merged_leaf(values, names) for values in zip(*leaves)])


def _functions(branch_fns, default):
    found = list(branch_fns.items() if isinstance(branch_fns, abc.Mapping) else branch_fns)
    if found and all(isinstance(item, tuple) and len(item) == 2 for item in found):
        numbers = sorted(number for number, _ in found)
        if numbers != list(range(len(found))):
            raise ValueError(f"switch_case(): the numbers of the branches must be 0 ... "
                             f"{len(found) - 1}, got {numbers}")
        found = [function for _, function in sorted(found, key=lambda item: item[0])]
    found += [default] if default is not None else []
    if not found:
        raise ValueError("switch_case(): give at least one function, or a default")
    for k, function in enumerate(found):
        if not callable(function):
            raise TypeError(f"switch_case(): branch {k} must be callable, got {function!r}")
    return found


def _require_same_structure(first, other, number):
    try:
        nest.assert_same_structure(first, other, expand_composites=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Incompatible return types of branch 0 and branch {number} of "
                          f"switch_case: {error}") from None


# ----------------------------------------------------------------------- wired up by the program
def know_branches(switches):
    """Gives what stands between _SwitchN and Merge, in a loop, its branch; `switches` are ops."""
    contexts = {}
    for op in switches:
        around, index, count = op._get_control_flow_context(), op.inputs[1], len(op.outputs)
        if not around.is_while_context():
            continue
        for k, output in enumerate(op.outputs):
            users = _users(output, around)
            if users and (key := (around, index, count, k)) not in contexts:
                with entered(around):
                    pivot = identity_ops.Identity(output, name="pivot")
                    contexts[key] = CaseContext(index, pivot, k, count)
            for user in users:
                user._set_control_flow_context(contexts[key])
                contexts[key].mark_known([t.name for t in user.outputs])


def _users(output, around):
    """The operations in `around` itself that need `output`, up to the Merge that joins the
    branches."""
    found, todo = {}, [output]
    while todo:
        for user in todo.pop().consumers():
            context = user._get_control_flow_context()
            if user.type == "Merge" or user in found or _in_case(context, around):
                continue
            if context is not around:
                raise ValueError(
                    f"'{user.name}' ({user.type}) uses a branch of '{output.op.name}' (_SwitchN) "
                    f"from inside another loop or conditional, so the graph does not know the "
                    f"branch: build it with tf.switch_case. ({user.user_frame})")
            found[user] = True
            todo.extend(user.outputs)
    return list(found)


def _in_case(context, around):
    """True if a branch of a Case stands between `context` and `around`."""
    while context is not None and context is not around:
        if context.case_count:
            return True
        context = context.outer_context
    return False


PUBLIC = {"switch_case": switch_case}
