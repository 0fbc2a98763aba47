"""How objects of the library show themselves: by the name that tf has for their class, and what
their constructor was given.

    >>> tf.train.AdamOptimizer(0.1, epsilon=1e-3)
    <tf.train.AdamOptimizer learning_rate=0.1 epsilon=0.001>

Invariant: showing never fails and never adds to a graph.
"""

import inspect
import sys


class ShowsArguments:
    """Base of classes whose repr is their name and the constructor's arguments."""

    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls)
        made._given = args, kwargs
        return made

    def __repr__(self):
        args, kwargs = getattr(self, "_given", ((), {}))
        try:
            given = inspect.signature(type(self)).bind_partial(*args, **kwargs).arguments
        except TypeError:                   # a subclass whose constructor is another by now
            given = kwargs
        words = [f"{key}={short(value)}" for key, value in given.items()]
        return f"<{' '.join([public_name(type(self)), *words])}>"


def public_name(cls):
    """`tf.train.AdamOptimizer` of our classes, the plain name of a user's."""
    table = getattr(sys.modules.get(cls.__module__), "PUBLIC", {})
    names = [name for name, value in table.items() if value is cls]
    return f"tf.{min(names, key=lambda n: (n.count('.'), len(n)))}" if names else cls.__name__


def short(value, length=60):
    """repr(value), or its beginning."""
    text = repr(value)
    return text if len(text) <= length else text[:length - 3] + "..."
