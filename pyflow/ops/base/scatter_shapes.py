"""Static shapes of what is written at indices, of tensors and of variables."""
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import at_least_rank


def rows_written(ref, indices, updates):
    """`ref`, checked: updates.shape is indices.shape + ref.shape[1:], or a scalar."""
    ref.with_rank_at_least(1)
    if ref.ndims is not None and updates.ndims:
        if indices.ndims is not None:
            indices.concatenate(ref[1:]).assert_is_compatible_with(updates)
    return ref


def scattered(op, shape, indices, updates):
    """`shape`, checked to hold `updates` at the index vectors `indices`."""
    at_least_rank(shape, 1, f"{op.type}: what is scattered into")
    places = at_least_rank(indices.shape, 1, f"{op.type}: indices").as_tuple()
    if places is None or updates.shape.ndims is None:
        return shape
    front, depth = TensorShape(places[:-1]), places[-1]
    rows = updates.shape.as_tuple()
    wanted = front
    if depth is not None and shape.ndims is not None:
        if depth > shape.ndims:
            raise ValueError(f"{op.type}: indices name {depth} dimensions of a tensor of shape "
                             f"{shape}")
        wanted = front.concatenate(shape.as_tuple()[depth:])
    elif len(rows) >= len(front):
        rows = rows[:len(front)]
    if not TensorShape(rows).is_compatible_with(wanted):
        raise ValueError(f"{op.type}: updates of shape {updates.shape} for indices of shape "
                         f"{indices.shape} into {shape}, expected {wanted}")
    return shape
