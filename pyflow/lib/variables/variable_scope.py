"""`get_variable` and `variable_scope`: variables shared by name.

Invariants
  1. A variable's name depends on variable scopes only, never on name scopes.
  2. Each graph has one store of variables made by get_variable, and one stack of variable scopes.
  3. `reuse`: False makes (ValueError if it exists), True finds (ValueError if it does not),
     AUTO_REUSE finds or makes. Inner scopes inherit True and AUTO_REUSE.
  4. A variable scope opens a name scope too (unless auxiliary_name_scope=False).

Thread: the one building the graph.  Source: TF 1.x variable_scope.

Example:
    with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", [784, 10])          # "layer/w:0"
"""
import enum
import functools
import inspect

from pyflow.framework import dtypes, graph as ops, late_text
from pyflow.framework.convert import graph_of
from pyflow.framework.graph import GraphKeys
from pyflow.framework.tensor_shape import TensorShape
from pyflow.framework.user_traceback import told_to_users
from pyflow.lib.variables import initializers, partitioned_variables as parted
from pyflow.lib.variables import variable_base, variables
from pyflow.ops.base import tensors

_STORE_KEY = ("__variable_store",)
_SCOPES_KEY = ("__varscope",)
_resource_default = [False]


class ReuseMode(enum.Enum):
    """What get_variable does when a variable may exist."""
    AUTO_REUSE = 1


AUTO_REUSE = ReuseMode.AUTO_REUSE


# ------------------------------------------------------------------------------------------- store
class VariableStore:
    """The variables of one graph made by get_variable, by full name."""

    def __init__(self):
        self._vars = {}
        self._parted = {}

    def get(self, name, shape, dtype, initializer, regularizer, reuse, trainable, collections,
            caching_device, partitioner, validate_shape, use_resource, constraint):
        """The variable `name`, found or made as `reuse` says; cut if there is a partitioner and it
        is no scalar."""
        shape = None if shape is None else TensorShape(shape)
        more = {"regularizer": regularizer, "reuse": reuse, "trainable": trainable,
                "collections": collections, "caching_device": caching_device,
                "validate_shape": validate_shape, "use_resource": use_resource,
                "constraint": constraint}
        known = reuse is True and partitioner is None and name in self._parted
        if known or partitioner is not None and not (shape is not None and shape.ndims == 0):
            return self._get_parted(name, shape, dtype, initializer, partitioner, more)
        if f"{name}/part_0" in self._vars:
            raise ValueError(
                f"No partitioner was provided, but a partitioned version of the variable was "
                f"found: {name}/part_0. Perhaps a variable of the same name was already created "
                f"with partitioning?")
        return self._get_one(name, shape, dtype, initializer, **more)

    def _get_one(self, name, shape, dtype, initializer, regularizer, reuse, trainable, collections,
                 caching_device, validate_shape, use_resource, constraint, partition_info=None):
        from_value = initializer is not None and not callable(initializer)
        if from_value and shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        found = self._vars.get(name)
        if found is not None:
            return _checked_reuse(found, name, shape, dtype, reuse)
        if reuse is True:
            raise late_text.error(ValueError, lambda: (
                f"Variable {name} does not exist, or was not created with tf.get_variable(). Did "
                f"you mean to set reuse=tf.AUTO_REUSE in VarScope?{_near(name, self._vars)}"))
        if shape is not None and not shape.is_fully_defined() and not from_value:
            raise ValueError(f"Shape of a new variable ({name}) must be fully defined, but "
                             f"instead was {shape}.")
        if initializer is None:
            if shape is None:
                raise ValueError(f"Variable {name} did not get an initializer, so its `shape` "
                                 f"argument must be specified: tf.get_variable({name!r}, [2, 3])")
            initializer = _default_initializer(name, dtype)
        value, value_dtype = _initial_value(initializer, shape, dtype, name, partition_info)
        variable = variables.Variable(
            initial_value=value, name=name, trainable=trainable, collections=collections,
            caching_device=caching_device, dtype=value_dtype, validate_shape=validate_shape,
            constraint=constraint, use_resource=use_resource)
        self._vars[name] = variable
        if regularizer:
            _regularize(variable, name, regularizer)
        return variable

    def _get_parted(self, name, shape, dtype, initializer, partitioner, more):
        if name in self._vars:
            raise ValueError(
                f"A partitioner was provided, but an unpartitioned version of the variable was "
                f"found: {name}. Perhaps a variable of the same name was already created without "
                f"partitioning?")
        reuse = more["reuse"]
        from_value = initializer is not None and not callable(initializer)
        if from_value:
            initializer = ops.convert_to_tensor(initializer)
            dtype = initializer.dtype.base_dtype        # the value's own, as without a partitioner
            shape = initializer.shape if shape is None else shape.merge_with(initializer.shape)
        parts = None
        if not reuse or partitioner is not None:
            parts = parted.asked_parts(partitioner, shape, dtype)
        found = self._parted.get(name)
        if found is not None:
            return _checked_parted_reuse(found, name, shape, dtype, parts, reuse)
        if reuse is True:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with "
                f"tf.get_variable(). Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in "
                f"VarScope?")
        found = []
        for i, (offset, size) in enumerate(parted.cuts(shape.as_list(), parts)):
            made = initializer
            if from_value:
                with ops.name_scope(f"{name}/part_{i}/PartitionedInitializer"):
                    made = tensors.slice_(initializer, offset, size)
            info = parted.PartitionInfo(shape.as_list(), offset)
            part = self._get_one(f"{name}/part_{i}", None if from_value else TensorShape(size),
                                 dtype, made, partition_info=info, **more)
            part._set_save_slice_info(
                parted.SaveSliceInfo(name, shape.as_list(), offset, size))
            found.append(part)
        whole = parted.PartitionedVariable(name, shape, dtype, found, parts)
        self._parted[name] = whole
        return whole


def _checked_parted_reuse(found, name, shape, dtype, parts, reuse):
    if reuse is False or reuse is None:
        raise ValueError(f"Partitioned variable with name {name} already exists. Did you mean to "
                         f"set reuse=True or reuse=tf.AUTO_REUSE in VarScope?")
    for what, wanted, have, fits in (
            ("shape", shape, found.shape, shape is None or shape.is_compatible_with(found.shape)),
            ("dtype", dtype.name, found.dtype.name, dtype.is_compatible_with(found.dtype)),
            ("partitions", parts, found._get_partitions(),
             parts is None or parts == found._get_partitions())):
        if not fits:
            raise ValueError(f"Trying to reuse partitioned variable {name}, but specified {what} "
                             f"{wanted} and found {what} {have}.")
    return found


def _checked_reuse(found, name, shape, dtype, reuse):
    if not reuse:
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            f"reuse=tf.AUTO_REUSE in VarScope? Originally defined at:\n\n{found.op.user_frame}")
    if shape is not None and not shape.is_compatible_with(found.shape):
        raise ValueError(f"Trying to share variable {name}, but specified shape {shape} and found "
                         f"shape {found.shape}.")
    if dtype is not None and not dtype.is_compatible_with(found.dtype):
        raise ValueError(f"Trying to share variable {name}, but specified dtype {dtype.name} and "
                         f"found dtype {found.dtype.base_dtype.name}.")
    return found


def _near(name, names):
    import difflib
    close = difflib.get_close_matches(name, names, n=3)
    return f" Variables with near names: {', '.join(close)}." if close else ""


def _default_initializer(name, dtype):
    if dtype.is_floating:
        return initializers.glorot_uniform_initializer()
    if dtype.is_integer or dtype.is_bool or dtype == dtypes.string:
        return initializers.zeros_initializer()
    raise ValueError(f"An initializer for variable {name} of {dtype.base_dtype.name} is required")


def _initial_value(initializer, shape, dtype, name, partition_info=None):
    """(value or function of no arguments, dtype to convert it to or None)."""
    if not callable(initializer):
        return initializer, None
    if inspect.isclass(initializer):
        initializer = initializer()
    if shape is not None:
        return functools.partial(_call_initializer, initializer, shape.as_list(), dtype,
                                 partition_info), dtype
    parameters = inspect.signature(initializer).parameters.values()
    if any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
           for p in parameters):
        raise ValueError(
            f"The initializer passed for {name} is not valid. It should be a callable with no "
            "arguments and the shape should not be provided or an instance of "
            "`tf.keras.initializers.*' and `shape` should be fully defined. Give the shape: "
            f"tf.get_variable({name!r}, [2, 3]).")
    return initializer, None


def _call_initializer(initializer, shape, dtype, partition_info):
    parameters = inspect.signature(initializer).parameters
    known = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
    more = {"partition_info": partition_info} if "partition_info" in parameters or known else {}
    return initializer(shape, dtype=dtype, **more)


def _regularize(variable, name, regularizer):
    with ops.colocate_with(variable.op), ops.name_scope(name + "/Regularizer/"):
        with ops.control_dependencies(None):
            loss = regularizer(variable)
    if loss is not None:
        ops.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def no_regularizer(_):
    """A regularizer that adds no loss: stops the scope's from being used. TF: tf.no_regularizer."""
    return None


# ------------------------------------------------------------------------------------------ scopes
class VariableScope:
    """Defaults for get_variable, and the prefix of its names. TF: tf.VariableScope."""

    def __init__(self, reuse, name="", initializer=None, regularizer=None, caching_device=None,
                 partitioner=None, custom_getter=None, name_scope="", dtype=dtypes.float32,
                 use_resource=None, constraint=None):
        self._reuse = reuse
        self._name = name
        self._name_scope = name_scope
        self.initializer = initializer
        self.regularizer = regularizer
        self.caching_device = caching_device
        self.partitioner = partitioner
        self.custom_getter = custom_getter
        self.dtype = dtype
        self.use_resource = use_resource
        self.constraint = constraint

    def __repr__(self):
        return f"<tf.VariableScope {self._name!r} reuse={self._reuse} dtype={self.dtype}>"

    @property
    def name(self):
        """The scope's full name, without a slash at the end; "" for the outermost."""
        return self._name

    @property
    def original_name_scope(self):
        """The name scope that was opened with this scope, with its slash."""
        return self._name_scope

    @property
    def reuse(self):
        """True: variables are found; False: made; AUTO_REUSE: found, else made."""
        return self._reuse

    def reuse_variables(self):
        """get_variable only finds variables from now on."""
        self._reuse = True

    def set_initializer(self, initializer):
        """The initializer of variables that bring none."""
        self.initializer = initializer

    def set_dtype(self, dtype):
        """The dtype of variables that bring none. TypeError for what is no dtype."""
        self.dtype = dtypes.as_dtype(dtype)

    def set_use_resource(self, use_resource):
        """Whether variables that do not say are resource variables."""
        self.use_resource = use_resource

    def set_regularizer(self, regularizer):
        """The regularizer of variables that bring none."""
        self.regularizer = regularizer

    def set_caching_device(self, caching_device):
        """The device where reads of variables are kept."""
        self.caching_device = caching_device

    def set_partitioner(self, partitioner):
        """The partitioner of variables that bring none."""
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter):
        """The function that `get_variable` calls in its own place."""
        self.custom_getter = custom_getter

    def get_collection(self, name):
        """Items of the graph's collection `name` made in this scope."""
        return ops.get_collection(name, self._name + "/" if self._name else "")

    def trainable_variables(self):
        """Trainable variables made in this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self):
        """Global variables made in this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self):
        """Local variables made in this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    @told_to_users
    def get_variable(self, store, name, shape=None, dtype=None, initializer=None, regularizer=None,
                     reuse=None, trainable=None, collections=None, caching_device=None,
                     partitioner=None, validate_shape=True, use_resource=None, custom_getter=None,
                     constraint=None, synchronization=None, aggregation=None):
        """The variable `name` of this scope; arguments left out come from the scope."""
        reuse = self._reuse if reuse is None else reuse
        full_name = (self._name if name is None else
                     f"{self._name}/{name}" if self._name else name)
        with ops.name_scope(None):
            _check_initializer_dtype(initializer, dtype)
            arguments = {
                "shape": shape,
                "dtype": dtypes.as_dtype(self.dtype if dtype is None else dtype).base_dtype,
                "initializer": self.initializer if initializer is None else initializer,
                "regularizer": self.regularizer if regularizer is None else regularizer,
                "reuse": reuse, "trainable": trainable, "collections": collections,
                "caching_device": self.caching_device if caching_device is None else caching_device,
                "partitioner": self.partitioner if partitioner is None else partitioner,
                "validate_shape": validate_shape,
                "use_resource": self.use_resource if use_resource is None else use_resource,
                "constraint": self.constraint if constraint is None else constraint,
                "synchronization": synchronization, "aggregation": aggregation}
            if regularizer is False:
                arguments["regularizer"] = None
            getter = self.custom_getter if custom_getter is None else custom_getter
            if getter is not None and not callable(getter):
                raise ValueError(f"get_variable({full_name!r}): the custom_getter is not callable: "
                                 f"{getter!r}")
            plain = functools.partial(_plain_getter, store)
            if getter is None:
                return plain(full_name, **arguments)
            return getter(getter=plain, name=full_name, **arguments)


def _plain_getter(store, name, shape=None, dtype=dtypes.float32, initializer=None, regularizer=None,
                  reuse=None, trainable=None, collections=None, caching_device=None,
                  partitioner=None, validate_shape=True, use_resource=None, constraint=None,
                  **unused):
    """The getter a custom getter is given."""
    return store.get(name, shape, dtypes.as_dtype(dtype), initializer, regularizer, reuse,
                     trainable, collections, caching_device, partitioner, validate_shape,
                     use_resource, constraint)


def _check_initializer_dtype(initializer, dtype):
    if dtype is None or initializer is None or callable(initializer):
        return
    dtype = dtypes.as_dtype(dtype)
    found = ops.convert_to_tensor(initializer).dtype.base_dtype
    if found != dtype:
        raise ValueError(f"Initializer type '{found.name}' and explicit dtype '{dtype.name}' "
                         "don't match.")


class _ScopeStore:
    """The current variable scope of a graph, and how often each scope name was opened.

    `_below` maps a name to the names directly under it, so that closing a scope looks only at its
    own; `_tried` maps (scope, prefix) to the numbers known to be taken there."""

    def __init__(self):
        self.current = VariableScope(False)
        self.counts = {}
        self._below, self._tried = {}, {}

    def open(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1
        self._enter(name)

    def restore(self, counts):
        """Goes back to the counts of an earlier moment."""
        self.counts, self._below, self._tried = counts, {}, {}
        for name in counts:
            self._enter(name)

    def _enter(self, name):
        while name:
            parent = name.rpartition("/")[0]
            children = self._below.setdefault(parent, set())
            if name in children:
                return
            children.add(name)
            name = parent

    def close_below(self, name):
        """Names below `name` may be used afresh when it is opened again."""
        stack = [name]
        while stack:
            parent = stack.pop()
            self._tried.pop(parent, None)
            for child in self._below.pop(parent, ()):
                self.counts.pop(child, None)
                stack.append(child)

    def unique(self, prefix):
        name = f"{self.current.name}/{prefix}" if self.current.name else prefix
        if not self.counts.get(name):
            return prefix
        tried = self._tried.setdefault(name.rpartition("/")[0], {})
        index = tried.get(prefix, 1)
        while self.counts.get(f"{name}_{index}"):
            index += 1
        tried[prefix] = index
        return f"{prefix}_{index}"


def _of_graph(key, make):
    found = ops.get_collection_ref(key)
    if not found:
        found.append(make())
    return found[0]


def store():
    """The default graph's VariableStore."""
    return _of_graph(_STORE_KEY, VariableStore)


def get_variable_scope():
    """The current variable scope. TF: tf.get_variable_scope.

        >>> with tf.variable_scope("a"):
        ...     print(tf.get_variable_scope().name)
        a
    """
    return _of_graph(_SCOPES_KEY, _ScopeStore).current


def wants_resource_variables():
    """True if new variables are resource variables here."""
    chosen = get_variable_scope().use_resource
    return _resource_default[0] if chosen is None else chosen


variable_base.default_use_resource = wants_resource_variables


def enable_resource_variables():
    """New variables are resource variables from now on. TF: tf.enable_resource_variables."""
    _resource_default[0] = True


def disable_resource_variables():
    """New variables are reference variables from now on. TF: tf.disable_resource_variables."""
    _resource_default[0] = False


def resource_variables_enabled():
    """True if new variables are resource variables. TF: tf.resource_variables_enabled."""
    return _resource_default[0]


class variable_scope:  # noqa: N801 - TF's name
    """Context: the variable scope `name_or_scope`, below the current one if it is a string.

    With name None, `default_name` made unique; values: tensors that say which graph is meant. The
    other arguments become the scope's defaults for get_variable: initializer, regularizer,
    caching_device, partitioner, custom_getter, dtype, use_resource, constraint; reuse True shares
    variables that exist, tf.AUTO_REUSE makes those that do not. auxiliary_name_scope False opens no
    name scope.
    Raises ValueError without any name, or for reuse without a name. TF: tf.variable_scope.

        >>> with tf.variable_scope("layer"):
        ...     w = tf.get_variable("w", [2, 3])
        >>> with tf.variable_scope("layer", reuse=True):
        ...     print(tf.get_variable("w", [2, 3]) is w, w.name)
        True layer/w:0
    """

    def __init__(self, name_or_scope, default_name=None, values=None, initializer=None,
                 regularizer=None, caching_device=None, partitioner=None, custom_getter=None,
                 reuse=None, dtype=None, use_resource=None, constraint=None,
                 auxiliary_name_scope=True):
        if name_or_scope is None and default_name is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if name_or_scope is not None and not isinstance(name_or_scope, (VariableScope, str)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError("The auxiliary_name_scope must be `True` or `False`, while get "
                            f"{auxiliary_name_scope}")
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = [value for value in values or [] if value is not None]
        self._reuse = None if reuse is False else reuse
        self._auxiliary = auxiliary_name_scope
        self._custom_getter = custom_getter
        self._given = {"initializer": initializer, "regularizer": regularizer,
                       "caching_device": caching_device, "partitioner": partitioner,
                       "dtype": None if dtype is None else dtypes.as_dtype(dtype),
                       "use_resource": use_resource, "constraint": constraint}

    def __repr__(self):
        name = getattr(self._name_or_scope, "name", self._name_or_scope)
        return f"<tf.variable_scope {self._default_name if name is None else name!r}>"

    def __enter__(self):
        self._graph_context = graph_of(self._values).as_default()
        self._graph_context.__enter__()
        self._store = _of_graph(_SCOPES_KEY, _ScopeStore)
        self._name_scope = self._make_name_scope()
        opened = self._name_scope.__enter__() if self._name_scope is not None else ""
        self._old = self._store.current
        self._old_counts = None
        scope = self._make_scope(opened)
        self._store.open(scope.name)
        if isinstance(self._name_or_scope, VariableScope):
            self._old_counts = dict(self._store.counts)
        self._opened_name = scope.name
        self._store.current = scope
        return scope

    def __exit__(self, *details):
        self._store.close_below(self._opened_name)
        if self._old_counts is not None:
            self._store.restore(self._old_counts)
        self._store.current = self._old
        if self._name_scope is not None:
            self._name_scope.__exit__(*details)
        self._graph_context.__exit__(*details)
        return False

    def _make_name_scope(self):
        if not self._auxiliary:
            current = ops.get_name_scope()
            return ops.name_scope(current + "/" if current else None)
        if self._name_or_scope is None:
            return ops.name_scope(self._default_name)
        name = self._name_or_scope
        if isinstance(name, VariableScope):
            name = name.name.split("/")[-1]
        return ops.name_scope(name) if name else None

    def _make_scope(self, name_scope):
        given = self._name_or_scope
        if isinstance(given, VariableScope):
            base, name, name_scope = given, given.name, given.original_name_scope
        else:
            base = self._old
            name = self._store.unique(self._default_name) if given is None else given
            name = f"{base.name}/{name}" if base.name else name
        scope = VariableScope(
            self._reuse or base.reuse, name, base.initializer, base.regularizer,
            base.caching_device, base.partitioner, base.custom_getter, name_scope, base.dtype,
            base.use_resource, base.constraint)
        for key, value in self._given.items():
            if value is not None:
                setattr(scope, key, value)
        if self._custom_getter is not None:
            scope.custom_getter = _composed(self._custom_getter, base.custom_getter)
        return scope


def _composed(getter, outer):
    """`getter`, whose own `getter` argument is the outer scope's custom getter."""
    if outer is None:
        return getter

    def composed(getter_=None, *args, **kwargs):
        inner = kwargs.pop("getter", getter_)
        return getter(functools.partial(outer, inner), *args, **kwargs)
    return composed


def variable_op_scope(values, name_or_scope, default_name=None, initializer=None, regularizer=None,
                      caching_device=None, partitioner=None, custom_getter=None, reuse=None,
                      dtype=None, use_resource=None, constraint=None):
    """TF's old spelling of variable_scope. TF: tf.variable_op_scope."""
    return variable_scope(name_or_scope, default_name, values, initializer, regularizer,
                          caching_device, partitioner, custom_getter, reuse, dtype, use_resource,
                          constraint)


def get_variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=None,
                 collections=None, caching_device=None, partitioner=None, validate_shape=True,
                 use_resource=None, custom_getter=None, constraint=None, synchronization=None,
                 aggregation=None):
    """The variable `name` of the current variable scope, made or shared as its `reuse` says.

    Without `initializer` the scope's, else glorot_uniform for floats and zeros for integers.
    Raises ValueError as invariant 3 says, and for a shape or dtype that differs. TF:
    tf.get_variable. shape: of ints, all known; dtype: any, float32 by default. ValueError for a
    name that exists (or not) against `reuse`, or another shape than before. regularizer: a function
    of the variable; its loss joins REGULARIZATION_LOSSES. trainable False keeps it out of
    TRAINABLE_VARIABLES; collections: others to join than GLOBAL_VARIABLES. partitioner: cuts it
    into parts. validate_shape False: an initial value of unknown shape will do. use_resource: a
    resource variable. custom_getter: called in place of this. constraint: applied to the value by
    an optimizer. caching_device, synchronization and aggregation: as in TF 1.15.

        >>> v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v.assign_add([1.0, 2.0]))
        array([1., 2.], dtype=float32)
    """
    return get_variable_scope().get_variable(
        store(), name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer,
        trainable=trainable, collections=collections, caching_device=caching_device,
        partitioner=partitioner, validate_shape=validate_shape, use_resource=use_resource,
        custom_getter=custom_getter, constraint=constraint, synchronization=synchronization,
        aggregation=aggregation)


def get_local_variable(name, shape=None, dtype=None, initializer=None, regularizer=None,
                       trainable=False, collections=None, caching_device=None, partitioner=None,
                       validate_shape=True, use_resource=None, custom_getter=None, constraint=None,
                       synchronization=None, aggregation=None):
    """As get_variable, in LOCAL_VARIABLES and not trainable. TF: tf.get_local_variable.
    Shapes, dtypes and errors (ValueError) as there."""
    collections = list(collections or []) + [GraphKeys.LOCAL_VARIABLES]
    return get_variable(
        name, shape, dtype, initializer, regularizer, False, collections, caching_device,
        partitioner, validate_shape, use_resource, custom_getter, constraint, synchronization,
        aggregation)


def variable(initial_value=None, trainable=None, collections=None, **kwargs):
    """tf.Variable by a function: as TensorFlow's variable_scope.variable, which layers and tests
    call. The scope's `use_resource` counts; creators of variables are called."""
    if kwargs.get("use_resource") is None:
        kwargs["use_resource"] = get_variable_scope().use_resource
    return variables.Variable(initial_value, trainable=trainable, collections=collections, **kwargs)


def local_variable(initial_value, validate_shape=True, name=None, use_resource=None,
                   trainable=False, **kwargs):
    """A local variable made directly. TF: tf.contrib.framework.local_variable.
    initial_value: any shape and dtype. ValueError for a shape that is not known."""
    return variables.Variable(initial_value, name=name, trainable=trainable,
                              validate_shape=validate_shape, use_resource=use_resource,
                              collections=[GraphKeys.LOCAL_VARIABLES], **kwargs)


# ------------------------------------------------------------------------------------- partitioners
def create_partitioned_variables(shape, slicing, initializer, dtype=dtypes.float32, trainable=True,
                                 collections=None, name=None, reuse=None):
    """The parts of a variable cut as `slicing` says, numbers of parts per axis, as a list.
    TF: tf.create_partitioned_variables.
    shape: ints, all known. ValueError as get_variable with a partitioner."""
    if len(shape) != len(slicing):
        raise ValueError("The 'shape' and 'slicing' of a new Partitioned Variable must have the "
                         f"length: shape: {shape}, slicing: {slicing}")
    if initializer is not None and not callable(initializer):
        dtype = ops.convert_to_tensor(initializer).dtype.base_dtype    # its own, as in TensorFlow
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        whole = scope.get_variable(
            store(), None, shape, dtype, initializer, trainable=trainable,
            collections=collections, partitioner=lambda **unused: list(slicing))
    return list(whole)


PUBLIC = {
    "create_partitioned_variables": create_partitioned_variables, "AUTO_REUSE": AUTO_REUSE,
    "VariableScope": VariableScope, "variable_scope": variable_scope,
    "variable_op_scope": variable_op_scope, "get_variable": get_variable,
    "get_local_variable": get_local_variable, "get_variable_scope": get_variable_scope,
    "no_regularizer": no_regularizer, "enable_resource_variables": enable_resource_variables,
    "disable_resource_variables": disable_resource_variables,
    "resource_variables_enabled": resource_variables_enabled,
    "contrib.framework.local_variable": local_variable,
}
