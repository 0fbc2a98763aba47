"""tensorflow.python.util: decorators and inspection that libraries import beside the graph API.

    from tensorflow.python.util import tf_inspect
    tf_inspect.getfullargspec(function)

Threads: any.
"""
import contextlib
import functools
import inspect
from inspect import (  # noqa: F401 - tf_inspect's
    Parameter, Signature, currentframe, getcallargs, getdoc, getfile, getmembers, getmodule,
    getsource, getsourcefile, getsourcelines, isabstract, isclass, isfunction, isgenerator,
    isgeneratorfunction, ismethod, ismodule, isroutine, signature, stack)

from pyflow.interop.tensorflow.renamed import tell

contextmanager = contextlib.contextmanager      # tf_contextlib's
FullArgSpec = inspect.FullArgSpec
ArgSpec = inspect.FullArgSpec


def getfullargspec(obj):
    """inspect.getfullargspec of what decorators have wrapped."""
    return inspect.getfullargspec(inspect.unwrap(obj))


def getargspec(obj):
    """getfullargspec: Python 3.11 has no getargspec any more."""
    return getfullargspec(obj)


def getmro(cls):
    """The classes that `cls` inherits from, itself first."""
    return inspect.getmro(cls)


def fn_args(fn):
    """The names of a function's arguments, of a method's without self; of a partial's the rest."""
    if isinstance(fn, functools.partial):
        rest = fn_args(fn.func)[len(fn.args):]
        return tuple(name for name in rest if name not in (fn.keywords or {}))
    if not inspect.isroutine(fn) and callable(fn):
        fn = fn.__call__
    names = tuple(getfullargspec(fn).args)
    return names[1:] if inspect.ismethod(fn) else names


def has_kwargs(fn):
    """True if the function takes keyword arguments of any name."""
    return getfullargspec(fn.func if isinstance(fn, functools.partial) else fn).varkw is not None


# ---------------------------------------------------------------- decorators

def unwrap(maybe_decorated):
    """([], the function below all decorators)."""
    return [], inspect.unwrap(maybe_decorated)


def make_decorator(target, decorator_func, decorator_name=None, decorator_doc="",
                   decorator_argspec=None):
    """decorator_func with the name, text and signature of `target`."""
    return functools.wraps(target)(decorator_func)


def tf_export(*names, **unused):
    """Decorator that leaves its object as it is: names of pyflow come from tables."""
    return lambda something: something


keras_export = estimator_export = tf_export


def should_use_result(fn=None, **unused):
    """Decorator that leaves its function as it is."""
    return fn if fn is not None else lambda function: function


must_use_result_or_fatal = should_use_result


def deprecated(date, instructions, warn_once=True):
    """Decorator: a call is told of once, with `instructions`."""
    def wrapped(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            tell(function.__qualname__, instructions)
            return function(*args, **kwargs)
        return call
    return wrapped


def deprecated_args(date, instructions, *names, **unused):
    """Decorator: a call with one of the keyword arguments `names` is told of once."""
    words = {name if isinstance(name, str) else name[0] for name in names}

    def wrapped(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if words & set(kwargs):
                tell(f"{function.__qualname__}({', '.join(sorted(words & set(kwargs)))})",
                     instructions)
            return function(*args, **kwargs)
        return call
    return wrapped


deprecated_arg_values = deprecated_args


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    """The value of an argument with two names.  ValueError if both are given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value


def deprecated_alias(deprecated_name, name, func_or_class, warn_once=True):
    """`func_or_class` under its old name; a call of the function is told of once."""
    if inspect.isclass(func_or_class):
        return func_or_class
    return deprecated(None, f"use {name}")(func_or_class)


# ---------------------------------------------------------------- modules

def remove_undocumented(module_name, allowed_exception_list=None, doc_string_modules=None):
    """Leaves the module as it is."""


def make_all(module_name, doc_string_modules=None):
    """The public names of a module in sys.modules."""
    import sys
    return [name for name in dir(sys.modules[module_name]) if not name.startswith("_")]


def assertProtoEqual(self, a, b, check_initialized=True, normalize_numbers=False, msg=None):  # noqa: N802
    """Fails unless two messages are equal; `a` may be text."""
    if isinstance(a, (str, bytes)):
        from google.protobuf import text_format
        a = text_format.Parse(a, type(b)())
    self.assertEqual(a, b, msg)


class ObjectIdentityDictionary(dict):
    """A dict whose keys are the same only if they are one object."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __setitem__(self, key, value):
        super().__setitem__(_Identity(key), value)

    def __getitem__(self, key):
        return super().__getitem__(_Identity(key))

    def __delitem__(self, key):
        super().__delitem__(_Identity(key))

    def __contains__(self, key):
        return super().__contains__(_Identity(key))

    def get(self, key, default=None):
        return super().get(_Identity(key), default)

    def __iter__(self):
        return (key.value for key in super().__iter__())

    def keys(self):
        return list(self)

    def items(self):
        return [(key, self[key]) for key in self]


class _Identity:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return id(self.value)

    def __eq__(self, other):
        return isinstance(other, _Identity) and other.value is self.value
