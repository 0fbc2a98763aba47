"""Nested structures: lists, tuples, namedtuples and dicts of anything, taken apart and put
together again.

Invariants
  1. Order is that of the structure; a dict's is that of its sorted keys (TF 1.x's rule).
  2. A string, an ndarray, a Tensor and a TensorArray are leaves.
  3. With `expand_composites` an IndexedSlices or SparseTensor is a structure of its component
     tensors.

Pure functions; any thread.  Called by control flow, functional ops and sessions.

Example:  `flatten({"b": 2, "a": (0, 1)})` -> [0, 1, 2]
"""
from collections import abc

from pyflow.framework import graph as ops

_SPARSE = (ops.IndexedSlices, ops.SparseTensor)


def is_sequence(o):
    """True for a list, tuple, namedtuple or mapping, and a mapping's keys(), values(), items()."""
    return (isinstance(o, (abc.Sequence, abc.Mapping, abc.MappingView))
            and not isinstance(o, (str, bytes, bytearray) + _SPARSE))


def is_nested(seq, expand_composites=False):
    """True if `seq` has elements of its own."""
    return is_sequence(seq) or (expand_composites and isinstance(seq, _SPARSE))


def _elements(structure):
    """The direct elements, in order."""
    if isinstance(structure, abc.Mapping):
        return [structure[key] for key in _sorted_keys(structure)]
    if isinstance(structure, ops.SparseTensor):
        return [structure.indices, structure.values, structure.dense_shape]
    if isinstance(structure, ops.IndexedSlices):
        parts = [structure.values, structure.indices]
        return parts if structure.dense_shape is None else parts + [structure.dense_shape]
    return list(structure)


def _sorted_keys(mapping):
    try:
        return sorted(mapping)
    except TypeError as error:
        raise TypeError("nest only supports dicts with sortable keys, "
                        f"got {list(mapping)}") from error


def _rebuild(structure, elements):
    """A structure of the same type with other elements."""
    if isinstance(structure, abc.Mapping):
        by_key = dict(zip(_sorted_keys(structure), elements))
        pairs = [(key, by_key[key]) for key in structure]
        if hasattr(structure, "default_factory"):
            return type(structure)(structure.default_factory, pairs)
        return type(structure)(pairs)
    if isinstance(structure, ops.SparseTensor):
        return ops.SparseTensor(*elements)
    if isinstance(structure, ops.IndexedSlices):
        return ops.IndexedSlices(*elements)
    if hasattr(structure, "_fields"):
        return type(structure)(*elements)
    return type(structure)(elements) if isinstance(structure, (list, tuple)) else list(elements)


def flatten(structure, expand_composites=False):
    """All leaves in order; a leaf gives a list of one."""
    if not is_nested(structure, expand_composites):
        return [structure]
    leaves = []
    for element in _elements(structure):
        leaves.extend(flatten(element, expand_composites))
    return leaves


def pack_sequence_as(structure, flat_sequence, expand_composites=False):
    """`flat_sequence` arranged like `structure`. ValueError when the numbers of leaves differ."""
    flat_sequence = list(flat_sequence)
    count = len(flatten(structure, expand_composites))
    if count != len(flat_sequence):
        raise ValueError(
            f"Could not pack sequence. Structure had {count} elements, but flat_sequence had "
            f"{len(flat_sequence)} elements. Structure: {structure}, flat_sequence: "
            f"{flat_sequence}.")
    leaves = iter(flat_sequence)

    def pack(part):
        if not is_nested(part, expand_composites):
            return next(leaves)
        return _rebuild(part, [pack(element) for element in _elements(part)])
    return pack(structure)


def map_structure(func, *structures, expand_composites=False, check_types=True):
    """`func` applied to corresponding leaves; the result has the first structure's form."""
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structures:
        raise ValueError("Must provide at least one structure")
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types, expand_composites)
    flat = [flatten(structure, expand_composites) for structure in structures]
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in zip(*flat)],
                            expand_composites)


def assert_same_structure(nest1, nest2, check_types=True, expand_composites=False):
    """ValueError if the nesting differs, TypeError if the types of sequences do."""
    try:
        _check_same(nest1, nest2, check_types, expand_composites)
    except (ValueError, TypeError) as error:
        raise type(error)(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: type={type(nest1).__name__} str={nest1}\n\n"
            f"Second structure: type={type(nest2).__name__} str={nest2}\n\n"
            f"More specifically: {error}") from None


def _check_same(a, b, check_types, expand_composites):
    nested_a, nested_b = is_nested(a, expand_composites), is_nested(b, expand_composites)
    if nested_a != nested_b:
        one, other = (a, b) if nested_a else (b, a)
        raise ValueError(f"Substructure \"type={type(one).__name__} str={one}\" is a sequence, "
                         f"while substructure \"type={type(other).__name__} str={other}\" is not")
    if not nested_a:
        return
    if check_types and not _same_kind(a, b):
        raise TypeError("The two structures don't have the same sequence type. First structure "
                        f"has type {type(a).__name__}, while second structure has type "
                        f"{type(b).__name__}.")
    if isinstance(a, abc.Mapping) and isinstance(b, abc.Mapping) and set(a) != set(b):
        raise ValueError("The two dictionaries don't have the same set of keys. First structure "
                         f"has keys {list(a)}, while second structure has keys {list(b)}.")
    parts_a, parts_b = _elements(a), _elements(b)
    if len(parts_a) != len(parts_b):
        raise ValueError("The two structures don't have the same number of elements. "
                         f"First structure: {a}. Second structure: {b}.")
    for part_a, part_b in zip(parts_a, parts_b):
        _check_same(part_a, part_b, check_types, expand_composites)


def _same_kind(a, b):
    if hasattr(a, "_fields") and hasattr(b, "_fields"):
        return type(a).__name__ == type(b).__name__ and a._fields == b._fields
    if isinstance(a, abc.Mapping) and isinstance(b, abc.Mapping):
        return True
    return type(a) is type(b)


def flatten_up_to(shallow_tree, input_tree, check_types=True, expand_composites=False,
                  check_subtrees_length=True):
    """Elements of `input_tree` at the depth of `shallow_tree`'s leaves. Errors as
    assert_shallow_structure's."""
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites,
                             check_subtrees_length)
    return _flat_up_to(shallow_tree, input_tree, expand_composites)


def _flat_up_to(shallow, deep, expand_composites=False):
    if not is_nested(shallow, expand_composites):
        return [deep]
    if isinstance(shallow, abc.Mapping):
        pairs = [(shallow[key], deep[key]) for key in _sorted_keys(shallow)]
    else:
        pairs = zip(_elements(shallow), _elements(deep))
    return [leaf for part, below in pairs for leaf in _flat_up_to(part, below, expand_composites)]


def assert_shallow_structure(shallow_tree, input_tree, check_types=True, expand_composites=False,
                             check_subtrees_length=True):
    """That `input_tree` is nested as `shallow_tree` and may be deeper.  TypeError where one is no
    sequence or, with check_types, of another kind; ValueError for another length, with
    check_subtrees_length, or other keys.  expand_composites: sparse tensors are structures."""
    if not is_nested(shallow_tree, expand_composites):
        return
    if not is_nested(input_tree, expand_composites):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input "
                        f"has type: {type(input_tree).__name__}.")
    if check_types and not _same_kind(shallow_tree, input_tree):
        raise TypeError("The two structures don't have the same sequence type. Input structure has "
                        f"type {type(input_tree).__name__}, while shallow structure has type "
                        f"{type(shallow_tree).__name__}.")
    lengths = [len(_elements(tree)) for tree in (input_tree, shallow_tree)]
    if check_subtrees_length and lengths[0] != lengths[1]:
        raise ValueError("The two structures don't have the same sequence length. Input structure "
                         f"has length {lengths[0]}, while shallow structure has length "
                         f"{lengths[1]}.")
    if isinstance(shallow_tree, abc.Mapping) and set(shallow_tree) != set(input_tree):
        raise ValueError("The two structures don't have the same keys. Input structure has keys "
                         f"{list(input_tree)}, while shallow structure has keys "
                         f"{list(shallow_tree)}.")
    for part, deep in zip(_elements(shallow_tree), _elements(input_tree)):
        assert_shallow_structure(part, deep, check_types, expand_composites,
                                 check_subtrees_length)


def map_structure_up_to(shallow_tree, func, *inputs, check_types=True, expand_composites=False):
    """`func` of the corresponding parts of `inputs` at the depth of `shallow_tree`'s leaves; the
    result has shallow_tree's form."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    flat = [flatten_up_to(shallow_tree, tree, check_types, expand_composites) for tree in inputs]
    return pack_sequence_as(shallow_tree, [func(*parts) for parts in zip(*flat)],
                            expand_composites)


def flatten_dict_items(dictionary):
    """{leaf of a key: leaf of its value}, of keys and values that may be nested.

    ValueError for a key that comes twice or has not as many leaves as its value, TypeError for what
    is no dict."""
    if not isinstance(dictionary, abc.Mapping):
        raise TypeError("input must be a dictionary")
    flat = {}
    for key, value in dictionary.items():
        keys, values = (flatten(key), flatten(value)) if is_sequence(key) else ([key], [value])
        if len(keys) != len(values):
            raise ValueError(f"Could not flatten dictionary. Key had {len(keys)} elements, but "
                             f"value had {len(values)} elements. Key: {keys}, value: {values}.")
        for leaf, part in zip(keys, values):
            if leaf in flat:
                raise ValueError(f"Could not flatten dictionary: key {leaf!r} is not unique.")
            flat[leaf] = part
    return flat


PUBLIC = {
    "nest.flatten": flatten, "nest.pack_sequence_as": pack_sequence_as,
    "nest.map_structure": map_structure, "nest.assert_same_structure": assert_same_structure,
    "contrib.framework.nest.flatten": flatten,
    "contrib.framework.nest.pack_sequence_as": pack_sequence_as,
    "contrib.framework.nest.map_structure": map_structure,
}
