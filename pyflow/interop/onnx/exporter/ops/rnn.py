"""Cells of recurrent networks that are one op, written out."""

from pyflow.interop.onnx.exporter.ops.common import converts, np


def _gates(node, x, h, w, b):
    both = node.emit("Concat", x, h, axis=1)
    return node.emit("Add", node.emit("MatMul", both, w), b)


@converts("GRUBlockCell")
def gru_block_cell(node):
    """r and u from one product; c from the reset state."""
    x, h, w_ru, w_c, b_ru, b_c = node.xs()
    units = node.shape(1)[1]
    if units is None:
        raise node.unsupported("the number of units must be known")
    gates = node.emit("Sigmoid", _gates(node, x, h, w_ru, b_ru))
    r, u = node.split(gates, [units, units], 1)
    c = node.emit("Tanh", _gates(node, x, node.emit("Mul", r, h), w_c, b_c))
    kept = node.emit("Mul", u, h)
    new = node.emit("Mul", node.emit("Sub", node.const(1, node.dtype()), u), c)
    return [r, u, c, node.emit("Add", kept, new)]


@converts("LSTMBlockCell")
def lstm_block_cell(node):
    """i, cs, f, o, ci, co, h of one step."""
    x, c, h, w, wci, wcf, wco, b = node.xs()
    units = node.shape(1)[1]
    if units is None:
        raise node.unsupported("the number of units must be known")
    return cell(node, units, _gates(node, x, h, w, b), c, (wci, wcf, wco))


def cell(node, units, gates, c, peepholes):
    """The outputs of LSTMBlockCell from the four gates, which lie as i, ci, f, o."""
    def peeped(gate, state, weights):
        if not node.attr("use_peephole", False):
            return gate
        return node.emit("Add", gate, node.emit("Mul", state, weights))
    i, ci, f, o = node.split(gates, [units] * 4, 1)
    wci, wcf, wco = peepholes
    i = node.emit("Sigmoid", peeped(i, c, wci))
    f = node.emit("Add", f, node.const(node.attr("forget_bias", 1.0), node.dtype()))
    f = node.emit("Sigmoid", peeped(f, c, wcf))
    ci = node.emit("Tanh", ci)
    cs = node.emit("Add", node.emit("Mul", ci, i), node.emit("Mul", c, f))
    clip = float(node.attr("cell_clip", 3.0))
    if clip > 0:
        cs = node.emit("Clip", cs, node.const(-clip, node.dtype()),
                       node.const(clip, node.dtype()))
    o = node.emit("Sigmoid", peeped(o, cs, wco))
    co = node.emit("Tanh", cs)
    return [i, cs, f, o, ci, co, node.emit("Mul", o, co)]
