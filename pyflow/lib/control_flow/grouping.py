"""tf.group, tf.tuple, tf.no_op: one operation that stands for many, tensors that wait."""
from pyflow.framework import graph as ops, nest
from pyflow.ops.control.control_flow_ops import NoOp
from pyflow.ops.control.routing import identity_of


# ----------------------------------------------------------------------------------------- grouping
def no_op(name=None):
    """An Operation that does nothing.
    Dtypes, shapes, errors: as op NoOp.

        >>> print(tf.Session().run(tf.no_op()))
        None
    """
    return NoOp(name=name)


def with_dependencies(dependencies, output_tensor, name=None):
    """`output_tensor`, delivered only after `dependencies` have run."""
    with ops.name_scope(name, "control_dependency", list(dependencies) + [output_tensor]) as name:
        with ops.colocate_with(output_tensor):
            with ops.control_dependencies(dependencies):
                return identity_of(output_tensor, name=name)


def group(*inputs, name=None, **kwargs):
    """An Operation that finishes after all `inputs` (Operations, Tensors, or nests of them) have.

    Grouping nothing gives a no-op. Several devices give one NoOp each and one over them.
    Raises TypeError for something that is no graph element, ValueError for an unknown argument.
    Inputs: Operations, or tensors of any shape and dtype. TypeError for others.

        >>> a, b = tf.Variable(1.0), tf.Variable(2.0)
        >>> both = tf.group(a.assign_add(10.0), b.assign_add(10.0))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(both)
        ...     sess.run([a, b])
        [np.float32(11.0), np.float32(12.0)]
    """
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    with ops.name_scope(name, "group_deps", inputs) as name:
        by_device = {}
        for element in nest.flatten(inputs, expand_composites=True):
            if not hasattr(element, "device"):
                raise TypeError("Expected tf.group() expected Tensor objects not None or "
                                f"callables: got '{element}' of type '{type(element)}'")
            by_device.setdefault(element.device, []).append(element)
        if not by_device:
            return no_op(name=name)
        if len(by_device) == 1:
            (device, members), = by_device.items()
            return _group_on(device, members, name)
        groups = [_group_on(device, by_device[device]) for device in sorted(by_device, key=str)]
        with ops.control_dependencies(groups):
            return no_op(name=name)


def _group_on(device, members, name=None):
    with ops.control_dependencies(members):
        if not device:
            return no_op(name=name)
        with ops.device(device):
            return no_op(name=name)


def gated_tuple(tensors, name=None, control_inputs=None):
    """The tensors again, none of them delivered before all are computed. None stays None.
    Any shapes and dtypes, which the results have too; numbers and arrays become tensors.
    ValueError for a list without tensors."""
    with ops.name_scope(name, "tuple", tensors) as name:
        tensors = [t if t is None or isinstance(t, (ops.Operation, ops.IndexedSlices))
                   else ops.convert_to_tensor(t) for t in tensors]
        gates = {t if isinstance(t, ops.Operation) else t.op for t in tensors if t is not None}
        for control in control_inputs or ():
            if not isinstance(control, (ops.Tensor, ops.Operation)):
                raise TypeError(f"Control input must be Operation or Tensor: {control}")
            gates.add(control if isinstance(control, ops.Operation) else control.op)
        if not gates:
            raise ValueError(f"Must have at least one Tensor: {tensors}")
        gate = group(*sorted(gates, key=lambda member: member._id))
        return [_gated(t, gate) for t in tensors]


def _gated(element, gate):
    if element is None:
        return None
    if isinstance(element, ops.Operation):
        with ops.control_dependencies([gate]):
            return no_op()
    return with_dependencies([gate], element)


PUBLIC = {"no_op": no_op, "group": group, "tuple": gated_tuple}
