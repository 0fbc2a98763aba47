"""Ops as functions with the argument names that TensorFlow's generated functions have: what
tf.raw_ops and tensorflow.python.ops.gen_*_ops consist of.

    OpFunction(get_op("Sum"), "Sum", "pyflow.platform.raw_ops")(input=x, axis=[0])

Invariants
    1. Arguments are the op's inputs, then the attributes that inputs do not decide, then name.
    2. RENAMED holds the names that TensorFlow gives other than the schema's; the schema's own is
       no argument then.
"""
import functools

_AXIS = {"reduction_indices": "axis"}
RENAMED = {
    **dict.fromkeys(("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum"), _AXIS),
    "ExpandDims": {"dim": "axis"},
    "Select": {"t": "x", "e": "y"},
    "Split": {"split_dim": "axis"},
    "SplitV": {"split_dim": "axis"},
    "Squeeze": {"squeeze_dims": "axis"},
    "Where": {"input": "condition"},
}


class OpFunction:
    """`op_def` as the function `name` of `module`, called by name only, or by position, too."""

    def __init__(self, op_def, name, module, by_position=False):
        self.op_def = op_def
        self.__name__ = self.__qualname__ = name
        self.__module__ = module
        self.__wrapped__ = op_def.__wrapped__ if hasattr(op_def, "__wrapped__") else op_def
        self._by_position = by_position
        self._schema_names = {new: old for old, new in RENAMED.get(op_def.name, {}).items()}

    @functools.cached_property
    def __signature__(self):
        import inspect
        given, kind = RENAMED.get(self.op_def.name, {}), inspect.Parameter.KEYWORD_ONLY
        if self._by_position:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([p.replace(name=given.get(p.name, p.name), kind=kind)
                                  for p in self.op_def.__signature__.parameters.values()])

    @functools.cached_property
    def _names(self):
        return frozenset(self.__signature__.parameters)

    @property
    def __doc__(self):
        return self.op_def.__doc__

    def __call__(self, *args, name=None, **kwargs):
        if args and not self._by_position:
            raise TypeError(f"{self.__name__}() takes its arguments by name: "
                            f"{self.__name__}{self.__signature__}")
        unknown = sorted(kwargs.keys() - self._names)
        if unknown:
            raise TypeError(f"{self.__name__}() got an unexpected keyword argument {unknown[0]!r}; "
                            f"it is {self.__name__}{self.__signature__}")
        for new, old in self._schema_names.items():
            if new in kwargs:
                kwargs[old] = kwargs.pop(new)
        return self.op_def(*args, name=name, **kwargs)

    def __reduce__(self):
        return self.__name__            # as a function: pickled by its module and name

    def __repr__(self):
        return f"<function {self.__name__}{self.__signature__}>"
