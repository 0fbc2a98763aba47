"""Values as Summary messages, which FileWriter writes and TensorBoard shows.

Invariants
  1. Each output is one serialized Summary, a scalar string, with the bytes of TensorFlow's kernels
     (of a picture its PNG file is another one with the same pixels).
  2. NaN and infinity in a histogram, and a tag that several merged summaries have, fail the step.

No references, on purpose: tests/summary compares with what TensorFlow made.
Functions: lib/summary/summary_functions.py.  Kernels: plugins/cpu/kernels/summary; of ImageSummary
summary_image.py.
"""
from pyflow.framework import dtypes
from pyflow.framework.op import S, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape

_REAL = ("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
         "uint64}")


def _scalar(op):
    return TensorShape([])


@op("ScalarSummary", inputs="tags: string, values: T", outputs="summary: string", attrs=_REAL)
class ScalarSummary:
    """One number per tag, shapes alike. TF: ScalarSummary."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S(strs("loss"), ()), S(strs([["a", ""], ["b", "c"]]), (2, 2))]


@op("HistogramSummary", inputs="tag: string, values: T", outputs="summary: string",
    attrs=_REAL + " = float")
class HistogramSummary:
    """How values of any shape are spread; InvalidArgumentError for NaN and infinity.
    TF: HistogramSummary."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S(strs("h"), (5, 3)), S(strs("h"), (0,))]


@op("ImageSummary", inputs="tag: string, tensor: T", outputs="summary: string",
    attrs="max_images: int >= 1 = 3, T: {uint8, float, half, double} = float, "
          "bad_color: tensor = uint8 [255, 0, 0, 255]")
class ImageSummary:
    """Up to max_images of [batch, height, width, 1, 3 or 4] as PNG files; floats are scaled to 0 to
    255, or around 128 where there are negative ones, NaN and infinity become bad_color.
    TF: ImageSummary."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S(strs("i"), (2, 3, 4, 3)),
               S(strs("i"), (1, 2, 2, 1), max_images=1)]


@op("AudioSummary", inputs="tag: string, tensor: float", outputs="summary: string",
    attrs="sample_rate: float, max_outputs: int >= 1 = 3")
class AudioSummary:
    """Up to max_outputs of [batch, frames(, channels)] as WAV files. TF: AudioSummary."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S(strs("a"), (2, 5), sample_rate=8000.0)]


@op("AudioSummaryV2", inputs="tag: string, tensor: float, sample_rate: float",
    outputs="summary: string", attrs="max_outputs: int >= 1 = 3")
class AudioSummaryV2:
    """AudioSummary with a rate of the step, in Hz. TF: AudioSummaryV2."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S(strs("a"), (2, 5, 2), lit(44100.0)),
               S(strs("a"), (1, 3), lit(1.0), max_outputs=1)]


@op("TensorSummary", inputs="tensor: T", outputs="summary: string",
    attrs="T: type, description: string = '', labels: list(string) = [], "
          "display_name: string = ''")
class TensorSummary:
    """A tensor under its node's name. TF: TensorSummary."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S((2, 3)), S(strs("words"), T=dtypes.string)]


@op("TensorSummaryV2", inputs="tag: string, tensor: T, serialized_summary_metadata: string",
    outputs="summary: string", attrs="T: type")
class TensorSummaryV2:
    """A tensor, and which of TensorBoard's plugins shows it. TF: TensorSummaryV2."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S(strs("t"), (2, 3), strs(b"")),
               S(strs("t"), (), strs(b"\x0a\x06\x0a\x04text"))]


@op("MergeSummary", inputs="inputs: N * string", outputs="summary: string", attrs="N: int >= 1")
class MergeSummary:
    """Several summaries as one; InvalidArgumentError for a tag that two have. TF: MergeSummary."""
    shape = _scalar
    gradient = None
    reference = None
    samples = [S([strs(b"\x0a\x08\x0a\x01a\x15\x00\x00\x80\x3f"), strs(b"")])]
