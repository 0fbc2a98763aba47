"""Which module of pyflow.interop.onnx.ops converts which ops.

Written by `make tables` (pyflow/tools/tables.py); do not edit.
"""

OP_FAMILIES = {
    "array":
        "Concat DepthToSpace EyeLike NonZero OneHot Range ReverseSequence Slice SpaceToDepth "
        "Split Tile Trilu",
    "attention":
        "Attention CausalConvWithState RotaryEmbedding ai.onnx.preview.FlexAttention",
    "control_flow":
        "If Loop OptionalGetElement OptionalHasElement Scan",
    "conv":
        "Conv ConvInteger ConvTranspose",
    "elementwise":
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot "
        "BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor "
        "Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less "
        "LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round "
        "Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh "
        "ThresholdedRelu Where Xor",
    "image":
        "ImageDecoder NonMaxSuppression",
    "indexing":
        "ArgMax ArgMin Compress Gather GatherElements GatherND Scatter ScatterElements ScatterND "
        "TensorScatter TopK Unique",
    "linear":
        "ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.SVMClassifier "
        "ai.onnx.ml.SVMRegressor",
    "linear_attention":
        "LinearAttention",
    "loss":
        "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "maps":
        "ai.onnx.ml.CastMap ai.onnx.ml.DictVectorizer ai.onnx.ml.ZipMap",
    "matmul":
        "Det Einsum Gemm MatMul",
    "microsoft":
        "SimplifiedLayerNormalization com.microsoft.BiasAdd com.microsoft.BiasDropout "
        "com.microsoft.BiasGelu com.microsoft.BiasSoftmax com.microsoft.BiasSplitGelu "
        "com.microsoft.ConvTransposeWithDynamicPads com.microsoft.EmbedLayerNormalization "
        "com.microsoft.FastGelu com.microsoft.FusedConv com.microsoft.FusedGemm "
        "com.microsoft.FusedMatMul com.microsoft.FusedMatMulActivation com.microsoft.Gelu "
        "com.microsoft.GroupNorm com.microsoft.LayerNormalization com.microsoft.NhwcMaxPool "
        "com.microsoft.QuickGelu com.microsoft.SimplifiedLayerNormalization "
        "com.microsoft.SkipGroupNorm com.microsoft.SkipLayerNormalization "
        "com.microsoft.SkipSimplifiedLayerNormalization com.microsoft.TransposeMatMul",
    "microsoft_array":
        "com.microsoft.ComplexMul com.microsoft.ComplexMulConj com.microsoft.CropAndResize "
        "com.microsoft.ExpandDims com.microsoft.GatherND com.microsoft.Inverse "
        "com.microsoft.Irfft com.microsoft.IsAllFinite com.microsoft.Pad com.microsoft.Range "
        "com.microsoft.RemovePadding com.microsoft.RestorePadding com.microsoft.Rfft "
        "com.microsoft.TorchEmbedding com.microsoft.Trilu com.microsoft.UnfoldTensor "
        "com.microsoft.Unique",
    "microsoft_attention":
        "com.microsoft.Attention com.microsoft.DecoderMaskedMultiHeadAttention "
        "com.microsoft.GroupQueryAttention com.microsoft.MultiHeadAttention "
        "com.microsoft.QAttention com.microsoft.RelativePositionBias "
        "com.microsoft.RotaryEmbedding",
    "microsoft_packed":
        "com.microsoft.GatherBlockQuantized com.microsoft.MatMulNBits",
    "microsoft_quantized":
        "com.microsoft.DequantizeLinear com.microsoft.DynamicQuantizeLSTM "
        "com.microsoft.DynamicQuantizeLinear com.microsoft.DynamicQuantizeMatMul "
        "com.microsoft.MatMulIntegerToFloat com.microsoft.QGemm com.microsoft.QLinearAdd "
        "com.microsoft.QLinearAveragePool com.microsoft.QLinearConcat com.microsoft.QLinearConv "
        "com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearLeakyRelu "
        "com.microsoft.QLinearMul com.microsoft.QLinearReduceMean com.microsoft.QLinearSigmoid "
        "com.microsoft.QLinearSoftmax com.microsoft.QLinearWhere com.microsoft.QuantizeLinear",
    "ml":
        "ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.CategoryMapper "
        "ai.onnx.ml.FeatureVectorizer ai.onnx.ml.Imputer ai.onnx.ml.LabelEncoder "
        "ai.onnx.ml.Normalizer ai.onnx.ml.OneHotEncoder ai.onnx.ml.Scaler",
    "norm":
        "BatchNormalization Dropout GroupNormalization InstanceNormalization LRN "
        "LayerNormalization LpNormalization MeanVarianceNormalization RMSNormalization",
    "pad":
        "CenterCropPad Pad",
    "pool":
        "AveragePool Col2Im GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool MaxUnpool",
    "quantized":
        "DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul "
        "QuantizeLinear",
    "random":
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "recurrent":
        "GRU LSTM RNN",
    "reduce":
        "CumProd CumSum Hardmax LogSoftmax ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax",
    "resize":
        "Resize Upsample",
    "sampling":
        "AffineGrid DeformConv GridSample RoiAlign",
    "sequence":
        "ConcatFromSequence Optional SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
        "SequenceInsert SequenceLength SequenceMap SplitToSequence",
    "shape":
        "Constant ConstantOfShape Expand Flatten Reshape Shape Size Squeeze Transpose Unsqueeze",
    "signal":
        "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    "text":
        "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "trees":
        "ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier "
        "ai.onnx.ml.TreeEnsembleRegressor",
}
