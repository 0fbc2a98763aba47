"""Errors whose text is made when somebody reads it.

Programs ask for names that may not be there: `try: graph.get_tensor_by_name(n) except KeyError`,
`hasattr(tf, "x")`. Near names cost milliseconds to find, so they are looked for when the message is
read, which such programs never do.

Invariants
    1. An error is of a class below the one asked for, with that one's name: `except KeyError` and
       tracebacks see no difference.
    2. args, str and repr give the text, made once; what made it is let go of then.
    3. A copy and an unpickled one are of the class asked for, with the text.

Threads: any; two that read one text first may both make it.

    raise late_text.error(KeyError, lambda: f"no {name!r} in the graph.{suggest(name)}")
"""

import functools

_args = BaseException.args


class _Late:
    """The part of an error's class that makes its text."""

    _make = None                                # makes the text; None once it is made

    def _told(self):
        make = self._make
        if make is not None:
            text = make()
            _args.__set__(self, (text, *_args.__get__(self)[1:]))
            self._make = None
        return _args.__get__(self)

    @property
    def args(self):
        """(text,), as every error has them."""
        return self._told()

    @args.setter
    def args(self, values):
        self._make = None
        _args.__set__(self, values)

    @property
    def _message(self):
        return self._told()[0]                  # what tf.errors call their text

    @_message.setter
    def _message(self, unused):
        """tf.errors set it while they are made."""

    def __str__(self):
        self._told()
        return super().__str__()

    def __repr__(self):
        self._told()
        return super().__repr__()

    def __reduce__(self):
        self._told()
        if hasattr(self, "error_code"):         # tf.errors' own way: an Operation does not travel
            rebuild, (_, *rest) = super().__reduce__()
            return rebuild, (self._kind, *rest)
        kept = {name: value for name, value in vars(self).items()
                if name not in ("_make", "_render_traceback_")}
        return (self._kind, self.args, kept) if kept else (self._kind, self.args)


@functools.cache
def _late(kind):
    """The class below `kind` whose text is made late."""
    return type(kind.__name__, (_Late, kind), {
        "__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__,
        "_kind": kind})


def error(kind, make, *args, **fields):
    """An error of the class `kind` whose text is what make() gives, called when it is read.

    args: what the class takes before the text (tf.errors: node_def, op)."""
    made = _late(kind)(*args, None, **fields)
    made._make = make
    return made
