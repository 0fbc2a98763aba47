"""arg_scope: default arguments for functions that were decorated with add_arg_scope.

Invariants
  1. A scope is a dict {key of a function: {argument: value}}; scopes nest, inner values win, and
     arguments of a call win over all.
  2. Only decorated functions take part; others raise ValueError where the scope is opened.
  3. A scope may be kept (`with arg_scope(...) as sc`) and opened again: it then stands alone,
     without what is around it.

Threads: each has scopes of its own.  Source: TF 1.15 tf.contrib.framework.arg_scope.

Example:
    with slim.arg_scope([slim.conv2d], padding="VALID"):
        net = slim.conv2d(images, 32, [3, 3])
"""
import contextlib
import functools
import threading

_DECORATED = {}                     # {key: names of the arguments that have defaults}
_LOCAL = threading.local()


def _stack():
    if not hasattr(_LOCAL, "scopes"):
        _LOCAL.scopes = [{}]
    return _LOCAL.scopes


def current_arg_scope():
    """The dict of the innermost open scope; {} outside of all; never an error.

    Values: any objects, shapes and dtypes as well as functions.
    TF: tf.contrib.framework.current_arg_scope."""
    return _stack()[-1]


def arg_scope_func_key(op):
    """The key by which scopes know function `op` (of tensors of any shape and dtype): a string, or
    what add_arg_scope gave it; never an error. TF: tf.contrib.framework.arg_scope_func_key."""
    return getattr(op, "_key_op", str(op))


@contextlib.contextmanager
def arg_scope(list_ops_or_scope, **kwargs):
    """Within it, functions of the list have `kwargs` as defaults; yields the scope, a dict.
    Values of any type (a shape, a dtype, a function) are passed on as they are.

    list_ops_or_scope: a list or tuple of functions that add_arg_scope decorated, or a scope that
    was yielded before (then without kwargs). TypeError for others; ValueError for a function that
    is not decorated, or kwargs beside a scope. TF: tf.contrib.framework.arg_scope.

        >>> slim = tf.contrib.slim
        >>> with slim.arg_scope([slim.fully_connected], activation_fn=None):
        ...     y = slim.fully_connected(tf.ones([2, 3]), 4)
        >>> y.op.type
        'BiasAdd'
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("arg_scope: a scope that is opened again takes no further arguments, "
                             f"got {', '.join(sorted(kwargs))}; open a scope with a list inside it")
        scope = dict(list_ops_or_scope)
    elif isinstance(list_ops_or_scope, (list, tuple)):
        scope = dict(current_arg_scope())
        for op in list_ops_or_scope:
            if not has_arg_scope(op):
                raise ValueError(f"{getattr(op, '__module__', '')}.{getattr(op, '__name__', op)} "
                                 "is not decorated with @add_arg_scope")
            key = arg_scope_func_key(op)
            scope[key] = {**scope.get(key, {}), **kwargs}
    else:
        raise TypeError("list_ops_or_scope must either be a list/tuple of functions or a reused "
                        f"scope (a dict), got {type(list_ops_or_scope).__name__}")
    _stack().append(scope)
    try:
        yield scope
    finally:
        _stack().pop()


def add_arg_scope(func):
    """Decorates `func` so that arg_scope sets its arguments, of any shape and dtype.

    Never an error; what `func` raises is passed on. TF: tf.contrib.framework.add_arg_scope.

        >>> @tf.contrib.framework.add_arg_scope
        ... def scaled(x, factor=1.0):
        ...     return x * factor
        >>> with tf.contrib.framework.arg_scope([scaled], factor=3.0):
        ...     scaled(2.0)
        6.0
    """
    key = arg_scope_func_key(func)

    @functools.wraps(func)
    def func_with_args(*args, **kwargs):
        given = current_arg_scope().get(key)
        return func(*args, **({**given, **kwargs} if given else kwargs))

    _DECORATED[key] = _named_with_defaults(func)
    func_with_args._key_op = key
    return func_with_args


def _named_with_defaults(func):
    code = getattr(func, "__code__", None)
    count = len(func.__defaults__) if code is not None and func.__defaults__ else 0
    return tuple(code.co_varnames[code.co_argcount - count:code.co_argcount]) if count else ()


def has_arg_scope(func):
    """Whether add_arg_scope decorated `func`: a bool, never an error. Shapes play no part.
    TF: tf.contrib.framework.has_arg_scope."""
    return arg_scope_func_key(func) in _DECORATED


def arg_scoped_arguments(func):
    """The names of the arguments of `func` that have defaults: a tuple of strings.

    Shapes play no part. ValueError for a function that is not decorated (TensorFlow:
    AssertionError).
    TF: tf.contrib.framework.arg_scoped_arguments."""
    if not has_arg_scope(func):
        raise ValueError(f"{func} is not decorated with @add_arg_scope")
    return _DECORATED[arg_scope_func_key(func)]


def tables(*functions, layers=False):
    """The PUBLIC rows of functions: under contrib.slim, and contrib.layers or contrib.framework."""
    home = "layers" if layers else "framework"
    return {f"contrib.{where}.{f.__name__}": f for f in functions for where in (home, "slim")}


_FUNCTIONS = (arg_scope, add_arg_scope, has_arg_scope, arg_scoped_arguments)
PUBLIC = {**tables(*_FUNCTIONS),
          "contrib.framework.current_arg_scope": current_arg_scope,
          "contrib.framework.arg_scope_func_key": arg_scope_func_key}
