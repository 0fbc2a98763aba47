"""make_template: a function whose calls share the variables that its first call makes.

Invariants
  1. All calls run in one variable scope; the first one makes variables, later ones find them.
  2. A later call that makes a trainable variable is an error: it would not be shared.

Thread: the one building the graph.  Source: TF 1.x template.

Example:
    dense = tf.make_template("dense", lambda x: tf.matmul(x, tf.get_variable("w", [4, 2])))
    a, b = dense(x), dense(y)                   # one variable, dense/w
"""
import functools

from pyflow.framework import graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.variables import variable_scope


class Template:
    """What make_template returns: call it as the function."""

    def __init__(self, name, func, create_scope_now, unique_name, custom_getter):
        if name is None:
            raise ValueError("name cannot be None.")
        self._name, self._func = name, func
        self._unique_name, self._custom_getter = unique_name, custom_getter
        self._scope, self._called = None, False
        if create_scope_now:
            with self._new_scope(auxiliary_name_scope=False) as scope:
                self._scope = scope

    def _new_scope(self, **more):
        return variable_scope.variable_scope(self._unique_name, self._name,
                                             custom_getter=self._custom_getter, **more)

    def __call__(self, *args, **kwargs):
        if self._scope is None:
            with self._new_scope() as scope:
                self._scope = scope
                return self._call(args, kwargs)
        with variable_scope.variable_scope(self._scope, reuse=self._called or None):
            return self._call(args, kwargs)

    def _call(self, args, kwargs):
        first, self._called = not self._called, True
        before = ops.get_collection(GraphKeys.TRAINABLE_VARIABLES)
        result = self._func(*args, **kwargs)
        made = ops.get_collection(GraphKeys.TRAINABLE_VARIABLES)[len(before):]
        if made and not first:
            raise ValueError("Trainable variable created when calling a template after the first "
                             "time, perhaps you used tf.Variable when you meant tf.get_variable: "
                             f"{[variable.name for variable in made]}")
        return result

    @property
    def name(self):
        """The name given."""
        return self._name

    @property
    def func(self):
        """The function, with the keyword arguments given to make_template."""
        return self._func

    @property
    def variable_scope(self):
        """The variable scope of all calls; None before the first one."""
        return self._scope

    @property
    def variable_scope_name(self):
        """The scope's full name with a slash at its end; None before the first call."""
        return None if self._scope is None else self._scope.name.rstrip("/") + "/"

    def _collected(self, key):
        if self._scope is None:
            return []
        name = self._scope.name
        return ops.get_collection(key, name + "/" if name and name[-1] != "/" else name)

    @property
    def global_variables(self):
        """The global variables that the calls made."""
        return self._collected(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self):
        """The local variables that the calls made."""
        return self._collected(GraphKeys.LOCAL_VARIABLES)

    @property
    def trainable_variables(self):
        """The trainable variables that the calls made."""
        return self._collected(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def variables(self):
        """The global and local variables that the calls made."""
        return self.global_variables + self.local_variables

    weights = variables
    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self):
        """Those of `variables` that are not trainable."""
        trainable = set(self.trainable_variables)
        return [variable for variable in self.variables if variable not in trainable]


def make_template(name_, func_, create_scope_now_=False, unique_name_=None, custom_getter_=None,
                  **kwargs):
    """`func_`, wrapped so that all its calls share the variables it gets by tf.get_variable.

    Its variable scope is `name_` made unique, or exactly `unique_name_`, opened at the first call
    (now with create_scope_now_). `kwargs` go to each call. TF: tf.make_template.
    Arguments and results: any, of any shapes and dtypes. ValueError for a name of None, and where a later call makes a
    trainable variable."""
    func = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, func, create_scope_now_, unique_name_, custom_getter_)


PUBLIC = {"make_template": make_template}
