"""A model kept ready for whatever is fed: one set of weights, a graph for the sizes that need one.

Invariants:
1. A model whose sizes may stay unknown is one graph and one plan for all shapes.  Where an op needs
   to know more (`NeedsConstant`), graphs are made for the shapes of the inputs that it depends on;
   only where those do not tell it, for the values of the small ones among them, whole numbers first.
   What was once needed stays so for the model.
2. All graphs share the model's weights and the forms that converters made of them.  Large ones are
   let go as soon as a plan has them, and made again when another is compiled:

       HERE -> GONE [let_go: the compiler has the arrays] -> HERE [recall: the next compilation]
3. The least recently used graph beyond `bound` is dropped; who still runs it ends it.

Threads: any; graphs are made one at a time, steps run side by side.

    kept = Variants(proto, folder)
    kept.find({"x": image}).outputs({"x": image}, ["y"])
"""

import collections
import json
import threading

import pyflow as tf
from pyflow.interop.onnx.errors import NeedsConstant, OnnxError
from pyflow.interop.onnx.importer import tensor_type
from pyflow.interop.onnx.model import imported
from pyflow.interop.onnx.sequences import Kind, flat, structure_key, structure_of
from pyflow.timeline import Timeline

_MAX_VALUES = 4096          # elements of an input that may be built into a graph
BOUND = 16                  # graphs kept of a model


class Variants:
    """The graphs of one model."""

    def __init__(self, model, folder=None, config=None, shapes=None, deterministic=False,
                 bound=BOUND, wide_halves=False, threads=None):
        """model: our ModelProto; shapes: of inputs, in place of the file's, known in part;
        config, deterministic, threads: of the sessions;
        wide_halves: as `model.imported` has it.

        Raises OnnxError for what no shape would mend."""
        self.model, self._folder, self._bound = model, folder, bound
        self._wide_halves = wide_halves
        self._session = {"config": config, "deterministic": deterministic, "threads": threads}
        self._shapes = dict(shapes or {})
        self._weights, self._kept = {}, collections.OrderedDict()
        self._by_shape, self._by_value = [], []     # names of inputs
        self._lock, self._closed = threading.Lock(), False
        held = {t.name for t in model.graph.initializer}
        self.inputs = [info for info in model.graph.input if info.name not in held]
        self.kinds = {info.name: Kind(info) for info in self.inputs}
        self.general = None         # the Variant for all shapes, if there is one
        self.need = None            # else the NeedsConstant that says why not
        try:
            self.general = self._kept[()] = self._made({}, {})
        except NeedsConstant as need:
            if not need.inputs:
                raise
            self.need = need
            self._by_shape = self._unknown(need)

    def find(self, feeds):
        """The Variant for arrays by input name.  Raises OnnxError."""
        if self.general is not None and not self._closed:
            return self.general
        if any(name not in feeds for name in self._by_shape):
            raise self.need
        with self._lock:
            if self._closed:
                raise OnnxError("the model is closed")
            while True:
                try:
                    return self._variant(feeds)
                except NeedsConstant as need:
                    self._bind(need, feeds)

    def close(self):
        """Ends all sessions; the model can run no more."""
        with self._lock:
            self._closed = True
            while self._kept:
                self._kept.popitem()[1].close()

    def __len__(self):
        return len(self._kept)

    def _variant(self, feeds):
        shapes = {name: structure_of(feeds[name]) for name in self._by_shape}
        values = {name: feeds[name] for name in self._by_value}
        key = (*(structure_key(feeds[name]) for name in self._by_shape),
               *((v.shape, v.tobytes()) for v in values.values()))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._made(shapes, values)
            if len(self._kept) > self._bound:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _made(self, shapes, values):
        graph = tf.Graph()
        shapes = {name: sizes for name, sizes in {**self._shapes, **shapes}.items()
                  if name not in values}
        model = imported(self.model, self._folder, graph, constants=values, shapes=shapes,
                         weights=self._weights, wide_halves=self._wide_halves,
                         only_run=True)
        return Variant(model, tf.Session(graph=graph, **self._session),
                       _Constants(self._weights.values()))

    def _unknown(self, need):
        """The inputs of unknown size among those that a node depends on."""
        said = {info.name: self._shapes.get(info.name, tensor_type(info)[1] if
                                            self.kinds[info.name].plain else None)
                for info in self.inputs}
        return [name for name in need.inputs if name in said and name not in self._by_shape
                and not tf.TensorShape(said[name]).is_fully_defined()]

    def _bind(self, need, feeds):
        """Makes graphs for more than before, so that `need` may be met; else raises it."""
        more = self._unknown(need)
        if any(name not in feeds for name in more):
            raise need
        self._by_shape += more
        if more:
            return
        small = [name for name in need.inputs if name not in self._by_value
                 and getattr(feeds.get(name), "size", _MAX_VALUES + 1) <= _MAX_VALUES]
        whole = [name for name in small if feeds[name].dtype.kind in "biu"]
        if not small:
            raise need
        self._by_value += whole or small


class Variant:
    """A graph of the model, and its session."""

    def __init__(self, model, session, constants):
        self.model, self._session, self._constants = model, session, constants
        self._steps, self._lock = {}, threading.Lock()
        model.graph.on_arrays_taken = constants.let_go
        model.graph.on_array_changed = constants.give_up
        self._names = list(model.inputs)
        self._plain = all(isinstance(made, tf.Tensor) for made in model.inputs.values())
        # whether the outputs are arrays as they are
        self.simple = not model.map_outputs and not model.small_outputs and all(
            isinstance(made, tf.Tensor) and made.dtype is not tf.string
            for made in model.outputs.values())

    def outputs(self, feeds, names=None):
        """Arrays of the outputs called `names`, by default all, for arrays by input name.

        Raises tf.errors of the step, KeyError for a name that there is not."""
        arrays = [feeds[name] for name in self._names]
        return self.step(names)(*(arrays if self._plain else flat(arrays)))

    def step(self, names=None):
        """What runs the outputs called `names`: it takes arrays in the order of `model.inputs`."""
        key = None if names is None else tuple(names)
        step = self._steps.get(key)
        if step is None:
            with self._lock:
                step = self._steps.get(key)
                if step is None:
                    step = self._steps[key] = self._compiled(key)
        return step

    def _compiled(self, key):
        """With the lock held."""
        outputs = self.model.outputs
        fetches = [outputs[name] for name in (outputs if key is None else key)]
        if not fetches:
            return _nothing
        with self._constants:
            return self._session.make_callable(fetches, flat(self.model.inputs.values()))

    def traced(self, feeds, names):
        """(outputs, events in Chrome's trace format) of a step whose nodes are timed."""
        metadata, outputs = tf.RunMetadata(), self.model.outputs
        with self._lock, self._constants:
            values = self._session.run(
                [outputs[name] for name in names],
                dict(zip(flat(self.model.inputs.values()),
                         flat(feeds[name] for name in self.model.inputs))),
                tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
        text = Timeline(metadata.step_stats).generate_chrome_trace_format()
        return values, json.loads(text)["traceEvents"]

    def close(self):
        """Ends the session."""
        self._session.close()


class _Constants:
    """The large Const nodes of a graph, whose arrays are there while a plan is compiled: a context
    manager, under the Variant's lock."""

    def __init__(self, weights):
        self._nodes = []        # (Operation, Weight, key, make)
        for weight in weights:
            self._nodes += [(op, weight, *rest) for op, *rest in weight.nodes]
            weight.nodes.clear()
        self._by_op = {op: (weight, key) for op, weight, key, _ in self._nodes}

    def __enter__(self):
        for op, weight, key, make in self._nodes:
            if op.attrs["value"] is None:
                op.attrs = {**op.attrs, "value": weight.form(key, make)}

    def __exit__(self, *_):
        self.let_go()

    def let_go(self):
        """HERE -> GONE: of the graph, and of the model."""
        for op, weight, _, _ in self._nodes:
            op.attrs = {**op.attrs, "value": None}
            weight.forms.clear()

    def give_up(self, op):
        """HERE -> GONE, of one node; -> whether it is a node that is made again when needed."""
        found = self._by_op.get(op)
        if found is None:
            return False
        weight, key = found
        op.attrs = {**op.attrs, "value": None}
        weight.forms.pop(key, None)
        return True


def _nothing(*_):
    return []
