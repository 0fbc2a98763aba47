"""An LSTM's step, or all of its steps, as one op: LSTMBlockCell, BlockLSTM and their gradients.

Invariants
  1. w is [inputs + cells, 4 cells], b [4 cells]; the gates' order is i, ci, f, o (BlockLSTMV2:
     i, f, ci, o). Outputs i, cs, f, o, ci, co, h: gates after their functions, state before and
     after tanh.
  2. Gradients flow through cs and h alone, and pass the clip unchanged, as in TF.
  3. Beyond seq_len_max outputs and gradients are zero.

Source: Zaremba et al. 2015, Sak et al. 2014; TF 1.15's contrib.rnn lstm_ops.
Example:  `outs = tf.raw_ops.BlockLSTM(seq_len_max=5, x=x, cs_prev=c, h_prev=h, w=w, ...)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops, unit
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.shape_rules import match

TYPES = "T: {half, float}"
STATE = "cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
STEP = "i: T, cs: T, f: T, o: T, ci: T, co: T"
OPTIONS = "forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = false, "
ICFO, IFCO = (0, 1, 2, 3), (0, 2, 1, 3)      # where i, ci, f, o stand among the gates


# ------------------------------------------------------------------------------------------- shapes
def _cell_dims(op, at):
    """(x dims, batch, cells) of an op whose x is input `at`."""
    x, cs = op.inputs[at].shape, op.inputs[at + 1].shape.with_rank(2)
    x = x.with_rank(2 + at)
    batch = x[at].merge_with(cs[0])
    return [d.value for d in x], batch.value, cs[1].value


def _cell_shape(op):
    _, batch, cells = _cell_dims(op, 0)
    return [TensorShape([batch, cells])] * 7


def _sequence_shape(op):
    found = match(op, "", "t b i", "b _", "b c", "k g", "c", "c", "c", "g")
    return [found("t b c")] * 7


def _cell_grad_shape(op):
    _, batch, cells = _cell_dims(op, 0)
    four = None if cells is None else 4 * cells
    return [TensorShape([batch, cells]), TensorShape([batch, four])] + [TensorShape([cells])] * 3


def _sequence_grad_shape(op):
    whole, gates = "t b c", ["c", "c", "c", "g"]
    found = match(op, "", "t b i", "b c", "b c", "k g", *gates, *[whole] * 9)
    return [found(p) for p in ("t b i", "b c", "b c", "k g", *gates)]


# ------------------------------------------------------------------------------------------ oracles
def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _step(x, cs_prev, h_prev, w, peepholes, b, forget_bias, cell_clip, order):
    parts = np.split(np.concatenate([x, h_prev], 1) @ w + b, 4, 1)
    i, ci, f, o = (parts[k] for k in order)
    wci, wcf, wco = peepholes
    i = _sigmoid(i + wci * cs_prev)
    f = _sigmoid(f + forget_bias + wcf * cs_prev)
    ci = np.tanh(ci)
    cs = ci * i + f * cs_prev
    if cell_clip > 0:
        cs = np.clip(cs, -cell_clip, cell_clip)
    o = _sigmoid(o + wco * cs)
    co = np.tanh(cs)
    return i, cs, f, o, ci, co, o * co


def _peepholes(use, cells, *weights):
    return [np.asarray(w) if use else np.zeros(cells) for w in weights]


def _run(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias, cell_clip,
         use_peephole, order):
    cells = cs_prev.shape[1]
    found = [np.zeros((len(x),) + cs_prev.shape, x.dtype) for _ in range(7)]
    for t in range(int(seq_len_max)):
        step = _step(x[t], cs_prev, h_prev, w, _peepholes(use_peephole, cells, wci, wcf, wco), b,
                     forget_bias, cell_clip, order)
        for whole, part in zip(found, step):
            whole[t] = part
        cs_prev, h_prev = step[1], step[6]
    return tuple(found)


def _step_grad(cs_prev, peepholes, saved, cs_grad, h_grad, order):
    """(gradient of cs_prev, of the four gates, of the three peepholes) of one step."""
    i, cs, f, o, ci, co = saved
    wci, wcf, wco = peepholes
    do = o * (1 - o) * h_grad * co
    dcs = (1 - co * co) * h_grad * o + cs_grad + do * wco
    dci = (1 - ci * ci) * dcs * i
    df = f * (1 - f) * dcs * cs_prev
    di = i * (1 - i) * dcs * ci
    gates = [(di, dci, df, do)[k] for k in np.argsort(order)]
    previous = dcs * f + di * wci + df * wcf
    return previous, np.concatenate(gates, 1), [(di * cs_prev).sum(0), (df * cs_prev).sum(0),
                                                (do * cs).sum(0)]


def _run_grad(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, saved, cs_grad, h_grad,
              use_peephole, order):
    cells = cs_prev.shape[1]
    peepholes = _peepholes(use_peephole, cells, wci, wcf, wco)
    i, cs, f, o, ci, co, h = saved
    dx, dw, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(b)
    dcs, dh, dpeep = np.zeros_like(cs_prev), np.zeros_like(h_prev), [np.zeros(cells, x.dtype)] * 3
    for t in range(int(seq_len_max) - 1, -1, -1):
        before = cs[t - 1] if t else cs_prev
        dcs, gates, more = _step_grad(before, peepholes, (i[t], cs[t], f[t], o[t], ci[t], co[t]),
                                      cs_grad[t] + dcs, h_grad[t] + dh, order)
        back = gates @ w.T
        dx[t], dh = back[:, :x.shape[2]], back[:, x.shape[2]:]
        dw += np.concatenate([x[t], h[t - 1] if t else h_prev], 1).T @ gates
        db += gates.sum(0)
        dpeep = [a + (m if use_peephole else 0) for a, m in zip(dpeep, more)]
    return (dx, dcs, dh, dw, *dpeep, db)


# ------------------------------------------------------------------------------------------ samples
def _weights(inputs, cells):
    return [unit((inputs + cells, 4 * cells)), unit((cells,)), unit((cells,)), unit((cells,)),
            unit((4 * cells,))]


def _cell_inputs(batch, inputs, cells):
    return [(batch, inputs), (batch, cells), (batch, cells)] + _weights(inputs, cells)


def _sequence_inputs(length, steps, batch, inputs, cells):
    return [lit(length), (steps, batch, inputs), (batch, cells), (batch, cells)] \
        + _weights(inputs, cells)


def _saved(shape, count=6):
    return [unit(shape) for _ in range(count)]


ONLY = dict(types=(dtypes.float32, dtypes.float16))
VARIANTS = [dict(), dict(use_peephole=True), dict(cell_clip=0.4, use_peephole=True),
            dict(forget_bias=0.25, cell_clip=-1.0)]
CELLS = [S(*_cell_inputs(3, 4, 2), **v, **ONLY) for v in VARIANTS] + [S(*_cell_inputs(0, 2, 3)),
                                                                     S(*_cell_inputs(2, 3, 20))]
SEQUENCES = [(5, 5, 3, 4, 2), (3, 5, 2, 2, 3), (0, 2, 2, 3, 2), (1, 1, 1, 1, 1), (4, 4, 2, 3, 17)]


# ---------------------------------------------------------------------------------------------- ops
@op("LSTMBlockCell", inputs="x: T, " + STATE, outputs=STEP + ", h: T", attrs=OPTIONS + TYPES)
class LSTMBlockCell:
    """One step of an LSTM, x [batch, inputs]. TF: LSTMBlockCell."""
    shape = _cell_shape

    def gradient(op, *grads):
        x, cs_prev, h_prev, w, wci, wcf, wco, b = op.inputs
        i, cs, f, o, ci, co, _ = op.outputs
        dcs, gates, dwci, dwcf, dwco = LSTMBlockCellGrad(
            x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, _or_zeros(grads[1], cs),
            _or_zeros(grads[6], cs), use_peephole=op.attr("use_peephole"))
        back = raw_ops.MatMul(gates, w, transpose_b=True)
        n = raw_ops.Shape(x)[1]
        joined = tensors.concat([x, h_prev], 1)
        return [raw_ops.Slice(back, [0, 0], tensors.stack([-1, n])),
                dcs, raw_ops.Slice(back, tensors.stack([0, n]), [-1, -1]),
                raw_ops.MatMul(joined, gates, transpose_a=True), dwci, dwcf, dwco,
                raw_ops.BiasAddGrad(gates)]

    def reference(x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias, cell_clip, use_peephole):
        return _step(x, cs_prev, h_prev, w,
                     _peepholes(use_peephole, cs_prev.shape[1], wci, wcf, wco), b, forget_bias,
                     cell_clip, ICFO)
    samples = CELLS


def _or_zeros(grad, like):
    return tensors.zeros_like(like) if grad is None else grad


@op("LSTMBlockCellGrad", inputs="x: T, " + STATE + ", " + STEP + ", cs_grad: T, h_grad: T",
    outputs="cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T",
    attrs="use_peephole: bool, " + TYPES)
class LSTMBlockCellGrad:
    """Gradient of LSTMBlockCell: of the state before, of the gates, of the peepholes. Its own is
    not offered. TF: LSTMBlockCellGrad."""
    shape = _cell_grad_shape
    gradient = UNREGISTERED

    def reference(x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad,
                  use_peephole):
        cells = cs_prev.shape[1]
        dcs, gates, peep = _step_grad(
            cs_prev, _peepholes(use_peephole, cells, wci, wcf, wco), (i, cs, f, o, ci, co), cs_grad,
            h_grad, ICFO)
        return (dcs, gates, *(p if use_peephole else np.zeros_like(wci) for p in peep))
    samples = [S(*_cell_inputs(3, 4, 2), *_saved((3, 2), 8), use_peephole=p, **ONLY)
               for p in (False, True)] + [S(*_cell_inputs(0, 2, 3), *_saved((0, 3), 8),
                                            use_peephole=False)]


def _sequence_gradient(gradient_op):
    def gradient(op, *grads):
        return [None, *gradient_op(*op.inputs, *op.outputs, _or_zeros(grads[1], op.outputs[1]),
                                   _or_zeros(grads[6], op.outputs[6]),
                                   use_peephole=op.attr("use_peephole"))]
    return gradient


def _backward_samples():
    return [S(*_sequence_inputs(*sizes), *_saved((sizes[1], sizes[2], sizes[4]), 9), use_peephole=p)
            for sizes, p in zip(SEQUENCES, (False, True, False, True, True))]


@op("BlockLSTMGrad", inputs="seq_len_max: int64, x: T, " + STATE + ", " + STEP
    + ", h: T, cs_grad: T, h_grad: T",
    outputs="x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, "
            "wco_grad: T, b_grad: T", attrs="use_peephole: bool, " + TYPES)
class BlockLSTMGrad:
    """Gradient of BlockLSTM. Its own is not offered. TF: BlockLSTMGrad."""
    shape = _sequence_grad_shape
    gradient = UNREGISTERED

    def reference(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, h,
                  cs_grad, h_grad, use_peephole):
        return _run_grad(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b,
                         (i, cs, f, o, ci, co, h), cs_grad, h_grad, use_peephole, ICFO)
    samples = _backward_samples()


@op("BlockLSTMGradV2", inputs="seq_len_max: int64, x: T, " + STATE + ", " + STEP
    + ", h: T, cs_grad: T, h_grad: T",
    outputs="x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, "
            "wco_grad: T, b_grad: T", attrs="use_peephole: bool, " + TYPES)
class BlockLSTMGradV2:
    """Gradient of BlockLSTMV2. Its own is not offered. TF: BlockLSTMGradV2."""
    shape = _sequence_grad_shape
    gradient = UNREGISTERED

    def reference(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, h,
                  cs_grad, h_grad, use_peephole):
        return _run_grad(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b,
                         (i, cs, f, o, ci, co, h), cs_grad, h_grad, use_peephole, IFCO)
    samples = _backward_samples()


@op("BlockLSTM", inputs="seq_len_max: int64, x: T, " + STATE, outputs=STEP + ", h: T",
    attrs=OPTIONS + TYPES)
class BlockLSTM:
    """All steps of an LSTM, x [time, batch, inputs], up to seq_len_max. TF: BlockLSTM."""
    shape = _sequence_shape
    gradient = _sequence_gradient(BlockLSTMGrad)

    def reference(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias, cell_clip,
                  use_peephole):
        return _run(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias, cell_clip,
                    use_peephole, ICFO)
    samples = [S(*_sequence_inputs(*sizes), **v) for sizes, v in zip(SEQUENCES, VARIANTS + [{}])]


@op("BlockLSTMV2", inputs="seq_len_max: int64, x: T, " + STATE, outputs=STEP + ", h: T",
    attrs="cell_clip: float = 0.0, use_peephole: bool = false, " + TYPES)
class BlockLSTMV2:
    """BlockLSTM with the gates in the order i, f, ci, o and no forget bias. TF: BlockLSTMV2."""
    shape = _sequence_shape
    gradient = _sequence_gradient(BlockLSTMGradV2)

    def reference(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, cell_clip, use_peephole):
        return _run(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, 0.0, cell_clip,
                    use_peephole, IFCO)
    samples = [S(*_sequence_inputs(*sizes), use_peephole=p)
               for sizes, p in zip(SEQUENCES, (False, True, False, True, True))]
