"""Layer, the base of tf.layers: variables made at the first call, found again by later ones.

Invariants
  1. A layer's variables lie in one variable scope, fixed by its first call; the layer's name is
     that scope's last part. Ops of every call go to the name scope opened with it.
  2. `build` runs once, with the shape of the first input; afterwards variables are only found.
  3. Losses of regularizers join REGULARIZATION_LOSSES once per variable, updates UPDATE_OPS at the
     call that makes them.
  4. input_spec is checked before every call; ValueError names layer, expected and got.

Thread: the one building the graph.  Source: TF 1.15 tf.layers.Layer.

Example:
    layer = tf.layers.Dense(10, name="logits")
    y, z = layer(a), layer(b)               # one variable logits/kernel, one logits/bias
"""
import inspect
import re

from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.graph import GraphKeys
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.variables import partitioned_variables, variable_scope, variables
from pyflow.ops.base import tensors


class InputSpec:
    """What a layer takes: dtype, shape, ndim, max_ndim, min_ndim, axes ({axis: size}), each None
    where anything goes. TF: tf.layers.InputSpec."""

    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None, min_ndim=None, axes=None):
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self.shape = shape
        self.ndim = ndim if shape is None else len(shape)
        self.max_ndim, self.min_ndim = max_ndim, min_ndim
        self.axes = {int(k): axes[k] for k in axes} if axes else {}
        known = self.ndim if self.ndim is not None else max_ndim
        if self.axes and known is not None and max(self.axes) > known - 1:
            raise ValueError(f"Axis {max(self.axes)} is greater than the maximum allowed value: "
                             f"{known - 1}")

    def __repr__(self):
        said = [f"{key}={value}" for key, value in vars(self).items() if value]
        return f"InputSpec({', '.join(said)})"


class Layer:
    """A function of tensors with variables of its own; subclasses give `build` and `call`.

    trainable: whether its variables join TRAINABLE_VARIABLES. name: of the layer and its variable
    scope, made unique where it is None. dtype: of the variables, the first input's where None.
    `_reuse`: the variables must exist already (True), or may (tf.AUTO_REUSE). `_scope`: the
    variable scope, or its name. TF: tf.layers.Layer.

        >>> class Scale(tf.layers.Layer):
        ...     def build(self, shape):
        ...         self.factor = self.add_variable("factor", [], initializer=tf.ones_initializer())
        ...     def call(self, x):
        ...         return x * self.factor
        >>> layer = Scale(name="scale")
        >>> _ = layer(tf.constant([1.0, 2.0]))
        >>> [v.name for v in layer.variables]
        ['scale/factor:0']
    """

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        scope, self._reuse = kwargs.pop("_scope", None), kwargs.pop("_reuse", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        if kwargs:
            raise TypeError(f"{type(self).__name__}: unexpected arguments "
                            f"{', '.join(sorted(kwargs))}")
        self.trainable = trainable
        self.built = False
        self.input_spec = None
        self.stateful = False
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self._trainable, self._fixed = [], []
        self._losses, self._updates, self._calls = [], [], []
        given = None if isinstance(name, variable_scope.VariableScope) else name
        self._base_name = snake_case(type(self).__name__) if not name else \
            given or name.name
        self._name = given or _unique_name(snake_case(type(self).__name__))
        self._scope = self._current_scope = None
        if scope:
            with variable_scope.variable_scope(scope) as captured:
                self._scope = captured

    def __repr__(self):
        return f"<tf.layers.{type(self).__name__} {self._name!r}>"

    # ------------------------------------------------------------------------- what it is
    @property
    def activity_regularizer(self):
        """The function of the outputs whose results are losses, or None."""
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer):
        self._activity_regularizer = regularizer

    @property
    def name(self):
        """The layer's name."""
        return self._name

    @property
    def dtype(self):
        """The name of the element type of its variables; None before it is known."""
        return self._dtype

    @property
    def scope_name(self):
        """The full name of the variable scope. ValueError before the first call."""
        if self._scope is None:
            raise ValueError(f'No name available for layer scope because the layer "{self._name}" '
                             "has not been used yet. The scope name is determined the first time "
                             "the layer instance is called. You must therefore call the layer "
                             "before querying `scope_name`.")
        return self._scope.name

    @property
    def graph(self):
        """The graph of the layer's variables; the default graph before there are any."""
        made = self.weights
        return made[0].graph if made else ops.get_default_graph()

    @property
    def trainable_weights(self):
        """Variables that are trained; none of them where `trainable` is False."""
        return list(self._trainable) if self.trainable else []

    @property
    def non_trainable_weights(self):
        """The other variables."""
        return list(self._fixed) if self.trainable else self._trainable + self._fixed

    @property
    def weights(self):
        """All variables: trainable ones first."""
        return self.trainable_weights + self.non_trainable_weights

    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights
    variables = weights

    @property
    def losses(self):
        """Scalar tensors: losses of regularizers, and what `add_loss` was given."""
        return [loss for loss, _ in self._losses]

    @property
    def updates(self):
        """Ops that keep statistics; they joined UPDATE_OPS."""
        return [update for update, _ in self._updates] if self.trainable or self.stateful else []

    def get_losses_for(self, inputs):
        """Losses that depend on `inputs`; with None, those that depend on no input."""
        return _for_inputs(self._losses, inputs)

    def get_updates_for(self, inputs):
        """Updates that depend on `inputs`; with None, those that depend on no input."""
        return _for_inputs(self._updates, inputs)

    @property
    def input(self):
        """The input of the only call. AttributeError if there were none, or several."""
        return self._of_only_call(0, "input")

    @property
    def output(self):
        """The result of the only call. AttributeError if there were none, or several."""
        return self._of_only_call(1, "output")

    @property
    def input_shape(self):
        """The static shape of `input`, a tuple."""
        return tuple(self.input.shape.as_list())

    @property
    def output_shape(self):
        """The static shape of `output`, a tuple."""
        return tuple(self.output.shape.as_list())

    def get_input_at(self, node_index):
        """The input of call number `node_index`. ValueError if there was no such call."""
        return self._of_call(node_index, 0, "input")

    def get_output_at(self, node_index):
        """The result of call number `node_index`. ValueError if there was no such call."""
        return self._of_call(node_index, 1, "output")

    def _of_call(self, index, part, what):
        if not 0 <= index < len(self._calls):
            raise ValueError(f"Asked to get {what} at node {index}, but the layer has only "
                             f"{len(self._calls)} inbound nodes.")
        return self._calls[index][part]

    def _of_only_call(self, part, what):
        if len(self._calls) == 1:
            return self._calls[0][part]
        if not self._calls:
            raise AttributeError(f"Layer {self._name} has no inbound nodes: call it first.")
        raise AttributeError(f'Layer "{self._name}" has multiple inbound nodes, hence the notion of '
                             f'"layer {what}" is ill-defined. Use `get_{what}_at(node_index)` '
                             "instead.")

    def count_params(self):
        """The number of elements of its variables. ValueError before they are made."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self._name}, but the layer "
                             "isn't built. You can build it manually via: "
                             f"`{self._name}.build(batch_input_shape)`.")
        return sum(v.shape.num_elements() for v in self.weights)

    # ---------------------------------------------------------------------- what subclasses say
    def build(self, input_shape):
        """Makes the variables. input_shape: a TensorShape, or a nest of them as the inputs."""
        self.built = True

    def call(self, inputs, **kwargs):
        """The layer's result for `inputs`."""
        return inputs

    def compute_output_shape(self, input_shape):
        """The TensorShape of the result for an input of `input_shape`."""
        raise NotImplementedError(f"{type(self).__name__} says no shape of its results: override "
                                  "compute_output_shape")

    # ------------------------------------------------------------------- what subclasses use
    def add_weight(self, name, shape, dtype=None, initializer=None, regularizer=None,
                   trainable=True, constraint=None, use_resource=None, synchronization=None,
                   aggregation=None, partitioner=None):
        """A variable of the layer, made or found in its scope; as tf.get_variable's arguments say.

        regularizer: its loss joins `losses` where the variable is new."""
        dtype = dtypes.as_dtype(dtype or self._dtype or dtypes.float32)
        self._set_scope()
        known = set(map(id, variables.global_variables()))
        with self._in_scope(self.built or self._reuse) as scope:
            variable = variable_scope.get_variable(
                name, shape, dtype, initializer if initializer is not None else scope.initializer,
                trainable=trainable and self.trainable, constraint=constraint,
                partitioner=partitioner, use_resource=use_resource or scope.use_resource,
                synchronization=synchronization, aggregation=aggregation)
            parts = list(variable) if _is_parted(variable) else [variable]
            if regularizer and not any(id(part) in known for part in parts):
                self._regularize(name, parts, regularizer)
        wanted = trainable and self.trainable
        trained = set(map(id, variables.trainable_variables()))
        learns = wanted and all(id(part) in trained for part in parts)     # a getter may refuse
        (self._trainable if learns or trainable and not self.trainable else self._fixed).append(
            variable)
        return variable

    add_variable = add_weight

    def _regularize(self, name, parts, regularizer):
        with ops.name_scope(name + "/Regularizer"):
            for part in parts:
                loss = regularizer(part)
                if loss is not None:
                    self.add_loss(loss)

    def add_loss(self, losses, inputs=None):
        """Scalar tensors for `losses` and REGULARIZATION_LOSSES. inputs: on which they depend."""
        for loss in nest.flatten(losses):
            loss = ops.convert_to_tensor(loss)
            self._losses.append((loss, inputs))
            _collect([loss], GraphKeys.REGULARIZATION_LOSSES)

    def add_update(self, updates, inputs=None):
        """Ops for `updates` and, when the call is over, UPDATE_OPS."""
        for update in nest.flatten(updates):
            self._updates.append((update, inputs))

    # ---------------------------------------------------------------------------- being called
    def apply(self, inputs, *args, **kwargs):
        """The same as calling the layer."""
        return self(inputs, *args, **kwargs)

    def __call__(self, inputs, *args, **kwargs):
        self._set_scope(kwargs.pop("scope", None))
        with self._in_scope(True if self.built else self._reuse) as scope:
            inputs = nest.map_structure(_as_tensor, inputs)
            self._check_input(inputs)
            if not self.built:
                self._infer_dtype(inputs)
                self.build(nest.map_structure(lambda x: x.shape, inputs))
                self.built = True
                self._check_input(inputs)
            if _takes_scope(type(self)):
                kwargs["scope"] = scope
            outputs = self.call(inputs, *args, **kwargs)
            if outputs is None:
                raise ValueError("A layer's `call` method should return a Tensor or a list of "
                                 f"Tensors, not None (layer: {self._name}).")
            if self._activity_regularizer is not None:
                with ops.name_scope("ActivityRegularizer"):
                    for output in nest.flatten(outputs):
                        self.add_loss(self._activity_loss(output), inputs)
        _collect(self.updates, GraphKeys.UPDATE_OPS)
        self._calls.append((inputs, outputs))
        return outputs

    def _activity_loss(self, output):
        """The regularizer's loss of an example, in the mean."""
        loss = ops.convert_to_tensor(self._activity_regularizer(output))
        return loss / tensors.cast(tensors.shape_internal(output)[0], loss.dtype)

    def _set_scope(self, scope=None):
        if self._scope is not None:
            return
        if self._reuse:
            opened = variable_scope.variable_scope(self._base_name if scope is None else scope)
        else:
            opened = variable_scope.variable_scope(scope, default_name=self._base_name)
        with opened as captured:
            self._scope = captured

    def _in_scope(self, reuse):
        return _LayerScope(self, reuse)

    def _infer_dtype(self, inputs):
        if self._dtype is None:
            first = next(iter(nest.flatten(inputs)), None)
            if first is not None and hasattr(first, "dtype"):
                self._dtype = first.dtype.base_dtype.name

    def _check_input(self, inputs):
        if self.input_spec is None:
            return
        specs, given = nest.flatten(self.input_spec), nest.flatten(inputs)
        if len(specs) != len(given):
            raise ValueError(f"Layer {self._name} expects {len(specs)} inputs, but it received "
                             f"{len(given)} input tensors. Inputs received: {given}")
        for i, (spec, x) in enumerate(zip(specs, given)):
            problem = None if spec is None else _mismatch(spec, x)
            if problem:
                raise ValueError(f"Input {i} of layer {self._name} is incompatible with the layer: "
                                 f"{problem}")


class _LayerScope:
    """The layer's variable scope, and the name scope that was opened with it."""

    def __init__(self, layer, reuse):
        self._layer = layer
        self._variables = variable_scope.variable_scope(layer._scope, reuse=reuse,
                                                        auxiliary_name_scope=False)

    def __enter__(self):
        scope = self._variables.__enter__()
        self._layer._current_scope = scope
        self._names = ops.name_scope(scope.original_name_scope)
        self._names.__enter__()
        return scope

    def __exit__(self, *details):
        self._names.__exit__(*details)
        return self._variables.__exit__(*details)


# -------------------------------------------------------------------------------------- particulars
def snake_case(name):
    """CamelCase as snake_case, as TF makes a layer's name from its class: Conv2D -> conv2d."""
    words = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()
    return "private" + words if words[0] == "_" else words


def _unique_name(base):
    """`base_1`, `base_2`, ... in the default graph, as TF names layers without a name."""
    graph = ops.get_default_graph()
    counts = graph.get_collection_ref(("__layer_names",))
    if not counts:
        counts.append({})
    n = counts[0][base] = counts[0].get(base, 0) + 1
    return f"{base}_{n}"


def _as_tensor(value):
    return ops.convert_to_tensor(value) if not hasattr(value, "shape") or \
        not hasattr(value, "op") and not hasattr(value, "values") else value


def _is_parted(variable):
    return isinstance(variable, partitioned_variables.PartitionedVariable)


def _takes_scope(cls):
    found = cls.__dict__.get("_call_takes_scope")
    if found is None:
        found = "scope" in inspect.signature(cls.call).parameters
        cls._call_takes_scope = found
    return found


def _collect(items, key):
    """Adds what the collection lacks."""
    known = ops.get_collection_ref(key)
    for item in items:
        if not any(item is other for other in known):
            known.append(item)


def _for_inputs(pairs, inputs):
    if inputs is None:
        return [item for item, of in pairs if of is None]
    wanted = set(map(id, nest.flatten(inputs)))
    return [item for item, of in pairs
            if of is not None and wanted & set(map(id, nest.flatten(of)))]


def _mismatch(spec, x):
    """Why `x` does not fit `spec`; None where it does."""
    rank = x.shape.ndims
    got = f"Full shape received: {x.shape.as_list() if rank is not None else None}"
    if rank is None:
        needs = spec.ndim is not None or spec.min_ndim is not None or spec.max_ndim is not None
        return ("its rank is undefined, but the layer requires a defined rank." if needs else None)
    if spec.ndim is not None and rank != spec.ndim:
        return f"expected ndim={spec.ndim}, found ndim={rank}. {got}"
    if spec.max_ndim is not None and rank > spec.max_ndim:
        return f"expected max_ndim={spec.max_ndim}, found ndim={rank}"
    if spec.min_ndim is not None and rank < spec.min_ndim:
        return f"expected min_ndim={spec.min_ndim}, found ndim={rank}. {got}"
    if spec.dtype is not None and x.dtype.base_dtype.name != spec.dtype:
        return f"expected dtype={spec.dtype}, found dtype={x.dtype.base_dtype.name}"
    sizes = x.shape.as_list()
    for axis, size in spec.axes.items():
        if size is not None and sizes[axis] not in (int(size), None):
            return (f"expected axis {axis} of input shape to have value {int(size)} but received "
                    f"input with shape {sizes}")
    if spec.shape is not None:
        for wanted, size in zip(as_shape(spec.shape).as_list(), sizes):
            if wanted is not None and size is not None and wanted != size:
                return f"expected shape={spec.shape}, found shape={sizes}"
    return None


def channel_size(layer, shape, axis):
    """The static size of the channels. ValueError where it is not known."""
    shape = TensorShape(shape)
    size = None if shape.ndims is None else shape.as_list()[axis]
    if size is None:
        raise ValueError(f"{layer}: the channel dimension (axis {axis}) of the inputs should be "
                         f"defined, got shape {shape}")
    return size


PUBLIC = {"layers.Layer": Layer, "layers.InputSpec": InputSpec}
