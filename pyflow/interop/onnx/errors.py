"""What can be wrong with an ONNX model, as exceptions that name the node.

    except onnx.OnnxError as e: e.node, e.op, e.opset
"""


class OnnxError(ValueError):
    """A model that is malformed, or a node whose inputs do not fit its op.

    node, op: names of the node and its op (None for the model as a whole); opset: the version of
    its domain."""

    def __init__(self, message, node=None, op=None, opset=None):
        where = ""
        if op is not None:
            where = f"node {node!r} (op {op}, opset {opset}): "
        super().__init__(where + message)
        self.node, self.op, self.opset = node, op, opset


class UnsupportedError(OnnxError):
    """A valid model that needs an op, a type or a form pyflow does not have."""


class NeedsConstant(UnsupportedError):
    """A node needs to know a size or a value while the graph is built, and it comes from inputs.

    inputs: the names of the model's inputs that it depends on: give their shapes to
    `import_model(shapes=)`, or, where these do not tell it, their values to `constants=`."""

    def __init__(self, message, inputs=(), **where):
        super().__init__(message, **where)
        self.inputs = tuple(inputs)
