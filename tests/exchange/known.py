"""What is not equal between pyflow and TensorFlow when graphs are exchanged, and why.

`UNEQUAL` is by op and `NAMES` by program (a sample's without its number and types): their graphs
are imported, and what they give differs.  A peer's own limits (no kernel, a removed op, an
attribute or type that it does not have) are counted apart, those of the writer that cannot run a
program at all likewise.
"""
import re

UNEQUAL = {
    **dict.fromkeys((
        "AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler "
        "LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler "
        "FractionalAvgPool FractionalMaxPool Multinomial RandomGamma RandomPoisson "
        "RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt "
        "TruncatedNormal ParameterizedTruncatedNormal SampleDistortedBoundingBox "
        "SampleDistortedBoundingBoxV2 StatelessMultinomial").split(),
        "random numbers, of no or another seed's stream"),
    **dict.fromkeys("EncodeJpeg EncodePng ImageSummary".split(),
                    "compressed bytes; the picture is the same"),
    **dict.fromkeys("SelfAdjointEigV2 Svd Qr".split(), "vectors whose sign is free"),
    **dict.fromkeys("BlockLSTM BlockLSTMV2".split(),
                    "TensorFlow does not write what is behind the sequence's length"),
    **dict.fromkeys("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3".split(),
                    "the last two results, which nobody reads, are scalars in TensorFlow"),
    **dict.fromkeys("LookupTableExport LookupTableExportV2".split(), "in no order"),
    **dict.fromkeys("TensorSummary SerializeSparse".split(),
                    "bytes of messages; tests/shapes/known.py: nothing reads TensorFlow's"),
    "DecodeJSONExample": "TensorFlow does not pack the message's numbers",
    "ParseSequenceExampleV2": "of one example: TensorFlow's kernel leaves a row split unwritten",
}
EMPTY = "TensorFlow refuses, or does not survive, what is empty"
OLD = "TensorFlow 1.15's kernel is another one; 2.21's is as ours"
NAMES = {
    **dict.fromkeys(("sample:ConjugateTranspose sample:MaxPool sample:MaxPool3D "
                     "sample:MaxPool3DGrad sample:MaxPool3DGradGrad sample:UnravelIndex "
                     "sample:Reverse sample:CTCGreedyDecoder sample:EncodeWav "
                     "sample:FractionalAvgPool sample:FractionalMaxPool").split(), EMPTY),
    **dict.fromkeys(("sample:CumulativeLogsumexp sample:DecodePaddedRaw sample:EuclideanNorm "
                     "sample:NonMaxSuppressionV2 sample:NonMaxSuppressionV3 "
                     "sample:NonMaxSuppressionV4 sample:NonMaxSuppressionV5 sample:StringNGrams "
                     "sample:TruncateDiv sample:FusedBatchNorm sample:FusedBatchNormV2 "
                     "sample:FusedBatchNormV3 sample:EncodePng sample:CombinedNonMaxSuppression "
                     "sample:DrawBoundingBoxes sample:DrawBoundingBoxesV2 "
                     "case:non_max_suppression_soft case:non_max_suppression_overlaps "
                     "case:cumulative_logsumexp_exclusive case:older_batch_norm_False "
                     "case:older_batch_normV2_False case:unicode_script "
                     "case:strings_decode_raw_complex64 case:strings_decode_padded_raw "
                     "case:strings_ngrams_2_0 case:strings_unicode_encode case:zero_joined "
                     "case:segments_of_nan_both case:segments_of_nan_first "
                     "case:segments_of_nan_last").split(), OLD),
    **dict.fromkeys(("sample:DepthwiseConv2dNative sample:DepthwiseConv2dNativeBackpropFilter "
                     "sample:DepthwiseConv2dNativeBackpropInput").split(),
                    "TensorFlow's CPU kernels ignore dilations"),
    **dict.fromkeys(("sample:SparseSegmentMean sample:SparseSegmentMeanWithNumSegments "
                     "sample:SparseSegmentSqrtN sample:SparseSegmentSqrtNWithNumSegments "
                     "sample:SparseSegmentSum sample:SparseSegmentSumWithNumSegments").split(),
                    "TensorFlow's gradient of no segment reads what nobody wrote"),
    "case:ssim_multiscale": "TensorFlow's gradient is NaN where a contrast is 0",
    "sample:QuantizeAndDequantizeV2": "2.21 takes ranges of scalars alone",
    "sample:UnsortedSegmentJoin": "TensorFlow refuses segments that are dropped",
    "sample:SparseCross": "2.21 takes no dense inputs of this type",
    "sample:FractionalMaxPoolGrad": "the sample's regions are no maximum's",
    "sample:GatherNd": "static shapes refuse the gradient of no index, TensorFlow's own too",
    "value:while_in_cond": "TensorFlow gives two loops of gradients one frame, its own too",
    "script:state_critical_section": "in no order",
}
LIMITS = (
    (re.compile(r"No OpKernel was registered|Invalid argument type bfloat16|"
                r"only supports? (NHWC|NDHWC|channels)|Only NHWC"),
     "no kernel there"),
    (re.compile(r"is not available in GraphDef version"), "removed there"),
    (re.compile(r"is not in the list of allowed values"), "type unknown there"),
    (re.compile(r"NodeDef mentions attr"), "newer attribute, not at its default"),
)


def kind_of(name, result, writer, reader):
    """"ok", a kind that is explained, or "differs"."""
    if result["result"] in ("ok", "unknown ops"):
        return result["result"]
    for pattern, kind in LIMITS:
        if reader != "pyflow" and pattern.search(result["why"]):
            return kind
    if result["result"] == "values" and re.search(
            r"\((%s)\)" % "|".join(UNEQUAL), result["why"]):
        return "known"
    return "known" if name in NAMES or name.split("-")[0] in NAMES else "differs"


def is_unwritten(name, why):
    """A program that pyflow itself refuses: it has no kernel for this element type."""
    return "has no kernel on CPU for" in why
