"""The nine networks in the `onnx` package, with random weights, so that outputs tell something.

The package's own weights are constants: every output is 1/1000.  Here convolutions and products
get normal weights of variance 2/inputs, batch norms numbers near those of a trained network, all
from one seed.  The last weights are scaled so that the logits spread by about 2.

    model = random_model("resnet50")        # outputs: the package's, and the logits
    x = image(model)
"""
import pathlib
import zlib

import numpy as np

NAMES = ("resnet50", "inception_v1", "inception_v2", "densenet121", "vgg19", "bvlc_alexnet",
         "squeezenet", "shufflenet", "zfnet512")
# What the last layer's weights are multiplied with, found once.
LAST = {"resnet50": 0.0012, "inception_v1": 10.0, "inception_v2": 0.4, "densenet121": 0.8,
        "vgg19": 0.4, "bvlc_alexnet": 0.33, "squeezenet": 2.3, "shufflenet": 0.0002,
        "zfnet512": 1.2}
_FOLDER = "backend/test/data/light"


def path_of(name):
    """Where the package has the model."""
    import onnx
    return str(pathlib.Path(onnx.__file__).parent / _FOLDER / f"light_{name}.onnx")


def random_model(name, seed=0):
    """The onnx.ModelProto with weights drawn from `seed`; its last output is the logits."""
    import onnx
    model = onnx.load(path_of(name))
    graph = model.graph
    shapes = _shapes(graph)
    kept = [n for n in graph.node if n.op_type != "ConstantOfShape"]
    last = [n for n in kept if n.op_type in ("Conv", "Gemm")][-1]
    arrays = {}
    for node in kept:
        roles = {"Conv": "wb", "Gemm": "wb", "BatchNormalization": "sbmv", "Mul": "s",
                 "Add": "b"}.get(node.op_type, "")
        for role, at in zip(roles, node.input[1:]):
            at = _source(kept, at)
            if at in shapes and at not in arrays:
                arrays[at] = _drawn(role, shapes[at], _rng(seed, at))
                if node is last:
                    arrays[at] *= np.float32(LAST[name])
    _replace(graph, kept, arrays)
    _add_logits(graph)
    return model


def _shapes(graph):
    """Shapes of all constants: initializers, and results of ConstantOfShape."""
    from onnx import numpy_helper
    held = {t.name: t for t in graph.initializer}
    found = {name: tuple(t.dims) for name, t in held.items()}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            found[node.output[0]] = tuple(numpy_helper.to_array(held[node.input[0]]))
    return found


def _source(nodes, name):
    """The constant behind an Unsqueeze or Reshape."""
    for node in nodes:
        if node.op_type in ("Unsqueeze", "Reshape") and node.output[0] == name:
            return node.input[0]
    return name


def _rng(seed, name):
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _drawn(role, shape, rng):
    if role == "w":
        drawn = rng.standard_normal(shape, np.float32)
        drawn *= np.float32(np.sqrt(2 / int(np.prod(shape[1:]))))       # in place: up to 400 MB
        return drawn
    if role in "sv":
        return rng.uniform(0.8, 1.2, shape).astype(np.float32)
    return rng.standard_normal(shape, np.float32) * np.float32(0.1)


def _replace(graph, nodes, arrays):
    from onnx import numpy_helper
    held = [t for t in graph.initializer if t.name not in arrays]
    used = {name for node in nodes for name in node.input}
    for what, items in (("node", nodes), ("initializer", [t for t in held if t.name in used]),
                        ("input", [i for i in graph.input if i.name not in arrays
                                   and i.name in used])):
        items = [type(i).FromString(i.SerializeToString()) for i in items]
        graph.ClearField(what)
        getattr(graph, what).extend(items)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())


def _add_logits(graph):
    """What goes into the softmax as one more output."""
    import onnx
    for node in graph.node:
        if node.op_type == "Softmax":
            graph.output.append(onnx.helper.make_tensor_value_info(
                node.input[0], onnx.TensorProto.FLOAT, None))


def input_name(model):
    """The name of the image among the inputs."""
    held = {t.name for t in model.graph.initializer}
    return next(i.name for i in model.graph.input if i.name not in held)


def image(model, seed=1):
    """A random image [1, 3, 224, 224]."""
    return np.random.default_rng(seed).standard_normal((1, 3, 224, 224), np.float32)
