"""Functions of tf.nn built from other ops: dropout, embeddings, normalisation, clipping, norms.

Invariants
  1. No op is defined here; each function builds the graph TF 1.x builds, with TF's argument names.
  2. Deprecated names (`keep_prob`, `dim`, `axis` pairs) are taken, both forms at once are a
     ValueError.

Example:  `tf.nn.dropout(x, keep_prob=0.5)`.
"""
import contextlib
import numbers
from collections import abc

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import partition_functions
from pyflow.lib.math import reductions
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import int32s, one_of
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops
from pyflow.ops.move import partition_ops
from pyflow.ops.norm import softmax_ops


# ------------------------------------------------------------------------------------------ layers
def dropout(x, keep_prob=None, noise_shape=None, seed=None, name=None, rate=None):
    """Each element of float `x` kept with probability 1 - rate, scaled by 1 / (1 - rate), else 0.

    Give `rate` or the older `keep_prob` (= 1 - rate), a number or scalar tensor. noise_shape: where
    decisions are shared (1 broadcasts). seed: as for tf.random_uniform. ValueError for integers or
    a rate outside [0, 1).
    TF: nn.dropout.
    x: floats of any shape, which the result has too; noise_shape broadcasts to it. ValueError
    for keep_prob outside (0, 1] or integers.

        >>> y = tf.Session().run(tf.nn.dropout(tf.ones([1000]), rate=0.5))
        >>> sorted(set(y.tolist()))
        [0.0, 2.0]
    """
    if keep_prob is not None:
        if not isinstance(keep_prob, (numbers.Real, np.ndarray, graph.Tensor)) \
                and not hasattr(keep_prob, "dtype"):
            raise ValueError(f"nn.dropout: keep_prob must be a number or a tensor, got "
                             f"{keep_prob!r}")
        kept = 1 - keep_prob
        if rate is not None:
            raise ValueError("nn.dropout: give either rate or its deprecated complement "
                             "keep_prob, not both")
        rate = kept
    if rate is None:
        raise ValueError("nn.dropout: you must provide a rate")
    with graph.name_scope(name, "dropout", [x]):
        x = graph.convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError("x has to be a floating point tensor since it's going to be scaled. "
                             "Got a "
                             f"{x.dtype.name} tensor instead.")
        if isinstance(rate, numbers.Real):
            if not 0 <= rate < 1:
                raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), "
                                 f"got {rate:g}")
            if rate == 0:
                return x
        else:
            rate = graph.convert_to_tensor(rate, dtype=x.dtype, name="rate")
            if rate.shape.ndims not in (None, 0):
                raise ValueError(f"nn.dropout: rate must be a scalar, got shape {rate.shape}")
        shape = tensors.shape(x) if noise_shape is None else _noise_shape(x, noise_shape)
        noise = random_functions.random_uniform(shape, seed=seed, dtype=x.dtype)
        scaled = x * (1 / (1 - rate))
        scaled.set_shape(x.shape)       # the rate is a scalar, whether its rank is known or not
        if noise_shape is None:     # one shape: the gradient needs no sums over stretched axes
            return logic_ops.Select(noise >= rate, scaled, tensors.zeros_like(scaled),
                                    name="mul_1")       # the name of TensorFlow's last node
        zero = graph.convert_to_tensor(0, dtype=x.dtype)
        result = logic_ops.SelectV2(noise >= rate, scaled, zero, name="mul_1")
        result.set_shape(x.shape)
        return result


def _noise_shape(x, noise_shape):
    """noise_shape with its unknown entries (None, -1) taken from x where they are known."""
    if isinstance(noise_shape, graph.Tensor):
        return noise_shape
    dims, known = list(noise_shape), x.shape.as_list() if x.shape.ndims is not None else None
    if known is not None and len(known) == len(dims):
        dims = [k if d is None else d for d, k in zip(dims, known)]
    return dims


def l2_normalize(x, axis=None, epsilon=1e-12, name=None, dim=None):
    """x / sqrt(max(sum(x^2 over axis), epsilon)). TF: nn.l2_normalize.
    x: floats of any shape, which the result has too. TypeError for other dtypes, ValueError for
    shapes that do not fit.
    axis, older dim: ints, None for all; epsilon: the least that the sum counts as.

        >>> tf.Session().run(tf.nn.l2_normalize([[3.0, 4.0], [0.0, 2.0]], axis=1))
        array([[0.6, 0.8],
               [0. , 1. ]], dtype=float32)
    """
    axis = one_of(axis, dim, "axis", "dim")
    with graph.name_scope(name, "l2_normalize", [x]) as scope:
        x = graph.convert_to_tensor(x, name="x")
        total = reductions.reduce_sum(unary_ops.Square(x), axis, keepdims=True)
        return binary_ops.Mul(x, unary_ops.Rsqrt(binary_ops.Maximum(total, epsilon)), name=scope)


def zero_fraction(value, name=None):
    """The share of elements that are zero, float32. TF: nn.zero_fraction.
    value: numbers of any shape; result: a float32 scalar. TypeError for other dtypes, ValueError
    for shapes that do not fit."""
    with graph.name_scope(name, "zero_fraction", [value]):
        value = graph.convert_to_tensor(value, name="value")
        zero = logic_ops.Equal(value, graph.convert_to_tensor(0, dtype=value.dtype))
        return reductions.reduce_mean(tensors.cast(zero, dtypes.float32), name="fraction")


def sufficient_statistics(x, axes, shift=None, keep_dims=None, name=None, keepdims=None):
    """Count, sum, sum of squares (about `shift`) of `x` over `axes`, and shift.
    TF: nn.sufficient_statistics.
    x: floats; results: without `axes`, or with them as 1. TypeError for other dtypes, ValueError
    for shapes that do not fit."""
    keep = one_of(keepdims, keep_dims, "keepdims", "keep_dims", False)
    axes = list(np.ravel(axes))
    with graph.name_scope(name, "sufficient_statistics", [x, shift]):
        x = graph.convert_to_tensor(x, name="x")
        if shift is not None:
            shift = graph.convert_to_tensor(shift, dtype=x.dtype, name="shift")
        dims = [x.shape.as_list()[a] for a in axes] if x.shape.ndims is not None else [None]
        if None not in dims:
            count = graph.convert_to_tensor(float(np.prod(dims)), dtype=x.dtype, name="count")
        else:
            some = tensors.gather(tensors.shape(x), int32s(axes))
            count = tensors.cast(reductions.reduce_prod(some), x.dtype, name="count")
        centred = x if shift is None else x - shift
        squared = unary_ops.Square(x) if shift is None else binary_ops.SquaredDifference(x, shift)
        total = reductions.reduce_sum(centred, axes, keepdims=keep, name="mean_ss")
        return count, total, reductions.reduce_sum(squared, axes, keepdims=keep,
                                                   name="var_ss"), shift


# -------------------------------------------------------------------------------------- embeddings
def embedding_lookup(params, ids, partition_strategy="mod", name=None, validate_indices=True,
                     max_norm=None):
    """Rows of `params`, one tensor or a list of shards ("mod" or "div"), by id. TF:
    nn.embedding_lookup.

    ids: int32 or int64, any shape; returns ids.shape + row shape, rows clipped to `max_norm` if
    given. partition_strategy "mod": id i is in shard i % n; "div": shards hold runs of ids.
    validate_indices: accepted.
    params: [n, ...] of any dtype, or a list of such; ids: ints of any shape; result: ids' shape
    + [...]. ValueError without params or for an unknown strategy, InvalidArgumentError for an id
    out of range.

        >>> table = tf.constant([[0., 0.], [1., 10.], [2., 20.]])
        >>> tf.Session().run(tf.nn.embedding_lookup(table, [2, 1]))
        array([[ 2., 20.],
               [ 1., 10.]], dtype=float32)
    """
    if params is None or isinstance(params, (list, tuple)) and not params:
        raise ValueError("nn.embedding_lookup: need at least one params")
    parted = isinstance(params, (list, tuple)) or hasattr(params, "_variable_list")
    shards = list(params) if parted else [params]
    with graph.name_scope(name, "embedding_lookup", shards + [ids]) as scope:
        ids = graph.convert_to_tensor(ids, name="ids")
        if len(shards) == 1:
            with _beside(shards[0]):
                rows = _clipped_rows(tensors.gather(shards[0], ids, name=scope), ids, max_norm,
                                     None)
            return identity_ops.Identity(rows)
        flat = tensors.reshape(ids, [-1])
        shard, local = _placed(shards, flat, partition_strategy)
        shard = tensors.cast(shard, dtypes.int32)
        parts = partition_functions.dynamic_partition(local, shard, len(shards))
        places = partition_functions.dynamic_partition(tensors.range_(tensors.size(flat)), shard,
                                                       len(shards))
        rows = [_gathered(*of_shard) for of_shard in zip(shards, parts)]
        merged = partition_ops.ParallelDynamicStitch(list(places), rows)
        row = _static_shape(shards[0])[1:]
        for shard in shards[1:]:
            row = row.merge_with(_static_shape(shard)[1:])
        merged = tensors.reshape(merged, tensors.concat([tensors.shape(ids),
                                                         _tail(row, rows[0])], 0))
        merged.set_shape(ids.shape.concatenate(row))
        return identity_ops.Identity(_clipped_rows(merged, ids, max_norm, None), name=scope)


def _beside(table):
    """Scope of ops that are where the table is: rows travel, not the table."""
    if getattr(getattr(table, "op", None), "graph", None) is None:
        return contextlib.nullcontext()             # a value, and no tensor yet
    return graph.colocate_with(table)


def _gathered(table, ids):
    with _beside(table):
        return tensors.gather(table, ids)


def _tail(row, values):
    return int32s(row.as_list()) if row.is_fully_defined() else tensors.shape(values)[1:]


def _placed(shards, ids, strategy):
    """(shard number, row within it) of each id."""
    n = len(shards)
    if strategy == "mod":
        return ids % n, ids // n
    if strategy != "div":
        raise ValueError(f"nn.embedding_lookup: partition_strategy must be 'mod' or 'div', got "
                         f"{strategy!r}")
    total = _length_of_all(shards, ids.dtype)
    per, extra = total // n, total % n
    shard = binary_ops.Maximum(ids // (per + 1), (ids - extra) // _at_least_one(per))
    early = tensors.cast(shard < extra, ids.dtype)
    local = early * (ids % (per + 1)) + (1 - early) * ((ids - extra) % _at_least_one(per))
    return shard, local


def _length_of_all(shards, dtype):
    """The number of rows of all shards: an int where it is known, else a scalar tensor."""
    total = 0
    for shard in shards:
        known = _static_shape(shard)[0].value
        if known is None:
            with _beside(shard):
                known = tensors.cast(tensors.shape(shard)[0], dtype)
        total += known
    return total


def _static_shape(params):
    """The shape of a tensor or variable, which is not read for it."""
    known = getattr(params, "get_shape", None)
    return graph.convert_to_tensor(params).shape if known is None else known()


def _at_least_one(size):
    return binary_ops.Maximum(size, 1) if isinstance(size, graph.Tensor) else max(size, 1)


def _clipped_rows(rows, ids, max_norm, name):
    if max_norm is None:
        return rows
    n, k = rows.shape.ndims, ids.shape.ndims
    axes = list(range(k, n)) if None not in (n, k) else tensors.range_(tensors.rank(ids),
                                                                       tensors.rank(rows))
    return clip_by_norm(rows, max_norm, axes=axes, name=name)


# ------------------------------------------------------------------------------- clipping and norms
def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """min(max(t, clip_value_min), clip_value_max); IndexedSlices keep their rows.
    TF: tf.clip_by_value.
    t: numbers of any shape, to which the bounds broadcast. TypeError for other dtypes,
    ValueError for shapes that do not fit.

        >>> tf.Session().run(tf.clip_by_value([-5., 0.5, 5.], -1., clip_value_max=1.))
        array([-1. ,  0.5,  1. ], dtype=float32)
    """
    with graph.name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = t.values if isinstance(t, graph.IndexedSlices) else graph.convert_to_tensor(t)
        low = binary_ops.Minimum(values, clip_value_max)
        values.shape.merge_with(low.shape)
        result = binary_ops.Maximum(low, clip_value_min, name=scope)
        values.shape.merge_with(result.shape)
        if isinstance(t, graph.IndexedSlices):
            return graph.IndexedSlices(result, t.indices, t.dense_shape)
        return result


def clip_by_norm(t, clip_norm, axes=None, name=None):
    """`t` scaled so that its L2 norm over `axes` is at most `clip_norm`. TF: tf.clip_by_norm.
    t: floats of any shape, which the result has too; clip_norm: a scalar. TypeError for other
    dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = graph.convert_to_tensor(t.values if isinstance(t, graph.IndexedSlices) else t)
        squares = reductions.reduce_sum(values * values, axes, keepdims=True)
        positive = squares > 0
        safe = logic_ops.Select(positive, squares, tensors.ones_like(squares))
        norm = logic_ops.Select(positive, unary_ops.Sqrt(safe), squares)
        scaled = values * clip_norm
        result = identity_ops.Identity(scaled / binary_ops.Maximum(norm, clip_norm), name=scope)
        if isinstance(t, graph.IndexedSlices):
            return graph.IndexedSlices(result, t.indices, t.dense_shape)
        return result


def _values(tensors, who):
    if not isinstance(tensors, abc.Sequence) or isinstance(tensors, (str, bytes)):
        raise TypeError(f"{who}: t_list should be a sequence of tensors, got "
                        f"{type(tensors).__name__}")
    return [t.values if isinstance(t, graph.IndexedSlices) else t if t is None
            else graph.convert_to_tensor(t)
            for t in tensors]


def global_norm(t_list, name=None):
    """sqrt(sum of the squared L2 norms) of a list of tensors; None is skipped.
    TF: tf.global_norm.
    t_list: floats of any shapes; result: a scalar. TypeError for what is no sequence."""
    with graph.name_scope(name, "global_norm"):
        halves = [softmax_ops.L2Loss(v) for v in _values(t_list, "tf.global_norm") if v is not None]
        total = reductions.reduce_sum(tensors.stack(halves))
        return unary_ops.Sqrt(total * graph.convert_to_tensor(2.0, dtype=total.dtype),
                              name="global_norm")


def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """All tensors scaled by clip_norm / max(global norm, clip_norm); and that norm. TF:
    tf.clip_by_global_norm.

    use_norm: the norm to take, where it is known already.
    A norm that is not finite makes all results NaN, as in TF 1.15.
    t_list: floats of any shapes, which the results have too; the norm is a scalar. TypeError for
    what is no sequence.

        >>> clipped, norm = tf.clip_by_global_norm([[3.0], [4.0]], 1.0)
        >>> tf.Session().run([clipped[0], norm])
        [array([0.6], dtype=float32), np.float32(5.0)]
    """
    values = _values(t_list, "tf.clip_by_global_norm")
    norm = global_norm(t_list, name) if use_norm is None else use_norm
    with graph.name_scope(name, "clip_by_global_norm") as scope:
        one = graph.convert_to_tensor(1.0, dtype=norm.dtype)
        scale = clip_norm * binary_ops.Minimum(1.0 / norm, one / clip_norm)
        finite = unary_ops.IsFinite(norm)
        scale = logic_ops.Select(finite, scale,
                                 graph.convert_to_tensor(float("nan"), dtype=norm.dtype))
        clipped = [v if v is None else identity_ops.Identity(v * scale, name=f"{scope}_{i}")
                   for i, v in enumerate(values)]
        clipped = [graph.IndexedSlices(c, t.indices, t.dense_shape)
                   if isinstance(t, graph.IndexedSlices) else c
                   for c, t in zip(clipped, t_list)]
        return clipped, norm


def clip_by_average_norm(t, clip_norm, name=None):
    """`t` scaled so that its L2 norm over its size is at most `clip_norm`.
    TF: tf.clip_by_average_norm.
    t: floats of any shape, which the result has too; clip_norm: a scalar. TypeError for other
    dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        t = graph.convert_to_tensor(t, name="t")
        count = tensors.cast(tensors.size(t), t.dtype)
        inverse = unary_ops.Rsqrt(reductions.reduce_sum(t * t)) * count
        bound = graph.convert_to_tensor(1.0, dtype=t.dtype) / clip_norm
        return identity_ops.Identity(t * clip_norm * binary_ops.Minimum(inverse, bound), name=scope)


# ---------------------------------------------------------------------------------------- sequences
def sequence_mask(lengths, maxlen=None, dtype=dtypes.bool, name=None):
    """mask[..., j] = j < lengths[...], of shape lengths.shape + [maxlen]. TF: tf.sequence_mask.
    lengths: ints of any shape; maxlen: int scalar. ValueError for a maxlen of another rank."""
    with graph.name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = graph.convert_to_tensor(lengths)
        if maxlen is None:
            flat = tensors.reshape(lengths, [-1])
            maxlen = binary_ops.Maximum(graph.convert_to_tensor(0, dtype=lengths.dtype),
                                        reductions.reduce_max(flat))
        else:
            maxlen = graph.convert_to_tensor(maxlen)
            if maxlen.shape.ndims not in (None, 0):
                raise ValueError(f"sequence_mask: maxlen must be a scalar, got shape "
                                 f"{maxlen.shape}")
        maxlen = tensors.cast(maxlen, lengths.dtype)
        zero, one = (graph.convert_to_tensor(v, dtype=lengths.dtype) for v in (0, 1))
        row = tensors.range_(zero, maxlen, one)
        mask = row < tensors.expand_dims(lengths, -1)
        return tensors.cast(mask, dtype) if dtypes.as_dtype(dtype) != dtypes.bool else mask


PUBLIC = {
    "nn.dropout": dropout, "nn.l2_normalize": l2_normalize, "math.l2_normalize": l2_normalize,
    "linalg.l2_normalize": l2_normalize, "nn.zero_fraction": zero_fraction,
    "math.zero_fraction": zero_fraction, "nn.sufficient_statistics": sufficient_statistics,
    "nn.embedding_lookup": embedding_lookup, "clip_by_value": clip_by_value,
    "clip_by_norm": clip_by_norm, "global_norm": global_norm, "linalg.global_norm": global_norm,
    "clip_by_global_norm": clip_by_global_norm, "clip_by_average_norm": clip_by_average_norm,
    "sequence_mask": sequence_mask,
}
