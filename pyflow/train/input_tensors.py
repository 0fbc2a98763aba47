"""What input helpers do to the tensors they are given: lists of dicts, sparse tensors, shapes.

Invariants
  1. A dict's tensors go in the order of their sorted keys.
  2. A SparseTensor goes through a queue as three strings (SerializeSparse), and comes out as one
     again.

Pure but for the nodes they add.  Who calls it: train/input, train/bucketing.
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.array import partition_functions
from pyflow.lib.control_flow import cond, grouping
from pyflow.lib.sparse import sparse_functions
from pyflow.ops.base import tensors as tensor_lib


def as_list(tensors):
    """The tensors of a dict in the order of its keys, or a list as it is."""
    if isinstance(tensors, dict):
        return [tensors[key] for key in sorted(tensors, key=str)]
    return tensors


def as_lists(tensors_list):
    """Likewise of each; ValueError if there is none, or if dicts have other keys."""
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    if isinstance(tensors_list[0], dict):
        keys = set(tensors_list[0])
        if any(set(tensors) != keys for tensors in tensors_list):
            raise ValueError("All dictionaries in tensors_list must have the same keys")
        return [as_list(tensors) for tensors in tensors_list]
    return tensors_list


def as_given(original, found):
    """What was taken, as a dict if a dict was given; one tensor or a list otherwise."""
    if isinstance(original, dict):
        found = [found] if len(original) == 1 else found
        return dict(zip(sorted(original, key=str), found))
    return found


def converted(tensor_list, what="batch"):
    """Tensors and SparseTensors; ValueError if there is none."""
    found = [value if isinstance(value, graph.SparseTensor) else graph.convert_to_tensor(value)
             for value in tensor_list]
    if not found:
        raise ValueError(f"Expected at least one tensor in {what}().")
    return found


def checked_keep_input(keep_input, enqueue_many):
    """keep_input as a tensor; ValueError unless it is a scalar, or a vector for enqueue_many."""
    keep_input = graph.convert_to_tensor(keep_input)
    rank = keep_input.shape.ndims
    if rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and rank == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep_input


def if_kept(keep_input, then):
    """The operation that then() gives, run where keep_input is true; a constant chooses now."""
    known = constant_value(keep_input)
    if known is None:
        return cond.cond(keep_input, lambda: grouping.group(then()), grouping.no_op)
    return then() if known else grouping.no_op()


def selected_rows(tensor_list, keep_input):
    """The rows that a vector keep_input keeps, of each tensor."""
    part = tensor_lib.cast(keep_input, dtypes.int32)
    return [partition_functions.dynamic_partition(x, part, 2)[1] for x in tensor_list]


# ------------------------------------------------------------------------------- sparse tensors
class _Packed:
    """What is needed to make a sparse tensor of its strings: its dtype and rank when taken."""

    def __init__(self, sparse, enqueue_many):
        self.dtype = sparse.values.dtype
        shape = constant_value(sparse.dense_shape)
        rank = sparse.dense_shape.shape.num_elements()
        self.shape = TensorShape([None] * rank) if rank is not None else TensorShape(None)
        if shape is not None:
            self.shape = TensorShape([int(d) for d in shape])
        if enqueue_many and self.shape.ndims is not None:
            self.shape = self.shape[1:]

    def unpacked(self, strings):
        """A batch's strings as one sparse tensor."""
        found = sparse_functions.deserialize_many_sparse(strings, self.dtype, self.shape.ndims and
                                                         self.shape.ndims)
        return found


def pack_sparse(tensor_list, enqueue_many):
    """(tensors alone, what `unpack_sparse` needs)."""
    found, packed = [], []
    for value in tensor_list:
        if not isinstance(value, graph.SparseTensor):
            found.append(value)
            packed.append(None)
            continue
        pack = (sparse_functions.serialize_many_sparse if enqueue_many
                else sparse_functions.serialize_sparse)
        found.append(pack(value))
        packed.append(_Packed(value, enqueue_many))
    return found, packed


def unpack_sparse(taken, packed):
    """What was taken, with sparse tensors where such were put in."""
    if not any(packed):
        return taken
    alone = not isinstance(taken, (list, tuple))
    found = [t if p is None else p.unpacked(t) for t, p in zip([taken] if alone else taken, packed)]
    return found[0] if alone else found


# ------------------------------------------------------------------------------- types and shapes
def types_of(tensor_lists):
    """One dtype a component; TypeError where lists differ."""
    all_types = [[t.dtype.base_dtype for t in tensor_list] for tensor_list in tensor_lists]
    for other in all_types[1:]:
        if other != all_types[0]:
            raise TypeError("Expected types to be consistent: {} vs. {}.".format(
                ", ".join(t.name for t in all_types[0]), ", ".join(t.name for t in other)))
    return all_types[0]


def shapes_of(tensor_lists, shapes, enqueue_many):
    """The elements' shapes: `shapes`, or what the tensors say. ValueError for an unknown rank."""
    if shapes is not None:
        return shapes
    found = []
    for i in range(len(tensor_lists[0])):
        of_one = [as_shape(tensor_list[i].shape) for tensor_list in tensor_lists]
        for tensor_list, shape in zip(tensor_lists, of_one):
            if shape.ndims is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensor_list[i]}")
        if enqueue_many:
            of_one = [shape.with_rank_at_least(1)[1:] for shape in of_one]
        for shape in of_one[1:]:
            of_one[0].merge_with(shape)
        found.append(of_one[0].as_list())
    return found
