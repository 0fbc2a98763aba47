"""What is not equal between pyflow and TensorFlow when graphs are exchanged, and why.

A row of `SAMPLES` is for the samples of one op (sample:OP-N), where a node of that op, or of its
gradient's, gives something else; a row of `PROGRAMS` for a program by name (a sample's without its
number and types, or with its number), each with the versions of TensorFlow beside which it is
so.  A peer's own limits (no kernel, a removed op, an attribute or type that it does not have) are
counted apart; so is what pyflow lacks, `LACKING`, by program.
"""
import re

OLD, NEW = ("1.15.5",), ("2.21.0",)
BOTH = OLD + NEW

FREE = "vectors, output 1, whose sign is free"
SAMPLES = {
    **dict.fromkeys((
        "FixedUnigramCandidateSampler LearnedUnigramCandidateSampler LogUniformCandidateSampler "
        "ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler FractionalAvgPool "
        "FractionalMaxPool Multinomial RandomGamma RandomPoissonV2 RandomShuffle "
        "RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal").split(),
        "random numbers without a seed"),
    **dict.fromkeys("EncodeJpeg EncodePng ImageSummary".split(),
                    "compressed bytes; the picture is the same"),
    **dict.fromkeys("SelfAdjointEigV2 Svd".split(), FREE),
    **dict.fromkeys("BlockLSTM BlockLSTMV2".split(),
                    "TensorFlow does not write what is behind the sequence's length"),
    **dict.fromkeys("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3".split(),
                    "the last two results, which nobody reads, are scalars in TensorFlow"),
    "SerializeSparse": "bytes of messages; tests/shapes/known.py: nothing reads TensorFlow's",
    "DecodeJSONExample": "TensorFlow does not pack the message's numbers",
    "ParseSequenceExampleV2": "of one example: TensorFlow's kernel leaves a row split unwritten",
}
PROGRAMS = {}


def row(peers, why, names):
    PROGRAMS.update((name, (peers, why)) for name in names.split())


row(BOTH, "TensorFlow refuses, or does not survive, what is empty",
    "sample:CTCGreedyDecoder sample:ConjugateTranspose")
row(NEW, "TensorFlow refuses, or does not survive, what is empty",
    "sample:MaxPool sample:MaxPool3D sample:MaxPool3DGrad sample:MaxPool3DGradGrad sample:Reverse "
    "sample:UnravelIndex sample:FractionalAvgPool sample:FractionalMaxPool")
row(OLD, "TensorFlow refuses a sound of no samples", "sample:EncodeWav")
row(OLD, "1.15's kernel is another one; 2.21's is as ours",
    "sample:CumulativeLogsumexp sample:DecodePaddedRaw sample:EuclideanNorm "
    "sample:NonMaxSuppressionV2 sample:NonMaxSuppressionV3 sample:NonMaxSuppressionV4 "
    "sample:NonMaxSuppressionV5 sample:StringNGrams sample:TruncateDiv sample:FusedBatchNorm "
    "sample:FusedBatchNormV2 sample:FusedBatchNormV3 sample:EncodePng "
    "sample:CombinedNonMaxSuppression sample:DrawBoundingBoxes sample:DrawBoundingBoxesV2 "
    "case:non_max_suppression_soft case:non_max_suppression_overlaps "
    "case:cumulative_logsumexp_exclusive case:older_batch_norm_False "
    "case:older_batch_normV2_False case:unicode_script case:strings_decode_raw_complex64 "
    "case:strings_decode_padded_raw case:strings_ngrams_2_0 case:strings_unicode_encode "
    "case:zero_joined case:segments_of_nan_both case:segments_of_nan_first "
    "case:segments_of_nan_last")
row(BOTH, "TensorFlow's CPU kernels ignore dilations",
    "sample:DepthwiseConv2dNative sample:DepthwiseConv2dNativeBackpropFilter "
    "sample:DepthwiseConv2dNativeBackpropInput")
row(NEW, "TensorFlow's gradient of no segment reads what nobody wrote",
    "sample:SparseSegmentMean sample:SparseSegmentMeanWithNumSegments sample:SparseSegmentSqrtN "
    "sample:SparseSegmentSqrtNWithNumSegments sample:SparseSegmentSum "
    "sample:SparseSegmentSumWithNumSegments")
row(BOTH, "TensorFlow's gradient is NaN where a contrast is 0", "case:ssim_multiscale")
row(NEW, "2.21 takes ranges of scalars alone", "sample:QuantizeAndDequantizeV2")
row(BOTH, "TensorFlow refuses segments that are dropped", "sample:UnsortedSegmentJoin")
row(BOTH, "1.15 does not survive, 2.21 refuses dense inputs of another type than the hashed one",
    "sample:SparseCross")
row(NEW, "the sample's regions are no maximum's", "sample:FractionalMaxPoolGrad")
row(BOTH, "static shapes refuse the gradient of no index, TensorFlow's own too", "sample:GatherNd")
row(BOTH, "vectors nobody asked for: TensorFlow's kernel gives a scalar, its static shape is [0]",
    "sample:SelfAdjointEigV2-3")
row(BOTH, "in no order", "script:state_critical_section script:tables_static script:tables_mutable")
row(BOTH, "TensorFlow makes no gradient of a loop over lists", "case:list_in_loop")
row(BOTH, "a take that fails loses the elements of TensorFlow's closed priority queue",
    "queue:priority")
row(BOTH, "what an error takes with it: the batch in 2.21, in 1.15 where its rewriting fuses it "
    "with the map before; ours is 1.15's batch without that",
    "failing:batch failing:batch_of_3 failing:batch_drop failing:parallel_map_batch "
    "failing:batch_ignore failing:unbatch")
row(NEW, "2.21 counts elements that failed among those to skip", "failing:skip")
row(NEW, "2.21 has no gradient of contrib's LSTMBlockCell", "era:cells_of_contrib")
row(OLD, "1.15 asks for a feature twice that two others need, and gives none of its values; ours "
    "refuses that", "reader:sparse_by_index")

LACKING = {
    "queue:fifo_from_list": "a vector of resources",
    "input:sparse_elements": "sparse tensors serialized as variants",
    "reader:sparse_datasets": "sparse tensors serialized as variants",
}
UNWRITTEN = {
    "input:optionals": "no tf.data.experimental.get_next_as_optional",
    "era:words_out_of_vocabulary": "no tf.contrib.lookup",
    "era:ragged_rows": "no arithmetic of ragged tensors",
    "era:control_flow_of_functions": "no enable_control_flow_v2; what others write is read",
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
    if reader == "pyflow" and name in LACKING:
        return "lacking here"
    for pattern, kind in LIMITS:
        if reader != "pyflow" and pattern.search(result["why"]):
            return kind
    peer = reader if writer == "pyflow" else writer
    return "known" if is_known(name, result, peer) else "differs"


def is_known(name, result, peer):
    kind, _, rest = name.partition(":")
    op = rest.split("-")[0]
    if kind == "sample" and op in SAMPLES and result["result"] == "values" and re.search(
            r"\(%s\)" % op, result["why"]):
        if SAMPLES[op] != FREE or re.match(r"node:1 .* differs by", result["why"]):
            return True
    sample = "%s:%s" % (kind, op)
    number = "%s-%s" % (sample, rest.split("-")[1]) if "-" in rest else sample
    return any(peer in PROGRAMS[n][0] for n in (name, sample, number) if n in PROGRAMS)


def is_unwritten(name, why):
    """A program that pyflow cannot write: it has no kernel for this element type, or lacks a
    function."""
    return "has no kernel on CPU for" in why or name in UNWRITTEN
