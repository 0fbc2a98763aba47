"""The structure of a dataset's elements: tuples, named tuples and dicts of tensors.

Invariants
  1. Lists are no structure: they become tensors, as in TF.
  2. Dicts are flattened in the order of their sorted keys and keep their own order when packed.
  3. Where elements are datasets (windows), the leaf of the types is a DatasetSpec; where they are
     sparse, a SparseSpec: such a component is tf.serialize_sparse's three strings, in a batch
     [n, 3].

Thread: the one building the graph.  Source: TF 1.15 data/util/nest.

Example:  `flatten({"b": 1, "a": (2, 3)})` is [2, 3, 1].
"""
import collections.abc

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.sparse_values import SparseTensor, SparseTensorValue
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.sparse import sparse_functions


SCALAR = TensorShape([])


class DatasetSpec:
    """The type of a component that is itself a dataset, of elements of these types and shapes.

    of: makes the Dataset of a variant tensor."""

    def __init__(self, types, shapes, of):
        self.types, self.shapes, self.of = types, shapes, of

    def __eq__(self, other):
        return isinstance(other, DatasetSpec) and self.types == other.types

    def __hash__(self):
        return hash(DatasetSpec)

    def __repr__(self):
        return f"DatasetSpec({self.types}, {self.shapes})"

    def is_compatible_with(self, other):
        return self == other


class SparseSpec:
    """The type of a component that is a SparseTensor of these elements."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __eq__(self, other):
        return isinstance(other, SparseSpec) and self.dtype == other.dtype

    def __hash__(self):
        return hash((SparseSpec, self.dtype))

    def __repr__(self):
        return f"SparseSpec({self.dtype!r})"


def dtype_of(leaf):
    """The element type of a component of that type."""
    if isinstance(leaf, SparseSpec):
        return dtypes.string
    return dtypes.variant if isinstance(leaf, DatasetSpec) else leaf


def has_sparse(types):
    """Whether a component is sparse."""
    return any(isinstance(leaf, SparseSpec) for leaf in flatten(types))


def flat_shapes(types, shapes):
    """The static shapes of the components; those of sparse ones, as strings, are not told."""
    return [TensorShape(None) if isinstance(leaf, SparseSpec) else shape
            for leaf, shape in zip(flatten(types), flatten(shapes))]


def shown(types):
    """The types as users see them: of sparse components the elements' DType."""
    return map_leaves(lambda leaf: leaf.dtype if isinstance(leaf, SparseSpec) else leaf, types)


def with_classes(types, classes):
    """The types, those whose class is SparseTensor as SparseSpecs; classes: None, or a nest."""
    if classes is None:
        return types
    return map_leaves(lambda leaf, kind: SparseSpec(leaf) if kind is SparseTensor and
                      not isinstance(leaf, SparseSpec) else leaf, types, classes)


def flat_types(types):
    """The element types of the components."""
    return [dtype_of(leaf) for leaf in flatten(types)]


def classes_of(types):
    """The structure of the components' Python classes: tf.Tensor, tf.SparseTensor."""
    return map_leaves(lambda leaf: leaf if isinstance(leaf, DatasetSpec) else SparseTensor
                      if isinstance(leaf, SparseSpec) else ops.Tensor, types)


def unwrapped(value):
    """A component as a tensor: a dataset's variant, a sparse tensor's three strings."""
    if isinstance(value, SparseTensor):
        return sparse_functions.serialize_sparse(value)
    return value._variant_tensor if hasattr(value, "_variant_tensor") else value


def packed(types, tensors, shapes=None):
    """The tensors in the structure, those of datasets as Datasets, of sparse ones as such."""
    shapes = [None] * len(flatten(types)) if shapes is None else flatten(shapes)
    return pack(types, [_wrapped(*one) for one in zip(flatten(types), tensors, shapes)])


def _wrapped(leaf, tensor, shape):
    if isinstance(leaf, DatasetSpec):
        return leaf.of(tensor, leaf.types, leaf.shapes)
    if isinstance(leaf, SparseSpec):
        return sparse_functions.deserialize_sparse(tensor, leaf.dtype,
                                                   None if shape is None else shape.ndims)
    return tensor


def is_nested(value):
    """True of tuples and dicts; False of tensors, arrays, lists and shapes."""
    if isinstance(value, (SparseTensor, SparseTensorValue, TensorShape)):
        return False
    return isinstance(value, (tuple, collections.abc.Mapping))


def _parts(value):
    if isinstance(value, collections.abc.Mapping):
        return [value[key] for key in sorted(value)]
    return list(value)


def flatten(value):
    """The leaves, in order."""
    if not is_nested(value):
        return [value]
    return [leaf for part in _parts(value) for leaf in flatten(part)]


def pack(structure, leaves):
    """`leaves` in the structure. ValueError for another number of them."""
    leaves = list(leaves)
    if len(leaves) != len(flatten(structure)):
        raise ValueError(f"Structure had {len(flatten(structure))} elements, but the flat sequence "
                         f"had {len(leaves)}")
    return _packed(structure, iter(leaves))


def _packed(structure, leaves):
    if not is_nested(structure):
        return next(leaves)
    if isinstance(structure, collections.abc.Mapping):
        made = {key: _packed(structure[key], leaves) for key in sorted(structure)}
        return type(structure)((key, made[key]) for key in structure)
    parts = [_packed(part, leaves) for part in structure]
    return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)


def map_leaves(function, structure, *others):
    """The structure of the function's results; the others have the same one."""
    return pack(structure, [function(*leaves) for leaves in
                            zip(flatten(structure), *map(flatten, others))])


def same(a, b, what="structures"):
    """TypeError unless both have the same structure."""
    if is_nested(a) != is_nested(b) or is_nested(a) and (
            isinstance(a, collections.abc.Mapping) != isinstance(b, collections.abc.Mapping)
            or (sorted(a) != sorted(b) if isinstance(a, collections.abc.Mapping)
                else len(a) != len(b))):
        raise TypeError(f"The two {what} do not have the same structure: {a} and {b}")
    if is_nested(a):
        for x, y in zip(_parts(a), _parts(b)):
            same(x, y, what)


def types_of(types):
    """The structure with each leaf as a DType. TypeError for what is none."""
    return map_leaves(lambda leaf: leaf if isinstance(leaf, DatasetSpec | SparseSpec)
                      else dtypes.as_dtype(leaf), types)


def shapes_like(types, shapes):
    """Shapes in the structure of `types`; None: all unknown. A list is a shape."""
    if shapes is None:
        return map_leaves(lambda _: TensorShape(None), types)
    if not is_nested(types):
        return as_shape(shapes)
    if isinstance(types, collections.abc.Mapping):
        same(types, shapes, "types and shapes")
        return type(types)((key, shapes_like(types[key], shapes[key])) for key in types)
    if not isinstance(shapes, (tuple, list)) or len(shapes) != len(types):
        raise TypeError(f"output_shapes {shapes} do not have the structure of output_types {types}")
    return tuple(shapes_like(t, s) for t, s in zip(types, shapes))
