"""RNN, GRU and LSTM: products with the inputs of all steps at once, then a loop over the steps.

Layout inside: inputs [T, B, I], weights [gates * H, I], states [B, H], as ONNX has them for layout
0.  Source: ONNX operator definitions RNN, GRU, LSTM."""

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import ints, scalar, sizes, stacked
from pyflow.interop.onnx.ops.elementwise import hard_sigmoid_of
from pyflow.interop.onnx.registry import converter

_UNROLLED = 4       # up to so many steps are built one after the other

_ACTIVATIONS = {
    "relu": lambda a, b: tf.nn.relu, "tanh": lambda a, b: tf.tanh,
    "sigmoid": lambda a, b: tf.sigmoid, "softsign": lambda a, b: tf.nn.softsign,
    "softplus": lambda a, b: tf.nn.softplus,
    "affine": lambda a, b: lambda x: scalar(a if a is not None else 1, x) * x + scalar(b or 0, x),
    "leakyrelu": lambda a, b: lambda x: tf.nn.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda a, b: lambda x: tf.where(
        tf.greater(x, scalar(1 if a is None else a, x)), x, tf.zeros_like(x)),
    "scaledtanh": lambda a, b: lambda x: scalar(1 if a is None else a, x) * tf.tanh(
        scalar(1 if b is None else b, x) * x),
    "hardsigmoid": lambda a, b: lambda x: hard_sigmoid_of(x, 0.2 if a is None else a,
                                                          0.5 if b is None else b),
    "elu": lambda a, b: lambda x: tf.where(tf.greater(x, scalar(0, x)), x, scalar(
        1 if a is None else a, x) * tf.expm1(x)),
}
_WITH_ALPHA = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
_WITH_BETA = ("affine", "scaledtanh", "hardsigmoid")


def _activations(node, defaults):
    """A function per gate and direction."""
    names = [n.lower() for n in node.attr("activations", None) or defaults]
    alphas, betas = list(node.attr("activation_alpha", [])), list(node.attr("activation_beta", []))
    made = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise node.unsupported(f"activation {name!r}; expected one of "
                                   f"{', '.join(sorted(_ACTIVATIONS))}")
        alpha = alphas.pop(0) if alphas and name in _WITH_ALPHA else None
        beta = betas.pop(0) if betas and name in _WITH_BETA else None
        made.append(_ACTIVATIONS[name](alpha, beta))
    return made


class Layer:
    """What the three kinds share: inputs, directions, lengths, and the loop."""

    inputs_axis = 2         # of W, that has a place for each number of a step

    def __init__(self, node, gates, states, activations):
        self.node, self.gates = node, gates
        direction = node.attr("direction", "forward")
        self.directions = {"forward": [False], "reverse": [True],
                           "bidirectional": [False, True]}.get(direction)
        if self.directions is None:
            raise node.error(f"direction {direction!r} is none of forward, reverse, bidirectional")
        self.batch_first = bool(node.attr("layout", 0))
        node.expect_rank(0, 3)
        x = node.x(0)
        self.x = tf.transpose(x, [1, 0, 2]) if self.batch_first else x
        self.hidden = node.attr("hidden_size", None) or node.static_shape(2)[2]
        self.lengths = tf.cast(node.x(4), tf.int32) if node.has(4) else None
        self.clip = node.attr("clip", None)
        self.functions = _activations(node, activations * len(self.directions))
        self.states = states
        named = [n.lower() for n in node.attr("activations", None) or ()]
        self.usual = self.lengths is None and self.clip is None and \
            named in ([], [a.lower() for a in activations] * len(self.directions))
        for i, rank in ((1, 3), (2, 3)):
            node.expect_rank(i, rank)
        self.check_weights()
        self.x = self._fitting(self.x)

    def check_weights(self):
        """OnnxError unless W fits."""
        node, gates = self.node, self.gates
        if node.static_shape(1)[:2] != (len(self.directions), gates * self.hidden):
            raise node.error(f"W has shape {node.shape(1)}, expected "
                             f"({len(self.directions)}, {gates * self.hidden}, inputs)")

    def _fitting(self, x):
        """The samples, which have as many numbers as W has columns: checked now or in the step."""
        have, columns = x.shape.as_tuple()[2], self.node.static_shape(1)[self.inputs_axis]
        if have is None:
            return tf.ensure_shape(x, [None, None, columns])
        if have != columns:
            raise self.node.error(f"W is for {columns} numbers a step, X has {have}")
        return x

    def initial(self, i, d):
        """The first state of direction d, zeros if it is not given."""
        if self.node.has(i):
            given = self.node.x(i)
            state = given[:, d] if self.batch_first else given[d]
            state.set_shape([None, self.hidden])        # of a loop's state it must be known
            return state
        batch = sizes(self.x)[1:2]
        return tf.fill(tf.concat([batch, ints([self.hidden])], 0),
                       scalar(0, self.x))

    def bias(self, d):
        """(input bias, recurrent bias), vectors, or None."""
        if not self.node.has(3):
            return None, None
        both = self.node.x(3)[d]
        half = self.gates * self.hidden
        return both[:half], both[half:]

    def clipped(self, x):
        """x within [-clip, clip]."""
        if self.clip is None:
            return x
        return tf.clip_by_value(x, scalar(-self.clip, x), scalar(self.clip, x))

    def projected(self, x, d, extra=None):
        """x W' + bias for all steps: [T, B, gates * H]."""
        own = sizes(x)
        made = tf.matmul(tf.reshape(x, [-1, self.node.static_shape(1)[2]]), self.node.x(1)[d],
                         transpose_b=True)
        if extra is not None:
            made = made + extra
        return tf.reshape(made, tf.concat([own[:2], ints([self.gates * self.hidden])], 0))

    def recurrent(self, d):
        """h -> h R' of direction d."""
        weights = self.node.x(2)[d]
        return lambda h: tf.matmul(h, weights, transpose_b=True)

    def columns(self, d, *inputs):
        """Weights of inputs [directions, 4 H, rows] of an LSTM, of direction d: one matrix
        [rows, 4 H], the rows of the first on top, the gates in BlockLSTM's order."""
        values = [self.node.value(i) for i in inputs]
        n, first = self.hidden, values[0]
        if all(value.is_array for value in values):
            arrays = [value.array for value in values[1:]]      # kept as long as the first is
            return first.form(("lstm", d, *map(id, arrays)), lambda array: np.concatenate(
                [_gates(a[d], n, np.concatenate).T for a in (array, *arrays)]))
        return tf.concat([tf.transpose(_gates(value.plain[d], n, tf.concat)) for value in values],
                         0)

    def whole(self):
        """Outputs of an LSTM with its usual functions: all steps as one op; None if it cannot be."""
        node, n = self.node, self.hidden
        if self.x.dtype not in (tf.float32, tf.float16):
            return None
        zeros = tf.zeros([n], self.x.dtype)

        def direction(x, states, d):
            h, c = states
            wb, rb = self.bias(d)
            bias = tf.zeros([4 * n], x.dtype) if wb is None else _gates(wb + rb, n, tf.concat)
            peep = [zeros] * 3
            if node.has(7):                 # i, o, f; the op has i, f, o
                given = node.x(7)[d]
                peep = [given[k * n:(k + 1) * n] for k in (0, 2, 1)]
            made = get_op("BlockLSTM")(
                tf.cast(sizes(x)[0], tf.int64), x, c, h, self.columns(d, 1, 2), *peep, bias,
                forget_bias=0.0, cell_clip=-1.0, use_peephole=node.has(7))
            y, cells = made[6], made[1]
            return y, [tf.concat([old[None], new[-1:]], 0)[-1] for old, new in ((h, y), (c, cells))]
        return self.both(direction)

    def run(self, cell):
        """Outputs of the op.  cell(d) -> (bias added before the loop, step(x, states))."""
        per = len(self.functions) // len(self.directions)

        def direction(x, states, d):
            extra, step = cell(d, self.functions[d * per:(d + 1) * per])
            return self._loop(self.projected(x, d, extra), states, step)
        return self.both(direction)

    def both(self, direction, turned=True):
        """Outputs of the op.  direction(x, states, d) -> (outputs in the order of x, states).

        turned: of backward directions x and the outputs are turned here."""
        outputs, last = [], []
        for d, backwards in enumerate(self.directions):
            backwards = backwards and turned
            x = self._turned(self.x) if backwards else self.x
            y, states = direction(x, [self.initial(i, d) for i in self.states], d)
            outputs.append(self._turned(y) if backwards else y)
            last.append(states)
        y = tf.stack(outputs, 1)
        finals = [tf.stack(column) for column in zip(*last)]
        if self.batch_first:
            y = tf.transpose(y, [2, 0, 1, 3])
            finals = [tf.transpose(t, [1, 0, 2]) for t in finals]
        return [y, *finals][:len(self.node.outputs)]

    def _turned(self, x):
        if self.lengths is None:
            return tf.reverse(x, [0])
        return tf.reverse_sequence(x, self.lengths, seq_axis=0, batch_axis=1)

    def _masked(self, t, new, old):
        """States stay, outputs are 0 beyond a sequence's end."""
        if self.lengths is None:
            return new[0], new
        alive = tf.reshape(tf.less(t, self.lengths), [-1, 1])
        kept = [tf.where_v2(alive, n, o) for n, o in zip(new, old)]
        return tf.where_v2(alive, new[0], tf.zeros_like(new[0])), kept

    def _loop(self, x, states, step):
        steps = x.shape.as_tuple()[0]
        if steps is not None and steps <= _UNROLLED:
            made = []
            for t in range(steps):
                y, states = self._masked(t, step(x[t], states), states)
                made.append(y)
            empty = tf.zeros_like(x[:, :, :self.hidden])
            return (tf.stack(made) if made else empty), states
        total = tf.cast(sizes(x)[0], tf.int32)
        one = tf.constant(1)
        shapes = [tf.TensorShape([None, self.hidden]) for _ in states]
        array = tf.TensorArray(x.dtype, size=total, element_shape=shapes[0], infer_shape=False)

        def turn(t, states, array):
            y, states = self._masked(t, step(tf.gather(x, t), states), states)
            return t + one, list(states), array.write(t, y)
        scalar_shape = tf.TensorShape([])
        _, states, array = tf.while_loop(
            lambda t, states, array: tf.less(t, total), turn, (tf.constant(0), states, array),
            shape_invariants=(scalar_shape, shapes, scalar_shape))
        y = stacked(array, shapes[0], [sizes(x)[1], self.hidden])
        y.set_shape([steps, x.shape.as_tuple()[1], self.hidden])
        return y, list(states)


def _gates(matrix, n, concat):
    """Rows (or elements) i, o, f, c of n each, in BlockLSTM's order i, c, f, o."""
    return concat([matrix[k * n:(k + 1) * n] for k in (0, 3, 2, 1)], 0)


def _sum(a, b):
    return None if a is None else a + b


@converter("RNN")
def rnn(node):
    layer = Layer(node, 1, [5], ["Tanh"])

    def cell(d, functions):
        recurrent = node.x(2)[d]

        def step(x, states):
            inner = x + tf.matmul(states[0], recurrent, transpose_b=True)
            return [functions[0](layer.clipped(inner))]
        return _sum(*layer.bias(d)), step
    return layer.run(cell)


@converter("GRU")
def gru(node):
    """Gates z, r, h."""
    layer = Layer(node, 3, [5], ["Sigmoid", "Tanh"])
    after = bool(node.attr("linear_before_reset", 0))
    n = layer.hidden

    if layer.usual and node.importer.only_run and layer.x.dtype is tf.float32:
        return _whole_gru(node, layer, after)

    def cell(d, functions):
        recurrent = node.x(2)[d]
        gates, own = recurrent[:2 * n], recurrent[2 * n:]
        wb, rb = layer.bias(d)
        first, second = functions
        extra = None
        if wb is not None:
            extra = wb if after else wb + rb
            if after:
                extra = wb + tf.concat([rb[:2 * n], tf.zeros_like(rb[2 * n:])], 0)

        def step(x, states):
            h = states[0]
            zr = first(layer.clipped(x[:, :2 * n] + tf.matmul(h, gates, transpose_b=True)))
            z, r = zr[:, :n], zr[:, n:]
            if after:
                inner = tf.matmul(h, own, transpose_b=True)
                inner = r * (inner if rb is None else inner + rb[2 * n:])
            else:
                inner = tf.matmul(r * h, own, transpose_b=True)
            new = second(layer.clipped(x[:, 2 * n:] + inner))
            return [(scalar(1, z) - z) * new + z * h]
        return extra, step
    return layer.run(cell)


def _whole_gru(node, layer, after):
    """Outputs of a GRU with its usual functions: all steps as one op, which has no gradient."""
    n = layer.hidden

    def direction(x, states, d):
        wb, rb = layer.bias(d)
        own = tf.zeros([n], tf.float32)
        if wb is not None and after:
            wb, own = tf.concat([wb[:2 * n] + rb[:2 * n], wb[2 * n:]], 0), rb[2 * n:]
        elif wb is not None:
            wb = wb + rb
        value = node.value(2)
        weights = value.form(("turned", d), lambda array: array[d].T) if value.is_array else \
            tf.transpose(value.plain[d])
        y, last = get_op("_GRU")(layer.projected(x, d, wb), states[0], weights, own,
                                 linear_before_reset=after, reverse=layer.directions[d])
        return y, [last]
    return layer.both(direction, turned=False)


@converter("LSTM")
def lstm(node):
    return lstm_of(node, Layer)


def lstm_of(node, kind):
    """Gates i, o, f, c; peepholes for i, o, f.  kind: a Layer, which makes the products."""
    layer = kind(node, 4, [5, 6], ["Sigmoid", "Tanh", "Tanh"])
    n = layer.hidden
    coupled = bool(node.attr("input_forget", 0))
    made = layer.whole() if layer.usual and not coupled else None
    if made is not None:
        return made

    def cell(d, functions):
        recurrent = layer.recurrent(d)
        peep = node.x(7)[d] if node.has(7) else None
        gate, squash, out = functions

        def looked(c, k):
            return c * peep[k * n:(k + 1) * n]

        def step(x, states):
            h, c = states
            total = x + recurrent(h)
            i, o, f, g = (total[:, k * n:(k + 1) * n] for k in range(4))
            if peep is not None:
                i, f = i + looked(c, 0), f + looked(c, 2)
            i = gate(layer.clipped(i))
            f = scalar(1, i) - i if coupled else gate(layer.clipped(f))
            c = f * c + i * squash(layer.clipped(g))
            if peep is not None:
                o = o + looked(c, 1)
            return [gate(layer.clipped(o)) * out(c), c]
        return _sum(*layer.bias(d)), step
    return layer.run(cell)
