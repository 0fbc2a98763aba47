"""The sweep: every op with a converter at the edges of its attributes, in each version of its
schema.

    for case in cases(): case.name, case.model(), case.feeds()

Cases are the same on every machine; test_sweep.py compares what pyflow makes of them with what
record_sweep.py wrote down of onnxruntime's answers.  VERSIONS holds the versions of ONNX 1.23's
schemas."""
import collections
import functools
import re
import zlib

import sweep_layers     # noqa: F401  families register themselves
import sweep_layout     # noqa: F401
import sweep_math       # noqa: F401
from sweep_model import FAMILIES, Case

_VERSIONS = """
1: Not
1 2 11 13 18: Split
1 2 11 13 18 19 21 23 24 25: Pad
1 2 11 18 22: LpPool
1 2 22: GlobalLpPool
1 3 7 14 22: GRU
1 4 11 13: Concat
1 5 13 14 19 21 23 24 25: Reshape
1 6 7 9 11 13: Gemm
1 6 7 9 14 15: BatchNormalization
1 6 7 9 16: PRelu
1 6 7 10 12 13 22: Dropout
1 6 7 13 14: Add Div Mul Sub
1 6 8 12 13: Max Min
1 6 8 13: Mean Sum
1 6 9 13 19 21 23 24 25 28: Cast
1 6 11 12 13: Clip
1 6 13: Abs Ceil Exp Floor Log Neg Reciprocal Sigmoid Sqrt Tanh Tile
1 6 13 14: Relu
1 6 16: LeakyRelu
1 6 22: Elu HardSigmoid InstanceNormalization Selu
1 7: And Or Xor
1 7 9 10: Upsample
1 7 9 13: Greater Less
1 7 10 11 19 22: AveragePool
1 7 11 13 19: Equal
1 7 12 13 15: Pow
1 7 14 22: LSTM RNN
1 8 10 11 12 22: MaxPool
1 9 11 12 13 19 21 23 24 25: Constant
1 9 11 13 21 23 24 25: Flatten
1 9 13: MatMul
1 10 11 13: Slice
1 10 11 24: TopK
1 11 12 13: ArgMax ArgMin
1 11 12 13 18 20: ReduceMax ReduceMin
1 11 13: Gather Hardmax LogSoftmax ReduceSum Softmax
1 11 13 16 19 21 23 24 25: If Loop
1 11 13 18: ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSumSquare
1 11 13 18 28: ReduceLogSum ReduceLogSumExp
1 11 13 21 23 24 25: Squeeze Unsqueeze
1 11 13 28: DepthToSpace
1 11 22: Conv ConvTranspose
1 13: LRN
1 13 14 16 19 21 23 24 25: Identity
1 13 15 19 21 23 24 25: Shape
1 13 19 21 23 24 25: Size
1 13 21 23 24 25: Transpose
1 13 28: SpaceToDepth
1 22: GlobalAveragePool GlobalMaxPool LpNormalization RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike Softplus Softsign
7 22: Acos Asin Atan Cos Multinomial Sin Tan
8 9 11 16 19 21 23 24 25: Scan
8 13: Expand
9: Shrink TfIdfVectorizer
9 11: Scatter
9 11 22: MaxUnpool
9 11 28: Compress OneHot
9 13: Erf MeanVarianceNormalization NonZero Sign
9 13 20: IsNaN
9 16: Where
9 20 21 23 24 25: ConstantOfShape
9 22: Acosh Asinh Atanh Cosh EyeLike Sinh
10: ConvInteger MatMulInteger QLinearConv StringNormalizer
10 11: NonMaxSuppression
10 11 13 18 19: Resize
10 13 19 21 23 24 25 28: DequantizeLinear QuantizeLinear
10 13 28: Mod
10 16 22: RoiAlign
10 20: IsInf
10 21: QLinearMatMul
10 22: ThresholdedRelu
10 28: ReverseSequence
11: DynamicQuantizeLinear
11 12 13: GatherND
11 13: GatherElements
11 13 16 18: ScatterElements ScatterND
11 14: CumSum
11 22: Det Round
11 27: Range
11 28: BitShift Unique
12 13: SoftmaxCrossEntropyLoss
12 13 22: NegativeLogLikelihoodLoss
12 16: GreaterOrEqual LessOrEqual
12 28: Celu Einsum
14: Trilu
14 22: HardSwish
15 18 28: OptionalGetElement OptionalHasElement
15 19 21 23 24 25: CastLike
15 22: Bernoulli
16 20 22: GridSample
17: BlackmanWindow HammingWindow HannWindow LayerNormalization MelWeightMatrix STFT
17 20: DFT
18: BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im
18 21: GroupNormalization
18 22: Mish
19 22: DeformConv
20: AffineGrid Gelu ImageDecoder RegexFullMatch StringConcat StringSplit
23: RMSNormalization RotaryEmbedding
23 24 25: Attention
24: Swish TensorScatter
26: BitCast CumProd
27: CausalConvWithState LinearAttention
28: SwiGLU
"""


def _versions():
    """{op: [version, ...]}."""
    found = {}
    for entry in re.split(r"\n(?=\d)", _VERSIONS.strip()):
        numbers, _, ops = entry.partition(":")
        found.update(dict.fromkeys(ops.split(), [int(n) for n in numbers.split()]))
    return found


VERSIONS = _versions()
_SEQUENCES = "a sequence is no input or output of a one-node case: ONNX's suite, test_backend.py"
UNSWEPT = {
    "SimplifiedLayerNormalization": "onnxruntime's own, test_microsoft.py",
    "ImageDecoder": "needs Pillow and an encoded picture: ONNX's suite, test_backend.py",
    **dict.fromkeys(("ConcatFromSequence", "Optional", "SequenceAt", "SequenceConstruct",
                     "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
                     "SequenceMap", "SplitToSequence"), _SEQUENCES)}

# Of the newest version, _FEW cases and one in _SHARE of the rest; _OLDER of each older one.
_FEW, _SHARE, _OLDER = 10, 6, 2


def cases(full=False):
    """Cases in a fixed order, those of one op together; full: all there are, else a share."""
    for op in sorted(FAMILIES):
        for version in VERSIONS[op]:
            found = _distinct(op, version)
            share = _OLDER
            if version == VERSIONS[op][-1]:
                share = _FEW + max(len(found) - _FEW, 0) // _SHARE
            kept = sorted(found, key=lambda name: zlib.crc32(name.encode()))
            kept = set(kept if full else kept[:share])
            yield from (case for name, case in found.items() if name in kept)


def _distinct(op, version):
    """{name: case} of one version; those that differ in values only are numbered."""
    alike = collections.defaultdict(list)
    for case in FAMILIES[op](functools.partial(Case, op, version), op, version):
        others = alike[case.name]
        if not others or case.digest() not in {other.digest() for other in others}:
            others.append(case)
    for name, several in alike.items():
        for number, case in enumerate(several, 1):
            case.name = f"{name} #{number}" if len(several) > 1 else name
    return {case.name: case for several in alike.values() for case in several}
