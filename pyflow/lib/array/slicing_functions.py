"""The `x[...]` syntax of tensors, tf.strided_slice, tf.reverse, tf.roll.

Invariant: `x[1, ..., ::2, tf.newaxis]` builds one StridedSlice node.

Example:  `tf.constant([[1, 2, 3], [4, 5, 6]])[:, 1]` -> [2, 5].
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.math import logic_functions
from pyflow.lib.variables import state_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of
from pyflow.ops.base.tensors import index_vector
from pyflow.ops.move.slicing_ops import MASKS, ReverseSequence, ReverseV2, Roll, StridedSlice

newaxis = None


def strided_slice(input_, begin, end, strides=None, begin_mask=0, end_mask=0, ellipsis_mask=0,
                  new_axis_mask=0, shrink_axis_mask=0, var=None, name=None):
    """input_[begin:end:strides] with TF's masks; strides default to 1. TF: tf.strided_slice.
    Dtypes, shapes, errors: as op StridedSlice."""
    if strides is None:
        begin = graph.convert_to_tensor(begin)
        strides = tensors.ones_like(begin)
    result = StridedSlice(input_, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
                          ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
                          shrink_axis_mask=shrink_axis_mask, name=name or "StridedSlice")
    if var is not None:

        def assign(value, name=None):
            return state_functions.strided_slice_assign(
                var, begin, end, strides, value, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                shrink_axis_mask, name or result.op.name + "/_assign/")
        result.assign = assign
    return result


class _Index:
    """begin, end, strides and masks collected from a `x[...]` expression."""

    def __init__(self):
        self.begin, self.end, self.strides = [], [], []
        self.masks = dict.fromkeys(MASKS, 0)

    def add(self, begin, end, stride, *masks):
        for mask in masks:
            self.masks[mask] |= 1 << len(self.begin)
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def add_item(self, item):
        if isinstance(item, slice):
            self.add_slice(item)
        elif item is Ellipsis:
            self.add(0, 0, 1, "ellipsis_mask")
        elif item is newaxis:
            self.add(0, 0, 1, "new_axis_mask")
        else:
            _check_index(item)
            self.add(item, item + 1, 1, "shrink_axis_mask")

    def add_slice(self, item):
        masks = [m for m, part in (("begin_mask", item.start), ("end_mask", item.stop))
                 if part is None]
        for part in (item.start, item.stop, item.step):
            if part is not None:
                _check_index(part)
        self.add(0 if item.start is None else item.start, 0 if item.stop is None else item.stop,
                 1 if item.step is None else item.step, *masks)

    def packed(self):
        """The three vectors, NumPy where all entries are numbers."""
        parts = (self.begin, self.end, self.strides)
        known = [v for part in parts for v in part if isinstance(v, graph.Tensor)]
        if not known:
            wide = any(abs(int(v)) >= 2 ** 31 for part in parts for v in part)
            return [np.array([int(v) for v in part], np.int64 if wide else np.int32)
                    for part in parts]
        wide = dtypes.int64 if any(t.dtype.base_dtype == dtypes.int64
                                   for t in known) else dtypes.int32
        return [tensors.stack([tensors.cast(v, wide) for v in part])
                if any(isinstance(v, graph.Tensor) for v in part)
                else np.array([int(v) for v in part], wide.as_numpy_dtype) for part in parts]


def _check_index(item):
    if isinstance(item, graph.Tensor):
        if item.dtype.base_dtype in dtypes.INTS and item.shape.ndims in (None, 0):
            return
    elif isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        return
    elif hasattr(item, "value") and isinstance(getattr(item, "value"), int):
        return
    elif isinstance(item, np.ndarray) and item.ndim == 0 and np.issubdtype(item.dtype, np.integer):
        return
    raise TypeError("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar "
                    f"tf.int32/tf.int64 tensors are valid indices, got {item!r}; for a mask use "
                    "tf.boolean_mask, for a list of rows tf.gather")


def getitem(tensor, item, var=None):
    """`tensor[item]`: one StridedSlice node."""
    if isinstance(item, graph.Tensor) and item.dtype.base_dtype == dtypes.bool:
        return logic_functions.boolean_mask(tensor, item)
    items = item if isinstance(item, (list, tuple)) else (item,)
    index = _Index()
    with graph.name_scope(None, "strided_slice", [tensor]) as scope:
        for one in items:
            index.add_item(one)
        begin, end, strides = (graph.convert_to_tensor(v, name="stack") for v in index.packed())
        return strided_slice(tensor, begin, end, strides, var=var, name=scope, **index.masks)


def reverse(tensor, axis, name=None):
    """`tensor` turned round along each of `axis`. TF: tf.reverse.
    Dtypes, shapes, errors: as op ReverseV2."""
    return ReverseV2(tensor, index_vector(axis), name=name)


def reverse_sequence(input, seq_lengths, seq_axis=None, batch_axis=None, name=None, seq_dim=None,
                     batch_dim=None):
    """The first seq_lengths[b] entries along `seq_axis` of batch entry b turned round.
    TF: tf.reverse_sequence.
    Dtypes, shapes, errors: as op ReverseSequence."""
    seq = one_of(seq_axis, seq_dim, "seq_axis", "seq_dim")
    batch = one_of(batch_axis, batch_dim, "batch_axis", "batch_dim", 0)
    if seq is None:
        raise ValueError("tf.reverse_sequence: seq_axis must be given")
    return ReverseSequence(input, seq_lengths, seq_dim=seq, batch_dim=batch, name=name)


def roll(input, shift, axis, name=None):
    """`input` shifted round along axes. TF: tf.roll.
    Dtypes, shapes, errors: as op Roll."""
    return Roll(input, shift, axis, name=name)


PUBLIC = {
    "strided_slice": strided_slice, "reverse": reverse, "reverse_v2": reverse,
    "manip.reverse": reverse, "reverse_sequence": reverse_sequence, "roll": roll,
    "manip.roll": roll,
}
