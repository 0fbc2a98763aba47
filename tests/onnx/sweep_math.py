"""Cases of ops on numbers: elementwise, reductions, products, normalisations, quantised numbers."""
import numpy as np
from sweep_model import D, F, H, data, ints, sweep

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, -1e-7, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5,
                  20.0, -20.0, 88.0, -88.0, 3.5, 1.5, -1.5], F)
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS = (H, D)


# one input
@sweep("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf",
       "Exp",
       "Floor", "HardSwish", "IsNaN", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round",
       "Sigmoid",
       "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")
def one_input(c, op, v):
    yield c([EDGES])
    yield c([data(2, 3)])
    yield c([np.float32(0.75)])
    yield c([data(0, 3)], unknown=True)
    for dtype in FLOATS:
        yield c([data(2, 3, dtype=dtype, low=0.1, high=0.9)])
        yield c([EDGES.astype(dtype)])
    if op in ("Abs", "Neg", "Sign", "Relu"):
        for dtype in INTS if op in ("Abs", "Sign") else INTS[:4]:
            yield c([np.array([np.iinfo(dtype).min, 0, 1, 7, np.iinfo(dtype).max], dtype)])


@sweep("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "Swish")
def one_parameter(c, op, v):
    yield c([EDGES])
    for alpha in (0.0, -0.5, 0.3, 10.0):
        if op != "Celu" or alpha:
            yield c([EDGES], {"alpha": alpha})
    for dtype in FLOATS:
        yield c([data(2, 3, dtype=dtype)], {"alpha": 0.3})
    yield c([data(2, 0)], unknown=True)


@sweep("Selu", "HardSigmoid", "Shrink")
def two_parameters(c, op, v):
    names = {"Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta"),
             "Shrink": ("lambd", "bias")}[op]
    yield c([EDGES])
    for a, b in ((0.0, 0.0), (0.7, 0.2), (-0.5, 2.0), (3.0, -1.0)):
        yield c([EDGES], dict(zip(names, (a, b))))
        yield c([EDGES], {names[1]: b})
    for dtype in FLOATS:
        yield c([data(2, 3, dtype=dtype)], {names[0]: 0.3})
    if op == "Shrink":
        for dtype in INTS:
            yield c([np.array([0, 1, 2, 100], dtype)], {"lambd": 1.5, "bias": 1.0})


@sweep("Gelu")
def gelu(c, op, v):
    for how in ("none", "tanh"):
        yield c([EDGES], {"approximate": how})
        for dtype in FLOATS:
            yield c([data(2, 3, dtype=dtype)], {"approximate": how})
    yield c([EDGES])


@sweep("IsInf")
def is_inf(c, op, v):
    yield c([EDGES])
    for positive in (0, 1):
        for negative in (0, 1):
            yield c([EDGES], {"detect_positive": positive, "detect_negative": negative})
    for dtype in FLOATS:
        yield c([EDGES.astype(dtype)])


@sweep("Not")
def logical_not(c, op, v):
    yield c([data(2, 3, dtype=bool)])


@sweep("BitwiseNot")
def bitwise_not(c, op, v):
    for dtype in INTS:
        yield c([np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype)])


@sweep("Clip")
def clip(c, op, v):
    low, high = np.float32(-1), np.float32(0.7)
    if v < 11:
        for bounds in ({}, {"min": -1.0}, {"max": 0.7}, {"min": -1.0, "max": 0.7},
                       {"min": 1.0, "max": -1.0}, {"min": 0.0, "max": 6.0}):
            yield c([EDGES], bounds)
        return
    for const in ((), (1, 2)):
        for inputs in ([low, high], [low], [None, high], [high, low],
                       [np.float32(0), np.float32(6)],
                       [np.float32(-np.inf), np.float32(np.inf)]):
            yield c([EDGES, *inputs], const=const)
    yield c([EDGES])
    for dtype in (*INTS, *FLOATS) if v >= 12 else FLOATS:
        yield c([data(2, 3, dtype=dtype), np.array(1, dtype), np.array(2, dtype)], const=(1, 2))


# two inputs
@sweep("Add", "Sub", "Mul", "Div", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")
def two_inputs(c, op, v):
    a, b = data(2, 3), data(2, 3, seed=5)
    yield c([a, b])
    yield c([EDGES, EDGES[::-1].copy()])
    if v < 7:
        yield c([a, b[0]], {"broadcast": 1})
        yield c([a, b[:, 0].copy()], {"broadcast": 1, "axis": 0})
        yield c([data(2, 3, 4), data(3)], {"broadcast": 1, "axis": 1})
        yield c([data(2, 3, 4), data(3)], {"broadcast": 1, "axis": -2})
        yield c([data(2, 3, 4), data(2, 3)], {"broadcast": 1, "axis": 0}, const=(1,))
        return
    yield c([a, b[0]], const=(1,))
    yield c([a[:, :1].copy(), b[:1].copy()], unknown=True)
    yield c([np.float32(2), b])
    yield c([data(0, 3), b[:1].copy()], unknown=True)
    yield c([data(2, 0), np.float32(1)])
    for dtype in (*INTS, *FLOATS):
        x, y = data(2, 3, dtype=dtype, low=-9, high=9), data(2, 3, dtype=dtype, seed=3)
        yield c([x, np.where(y == 0, 3, y).astype(dtype)])
    if op == "Equal":
        yield c([a > 0, b > 0])
        if v >= 19:
            words = np.array(["a", "b"], object)
            yield c([words, words[::-1].copy()])


@sweep("And", "Or", "Xor")
def logical(c, op, v):
    a, b = data(2, 3, dtype=bool), data(2, 3, dtype=bool, seed=2)
    yield c([a, b])
    if v >= 7:
        yield c([a, b[0]], unknown=True)
    else:
        yield c([a, b[:, 0].copy()], {"broadcast": 1, "axis": 0})


@sweep("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(c, op, v):
    for dtype in INTS:
        yield c([data(2, 3, dtype=dtype, high=99), data(3, dtype=dtype, high=99, seed=4)])


@sweep("BitShift")
def bit_shift(c, op, v):
    for dtype in INTS if v >= 28 else INTS[4:]:
        bits = np.dtype(dtype).itemsize * 8
        x = np.array([1, 5, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
        for how in ("LEFT", "RIGHT"):
            yield c([x, np.array([1, 0, 3, bits - 1], dtype)], {"direction": how})


@sweep("Pow")
def power(c, op, v):
    base = np.array([0.0, -0.0, 1.0, -2.0, 2.0, np.inf, -np.inf, np.nan, 0.5], F)
    for exponent in (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, np.nan, np.inf):
        yield c([base, np.float32(exponent)], {} if v >= 7 else {"broadcast": 1}, const=(1,))
    yield c([abs(base), base[::-1].copy()])
    if v >= 12:
        for x in (np.int32, np.int64, D, F):
            for y in (np.int32, np.int64, F, D):
                yield c([np.array([1, 2, 3, 4], x), np.array([2, 3, 0, 1], y)])
        yield c([np.array([-2, 7], np.int64), np.array(2.5, F)])


@sweep("Mod")
def modulo(c, op, v):
    for fmod in (0, 1):
        for dtype in INTS:
            x = data(8, dtype=dtype, low=-9, high=9)
            y = np.array([2, 3, 5, 7, -2, -3, -5, -7])
            y = (abs(y) if np.dtype(dtype).kind == "u" else y).astype(dtype)
            yield c([x, y], {"fmod": fmod})
    for dtype in (F, *FLOATS):
        yield c([np.array([-5.5, 5.5, 4.25, -4.25, 0.0, 7.0], dtype),
                 np.array([2, 2, -1.5, 1.5, 3, np.inf], dtype)], {"fmod": 1})


@sweep("PRelu")
def prelu(c, op, v):
    x = data(2, 3, 4)
    for slope in (0.0, -0.5, 0.3, 4.0):
        yield c([x, np.full((3,) if v < 7 else (3, 1), slope, F)], const=(1,))
    yield c([x, data(1, seed=3)])
    if v >= 7:
        yield c([x, data(4, seed=3)], unknown=True)
        yield c([EDGES, np.float32([0.5])])
        for dtype in (D, H, *((np.int32, np.int64, np.uint32, np.uint64) if v >= 9 else ())):
            yield c([data(2, 3, dtype=dtype), np.array([2], dtype)])


@sweep("Max", "Min", "Sum", "Mean")
def any_number(c, op, v):
    a, b, d = data(2, 3), data(2, 3, seed=5), data(2, 3, seed=9)
    for inputs in ([a], [a, b], [a, b, d]):
        yield c(inputs)
    yield c([EDGES, EDGES[::-1].copy()])
    yield c([EDGES[::-1].copy(), np.zeros(len(EDGES), F)])
    if v >= 8:
        yield c([a, b[0], np.float32(0.1)], unknown=True)
        yield c([data(2, 1), data(1, 3, seed=2)], const=(0,))
        for dtype in FLOATS:
            yield c([a.astype(dtype), b.astype(dtype)])
    if v >= 12 and op in ("Max", "Min"):
        for dtype in INTS:
            yield c([data(2, 3, dtype=dtype), data(3, dtype=dtype, seed=4)])


@sweep("Where")
def where(c, op, v):
    for dtype in (F, D, H, np.int64, np.int32, np.uint8, bool):
        yield c([data(2, 3, dtype=bool), data(2, 3, dtype=dtype), data(3, dtype=dtype, seed=3)])
    yield c([data(2, 1, dtype=bool), data(1, 3), np.float32(1)], unknown=True)
    yield c([np.array(True), EDGES, EDGES[::-1].copy()])


@sweep("SwiGLU")
def swiglu(c, op, v):
    for attributes in ({}, {"alpha": 1.7}, {"alpha": 0.0}):
        yield c([data(2, 3), data(2, 3, seed=4)], attributes)


# types
@sweep("Cast")
def cast(c, op, v):
    if v < 6:
        for to in ("FLOAT", "INT32", "BOOL"):
            yield c([data(2, 3)], {"to": to})
        return
    kinds = (F, D, H, bool, *INTS) if v in (6, 13, 19) else (F, np.int32, bool)
    numbers = (1, 11, 10, 9, 3, 5, 6, 7, 2, 4, 12, 13) if v in (6, 13, 19) else (1, 10, 7, 9, 2)
    for source in kinds:
        for to in numbers:
            low = 0 if to in (2, 4, 12, 13) else -3
            yield c([data(5, dtype=source, low=low, high=9)], {"to": to})
    yield c([EDGES], {"to": 9})
    yield c([EDGES], {"to": 11})
    yield c([EDGES], {"to": 10})
    yield c([np.array([300, -1, 65537, 1 << 40], np.int64)], {"to": 2})
    yield c([np.array([300, -1, 65537, 1 << 40], np.int64)], {"to": 6})
    yield c([np.array([1e5, 65504, 65520, 1e-8, 6e-8], F)], {"to": 10})
    if v >= 9:
        numbers = np.array([1, 1.5, -0.25, 1e10, 1e-5, 3.14159274, 0.1, 100, np.nan, np.inf,
                            -np.inf, 123456789], F)
        yield c([numbers], {"to": 8})
        yield c([numbers.astype(D)], {"to": 8})
        yield c([data(4, dtype=np.int32, low=-9)], {"to": 8})
        yield c([np.array(["1", "-2.5", "1e3", "inf", "-INF", "NaN", "+4"], object)], {"to": 1})
        yield c([np.array(["1", "-2", "77"], object)], {"to": 7})
        yield c([np.array(["1", "-2", "77"], object)], {"to": 6})


@sweep("CastLike")
def cast_like(c, op, v):
    for source in (F, np.int64, bool):
        for target in (D, H, np.int32, np.uint8, bool):
            yield c([data(4, dtype=source, low=0), np.zeros(2, target)])


@sweep("BitCast")
def bit_cast(c, op, v):
    for source, to in ((F, 6), (np.int32, 1), (F, 12), (D, 7), (H, 5), (np.uint8, 3),
                       (np.int64, 11)):
        yield c([data(4, dtype=source)], {"to": to})


# reductions
@sweep("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
       "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
def reduce(c, op, v):
    low = 0.1 if op == "ReduceLogSum" else -2.0
    x = data(2, 3, 4, low=low)
    by_input = v >= (13 if op == "ReduceSum" else 18)

    def made(x, axes, attributes, const=(1,), **more):
        if by_input:
            return c([x] if axes is None else [x, ints(*axes)], attributes, const=const, **more)
        return c([x], {**attributes, **({} if axes is None else {"axes": list(axes)})}, **more)
    for keep in (0, 1):
        for axes in (None, [0], [-1], [1, 2], [0, -1], [0, 1, 2]):
            yield made(x, axes, {"keepdims": keep})
    yield made(x, [1], {})
    yield made(x, [1], {"keepdims": 0}, unknown=True)
    yield made(x, None, {}, unknown=True)
    yield made(np.float32(2.5), None, {})
    yield made(data(3, low=low), [0], {"keepdims": 0})
    yield made(data(2, 0, 3), [0], {"keepdims": 0})
    for axes in ([1], None):
        yield made(data(2, 0, 3), axes, {"keepdims": 1})
    if by_input:
        for noop in (0, 1):
            for axes in (None, []):
                for const in ((1,), ()):
                    yield made(x, axes, {"noop_with_empty_axes": noop}, const=const)
            yield made(x, [1], {"noop_with_empty_axes": noop}, const=())
        yield made(x, [-1, 0], {"keepdims": 0}, const=(), unknown=True)
    for dtype in (D, np.int32, np.int64, *((np.int8, np.uint8) if v >= 12 and "M" in op else ())):
        yield made(data(2, 3, dtype=dtype, low=1, high=5), [1], {})
        yield made(data(2, 3, dtype=dtype, low=1, high=5), None, {"keepdims": 0})
    yield made(data(2, 3, dtype=H, low=0.5, high=2), [1], {})
    if v >= 20:
        yield made(data(2, 3, dtype=bool), [1], {})
    for row in ([np.inf, 1], [-np.inf, -np.inf], [np.nan, 1], [-np.inf, 2], [np.inf, -np.inf],
                [1, np.nan], [100.0, 100.0], [0.0, 0.0]):
        yield made(np.array([row], F), [1], {})


@sweep("ArgMax", "ArgMin")
def arg_extreme(c, op, v):
    x = data(2, 3, 4)
    for axis in (None, 0, 1, -1):
        for keep in (0, 1):
            yield c([x], {**({} if axis is None else {"axis": axis}), "keepdims": keep})
    ties = np.array([[1, 3, 3, 1], [2, 2, 2, 2]], F)
    yield c([ties], {"axis": 1})
    if v >= 12:
        for last in (0, 1):
            yield c([ties], {"axis": 1, "select_last_index": last})
            yield c([ties], {"axis": -1, "select_last_index": last, "keepdims": 0}, unknown=True)
    for dtype in (np.int32, D, *((np.int8, np.uint8) if v >= 11 else ())):
        yield c([data(2, 3, dtype=dtype)], {"axis": 1})
    yield c([data(4)])


@sweep("CumSum", "CumProd")
def running(c, op, v):
    for exclusive in (0, 1):
        for reverse in (0, 1):
            for axis in (0, 1, -1):
                yield c([data(2, 3, 2, high=2), np.array(axis, np.int64)],
                        {"exclusive": exclusive, "reverse": reverse}, const=(1,))
    yield c([data(2, 3), np.array(-1, np.int32)], unknown=True)
    yield c([data(2, 3), ints(0)], const=(1,))
    yield c([data(0, 3), np.array(0)], const=(1,))
    yield c([data(2, 3), np.array(2)], const=(1,))
    for dtype in (np.int32, np.int64, D):
        yield c([data(2, 3, dtype=dtype, low=1), np.array(1)], const=(1,))


@sweep("Softmax", "LogSoftmax", "Hardmax")
def over_axis(c, op, v):
    yield c([data(5)])
    yield c([data(2, 3, 4)])
    for axis in (0, 1, 2, -1, -2, -3):
        yield c([data(2, 3, 4)], {"axis": axis}, unknown=axis in (1, -1))
        yield c([data(2, 3, 4, seed=4)], {"axis": axis}, const=(0,))
    yield c([data(2, 3, 2, 2)], {"axis": 2})
    yield c([data(4)], {"axis": 0})
    yield c([data(0, 3)], {"axis": 1})
    for row in ([np.inf, 1], [-np.inf, -np.inf], [np.nan, 1], [-np.inf, 2], [1000, -1000],
                [2, 2]):
        yield c([np.array([row], F)], {"axis": 1})
    yield c([data(2, 3, dtype=D)], {"axis": 1})
    if op != "Hardmax":
        yield c([data(2, 3, dtype=H)], {"axis": 1})


# products
@sweep("MatMul")
def matmul(c, op, v):
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)),
                 ((2, 1, 3, 4), (5, 4, 2)),
                 ((2, 3, 4), (4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((0, 3), (3, 2)),
                 ((2, 0), (0, 3)), ((1, 0, 3), (3, 4))):
        yield c([data(*a), data(*b, seed=4)])
        yield c([data(*a), data(*b, seed=4)], const=(1,), unknown=True)
        yield c([data(*a), data(*b, seed=4)], unknown=True)
    for dtype in (D, *((np.int32, np.int64, np.uint32, np.uint64) if v >= 9 else ())):
        yield c([data(2, 3, dtype=dtype), data(3, 2, dtype=dtype, seed=2)])


@sweep("Gemm")
def gemm(c, op, v):
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = data(*((3, 2) if ta else (2, 3))), data(*((4, 3) if tb else (3, 4)), seed=2)
            for const in ((), (1, 2)):
                yield c([a, b, data(2, 4, seed=3)], {"transA": ta, "transB": tb}, const=const)
            yield c([a, b, data(2, 4, seed=3)], {"transA": ta, "transB": tb}, unknown=True)
    a, b, add = data(2, 3), data(3, 4, seed=2), data(4, seed=3)
    wide = {} if v >= 7 else {"broadcast": 1}
    for alpha in (0.0, 0.5, -2.0):
        for beta in (0.0, 1.0, -0.5):
            for const in ((), (1, 2)):
                yield c([a, b, add], {"alpha": alpha, "beta": beta, **wide}, const=const)
    if v >= 7:
        for shape in ((2, 1), (1, 4), (1,), (), (1, 1)):
            yield c([a, b, data(*shape)])
            yield c([a, b, data(*shape)], const=(1, 2))
    if v >= 11:
        yield c([a, b])
        yield c([a, b], {"beta": 3.0, "alpha": 2.0})
    yield c([a, b, np.full(4, np.nan, F)], {"beta": 0.0, **wide})
    yield c([data(0, 3), b, add], wide)
    yield c([data(2, 0), data(0, 4), add], wide)
    if v >= 9:
        for dtype in (np.int32, np.int64, D):
            yield c([data(2, 3, dtype=dtype), data(3, 2, dtype=dtype), data(2, dtype=dtype)])


@sweep("Einsum")
def einsum(c, op, v):
    for equation, *shapes in (
            ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii->i", (3, 3)),
            ("ii", (3, 3)),
            ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
            ("...ij,...jk->...ik", (2, 3, 4), (4, 2)), ("i,j->ij", (2,), (3,)),
            ("bhwc,hkc->bhwk", (1, 2, 3, 4), (2, 3, 4)), ("ij,ij->ij", (2, 3), (2, 3)),
            ("...i->...", (2, 3)), ("i...->...", (2, 3)), ("b i , b j -> b i j", (2, 3), (2, 4)),
            ("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)), ("ba", (2, 3)), ("ij,i->ij", (2, 3), (2,))):
        inputs = [data(*s, seed=k) for k, s in enumerate(shapes)]
        yield c(inputs, {"equation": equation})
        yield c(inputs, {"equation": equation}, unknown=True)
    yield c([data(2, 3, dtype=D), data(3, 2, dtype=D)], {"equation": "ij,jk->ik"})
    yield c([data(2, 3, dtype=np.int64), data(3, 2, dtype=np.int64)], {"equation": "ij,jk->ik"})


@sweep("Det")
def det(c, op, v):
    yield c([data(3, 3)])
    yield c([data(2, 2, 2)], unknown=True)
    yield c([np.ones((2, 2), F)])
    yield c([data(3, 3, dtype=D)])
    yield c([data(1, 1)])


# normalisations
EPSILONS = (None, 0.0, 1e-12, 1e-8, 1e-3, 0.5)


def _epsilon(value):
    return {} if value is None else {"epsilon": value}


@sweep("BatchNormalization")
def batch_normalization(c, op, v):
    def made(shape, attributes=(), dtype=F, small=False, **more):
        k = shape[1]
        variance = np.full(k, 1e-6, dtype) if small else data(k, dtype=dtype, seed=4, low=0.1)
        return c([data(*shape, dtype=dtype), data(k, dtype=dtype, seed=2),
                  data(k, dtype=dtype, seed=3), data(k, dtype=dtype, seed=5), variance],
                 attributes, **more)
    plain = {"is_test": 1} if v < 7 else {}
    for epsilon in EPSILONS:
        for small in (False, True):
            yield made((2, 3, 2, 2), {**plain, **_epsilon(epsilon)}, small=small,
                       const=(1, 2, 3, 4))
    for shape in ((2, 3), (2, 3, 4), (1, 3, 2, 2, 2), (0, 3, 2, 2), (2, 3, 2, 2)):
        yield made(shape, plain)
        yield made(shape, plain, unknown=True)
        yield made(shape, {**plain, "epsilon": 1e-8}, const=(1, 2, 3, 4), unknown=True)
    yield made((2, 3, 2, 2), {**plain, "momentum": 0.5})
    yield made((2, 3, 2, 2), {**plain, "epsilon": 1e-8}, dtype=D)
    if v < 9:
        yield made((2, 3, 2, 2), {**plain, "spatial": 1})
    if v >= 14:
        for momentum in ({}, {"momentum": 0.25}, {"momentum": 0.0}):
            yield made((2, 3, 2, 2), {"training_mode": 1, **momentum}, outputs=3)
            yield made((4, 3), {"training_mode": 1, "epsilon": 1e-3, **momentum}, outputs=3)


@sweep("InstanceNormalization")
def instance_normalization(c, op, v):
    for epsilon in EPSILONS[:1] + EPSILONS[2:]:
        for shape in ((2, 3, 4), (1, 3, 2, 3), (1, 2, 2, 2, 2)):
            k = shape[1]
            yield c([data(*shape, high=-2.9 if epsilon else 3.0), data(k, seed=2), data(k, seed=3)],
                    _epsilon(epsilon), unknown=shape[0] == 2,
                    const=(1, 2) if len(shape) == 4 else (),
                    tolerance=10)
    yield c([data(2, 3, 4, dtype=D), data(3, dtype=D), data(3, dtype=D)])
    yield c([data(2, 3, 4, dtype=H), data(3, dtype=H), data(3, dtype=H)])


@sweep("LayerNormalization", "RMSNormalization")
def layer_normalization(c, op, v):
    extra = 1 if op == "LayerNormalization" else 0
    for axis in (None, -1, 1, 0, -2, 2):
        at = -1 if axis is None else axis
        shape = (2, 3, 4)[at:]
        attributes = {} if axis is None else {"axis": axis}
        scale, bias = data(*shape, seed=2), data(*shape, seed=3)
        yield c([data(2, 3, 4), scale, *[bias] * extra], attributes)
        yield c([data(2, 3, 4), scale, *[bias] * extra], attributes, unknown=True)
    for epsilon in EPSILONS[:1] + EPSILONS[2:]:
        for high in (3.0, -2.999):
            yield c([data(2, 4, high=high, low=-3 if extra else 1e-4), data(4, seed=2)],
                    _epsilon(epsilon), tolerance=10)
    for dtype in FLOATS:
        for stash in (1,) if dtype is H else (1, 11):
            yield c([data(2, 4, dtype=dtype), data(4, dtype=dtype),
                     *[data(4, dtype=dtype)] * extra],
                    {"stash_type": stash})
    if extra:
        yield c([data(2, 3, 4), data(4), data(4, seed=3)], outputs=3)
        yield c([data(2, 3, 4), data(3, 4), data(3, 4, seed=3)], {"axis": 1}, outputs=3)


@sweep("GroupNormalization")
def group_normalization(c, op, v):
    for groups in (1, 2, 4):
        k = groups if v < 21 else 4
        for shape in ((2, 4, 3), (1, 4, 2, 2), (2, 4)):
            yield c([data(*shape), data(k, seed=2), data(k, seed=3)], {"num_groups": groups})
        yield c([data(2, 4, 3), data(k), data(k)], {"num_groups": groups, "epsilon": 0.1},
                unknown=True)
    yield c([data(2, 4, 3), data(4), data(4)], {"num_groups": 4, "epsilon": 1e-12})


@sweep("MeanVarianceNormalization")
def mean_variance(c, op, v):
    for attributes in ({}, {"axes": [2]}, {"axes": [0, 1]}, {"axes": [-1]}):
        yield c([data(2, 3, 2, 2)], attributes)
    yield c([np.ones((1, 2, 2, 2), F)])


@sweep("LpNormalization")
def lp_normalization(c, op, v):
    for p in (None, 1, 2):
        for axis in (None, 0, 1, -1):
            yield c([data(2, 3)], {**({} if p is None else {"p": p}),
                                   **({} if axis is None else {"axis": axis})})
    yield c([np.zeros((2, 3), F)], {"p": 2}, unknown=True)
    yield c([data(2, 3, dtype=D)], {"p": 1})


@sweep("LRN")
def lrn(c, op, v):
    for size in (1, 2, 3, 4, 5, 9):
        yield c([data(1, 5, 2, 2)], {"size": size})
        yield c([data(1, 5, 2, 2)], {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 2.0},
                unknown=True)
    yield c([data(1, 5, 3)], {"size": 3, "alpha": 0.1})
    yield c([data(1, 5, 2, 2)], {"size": 3, "alpha": -0.001, "beta": 1.0, "bias": 1.0})


@sweep("Dropout")
def dropout(c, op, v):
    attributes = {"is_test": 1} if v < 7 else {}
    for outputs in (1, 2):
        yield c([data(2, 3)], attributes, outputs=outputs)
        if v < 12:
            yield c([data(2, 3)], {**attributes, "ratio": 0.9}, outputs=outputs)
            continue
        for inputs in ([np.float32(0.9)], [np.float32(0.9), np.array(False)],
                       [np.float32(0), np.array(True)], [None, np.array(False)]):
            yield c([data(2, 3), *inputs], outputs=outputs)
            yield c([data(2, 3), *inputs], outputs=outputs, const=(1, 2))
        yield c([data(9, 9), np.float32(0.5), np.array(True)], outputs=outputs, loose=True,
                const=(1, 2))


# quantised numbers
@sweep("QuantizeLinear")
def quantize_linear(c, op, v):
    x = np.array([[-1e4, -1.0, -0.5, 0.0], [0.5, 1.5, 2.5, 1e4]], F)
    zeros = [np.uint8(3), np.int8(-3)]
    if v >= 21:
        zeros += [np.int16(-300), np.uint16(300)]
    for zero in zeros:
        yield c([x, np.float32(0.5), np.array(zero)])
        yield c([x, np.float32(0.5), np.array(zero)], const=(1, 2), unknown=True)
    yield c([x, np.float32(0.5)])
    yield c([data(2, 3, dtype=np.int32, low=-99, high=300), np.float32(2), np.array(np.uint8(1))])
    if v >= 13:
        for axis in (None, 0, 1, -1, -2):
            k = 2 if axis in (0, -2) else 4
            yield c([x, data(k, low=0.1), data(k, dtype=np.uint8, high=9)],
                    {} if axis is None else {"axis": axis})
    if v >= 19:
        yield c([x.astype(H) / H(100), np.array(0.5, H), np.array(np.int8(1))])
    if v >= 21:
        yield c([x, data(2, 2, low=0.1)], {"block_size": 2, "axis": 1, "output_dtype": 3})
        yield c([x, data(1, 4, low=0.1), data(1, 4, dtype=np.int8)], {"block_size": 2, "axis": 0})
        for number in (2, 3, 4, 5):
            yield c([x, np.float32(0.5)], {"output_dtype": number})


@sweep("DequantizeLinear")
def dequantize_linear(c, op, v):
    for dtype in (np.uint8, np.int8, np.int32, *((np.int16, np.uint16) if v >= 21 else ())):
        x = data(2, 4, dtype=dtype, low=-9, high=99)
        if dtype is not np.int32:
            yield c([x, np.float32(0.3), np.array(3, dtype)])
        yield c([x, np.float32(0.3)], unknown=True)
    x = data(2, 4, dtype=np.int8, low=-99, high=99)
    if v >= 13:
        for axis in (None, 0, 1, -1, -2):
            k = 2 if axis in (0, -2) else 4
            yield c([x, data(k, low=0.1), data(k, dtype=np.int8)],
                    {} if axis is None else {"axis": axis})
    if v >= 19:
        yield c([x, np.array(0.3, H), np.array(1, np.int8)])
    if v >= 21:
        yield c([x, data(2, 2, low=0.1), data(2, 2, dtype=np.int8)], {"block_size": 2, "axis": 1})
        yield c([x, data(1, 4, low=0.1)], {"block_size": 2, "axis": 0})


@sweep("DynamicQuantizeLinear")
def dynamic_quantize_linear(c, op, v):
    for x in (data(2, 3), data(2, 3, low=1), data(2, 3, high=-1), np.zeros(3, F), EDGES[5:]):
        yield c([x], outputs=3)


@sweep("MatMulInteger")
def matmul_integer(c, op, v):
    for a in (np.uint8, np.int8):
        for b in (np.uint8, np.int8):
            x, y = data(2, 3, dtype=a, high=200), data(3, 4, dtype=b, seed=3, high=120)
            yield c([x, y])
            yield c([x, y, np.array(3, a), np.array(2, b)])
    x, y = data(2, 3, dtype=np.uint8, high=200), data(3, 4, dtype=np.int8)
    yield c([x, y, None, np.array([1, 2, 3, -4], np.int8)], const=(1, 3))
    yield c([x, y, ints(9, dtype=np.uint8)], unknown=True)
    yield c([data(2, 2, 3, dtype=np.uint8), y], unknown=True)


@sweep("QLinearMatMul")
def qlinear_matmul(c, op, v):
    for dtype in (np.uint8, np.int8):
        a, b = data(2, 3, dtype=dtype, high=90), data(3, 4, dtype=dtype, seed=3, high=90)
        point = np.array(5, dtype)
        for scale in (0.02, 0.5, 30.0):
            yield c([a, np.float32(0.1), point, b, np.float32(0.2), point, np.float32(scale),
                     point])
        yield c([a, np.float32(0.1), point, b, data(4, low=0.1, seed=2), np.full(4, 2, dtype),
                 np.float32(0.5), point], const=(3, 4, 5))
