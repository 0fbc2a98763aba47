"""Reference: what stands for an object in sets and as a key, by identity.

    seen = {tensor.experimental_ref()};  next(iter(seen)).deref() is tensor
"""


class Reference:
    """Refers to one object, keeps it alive, and equals references to the same one alone.
    TF: what Tensor.experimental_ref() and Variable.experimental_ref() return."""

    __slots__ = ("_wrapped",)

    def __init__(self, wrapped):
        self._wrapped = wrapped

    def deref(self):
        """The object."""
        return self._wrapped

    def __eq__(self, other):
        return isinstance(other, Reference) and self._wrapped is other._wrapped

    def __hash__(self):
        return id(self._wrapped)

    def __repr__(self):
        return f"<Reference wrapping {self._wrapped!r}>"
