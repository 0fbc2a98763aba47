"""How far apart two right results of an op may lie, given equal inputs: its rounding bound.

    class          bound of |a - b|                                      u = eps / 2 of the type
    exact          0: whole numbers, bool, strings, and floats that are only moved, chosen or
                   compared
    element-wise   2 k ulp of the result; k is in ULPS: 1 for what IEEE rounds, and for library
                   functions what plugins/cpu/kernels/vec/vmath.h documents, rounded up
    sums           2 c(n) u S + 2 ulp of the result, where S is the op on absolute values in
                   float64 (sum |a||b|), n the terms of a sum, and c(n) = min(n, 8 sqrt(n)) + 2:
                   the forward bound n u S, or where it is less Higham and Mary's (2019)
                   probabilistic one
    normalising    softmax, norms, resizing, transforms: a formula each, below
    default        any other op: 8 times what its result moves when its inputs move by 4 u, three
                   times at random, + 128 u max|result|; 1024 u max|result| where it cannot be run
                   again

Invariants
    1. Both sides may err: bounds are twice that of one result against the true one.
    2. 3x3 convolutions of step 1 may be summed by Winograd's way, whose error follows the largest S
       of the neighbourhood: S is the largest of its image and channel there.

Sources: Higham, Accuracy and Stability of Numerical Algorithms, 3.1, 3.5, 4.2, 24.1.
Threads: functions without state.

    rounding.bounds(op, [x, w], [y], run)       # [array that broadcasts with y]
"""
import numpy as np

EXACT = frozenset("""
    Abs BatchToSpace BatchToSpaceND Bitcast BroadcastTo Ceil CheckNumerics ClipByValue Concat
    ConcatV2 Conj ConjugateTranspose Const DepthToSpace DestroyTemporaryVariable Diag DiagPart
    DynamicPartition DynamicStitch Empty EnsureShape Enter Exit ExpandDims ExtractImagePatches
    ExtractVolumePatches Fill Floor FractionalMaxPool Gather GatherNd GatherV2 Identity IdentityN
    Imag MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2
    MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Max MaxPool MaxPool3D MaxPoolV2
    MaxPoolWithArgmax Maximum Merge Min Minimum MirrorPad Neg NextIteration NonMaxSuppression OneHot
    OnesLike Pack Pad PadV2 ParallelDynamicStitch Placeholder PlaceholderV2 PlaceholderWithDefault
    PreventGradient ReadVariableOp Real RefIdentity Relu Relu6 Relu6Grad ReluGrad Reshape
    ResizeNearestNeighbor ResourceGather ResourceGatherNd Reverse ReverseSequence ReverseV2 Rint
    Roll Round ScatterUpdate SegmentMax SegmentMin Select SelectV2 Sign Slice Snapshot SpaceToBatch
    SpaceToBatchND SpaceToDepth SparseReorder SparseReshape SparseSlice SparseToDense Split SplitV
    Squeeze StopGradient StridedSlice StridedSliceGrad Switch TensorListGetItem TensorListStack
    TensorScatterUpdate Tile TopK TopKV2 Transpose UnsortedSegmentMax UnsortedSegmentMin Unpack
    VarHandleOp Variable VariableV2 Where ZerosLike""".split())

ULPS = {
    1: "Add AddV2 BiasAdd BiasAddV1 Cast Div DivNoNan Inv Mul MulNoNan RealDiv Reciprocal Sqrt "
       "Square Sub",
    2: "Exp Expm1 FloorDiv FloorMod LeakyRelu LeakyReluGrad LinSpace Log Log1p Mod Range Rsqrt "
       "SquaredDifference TruncateMod Complex ComplexAbs",
    4: "Acos Acosh Angle Asin Asinh Atan Atan2 Atanh Cos Cosh Elu EluGrad Erf Erfc "
       "ReciprocalGrad RsqrtGrad Selu SeluGrad Sigmoid SigmoidGrad Sin Sinh Softplus SoftplusGrad "
       "Softsign SoftsignGrad SqrtGrad Xdivy Xlogy Xlog1py InvGrad",
    8: "Erfinv Ndtri Pow Tan Tanh TanhGrad",
    32: "BesselI0 BesselI0e BesselI1 BesselI1e Cumprod Digamma Igamma Igammac Lgamma LRN Prod "
        "HSVToRGB RGBToHSV AdjustContrastv2 AdjustHue AdjustSaturation EuclideanNorm",
}
_ULPS = {name: k for k, names in ULPS.items() for name in names.split()}
# Near their zeros these are right only to an ulp of 1: the argument, 1 + x, or e^x - 1 was rounded.
_NEAR_ZERO = frozenset(("Elu", "Selu", "Sin", "Cos", "Tan", "Lgamma", "Digamma", "Log", "Log1p",
                        "Acos", "RGBToHSV", "Xlogy", "Xlog1py"))

SUMS = frozenset("""
    AccumulateNV2 AddN AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BatchMatMul BatchMatMulV2
    BiasAddGrad Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2
    Conv3DBackpropInputV2 Cumsum DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Einsum FractionalAvgPool L2Loss MatMul Mean ResizeArea
    ScatterNd SegmentMean SegmentSum SparseMatMul SparseReduceSum SparseSegmentMean
    SparseSegmentSqrtN SparseSegmentSum SparseTensorDenseMatMul Sum TensorScatterAdd
    TridiagonalMatMul UnsortedSegmentSum""".split())


def eps_of(dtype):
    """The distance from 1 to the next number of a floating or complex type; 0 of others."""
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return float(np.finfo(dtype).eps)
    if dtype.kind == "V" and dtype.fields is None and dtype.itemsize in (1, 2):
        import ml_dtypes
        try:
            return float(ml_dtypes.finfo(dtype).eps)
        except ValueError:
            return 0.0
    return 0.0


def is_float(array):
    """Whether the array has numbers that are rounded."""
    return eps_of(array.dtype) > 0


def wide(array):
    """The array in float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def bounds(op, inputs, outputs, run):
    """One bound for each output: an array that broadcasts with it, in its units; 0 for what is
    exact.

    op: the Operation.  inputs, outputs: its arrays.  run(arrays, wide=False): the op's outputs for
    other arrays, in float64 if `wide`; None where it cannot be run.
    """
    if op.type in EXACT or not any(is_float(y) for y in outputs):
        return [np.float64(0)] * len(outputs)
    with np.errstate(all="ignore"):
        if op.type in _ULPS:
            found = [_ulps(y, _ULPS[op.type], op.type in _NEAR_ZERO) for y in outputs]
        else:
            rule = _RULES.get(op.type) or (_sums if op.type in SUMS else None)
            found = rule(op, inputs, outputs, run) if rule else None
            if found is None:
                found = default(inputs, outputs, run)
        return [b if is_float(y) else np.float64(0) for b, y in zip(found, outputs)]


def default(inputs, outputs, run):
    """The bound of an op without a rule: see the head of this file."""
    found = [1024 * eps_of(y.dtype) / 2 * _largest(y) for y in outputs]
    moved = moves(inputs, [4 * eps_of(x.dtype) / 2 * np.abs(wide(x)) if is_float(x) else None
                           for x in inputs], outputs, run)
    if moved is None:
        return found
    return [128 * eps_of(y.dtype) / 2 * _largest(y) + 8 * by if is_float(y) else np.float64(0)
            for y, by in zip(outputs, moved)]


def moves(inputs, errors, outputs, run, draws=3):
    """How far each output moves when the inputs move by their errors (arrays, or None: not at all),
    with signs drawn at random; None where the op cannot be run.

    Single elements may have been lucky: each moves by no less than a quarter of the mean."""
    rng, found = np.random.default_rng(0), [np.zeros(np.shape(y)) for y in outputs]
    for _ in range(draws):
        moved = [x if e is None else _moved(x, e, rng) for x, e in zip(inputs, errors)]
        results = run(moved)
        if results is None:
            return None
        for i, (y, other) in enumerate(zip(outputs, results)):
            if np.shape(other) != np.shape(y) or y.dtype.kind in "OSU":
                continue
            by = np.abs(wide(np.asarray(other)) - wide(y))
            found[i] = np.fmax(found[i], np.where(np.isfinite(by), by, 0))
    return [np.maximum(by, by.mean() / 4) if by.size and is_float(y) else by
            for by, y in zip(found, outputs)]


def _moved(x, error, rng):
    signs = rng.integers(0, 2, np.shape(x)) * 2 - 1
    with np.errstate(all="ignore"):
        return (wide(x) + signs * error).astype(x.dtype)


def _largest(y):
    """The largest finite magnitude; 0 of none."""
    if not is_float(y):
        return np.float64(0)
    y = np.abs(wide(y))
    return np.max(y, where=np.isfinite(y), initial=0.0)


def _tiny(dtype):
    """What may be flushed to zero."""
    dtype = np.dtype(dtype)
    return 2 * float(np.finfo(dtype).tiny) if dtype.kind in "fc" else 1e-37


def _ulps(y, k, near_zero=False):
    if not is_float(y):
        return np.float64(0)
    eps = eps_of(y.dtype)
    return 2 * k * eps * np.abs(wide(y)) + _tiny(y.dtype) + (2 * k * eps if near_zero else 0)


def _growth(n):
    return min(n, 8 * n ** 0.5) + 2


# ---------------------------------------------------------------- sums
def _sums(op, inputs, outputs, run):
    absolute = [np.abs(x) if is_float(x) else x for x in inputs]
    sums = run(absolute, wide=True)
    if sums is None:
        return None
    found = []
    for y, s in zip(outputs, sums):
        s = np.abs(wide(np.asarray(s)))
        if _may_be_winograd(op, inputs):
            s = s.max(axis=(1, 2) if op.attrs.get("data_format", "NHWC") == "NHWC" else (2, 3),
                      keepdims=True) * 4
        found.append(_growth(_terms(op, inputs, y)) * eps_of(y.dtype) * s + _ulps(y, 1))
    return found


def _may_be_winograd(op, inputs):
    return op.type == "Conv2D" and inputs[1].shape[:2] == (3, 3) and \
        set(op.attrs.get("strides", [1])) == {1} and set(op.attrs.get("dilations", [1])) == {1}


def _terms(op, inputs, y):
    """How many products or numbers an element of the result is a sum of."""
    sizes = [x.size for x in inputs] or [1]
    shapes = [x.shape for x in inputs]
    kind = op.type
    if kind in ("MatMul", "SparseMatMul"):
        return shapes[0][0 if op.attrs.get("transpose_a") else 1]
    if kind.startswith("BatchMatMul"):
        return shapes[0][-2 if op.attrs.get("adj_x") else -1]
    if kind in ("Conv2D", "Conv3D"):
        return max(1, int(np.prod(shapes[1][:-1])))
    if kind == "DepthwiseConv2dNative":
        return shapes[1][0] * shapes[1][1]
    if kind in ("Conv2DBackpropInput", "Conv3DBackpropInputV2"):
        return max(1, int(np.prod(shapes[1])) // max(1, shapes[1][-2]))
    if kind == "DepthwiseConv2dNativeBackpropInput":
        return max(1, int(np.prod(shapes[1][:2])) * shapes[1][3])
    if kind in ("AddN", "AccumulateNV2"):
        return len(inputs)
    if kind in ("AvgPool", "AvgPool3D", "AvgPoolGrad", "AvgPool3DGrad"):
        return max(1, int(np.prod(op.attrs.get("ksize", [1]))))
    if kind in ("Sum", "Mean", "BiasAddGrad", "L2Loss"):
        return max(1, sizes[0] // max(1, y.size))
    if kind in ("SparseTensorDenseMatMul", "Cumsum"):
        return max(1, sizes[0])
    return max(sizes)


# ---------------------------------------------------------------- formulas
def _softmax(op, inputs, outputs, run):
    """e^(x - max): a rounding of x - max is one of the result, relative."""
    x = wide(inputs[0])
    depth = x.max(axis=-1, keepdims=True) - x
    relative = 2 * eps_of(outputs[0].dtype) * (depth + _growth(x.shape[-1] or 1) / 2 + 4)
    if op.type == "LogSoftmax":
        return [relative + _ulps(outputs[0], 4)]
    return [relative * np.abs(wide(outputs[0])) + _tiny(outputs[0].dtype)]


def _cross_entropy(op, inputs, outputs, run):
    x, loss = wide(inputs[0]), outputs[0]
    depth = (x.max(axis=-1) - x.min(axis=-1)) if x.size else np.float64(0)
    labels = np.abs(wide(inputs[1])).sum(axis=-1) if op.type.startswith("Softmax") else 1.0
    eps = 2 * eps_of(loss.dtype) * (depth + _growth(x.shape[-1] or 1) / 2 + 4)
    return [eps * np.maximum(labels, 1), np.expand_dims(eps * np.maximum(labels, 1), -1)]


def _batch_norm(op, inputs, outputs, run):
    """(x - mean) scale / sqrt(variance + epsilon) + offset; statistics of the batch err as sums."""
    x, scale, offset = (wide(v) for v in inputs[:3])
    first = op.attrs.get("data_format", "NHWC") == "NCHW"
    axes = (0, *range(2, x.ndim)) if first else tuple(range(x.ndim - 1))
    wide_shape = [1] * x.ndim
    wide_shape[1 if first else -1] = -1
    training = op.attrs.get("is_training", True)
    epsilon, eps = op.attrs.get("epsilon", 1e-4), eps_of(outputs[0].dtype)
    eps = max(eps, 0.0)
    mean = x.mean(axis=axes) if training else wide(inputs[3])
    variance = x.var(axis=axes) if training else wide(inputs[4])
    n = max(1, x.size // max(1, scale.size)) if training else 1
    c = _growth(n) if training else 4
    size = np.abs(x).mean(axis=axes) if training else np.abs(mean)
    slope = np.abs(scale) / np.sqrt(np.abs(variance + epsilon))
    spread = lambda v: np.reshape(v, wide_shape)                                    # noqa: E731
    relative = c * (1 + size ** 2 / (np.abs(variance) + epsilon)) + 4
    distance = np.abs(x - spread(mean))
    y = eps * (spread(slope) * (np.abs(x) + spread(c * size) + spread(relative) * distance)
               + 2 * np.abs(spread(offset))) + _ulps(outputs[0], 1)
    found = [y]
    for kind, out in zip(("mean", "variance"), outputs[1:3]):
        found.append(eps_of(out.dtype) * c * (size if kind == "mean" else size ** 2 + variance)
                     + _ulps(out, 4) if training and out.shape == scale.shape else _ulps(out, 4))
    return found + [_ulps(out, 64) for out in outputs[3:]]


def _resize(op, inputs, outputs, run):
    """Places and weights are rounded: the error of a place grows with the size."""
    x, y = inputs[0], outputs[0]
    eps = max(eps_of(y.dtype), 1.2e-7)
    size = max(x.shape[1:3], default=1)
    return [np.float64((16 + 4 * size) * eps) * _largest(x if is_float(x) else x.astype(np.float32))
            + _ulps(y, 2)]


def _fourier(op, inputs, outputs, run):
    """Higham 24.1: log2(n) eps of the norm."""
    x, y = inputs[0], outputs[0]
    return [np.float64(16 * np.log2(max(2, max(x.size, y.size))) * eps_of(y.dtype)
                       * max(np.linalg.norm(wide(x)), _largest(y)))]


_RULES = {
    "Softmax": _softmax, "LogSoftmax": _softmax,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "FusedBatchNorm": _batch_norm, "FusedBatchNormV2": _batch_norm, "FusedBatchNormV3": _batch_norm,
    "ResizeBilinear": _resize, "ResizeBicubic": _resize, "CropAndResize": _resize,
    **{name: _fourier for name in ("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D", "RFFT",
                                   "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D")},
}
