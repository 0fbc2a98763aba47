"""Fetches: from what the user asks for to a flat list of tensors, and back to the same structure.

    fetches  --mapper-->  unique tensors + targets  --plan-->  values  --mapper.build-->  the user's
    structure

Invariants
    1. Every tensor is fetched once, however often it appears.
    2. A mapper depends only on the structure of the fetches, so it is cached beside its plan.
    3. Operations become None; strings are looked up by name; SparseTensor and IndexedSlices become
       their Value tuples; lists, tuples, named tuples, dicts and attrs classes keep their types.

Threads: mappers are immutable after construction.

    mapper = FetchMapper(graph, {"a": a, "ops": [b, train_op]})
    mapper.tensors, mapper.targets                 # [a, b], [train_op]
    mapper.build([1.0, 2.0])                       # {"a": 1.0, "ops": [2.0, None]}
"""
import collections.abc

from pyflow.framework import graph as graph_lib
from pyflow.framework import late_text
from pyflow.framework.user_traceback import told_to_users

# (type, fetch function, feed function, feed function for partial_run), the most recent first.
#   fetch(x) -> (list of graph elements, contraction of their values)
#   feed(x, value) -> [(tensor, value)];  feed_partial(x) -> [tensor]
_CONVERSIONS = []


def register_session_run_conversion_functions(tensor_type, fetch_function, feed_function=None,
                                              feed_function_for_partial_run=None):
    """Teaches `Session.run` to fetch, and perhaps feed, objects of `tensor_type`.

    Raises ValueError if the type is registered already.
    """
    for known in _CONVERSIONS:
        if known[0] is tensor_type:
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    _CONVERSIONS.insert(
        0, (tensor_type, fetch_function, feed_function, feed_function_for_partial_run)
    )


def conversion_for(value):
    """The conversion registered for `value`, or that its class brings as `session_conversion`
    (fetch, feed and partial feed function), as pyflow's own composite tensors do; or None."""
    for conversion in _CONVERSIONS:
        if isinstance(value, conversion[0]):
            return conversion
    brought = getattr(type(value), "session_conversion", None)
    return (type(value), *brought) if brought else None


def _sparse_parts(sparse):
    if sparse.dense_shape is None:
        return [sparse.values, sparse.indices]
    return [sparse.values, sparse.indices, sparse.dense_shape]


def _fetch_sparse(sparse):
    def contract(values):
        from pyflow.framework.graph import SparseTensorValue
        return SparseTensorValue(indices=values[0], values=values[1], dense_shape=values[2])
    return [sparse.indices, sparse.values, sparse.dense_shape], contract


def _fetch_slices(slices):
    from pyflow.framework.graph import IndexedSlicesValue

    def contract(values):
        return IndexedSlicesValue(values[0], values[1], values[2] if len(values) > 2 else None)
    return _sparse_parts(slices), contract


def _builtin_conversion(fetch):
    """(elements, contraction) of the framework's own composite tensors, or None."""
    if isinstance(fetch, graph_lib.SparseTensor):
        return _fetch_sparse(fetch)
    if isinstance(fetch, graph_lib.IndexedSlices):
        return _fetch_slices(fetch)
    conversion = conversion_for(fetch)
    return conversion[1](fetch) if conversion else None


def _first(values):
    return values[0]


def _none(values):
    return None


class FetchMapper:
    """The unique tensors and target operations behind `fetches`, and the way back."""

    @told_to_users
    def __init__(self, graph, fetches):
        self.graph = graph
        self.tensors, self.targets = [], []
        self._slot_of, self._target_set = {}, set()
        self._rebuild = self._map(fetches)
        self.is_leaf = self._rebuild is _first        # one tensor: the result is values[0]

    def build(self, values):
        """The user's structure, filled with `values` (one per entry of `tensors`)."""
        return self._rebuild(values)

    def _map(self, fetch):
        if fetch is None:
            raise TypeError(
                f"Fetch argument {fetch!r} has invalid type {type(fetch)!r}. Cannot fetch None; "
                "fetch a Tensor, an Operation, their names, or a structure of them. tf.gradients "
                "gives None for what its ys do not depend on"
            )
        if isinstance(fetch, (list, tuple)):
            return self._map_sequence(fetch)
        if isinstance(fetch, collections.abc.Mapping):
            return self._map_mapping(fetch)
        if hasattr(type(fetch), "__attrs_attrs__"):
            return self._map_attrs(fetch)
        composite = _builtin_conversion(fetch)
        if composite is not None:
            return self._map_composite(fetch, *composite)
        return self._map_leaf(fetch)

    def _map_all(self, items):
        """Of (place, fetch): the functions that build each; an error says which one is None."""
        parts = []
        for key, fetch in items:
            if fetch is None:
                raise TypeError(
                    f"Fetch argument None has invalid type {type(None)!r}: element [{key!r}] of "
                    "the fetches is None. tf.gradients gives None for what its ys do not depend "
                    "on, tf.gradients(..., explain=True) says where the path ends")
            parts.append(self._map(fetch))
        return parts

    def _map_sequence(self, fetch):
        parts, kind = self._map_all(enumerate(fetch)), type(fetch)
        if hasattr(kind, "_fields"):
            return lambda values: kind(*[p(values) for p in parts])
        if kind is list:
            return lambda values: [p(values) for p in parts]
        return lambda values: kind([p(values) for p in parts])

    def _map_mapping(self, fetch):
        keys, parts, kind = list(fetch), self._map_all(fetch.items()), type(fetch)

        def build(values):
            result = kind()
            for key, part in zip(keys, parts):
                result[key] = part(values)
            return result
        return build

    def _map_attrs(self, fetch):
        kind = type(fetch)
        parts = [self._map(getattr(fetch, a.name)) for a in kind.__attrs_attrs__]
        return lambda values: kind(*[p(values) for p in parts])

    def _map_composite(self, fetch, elements, contract):
        slots = [self._slot(self._element(e, fetch)) for e in elements]
        return lambda values: contract([None if s is None else values[s] for s in slots])

    def _map_leaf(self, fetch):
        slot = self._slot(self._element(fetch, fetch))
        if slot is None:
            return _none
        return _first if slot == 0 else lambda values: values[slot]

    def _element(self, fetch, shown):
        try:
            element = self.graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as e:
            raise TypeError(
                f"Fetch argument {shown!r} has invalid type {type(shown)!r}, must be a string or "
                f"Tensor. ({e})"
            ) from None
        except (ValueError, KeyError) as e:
            problem = e                         # `e` is gone when its text is read
            raise late_text.error(ValueError, lambda: (
                f"Fetch argument {shown!r} cannot be interpreted as a Tensor. "
                f"({_text(problem)})")) from None
        operation = element if isinstance(element, graph_lib.Operation) else element.op
        if not self.graph.is_fetchable(element) or not self.graph.is_fetchable(operation):
            raise ValueError(
                f"Operation {operation.name!r} has been marked as not fetchable. It is inside a "
                "loop or a branch of a conditional, where a tensor has no single value: fetch what "
                "tf.while_loop or tf.cond returned instead"
            )
        return element

    def _slot(self, element):
        if isinstance(element, graph_lib.Operation):
            if element not in self._target_set:
                self._target_set.add(element)
                self.targets.append(element)
            return None
        slot = self._slot_of.get(element)
        if slot is None:
            slot = self._slot_of[element] = len(self.tensors)
            self.tensors.append(element)
        return slot


def _text(error):
    """A KeyError's message without the quotes of its repr."""
    return str(error.args[0]) if error.args else str(error)


def signature(fetches):
    """A hashable key for the structure `fetches`; equal keys have equal mappers."""
    if isinstance(fetches, (list, tuple)):
        return (type(fetches), *[signature(f) for f in fetches])
    if isinstance(fetches, collections.abc.Mapping):
        return (type(fetches), tuple(fetches), *[signature(f) for f in fetches.values()])
    if isinstance(fetches, graph_lib.Tensor):
        return fetches
    if hasattr(type(fetches), "__attrs_attrs__"):
        return (
            type(fetches),
            *[signature(getattr(fetches, a.name)) for a in type(fetches).__attrs_attrs__],
        )
    return fetches if type(fetches).__hash__ is not None else ("by identity", id(fetches))
