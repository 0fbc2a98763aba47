"""What `compare` and `dump` look into: graphs that are run, and arrays that another system wrote.

    source = sources.open_source("model.pb", feeds)       # also .onnx, .meta, SavedModel, .npz,
    folder source.points                                          # [Point]: named tensors, inputs
    first source.values()                                        # {name: ndarray}
    source.again([tensor], {tensor: array})                # a part of the graph on other values

Invariants
    1. A point is a tensor that can be fetched: none inside a loop or a branch, no resource.
    2. `values` runs one step, in which all points are fetched.  `again` never runs what has an
       effect or draws random numbers.
    3. Points of an ONNX model are the model's own values, in its order of axes; those of other
       graphs are their tensors.

Threads: a source is used by one thread.
"""
import os

import numpy as np

import pyflow as tf
from pyflow.framework import errors
from pyflow.tools import arrays, models
from pyflow.train import saved_origins

_STATE = frozenset(("VarHandleOp", "VariableV2", "Variable", "ReadVariableOp",
                    "IsVariableInitialized", "VarIsInitializedOp", "ResourceGather",
                    "ResourceGatherNd"))
_TURNS = frozenset(("Transpose", "Reshape", "Const", "Shape", "StridedSlice", "Pack", "ConcatV2",
                    "GatherV2", "Identity", "ExpandDims", "Squeeze", "Cast"))
_PLAIN = frozenset(("Placeholder", "PlaceholderV2", "PlaceholderWithDefault"))


class Point:
    """A tensor that has a name: `tensor` (None: `array` is known while the graph is built), `node`
    and `type` are what the model calls the node that makes it."""

    __slots__ = ("name", "tensor", "array", "node", "type")

    def __init__(self, name, tensor, node, op_type, array=None):
        self.name, self.tensor, self.array = name, tensor, array
        self.node, self.type = node, op_type


class Options:
    """How a graph is run.  threads: None, or how many; device: a device's name; rewrites: False
    turns off all rewrites."""

    def __init__(self, threads=None, device=None, rewrites=True):
        self.threads, self.device, self.rewrites = threads, device, rewrites

    def config(self):
        """The tf.ConfigProto."""
        config = tf.ConfigProto(intra_op_parallelism_threads=self.threads or 0,
                                inter_op_parallelism_threads=self.threads or 0)
        config.allow_soft_placement = self.device is not None   # some ops stay on the host
        if not self.rewrites:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        return config


class ArraySource:
    """Arrays by name; `kind` is "arrays"."""

    kind, session = "arrays", None

    def __init__(self, named, path=""):
        self.path = str(path)
        self._named = {name: np.asarray(value) for name, value in named.items()}
        self.points = [Point(name, None, name, "", value) for name, value in self._named.items()]

    def values(self):
        """{name: array}."""
        return self._named

    def close(self):
        """Nothing to end."""


class GraphSource:
    """A graph with its session and feeds; `kind` is "graph" or "onnx"."""

    def __init__(self, graph, feeds, outputs, options, path="", points=None, give_state=None,
                 session=None):
        """feeds: {tensor name: array}; outputs: names of tensors; points: of an ONNX model."""
        self.graph, self.path = graph, str(path)
        self.kind = "graph" if points is None else "onnx"
        self.outputs = [graph.get_tensor_by_name(name) for name in outputs]
        self.feeds = {graph.get_tensor_by_name(name): value for name, value in feeds.items()}
        self.order = needed(self.outputs, self.feeds)
        self.fetchable = fetchable(self.order)
        self.points = _points(self) if points is None else points
        self._own, self.options = session is None, options
        self.session = session or _session(graph, options, give_state)
        self._captured, self._wide = None, {}

    def close(self):
        """Ends the session, if it is the source's own."""
        if self._own:
            self.session.close()

    def values(self):
        """{name: array} of all points, of one step."""
        if self._captured is None:
            tensors = list({p.tensor: None for p in self.points if p.tensor is not None})
            found = dict(zip(tensors, self.session.run(tensors, self.feeds))) if tensors else {}
            self._captured = {p.name: np.asarray(p.array if p.tensor is None else found[p.tensor])
                              for p in self.points}
        return self._captured

    def alone(self, tensor):
        """A tensor's value in a step that fetches nothing else, so that all rewrites may be
        done."""
        return np.asarray(self.session.run(tensor, self.feeds))

    def keep_needed(self):
        """Drops the points that the outputs do not need; one may be turned to the model's order of
        axes by ops of its own, which then are in the order, too."""
        wanted = {t for op in self.order for t in op.outputs} | set(self.feeds)
        self.points = [p for p in self.points if p.tensor is None or p.tensor in wanted
                       or all(op.type in _TURNS for op in needed([p.tensor], wanted))]
        self.order = needed(self.outputs + [p.tensor for p in self.points if p.tensor is not None],
                            self.feeds)
        self.fetchable = fetchable(self.order)

    def can_run(self, ops):
        """Whether these operations give the same again: no effects, no random numbers."""
        return all(not op.op_def.stateful or op.type in _STATE for op in ops)

    def again(self, tensors, feeds):
        """Arrays of tensors for other values of tensors before them; None where that fails."""
        try:
            return [np.asarray(v) for v in self.session.run(
                list(tensors), {t: _cast(v, t) for t, v in feeds.items()})]
        except (errors.OpError, ValueError, TypeError):
            return None

    def run_op(self, op, inputs, wide=False):
        """An operation's outputs for other inputs, `wide`: in float64 where there is a kernel for
        it; None where it cannot be run."""
        if not wide:
            return self.again(op.outputs, dict(zip(op.inputs, inputs)))
        if op not in self._wide:
            self._wide[op] = _wide_op(op)
        run = self._wide[op]
        found = run(inputs) if run else None
        return self.run_op(op, inputs) if found is None else found


def _cast(value, tensor):
    wanted = tensor.dtype.base_dtype
    if wanted == tf.string or value.dtype.kind in "OUS":
        return value
    return value.astype(wanted.as_numpy_dtype, copy=False)


def _session(graph, options, give_state):
    session = tf.Session(graph=graph, config=options.config())
    if options.device is not None:
        there = [d.name for d in session.list_devices()]
        wanted = tf.DeviceSpec.from_string(options.device).device_type
        if not any(tf.DeviceSpec.from_string(name).device_type == wanted for name in there):
            session.close()
            raise ValueError(f"device {options.device}: there are {', '.join(there)}")
    if give_state is not None:
        give_state(session)
    return session


def _wide_op(op):
    """A function from inputs to the outputs of the op with float64 in place of smaller floats."""
    floats = (tf.float32, tf.float16, tf.bfloat16)
    changed = {key: tf.float64 for key, value in op.attrs.items() if value in floats}
    node = tf.NodeDef.FromString(op.node_def.SerializeToString())
    for key in changed:
        node.attr[key].type = tf.float64.as_datatype_enum
    del node.input[:]
    for key in ("_class", "_output_shapes"):
        node.attr.pop(key, None)
    node.device = ""
    node.name = "wide"
    graph_def, numbers = tf.GraphDef(), range(len(op.inputs))
    for i in numbers:
        kind = op.inputs[i].dtype.base_dtype
        placeholder = graph_def.node.add(name=f"x{i}", op="Placeholder")
        placeholder.attr["dtype"].type = (tf.float64 if kind in floats and changed else kind
                                          ).as_datatype_enum
        placeholder.attr["shape"].shape.unknown_rank = True
        node.input.append(f"x{i}")
    graph_def.node.add().CopyFrom(node)
    graph = tf.Graph()
    try:
        with graph.as_default():
            tf.import_graph_def(graph_def, name="")
    except (ValueError, TypeError, errors.OpError):
        return None
    made = graph.get_operation_by_name("wide").outputs

    def run(inputs):
        feeds = {f"x{i}:0": _cast(inputs[i], graph.get_tensor_by_name(f"x{i}:0")) for i in numbers}
        try:
            with tf.Session(graph=graph) as session:
                return [np.asarray(v) for v in session.run(list(made), feeds)]
        except (errors.OpError, ValueError, TypeError):
            return None
    return run


# ---------------------------------------------------------------- graphs
def needed(outputs, feeds):
    """The operations that `outputs` need when `feeds` are fed, inputs first, in an order that
    depends on the graph alone; NextIteration closes a loop and counts as nothing's input."""
    given = set(feeds)
    found, stack = set(), [t.op for t in outputs if t not in given]
    while stack:
        op = stack.pop()
        if op in found:
            continue
        found.add(op)
        stack += [t.op for t in op.inputs if t not in given]
        stack += op.control_inputs
    waits, readers = {}, {op: [] for op in found}
    ordered = sorted(found, key=lambda op: op._id)
    for op in ordered:
        sources = {t.op for t in op.inputs if t not in given and t.op in found}
        sources.update(op.control_inputs)
        if op.type == "Merge":
            sources = {source for source in sources if source.type != "NextIteration"}
        waits[op] = len(sources)
        for source in sources:
            readers[source].append(op)
    ready, order = [op for op in reversed(ordered) if not waits[op]], []
    while ready:
        op = ready.pop()
        order.append(op)
        for reader in reversed(readers[op]):
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    return order


def fetchable(order):
    """The operations that stand in no loop and no branch."""
    depth, found = {}, set()            # op -> (frames, branches) around its outputs
    for op in order:
        around = [depth[o] for o in [t.op for t in op.inputs] + op.control_inputs if o in depth]
        frames = max((f for f, _ in around), default=0)
        branches = max((b for _, b in around), default=0)
        if op.type in ("Enter", "RefEnter"):
            frames += 1
        elif op.type in ("Exit", "RefExit"):
            frames -= 1
        elif op.type in ("Switch", "RefSwitch", "_SwitchN") and not frames:
            branches += 1
        elif op.type in ("Merge", "RefMerge") and not frames:
            branches -= 1
        depth[op] = max(frames, 0), max(branches, 0)
        if depth[op] == (0, 0):
            found.add(op)
    return found


def can_fetch(tensor):
    """Whether a tensor's value is an array."""
    return tensor.dtype.base_dtype not in (tf.resource, tf.variant)


def _points(source):
    points = [Point(t.name, t, t.op.name, t.op.type) for t in source.feeds]
    for op in source.order:
        if op in source.fetchable and op.type not in _PLAIN:
            points += [Point(t.name, t, op.name, op.type) for t in op.outputs
                       if can_fetch(t) and t not in source.feeds]
    return points


def line_of(op):
    """The line of the user's program that made the operation, or None where it is not known."""
    place = op.origin[0]
    if isinstance(place, saved_origins.SavedPlace) and place.co_name == models.READ:
        return None
    return str(op.user_frame)


# ---------------------------------------------------------------- opening
def open_source(what, feeds=None, fetches=(), options=None, tags=None, signature=None):
    """The source for a path, a tf.Graph, a tf.Session, a dict of arrays, or a source.

    feeds: {name: array}: names of tensors or nodes, of a SavedModel's signature, or of an ONNX
    model's inputs.  fetches: names of what has to be computed, by default the model's outputs.
    Raises UnreadableModel or UnreadableArrays, ValueError for feeds and fetches that do not fit."""
    options, feeds = options or Options(), feeds or {}
    if isinstance(what, (ArraySource, GraphSource)):
        return what
    if isinstance(what, dict):
        return ArraySource(what)
    if isinstance(what, tf.Session):
        return _of_graph(what.graph, feeds, fetches, options, session=what)
    if isinstance(what, tf.Graph):
        return _of_graph(what, feeds, fetches, options)
    path = os.fspath(what)
    if path.endswith(".npz") or os.path.isdir(path) and not _is_saved_model(path):
        return ArraySource(arrays.read(path), path)
    if path.endswith(".onnx"):
        return _of_onnx(path, feeds, fetches, options)
    return _of_file(path, feeds, fetches, options, tags, signature)


def _is_saved_model(path):
    from pyflow.saved_model import folders
    return folders.folder_of(path) is not None


def _place(graph, device):
    if device:
        for op in graph.get_operations():
            op._set_device(device)


def _of_graph(graph, feeds, fetches, options, session=None):
    from pyflow.framework.graph_io import as_graph_def
    outputs = [models.tensor_name(graph, name) for name in fetches]
    if not outputs:
        ends = models._outputs(as_graph_def(graph), graph.get_operations())
        outputs = models.harmless_outputs(models.Model(graph, [], ends))
    return GraphSource(graph, _named(graph, {}, feeds), outputs, options, session=session)


def _of_file(path, feeds, fetches, options, tags, signature):
    model = models.with_feeds(path, {}, [], [], tags, signature)[0]
    _place(model.graph, options.device)
    outputs = [models.tensor_of(model, n) for n in fetches] or models.harmless_outputs(model)
    return GraphSource(model.graph, _named(model.graph, model.names, feeds, model.inputs), outputs,
                       options, path, give_state=model.give_state)


def _named(graph, names, feeds, inputs=()):
    """{tensor name: array} of feeds by any name; one input takes one array of any name."""
    found = {}
    for name, value in feeds.items():
        full = names.get(name) or models.tensor_name(graph, name)
        try:
            tensor = graph.get_tensor_by_name(full if ":" in full else full + ":0")
        except (KeyError, ValueError):
            if len(inputs) != 1 or len(feeds) != 1:
                raise ValueError(f"--feeds: {name!r} is no tensor of the graph; its inputs are "
                                 f"{', '.join(inputs) or 'none'}") from None
            tensor = graph.get_tensor_by_name(inputs[0])
        found[tensor.name] = value
    return found


def _of_onnx(path, feeds, fetches, options):
    from pyflow.interop.onnx.model import load as read
    try:
        proto, folder = read(path)
    except OSError as e:
        raise models.UnreadableModel(f"{path}: {e.strerror}") from None
    if proto.graph is None:
        raise models.UnreadableModel(f"{path}: the model has no graph")
    held = {t.name for t in proto.graph.initializer}
    inputs = [i.name for i in proto.graph.input if i.name not in held]
    given = {}
    for name, value in feeds.items():
        key = name if name in inputs else name.removesuffix(":0")
        if key not in inputs and len(inputs) == len(feeds) == 1:
            key = inputs[0]
        if key not in inputs:
            raise ValueError(f"--feeds: the model has no input {name!r}; it has "
                             f"{', '.join(inputs)}")
        given[key] = value
    model, named = _imported(proto, folder, given)
    _place(model.graph, options.device)
    points = [Point(name, None if isinstance(held, np.ndarray) else held, node, op_type or "input",
                    held if isinstance(held, np.ndarray) else None)
              for name, (held, op_type, node) in named.items()]
    asked = [name.removesuffix(":0") for name in fetches] or list(model.outputs)
    wrong = [name for name in asked if name not in named]
    if wrong:
        raise ValueError(f"--fetch {wrong[0]}: the model has no value of this name")
    tensors = [named[name][0] for name in asked]
    outputs = [t.name for t in tensors if not isinstance(t, np.ndarray)]
    models.say_where(model.graph, path)
    source = GraphSource(model.graph, {model.inputs[n].name: v for n, v in given.items()
                                       if n in model.inputs}, outputs, options, path, points)
    source.keep_needed()
    return source


def _imported(proto, folder, feeds):
    """(ImportedModel, what its values are called), with the shapes and values of the feeds where
    ops have to know them."""
    from pyflow.interop import onnx
    from pyflow.interop.onnx.model import imported
    tries = [({}, {}), ({name: value.shape for name, value in feeds.items()}, {}),
             ({name: value.shape for name, value in feeds.items()},
              {name: value for name, value in feeds.items() if value.size <= 4096})]
    for i, (shapes, constants) in enumerate(tries):
        named = {}
        shapes = {name: shape for name, shape in shapes.items() if name not in constants}
        try:
            return imported(proto, folder, tf.Graph(), constants=constants, shapes=shapes,
                            named=named), named
        except onnx.NeedsConstant:
            if i == 2:
                raise
    return None
