"""Which of a model's arrays become variables, and the variables: `import_model(trainable=...)`.

Invariants:
1. A variable holds what the file holds, in the file's layout, and is named like it; what converters
   need of it (another order of axes, say) is computed in the step, so that gradients flow.
2. Variables are made outside of loops, branches and the scopes of nodes, once per message.
3. An op that has to know a value while the graph is built finds none in a variable: its error names
   the array and says to leave it out.  `trainable=True` leaves those out itself, see `is_weight`.

One import is the work of one thread.  Called by importer.py.

    chosen = Chosen(True, model)
    chosen("conv1.weight", array)               # whether it becomes a variable
"""

import numpy as np

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.interop.onnx.errors import OnnxError
from pyflow.interop.onnx.values import held_constant, owned

_FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_MAX_STEPS = 64             # nodes that only move numbers, one after the other

# Ops that pass their first input on, so that what uses the result uses the array; Concat and Where
# are none of them, for what they make is of several arrays.
_MOVES = frozenset(("Cast", "CastLike", "Expand", "Flatten", "Identity", "Reshape", "Slice",
                    "Squeeze", "Tile", "Transpose", "Unsqueeze"))

_ALL = range(1 << 16)

# Inputs that say how an op works, or what it measured, and are no parameters of a model: op -> places.
_SETTINGS = {
    "AffineGrid": _ALL, "Attention": (3, 4, 5), "BatchNormalization": (3, 4), "BiasSoftmax": (1,),
    "CenterCropPad": _ALL, "Clip": (1, 2), "ConstantOfShape": _ALL, "CropAndResize": (1, 2, 3),
    "Dropout": (1,), "GRU": (4, 5), "GridSample": (1,), "GroupQueryAttention": (3, 4, 7, 8),
    "LSTM": (4, 5, 6), "Loop": _ALL, "MatMulNBits": (2, 3, 4), "MelWeightMatrix": _ALL,
    "Mod": _ALL, "MultiHeadAttention": (4, 5, 6, 7), "NonMaxSuppression": _ALL, "OneHot": _ALL,
    "Pad": (1, 2), "Pow": (1,), "QAttention": _ALL, "RNN": (4, 5), "Range": _ALL,
    "Resize": (1, 2, 3), "RoiAlign": (1,), "RotaryEmbedding": (1, 2, 3), "STFT": (2,),
    "Scan": _ALL, "Upsample": (1,), "Equal": _ALL, "Greater": _ALL, "GreaterOrEqual": _ALL,
    "Less": _ALL, "LessOrEqual": _ALL,
    # scales of quantised numbers
    "DequantizeLinear": (1, 2), "QuantizeLinear": (1, 2), "DynamicQuantizeLSTM": _ALL,
    "DynamicQuantizeMatMul": (2, 3), "GatherBlockQuantized": _ALL, "MatMulIntegerToFloat": _ALL,
    "QGemm": _ALL, "ConvInteger": _ALL, "MatMulInteger": _ALL,
}
_QUANTISED = "QLinear"

# Ops in which even one number is a parameter; elsewhere it is a constant of a formula.
_LAYERS = frozenset((
    "BatchNormalization", "BiasAdd", "BiasGelu", "Conv", "ConvTranspose", "DeformConv", "FusedConv",
    "FusedGemm", "FusedMatMul", "GRU", "Gather", "Gemm", "GroupNorm", "GroupNormalization",
    "InstanceNormalization", "LSTM", "LayerNormalization", "MatMul", "PRelu", "RMSNormalization",
    "RNN", "SimplifiedLayerNormalization", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization"))


# Ops whose state goes into a body: op -> (where it begins among the inputs, the body's inputs
# before it, the body's outputs before it).
_STATES = {"Loop": (2, 2, 1), "Scan": (0, 0, 0)}


class Chosen:
    """Says of each array that a model holds whether it becomes a variable."""

    def __init__(self, trainable, model):
        """trainable: as for `import_model`.  Raises OnnxError for a name that the model lacks,
        TypeError for what is none of the forms."""
        self._uses, self._function = None, None
        if isinstance(trainable, (bool, np.bool_)):
            self._asked = None
            if trainable:
                self._uses = _uses(model)
                self._function = self._is_weight
        elif callable(trainable):
            self._asked, self._function = None, lambda name, array: trainable(name)
        elif isinstance(trainable, (list, tuple, set, frozenset)):
            self._asked = frozenset(trainable)
            _check_names(self._asked, model)
            self._function = lambda name, array: name in self._asked
        else:
            raise TypeError(f"trainable must be True, False, names of the model's arrays or a "
                            f"function of a name, got {type(trainable).__name__}")

    def __bool__(self):
        return self._function is not None

    def __call__(self, name, array):
        """Whether the array called `name` becomes a variable.  Raises OnnxError if it is asked for
        by name and cannot."""
        if self._function is None or not name:
            return False
        if array.dtype == object or dtypes.as_dtype(array.dtype) not in _FLOATS:
            if self._asked is not None and name in self._asked:
                raise OnnxError(f"trainable: {name!r} is {_type_name(array)}; expected floating "
                                f"point, for gradients flow through nothing else")
            return False
        return bool(self._function(name, array))

    def _is_weight(self, name, array):
        """Whether the array is a parameter by what uses it: no setting of an op, no statistic of a
        batch norm, no scale of quantised numbers; one number only where a layer's parameter is one;
        not a mask of infinities."""
        uses = _final_uses(name, self._uses)
        if not uses or any(_is_setting(op, place) for op, place in uses):
            return False
        if array.size <= 1 and not (array.size and any(op in _LAYERS for op, _ in uses)):
            return False
        return bool(np.isfinite(array.astype(np.float32, copy=False)).all())


def _type_name(array):
    return "string" if array.dtype == object else array.dtype.name


def _is_setting(op, place):
    return place in _SETTINGS.get(op, ()) or op.startswith(_QUANTISED)


def _graphs(model):
    """All graphs of a model: its own, its functions', and the bodies inside of them."""
    todo = [*([model.graph] if model.graph is not None else []), *model.functions]
    while todo:
        graph = todo.pop()
        yield graph
        todo += [g for node in graph.node for a in node.attribute for g in [a.g, *a.graphs]
                 if g is not None]


def _uses(model):
    """{name: [(op, place, name that the same numbers have next, or "")]} of all nodes."""
    found = {}
    for graph in _graphs(model):
        for node in graph.node:
            first = node.output[0] if len(node.output) else ""
            kept = _kept(node) if node.op_type in _STATES else {}
            for place, name in enumerate(node.input):
                if name:
                    row = ("Identity", 0, kept[place]) if place in kept else (
                        node.op_type, place, first)
                    found.setdefault(name, []).append(row)
    return found


def _kept(node):
    """{place: the body's name} of the states that a Loop or Scan hands from turn to turn as they
    are: such a one is a weight, another what the turns begin with."""
    body = next((a.g for a in node.attribute if a.name == "body" and a.g is not None), None)
    if body is None:
        return {}
    at, inputs, outputs = _STATES[node.op_type]
    count = len(node.input) - sum(a.i for a in node.attribute if a.name == "num_scan_inputs")
    same = {n.output[0]: n.input[0] for n in body.node
            if n.op_type == "Identity" and len(n.output) and len(n.input)}
    found = {}
    for place in range(at, count):
        into, out = place - at + inputs, place - at + outputs
        if into < len(body.input) and out < len(body.output):
            name, steps = body.output[out].name, 0
            while name in same and steps < _MAX_STEPS:
                name, steps = same[name], steps + 1
            if name == body.input[into].name:
                found[place] = name
    return found


def _final_uses(name, uses):
    """[(op, place)] of what uses the array, through ops that only move its numbers."""
    found, waiting, seen = [], [(name, 0)], {name}
    while waiting:
        current, steps = waiting.pop()
        for op, place, output in uses.get(current, ()):
            if op in _MOVES and place == 0 and output and steps < _MAX_STEPS:
                if output not in seen:
                    seen.add(output)
                    waiting.append((output, steps + 1))
            else:
                found.append((op, place))
    return found


def held_names(model):
    """Names of the arrays that a model holds, in its order: initializers, outputs of Constant
    nodes."""
    made = []
    for graph in _graphs(model):
        made += [proto.name for proto in getattr(graph, "initializer", ())]
        made += [node.output[0] for node in graph.node
                 if node.op_type == "Constant" and len(node.output)]
    return made


def _check_names(asked, model):
    wrong = [name for name in asked if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"trainable: expected names (str), got {wrong[0]!r}")
    have = held_names(model)
    unknown = sorted(asked.difference(have))
    if unknown:
        raise OnnxError(f"trainable: the model holds no {unknown[0]!r}; it holds "
                        f"{', '.join(map(repr, have[:20]))}{', ...' if len(have) > 20 else ''}")


def variable(array, name, scope):
    """A trainable variable with that initial value.  name: a node's name; scope: the name scope of
    the import, "" for none."""
    graph, array = tf.get_default_graph(), owned(array)
    with graph.control_dependencies(None), tf.name_scope(f"{scope}/" if scope else None):
        return tf.Variable(lambda: held_constant(array), dtype=dtypes.as_dtype(array.dtype),
                           name=name)
