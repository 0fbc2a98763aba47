"""Dilated windows by plain ones: every phase of a dilation becomes an entry of the batch."""
from pyflow.framework import graph
from pyflow.ops.base import common, tensors
from pyflow.ops.move import pad_ops


def over_blocks(input, rates, padding, window, planes, convolve, name):
    """`convolve(x, padding, rates, name)` on blocks of the dilation where its sizes are known."""
    rank = len(rates)
    sizes = input.shape[2:] if planes else input.shape[1:-1]
    known = input.shape.ndims and sizes.is_fully_defined() and window.is_fully_defined()
    if max(rates) == 1 or not known or padding not in ("SAME", "VALID"):
        return convolve(input, padding, rates, name)
    return with_space_to_batch(
        input, rates, padding, lambda x, _, padding: convolve(x, padding, [1] * rank, None),
        window.as_list(), data_format="NC" if planes else None)


# --------------------------------------------------------------------------- space in the batch
def with_space_to_batch(input, dilation_rate, padding, op, filter_shape=None, spatial_dims=None,
                        data_format=None):
    """`op(blocks, num_spatial_dims, padding)` on every phase of a dilation, then put together.
    TF: nn.with_space_to_batch.

    dilation_rate: int32 vector, known while the graph is built; padding: SAME (needs the static
    filter_shape) or VALID. With rates of 1 `op` gets the input as it is.
    Dtypes: any that `op` takes. Raises ValueError where a rate is not known.
    """
    input = graph.convert_to_tensor(input)
    rates = common.static(graph.convert_to_tensor(dilation_rate))
    if rates is None or rates.ndim != 1 or (rates < 1).any():
        raise ValueError(f"dilation_rate must be a known vector of positive ints, got {rates}")
    rank = len(rates)
    first = 2 if (data_format or "").startswith("NC") else 1
    dims = list(spatial_dims) if spatial_dims is not None else list(range(first, first + rank))
    if len(dims) != rank or min(dims) < 1 or sorted(set(dims)) != dims:
        raise ValueError(f"spatial_dims must be {rank} positive ascending dimensions, got {dims}")
    if (rates == 1).all():
        return op(input, rank, padding)
    block, base = [1] * dims[-1], [[0, 0] for _ in range(dims[-1])]
    for i, dim in enumerate(dims):
        block[dim - 1] = int(rates[i])
        if padding == "SAME":
            reach = (_window(filter_shape, i) - 1) * int(rates[i])
            base[dim - 1] = [reach // 2, reach - reach // 2]
    sizes = [_size(input, d) for d in range(1, dims[-1] + 1)]
    fill = [-(n + sum(b)) % k for n, b, k in zip(sizes, base, block)]
    paddings = _pairs([b[0], b[1] + more] for b, more in zip(base, fill))
    crops = _pairs([0, more] for more in fill)
    blocks = pad_ops.SpaceToBatchND(input, block, paddings)
    return pad_ops.BatchToSpaceND(op(blocks, rank, "VALID"), block, crops)


def _size(x, dim):
    """The size of a dimension: an int where it is known, else a scalar tensor."""
    known = x.shape[dim].value if x.shape.ndims else None
    return tensors.shape(x)[dim] if known is None else known


def _pairs(rows):
    """Pairs of ints and scalar tensors as a matrix."""
    rows = list(rows)
    if any(isinstance(v, graph.Tensor) for row in rows for v in row):
        return tensors.stack([tensors.stack(row) for row in rows])
    return rows


def _window(filter_shape, i):
    shape = None if filter_shape is None else common.static(graph.convert_to_tensor(filter_shape))
    if shape is None:
        raise ValueError("with_space_to_batch: SAME padding needs a known filter_shape")
    return int(shape[i])


PUBLIC = {"nn.with_space_to_batch": with_space_to_batch}
