"""Models of one com.microsoft op each, with what they are fed (made with the onnx package).

    for case in cases(): case.name, case.model(), case.feeds, case.reference

record_microsoft.py asks onnxruntime; what its CPU provider does not run is computed by `reference`.
"""

import zlib

import numpy as np
from onnx import helper

MS = "com.microsoft"
F, H, D = np.float32, np.float16, np.float64
U8, I8, I32, I64 = np.uint8, np.int8, np.int32, np.int64

_made = []


class Case:
    """One op, its inputs (None where one is left out), attributes and the outputs asked for."""

    def __init__(self, op, inputs, attributes, outs, held, domain, opset, reference, note,
                 wrong=None):
        self.op, self.inputs, self.attributes, self.outs = op, inputs, attributes, outs
        self.held = held   # inputs that are initializers
        self.domain, self.opset, self.reference = domain, opset, reference
        self.name, self.wrong = f"{op}: {note}", wrong

    @property
    def feeds(self):
        """{name: array} of what is fed."""
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None
                and i not in self.held}

    def model(self):
        """The bytes of the model."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        while names and not names[-1]:
            names.pop()
        outputs = [f"y{i}" if t is not None else "" for i, t in enumerate(self.outs)]
        node = helper.make_node(self.op, names, outputs, "n", domain=self.domain,
                                **self.attributes)

        def kind(dtype):
            return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        held = [helper.make_tensor(f"x{i}", kind(x.dtype), x.shape, x.tobytes(), raw=True)
                for i, x in enumerate(self.inputs) if x is not None and i in self.held]
        graph = helper.make_graph(
            [node], "g",
            [helper.make_tensor_value_info(n, kind(x.dtype), x.shape)
             for n, x in self.feeds.items()],
            [helper.make_tensor_value_info(n, kind(t), None)
             for n, t in zip(outputs, self.outs) if n], held)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def case(op, note, *inputs, outs=None, held=(), domain=MS, model_opset=17, reference=None,
         wrong=None, **attributes):
    """Adds a case.  wrong: why onnxruntime's answer is not what is asked for."""
    inputs = [None if x is None else np.asarray(x) for x in inputs]
    _made.append(Case(op, inputs, attributes, outs or [inputs[0].dtype], held, domain, model_opset,
                      reference, note, wrong))


class Draw:
    """Numbers of a seed that the name gives."""

    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def f(self, *shape, dtype=F, scale=1.0):
        """Normal numbers."""
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def q(self, *shape, dtype=U8):
        """All numbers of an integer type."""
        limits = np.iinfo(dtype)
        return self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def i(self, high, *shape, dtype=I32):
        """Whole numbers below `high`."""
        return self.rng.integers(0, high, shape).astype(dtype)


def cases():
    """All cases."""
    if not _made:
        for part in (activations, normalisations, products, dynamic, qlinear, qgemm, packed,
                     attentions, grouped, rotary, arrays, signals):
            part(Draw(part.__name__))
    return _made


def _erf(x):
    from math import erf
    return np.vectorize(erf)(x)


def _gelu(x):
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


# element by element
def activations(draw):
    for shape in ((7,), (2, 3, 5)):
        for op in ("Gelu", "FastGelu", "QuickGelu"):
            case(op, f"float {shape}", draw.f(*shape, scale=3))
        case("FastGelu", f"float16 {shape}", draw.f(*shape, dtype=H),
             reference=lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * x + 0.035677408 * x ** 3)))
    case("QuickGelu", "alpha", draw.f(2, 9), alpha=-0.5)
    case("QuickGelu", "alpha 0", draw.f(2, 9), alpha=0.0)
    case("FastGelu", "bias", draw.f(2, 3, 5), draw.f(5))
    case("FastGelu", "bias 2-D, held", draw.f(4, 6), draw.f(6), held=(1,))
    case("BiasGelu", "3-D", draw.f(2, 3, 5), draw.f(5))
    case("BiasGelu", "2-D, held", draw.f(4, 6), draw.f(6), held=(1,))
    case("BiasGelu", "1-D", draw.f(6), draw.f(6))
    for dtype in (F, H):
        case("BiasSplitGelu", np.dtype(dtype).name, draw.f(2, 3, 8, dtype=dtype),
             draw.f(8, dtype=dtype),
             reference=lambda x, b: (x + b)[..., :4] * _gelu((x + b)[..., 4:]))
        case("BiasAdd", np.dtype(dtype).name, draw.f(2, 3, 8, dtype=dtype), draw.f(8, dtype=dtype),
             draw.f(2, 3, 8, dtype=dtype), reference=lambda x, b, s: x + b + s)
    x, b, r = draw.f(2, 3, 4), draw.f(4), draw.f(2, 3, 4)
    case("BiasDropout", "no ratio", x, b, reference=lambda x, b: x + b)
    case("BiasDropout", "residual, mask", x, b, r, F(0.3), outs=[F, bool],
         reference=lambda x, b, r, p: (x + b + r, np.ones(x.shape, bool)))
    case("BiasDropout", "not training", x, b, r, F(0.3), np.array(False), held=(4,),
         reference=lambda x, b, r, p, t: x + b + r)

    def softmax(x, axis):
        rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
        e = np.exp(rows - rows.max(1, keepdims=True))
        return (e / e.sum(1, keepdims=True)).reshape(x.shape)
    case("BiasSoftmax", "inner", draw.f(2, 3, 4, 5), draw.f(2, 1, 1, 5), axis=3,
         is_inner_broadcast=1, reference=lambda x, b: softmax(x + b, 3))
    case("BiasSoftmax", "outer", draw.f(2, 3, 4, 5), draw.f(1, 1, 4, 5), axis=2,
         is_inner_broadcast=0, reference=lambda x, b: softmax(x + b, 2))


def normalisations(draw):
    x, skip, gamma, beta, bias = (draw.f(*s) for s in ((2, 3, 8), (2, 3, 8), (8,), (8,), (8,)))
    op = "SkipLayerNormalization"
    case(op, "gamma", x, skip, gamma)
    case(op, "beta", x, skip, gamma, beta)
    case(op, "bias, sum", x, skip, gamma, beta, bias, outs=[F, None, None, F])
    case(op, "no beta, sum", x, skip, gamma, None, bias, outs=[F, None, None, F], epsilon=1e-3)
    case(op, "skip of one batch", x, skip[:1], gamma, beta)
    case(op, "skip without batch", x, skip[0], gamma, beta, bias, held=(1, 2, 3, 4))
    case(op, "2-D", x[0], skip[0], gamma, beta)
    case(op, "epsilon", x * F(1e-3), skip * F(1e-3), gamma, beta, epsilon=0.1)
    case(op, "float16", *(t.astype(H) for t in (x, skip, gamma, beta)), outs=[H, None, None, H])
    op = "SkipSimplifiedLayerNormalization"
    case(op, "plain", x, skip, gamma)
    case(op, "bias, sum", x, skip, gamma, bias, outs=[F, None, None, F], epsilon=1e-2)
    case(op, "2-D", x[0], skip[0], gamma, bias)
    case(op, "float16", *(t.astype(H) for t in (x, skip, gamma)))
    op = "SimplifiedLayerNormalization"
    case(op, "as exporters write it", x, gamma, domain="", model_opset=17, epsilon=1e-6)
    case(op, "axis 1", x, draw.f(3, 8), domain="", axis=1, outs=[F, F])
    case(op, "default epsilon", x * F(1e-3), gamma, domain="", model_opset=12)
    case(op, "float64", x.astype(D), gamma.astype(D), domain="")
    case(op, "stash_type", x, gamma, domain="", axis=-1, stash_type=1)
    rms = draw.f(2, 3, 8)
    case(op, "com.microsoft", rms, gamma, epsilon=1e-6, reference=lambda x, g: x / np.sqrt(
        (x * x).mean(-1, keepdims=True) + 1e-6) * g)
    case("LayerNormalization", "before opset 17", x, gamma, beta, domain="", model_opset=12,
         outs=[F, F, F])
    case("LayerNormalization", "no bias, axis 1", x, draw.f(3, 8), domain="", model_opset=11,
         axis=1, epsilon=1e-3)
    embed(draw)
    groups(draw)


def embed(draw):
    ids, segments = draw.i(11, 2, 4), draw.i(2, 2, 4)
    words, places, kinds = draw.f(11, 8), draw.f(6, 8), draw.f(2, 8)
    gamma, beta, mask = draw.f(8), draw.f(8), np.array([[1, 1, 1, 0], [1, 1, 0, 0]], I32)
    op = "EmbedLayerNormalization"
    tables = (words, places, kinds, gamma, beta)
    case(op, "no mask", ids, segments, *tables, outs=[F, I32], held=range(2, 7))
    case(op, "mask", ids, segments, *tables, mask, outs=[F, I32], epsilon=1e-3)
    case(op, "no segments", ids, None, words, places, None, gamma, beta, mask, outs=[F, I32])
    case(op, "positions, sum", ids, segments, *tables, None, draw.i(6, 2, 4), outs=[F, None, F])
    case(op, "positions of one row", ids, segments, *tables, mask, draw.i(6, 1, 4), outs=[F, I32])


def groups(draw):
    def normal(x, gamma, beta, count, silu, epsilon=1e-5):
        n, h, w, c = x.shape
        parts = x.astype(D).reshape(n, h * w, count, c // count)
        mean = parts.mean((1, 3), keepdims=True)
        y = (parts - mean) / np.sqrt(parts.var((1, 3), keepdims=True) + epsilon)
        y = y.reshape(x.shape) * gamma + beta
        return (y / (1 + np.exp(-y)) if silu else y).astype(x.dtype)
    x, gamma, beta, skip, bias = (draw.f(*s) for s in ((2, 3, 4, 8), (8,), (8,), (2, 3, 4, 8),
                                                       (8,)))
    for silu in (0, 1):
        case("GroupNorm", f"activation {silu}", x, gamma, beta, groups=4, activation=silu,
             reference=lambda x, g, b, silu=silu: normal(x, g, b, 4, silu))
    turned = x.transpose(0, 3, 1, 2).copy()
    case("GroupNorm", "channels first", turned, gamma, beta, groups=2, activation=1,
         channels_last=0, epsilon=0.01, reference=lambda x, g, b: normal(
             x.transpose(0, 2, 3, 1), g, b, 2, 1, 0.01).transpose(0, 3, 1, 2))
    case("GroupNorm", "float16", x.astype(H), gamma, beta, groups=4, activation=0,
         reference=lambda x, g, b: normal(x, g, b, 4, 0))
    case("SkipGroupNorm", "bias, sum", x, gamma, beta, skip, bias, groups=4, activation=1,
         outs=[F, F], reference=lambda x, g, b, s, a: (normal(x + s + a, g, b, 4, 1), x + s + a))
    case("SkipGroupNorm", "skip 2-D", x, gamma, beta, skip[:, 0, 0].copy(), groups=4, activation=0,
         reference=lambda x, g, b, s: normal(x + s[:, None, None], g, b, 4, 0))


# products
def products(draw):
    for op in ("FusedMatMul", "TransposeMatMul"):
        case(op, "plain", draw.f(3, 4), draw.f(4, 5))
        case(op, "both turned, alpha", draw.f(2, 4, 3), draw.f(2, 5, 4), transA=1, transB=1,
             alpha=0.5)
    case("FusedMatMul", "transB 4-D", draw.f(2, 2, 3, 4), draw.f(2, 2, 5, 4), transB=1, alpha=2.0)
    case("FusedMatMul", "weights 2-D turned", draw.f(2, 3, 4), draw.f(5, 4), held=(1,), transB=1)
    case("FusedMatMul", "float64", draw.f(3, 4, dtype=D), draw.f(4, 5, dtype=D), alpha=-1.0)
    case("FusedMatMul", "vector", draw.f(4), draw.f(4, 5))
    case("FusedMatMul", "broadcast batch", draw.f(1, 2, 3, 4), draw.f(3, 1, 4, 5), alpha=3.0)
    case("FusedMatMul", "transBatchA", draw.f(3, 2, 2, 4), draw.f(2, 2, 4, 5), transBatchA=1)
    case("FusedMatMul", "transBatchB", draw.f(2, 3, 4), draw.f(4, 2, 5), transBatchB=1)
    case("FusedMatMul", "transBatchA, transA", draw.f(4, 2, 3), draw.f(2, 4, 5), transBatchA=1,
         transA=1)
    a, b, c = draw.f(3, 4), draw.f(4, 5), draw.f(5)
    for name, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}),
                       ("Sigmoid", {}), ("Elu", {"activation_alpha": 0.5}), ("Softplus", {}),
                       ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})):
        case("FusedGemm", name, a, b, c, activation=name, **more)
    case("FusedGemm", "turned", a.T.copy(), b.T.copy(), None, activation="Relu", transA=1, transB=1,
         alpha=0.5)
    case("FusedGemm", "alpha, beta", a, b, c, held=(1, 2), activation="Relu", alpha=2.0, beta=0.5)
    case("FusedMatMulActivation", "Relu", a, b, activation="Relu", alpha=-1.0,
         reference=lambda a, b: np.maximum(-(a @ b), 0))
    x, w, bias = draw.f(2, 3, 6, 5), draw.f(4, 3, 3, 3), draw.f(4)
    for name, more in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}),
                       ("LeakyRelu", {"activation_params": [0.2]}),
                       ("Clip", {"activation_params": [-0.5, 0.5]}),
                       ("HardSigmoid", {"activation_params": [0.3, 0.4]})):
        case("FusedConv", name, x, w, bias, held=(1, 2), activation=name, pads=[1, 1, 1, 1], **more)
    case("FusedConv", "sum", x, w, bias, draw.f(2, 4, 6, 5), held=(1, 2), activation="Relu",
         pads=[1, 1, 1, 1])
    case("FusedConv", "stride, no bias", x, w, activation="Relu", strides=[2, 2])
    case("FusedConv", "no activation", x, w, bias)
    case("ConvTransposeWithDynamicPads", "pads", draw.f(1, 3, 4, 4), draw.f(3, 2, 3, 3),
         np.array([1, 0, 1, 1]), draw.f(2), held=(1, 2, 3), strides=[2, 2])
    case("ConvTransposeWithDynamicPads", "fed pads", draw.f(1, 3, 4, 4), draw.f(3, 2, 3, 3),
         np.array([0, 1, 1, 0]), held=(1,))
    for dtype in (U8, I8):
        case("NhwcMaxPool", np.dtype(dtype).name, draw.q(2, 6, 5, 3, dtype=dtype),
             kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])


# 8 bits, dynamically
def dynamic(draw):
    op = "DynamicQuantizeMatMul"
    for dtype in (U8, I8):
        name, zero = np.dtype(dtype).name, np.array(3, dtype)
        b, many = draw.q(16, 6, dtype=dtype), draw.q(6, dtype=dtype)
        scales = np.abs(draw.f(6, scale=0.01)) + F(1e-3)
        case(op, f"{name} one scale", draw.f(5, 16), b, F(0.02), zero, held=(1, 2, 3))
        case(op, f"{name} no zero point, 3-D", draw.f(2, 3, 16), b, F([0.02]), held=(1, 2))
        case(op, f"{name} by column, bias", draw.f(2, 3, 16), b, scales, many, draw.f(6),
             held=(1, 2, 3, 4))
        case(op, f"{name} all fed", draw.f(5, 16), b, F(0.02), zero, draw.f(6))
    case(op, "positive", np.abs(draw.f(5, 16)) + 1, draw.q(16, 6), F(0.02), U8(128))
    case(op, "zeros", np.zeros((5, 16), F), draw.q(16, 6), F(0.02), U8(128), draw.f(6))
    op = "MatMulIntegerToFloat"
    for left in (U8, I8):
        for right in (U8, I8):
            if (left, right) == (I8, U8):
                continue
            name = f"{np.dtype(left).name} {np.dtype(right).name}"
            a, b = draw.q(4, 16, dtype=left), draw.q(16, 6, dtype=right)
            case(op, f"{name}", a, b, F(0.01), F(0.02), left(7), right(5), outs=[F],
                 held=(1, 3, 5))
            case(op, f"{name} by column, bias", a, b, F(0.01),
                 np.abs(draw.f(6, scale=0.01)) + F(1e-3), left(7), draw.q(6, dtype=right),
                 draw.f(6), outs=[F])
    case(op, "no zero points, 3-D", draw.q(2, 4, 16), draw.q(16, 6), F(0.01), F(0.02), outs=[F])
    lstms(draw)


def lstms(draw):
    op, hidden, inputs = "DynamicQuantizeLSTM", 5, 4
    settings = [("forward", 1, U8, False, {}), ("bidirectional", 2, U8, False, {}),
                ("reverse", 1, I8, False, {}), ("bidirectional", 2, I8, True, {}),
                ("forward", 1, U8, True, {"clip": 0.3}),
                ("forward", 1, I8, False, {"input_forget": 1})]
    for direction, lanes, dtype, many, more in settings:
        w, r = (draw.q(lanes, n, 4 * hidden, dtype=dtype) for n in (inputs, hidden))
        shape = (lanes, 4 * hidden) if many else (lanes,)
        scales = [np.abs(draw.f(*shape, scale=0.002)) + F(0.002) for _ in range(2)]
        middle = 128 if dtype is U8 else 0
        zeros = [(draw.i(9, *shape) + middle - 4 * (not many)).astype(dtype) for _ in range(2)]
        if many:        # onnxruntime wants zero points of columns to be alike
            zeros = [np.full_like(z, middle) for z in zeros]
        bias = draw.f(lanes, 8 * hidden, scale=0.1)
        for steps, batch in ((1, 1), (7, 2)):
            name = f"{direction} {np.dtype(dtype).name}{' by column' if many else ''}" \
                   f"{''.join(' ' + k for k in more)}, {steps} steps"
            x = draw.f(steps, batch, inputs)
            state = [draw.f(lanes, batch, hidden) for _ in range(2)]
            case(op, f"{name}, all", x, w, r, bias, None, *state, None, scales[0], zeros[0],
                 scales[1], zeros[1], outs=[F, F, F], held=(1, 2, 3, 8, 9, 10, 11),
                 direction=direction, hidden_size=hidden, **more)
        case(op, f"{name}, no bias", x, w, r, None, None, None, None, None, scales[0], zeros[0],
             scales[1], zeros[1], outs=[F, None, F], held=(1, 2, 8, 9, 10, 11),
             direction=direction, hidden_size=hidden, **more)
        peep = draw.f(lanes, 3 * hidden, scale=0.2)
        case(op, f"{name}, peepholes", x, w, r, bias, None, None, None, peep, scales[0],
             zeros[0], scales[1], zeros[1], outs=[F, F, F], held=(1, 2, 3, 7, 8, 9, 10, 11),
             direction=direction, hidden_size=hidden, **more)


# 8 bits in and out
def qlinear(draw):
    for dtype in (U8, I8):
        n, z = np.dtype(dtype).name, dtype
        x, y = draw.q(2, 3, 8, dtype=dtype), draw.q(2, 3, 8, dtype=dtype)
        for op, out in (("QLinearAdd", F(0.0539)), ("QLinearMul", F(0.2113))):
            case(op, f"{n}", x, F(0.0317), z(4), y, F(0.0539), z(9), out, z(11))
            case(op, f"{n} broadcast", x, F(0.0317), z(4), y[0, :1].copy(), F(0.0539), z(9), out,
                 z(11), held=(1, 2, 3, 4, 5, 6, 7))
            case(op, f"{n} a scalar", x, F(0.0317), z(4), y[0, 0, 0], F(0.0539), z(9), out, z(11))
            mix = np.add if op == "QLinearAdd" else np.multiply
            case(op, f"{n} no zero points", x, F(0.0317), None, y, F(0.0539), None, out, None,
                 reference=lambda x, a, y, b, c, mix=mix, z=z: np.clip(np.rint(
                     mix(x * a, y * b) / c), np.iinfo(z).min, np.iinfo(z).max).astype(z))
        case("QLinearSigmoid", n, x, F(0.0539), z(12), F(1 / 256), z(0), held=(1, 2, 3, 4))
        case("QLinearSigmoid", f"{n} no zero points", x, F(0.0213), None, F(1 / 128), z(0),
             held=(1, 3, 4))
        case("QLinearLeakyRelu", n, x, F(0.0539), z(12), F(0.0419), z(3), alpha=0.3,
             held=(1, 2, 3, 4))
        case("QLinearLeakyRelu", f"{n} default alpha", x, F(0.0539), z(100), F(0.0213), z(3),
             held=(1, 2, 3, 4))
        for axis, opset in ((-1, 13), (1, 13), (1, 11)):
            case("QLinearSoftmax", f"{n} axis {axis} opset {opset}", x, F(0.0317), z(5), F(1 / 256),
                 z(0), held=(1, 2, 3, 4), axis=axis, opset=opset)
        case("QLinearConcat", f"{n}", F(0.0539), z(2), x, F(0.0317), z(4), y, F(0.0613), z(7),
             outs=[z], axis=1)
        case("QLinearConcat", f"{n} last axis, three", F(0.0539), z(2), x, F(0.0539), z(2), y,
             F(0.0613), z(7), x[:, :, :2].copy(), F(0.01), z(0), outs=[z], axis=-1,
             held=(0, 1, 3, 4, 6, 7, 9, 10))
        case("QLinearWhere", n, draw.i(2, 2, 3, 8).astype(bool), x, F(0.0317), z(4), y, F(0.0539),
             z(9), F(0.0419), z(1), outs=[z], held=(2, 3, 5, 6, 7, 8))
        image = draw.q(2, 3, 6, 5, dtype=dtype)
        for last in (0, 1):
            picture = image.transpose(0, 2, 3, 1).copy() if last else image
            more = {"channels_last": last}
            case("QLinearGlobalAveragePool", f"{n} channels_last {last}", picture, F(0.0317), z(4),
                 F(0.0213), z(9), **more)
            case("QLinearAveragePool", f"{n} channels_last {last}", picture, F(0.0317), z(4),
                 F(0.0213), z(9), kernel_shape=[2, 3], strides=[2, 1], held=(1, 2, 3, 4), **more)
            case("QLinearAveragePool", f"{n} pads, channels_last {last}", picture, F(0.0317), z(4),
                 F(0.0213), z(9), kernel_shape=[3, 3], pads=[1, 1, 1, 1], held=(1, 2, 3, 4),
                 count_include_pad=1 - last, **more)
            w = draw.q(4, 3, 3, 3, dtype=dtype)
            case("QLinearConv", f"{n} channels_last {last}", picture, F(0.0317), z(4), w, F(0.0213),
                 z(3), F(0.911), z(9), draw.i(1000, 4) - 500, held=range(1, 9), pads=[1, 1, 1, 1],
                 **more)
        wave = draw.q(2, 3, 9, dtype=dtype)
        case("QLinearAveragePool", f"{n} 1-D ceil", wave, F(0.0317), z(4), F(0.0213), z(9),
             kernel_shape=[4], strides=[2], ceil_mode=1, held=(1, 2, 3, 4))
        case("QLinearReduceMean", n, x, F(0.0317), z(4), F(0.0213), z(9), axes=[1], keepdims=0,
             reference=lambda x, a, b, c, d, z=dtype: np.clip(np.rint(
                 ((x.astype(F) - b) * a).mean(1) / c) + d, np.iinfo(z).min, np.iinfo(z).max)
             .astype(z))
        numbers = draw.f(3, 4, scale=2)
        case("QuantizeLinear", n, numbers, F(0.0317), z(4), outs=[z])
        case("QuantizeLinear", f"{n} by axis", numbers, np.abs(draw.f(4)) + F(0.01),
             draw.q(4, dtype=dtype), outs=[z], axis=1)
        case("DequantizeLinear", n, x, F(0.0317), z(4), outs=[F])
        case("DequantizeLinear", f"{n} by axis", x, np.abs(draw.f(3)), draw.q(3, dtype=dtype),
             outs=[F], axis=1)
    case("QuantizeLinear", "no zero point", draw.f(3, 4), F(0.0317), outs=[U8])
    case("QuantizeLinear", "uint16", draw.f(3, 4), F(0.001), np.uint16(1000), outs=[np.uint16])
    case("DequantizeLinear", "int32", draw.i(1000, 3, 4), F(0.0317), outs=[F])
    case("DequantizeLinear", "no zero point", draw.q(3, 4), F(0.0317), outs=[F])


def qgemm(draw):
    for left, right in ((U8, U8), (U8, I8), (I8, I8)):
        name = f"{np.dtype(left).name} {np.dtype(right).name}"
        a, b, c = draw.q(4, 16, dtype=left), draw.q(16, 6, dtype=right), draw.i(999, 6) - 500
        quantised = (F(0.02), left(9))
        case("QGemm", f"{name} float", a, F(0.01), left(7), b, F(0.02), right(5), outs=[F],
             held=(1, 2, 3, 4, 5))
        case("QGemm", name, a, F(0.01), left(7), b, F(0.02), right(5), c, *quantised,
             held=range(1, 9))
        case("QGemm", f"{name} turned, by column", a.T.copy(), F(0.01), left(7), b.T.copy(),
             np.abs(draw.f(6, scale=0.01)) + F(1e-3), draw.q(6, dtype=right), c, *quantised,
             held=range(1, 9), transA=1, transB=1, alpha=0.5)


# packed weights
def packed(draw):
    for bits in (2, 4, 8):
        for n, k, size in ((6, 32, 16), (5, 40, 16), (3, 64, 32)):
            count = -(-k // size)
            w = draw.q(n, count, size * bits // 8)
            scales = draw.f(n, count, scale=0.05)
            zeros = draw.q(n, -(-count * bits // 8))
            note = f"{bits} bits, {k}x{n} by {size}"
            more = {"N": n, "K": k, "bits": bits, "block_size": size}

            def plain(x, w, s, z=None, groups=None, n=n, k=k, bits=bits, size=size):
                mask = (1 << bits) - 1
                parts = [(w >> s_) & mask for s_ in range(0, 8, bits)]
                steps = np.stack(parts, -1).reshape(n, -1, size).astype(F)
                groups = np.arange(k) // size if groups is None else groups
                if z is not None and z.dtype == I32:
                    z, groups = None, z
                if z is None:
                    zero = np.full((n, steps.shape[1]), 1 << bits - 1)
                elif z.dtype == F:
                    zero = z
                else:
                    zero = np.stack([(z >> s_) & mask for s_ in range(0, 8, bits)], -1)
                    zero = zero.reshape(n, -1)[:, :steps.shape[1]]
                steps = steps.reshape(n, -1)[:, :k]
                return x @ ((steps - zero[:, groups]) * s[:, groups]).T.astype(x.dtype)
            case("MatMulNBits", f"{note}, no zero points", draw.f(4, k), w, scales, held=(1, 2),
                 reference=plain, **more)
            case("MatMulNBits", f"{note}, zero points", draw.f(2, 3, k), w, scales,
                 zeros, held=(1, 2, 3), reference=plain, **more)
        case("MatMulNBits", f"{note}, bias", draw.f(4, k), w, scales, zeros, None, draw.f(n),
             held=(1, 2, 3, 5), **more)
        case("MatMulNBits", f"{note}, flat weights", draw.f(4, k), w, scales.reshape(-1),
             zeros.reshape(-1), held=(1, 2, 3), **more)
        case("MatMulNBits", f"{note}, float zero points", draw.f(4, k), w, scales,
             draw.f(n, count, scale=3), held=(1, 2, 3), reference=plain, **more)
        case("MatMulNBits", f"{note}, all fed", draw.f(4, k), w, scales, zeros, **more)
        case("MatMulNBits", f"{note}, float16", draw.f(4, k, dtype=H), w, scales.astype(H), zeros,
             held=(1, 2, 3), **more)
        case("MatMulNBits", f"{note}, groups", draw.f(4, k), w, scales, zeros,
             draw.rng.permutation(np.arange(k) // size).astype(I32), held=(1, 2, 3, 4),
             reference=plain, wrong="g_idx makes it forget the zero points", **more)
        case("MatMulNBits", f"{note}, groups fed", draw.f(4, k), w, scales, None,
             (np.arange(k) // size).astype(I32), reference=plain,
             wrong="g_idx makes it read 4 bits" if bits == 2 else None, **more)
        table, marks = draw.q(7, 64 * bits // 8), draw.f(7, 4, scale=0.1)
        points = draw.q(7, -(-4 * bits // 8))
        more = {"bits": bits, "block_size": 16, "quantize_axis": 1, "gather_axis": 0}
        case("GatherBlockQuantized", f"{bits} bits", table, draw.i(7, 2, 3), marks, outs=[F],
             held=(0, 2), **more)
        case("GatherBlockQuantized", f"{bits} bits, zero points", table,
             np.array([0, -1, 3]), marks, points, outs=[F], held=(0, 2, 3), **more)
        case("GatherBlockQuantized", f"{bits} bits, one", table, np.array(2), marks.astype(H),
             points, outs=[H], held=(0, 2, 3), **more)


# attention
def attentions(draw):
    b, s, width, heads = 2, 4, 8, 2
    x, w, bias = draw.f(b, s, width), draw.f(width, 24, scale=0.5), draw.f(24)
    past = draw.f(2, b, heads, 3, 4)
    op = "Attention"
    case(op, "plain", x, w, bias, held=(1, 2), num_heads=heads)
    case(op, "no bias", x, w, num_heads=heads)
    case(op, "scale, causal", x, w, bias, num_heads=heads, scale=0.3, unidirectional=1)
    case(op, "lengths", x, w, bias, np.array([2, 4], I32), num_heads=heads)
    case(op, "ends and starts", x, w, bias, np.array([4, 3, 1, 0], I32), num_heads=heads)
    two = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], I32)
    case(op, "mask 2-D", x, w, bias, two, num_heads=heads)
    case(op, "mask 2-D, causal, filter", x, w, bias, two, num_heads=heads, unidirectional=1,
         mask_filter_value=-5.0)
    case(op, "mask 3-D", x, w, bias, draw.i(2, b, s, s), num_heads=heads)
    case(op, "a row all forbidden", x, w, bias, np.array([[0] * 4, [1] * 4], I32),
         num_heads=heads)
    case(op, "past", x, w, bias, None, past, outs=[F, F], num_heads=heads)
    case(op, "past, mask, causal", x, w, bias, np.array([[1] * 5 + [0] * 2, [0] + [1] * 6], I32),
         past, outs=[F, F], num_heads=heads, unidirectional=1)
    case(op, "present alone", x, w, bias, outs=[F, F], num_heads=heads, unidirectional=1)
    case(op, "bias of scores", x, w, bias, None, None, draw.f(b, heads, s, s), num_heads=heads)
    case(op, "bias of scores of one", x, w, bias, two, None, draw.f(1, 1, s, s), num_heads=heads)
    case(op, "values of another width", x, draw.f(width, 8 + 8 + 12), draw.f(28), num_heads=heads,
         qkv_hidden_sizes=[8, 8, 12])
    quantised_attention(draw)
    multi_head(draw)
    decoder(draw)
    buckets(draw)


def quantised_attention(draw):
    b, s, width, heads = 2, 4, 8, 2
    for left, right in ((U8, I8), (U8, U8)):
        name = f"{np.dtype(left).name} {np.dtype(right).name}"
        x, w = draw.q(b, s, width, dtype=left), draw.q(width, 24, dtype=right)
        rest = (draw.f(24), F(0.01), F(0.02))
        points = (left(5), right(3))
        case("QAttention", name, x, w, *rest, None, *points, outs=[F], held=(1, 2, 3, 4, 6, 7),
             num_heads=heads)
        case("QAttention", f"{name} by column", x, w, rest[0], rest[1],
             np.abs(draw.f(24, scale=0.02)) + F(1e-3), np.array([2, 4], I32), left(5),
             draw.q(24, dtype=right), outs=[F], held=(1, 2, 3, 4, 6, 7), num_heads=heads)
        case("QAttention", f"{name} past, causal", x, w, *rest, None, *points,
             draw.f(2, b, heads, 3, 4), outs=[F, F], held=(1, 2, 3, 4, 6, 7), num_heads=heads,
             unidirectional=1)
    case("QAttention", "no zero points", x, w, *rest, outs=[F], held=(1, 2, 3, 4),
         num_heads=heads)


def multi_head(draw):
    b, s, t, heads, d = 2, 4, 5, 2, 4
    q, k, v = draw.f(b, s, 8), draw.f(b, t, 8), draw.f(b, t, 8)
    op, more = "MultiHeadAttention", {"num_heads": heads}
    case(op, "plain", q, k, v, **more)
    case(op, "bias", q, k, v, draw.f(24), held=(3,), **more)
    case(op, "scale", q, k, v, scale=0.2, **more)
    case(op, "causal", q, k[:, :s].copy(), v[:, :s].copy(), unidirectional=1, **more)
    case(op, "values of another width", q, k, draw.f(b, t, 12), draw.f(28), **more)
    case(op, "lengths", q, k, v, None, np.array([3, 5], I32), **more)
    mask = np.array([[1, 1, 1, 0, 0], [1] * 5], I32)
    case(op, "mask 2-D, filter", q, k, v, None, mask, mask_filter_value=-3.0, **more)
    case(op, "mask 3-D", q, k, v, None, draw.i(2, b, s, t), **more)
    case(op, "bias of scores", q, k, v, None, None, draw.f(b, heads, s, t), **more)
    case(op, "bias of scores of one", q, k, v, None, mask, draw.f(1, heads, s, t), **more)
    case(op, "packed queries, keys, values", draw.f(b, s, heads, 3, d), **more,
         reference=lambda x: _attention(*x.transpose(3, 0, 2, 1, 4)))
    case(op, "packed keys, values", q, draw.f(b, t, heads, 2, d), **more,
         reference=lambda q, x: _attention(_heads(q, heads), *x.transpose(3, 0, 2, 1, 4)))
    case(op, "keys of another model", q, draw.f(b, heads, t, d), draw.f(b, heads, t, d),
         draw.f(24), **more)
    past = draw.f(b, heads, 3, d), draw.f(b, heads, 3, d)
    new = draw.f(b, s, 8), draw.f(b, s, 8)
    case(op, "past", q, *new, None, None, None, *past, outs=[F, F, F], **more)
    case(op, "past, bias, causal", q, *new, draw.f(24), None, None, *past, outs=[F, F, F],
         unidirectional=1, **more)
    case(op, "present alone", q, *new, outs=[F, F, F], **more)
    case(op, "scores", q, k, v, None, mask, outs=[F, None, None, F], **more)


def _heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def _attention(q, k, v):
    """Attention [B, heads, S, D] as [B, S, heads * D]."""
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    made = (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)
    return made.reshape(*made.shape[:2], -1)


def decoder(draw):
    b, t, heads, d = 2, 5, 2, 4
    op, more = "DecoderMaskedMultiHeadAttention", {"num_heads": heads}
    q = draw.f(b, 1, 8)
    past = draw.f(b, heads, t, d), draw.f(b, heads, t, d)

    def plain(q, k, v, k_past, v_past, bias=np.zeros(24, F)):
        k, v = (np.concatenate([p, _heads(t + c, heads)], 2) for p, t, c in (
            (k_past, k, bias[8:16]), (v_past, v, bias[16:])))
        return _attention(_heads(q + bias[:8], heads), k, v), k, v
    case(op, "past", q, draw.f(b, 1, 8), draw.f(b, 1, 8), None, None, *past, outs=[F, F, F],
         reference=plain, **more)
    case(op, "keys of another model", q, *past, **more)
    case(op, "keys of another model, mask", q, *past, np.array([[1] * 5, [1, 1, 1, 0, 0]], I32),
         **more)
    case(op, "bias", q, draw.f(b, 1, 8), draw.f(b, 1, 8), None, None, *past, None, None, None,
         draw.f(24), outs=[F, F, F], reference=plain, **more)


def buckets(draw):
    def plain(table, queries, keys, both, farthest):
        from math import log
        count = table.shape[0]
        places = np.zeros((int(queries), int(keys)), int)
        for i in range(int(queries)):
            for j in range(int(keys)):
                n, at, half = i - j, 0, count
                if both:
                    half = count // 2
                    at, n = half * (n < 0), abs(n)
                n = max(n, 0)
                exact = half // 2
                if n >= exact:
                    n = min(half - 1, exact + int(np.float32(log(n / exact)) / np.float32(
                        log(farthest / exact)) * (half - exact)))
                places[i, j] = at + n
        return table[places].transpose(2, 0, 1)[None]
    for both in (0, 1):
        case("RelativePositionBias", f"both ways {both}", draw.f(8, 3), np.array([13]),
             np.array([13]), max_distance=11, is_bidirectional=both,
             reference=lambda t, q, k, both=both: plain(t, q[0], k[0], both, 11))


def grouped(draw):
    b, heads, own, d, room = 2, 4, 2, 16, 8
    op = "GroupQueryAttention"
    more = {"num_heads": heads, "kv_num_heads": own}
    angles = [f(np.outer(np.arange(16), 10 ** -np.linspace(0, 2, d // 2))).astype(F)
              for f in (np.cos, np.sin)]

    def parts(s):
        return draw.f(b, s, heads * d), draw.f(b, s, own * d), draw.f(b, s, own * d)

    def run(note, s, lengths, total, past=None, cos=False, packed_=False, later=(), **attributes):
        q, k, v = parts(s)
        if packed_:
            q, k, v = np.concatenate([q, k, v], -1), None, None
        cache = [None, None] if past is None else [draw.f(b, own, past, d) for _ in range(2)]
        case(op, note, q, k, v, *cache, np.array(lengths, I32), np.array([total], I32),
             *(angles if cos else [None, None]), *later, outs=[F, F, F], **more, **attributes)
    run("prompt", 5, [4, 4], 5)
    run("prompt, packed", 5, [4, 4], 5, packed_=True)
    run("prompt, rotary", 5, [4, 4], 5, cos=True, do_rotary=1)
    run("prompt, rotary interleaved, packed", 5, [4, 4], 5, cos=True, packed_=True, do_rotary=1,
        rotary_interleaved=1)
    run("prompt, buffer", 5, [4, 4], 5, past=room)
    run("prompt, window", 6, [5, 5], 6, local_window_size=3)
    run("prompt, softcap, scale", 5, [4, 4], 5, softcap=2.0, scale=0.4)
    run("prompt, smooth softmax", 5, [4, 4], 5, smooth_softmax=1)
    run("prompt, sinks", 5, [4, 4], 5, later=(None, None, draw.f(heads)))
    run("prompt, bias of scores", 5, [4, 4], 5, later=(None, draw.f(b, heads, 5, 5)))
    run("a token", 1, [5, 5], 6, past=5)
    run("a token, rotary", 1, [5, 5], 6, past=5, cos=True, do_rotary=1)
    run("a token, unlike lengths", 1, [5, 3], 6, past=5, cos=True, do_rotary=1)
    run("a token, window", 1, [6, 6], 7, past=6, local_window_size=3)
    run("a token, packed", 1, [5, 5], 6, past=5, packed_=True)
    b = 1
    run("a chunk", 3, [6], 7, past=4)
    run("a chunk, rotary, buffer", 3, [6], 7, past=room, cos=True, do_rotary=1)


def rotary(draw):
    op = "RotaryEmbedding"
    for interleaved in (0, 1):
        angles = [f(draw.f(16, 4)).astype(F) for f in (np.cos, np.sin)]
        more = {"interleaved": interleaved}
        case(op, f"3-D, offset, interleaved {interleaved}", draw.f(2, 3, 16), np.array([2]),
             *angles, held=(2, 3), **more)
        case(op, f"3-D, positions, interleaved {interleaved}", draw.f(2, 3, 16),
             draw.i(16, 2, 3, dtype=I64), *angles, held=(2, 3), **more)
        case(op, f"4-D, interleaved {interleaved}", draw.f(2, 2, 3, 8), draw.i(16, 2, 3, dtype=I64),
             *angles, **more)
        case(op, f"partial, interleaved {interleaved}", draw.f(2, 3, 24),
             draw.i(16, 2, 3, dtype=I64), *angles, num_heads=2, rotary_embedding_dim=8, **more)


# arrays
def arrays(draw):
    x = draw.f(2, 4, 5)
    case("Trilu", "upper", x)
    case("Trilu", "lower, k", x, np.array(1), upper=0)
    case("Trilu", "int64, k", draw.i(9, 4, 4, dtype=I64), np.array(-2), held=(1,))
    for dtype in (F, I64):
        case("Unique", np.dtype(dtype).name, draw.i(5, 12).astype(dtype), outs=[dtype, I64, I64],
             reference=_unique)
    for dtype in (F, D, I32, I64):
        case("Range", np.dtype(dtype).name, dtype(2), dtype(11), dtype(3))
    case("Range", "no delta", I32(2), I32(7))
    case("Range", "down", F(5), F(1), F(-0.5))
    for axis in (0, 1, -1):
        case("ExpandDims", f"axis {axis}", x, np.array(axis, I32), held=(1,))
    case("Pad", "constant", x, np.array([0, 1, 0, 2, 0, 1]), F(3), held=(1, 2))
    case("Pad", "a row, edge", x, np.array([[0, 1, 0, 0, 0, 1]]), held=(1,), mode="edge")
    case("Pad", "reflect", x, np.array([0, 1, 2, 0, 1, 1]), held=(1,), mode="reflect")
    case("Pad", "fed", x, np.array([0, 1, 0, 2, 0, 1]))
    case("GatherND", "rows", x, np.array([[0, 1], [1, 2]]))
    case("Inverse", "batch", draw.f(2, 3, 3) + 3 * np.eye(3, dtype=F))
    case("Inverse", "float64", draw.f(4, 4, dtype=D) + 4 * np.eye(4))
    for note, fault in (("finite", 0.0), ("inf", np.inf), ("nan", np.nan)):
        bad = x.copy()
        bad[1, 2, 3] = fault
        for name in (None, "isnan_only", "isinf_only"):
            case("IsAllFinite", f"{note} {name}", x, bad, outs=[bool],
                 **({name: 1} if name else {}), reference=lambda x, y, name=name: np.array(not {
                     None: lambda t: ~np.isfinite(t), "isnan_only": np.isnan,
                     "isinf_only": np.isinf}[name](y).any()))
    boxes = F([[0, 0, 1, 1], [0.1, 0.2, 0.75, 0.95], [0.5, 0.5, 1.4, 1.2]])
    for mode in ("bilinear", "nearest"):
        case("CropAndResize", mode, draw.f(2, 3, 6, 7), boxes, np.array([0, 1, 0], I32),
             np.array([4, 5], I32), held=(3,), mode=mode, extrapolation_value=-2.0)
    rows, lengths = draw.f(2, 4, 3), np.array([3, 2], I32)
    offsets = np.array([[0, 1, 2, 4], [5, 3, 6, 7]], I32)
    kept = offsets.ravel()[:5]
    case("RemovePadding", "right", rows, lengths, outs=[F, I32, I32, I32],
         reference=lambda x, n: (x.reshape(-1, 3)[kept], offsets, np.array([0, 3, 5], I32),
                                 np.array([3], I32)))

    def restored(x, o):
        made = np.zeros((8, 3), F)
        made[kept] = x
        return made.reshape(2, 4, 3)
    case("RestorePadding", "right", draw.f(5, 3), offsets, reference=restored)
    case("TorchEmbedding", "rows", draw.f(7, 3), draw.i(7, 2, 4, dtype=I64),
         reference=lambda t, i: t[i])
    for dim in (1, -1):
        case("UnfoldTensor", f"axis {dim}", x, dim=dim, size=2, step=2,
             reference=lambda x, dim=dim: np.lib.stride_tricks.sliding_window_view(
                 x, 2, dim)[(slice(None),) * (dim % 3) + (slice(None, None, 2),)])


def _unique(x):
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True,
                                          return_counts=True)
    order = np.argsort(first)
    return x[first[order]], np.argsort(order)[inverse], counts[order]


def signals(draw):
    def pairs(z):
        return np.stack([z.real, z.imag], -1)

    def numbers(x):
        return x[..., 0].astype(D) + 1j * x[..., 1].astype(D)
    for dtype in (F, D):
        name = np.dtype(dtype).name
        x = draw.f(3, 4, 8, dtype=dtype)
        case("Rfft", name, x, onesided=1, normalized=0, signal_ndim=1,
             reference=lambda x: pairs(np.fft.rfft(x)))
        case("Rfft", f"{name} 2-D", x, onesided=1, normalized=0, signal_ndim=2,
             reference=lambda x: pairs(np.fft.rfft2(x)))
        z = draw.f(3, 4, 5, 2, dtype=dtype)
        case("Irfft", name, z, onesided=1, normalized=0, signal_ndim=1,
             reference=lambda z: np.fft.irfft(numbers(z)))
        other = draw.f(3, 4, 5, 2, dtype=dtype)
        case("ComplexMul", name, z, other, reference=lambda a, b: pairs(numbers(a) * numbers(b)))
        case("ComplexMulConj", name, z, other[0], reference=lambda a, b: pairs(
            numbers(a) * numbers(b).conj()))
