"""Non-maximum suppression: of boxes that overlap, the one with the highest score.

Invariants
  1. Boxes are [y1, x1, y2, x2] in any unit, corners in any order; overlap is the area of the
     intersection over that of the union.
  2. Boxes come out by falling score, equal scores by index.

Example:  `keep = tf.image.non_max_suppression(boxes, scores, 100, iou_threshold=0.45)`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, static
from pyflow.ops.base.shape_rules import checked

T = "T: {half, float} = float"
THRESHOLD = T + ", T_threshold: {half, float} = float"
PAD = "pad_to_max_output_size: bool = false"


# ----------------------------------------------------------------------------------- static shapes
def _check(op):
    boxes, scores = op.inputs[0].shape, op.inputs[1].shape
    if boxes.ndims not in (None, 2) or scores.ndims not in (None, 1):
        raise ValueError(f"{op.type}: boxes must be a matrix and scores a vector, got shapes "
                         f"{boxes} and {scores}")
    dims = dims_of(boxes)
    if dims is not None:
        TensorShape([dims[0]]).assert_is_compatible_with(scores)
        if op.type != "NonMaxSuppressionWithOverlaps" and dims[1] not in (None, 4):
            raise ValueError(f"{op.type}: boxes must have 4 columns, got shape {boxes}")
    for tensor in op.inputs[2:]:
        if tensor.shape.ndims not in (None, 0):
            raise ValueError(f"{op.type}: {tensor.name} must be a scalar, got shape "
                             f"{tensor.shape}")


def _indices(op):
    _check(op)
    return TensorShape([None])


def _count(op):
    """The padded number of boxes, where it is known."""
    _check(op)
    known = static(op.inputs[2]) if op.attr("pad_to_max_output_size") else None
    return TensorShape([None if known is None else int(known)])


def _combined_shape(op):
    boxes, scores = op.inputs[0].shape, op.inputs[1].shape
    if boxes.ndims not in (None, 4) or scores.ndims not in (None, 3):
        raise ValueError(f"{op.type}: boxes must be [batch, boxes, q, 4] and scores [batch, boxes, "
                         f"classes], got shapes {boxes} and {scores}")
    batch = (dims_of(boxes) or [None])[0]
    per_class, size = static(op.inputs[2]), static(op.inputs[3])
    size = None if size is None else int(size)
    if op.attr("pad_per_class"):
        classes = (dims_of(scores) or [None])[-1]
        known = None not in (size, classes) and per_class is not None
        size = min(size, int(per_class) * classes) if known else None
    return [TensorShape([batch, size, 4]), TensorShape([batch, size]), TensorShape([batch, size]),
            TensorShape([batch])]


# ------------------------------------------------------------------------------------------ oracles
def _overlaps(boxes):
    """[n, n] intersections over unions, in float32 as the kernels compute them."""
    boxes = boxes.astype(np.float32)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    sides = np.maximum(np.minimum(high[:, None], high) - np.maximum(low[:, None], low), 0)
    both, area = sides.prod(-1), (high - low).prod(-1)
    union = area[:, None] + area - both
    empty = (area[:, None] <= 0) | (area <= 0)
    return np.where(empty, 0, both / np.where(union > 0, union, 1))


def _chosen(overlaps, scores, most, threshold, least=-np.inf, sigma=0.0):
    """Greedy search; with `sigma`, Soft-NMS (Bodla et al., 2017)."""
    left = {i: np.float64(s) for i, s in enumerate(scores) if s > least}
    found = []
    while left and len(found) < most:
        best = min(left, key=lambda i: (-left[i], i))
        found.append((best, left.pop(best)))
        for i in list(left):
            overlap = overlaps[best, i]
            if sigma == 0:
                if overlap > threshold:
                    del left[i]
                continue
            left[i] *= np.exp(-0.5 * overlap ** 2 / sigma)
            if left[i] <= least:
                del left[i]
    return found


def _padded(values, dtype, most, pad):
    values = np.array(values, dtype)
    return np.pad(values, (0, int(most) - len(values))) if pad else values


BOXES = lit([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1],
             [1, 101, 0, 100]])
SCORES = lit([0.9, 0.75, 0.6, 0.95, 0.5, 0.3])
QUERIES = [(BOXES, SCORES, lit(3)), (BOXES, SCORES, lit(30)), (BOXES, SCORES, lit(0))]


# ---------------------------------------------------------------------------------------------- ops
@op("NonMaxSuppression", inputs="boxes: float, scores: float, max_output_size: int32",
    outputs="selected_indices: int32", attrs="iou_threshold: float = 0.5")
class NonMaxSuppression:
    """Indices of boxes that overlap by at most iou_threshold. TF: NonMaxSuppression."""
    shape = _indices
    gradient = None

    def reference(boxes, scores, max_output_size, iou_threshold):
        return np.int32([i for i, _ in _chosen(_overlaps(boxes), scores, max_output_size,
                                               iou_threshold)])
    samples = [S(*q) for q in QUERIES]


@op("NonMaxSuppressionV2",
    inputs="boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold",
    outputs="selected_indices: int32", attrs=THRESHOLD)
class NonMaxSuppressionV2:
    """NonMaxSuppression with the threshold as a tensor. TF: NonMaxSuppressionV2."""
    shape = _indices
    gradient = None

    def reference(boxes, scores, max_output_size, iou_threshold):
        return np.int32([i for i, _ in _chosen(_overlaps(boxes), scores, max_output_size,
                                               iou_threshold)])
    samples = [S(*q, lit(0.5)) for q in QUERIES]


@op("NonMaxSuppressionV3", inputs="boxes: T, scores: T, max_output_size: int32, "
    "iou_threshold: T_threshold, score_threshold: T_threshold",
    outputs="selected_indices: int32", attrs=THRESHOLD)
class NonMaxSuppressionV3:
    """NonMaxSuppressionV2 among the boxes with a score above score_threshold. TF:
    NonMaxSuppressionV3."""
    shape = _indices
    gradient = UNREGISTERED

    def reference(boxes, scores, max_output_size, iou_threshold, score_threshold):
        return np.int32([i for i, _ in _chosen(_overlaps(boxes), scores, max_output_size,
                                               iou_threshold, score_threshold)])
    samples = [S(*q, lit(0.5), lit(0.4)) for q in QUERIES]


@op("NonMaxSuppressionV4", inputs="boxes: T, scores: T, max_output_size: int32, "
    "iou_threshold: T_threshold, score_threshold: T_threshold",
    outputs="selected_indices: int32, valid_outputs: int32", attrs=THRESHOLD + ", " + PAD)
class NonMaxSuppressionV4:
    """NonMaxSuppressionV3 and the number of boxes found; padded with zeros on request. TF:
    NonMaxSuppressionV4."""
    def shape(op): return [_count(op), TensorShape([])]
    gradient = UNREGISTERED

    def reference(boxes, scores, max_output_size, iou_threshold, score_threshold,
                  pad_to_max_output_size):
        found = [i for i, _ in _chosen(_overlaps(boxes), scores, max_output_size, iou_threshold,
                                       score_threshold)]
        return (_padded(found, np.int32, max_output_size, pad_to_max_output_size),
                np.int32(len(found)))
    samples = [S(*QUERIES[0], lit(0.5), lit(0.4)),
               S(*QUERIES[1], lit(0.5), lit(0.4), pad_to_max_output_size=True)]


@op("NonMaxSuppressionV5", inputs="boxes: T, scores: T, max_output_size: int32, iou_threshold: T, "
    "score_threshold: T, soft_nms_sigma: T",
    outputs="selected_indices: int32, selected_scores: T, valid_outputs: int32",
    attrs=T + ", " + PAD)
class NonMaxSuppressionV5:
    """NonMaxSuppressionV4 that, with soft_nms_sigma > 0, lowers the scores of boxes that overlap
    (Bodla et al., 2017). TF: NonMaxSuppressionV5."""
    def shape(op): return [_count(op), _count(op), TensorShape([])]
    gradient = UNREGISTERED

    def reference(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma,
                  pad_to_max_output_size):
        found = _chosen(_overlaps(boxes), scores, max_output_size, iou_threshold, score_threshold,
                        soft_nms_sigma)
        args = max_output_size, pad_to_max_output_size
        return (_padded([i for i, _ in found], np.int32, *args),
                _padded([s for _, s in found], scores.dtype, *args), np.int32(len(found)))
    samples = [S(*QUERIES[0], lit(0.5), lit(0.4), lit(0.0)),
               S(*QUERIES[1], lit(1.0), lit(0.1), lit(0.5)),
               S(*QUERIES[1], lit(0.75), lit(0.1), lit(0.25), pad_to_max_output_size=True)]


@op("NonMaxSuppressionWithOverlaps", inputs="overlaps: float, scores: float, "
    "max_output_size: int32, overlap_threshold: float, score_threshold: float",
    outputs="selected_indices: int32")
class NonMaxSuppressionWithOverlaps:
    """Non-maximum suppression by a matrix of overlaps. TF: NonMaxSuppressionWithOverlaps."""
    shape = _indices
    gradient = None

    def reference(overlaps, scores, max_output_size, overlap_threshold, score_threshold):
        return np.int32([i for i, _ in _chosen(overlaps, scores, max_output_size,
                                               overlap_threshold, score_threshold)])
    samples = [S(lit([[1, 0.6, 0.1], [0.6, 1, 0.2], [0.1, 0.2, 1]]), lit([0.5, 0.9, 0.4]), lit(3),
                 lit(0.5), lit(0.0))]


@op("CombinedNonMaxSuppression", inputs="boxes: float, scores: float, "
    "max_output_size_per_class: int32, max_total_size: int32, iou_threshold: float, "
    "score_threshold: float",
    outputs="nmsed_boxes: float, nmsed_scores: float, nmsed_classes: float, "
            "valid_detections: int32",
    attrs="pad_per_class: bool = false, clip_boxes: bool = true")
class CombinedNonMaxSuppression:
    """Non-maximum suppression per image and class, then the best of all classes. TF:
    CombinedNonMaxSuppression."""
    shape = checked(_combined_shape, "b n q 4", "b n c", "", "", "", "")
    gradient = UNREGISTERED

    def reference(boxes, scores, max_output_size_per_class, max_total_size, iou_threshold,
                  score_threshold, pad_per_class, clip_boxes):
        size = int(max_total_size)
        if pad_per_class:
            size = min(size, int(max_output_size_per_class) * scores.shape[2])
        made = [np.zeros((len(boxes), size, 4)), np.zeros((len(boxes), size)),
                np.zeros((len(boxes), size)), np.zeros(len(boxes), np.int32)]
        for b, (own, values) in enumerate(zip(boxes, scores)):
            found = []
            for k in range(values.shape[1]):
                of_class = own[:, k if own.shape[1] > 1 else 0]
                found += [(-s, k, of_class[i]) for i, s in _chosen(
                    _overlaps(of_class), values[:, k], max_output_size_per_class, iou_threshold,
                    score_threshold)]
            found.sort(key=lambda f: f[0])
            for i, (score, k, box) in enumerate(found[:size]):
                made[0][b, i] = np.clip(box, 0, 1) if clip_boxes else box
                made[1][b, i], made[2][b, i] = -score, k
            made[3][b] = min(len(found), size)
        return tuple(made)
    samples = [S(lit(np.array([[[0, 0, 1, 1]], [[0, 0.1, 1, 1.1]], [[0, 2, 1, 3]]])[None]),
                 lit([[[0.9, 0.1], [0.75, 0.3], [0.6, 0.95]]]), lit(3), lit(4), lit(0.5), lit(0.2)),
               S(lit(np.array([[[0, 0, 1, 1]], [[0, 0.1, 1, 1.1]], [[0, 2, 1, 3]]])[None]),
                 lit([[[0.9, 0.1], [0.75, 0.3], [0.6, 0.95]]]), lit(1), lit(9), lit(0.5), lit(0.2),
                 pad_per_class=True, clip_boxes=False)]
