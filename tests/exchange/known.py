"""What is not equal between pyflow and TensorFlow when graphs are exchanged, and why.

`UNEQUAL` and `NAMES` are by op and by program: their graphs are imported and their shapes compared,
but values differ.  A peer's own limits (it has no kernel, or has removed the op) are counted apart.
"""
import re

RANDOM = "random numbers, of no or another seed's stream"
BYTES = "compressed bytes; the picture is the same"
SIGN = "vectors whose sign is free"
GARBAGE = "TensorFlow does not write what is behind the sequence's length"

UNEQUAL = {
    **dict.fromkeys((
        "AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler "
        "LogUniformCandidateSampler ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler "
        "FractionalAvgPool FractionalMaxPool Multinomial RandomGamma RandomPoisson "
        "RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt "
        "TruncatedNormal ParameterizedTruncatedNormal SampleDistortedBoundingBox "
        "SampleDistortedBoundingBoxV2 StatelessMultinomial").split(), RANDOM),
    **dict.fromkeys("EncodeJpeg EncodePng ImageSummary".split(), BYTES),
    **dict.fromkeys("SelfAdjointEigV2 Svd Qr".split(), SIGN),
    **dict.fromkeys("BlockLSTM BlockLSTMV2".split(), GARBAGE),
}
NAMES = {}
LIMITS = ((re.compile(r"is not in the list of allowed values"), "type unknown there"),
          (re.compile(r"NodeDef mentions attr"), "newer attribute, not at its default"),
          (re.compile(r"No OpKernel was registered|only supports? (NHWC|NDHWC|channels)|"
                      r"only supported on|Only NHWC"), "no kernel there"),
          (re.compile(r"is not available in GraphDef version"), "removed there"))


def kind_of(name, result, writer, reader):
    """"ok", a kind that is explained, or "differs"."""
    if result["result"] in ("ok", "unknown ops"):
        return result["result"]
    for pattern, kind in LIMITS:
        if reader != "pyflow" and pattern.search(result["why"]):
            return kind
    if result["result"] == "values" and re.search(
            r"\((%s)\)" % "|".join(UNEQUAL), result["why"]):
        return "values of its own"
    for known in (name, name.split("-")[0]):
        if (known, writer, reader) in NAMES or known in NAMES:
            return "known"
    return "differs"


def is_unwritten(name, why):
    """A program that the writer itself refuses: it has no kernel for this element type."""
    return "has no kernel on CPU for" in why
