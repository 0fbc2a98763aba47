"""Variables of a model, and finding them: model_variable, get_variables, filter_variables.

Invariants
  1. model_variable's variables are in GLOBAL_VARIABLES and MODEL_VARIABLES.
  2. Searches go through one collection, in its order; `scope` is a regular expression that the
     name begins with, `suffix` ends the name before its ":0".

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.framework.

Example:
    weights = slim.model_variable("weights", [10, 10], regularizer=slim.l2_regularizer(0.05))
    slim.get_variables_by_suffix("weights")
"""
import functools
import re

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.contrib.arg_scope import add_arg_scope, tables
from pyflow.lib.array.identity_functions import placeholder
from pyflow.lib.control_flow import grouping
from pyflow.lib.variables import variable_scope as scopes, variables


@add_arg_scope
def variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=True,
             collections=None, caching_device=None, device=None, partitioner=None,
             custom_getter=None, use_resource=None, synchronization=None, aggregation=None):
    """The variable `name` of the variable scope, made or found on `device`.

    collections: GLOBAL_VARIABLES where None. Others, shape and dtype among them: as
    tf.get_variable's, and so are the errors: ValueError for a variable that exists and is not to be
    reused. TF: tf.contrib.framework.variable."""
    collections = list(dict.fromkeys([GraphKeys.GLOBAL_VARIABLES] if collections is None
                                     else collections))
    getter = scopes.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=scopes.get_variable_scope().reuse)
    with ops.device(device or ""):
        return getter(name, shape=shape, dtype=dtype, initializer=initializer,
                      regularizer=regularizer, trainable=trainable, collections=collections,
                      caching_device=caching_device, partitioner=partitioner,
                      use_resource=use_resource, synchronization=synchronization,
                      aggregation=aggregation)


@add_arg_scope
def model_variable(name, shape=None, dtype=dtypes.float32, initializer=None, regularizer=None,
                   trainable=True, collections=None, caching_device=None, device=None,
                   partitioner=None, custom_getter=None, use_resource=None, synchronization=None,
                   aggregation=None):
    """A variable that joins MODEL_VARIABLES, GLOBAL_VARIABLES and `collections`.

    Arguments, dtype among them, and errors: as tf.contrib.framework.variable's.
    TF: tf.contrib.framework.model_variable.

        >>> w = tf.contrib.framework.model_variable("w", [2, 3])
        >>> [v.name for v in tf.contrib.framework.get_model_variables()]
        ['w:0']
    """
    collections = [*(collections or []), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(name, shape=shape, dtype=dtype, initializer=initializer,
                    regularizer=regularizer, trainable=trainable, collections=collections,
                    caching_device=caching_device, device=device, partitioner=partitioner,
                    custom_getter=custom_getter, use_resource=use_resource,
                    synchronization=synchronization, aggregation=aggregation)


def add_model_variable(var):
    """Adds `var`, of any shape and dtype, to MODEL_VARIABLES once; never an error.
    TF: tf.contrib.framework.add_model_variable."""
    known = ops.get_collection_ref(GraphKeys.MODEL_VARIABLES)
    if not any(var is other for other in known):
        known.append(var)


def global_variable(initial_value, validate_shape=True, name=None, use_resource=None):
    """A variable that is not trained, in GLOBAL_VARIABLES.

    initial_value: any shape and dtype. ValueError for a shape that is not known, unless
    validate_shape is False. TF: tf.contrib.framework.global_variable.

        >>> tf.contrib.framework.global_variable(1.0, name="rate") in tf.trainable_variables()
        False
    """
    return variables.Variable(initial_value, trainable=False, validate_shape=validate_shape,
                              collections=[GraphKeys.GLOBAL_VARIABLES], name=name,
                              use_resource=use_resource)


def get_variables(scope=None, suffix=None, collection=GraphKeys.GLOBAL_VARIABLES):
    """The variables of `collection` whose names begin with `scope` and end with `suffix`.

    scope: a regular expression, or a VariableScope; suffix: a string. Variables of any shape and
    dtype; re.error for what is no regular expression. TF: tf.contrib.framework.get_variables."""
    if isinstance(scope, scopes.VariableScope):
        scope = scope.name
    if suffix is not None:
        scope = f"{scope or ''}.*{suffix}{'' if ':' in suffix else ':'}"
    return ops.get_collection(collection, scope)


def get_model_variables(scope=None, suffix=None):
    """Those of MODEL_VARIABLES: shapes, dtypes, errors as get_variables.

    TF: tf.contrib.framework.get_model_variables."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope=None, suffix=None):
    """Those of LOCAL_VARIABLES: shapes, dtypes, errors as get_variables.

    TF: tf.contrib.framework.get_local_variables."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope=None, suffix=None):
    """Those of TRAINABLE_VARIABLES: shapes, dtypes, errors as get_variables.

    TF: tf.contrib.framework.get_trainable_variables."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix, scope=None):
    """Global variables whose names end with `suffix`: shapes, dtypes, errors as get_variables.

    TF: tf.contrib.framework.get_variables_by_suffix."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name, scope=None):
    """Variables whose last part of the name, or whole name, is `given_name`.

    Shapes, dtypes, errors: as get_variables.
    TF: tf.contrib.framework.get_variables_by_name."""
    return get_variables(scope=scope, suffix=f"/{given_name}:|^{given_name}:")


def get_unique_variable(var_op_name):
    """The global variable, of any shape and dtype, named exactly so. ValueError if there is none.

    TF: tf.contrib.framework.get_unique_variable."""
    candidates = get_variables(scope=var_op_name)
    for candidate in candidates:
        if candidate.op.name == var_op_name:
            return candidate
    if candidates:
        raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable; there are "
                         f"{', '.join(v.op.name for v in candidates[:5])}")
    raise ValueError(f"Couldn't find variable {var_op_name}")


def get_variable_full_name(var):
    """The name that checkpoints know `var` by: of a part, the whole variable's.

    var: of any shape and dtype; never an error.
    TF: tf.contrib.framework.get_variable_full_name."""
    info = getattr(var, "_get_save_slice_info", None)
    part = info() if info is not None else None
    return part.full_name if part else var.op.name


def get_variables_to_restore(include=None, exclude=None):
    """Global variables in the scopes `include` (all, where None) and not in those of `exclude`.

    include, exclude: lists of scopes (strings), else TypeError. Variables of any shape and dtype.
    TF: tf.contrib.framework.get_variables_to_restore."""
    for what, given in (("include", include), ("exclude", exclude)):
        if given is not None and not isinstance(given, (list, tuple)):
            raise TypeError(f"{what} must be a list or a tuple of scopes, got {given!r}")
    kept = get_variables() if include is None else [v for s in include for v in get_variables(s)]
    left_out = {id(v) for scope in exclude or () for v in get_variables(scope)}
    return [v for v in kept if id(v) not in left_out]


def filter_variables(var_list, include_patterns=None, exclude_patterns=None, reg_search=True):
    """Those of `var_list` whose names match one of include_patterns (any, where None) and none of
    exclude_patterns. reg_search: patterns match anywhere, not only at the beginning.

    Variables of any shape and dtype. re.error for what is no regular expression.
    TF: tf.contrib.framework.filter_variables."""
    match = re.search if reg_search else re.match

    def fits(var, patterns):
        return any(match(pattern, var.name) for pattern in patterns)

    return [v for v in var_list if (include_patterns is None or fits(v, include_patterns))
            and not (exclude_patterns and fits(v, exclude_patterns))]


def assign_from_values(var_names_to_values):
    """(op, feed_dict) that give variables values: `session.run(op, feed_dict)`.

    var_names_to_values: {variable's name: NumPy array with as many elements}, given the
    variable's shape and dtype. ValueError for another number of elements, and for a name that is no
    variable's. TF: tf.contrib.framework.assign_from_values."""
    feed, assigned = {}, []
    for name, value in var_names_to_values.items():
        var = get_unique_variable(name)
        given = placeholder(var.dtype.base_dtype, var.shape, name=f"placeholder/{var.op.name}")
        assigned.append(var.assign(given))
        feed[given] = value.reshape(var.shape.as_list())
    return grouping.group(*assigned), feed


def assign_from_values_fn(var_names_to_values):
    """A function of a session that gives variables values: {name: array}, as assign_from_values,
    whose shapes, dtypes and errors it has.
    TF: tf.contrib.framework.assign_from_values_fn."""
    op, feed = assign_from_values(var_names_to_values)
    return lambda session: session.run(op, feed)


PUBLIC = tables(
    variable, model_variable, add_model_variable, global_variable, get_variables,
    get_model_variables, get_local_variables, get_trainable_variables, get_variables_by_suffix,
    get_variables_by_name, get_unique_variable, get_variable_full_name, get_variables_to_restore,
    filter_variables, assign_from_values, assign_from_values_fn)
PUBLIC["contrib.slim.local_variable"] = scopes.PUBLIC["contrib.framework.local_variable"]
