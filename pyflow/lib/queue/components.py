"""What queues and their kin are told of their components: types, shapes, names.

Pure functions.  Who calls it: queues, barriers, staging.  Source: TF 1.15 data_flow_ops.
"""
from pyflow.framework import dtypes as dtypes_lib, graph
from pyflow.framework.tensor_shape import TensorShape, unknown_shape


def as_types(types):
    """A list of DTypes, of one type or several."""
    if not isinstance(types, (list, tuple)):
        types = [types]
    return [dtypes_lib.as_dtype(t) for t in types]


def as_shapes(shapes, types, unknown_dims=False, unknown_ranks=False):
    """A list of TensorShapes, one a type; None stays None.

    shapes: one shape, or a list of them; ValueError for another number, and for what is not known
    of one and has to be.
    """
    if shapes is None:
        return None
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (tuple, list)):
        raise TypeError("shapes must be a TensorShape or a list or tuple of TensorShapes, got "
                        f"{type(shapes)}.")
    if all(isinstance(shape, int) for shape in shapes):
        shapes = [shapes]           # one shape, with number of dimensions
    shapes = [TensorShape(shape) for shape in shapes]
    if not unknown_dims and any(not shape.is_fully_defined() for shape in shapes):
        raise ValueError(f"All shapes must be fully defined: {shapes}")
    if not unknown_ranks and any(shape.dims is None for shape in shapes):
        raise ValueError(f"All shapes must have a defined rank: {shapes}")
    if len(shapes) != len(types):
        raise ValueError("Queue shapes must have the same length as dtypes, received "
                         f"len(shapes)={len(shapes)}, len(dtypes)={len(types)}")
    return shapes


def as_names(names, types):
    """A list of component names, one a type; None stays None. ValueError for another number."""
    if names is None:
        return None
    names = list(names) if isinstance(names, (list, tuple)) else [names]
    if len(names) != len(types):
        raise ValueError("Queue names must have the same length as dtypes, received "
                         f"len(names)={len(names)}, len(dtypes)={len(types)}")
    return names


def shapes_or_unknown(shapes, types):
    """The shapes, or as many unknown ones as there are types."""
    return [unknown_shape() for _ in types] if shapes is None else shapes


def common_shape(a, b):
    """What two shapes have in common; unknown where ranks differ."""
    if a.ndims is None or b.ndims is None or a.ndims != b.ndims:
        return unknown_shape()
    return TensorShape([x if x == y else None for x, y in zip(a.as_list(), b.as_list())])


def in_order(values, names, what="Queue"):
    """The values as a list, those of a dict in the order of `names`. ValueError for a dict where
    there are no names, for a list where there are, and for other keys."""
    if isinstance(values, dict):
        if not names:
            raise ValueError(f"{what} must have names to enqueue a dictionary")
        if sorted(names, key=str) != sorted(values.keys(), key=str):
            raise ValueError(f"Keys in dictionary to enqueue do not match names of {what}.  "
                             f"Dictionary: {sorted(values.keys())}, {what}: {sorted(names)}")
        return [values[name] for name in names]
    if names:
        raise ValueError(f"You must enqueue a dictionary in a {what} with names")
    return list(values) if isinstance(values, (list, tuple)) else [values]


def as_tensors(values, types, what="queue"):
    """The values as tensors of these types, "component_0" and so on."""
    if len(values) != len(types):
        raise ValueError(f"the {what} has {len(types)} components, got {len(values)} values")
    return [graph.convert_to_tensor(value, dtype=t, name=f"component_{i}")
            for i, (value, t) in enumerate(zip(values, types))]


def given_back(tensors, names):
    """What a take returns: a dict of named components, one tensor, or a list."""
    if names:
        return dict(zip(names, tensors))
    return tensors[0] if len(tensors) == 1 else tensors
