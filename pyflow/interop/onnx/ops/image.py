"""ImageDecoder (by Pillow, as a Python function of the step) and NonMaxSuppression."""

import io

import numpy as np

import pyflow as tf
from pyflow.framework.op import get_op
from pyflow.interop.onnx.ops.common import ints
from pyflow.interop.onnx.ops.text import hosted
from pyflow.interop.onnx.registry import converter
from pyflow.ops.image import image_codec
from pyflow.session.runtime import executor

_MAX_LISTS = 4096       # batch entries times classes


@converter("ImageDecoder")
def image_decoder(node):
    form = node.attr("pixel_format", "RGB")
    if form not in ("RGB", "BGR", "Grayscale"):
        raise node.error(f"pixel_format {form!r} is none of RGB, BGR, Grayscale")

    def decode(encoded):
        try:
            pillow = image_codec.pillow_for("ImageDecoder")
        except image_codec.CodecError as error:     # a StepError: without a Python traceback
            raise executor().StepError(error.status, str(error)) from None
        image = pillow.open(io.BytesIO(np.asarray(encoded, np.uint8).tobytes()))
        pixels = np.array(image.convert("L" if form == "Grayscale" else "RGB"))
        if form == "Grayscale":
            return pixels[:, :, None]
        return np.ascontiguousarray(pixels[:, :, ::-1]) if form == "BGR" else pixels
    channels = 1 if form == "Grayscale" else 3
    return hosted(decode, [node.x(0)], [tf.uint8], [(None, None, channels)])


@converter("NonMaxSuppression")
def non_max_suppression(node):
    """Boxes [N, B, 4] and scores [N, C, B] to rows (image, class, box)."""
    boxes, scores = node.x(0), node.x(1)
    n, classes, _ = node.shape(1)
    if n is None or classes is None:
        raise node.needs(node.value(1).tensor, "the number of images and of classes")
    if n * classes > _MAX_LISTS:
        raise node.unsupported(f"{n} images times {classes} classes; at most {_MAX_LISTS}")
    if node.attr("center_point_box", 0):
        centre, half = boxes[..., :2], boxes[..., 2:] * tf.constant(np.float32(0.5))
        boxes = tf.concat([centre - half, centre + half], -1)
    most = tf.cast(tf.reshape(node.x(2), []), tf.int32) if node.has(2) else tf.constant(0)
    most = tf.minimum(most, tf.cast(tf.shape(boxes)[1], tf.int32))
    overlap = tf.reshape(node.x(3), []) if node.has(3) else tf.constant(np.float32(0))
    least = tf.reshape(node.x(4), []) if node.has(4) else tf.constant(np.float32(-np.inf))
    rows = []
    for i in range(n):
        for c in range(classes):
            kept = get_op("NonMaxSuppressionV3")(boxes[i], scores[i, c], most, overlap, least)
            kept = tf.expand_dims(tf.cast(kept, tf.int64), 1)
            lead = tf.tile(tf.reshape(ints([i, c]), [1, 2]), tf.stack([tf.shape(kept)[0], 1]))
            rows.append(tf.concat([lead, kept], 1))
    return tf.concat(rows, 0) if rows else tf.reshape(ints([]), [0, 3])
