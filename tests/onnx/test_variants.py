"""One set of weights for all shapes; graphs for sizes and values only where an op needs them."""
import gc
import weakref

import numpy as np
import pytest

from pyflow.interop import onnx as pyflow_onnx
from pyflow.interop.onnx import messages
from pyflow.interop.onnx.variants import Variants
from pyflow.tools import command

C = messages.CLASSES
FLOAT, INT64 = 1, 7


def info(name, kind, dims):
    """A ValueInfoProto; dims: sizes or names; None: not even the rank."""
    made = [C["TensorShapeProto.Dimension"](**{"dim_value" if isinstance(d, int) else "dim_param": d})
            for d in dims or ()]
    shape = {} if dims is None else {"shape": C["TensorShapeProto"](dim=made)}
    return C["ValueInfoProto"](name=name, type=C["TypeProto"](tensor_type=C["TypeProto.Tensor"](
        elem_type=kind, **shape)))


def ints(name, *values):
    return C["AttributeProto"](name=name, type=7, ints=list(values))


def node(op, inputs, outputs, *attributes):
    return C["NodeProto"](op_type=op, name=f"the_{op}", input=inputs.split(), output=outputs.split(),
                          attribute=list(attributes))


def weight(name, array):
    array = np.ascontiguousarray(array)
    return C["TensorProto"](name=name, dims=list(array.shape), data_type=FLOAT if array.dtype ==
                            np.float32 else INT64, raw_data=memoryview(array.tobytes()))


def model(nodes, inputs, outputs, weights=()):
    return C["ModelProto"](ir_version=8, opset_import=[C["OperatorSetIdProto"](version=18)],
                           graph=C["GraphProto"](node=nodes, input=inputs, output=outputs,
                                                 initializer=list(weights)))


W = np.arange(2 * 3 * 3 * 3, dtype=np.float32).reshape(2, 3, 3, 3)


def needs_shapes():
    """A convolution, and DFT-like need: the shape of x must be known (SAME pads of strides 2)."""
    pads = C["AttributeProto"](name="auto_pad", type=3, s=b"SAME_UPPER")
    return model([node("Conv", "x w", "y", pads, ints("strides", 2, 2))],
                 [info("x", FLOAT, ["n", 3, "h", "w"])], [info("y", FLOAT, None)], [weight("w", W)])


def needs_values():
    """OneHot-like: `k` decides the rank of the result, s only its sizes."""
    return model([node("Unsqueeze", "x k", "u"), node("ReduceSum", "u", "y")],
                 [info("x", FLOAT, ["n"]), info("k", INT64, ["m"])], [info("y", FLOAT, None)])


def reference(x):
    """TF's SAME convolution of strides 2 by NumPy."""
    n, _, h, w = x.shape
    out = [-(-h // 2), -(-w // 2)]
    total = [max((o - 1) * 2 + 3 - s, 0) for o, s in zip(out, (h, w))]
    pads = [(0, 0), (0, 0), *((t // 2, t - t // 2) for t in total)]
    x = np.pad(x.astype(np.float64), pads)
    y = np.zeros([n, 2, *out])
    for i in range(out[0]):
        for j in range(out[1]):
            part = x[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 3]
            y[:, :, i, j] = np.tensordot(part, W.astype(np.float64), ([1, 2, 3], [1, 2, 3]))
    return y


def images(*shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal((n, 3, h, w)).astype(np.float32) for n, h, w in shapes]


def test_sizes_may_change_every_call_and_are_right():
    kept = pyflow_onnx.prepare(needs_shapes())
    for x in images((1, 8, 8), (2, 9, 7), (1, 3, 16), (5, 8, 8), (1, 1, 1), (1, 8, 8)):
        y, = kept.run([x])
        np.testing.assert_allclose(y, reference(x), rtol=1e-4, atol=1e-3)


def kept_of(made, **more):
    return Variants(made, **more)


def forced(made, **more):
    """Variants of a model as if an op asked for the shape of every input."""
    kept = Variants(made, **more)
    if kept.general is not None:
        kept.general, kept._by_shape = None, [info.name for info in kept.inputs]
        kept._kept.clear()
    return kept


def test_graphs_share_weights_and_are_dropped_beyond_the_bound():
    kept = forced(needs_shapes(), bound=3)
    first = None
    for k, x in enumerate(images(*[(1, 4 + k, 4) for k in range(6)])):
        variant = kept.find({"x": x})
        variant.outputs({"x": x})
        consts = {id(op.attrs["value"]) for op in variant.model.graph.get_operations()
                  if op.type == "Const" and op.attrs["value"].size == W.size}
        assert len(consts) == 1 and len(kept) == min(k + 1, 3)
        first = first or (consts, weakref.ref(variant))
        assert consts == first[0]
    del variant
    gc.collect()
    assert first[1]() is None
    assert kept.find({"x": x}) is kept.find({"x": x + 1})


def test_values_are_bound_only_where_shapes_do_not_tell_them():
    kept = pyflow_onnx.prepare(needs_values())
    for k, x in (([0], 3), ([0, 1], 3), ([0], 4), ([1], 4)):
        y, = kept.run({"x": np.arange(x, dtype=np.float32), "k": np.array(k)})
        assert y.shape == (1,) * (len(k) + 1) and y.ravel()[0] == sum(range(x))
    assert kept._variants._by_value == ["k"] and len(kept._variants) == 3


def test_other_values_of_one_shape_make_no_graph():
    kept = forced(needs_shapes())
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal((1, 3, 6, 6)).astype(np.float32)
        kept.find({"x": x}).outputs({"x": x})
    assert len(kept) == 1


def test_a_step_outlives_its_graph():
    kept = forced(needs_shapes(), bound=1)
    a, b = images((1, 4, 4), (1, 6, 6))
    step = kept.find({"x": a}).step(["y"])
    kept.find({"x": b})
    gc.collect()
    np.testing.assert_allclose(step(a)[0], reference(a), rtol=1e-4, atol=1e-3)


def test_a_closed_model_says_so():
    kept = pyflow_onnx.prepare(needs_shapes())
    kept.run(images((1, 4, 4)))
    kept.close()
    with pytest.raises(pyflow_onnx.OnnxError, match="closed"):
        kept.run(images((1, 4, 4)))


def test_shapes_for_inputs_that_there_are_not_are_refused():
    with pytest.raises(pyflow_onnx.OnnxError, match="has no input 'z'; it has \\['x'\\]"):
        pyflow_onnx.import_model(needs_shapes(), shapes={"z": [1]})


def encoded(message):
    """A message's bytes: what `messages.read` reads, for files."""
    def varint(value):
        value, made = value & (1 << 64) - 1, b""
        while value > 127:
            made, value = made + bytes([value & 127 | 128]), value >> 7
        return made + bytes([value])
    parts = []
    for number, field in type(message).fields.items():
        if not message.has(field.name):
            continue
        values = getattr(message, field.name)
        for value in values if field.repeated else [values]:
            if field.kind == "int64":
                parts.append(varint(number << 3) + varint(value))
                continue
            data = (encoded(value) if isinstance(value, messages.Message) else
                    value.encode() if isinstance(value, str) else bytes(value))
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "m.onnx").write_bytes(encoded(needs_values()))
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    np.save(tmp_path / "k.npy", np.array([0, 1]))
    return tmp_path


def test_the_command_takes_sizes_and_values_from_what_is_fed(path, capsys):
    status = command.main(["run", f"{path}/m.onnx", "--input", f"{path}/x.npy", "--input",
                           f"{path}/k.npy", "--save", f"{path}/y.npz"])
    assert status == 0, capsys.readouterr().err
    assert [v.tolist() for v in np.load(f"{path}/y.npz").values()] == [[[[3.0]]]]
    assert command.main(["check", f"{path}/m.onnx"]) == 0
    assert "nothing is missing" in capsys.readouterr().out


@pytest.mark.parametrize("words, said", [
    (["--shape", "x=3"], "the inputs k"), (["--shape", "z=3"], "no input 'z'"),
    (["--shape", "x"], "expected NAME=1,3,H,W"), (["--shape", "x=1,,2"], "expected NAME=1,3,H,W")])
def test_what_is_wrong_with_shapes_is_said(path, capsys, words, said):
    assert command.main(["run", f"{path}/m.onnx", *words]) == 1
    assert said in capsys.readouterr().err


def test_shapes_of_a_graph_def(tmp_path, capsys):
    import pyflow as tf
    with tf.Graph().as_default() as graph:
        tf.identity(tf.placeholder(tf.float32, [None, 3], name="x"), name="y")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    np.save(tmp_path / "x.npy", np.zeros([2, 3], np.float32))
    run = ["run", f"{tmp_path}/g.pb", "--input", f"{tmp_path}/x.npy"]
    assert command.main([*run, "--shape", "x=2,3"]) == 0 and "y:0" in capsys.readouterr().out
    assert command.main([*run, "--shape", "x=4,3"]) == 1
    assert "Cannot feed value of shape" in capsys.readouterr().err
    assert command.main([*run, "--shape", "q=4,3"]) == 1
    assert "no such input; it has x" in capsys.readouterr().err
