"""Matrices: what ONNX has of them."""

from pyflow.interop.onnx.exporter.ops.common import converts


@converts("MatrixDeterminant")
def determinant(node):
    return node.emit("Det", node.x(0))
