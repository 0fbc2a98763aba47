"""Where pyflow's shapes and checks differ from TensorFlow 2.21's on purpose: {op: (differences by
kind, reason)}, the kinds being those of ask.py.  The tests fail if a count changes, so that no
entry outlives its reason.
"""

BEYOND = "TensorFlow reads beyond the smaller tensor, or ignores it; the sizes cannot be right"
EMPTY = "TensorFlow lets sizes that do not fit pass where the tensors are empty"
NOT_YET = "TensorFlow takes a number that it does not know yet for -1"
IN_STEP = "refused in the step"
VECTORS = "for vectors alone, as TensorFlow 1's Unique"
TOO_FEW = "TensorFlow's static shape lacks the last element of the sequence, its kernel delivers it"
VERSIONS = "of inference: 2.21's shapes of what is kept contradict 1.15's"
SURE = "TensorFlow guesses a rank although k may name one diagonal or several"

NODES = {
    "Betainc": ({"weaker": 7}, "ours stretches all operands, TensorFlow's scalars alone"),
    "BlockLSTMGrad": ({"raises": 190}, BEYOND),
    "BlockLSTMGradV2": ({"raises": 190}, BEYOND),
    "CombinedNonMaxSuppression": ({"accepts": 1}, IN_STEP),
    "DenseBincount": ({"wrong": 1}, "of a scalar: TensorFlow promises a scalar, delivers a vector"),
    "ExtractVolumePatches": ({"wrong": 10}, "TensorFlow's static shape has a dimension too few"),
    "FractionalAvgPool": ({"weaker": 24}, TOO_FEW),
    "FractionalMaxPool": ({"weaker": 24}, TOO_FEW),
    "FusedBatchNormGrad": ({"weaker": 19}, VERSIONS),
    "FusedBatchNormGradV2": ({"weaker": 19}, VERSIONS),
    "FusedBatchNormGradV3": ({"weaker": 24}, VERSIONS),
    "MatrixDiagV2": ({"weaker": 5}, NOT_YET),
    "MatrixDiagV3": ({"weaker": 5}, NOT_YET),
    "MatrixSetDiagV2": ({"accepts": 4}, SURE),
    "MatrixSetDiagV3": ({"accepts": 4}, SURE),
    "MaxPoolGradGradWithArgmax": ({"weaker": 6, "accepts": 4}, IN_STEP),
    "MaxPoolGradV2": ({"raises": 4}, "TensorFlow takes a ksize of any rank"),
    "NonMaxSuppressionWithOverlaps": ({"accepts": 2}, IN_STEP),
    "ParseSequenceExampleV2": ({"wrong": 26}, "of one example: TensorFlow promises vectors of row "
                               "splits, its kernel delivers scalars"),
    "SampleDistortedBoundingBox": ({"accepts": 1}, IN_STEP),
    "SampleDistortedBoundingBoxV2": ({"accepts": 2}, IN_STEP),
    "SerializeSparse": ({"raises": 9}, "TensorFlow writes sparse tensors that nothing can read"),
    "SigmoidGrad": ({"raises": 6}, EMPTY),
    "SplitV": ({"weaker": 5}, NOT_YET),
    "StatelessRandomGammaV2": ({"raises": 2}, EMPTY),
    "StatelessRandomPoisson": ({"raises": 1}, EMPTY),
    "TanhGrad": ({"raises": 6}, EMPTY),
    "UniqueV2": ({"accepts": 3, "raises": 2}, VECTORS),
    "UniqueWithCountsV2": ({"accepts": 3, "raises": 2}, VECTORS),
}

LENGTH = "its tables are made while the graph is built"
RANK = "slices along the last axis need the rank"
FEWER = "TensorFlow's static shape has a dimension too few"
COUNTS = "the number of values is known in the step"

FUNCTIONS = {
    "conv_transpose_2 none": ("raises", RANK),
    "extract_volume_patches any": ("wrong", FEWER),
    "extract_volume_patches none": ("wrong", FEWER),
    "second_volume_patches any": ("wrong", FEWER),
    "second_volume_patches none": ("wrong", FEWER),
    "frame none": ("raises", RANK),
    "overlap_and_add none": ("raises", RANK),
    "stft none": ("raises", RANK),
    "inverse_stft none": ("raises", RANK),
    "dct_1 any": ("raises", LENGTH), "dct_1 none": ("raises", LENGTH),
    "dct_2 any": ("raises", LENGTH), "dct_2 none": ("raises", LENGTH),
    "dct_3 any": ("raises", LENGTH), "dct_3 none": ("raises", LENGTH),
    "dct_4 any": ("raises", LENGTH), "dct_sizes any": ("raises", LENGTH),
    "mel none": ("raises", LENGTH),
    "lu_functions none": ("raises", RANK),
    "norms none": ("raises", RANK),
    "ragged_to_sparse none": ("raises", RANK),
    "unicode_split any": ("weaker", COUNTS), "unicode_split none": ("weaker", COUNTS),
    "ragged_split any": ("weaker", COUNTS), "ragged_split none": ("weaker", COUNTS),
}
