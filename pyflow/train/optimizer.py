"""Optimizer: what all optimizers share, from a loss to the operation that takes one training step.

Invariants
  1. minimize = compute_gradients + apply_gradients; gradients may be changed in between.
  2. Each variable has its slots, variables of the same shape named after it: "W/Momentum".
  3. A subclass defines the step for dense and sparse gradients, on references and on handles.
     Sparse gradients arrive with unique indices.
  4. Without any gradient the error says, for each variable, which op breaks the path from the loss.

Thread: the one building the graph.  Source: TF 1.x tf.train.Optimizer.

Example:  `train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.framework.shown import ShowsArguments
from pyflow.gradients.backprop import gradients
from pyflow.gradients.explain import missing_gradient
from pyflow.framework import nest
from pyflow.lib.variables import variables
from pyflow.lib.variables.resource_variables import is_resource_variable
from pyflow.lib.control_flow import grouping
from pyflow.ops.base import tensors

from pyflow.lib.variables import state_functions
from pyflow.ops.state import resource_handles
from pyflow.train import slot_creator

_VALID_DTYPES = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
                 dtypes.complex64, dtypes.complex128)


class Optimizer(ShowsArguments):
    """Base of optimizers. `use_locking` locks variables while they are updated; `name` prefixes the
    ops."""

    GATE_NONE = 0       # gradients are used as soon as they are ready
    GATE_OP = 1         # an op's input gradients are all ready before one is used
    GATE_GRAPH = 2      # all gradients are ready before one is used

    def __init__(self, use_locking, name):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots = {}                    # slot name -> (graph, variable name) -> slot variable
        self._non_slot = {}                 # (name, graph) -> variable

    def get_name(self):
        """The name given to the constructor."""
        return self._name

    # ------------------------------------------------------------------------------------- training
    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=GATE_OP,
                 aggregation_method=None, colocate_gradients_with_ops=False, name=None,
                 grad_loss=None):
        """The operation that takes one step down the gradient of `loss`, and adds 1 to
        `global_step`.

        `var_list` defaults to the trainable variables. Raises ValueError if no variable has a
        gradient, with the reason for each."""
        pairs = self.compute_gradients(
            loss, var_list=var_list, gate_gradients=gate_gradients, grad_loss=grad_loss,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops)
        if all(grad is None for grad, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not "
                f"support gradients, between variables {[str(v) for _, v in pairs]} and loss "
                f"{loss}."
                + ("" if callable(loss) else _reasons(loss, [v for _, v in pairs])))
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(self, loss, var_list=None, gate_gradients=GATE_OP,
                          aggregation_method=None, colocate_gradients_with_ops=False,
                          grad_loss=None):
        """[(gradient or None, variable)] of `loss`, a tensor or a function that makes it."""
        if callable(loss):
            loss = loss()
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError("gate_gradients must be one of: Optimizer.GATE_NONE, "
                             f"Optimizer.GATE_OP, Optimizer.GATE_GRAPH.  Not {gate_gradients}")
        self._assert_valid_dtypes([loss] + ([] if grad_loss is None else [grad_loss]))
        if var_list is None:
            var_list = (variables.trainable_variables()
                        + ops.get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES))
        else:
            var_list = nest.flatten(var_list)
        if not var_list:
            raise ValueError("No variables to optimize.")
        targets = [_target(variable) for variable in var_list]
        grads = gradients(loss, targets, grad_ys=grad_loss, aggregation_method=aggregation_method,
                          gate_gradients=gate_gradients == self.GATE_OP,
                          colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gate_gradients == self.GATE_GRAPH:
            grads = grouping.gated_tuple(grads)
        pairs = list(zip(grads, var_list))
        self._assert_valid_dtypes([v for grad, v in pairs
                                   if grad is not None and v.dtype != dtypes.resource])
        return pairs

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that applies gradients as `compute_gradients` returns them.

        Raises TypeError for something that is no gradient, ValueError if all are None."""
        pairs = [(_as_gradient(grad), variable) for grad, variable in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        targets = [variable for grad, variable in pairs if grad is not None]
        if not targets:
            raise ValueError("No gradients provided for any variable: "
                             f"{[str(variable) for _, variable in pairs]}.")
        with ops.graph_of(targets[:1]).as_default():      # a function's while one is built
            return self._applied(pairs, targets, global_step, name)

    def _applied(self, pairs, targets, global_step, name):
        with ops.control_dependencies(None):
            self._create_slots(targets)
        with ops.name_scope(name, self._name) as scope:
            self._prepare()
            updates = [self._placed_update(grad, variable) for grad, variable in pairs
                       if grad is not None]
            train_op = self._counted(updates, global_step, scope)
        collection = ops.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in collection:
            collection.append(train_op)
        return train_op

    def _counted(self, updates, global_step, scope):
        """The last operation of a step: the updates, then global_step += 1."""
        if global_step is None:
            return self._finish(updates, scope)
        with ops.control_dependencies([self._finish(updates, "update")]):
            with ops.colocate_with(global_step.op):
                if is_resource_variable(global_step):
                    one = ops.constant(1, dtype=global_step.dtype)
                    return resource_handles.AssignAddVariableOp(global_step.handle, one, name=scope)
                return state_functions.assign_add(global_step, 1, name=scope).op

    def _placed_update(self, grad, variable):
        with ops.name_scope("update_" + variable.op.name), ops.colocate_with(variable.op):
            return self._update(grad, variable)

    def _update(self, grad, variable):
        """The step of one variable, its constraint included."""
        sparse = isinstance(grad, ops.IndexedSlices)
        if sparse and variable.constraint is not None:
            raise RuntimeError("Cannot use a constraint function on a sparse variable.")
        if not isinstance(variable, variables.Variable):
            raise TypeError(f"Trying to optimize unsupported type {variable!r}; expected a "
                            f"tf.Variable")
        if is_resource_variable(variable):
            if sparse:
                return self._resource_apply_sparse_duplicate_indices(grad.values, variable,
                                                                     grad.indices)
            update = self._resource_apply_dense(grad, variable)
        else:
            if sparse:
                return self._apply_sparse_duplicate_indices(grad, variable)
            update = self._apply_dense(grad, variable)
        if variable.constraint is None:
            return update
        with ops.control_dependencies([update]):
            constrained = variable.constraint(variable)
            return variable.assign(constrained, read_value=False)

    def _assert_valid_dtypes(self, tensors):
        for tensor in tensors:
            dtype = tensor.dtype.base_dtype
            if dtype not in self._valid_dtypes():
                raise ValueError(f"Invalid type {dtype.name} for {tensor.name}, expected: "
                                 f"{[d.name for d in self._valid_dtypes()]}.")

    def _valid_dtypes(self):
        return _VALID_DTYPES

    # ------------------------------------------------------------------------------- for subclasses
    def _create_slots(self, var_list):
        """Makes the slots of the variables."""

    def _prepare(self):
        """Makes the tensors of hyper-parameters."""

    def _apply_dense(self, grad, var):
        """The operation that updates reference variable `var`."""
        raise _not_overridden(self, "_apply_dense", var)

    def _resource_apply_dense(self, grad, handle):
        """The operation that updates resource variable `handle`."""
        raise _not_overridden(self, "_resource_apply_dense", handle)

    def _apply_sparse(self, grad, var):
        """As _apply_dense, for IndexedSlices with unique indices."""
        raise _not_overridden(self, "_apply_sparse", var)

    def _resource_apply_sparse(self, grad, handle, indices):
        """As _resource_apply_dense, for rows `indices`, which are unique."""
        raise _not_overridden(self, "_resource_apply_sparse", handle)

    def _apply_sparse_duplicate_indices(self, grad, var):
        """As _apply_sparse, indices may repeat."""
        values, indices = summed_rows(grad.values, grad.indices)
        return self._apply_sparse(ops.IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        """As _resource_apply_sparse, indices may repeat."""
        values, indices = summed_rows(grad, indices)
        return self._resource_apply_sparse(values, handle, indices)

    def _finish(self, update_ops, name_scope):
        """One operation for all updates."""
        return grouping.group(*update_ops, name=name_scope)

    # ---------------------------------------------------------------------------------------- slots
    def get_slot(self, var, name):
        """The slot `name` of `var`, or None."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self):
        """Names of the slots this optimizer makes."""
        return sorted(self._slots)

    def variables(self):
        """All variables this optimizer made in the default graph."""
        graph = ops.get_default_graph()
        own = [v for v in self._non_slot.values() if v.graph is graph]
        for slots in self._slots.values():
            own.extend(slot for slot in slots.values() if slot.graph is graph)
        return sorted(own, key=lambda variable: variable.name)

    def _get_or_make_slot(self, var, val, slot_name, op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(self, var, initializer, shape, dtype, slot_name,
                                           op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_slot_with_initializer(
            var, initializer, shape, dtype, op_name))

    def _zeros_slot(self, var, slot_name, op_name):
        return self._slot(var, slot_name, lambda: slot_creator.create_zeros_slot(var, op_name))

    def _slot(self, var, slot_name, make):
        slots = self._slots.setdefault(slot_name, {})
        found = slots.get(_key(var))
        if found is None:
            found = slots[_key(var)] = make()
        return found

    def _create_non_slot_variable(self, initial_value, name, colocate_with):
        """A variable that belongs to the optimizer, not to one variable."""
        graph = colocate_with.graph
        key = (name, graph)
        if key not in self._non_slot:
            with ops.colocate_with(colocate_with.op):
                self._non_slot[key] = variables.Variable(
                    initial_value, name=name, trainable=False,
                    use_resource=is_resource_variable(colocate_with))
        return self._non_slot[key]

    def _get_non_slot_variable(self, name, graph=None):
        return self._non_slot.get((name, graph))


def _key(var):
    return var.graph, var.op.name


def _target(variable):
    """What gradients are taken with respect to."""
    if isinstance(variable, variables.Variable) and not is_resource_variable(variable):
        return variable._ref()
    return variable


def _as_gradient(grad):
    if grad is None:
        return None
    try:
        return ops.convert_to_tensor_or_indexed_slices(grad)
    except TypeError:
        raise TypeError("Gradient must be convertible to a Tensor or IndexedSlices, or None: "
                        f"{grad}") from None


def _reasons(loss, var_list):
    return "".join("\n  " + missing_gradient([loss], variable) for variable in var_list[:20])


def _not_overridden(optimizer, method, variable):
    """What a subclass that lacks a method which a variable needs is told; one that overrides
    apply_gradients needs none."""
    return NotImplementedError(
        f"{type(optimizer).__name__} has no {method}, which the update of variable "
        f"'{variable.name}' calls: define it (see tf.train.Optimizer), or override apply_gradients")


def summed_rows(values, indices):
    """(values, indices) with each index once, its rows summed."""
    from pyflow.lib.array import partition_functions
    from pyflow.ops.reduce import segment_ops
    unique, position = partition_functions.unique(indices)[:2]
    count = tensors.shape(unique)[0]
    return segment_ops.UnsortedSegmentSum(values, position, count), unique


def hyperparameter(value, name):
    """A number, tensor or function of no arguments as a tensor."""
    return ops.convert_to_tensor(value() if callable(value) else value, name=name)


def cast_like(tensor, var):
    """`tensor` (or variable) in the element type of `var`; as it is if it has that type."""
    if tensor.dtype.base_dtype == var.dtype.base_dtype:
        return tensor
    return tensors.cast(tensor, var.dtype.base_dtype)


PUBLIC = {"train.Optimizer": Optimizer}
