"""Products of 8-bit whole numbers."""

from pyflow.interop.onnx.exporter.ops.common import converts, np
from pyflow.ops.gemm.integer_ops import unpacked


@converts("_MatMulInteger")
def mat_mul_integer(node):
    """MatMulInteger, of weights that lie packed."""
    panels, zeros = node.need(2, "the weights"), node.need(4, "their zero points")
    k = node.shape(0)[-1]
    if k is None:
        raise node.unsupported("the number of columns of the first factor must be known")
    weights = np.ascontiguousarray(unpacked(panels, k, len(zeros)))
    if zeros.size and (zeros.min() < -128 or zeros.max() > 127):
        raise node.unsupported("zero points beyond int8")
    zeros = zeros.astype(np.int8)
    if zeros.size and (zeros == zeros[0]).all():
        zeros = zeros[0]
    return node.emit("MatMulInteger", node.x(0), weights, node.x(1), zeros)
