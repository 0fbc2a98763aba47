"""tensorflow.python.ops.image_ops: the methods of version 2's resizing, beside tf.image."""


class ResizeMethod:
    """Names of methods, as tf.compat.v2.image.ResizeMethod; tf.image.ResizeMethod has 1.x's."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = "bilinear", "nearest", "bicubic", "area"
    LANCZOS3, LANCZOS5 = "lanczos3", "lanczos5"
    GAUSSIAN, MITCHELLCUBIC = "gaussian", "mitchellcubic"
