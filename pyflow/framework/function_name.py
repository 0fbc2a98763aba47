"""The native value of a func attribute."""


class FunctionName:
    """The value of a func attribute: a function's name and its own attributes (native values)."""

    __slots__ = ("name", "attrs")

    def __init__(self, name, attrs=None):
        self.name = name
        self.attrs = attrs or {}

    def __eq__(self, other):
        return isinstance(other, FunctionName) and (self.name, self.attrs) == (other.name,
                                                                               other.attrs)

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"FunctionName({self.name!r}, {self.attrs!r})"
