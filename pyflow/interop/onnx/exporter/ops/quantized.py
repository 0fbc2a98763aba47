"""Fake quantisation: the rounded numbers, computed in floats."""

from pyflow.interop.onnx.exporter.ops.common import converts, np


def nudged(low, high, bits, narrow):
    """(low, high, step) moved so that 0 is one of the numbers.  Source: TF's FakeQuant."""
    first, last = np.float32(1 if narrow else 0), np.float32((1 << bits) - 1)
    low, high = np.float32(low), np.float32(high)
    with np.errstate(all="ignore"):
        step = (high - low) / (last - first)
        zero = first - low / step
    point = np.where(zero < first, first, np.where(zero > last, last, np.floor(
        zero + np.float32(0.5)))).astype(np.float32)
    return (first - point) * step, (last - point) * step, step


@converts("FakeQuantWithMinMaxArgs")
def fake_quant_args(node):
    return _made(node, node.attr("min", -6.0), node.attr("max", 6.0))


@converts("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_vars(node):
    return _made(node, node.need(1, "min"), node.need(2, "max"))


def _made(node, low, high):
    if not np.any(np.asarray(low)) and not np.any(np.asarray(high)):
        return node.emit("Sub", node.x(0), node.x(0))
    low, high, step = nudged(low, high, int(node.attr("num_bits", 8)),
                             bool(node.attr("narrow_range", False)))
    x = node.emit("Max", node.emit("Min", node.x(0), np.float32(high)), np.float32(low))
    steps = node.emit("Mul", node.emit("Sub", x, np.float32(low)), np.float32(1) / np.float32(step))
    whole = node.emit("Floor", node.emit("Add", steps, np.float32(0.5)))
    return node.emit("Add", node.emit("Mul", whole, np.float32(step)), np.float32(low))
