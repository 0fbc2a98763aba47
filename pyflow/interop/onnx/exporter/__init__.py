"""Graphs written as ONNX models: `onnx.export`, the other direction of the importer.

    walk.py       what the outputs need; loops and branches told from version 1's control flow
    exporter.py   operations in order, each by its converter (registry.py, ops/)
    body.py       names, initializers, nodes; values and the order their axes lie in
    control.py    Loop and If; lists.py: TensorArrays and TensorLists
    tidy.py, writing.py   names of outputs, unused nodes; messages as bytes
    model.py      the functions that programs call

No `onnx` package is needed.  One model is written by one thread.
"""

from pyflow.interop.onnx.exporter.model import OPSETS, export, export_graph_def

__all__ = ["OPSETS", "export", "export_graph_def"]
