"""tensorflow.python.data.util.nest: nested structures as data sets have them.

Structures are tuples, named tuples and dicts; a list is a leaf, which becomes a tensor. Dicts are
flattened in the order of their sorted keys.

    nest.flatten({"b": 1, "a": ([2, 3], 4)})        # [[2, 3], 4, 1]
"""
from pyflow.framework.sparse_values import SparseTensorValue


def is_sequence(seq):
    """True for a tuple, named tuple or dict; False for a list and a SparseTensorValue."""
    return isinstance(seq, (tuple, dict)) and not isinstance(seq, SparseTensorValue)


def _parts(structure):
    return [structure[key] for key in sorted(structure)] if isinstance(structure, dict) \
        else list(structure)


def _like(structure, parts):
    if isinstance(structure, dict):
        by_key = dict(zip(sorted(structure), parts))
        return type(structure)((key, by_key[key]) for key in structure)
    return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)


def flatten(nest):
    """All leaves in order; a leaf gives a list of one."""
    return [leaf for part in _parts(nest) for leaf in flatten(part)] if is_sequence(nest) else [nest]


def pack_sequence_as(structure, flat_sequence):
    """`flat_sequence` arranged like `structure`. TypeError where it is no sequence, ValueError where
    the numbers of leaves differ."""
    if not (is_sequence(flat_sequence) or isinstance(flat_sequence, list)):
        raise TypeError("flat_sequence must be a sequence")
    count = len(flatten(structure))
    if len(flat_sequence) != count:
        raise ValueError(f"Could not pack sequence. Structure had {count} elements, but "
                         f"flat_sequence had {len(flat_sequence)} elements: {flat_sequence}.")
    leaves = iter(flat_sequence)

    def packed(part):
        return _like(part, [packed(p) for p in _parts(part)]) if is_sequence(part) else next(leaves)
    return packed(structure)


def assert_same_structure(nest1, nest2, check_types=True):
    """ValueError where the nesting differs, TypeError where types of sequences do."""
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(f"The two structures don't have the same nested structure: {nest1} and "
                         f"{nest2}")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f"The two structures don't have the same sequence type: {type(nest1)} and "
                        f"{type(nest2)}")
    if len(nest1) != len(nest2) or isinstance(nest1, dict) and set(nest1) != set(nest2):
        raise ValueError(f"The two structures don't have the same nested structure: {nest1} and "
                         f"{nest2}")
    for one, other in zip(_parts(nest1), _parts(nest2)):
        assert_same_structure(one, other, check_types)


def map_structure(func, *structure, **check_types_dict):
    """`func` of corresponding leaves, arranged like the first structure. check_types=False: types
    of sequences may differ."""
    check_types = check_types_dict.pop("check_types", True)
    if check_types_dict or not structure:
        raise ValueError("map_structure takes structures and check_types, got "
                         f"{sorted(check_types_dict)}")
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    results = [func(*leaves) for leaves in zip(*map(flatten, structure))]
    return pack_sequence_as(structure[0], results)


def assert_shallow_structure(shallow_tree, input_tree, check_types=True):
    """That `input_tree` is nested as `shallow_tree` and may be deeper: TypeError where it is no
    sequence or of another type, ValueError for another length or other keys."""
    if not is_sequence(shallow_tree):
        return
    if not is_sequence(input_tree):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input "
                        f"has type: '{type(input_tree).__name__}'.")
    if check_types and not isinstance(input_tree, type(shallow_tree)):
        raise TypeError("The two structures don't have the same sequence type. Input structure has "
                        f"type '{type(input_tree).__name__}', while shallow structure has type "
                        f"'{type(shallow_tree).__name__}'.")
    if len(input_tree) != len(shallow_tree):
        raise ValueError("The two structures don't have the same sequence length. Input structure "
                         f"has length {len(input_tree)}, while shallow structure has length "
                         f"{len(shallow_tree)}.")
    if check_types and isinstance(shallow_tree, dict) and set(input_tree) != set(shallow_tree):
        raise ValueError("The two structures don't have the same keys. Input structure has keys "
                         f"{list(input_tree)}, while shallow structure has keys "
                         f"{list(shallow_tree)}.")
    for part, below in zip(_parts(shallow_tree), _parts(input_tree)):
        assert_shallow_structure(part, below, check_types)


def flatten_up_to(shallow_tree, input_tree):
    """The parts of `input_tree` at the depth of `shallow_tree`'s leaves."""
    assert_shallow_structure(shallow_tree, input_tree)

    def flat(shallow, deep):
        return [leaf for pair in zip(_parts(shallow), _parts(deep)) for leaf in flat(*pair)] \
            if is_sequence(shallow) else [deep]
    return flat(shallow_tree, input_tree)


def map_structure_up_to(shallow_tree, func, *inputs):
    """`func` of the parts of `inputs` at the depth of `shallow_tree`'s leaves, arranged like it."""
    if not inputs:
        raise ValueError("Argument `inputs` is empty. Cannot map over no sequences.")
    results = [func(*parts) for parts in zip(*(flatten_up_to(shallow_tree, i) for i in inputs))]
    return pack_sequence_as(shallow_tree, results)
