"""A GRU over all steps, ONNX's, whose inputs have been multiplied by their weights.

Invariants
  1. The gates' order is z, r, h; both biases of z and r, and the input's of h, are in `gates`.
  2. r is applied to the state before the product, or (`linear_before_reset`) to the product and
     its bias.
  3. With `reverse` the last step is first; outputs lie where their inputs do.

Made by ONNX models that are only run; imported graphs have a loop, which has gradients.
Source: ONNX's GRU.
Example:  `y, last = _GRU(gates, h, weights, bias, linear_before_reset=True)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, op
from pyflow.ops.base.shape_rules import match


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _sample(steps, batch, cells, **attrs):
    return S((steps, batch, 3 * cells), (batch, cells), (cells, 3 * cells), (cells,), **attrs)


@op("_GRU", inputs="gates: float, h: float, weights: float, bias: float",
    outputs="y: float, last_h: float",
    attrs="linear_before_reset: bool = false, reverse: bool = false")
class _GRU:
    """States y [steps, batch, cells] after each step of gates [steps, batch, 3 cells], and the last
    one. weights: [cells, 3 cells]; bias: [cells], of the product for gate h. TF: none."""
    def shape(op):
        found = match(op, "t b g", "b n", "n g", "n")
        return [found("t b n"), found("b n")]
    gradient = UNREGISTERED

    def reference(gates, h, weights, bias, linear_before_reset, reverse):
        n = h.shape[1]
        y = np.zeros((len(gates), *h.shape), np.float32)
        for t in range(len(gates))[::-1 if reverse else 1]:
            inner = h @ weights
            z, r = (_sigmoid(gates[t][:, k:k + n] + inner[:, k:k + n]) for k in (0, n))
            more = r * (inner[:, 2 * n:] + bias) if linear_before_reset \
                else (r * h) @ weights[:, 2 * n:]
            y[t] = h = (1 - z) * np.tanh(gates[t][:, 2 * n:] + more) + z * h
        return y, h
    samples = [_sample(5, 1, 16, linear_before_reset=True), _sample(4, 3, 7, reverse=True),
               _sample(3, 2, 20), _sample(2, 1, 33, linear_before_reset=True, reverse=True),
               _sample(0, 2, 3)]
