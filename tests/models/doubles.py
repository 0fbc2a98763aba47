"""Writes a model anew with float64 where it has float32 or float16: the reference for noise.

    ORT_PYTHON doubles.py model.onnx model64.onnx

What an op takes or gives in float32 alone (quantisation, trees, scales of Resize) is cast around
it.  Needs the `onnx` package.
"""
import sys

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
ALL = range(100)
# op: (inputs, outputs) that are float32
SINGLE = {
    "DynamicQuantizeLinear": ([0], [1]), "QuantizeLinear": ([0, 1], []),
    "DequantizeLinear": ([1], [0]), "DynamicQuantizeLSTM": (ALL, ALL), "Resize": ([2, 1], []),
    "Upsample": ([1], []), "TreeEnsembleClassifier": ([0], ALL),
    "TreeEnsembleRegressor": ([0], ALL), "Scaler": (ALL, [0]), "ZipMap": ([0], []),
    "NonMaxSuppression": ([0, 1, 3, 4], []), "QLinearConv": ([1, 4, 6], []),
    "QLinearMatMul": ([1, 4, 6], []), "MatMulIntegerToFloat": (ALL, [0]),
}
TYPED = {"Cast": "to", "ConstantOfShape": None, "EyeLike": "dtype", "RandomNormalLike": "dtype",
         "RandomUniformLike": "dtype", "SequenceEmpty": "dtype"}


def tensor64(tensor):
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(
            numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def type64(kind):
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type in FLOATS:
        kind.tensor_type.elem_type = TensorProto.DOUBLE


def attribute64(node, attribute):
    if attribute.type == AttributeProto.TENSOR:
        tensor64(attribute.t)
    elif attribute.type == AttributeProto.GRAPH:
        graph64(attribute.g)
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        attribute.CopyFrom(helper.make_attribute(
            "value", numpy_helper.from_array(np.array(values, np.float64))))
    elif attribute.name == TYPED.get(node.op_type) and attribute.i in FLOATS:
        attribute.i = TensorProto.DOUBLE


def graph64(graph):
    for tensor in graph.initializer:
        tensor64(tensor)
    for info in (*graph.input, *graph.output):
        type64(info.type)
    del graph.value_info[:]
    nodes = []
    for node in graph.node:
        for attribute in node.attribute:
            attribute64(node, attribute)
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(
                np.zeros(1))))
        before, after = casts(node)
        nodes += [*before, node, *after]
    del graph.node[:]
    graph.node.extend(nodes)


# inputs and outputs that are no floats, of those of which ALL are
WHOLE_INPUTS = {"DynamicQuantizeLSTM": (1, 2, 4, 9, 11), "MatMulIntegerToFloat": (0, 1, 4, 5)}
WHOLE_OUTPUTS = {"TreeEnsembleClassifier": (0,)}


def casts(node):
    """Cast nodes before and after a node for what is float32 of it."""
    inputs, outputs = SINGLE.get(node.op_type, ((), ()))
    before, after = [], []
    for i, name in enumerate(node.input):
        if i in inputs and name and i not in WHOLE_INPUTS.get(node.op_type, ()):
            node.input[i] = f"{name}/f32/{node.output[0]}/{i}"
            before.append(helper.make_node("Cast", [name], [node.input[i]], to=TensorProto.FLOAT))
    for i, name in enumerate(node.output):
        if i in outputs and name and i not in WHOLE_OUTPUTS.get(node.op_type, ()):
            node.output[i] = f"{name}/f32"
            after.append(helper.make_node("Cast", [node.output[i]], [name],
                                          to=TensorProto.DOUBLE))
    return before, after


def main(source, target):
    model = onnx.load(source)
    graph64(model.graph)
    for function in model.functions:
        for node in function.node:
            for attribute in node.attribute:
                attribute64(node, attribute)
    with open(target, "wb") as file:
        file.write(model.SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:3])
