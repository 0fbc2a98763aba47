"""Boxes in images: crops, drawings, random boxes."""
from pyflow.framework import graph
from pyflow.ops.image.image_box_ops import (CropAndResize, DrawBoundingBoxes, DrawBoundingBoxesV2,
                                            SampleDistortedBoundingBoxV2)


def crop_and_resize(image, boxes, box_ind=None, crop_size=None, method="bilinear",
                    extrapolation_value=0, name=None, box_indices=None):
    """Crops [n, crop_h, crop_w, channels] of the images [batch, h, w, channels], float32.

    Box i, [y1, x1, y2, x2] as fractions, lies in image box_ind[i] and is resized to `crop_size`;
    what it covers outside the image is `extrapolation_value`. Differentiable with respect to
    images and boxes. Raises ValueError for shapes that do not fit, OutOfRangeError for an index of
    no image. TF: tf.image.crop_and_resize."""
    if box_ind is not None and box_indices is not None:
        raise ValueError("crop_and_resize: give box_ind or box_indices, not both")
    owners = box_indices if box_ind is None else box_ind
    return CropAndResize(image, boxes, owners, crop_size, method=method,
                         extrapolation_value=extrapolation_value, name=name)


def draw_bounding_boxes(images, boxes, name=None, colors=None):
    """Images [batch, h, w, channels] with the edges of their boxes [batch, n, 4] drawn, one pixel
    wide, in `colors` [m, channels], or ten colours, in turn. TF: tf.image.draw_bounding_boxes.
    Dtypes, shapes, errors: as ops DrawBoundingBoxes and DrawBoundingBoxesV2."""
    if colors is None:
        return DrawBoundingBoxes(images, boxes, name=name)
    return DrawBoundingBoxesV2(images, boxes, colors, name=name)


def sample_distorted_bounding_box(image_size, bounding_boxes, seed=None, seed2=None,
                                  min_object_covered=0.1, aspect_ratio_range=None, area_range=None,
                                  max_attempts=None, use_image_if_no_bounding_boxes=None,
                                  name=None):
    """(begin [3], size [3], box [1, 1, 4]) of a random crop for tf.slice and draw_bounding_boxes.

    The crop has an aspect ratio (width / height) and an area from the ranges and holds at least
    min_object_covered of one of the boxes [1, n, 4]; after max_attempts (at most 10,000,000) it is
    the whole image.
    Raises InvalidArgumentError without boxes unless use_image_if_no_bounding_boxes.
    TF: tf.image.sample_distorted_bounding_box.
    Dtypes, shapes, errors: as op SampleDistortedBoundingBoxV2."""
    with graph.name_scope(name, "sample_distorted_bounding_box"):
        given = {"aspect_ratio_range": aspect_ratio_range, "area_range": area_range,
                 "max_attempts": max_attempts,
                 "use_image_if_no_bounding_boxes": use_image_if_no_bounding_boxes}
        return SampleDistortedBoundingBoxV2(
            image_size, bounding_boxes, min_object_covered, seed=seed or 0, seed2=seed2 or 0,
            **{k: v for k, v in given.items() if v is not None})


PUBLIC = {
    "image.crop_and_resize": crop_and_resize, "image.draw_bounding_boxes": draw_bounding_boxes,
    "image.sample_distorted_bounding_box": sample_distorted_bounding_box,
}
