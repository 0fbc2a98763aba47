"""Sequences and optionals: what a graph holds of them is their tensors, and how many they are.

Invariants:
1. A sequence is a list of Values that is known while the graph is built; so one graph is for inputs
   of one length, and `prepare` makes another for another (variants.py).
2. An optional that holds something is that; one that does not is `Nothing`.
"""

from pyflow.interop.onnx import messages
from pyflow.interop.onnx.errors import UnsupportedError
from pyflow.interop.onnx.tensors import dtype_of
from pyflow.interop.onnx.values import Value

_MAX_DEPTH = 4


class Sequence(Value):
    """Values in a row.  element: their DType where there is none."""

    __slots__ = ("items", "element")

    def __init__(self, items, element=None):
        super().__init__(array=None)
        self.items, self.element = list(items), element

    what = "a sequence"

    def _refuse(self):
        raise TypeError(f"{self.what} where a tensor is expected")

    @property
    def dtype(self):
        """Of the elements; None if nothing tells it."""
        return self.items[0].dtype if self.items else self.element

    @property
    def tensor(self):
        """TypeError: it has none."""
        self._refuse()

    @property
    def rank(self):
        """TypeError: it has none."""
        self._refuse()

    @property
    def shape(self):
        """TypeError: it has none."""
        self._refuse()


class Nothing(Sequence):
    """An optional without an element."""

    __slots__ = ()
    what = "an empty optional"

    def __init__(self):
        super().__init__([])


class Kind:
    """What a ValueInfoProto's type is: optional or not, a sequence or not, and its tensors' type.

    entries: of a map the DTypes of its keys and of its values, which are scalars; else None."""

    def __init__(self, info):
        kind, self.optional, self.sequence, self.entries = info.type, False, False, None
        for _ in range(_MAX_DEPTH):
            if kind is None or kind.tensor_type is not None:
                break
            if kind.optional_type is not None:
                self.optional, kind = True, _element(kind.optional_type)
            elif kind.sequence_type is not None and not self.sequence:
                self.sequence, kind = True, _element(kind.sequence_type)
            elif kind.map_type is not None and not self.sequence:
                self.entries = _entry_types(kind.map_type, f"input {info.name!r}")
                break
            else:
                break
        self.tensor = messages.CLASSES["ValueInfoProto"](name=info.name, type=kind)

    @property
    def plain(self):
        """Whether it is a tensor and nothing else."""
        return not self.optional and not self.sequence and self.entries is None


def _element(other):
    return messages.read(other.elem_type, "TypeProto")


def _entry_types(kind, what):
    value = messages.read(kind.value_type, "TypeProto").tensor_type
    if value is None:
        raise UnsupportedError(f"{what} is a map of other things than numbers and strings")
    try:
        return dtype_of(kind.key_type, what), dtype_of(value.elem_type, what)
    except TypeError as error:
        raise UnsupportedError(str(error)) from None


def structure_of(feed):
    """What graphs are made for: an array's shape, a list of a sequence's, None for nothing."""
    if feed is None:
        return None
    return [item.shape for item in feed] if isinstance(feed, list) else feed.shape


def structure_key(feed):
    """The same, hashable."""
    if isinstance(feed, list):
        return ("sequence", *(item.shape for item in feed))
    return None if feed is None else feed.shape


def flat(values):
    """Tensors or arrays, those of sequences one by one."""
    made = []
    for value in values:
        if isinstance(value, (list, tuple)):
            made += value
        elif value is not None:
            made.append(value)
    return made
