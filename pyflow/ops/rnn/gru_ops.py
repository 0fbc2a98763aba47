"""A GRU's step as one op: GRUBlockCell and its gradient.

Invariants
  1. w_ru is [inputs + cells, 2 cells], columns r then u; w_c is [inputs + cells, cells].
  2. h = u h_prev + (1 - u) c; gradients flow through h alone, as in TF.

Source: Cho et al. 2014; TF 1.15's contrib.rnn gru_ops.
Example:  `r, u, c, h = tf.raw_ops.GRUBlockCell(x=x, h_prev=h, w_ru=w, w_c=v, b_ru=b, b_c=d)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, op, raw_ops, unit
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.shape_rules import match

INPUTS = "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T"


def _dims(op):
    x, h = op.inputs[0].shape.with_rank(2), op.inputs[1].shape.with_rank(2)
    return x[0].merge_with(h[0]).value, x[1].value, h[1].value


def _shape(op):
    batch, _, cells = _dims(op)
    return [TensorShape([batch, cells])] * 4


def _grad_shape(op):
    state = ["b c"] * 4
    found = match(op, "b i", "b c", "k g", "k c", "g", "c", *state)
    return [found("b i"), found("b c"), found("b c"), found("b g")]


def _inputs(batch, inputs, cells):
    return [(batch, inputs), (batch, cells), unit((inputs + cells, 2 * cells)),
            unit((inputs + cells, cells)), unit((2 * cells,)), unit((cells,))]


SIZES = [(3, 4, 2), (0, 2, 3), (1, 1, 1), (2, 5, 18)]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


@op("GRUBlockCell", inputs=INPUTS, outputs="r: T, u: T, c: T, h: T", attrs="T: {float}")
class GRUBlockCell:
    """One step of a GRU, x [batch, inputs]. TF: GRUBlockCell."""
    shape = _shape

    def gradient(op, dr, du, dc, dh):
        x, h_prev = op.inputs[:2]
        r = op.outputs[0]
        dh = tensors.zeros_like(h_prev) if dh is None else dh
        dx, dh_prev, dc_bar, dru_bar = GRUBlockCellGrad(*op.inputs, *op.outputs[:3], dh)
        plain, reset = tensors.concat([x, h_prev], 1), tensors.concat([x, h_prev * r], 1)
        return [dx, dh_prev, raw_ops.MatMul(plain, dru_bar, transpose_a=True),
                raw_ops.MatMul(reset, dc_bar, transpose_a=True),
                raw_ops.BiasAddGrad(dru_bar), raw_ops.BiasAddGrad(dc_bar)]

    def reference(x, h_prev, w_ru, w_c, b_ru, b_c):
        r, u = np.split(_sigmoid(np.concatenate([x, h_prev], 1) @ w_ru + b_ru), 2, 1)
        c = np.tanh(np.concatenate([x, h_prev * r], 1) @ w_c + b_c)
        return r, u, c, u * h_prev + (1 - u) * c
    samples = [S(*_inputs(*sizes)) for sizes in SIZES]


@op("GRUBlockCellGrad", inputs=INPUTS + ", r: T, u: T, c: T, d_h: T",
    outputs="d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T", attrs="T: {float}")
class GRUBlockCellGrad:
    """Gradient of GRUBlockCell: of its inputs, and of the gates before their functions. Its own is
    not offered. TF: GRUBlockCellGrad."""
    shape = _grad_shape
    gradient = UNREGISTERED

    def reference(x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h):
        inputs = x.shape[1]
        dc_bar = d_h * (1 - u) * (1 - c * c)
        du_bar = d_h * (h_prev - c) * u * (1 - u)
        back = dc_bar @ w_c.T
        dreset = back[:, inputs:]
        dru_bar = np.concatenate([dreset * h_prev * r * (1 - r), du_bar], 1)
        more = dru_bar @ w_ru.T
        return (back[:, :inputs] + more[:, :inputs], more[:, inputs:] + dreset * r + d_h * u,
                dc_bar, dru_bar)
    samples = [S(*_inputs(*s), *[unit((s[0], s[2])) for _ in range(4)]) for s in SIZES]
