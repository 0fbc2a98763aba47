"""ONNX models as pyflow graphs; an ONNX backend.

    from pyflow.interop import onnx
    model = onnx.import_model("resnet50.onnx")          # into the default graph
    with tf.Session() as sess:
        y = sess.run(model.outputs["y"], {model.inputs["x"]: image})

    onnx.prepare("resnet50.onnx").run([image])          # or as a backend, in a session of its own

Opsets 1 and later of ai.onnx, ai.onnx.ml and many ops of com.microsoft; the `onnx` package is not
needed.  Models
from elsewhere are untrusted: what is malformed raises `OnnxError`, which names node, op and opset;
what pyflow does not have raises `UnsupportedError`.  Not here: ONNX's training ops; to train a
model, import it with `trainable=True`.  float8, int4 and the like
are cast, quantised and moved; sequences are lists whose length is known while the graph is built.

    onnx.export(y, path="mine.onnx", session=sess)          # and the other way

    session = onnx.InferenceSession("resnet50.onnx")        # or behind onnxruntime's interface

Any thread may import models, each into a graph of its own.
"""

from pyflow.interop.onnx.backend import (Backend, PreparedModel, prepare, run_model, run_node,
                                         supports_device)
from pyflow.interop.onnx.errors import NeedsConstant, OnnxError, UnsupportedError
from pyflow.interop.onnx.exporter import export, export_graph_def
from pyflow.interop.onnx.model import (ImportedModel, import_model, missing_ops,
                                        supported_ops)


def __getattr__(name):
    if name == "InferenceSession":      # onnxruntime's interface is read when it is asked for
        from pyflow.interop.onnxruntime import InferenceSession
        return InferenceSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Backend", "ImportedModel", "InferenceSession", "NeedsConstant", "OnnxError",
           "PreparedModel", "UnsupportedError", "export", "export_graph_def", "import_model", "missing_ops", "prepare", "run_model",
           "run_node", "supported_ops", "supports_device"]
