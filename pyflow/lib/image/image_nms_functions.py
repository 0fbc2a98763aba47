"""tf.image.non_max_suppression in its forms."""
import numpy as np

from pyflow.framework import graph
from pyflow.ops.image.image_nms_ops import (CombinedNonMaxSuppression, NonMaxSuppressionV3,
                                            NonMaxSuppressionV4, NonMaxSuppressionV5,
                                            NonMaxSuppressionWithOverlaps)


def non_max_suppression(boxes, scores, max_output_size, iou_threshold=0.5,
                        score_threshold=-np.inf, name=None):
    """Indices [m] of at most max_output_size boxes [n, 4], by falling score [n], that overlap
    pairwise by at most iou_threshold and have a score above score_threshold.

    Raises ValueError for shapes that do not fit, InvalidArgumentError for an iou_threshold outside
    [0, 1]. TF: tf.image.non_max_suppression.
    Dtypes, shapes, errors: as op NonMaxSuppressionV3."""
    with graph.name_scope(name, "non_max_suppression"):
        boxes, scores = _floats(boxes), _floats(scores)
        return NonMaxSuppressionV3(boxes, scores, max_output_size,
                                   _like(iou_threshold, boxes), _like(score_threshold, boxes))


def _floats(value):
    return value if isinstance(value, graph.Tensor) else graph.convert_to_tensor(
        value, preferred_dtype="float32")


def _like(value, tensor):
    return value if isinstance(value, graph.Tensor) else graph.convert_to_tensor(
        value, dtype=tensor.dtype)


def non_max_suppression_padded(boxes, scores, max_output_size, iou_threshold=0.5,
                               score_threshold=-np.inf, pad_to_max_output_size=False, name=None):
    """non_max_suppression's indices, padded with zeros on request, and how many are real.
    TF: tf.image.non_max_suppression_padded.
    Dtypes, shapes, errors: as op NonMaxSuppressionV4."""
    with graph.name_scope(name, "non_max_suppression_padded"):
        boxes, scores = _floats(boxes), _floats(scores)
        return NonMaxSuppressionV4(boxes, scores, max_output_size, _like(iou_threshold, boxes),
                                   _like(score_threshold, boxes),
                                   pad_to_max_output_size=pad_to_max_output_size)


def non_max_suppression_with_scores(boxes, scores, max_output_size, iou_threshold=0.5,
                                    score_threshold=-np.inf, soft_nms_sigma=0.0, name=None):
    """Indices [m] and scores [m] of Soft-NMS (Bodla et al., 2017); soft_nms_sigma 0 is
    non_max_suppression. TF: tf.image.non_max_suppression_with_scores.
    Dtypes, shapes, errors: as op NonMaxSuppressionV5."""
    with graph.name_scope(name, "non_max_suppression_with_scores"):
        boxes, scores = _floats(boxes), _floats(scores)
        found = NonMaxSuppressionV5(boxes, scores, max_output_size, _like(iou_threshold, boxes),
                                    _like(score_threshold, boxes), _like(soft_nms_sigma, boxes),
                                    pad_to_max_output_size=False)
        return found[0], found[1]


def non_max_suppression_overlaps(overlaps, scores, max_output_size, overlap_threshold=0.5,
                                 score_threshold=-np.inf, name=None):
    """non_max_suppression by a matrix of overlaps [n, n] in place of boxes.
    TF: tf.image.non_max_suppression_overlaps.
    Dtypes, shapes, errors: as op NonMaxSuppressionWithOverlaps."""
    with graph.name_scope(name, "non_max_suppression_overlaps"):
        return NonMaxSuppressionWithOverlaps(overlaps, scores, max_output_size, overlap_threshold,
                                             score_threshold)


def combined_non_max_suppression(boxes, scores, max_output_size_per_class, max_total_size,
                                 iou_threshold=0.5, score_threshold=-np.inf, pad_per_class=False,
                                 clip_boxes=True, name=None):
    """(boxes [batch, m, 4], scores [batch, m], classes [batch, m], counts [batch]): suppression
    per class of boxes [batch, n, q, 4] with scores [batch, n, classes], q 1 or classes.
    TF: tf.image.combined_non_max_suppression.
    Dtypes, shapes, errors: as op CombinedNonMaxSuppression."""
    with graph.name_scope(name, "combined_non_max_suppression"):
        return CombinedNonMaxSuppression(
            boxes, scores, max_output_size_per_class, max_total_size,
            graph.convert_to_tensor(iou_threshold, dtype="float32"),
            graph.convert_to_tensor(score_threshold, dtype="float32"),
            pad_per_class=pad_per_class, clip_boxes=clip_boxes)


PUBLIC = {f"image.{f.__name__}": f for f in (
    non_max_suppression, non_max_suppression_padded, non_max_suppression_with_scores,
    non_max_suppression_overlaps, combined_non_max_suppression)}
