"""A small network, and the same with one fault: what ports of TF 1.x programs get wrong.

FAULTS: {name: (function of a GraphDef that puts the fault in, node, op type)}; ONNX_FAULTS: the
same of an onnx.ModelProto that was made of it.  The names are what `compare` has to say.
"""
import numpy as np

import pyflow as tf

SHAPE = (8, 8, 8, 3)


def numbers(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def network():
    """Its GraphDef: x -> out."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, (None, *SHAPE[1:]), name="x")
        w1 = tf.constant(numbers(1, 3, 3, 3, 8), name="w1")
        y = tf.nn.conv2d(x, w1, [1, 1, 1, 1], "SAME", name="conv1")
        y = tf.nn.bias_add(y, tf.constant(numbers(2, 8), name="b1"), name="bias1")
        y = tf.nn.fused_batch_norm(
            y, tf.constant(1 + numbers(3, 8, scale=0.1), name="gamma"),
            tf.constant(numbers(4, 8), name="beta"), tf.constant(numbers(5, 8), name="mean"),
            tf.constant(np.abs(numbers(6, 8)) / 50, name="variance"), epsilon=1e-3,
            is_training=False, name="norm")[0]
        y = tf.nn.relu(y, name="act1")
        y = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID", name="pool1")
        w2 = tf.constant(numbers(7, 2, 3, 8, 8, scale=0.1), name="w2")
        y = tf.nn.conv2d(y, w2, [1, 1, 2, 1], "SAME", name="conv2")
        y = tf.tanh(y, name="act2")
        y = tf.strided_slice(y, tf.constant([0, 1, 0, 0], name="begin"), [8, 3, 2, 8], name="crop")
        y = tf.image.resize_bilinear(y, [7, 5], name="up")
        y = tf.transpose(y, tf.constant([0, 2, 1, 3], name="perm"), name="turned")
        a = tf.reduce_mean(y, [1, 2], name="pooled")
        b = tf.reduce_max(y, [1, 2], name="largest")
        y = tf.subtract(a, b, name="diff")
        y = tf.matmul(y, tf.constant(numbers(8, 8, 8), name="w3"), name="fc")
        y = tf.multiply(y, tf.reshape(numbers(9, 8), tf.constant([1, 8], name="to"), name="by"),
                        name="scaled")
        y = tf.nn.elu(y, name="act3")
        y = tf.nn.softmax(y, name="prob")
        y = tf.reduce_sum(tf.square(y, name="squares"), tf.constant(1, name="axis"), name="sum")
        tf.sqrt(y, name="out")
    return graph.as_graph_def()


def feed():
    return numbers(0, *SHAPE)


def node(graph, name):
    return next(n for n in graph.node if n.name == name)


def constant(name, change):
    def put(graph):
        value = node(graph, name).attr["value"].tensor
        old = tf.make_ndarray(value).copy()
        value.CopyFrom(tf.make_tensor_proto(np.asarray(change(old.copy()), old.dtype)))
    return put


def attribute(name, key, change):
    def put(graph):
        change(node(graph, name).attr[key])
    return put


def another_op(name, op, drop=()):
    def put(graph):
        node(graph, name).op = op
        for key in drop:
            if key in node(graph, name).attr:        # it is left out where it is at its default
                del node(graph, name).attr[key]
    return put


def swapped(graph):
    inputs = node(graph, "diff").input
    inputs[0], inputs[1] = inputs[1], inputs[0]


def without(name):
    """Who read the node reads its first input."""
    def put(graph):
        gone = node(graph, name)
        for n in graph.node:
            for i, text in enumerate(n.input):
                if text.partition(":")[0] == name:
                    n.input[i] = gone.input[0]
        graph.node.remove(gone)
    return put


def rounded(graph):
    """The product's input in bfloat16."""
    fc = node(graph, "fc")
    down = graph.node.add(name="fc/down", op="Cast", input=[fc.input[0]])
    up = graph.node.add(name="fc/up", op="Cast", input=["fc/down"])
    for n, source, to in ((down, tf.float32, tf.bfloat16), (up, tf.bfloat16, tf.float32)):
        n.attr["SrcT"].type, n.attr["DstT"].type = source.as_datatype_enum, to.as_datatype_enum
    fc.input[0] = "fc/up"


def doubled(graph):
    """The result of act2 is read twice where it is read once: an op too many."""
    graph.node.add(name="again", op="Tanh", input=["act2"]).attr["T"].type = 1
    node(graph, "crop").input[0] = "again"


def one(array, by):
    array[tuple(n // 2 for n in array.shape)] += by
    return array


def strides(value):
    value.list.i[:] = [1, 2, 1, 1]


FAULTS = {
    "one weight": (constant("w1", lambda w: one(w, 1e-4)), "w1", "Const"),
    "transposed weight": (constant("w3", lambda w: w.T.copy()), "w3", "Const"),
    "swapped inputs": (swapped, "diff", "Sub"),
    "epsilon": (attribute("norm", "epsilon", lambda v: setattr(v, "f", 1.1e-3)), "norm",
                "FusedBatchNormV3"),
    "padding": (attribute("conv2", "padding", lambda v: setattr(v, "s", b"VALID")), "conv2",
                "Conv2D"),
    "axis": (constant("axis", lambda a: a * 0), "axis", "Const"),
    "relu6": (another_op("act1", "Relu6"), "act1", "Relu"),
    "bfloat16": (rounded, "fc", "MatMul"),
    "off by one": (constant("begin", lambda b: b - [0, 1, 0, 0]), "begin", "Const"),
    "flipped stride": (attribute("conv2", "strides", strides), "conv2", "Conv2D"),
    "no bias": (without("bias1"), "bias1", "BiasAdd"),
    "kind of pool": (another_op("pool1", "AvgPool", ("explicit_paddings",)), "pool1", "MaxPool"),
    "broadcast": (constant("to", lambda s: s[::-1].copy()), "to", "Const"),
    "NaN": (constant("beta", lambda b: one(b, np.nan)), "beta", "Const"),
    "resize": (attribute("up", "align_corners", lambda v: setattr(v, "b", True)), "up",
               "ResizeBilinear"),
    "half pixels": (attribute("up", "half_pixel_centers", lambda v: setattr(v, "b", True)), "up",
                    "ResizeBilinear"),
    "order of axes": (constant("perm", lambda p: p * 0 + [0, 1, 2, 3]), "perm", "Const"),
    "another activation": (another_op("act3", "Selu"), "act3", "Elu"),
    "no activation": (without("act3"), "act3", "Elu"),
    "sum for mean": (another_op("pooled", "Sum"), "pooled", "Mean"),
    "an op too many": (doubled, "crop", "StridedSlice"),
    "log softmax": (another_op("prob", "LogSoftmax"), "prob", "Softmax"),
}


# ---------------------------------------------------------------- in ONNX models
def onnx_node(model, op, number=0):
    return [n for n in model.graph.node if n.op_type == op][number]


def onnx_weight(model, name, change):
    from onnx import numpy_helper
    held = next(t for t in model.graph.initializer if t.name == name)
    held.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(held).copy()), name))


def pads(model):
    node = onnx_node(model, "Conv", 1)
    del node.attribute[:]
    from onnx import helper
    node.attribute.extend([helper.make_attribute("strides", [1, 2]),
                           helper.make_attribute("pads", [1, 1, 0, 1])])


def no_bias(model):
    del onnx_node(model, "Conv").input[2]


def epsilon(model):
    for a in onnx_node(model, "BatchNormalization").attribute:
        if a.name == "epsilon":
            a.f = 1e-5


def average(model):
    pool = onnx_node(model, "MaxPool")
    pool.op_type = "AveragePool"


def mode(model):
    for a in onnx_node(model, "Resize").attribute:
        if a.name == "mode":
            a.s = b"nearest"


ONNX_FAULTS = {
    "one weight": (lambda m: onnx_weight(m, "w1", lambda w: one(w, 1e-4)), "w1", "Const"),
    "transposed weight": (lambda m: onnx_weight(m, "w3", lambda w: w.T.copy()), "w3", "Const"),
    "padding": (pads, "conv2", "Conv2D"),
    "no bias": (no_bias, "bias1", "BiasAdd"),
    "epsilon": (epsilon, "norm", "FusedBatchNormV3"),
    "kind of pool": (average, "pool1", "MaxPool"),
    "resize": (mode, "up", "ResizeBilinear"),
    "another activation": (lambda m: setattr(onnx_node(m, "Elu"), "op_type", "Selu"), "act3",
                           "Elu"),
}
