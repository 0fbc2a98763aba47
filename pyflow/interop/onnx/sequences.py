"""Sequences and optionals: what a graph holds of them is their tensors, and how many they are.

Invariants:
1. A sequence is a list of Values that is known while the graph is built; so one graph is for inputs
   of one length, and `prepare` makes another for another (variants.py).
2. An optional that holds something is that; one that does not is `Nothing`.
"""

from pyflow.interop.onnx import messages
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
    """What a ValueInfoProto's type is: optional or not, a sequence or not, and its tensors' type."""

    def __init__(self, info):
        kind, self.optional, self.sequence = info.type, False, False
        for _ in range(_MAX_DEPTH):
            if kind is None or kind.tensor_type is not None:
                break
            if kind.optional_type is not None:
                self.optional, kind = True, _element(kind.optional_type)
            elif kind.sequence_type is not None and not self.sequence:
                self.sequence, kind = True, _element(kind.sequence_type)
            else:
                break
        self.tensor = messages.CLASSES["ValueInfoProto"](name=info.name, type=kind)

    @property
    def plain(self):
        """Whether it is a tensor and nothing else."""
        return not self.optional and not self.sequence


def _element(other):
    return messages.read(other.elem_type, "TypeProto")


def structure_of(feed):
    """What graphs are made for: an array's shape, a list of them for a sequence, None for nothing."""
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
