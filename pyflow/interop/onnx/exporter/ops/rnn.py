"""Cells of recurrent networks that are one op, written out; a whole LSTM that is one."""

from pyflow.interop.onnx.exporter.ops.common import converts, dtypes, np


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


# A whole LSTM
@converts("BlockLSTM", "BlockLSTMV2")
def block_lstm(node):
    """h of all steps as ONNX's LSTM; cs of the last step alone, for ONNX's op gives no other."""
    for k, name in ((0, "i"), (2, "f"), (3, "o"), (4, "ci"), (5, "co")):
        if _is_read(node, k):
            raise node.unsupported(f"its output {name} of all steps is read; ONNX's LSTM gives h")
    only_last = _is_read(node, 1)
    if only_last and not all(_takes_last(reader) for reader in _readers(node, 1)):
        raise node.unsupported("its output cs is read of other steps than the last")
    if float(node.attr("cell_clip", 3.0)) > 0:
        raise node.unsupported("cell_clip: ONNX's LSTM clips what goes into the gates")
    inputs, units = node.shape(1)[2], node.shape(3)[1]
    if inputs is None or units is None:
        raise node.unsupported("the numbers of inputs and units must be known")
    w, r, b, p = _lstm_weights(node, inputs, units)
    state = [node.unsqueeze(node.x(i), 0) for i in (3, 2)]
    y, _, c = node.emit("LSTM", node.x(1), w, r, b, _lengths(node), *state, p, outputs=3,
                        hidden_size=units)
    return [node.as_value(name, k) for k, name in enumerate(
        ["?", c, "?", "?", "?", "?", node.squeeze(y, 1)])]


def _readers(node, k):
    tensor, walk = node.op.outputs[k], node.exporter.walk
    return [op for op in dict.fromkeys(tensor.consumers()) if op in walk.within]


def _is_read(node, k):
    return bool(_readers(node, k)) or node.op.outputs[k] in node.exporter.walk.asked


def _takes_last(op):
    """Whether an op is x[-1:] or x[-1] along the first axis."""
    if op.type != "StridedSlice":
        return False
    begin, end, step = (t.op.attrs.get("value") if t.op.type == "Const" else None
                        for t in op.inputs[1:])
    if any(a is None or not a.size for a in (begin, end, step)):
        return False
    one = op.attr("shrink_axis_mask") & 1 or op.attr("end_mask") & 1 or end[0] == 0
    rest = all(op.attr("begin_mask") >> k & 1 and op.attr("end_mask") >> k & 1 and step[k] == 1
               for k in range(1, begin.size))
    masks = op.attr("begin_mask") & 1 or op.attr("ellipsis_mask") or op.attr("new_axis_mask")
    return bool(begin[0] == -1 and step[0] == 1 and one and rest and not masks)


def _lengths(node):
    """None where all steps are taken; else seq_len_max for each sequence."""
    steps, known = node.shape(1)[0], node.known(0)
    if known is not None and steps is not None and int(known) >= steps or _is_length(node):
        return None
    count = node.reshape(node.cast(node.x(0), dtypes.int32), [1])
    return node.emit("Expand", count, node.size_of(node.x(1), 1))


def _is_length(node):
    """Whether seq_len_max is x's first size, as code reads."""
    x, op = node.op.inputs[1], node.op.inputs[0].op
    while op.type in ("Cast", "Identity"):
        op = op.inputs[0].op
    if op.type != "StridedSlice" or op.inputs[0].op.type != "Shape":
        return False
    begin = op.inputs[1].op.attrs.get("value")
    return op.inputs[0].op.inputs[0] is x and begin is not None and begin.tolist() == [0]


def _lstm_weights(node, inputs, units):
    """W, R, B and P of ONNX's LSTM, gates in its order i, o, f, c."""
    def turned(part):
        if isinstance(part, np.ndarray):
            i, c, f, o = np.split(part, 4, -1)
            return np.concatenate([i, o, f, c], -1)
        i, c, f, o = node.emit("Split", part, np.full(4, units), axis=-1, outputs=4)
        return node.emit("Concat", i, o, f, c, axis=-1)

    def rows(first, last):
        known = node.known(4)
        if known is not None:
            return np.ascontiguousarray(turned(known[first:last]).T)[None]
        part = turned(node.slice(node.x(4), [first], [last], [0]))
        return node.unsqueeze(node.emit("Transpose", part, perm=[1, 0]), 0)

    forget = np.zeros(4 * units, node.dtype(8).as_numpy_dtype)
    forget[2 * units:3 * units] = node.attr("forget_bias", 1.0) if node.op.type == "BlockLSTM" else 0
    known = node.known(8)
    b = turned(known + forget if known is not None else node.emit("Add", node.x(8), forget))
    none = np.zeros(4 * units, forget.dtype)
    b = np.concatenate([b, none])[None] if isinstance(b, np.ndarray) else node.unsqueeze(
        node.emit("Concat", b, none, axis=0), 0)
    p = None
    if node.attr("use_peephole", False):
        p = node.unsqueeze(node.emit("Concat", node.x(5), node.x(7), node.x(6), axis=0), 0)
    return rows(0, inputs), rows(inputs, inputs + units), b, p
