"""The native value of a func attribute, and what nodes may be called after a function."""
import re


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


def node_name(function):
    """A function's name as nodes and scopes may have it: "__inference_<lambda>_0" may not stand."""
    return re.sub(r"[^A-Za-z0-9_.\\\-/>]", "_", function.replace("<lambda>", "lambda")).lstrip(
        "_") or "function"
