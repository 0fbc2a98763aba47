"""import_model: graphs, layouts, external data, and errors that name the node."""
import subprocess
import sys

import numpy as np
import pytest

import pyflow as tf
from pyflow.interop import onnx as pyflow_onnx
from pyflow.interop.onnx import messages

onnx = pytest.importorskip("onnx", reason="the test extra `onnx` is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

F = TensorProto.FLOAT


def model(nodes, inputs, outputs, arrays=(), opset=18, **more):
    """An onnx.ModelProto; inputs and outputs: (name, type, shape), arrays: {name: ndarray}."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in dict(arrays).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **more)


def normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def network():
    """Two blocks of convolution, batch norm, relu; pool; concat; mean; product."""
    arrays = {"w1": normal(8, 3, 3, 3), "w2": normal(8, 8, 3, 3), "b": normal(8),
              "fc": normal(16, 5)}
    arrays.update({n: abs(normal(8)) + 0.5 for n in ("scale", "shift", "mean", "var")})
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b"], ["c1"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"]),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], auto_pad="SAME_UPPER"),
        helper.make_node("Concat", ["p1", "c2"], ["j"], axis=1),
        helper.make_node("GlobalAveragePool", ["j"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("MatMul", ["f", "fc"], ["y"])]
    return model(nodes, [("x", F, [2, 3, 8, 8])], [("y", F, [2, 5])], arrays)


def test_a_model_joins_a_graph_under_a_name():
    with tf.Graph().as_default() as graph:
        made = pyflow_onnx.import_model(network(), name="net")
        assert list(made.inputs) == ["x"] and list(made.outputs) == ["y"]
        assert made.outputs["y"].op.name.startswith("net/") and made.graph is graph
        assert made.outputs["y"].shape.as_list() == [2, 5] and made.opsets == {"": 18}
        loss = tf.reduce_sum(made.outputs["y"])
        slope, = tf.gradients(loss, [made.inputs["x"]])
        with tf.Session() as session:
            y, d = session.run([made.outputs["y"], slope], {made.inputs["x"]: normal(2, 3, 8, 8)})
    assert y.shape == (2, 5) and d.shape == (2, 3, 8, 8) and np.abs(d).max() > 0


def test_onnx_reference_agrees_on_the_network():
    x = normal(2, 3, 8, 8)
    expected, = ReferenceEvaluator(network()).run(None, {"x": x})
    y, = pyflow_onnx.prepare(network()).run([x])
    np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-4)


def test_nothing_is_transposed_between_layers():
    with tf.Graph().as_default() as graph:
        pyflow_onnx.import_model(network())
        assert [op.type for op in graph.get_operations()].count("Transpose") == 1


def test_a_channel_shuffle_stays_channels_last():
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
             helper.make_node("Reshape", ["c", "s1"], ["a"]),
             helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3, 4]),
             helper.make_node("Reshape", ["t", "s2"], ["b"]),
             helper.make_node("Conv", ["b", "w2"], ["y"])]
    arrays = {"w": normal(6, 3, 3, 3), "w2": normal(4, 6, 1, 1),
              "s1": np.array([1, 2, 3, 5, 7]), "s2": np.array([1, 6, 5, 7])}
    made = model(nodes, [("x", F, [1, 3, 5, 7])], [("y", F, [1, 4, 5, 7])], arrays)
    x = normal(1, 3, 5, 7)
    expected, = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_allclose(pyflow_onnx.run_model(made, [x])[0], expected, rtol=1e-4, atol=1e-4)
    with tf.Graph().as_default() as graph:
        pyflow_onnx.import_model(made)
        perms = [tf.get_static_value(op.inputs[1]).tolist() for op in graph.get_operations()
                 if op.type == "Transpose"]
    assert perms == [[0, 2, 3, 1], [0, 1, 2, 4, 3], [0, 3, 1, 2]]


def test_batch_normalization_keeps_its_epsilon():
    """tf.nn.fused_batch_norm raises an epsilon to 1.001e-5, for cuDNN's sake; a model means what it
    says, also where a following scale is folded in."""
    x, variance, factor = normal(2, 3, 4, 4), np.full(3, 1e-6, np.float32), np.full(
        (3, 1, 1), 2.0, np.float32)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    for epsilon in (1e-8, 1e-5):
        made = model([helper.make_node("BatchNormalization", ["x", "one", "zero", "zero", "var"],
                                       ["n"], epsilon=epsilon),
                      helper.make_node("Mul", ["n", "factor"], ["y"])],
                     [("x", F, x.shape)], [("n", F, x.shape), ("y", F, x.shape)],
                     {"one": ones, "zero": zeros, "var": variance, "factor": factor})
        normalized, doubled = pyflow_onnx.prepare(made).run([x])
        expected = x / np.sqrt(1e-6 + epsilon)
        np.testing.assert_allclose(normalized, expected, rtol=1e-5)
        np.testing.assert_allclose(doubled, 2 * expected, rtol=1e-5)


def test_unknown_batch_and_size():
    net = network()
    for d in (0, 2, 3):
        net.graph.input[0].type.tensor_type.shape.dim[d].dim_param = f"d{d}"
    net.graph.node[4].attribute[0].CopyFrom(helper.make_attribute("pads", [1] * 4))
    prepared = pyflow_onnx.prepare(net)
    for shape in ((1, 3, 8, 8), (3, 3, 12, 10)):
        expected, = ReferenceEvaluator(net).run(None, {"x": normal(*shape)})
        y, = prepared.run({"x": normal(*shape)})
        np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-4)


def test_sizes_as_inputs_are_given_as_constants():
    nodes = [helper.make_node("CenterCropPad", ["x", "sizes"], ["y"])]
    made = model(nodes, [("x", F, [1, 1, 2, 2]), ("sizes", TensorProto.INT64, [4])],
                 [("y", F, None)])
    with tf.Graph().as_default(), pytest.raises(pyflow_onnx.NeedsConstant, match="sizes") as info:
        pyflow_onnx.import_model(made)
    assert info.value.inputs == ("sizes",) and info.value.op == "CenterCropPad"
    with tf.Graph().as_default():
        bound = pyflow_onnx.import_model(made, constants={"sizes": [1, 1, 4, 4]})
        assert list(bound.inputs) == ["x"] and bound.outputs["y"].shape.as_list() == [1, 1, 4, 4]
    prepared = pyflow_onnx.prepare(made)            # a backend does so by itself
    for n in (4, 6):
        y, = prepared.run([normal(1, 1, 2, 2), np.array([1, 1, n, n])])
        assert y.shape == (1, 1, n, n)


def test_functions_of_the_model():
    body = [helper.make_node("Mul", ["a", "a"], ["s"]), helper.make_node("Add", ["s", "b"], ["r"])]
    function = helper.make_function("my", "SquareAdd", ["a", "b"], ["r"], body,
                                    [helper.make_opsetid("", 18)])
    made = model([helper.make_node("SquareAdd", ["x", "x"], ["y"], domain="my")],
                 [("x", F, [3])], [("y", F, [3])], functions=[function])
    made.opset_import.append(helper.make_opsetid("my", 1))
    y, = pyflow_onnx.run_model(made, [np.float32([1, 2, 3])])
    assert y.tolist() == [2, 6, 12]


def test_loops_branches_and_what_lies_around_them():
    """y = x; repeat n times: y = y + k if i is even else y * k; k from outside the body."""
    even = helper.make_graph([helper.make_node("Add", ["v", "k"], ["a"])], "even", [],
                             [helper.make_tensor_value_info("a", F, [2])])
    odd = helper.make_graph([helper.make_node("Mul", ["v", "k"], ["m"])], "odd", [],
                            [helper.make_tensor_value_info("m", F, [2])])
    body = helper.make_graph(
        [helper.make_node("Mod", ["i", "two"], ["r"]),
         helper.make_node("Equal", ["r", "zero"], ["is"]),
         helper.make_node("If", ["is"], ["w"], then_branch=even, else_branch=odd),
         helper.make_node("Identity", ["go"], ["more"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", F, [2])],
        [helper.make_tensor_value_info("more", TensorProto.BOOL, []),
         helper.make_tensor_value_info("w", F, [2]), helper.make_tensor_value_info("w", F, [2])])
    made = model([helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=body)],
                 [("n", TensorProto.INT64, []), ("x", F, [2]), ("k", F, [])],
                 [("y", F, [2]), ("all", F, None)],
                 {"two": np.array(2), "zero": np.array(0)})
    y, every = pyflow_onnx.run_model(made, [np.array(3), np.float32([1, 2]), np.float32(3)])
    assert y.tolist() == [15, 18] and every.tolist() == [[4, 5], [12, 15], [15, 18]]
    y, every = pyflow_onnx.run_model(made, [np.array(0), np.float32([1, 2]), np.float32(3)])
    assert y.tolist() == [1, 2] and every.shape == (0, 2)


# errors
def fails(made, match, error=None):
    with tf.Graph().as_default(), pytest.raises(error or pyflow_onnx.OnnxError,
                                                match=match) as info:
        pyflow_onnx.import_model(made)
    return info.value


def test_errors_name_node_op_opset_expected_and_got():
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv7")
    error = fails(model([node], [("x", F, [1, 4, 5, 5])], [("y", F, None)],
                        {"w": normal(8, 3, 3, 3)}),
                  r"node 'conv7' \(op Conv, opset 18\).*\(1, 4, 5, 5\).*4 channels.*need 3")
    assert (error.node, error.op, error.opset) == ("conv7", "Conv", 18)
    fails(model([helper.make_node("Softmax", ["x"], ["y"], axis=5)], [("x", F, [2, 2])],
                [("y", F, None)]), r"axis 5 is out of range for rank 2: expected .*\[-2, 2\)")
    fails(model([helper.make_node("Relu", ["z"], ["y"])], [("x", F, [2])], [("y", F, None)]),
          "input 'z' is not defined")
    fails(model([helper.make_node("Nonsense", ["x"], ["y"])], [("x", F, [2])], [("y", F, None)]),
          "op Nonsense.*no converter", pyflow_onnx.UnsupportedError)
    fails(model([], [("x", F, [2])], [("y", F, None)]), "output 'y' is not defined")
    fails(model([helper.make_node("Relu", ["x"], ["y"])],
                [("x", TensorProto.FLOAT8E4M3FN, [2])], [("y", F, None)]),
          "op Relu.*float8e4m3fn is only cast", pyflow_onnx.UnsupportedError)


def test_missing_ops_are_found_before_an_import():
    branch = helper.make_graph([helper.make_node("Gone", ["x"], ["r"], name="deep")], "b", [],
                               [helper.make_tensor_value_info("r", F, [2])])
    made = model([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
                  helper.make_node("Relu", ["y"], ["z"])],
                 [("c", TensorProto.BOOL, []), ("x", F, [2])], [("z", F, [2])])
    missing, count = pyflow_onnx.missing_ops(made)
    assert missing == {"Gone of opset 18": ["deep", "deep"]} and count == 4
    assert pyflow_onnx.missing_ops(network())[0] == {}
    assert {"Conv", "LSTM", "Resize", "ai.onnx.ml.TreeEnsemble"} <= set(
        pyflow_onnx.supported_ops())


def test_a_function_that_calls_itself_ends():
    body = [helper.make_node("F", ["a"], ["r"], domain="my")]
    function = helper.make_function("my", "F", ["a"], ["r"], body, [helper.make_opsetid("my", 1)])
    made = model([helper.make_node("F", ["x"], ["y"], domain="my")], [("x", F, [3])],
                 [("y", F, [3])], functions=[function])
    made.opset_import.append(helper.make_opsetid("my", 1))
    fails(made, "calls itself")


@pytest.mark.parametrize("dims, count", [
    ([1 << 40], 1), ([-1], 1), ([3], 2), ([1 << 33, 1 << 33], 1)])
def test_a_tensor_that_lies_about_its_size(dims, count):
    tensor = TensorProto(name="w", data_type=F, dims=dims, raw_data=bytes(4 * count))
    made = model([helper.make_node("Identity", ["w"], ["y"])], [], [("y", F, None)])
    made.graph.initializer.append(tensor)
    fails(made, "tensor|initializer 'w'")


@pytest.mark.parametrize("op, shapes, attributes", [
    ("RoiAlign", [[1, 1, 8, 8], [2, 4], [2]], {"output_height": 1 << 30}),
    ("Unique", [[4, 1 << 30]], {"axis": 0}),
    ("MaxPool", [[1, 1, 1 << 20]], {"kernel_shape": [1 << 19]}),
    ("AveragePool", [[1, 1, 1 << 13, 1 << 13]], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 2]}),
    ("Reshape", [[4], [1 << 20]], {}), ("Expand", [[4], [1 << 20]], {}),
    ("Upsample", [[1, 1, 4, 4]], {"scales": [1.0, 1.0, 1e9, 1.0]}),
    ("CausalConvWithState", [[1, 4, 9], [4, 1, 1 << 30]], {}),
    ("DFT", [[1, 1 << 40, 1]], {})])
def test_huge_sizes_are_refused_while_importing(op, shapes, attributes):
    """A few bytes must not make the importer build big tables or a million nodes."""
    types = [F, TensorProto.INT64 if op in ("Reshape", "Expand") else F, TensorProto.INT64]
    opset = {"Upsample": 7, "CausalConvWithState": 27, "DFT": 17}.get(op, 18)
    names = [f"i{k}" for k in range(len(shapes))]
    fails(model([helper.make_node(op, names, ["y"], **attributes)],
                list(zip(names, types, shapes)), [("y", F, None)], opset=opset), f"op {op}, ")


# external data
def external(folder, location, **entries):
    tensor = TensorProto(name="w", data_type=F, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", F, [4])], [("y", F, [4])])
    made.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_lie_beside_the_model(tmp_path):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(bytes(8) + np.float32([1, 2, 3, 4]).tobytes())
    path = external(tmp_path, "weights/w.bin", offset=8, length=16)
    y, = pyflow_onnx.prepare(path).run([np.zeros(4, np.float32)])
    assert y.tolist() == [1, 2, 3, 4]
    fails(path.read_bytes(), "give the model's path")


@pytest.mark.parametrize("location, entries, match", [
    ("../w.bin", {}, "lead out"), ("/etc/passwd", {}, "lead out"), ("link", {}, "lead out"),
    ("", {}, "lead out"), ("missing.bin", {}, "no file"), ("w.bin", {"offset": 8}, "which has 16"),
    ("w.bin", {"offset": -4}, "say"), ("w.bin", {"length": 8}, "needs 16"),
    ("w.bin", {"offset": "x"}, "no number"), (".", {}, "no file")])
def test_external_data_stay_in_the_folder(tmp_path, location, entries, match):
    folder = tmp_path / "model"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "w.bin").write_bytes(bytes(16))
    (folder / "link").symlink_to(tmp_path / "w.bin")
    fails(external(folder, location, **entries), match)


# bytes
def test_bytes_that_are_no_model():
    cut = network().SerializeToString()[:-7]
    for data in (b"", b"hello, world", bytes(100), b"\xff" * 64, cut):
        fails(data, "ONNX model")


def test_graphs_in_graphs_in_graphs():
    deep = b""
    for k in range(600):                    # graph.node.attribute.g.node...
        key = (b"\x32", b"\x2a", b"\x0a")[k % 3]
        size, length = len(deep), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        deep = key + bytes([*length, size]) + deep
    size = len(deep)
    fails(b"\x3a" + bytes([size & 127 | 128, size >> 7]) + deep, "nested deeper than 100")


def test_mutated_models_raise_errors_of_ours():
    """Random changes of a model: an OnnxError or an import, nothing else."""
    data = model([helper.make_node("Reshape", ["x", "s"], ["r"]),
                  helper.make_node("Slice", ["r", "a", "b"], ["t"]),
                  helper.make_node("Softmax", ["t"], ["y"], axis=0)],
                 [("x", F, [4, 2])], [("y", F, None)],
                 {"s": np.array([2, 4]), "a": np.array([0]), "b": np.array([1])}
                 ).SerializeToString()
    rng = np.random.default_rng(7)
    raised = 0
    for _ in range(400):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[at] = rng.integers(0, 256)
        try:
            with tf.Graph().as_default():
                pyflow_onnx.import_model(bytes(changed))
        except pyflow_onnx.OnnxError:
            raised += 1
    assert raised > 100


def test_the_reader_agrees_with_protobuf():
    net = network()
    ours = messages.read(net.SerializeToString())
    assert [n.op_type for n in ours.graph.node] == [n.op_type for n in net.graph.node]
    assert [list(n.input) for n in ours.graph.node] == [list(n.input) for n in net.graph.node]
    assert ours.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 3
    numbers = np.array([0, 1, -1, 127, 128, 1 << 40, -(1 << 63), (1 << 63) - 1])
    tensor = TensorProto(data_type=TensorProto.INT64, dims=[8], int64_data=numbers)
    read = messages.read(tensor.SerializeToString(), "TensorProto")
    assert np.array_equal(read.int64_data, numbers)


def test_the_onnx_package_is_not_needed(tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString())
    x = normal(2, 3, 8, 8)
    np.save(tmp_path / "x.npy", x)
    program = ("import sys; sys.modules['onnx'] = sys.modules['google.protobuf'] = None\n"
               "import numpy as np\nfrom pyflow.interop import onnx\n"
               f"y, = onnx.prepare({str(path)!r}).run([np.load({str(tmp_path / 'x.npy')!r})])\n"
               "print(y.shape)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "(2, 5)", done.stderr


@pytest.mark.parametrize("op, inputs, attributes, expected", [
    ("Add", [np.float32([1, 2]), np.float32([3, 4])], {}, [4, 6]),
    ("ReduceSum", [np.float32([[1, 2], [3, 4]])], {"keepdims": 0}, 10),
    ("Cast", [np.float32([1.5, 2.5])], {"to": TensorProto.INT32}, [1, 2])])
def test_run_node(op, inputs, attributes, expected):
    names = [f"i{k}" for k in range(len(inputs))]
    y, = pyflow_onnx.run_node(helper.make_node(op, names, ["y"], **attributes), inputs)
    assert y.tolist() == expected


def test_strings_come_and_go_as_str():
    made = model([helper.make_node("StringConcat", ["a", "b"], ["y"])],
                 [("a", TensorProto.STRING, [2]), ("b", TensorProto.STRING, [2])],
                 [("y", TensorProto.STRING, [2])], opset=20)
    y, = pyflow_onnx.run_model(made, [np.array(["é", "b"], object), np.array(["1", "2"], object)])
    assert y.tolist() == ["é1", "b2"]


def test_an_image_without_pillow(monkeypatch):
    """What to install, and no Python traceback in the message."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    made = model([helper.make_node("ImageDecoder", ["x"], ["y"])], [("x", TensorProto.UINT8, [None])],
                 [("y", TensorProto.UINT8, [None, None, 3])], opset=20)
    with tf.Graph().as_default() as graph:
        [y] = pyflow_onnx.import_model(made).outputs.values()
        with tf.Session(graph=graph) as sess, pytest.raises(tf.errors.UnimplementedError) as caught:
            sess.run(y, {"x:0": np.zeros(4, np.uint8)})
    assert "pip install pillow" in caught.value.message and "Traceback" not in str(caught.value)
