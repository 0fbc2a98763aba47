"""Staging areas: tuples that one step puts down for a later one, the next batch for example.

Invariants
  1. An area is known by its shared name; putting waits while it is full, taking while it is empty.
  2. A map has tuples under int64 keys; a key can be taken when all its components were put.

Who calls it: users.  Thread: the one building the graph.
Source: TF 1.15 `tf.contrib.staging`.

Example:  `area = StagingArea([tf.float32]);  put = area.put([x]);  [y] = area.get()`
"""
from pyflow.framework import dtypes as dtypes_lib, graph
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.queue import components
from pyflow.ops.base import tensors as tensor_lib
from pyflow.ops.queue import staging_ops


class BaseStagingArea(ShowsArguments):
    """What areas and maps have in common: types, shapes, names, limits."""

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None, capacity=0,
                 memory_limit=0):
        own = graph.get_default_graph().unique_name(type(self).__name__)
        self._name = shared_name if shared_name is not None else own
        if shared_name is not None and not isinstance(shared_name, str):
            raise ValueError(f"shared_name must be a string, got {shared_name!r}")
        self._dtypes = [dtypes_lib.as_dtype(t) for t in dtypes]
        if shapes is not None:
            if len(shapes) != len(self._dtypes):
                raise ValueError("StagingArea shapes must be the same length as dtypes")
            self._shapes = [TensorShape(s) for s in shapes]
        else:
            self._shapes = components.shapes_or_unknown(None, self._dtypes)
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError("StagingArea names must be the same length as dtypes")
        self._names = names
        if capacity < 0 or memory_limit < 0:
            raise ValueError(f"capacity and memory_limit must not be negative, got {capacity} and "
                             f"{memory_limit}")
        self._capacity, self._memory_limit = capacity, memory_limit

    name = property(lambda self: self._name, doc="The area's shared name.")
    dtypes = property(lambda self: self._dtypes, doc="The components' dtypes.")
    shapes = property(lambda self: self._shapes, doc="The components' static shapes.")
    names = property(lambda self: self._names, doc="The components' names, or None.")
    capacity = property(lambda self: self._capacity, doc="The most tuples; 0: any number.")
    memory_limit = property(lambda self: self._memory_limit, doc="The most bytes; 0: any number.")

    def _op(self, opdef, *arguments, name=None, dtypes=None, **attrs):
        return opdef(*arguments, dtypes=dtypes or self._dtypes, shared_name=self._name,
                     capacity=self._capacity, memory_limit=self._memory_limit, name=name, **attrs)

    def _checked(self, values, indices=None):
        """(tensors, their places) of a list, or of a dict, which may lack components where indices
        are given."""
        if isinstance(values, dict):
            if not self._names:
                raise ValueError("Staging areas must have names to enqueue a dictionary")
            if not set(values).issubset(self._names):
                raise ValueError(f"Keys in dictionary to put do not match names of staging area. "
                                 f"Dictionary: {sorted(values)}Queue: {sorted(self._names)}")
            indices = [i for i, n in enumerate(self._names) if n in values]
            values = [values[self._names[i]] for i in indices]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a staging area with names")
            values = list(values) if isinstance(values, (list, tuple)) else [values]
            if indices is None:
                indices = list(range(len(values)))
            if len(values) > len(self._dtypes):
                raise ValueError(f"Too many inputs {len(values)} vs. {len(self._dtypes)}")
        found = []
        for value, i in zip(values, indices):
            tensor = graph.convert_to_tensor(value, dtype=self._dtypes[i], name=f"component_{i}")
            if not tensor.shape.is_compatible_with(self._shapes[i]):
                raise ValueError(f"component {i} has shape {tensor.shape}, expected "
                                 f"{self._shapes[i]}")
            found.append(tensor)
        return found, indices

    def _found(self, found, indices):
        """What was taken: a dict of named components, or a list."""
        found = list(found) if isinstance(found, (list, tuple)) else [found]
        for tensor, i in zip(found, indices):
            tensor.set_shape(self._shapes[i])
        if self._names:
            return {self._names[i]: tensor for i, tensor in zip(indices, found)}
        return found


class StagingArea(BaseStagingArea):
    """Tuples, first in, first out. TF: tf.contrib.staging.StagingArea.

    dtypes, shapes, names: of the components. capacity, memory_limit: the most tuples and bytes, 0:
    any number; more of them wait.
    """

    def put(self, values, name=None):
        """The operation that puts a tuple down; waits for room. ResourceExhaustedError if it alone
        is beyond memory_limit."""
        with graph.name_scope(name, f"{self._name}_put", []) as scope:
            values, indices = self._checked(values)
            if len(values) != len(self._dtypes):
                raise ValueError(f"Unexpected number of inputs {len(values)} vs. "
                                 f"{len(self._dtypes)}")
            return self._op(staging_ops.Stage, values, name=scope)

    def get(self, name=None):
        """The first tuple; waits for it: a list, or, with names, a dict."""
        return self._found(self._op(staging_ops.Unstage, name=name or f"{self._name}_get"),
                           range(len(self._dtypes)))

    def peek(self, index, name=None):
        """The tuple at `index`, which stays; waits for it."""
        found = self._op(staging_ops.StagePeek, index, name=name or f"{self._name}_peek")
        return self._found(found, range(len(self._dtypes)))

    def size(self, name=None):
        """The number of tuples, an int32 scalar."""
        return self._op(staging_ops.StageSize, name=name or f"{self._name}_size")

    def clear(self, name=None):
        """The operation that drops all tuples."""
        return self._op(staging_ops.StageClear, name=name or f"{self._name}_clear")


class MapStagingArea(BaseStagingArea):
    """Tuples under int64 keys, whole or in parts. TF: tf.contrib.staging.MapStagingArea.

    ordered: `get` without a key takes the least one; otherwise any.
    """

    def __init__(self, dtypes, shapes=None, names=None, shared_name=None, ordered=False,
                 capacity=0, memory_limit=0):
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._prefix = "OrderedMap" if ordered else "Map"

    def _kind(self, name):
        return getattr(staging_ops, self._prefix + name)

    def put(self, key, vals, indices=None, name=None):
        """The operation that puts components under a key; waits for room.

        vals: all of them, or those of `indices`, or, with names, a dict. InvalidArgumentError for a
        component that is there."""
        with graph.name_scope(name, f"{self._name}_put", []) as scope:
            vals, places = self._checked(vals, indices)
            return self._op(self._kind("Stage"), _key(key), _indices(places), vals, name=scope)

    def _places(self, indices):
        if indices is None:
            return list(range(len(self._dtypes)))
        indices = list(indices) if isinstance(indices, (list, tuple)) else [indices]
        if all(isinstance(i, str) for i in indices):
            if not self._names:
                raise ValueError("String indices provided but staging area is not configured with "
                                 "names")
            return sorted(self._names.index(i) for i in indices)
        if not all(isinstance(i, int) for i in indices):
            raise TypeError(f"indices must be ints or names, got {indices}")
        return sorted(indices)

    def peek(self, key, indices=None, name=None):
        """Components of a key, which stay; waits until it is complete."""
        places = self._places(indices)
        found = self._op(self._kind("Peek"), _key(key), _indices(places), name=name,
                         dtypes=[self._dtypes[i] for i in places])
        return self._found(found, places)

    def get(self, key=None, indices=None, name=None):
        """(key, components); waits until it is complete.

        key: None: any. indices: numbers or names of the components that are taken; the others
        stay."""
        places = self._places(indices)
        types = [self._dtypes[i] for i in places]
        if key is None:
            found = self._op(self._kind("UnstageNoKey"), _indices(places), dtypes=types,
                             name=name or f"{self._name}_get")
            values = [t for part in found[1:] for t in (part if isinstance(part, (list, tuple))
                                                        else [part])]
            return found[0], self._found(values, places)
        key = _key(key)
        found = self._op(self._kind("Unstage"), key, _indices(places), dtypes=types,
                         name=name or f"{self._name}_get")
        return key, self._found(found, places)

    def size(self, name=None):
        """The number of complete keys, an int32 scalar."""
        return self._op(self._kind("Size"), name=name or f"{self._name}_size")

    def incomplete_size(self, name=None):
        """The number of keys that lack components, an int32 scalar."""
        return self._op(self._kind("IncompleteSize"), name=name or f"{self._name}_incomplete_size")

    def clear(self, name=None):
        """The operation that drops all keys."""
        return self._op(self._kind("Clear"), name=name or f"{self._name}_clear")


def _key(key):
    return tensor_lib.cast(graph.convert_to_tensor(key), dtypes_lib.int64)


def _indices(places):
    return graph.convert_to_tensor(list(places), dtype=dtypes_lib.int32)


PUBLIC = {"contrib.staging.StagingArea": StagingArea,
          "contrib.staging.MapStagingArea": MapStagingArea}
