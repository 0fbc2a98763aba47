"""An LSTM over all steps whose weights are 8-bit numbers: onnxruntime's DynamicQuantizeLSTM.

Invariants
  1. Inputs are quantised to uint8 once, all steps together, the state before each step: by the
     smallest and largest element and 0.
  2. Weights are packed (integer_ops.packed), a column per gate and cell, in the order i, o, f, c.
  3. With `reverse` the last step is first; outputs lie where their inputs do.

Made by the importer of ONNX models; it has no gradient. Source: onnxruntime's ContribOperators.md.
Example:  `_DynamicQuantizeLSTM(x, h, c, *w, w_scales, *r, r_scales, bias)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.ops.base.shape_rules import match
from pyflow.ops.gemm.integer_ops import packed, product


def _quantised(x):
    """(uint8 numbers, zero point, scale) of float32 x."""
    low, high = min(x.min(initial=0), 0), max(x.max(initial=0), 0)
    scale = np.float32(high - low) / np.float32(255)
    scale = np.float32(1) if scale == 0 else scale
    zero = np.rint(np.float32(-low) / scale)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), zero, scale


def _times(x, panels, sums, zeros, scales):
    steps, zero, scale = _quantised(x)
    made = product(steps.reshape(-1, x.shape[-1]), zero, panels, sums, zeros)
    return made.reshape(*x.shape[:-1], -1).astype(np.float32) * (scale * scales)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _sample(steps, batch, inputs, cells, **attrs):
    rng = np.random.default_rng(cells)
    parts = []
    for rows in (inputs, cells):
        weights = rng.integers(0, 256, (rows, 4 * cells)).astype(np.uint8)
        parts += [lit(a.tolist(), kind) for a, kind in zip(packed(weights, 130),
                                                           ("int8", "int32", "int32"))]
        parts.append(lit((0.004 + 0.002 * rng.random(4 * cells)).tolist(), "float32"))
    return S((steps, batch, inputs), (batch, cells), (batch, cells), *parts, (4 * cells,), **attrs)


@op("_DynamicQuantizeLSTM",
    inputs="x: float, h: float, c: float, w: int8, w_sums: int32, w_zeros: int32, "
           "w_scales: float, r: int8, r_sums: int32, r_zeros: int32, r_scales: float, bias: float",
    outputs="y: float, last_h: float, last_c: float", attrs="reverse: bool = false")
class _DynamicQuantizeLSTM:
    """States y [steps, batch, cells] after each step of x [steps, batch, inputs], and the last ones.
    TF: none."""
    def shape(op):
        found = match(op, "t b i", "b n", "b n", "p q s d", "g", "g", "g", "p r s d", "g", "g", "g",
                      "g")
        return [found("t b n"), found("b n"), found("b n")]
    gradient = UNREGISTERED

    def reference(x, h, c, w, w_sums, w_zeros, w_scales, r, r_sums, r_zeros, r_scales, bias,
                  reverse):
        y = np.zeros((len(x), *h.shape), np.float32)
        gates = bias + (_times(x, w, w_sums, w_zeros, w_scales) if x.size else
                        np.zeros((*x.shape[:2], len(bias)), np.float32))
        for t in range(len(x))[::-1 if reverse else 1]:
            i, o, f, g = np.split(gates[t] + _times(h, r, r_sums, r_zeros, r_scales), 4, -1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            y[t] = h = _sigmoid(o) * np.tanh(c)
        return y, h, c
    samples = [_sample(5, 1, 6, 16), _sample(4, 3, 5, 7, reverse=True), _sample(1, 2, 64, 20),
               _sample(0, 2, 3, 4)]
