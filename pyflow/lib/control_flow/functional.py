"""map_fn, foldl, foldr and scan: loops over the first dimension, built on while_loop and
TensorArray.

Invariants
  1. `elems` may be a nest of tensors with equal first dimensions; the function sees one row of
     each.
  2. Results of map_fn and scan are stacked in order; gradients flow through (unless
     back_prop=False).

Thread: the one building the graph.  Source: TF 1.x functional_ops.

Example:  `tf.scan(lambda a, x: a + x, [1, 2, 3, 4])`   # [1, 3, 6, 10]
"""
from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.control_flow.while_loop import while_loop
from pyflow.ops.base import tensors
from pyflow.ops.containers.tensor_arrays import TensorArray


def _rows(elems, name="elem"):
    """(tensors, number of rows as int or None, and as tensor or int)."""
    flat = [ops.convert_to_tensor(e, name=name) for e in nest.flatten(elems)]
    if not flat:
        raise ValueError("elems must hold at least one tensor")
    if any(t.shape.ndims == 0 for t in flat):
        raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
    known = flat[0].shape.with_rank_at_least(1)[:1].as_list()[0] if flat[0].shape.ndims else None
    for tensor in flat[1:]:
        if tensor.shape.ndims:
            here = tensor.shape.as_list()[0]
            if known is not None and here is not None and here != known:
                raise ValueError(f"elems disagree about the first dimension: {known} and {here} "
                                 f"('{tensor.name}')")
            known = here if known is None else known
    return flat, known, known if known is not None else tensors.shape(flat[0])[0]


def _unstacked(tensors, count):
    return [TensorArray(t.dtype.base_dtype, count, dynamic_size=False, infer_shape=True).unstack(t)
            for t in tensors]


def _stacked(arrays, known):
    results = [array.stack() for array in arrays]
    for result, array in zip(results, arrays):
        if result.shape.ndims is not None:
            result.set_shape(TensorShape([known]).concatenate(result.shape[1:]))
    return results


def _named(fn, name, default, elems):
    if not callable(fn):
        raise TypeError("fn must be callable.")
    return ops.name_scope(name, default, nest.flatten(elems))


def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True, swap_memory=False,
           infer_shape=True, name=None):
    """`fn` applied to each row of `elems`, the results stacked.

    `dtype` (a nest like fn's result) is needed if fn's results differ from elems in dtype or
    structure. TF: tf.map_fn.
    elems: tensors of any dtype, rows along dimension 0; result: [rows, ...] of fn's. TypeError if
    fn is not callable, ValueError for scalars or where fn returns another dtype."""
    with _named(fn, name, "map", elems):
        flat, known, count = _rows(elems)
        result_types = elems if dtype is None else dtype
        types = ([t.dtype.base_dtype for t in flat] if dtype is None
                 else [dtypes.as_dtype(t) for t in nest.flatten(dtype)])
        sources = _unstacked(flat, count)
        results = [TensorArray(t, count, dynamic_size=False, infer_shape=infer_shape)
                   for t in types]

        def body(i, arrays):
            row = nest.pack_sequence_as(elems, [source.read(i) for source in sources])
            values = fn(row)
            nest.assert_same_structure(result_types, values)
            values = [ops.convert_to_tensor(v, dtype=t)
                      for v, t in zip(nest.flatten(values), types)]
            return i + 1, [array.write(i, value) for array, value in zip(arrays, values)]
        start = ops.constant(0)
        _, arrays = while_loop(lambda i, _: i < count, body, (start, results),
                               parallel_iterations=parallel_iterations or 10, back_prop=back_prop,
                               swap_memory=swap_memory, maximum_iterations=count)
        return nest.pack_sequence_as(result_types, _stacked(arrays, known))


def _fold(fn, elems, initializer, options, reverse):
    flat, _, count = _rows(elems)
    sources = _unstacked(flat, count)

    def row(i):
        return nest.pack_sequence_as(elems, [source.read(i) for source in sources])
    start, steps = (count - 1 if reverse else 0), 0
    if initializer is None:
        value, steps = row(start), 1
        start = start - 1 if reverse else 1
    else:
        value = nest.map_structure(ops.convert_to_tensor, initializer)

    def more(i, _):
        return i >= 0 if reverse else i < count

    def body(i, value):
        following = fn(value, row(i))
        nest.assert_same_structure(value, following)
        return (i - 1 if reverse else i + 1), following
    limit = count - steps
    return while_loop(more, body, [ops.convert_to_tensor(start), value],
                      maximum_iterations=limit, **options)[1]


def foldl(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False,
          name=None):
    """fn(... fn(fn(initializer, row 0), row 1) ..., last row); starts from row 0 without
    initializer.

    Raises TypeError if fn is not callable. TF: tf.foldl.
    elems: tensors of any dtype, rows along dimension 0; result: what fn returns. TypeError if fn
    is not callable, ValueError where lengths differ or fn changes shapes."""
    with _named(fn, name, "foldl", elems):
        return _fold(fn, elems, initializer, {"parallel_iterations": parallel_iterations,
                                              "back_prop": back_prop, "swap_memory": swap_memory},
                     reverse=False)


def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False,
          name=None):
    """As foldl, from the last row to the first. TF: tf.foldr.
    Shapes, dtypes and errors (TypeError, ValueError) as there."""
    with _named(fn, name, "foldr", elems):
        return _fold(fn, elems, initializer, {"parallel_iterations": parallel_iterations,
                                              "back_prop": back_prop, "swap_memory": swap_memory},
                     reverse=True)


def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False,
         infer_shape=True, reverse=False, name=None):
    """All intermediate values of foldl (of foldr's order with `reverse`), stacked by row.

    Raises TypeError if fn is not callable. TF: tf.scan.
    elems: tensors of any dtype, rows along dimension 0; result: [rows, ...] of fn's. TypeError
    if fn is not callable, ValueError for scalars or where fn changes shapes."""
    with _named(fn, name, "scan", elems):
        flat, known, count = _rows(elems)
        sources = _unstacked(flat, count)

        def row(i):
            return nest.pack_sequence_as(elems, [source.read(i) for source in sources])
        if initializer is None:
            value = row(count - 1 if reverse else 0)
            done = 1
        else:
            value = nest.map_structure(ops.convert_to_tensor, initializer)
            done = 0
        results = [TensorArray(v.dtype.base_dtype, count, dynamic_size=False,
                               infer_shape=infer_shape,
                               element_shape=v.shape if infer_shape else None)
                   for v in nest.flatten(value)]
        start = count - 1 - done if reverse else done
        if done:
            first = count - 1 if reverse else 0
            results = [a.write(first, v) for a, v in zip(results, nest.flatten(value))]

        def body(i, value, arrays):
            following = fn(value, row(i))
            nest.assert_same_structure(value, following)
            arrays = [a.write(i, v) for a, v in zip(arrays, nest.flatten(following))]
            return (i - 1 if reverse else i + 1), following, arrays

        def more(i, *_):
            return i >= 0 if reverse else i < count
        loop_vars = [ops.convert_to_tensor(start), value, results]
        arrays = while_loop(more, body, loop_vars, parallel_iterations=parallel_iterations,
                            back_prop=back_prop, swap_memory=swap_memory,
                            maximum_iterations=count)[2]
        return nest.pack_sequence_as(value, _stacked(arrays, known))


PUBLIC = {"map_fn": map_fn, "foldl": foldl, "foldr": foldr, "scan": scan}
