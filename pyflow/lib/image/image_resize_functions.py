"""tf.image.resize_*: by method, with padding, with the aspect ratio kept."""
from pyflow.framework import dtypes, graph
from pyflow.lib.image import image_functions
from pyflow.lib.math import complex_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, shape_vector, static
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.ops.image.image_resize_ops import (ResizeArea, ResizeBicubic, ResizeBilinear,
                                               ResizeNearestNeighbor)


class ResizeMethod:
    """How tf.image.resize_images resamples. TF: tf.image.ResizeMethod.

        >>> image = tf.constant([[[0.0], [1.0]]])
        >>> nearest = tf.image.ResizeMethod.NEAREST_NEIGHBOR
        >>> tf.Session().run(tf.image.resize_images(image, [1, 4], nearest))[0, :, 0]
        array([0., 0., 1., 1.], dtype=float32)
    """
    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_BY_METHOD = {ResizeMethod.BILINEAR: ResizeBilinear, ResizeMethod.BICUBIC: ResizeBicubic,
              ResizeMethod.NEAREST_NEIGHBOR: ResizeNearestNeighbor}
_BY_NAME = {"bilinear": 0, "nearest": 1, "bicubic": 2, "area": 3}


def resize_bilinear(images, size, align_corners=False, name=None, half_pixel_centers=False):
    """Images [batch, h, w, channels] resized to `size` = (h, w) by linear interpolation, as
    float32. Raises ValueError for other ranks. TF: tf.image.resize_bilinear."""
    return ResizeBilinear(images, size, align_corners=align_corners,
                          half_pixel_centers=half_pixel_centers, name=name)


def resize_nearest_neighbor(images, size, align_corners=False, name=None,
                            half_pixel_centers=False):
    """Images [batch, h, w, channels] resized to `size` = (h, w) by repeating or dropping pixels,
    in their dtype. Raises ValueError for other ranks. TF: tf.image.resize_nearest_neighbor."""
    return ResizeNearestNeighbor(images, size, align_corners=align_corners,
                                 half_pixel_centers=half_pixel_centers, name=name)


def resize_bicubic(images, size, align_corners=False, name=None, half_pixel_centers=False):
    """Images [batch, h, w, channels] resized to `size` = (h, w) by cubic convolution, as float32.
    Raises ValueError for other ranks. TF: tf.image.resize_bicubic."""
    return ResizeBicubic(images, size, align_corners=align_corners,
                         half_pixel_centers=half_pixel_centers, name=name)


def resize_area(images, size, align_corners=False, name=None):
    """Images [batch, h, w, channels] resized to `size` = (h, w) by averaging the area each output
    pixel covers, as float32. Raises ValueError for other ranks. TF: tf.image.resize_area."""
    return ResizeArea(images, size, align_corners=align_corners, name=name)


def batched(image, function):
    """`function` of a batch, for an image of rank 3 or a batch of rank 4."""
    if image.shape.ndims not in (3, 4):
        raise ValueError(f"'images' must have either 3 or 4 dimensions, got shape {image.shape}")
    if image.shape.ndims == 4:
        return function(image)
    return tensors.squeeze(function(tensors.expand_dims(image, 0)), axis=[0])


def resize_images(images, size, method=ResizeMethod.BILINEAR, align_corners=False,
                  preserve_aspect_ratio=False, name=None):
    """An image [h, w, channels], or a batch of them, resized to `size` = (h, w).

    method: a tf.image.ResizeMethod, 0 bilinear, 1 nearest neighbour, 2 bicubic, 3 area.
    align_corners: the corners' centres stay where they are. With preserve_aspect_ratio the largest
    size inside `size` is taken. Where the size does not change the images come back in their dtype;
    else float32, or their dtype for ResizeMethod.NEAREST_NEIGHBOR.
    Raises ValueError for other ranks, sizes and methods. TF: tf.image.resize_images.

        >>> images = tf.reshape([1., 3.], [1, 2, 1])
        >>> tf.Session().run(tf.image.resize_images(images, [1, 4]))[0, :, 0]
        array([1., 2., 3., 3.], dtype=float32)
    """
    with graph.name_scope(name, "resize", [images, size]):
        images = graph.convert_to_tensor(images, name="images")
        if images.shape.ndims is None:
            raise ValueError("'images' contains no shape.")
        size = graph.convert_to_tensor(size, dtype=dtypes.int32, name="size")
        if not size.shape.is_compatible_with([2]):
            raise ValueError(f"'size' must be a 1-D Tensor of 2 elements: new_height, new_width, "
                             f"got shape {size.shape}")
        return batched(images, lambda batch: _resized(batch, size, method, align_corners,
                                                      preserve_aspect_ratio))


def _resized(images, size, method, align_corners, preserve_aspect_ratio):
    if preserve_aspect_ratio:
        size = _largest_inside(images, size)
    wanted, known = static(size), dims_of(images.shape)
    if wanted is not None and list(wanted) == known[1:3]:
        return images
    method = _BY_NAME.get(method, method)
    if method == ResizeMethod.AREA:
        return ResizeArea(images, size, align_corners=align_corners)
    if method not in _BY_METHOD:
        raise ValueError(f"Resize method is not implemented: {method!r}")
    return _BY_METHOD[method](images, size, align_corners=align_corners)


def _largest_inside(images, size):
    """The largest height and width of the images' aspect ratio that fit into `size`."""
    sizes = shape_vector(images)
    height, width = (tensors.cast(sizes[i], dtypes.float32) for i in (1, 2))
    scale = binary_ops.Minimum(tensors.cast(size[0], dtypes.float32) / height,
                               tensors.cast(size[1], dtypes.float32) / width)
    return tensors.stack([tensors.cast(complex_functions.round(scale * n), dtypes.int32)
                          for n in (height, width)])


def resize_image_with_pad(image, target_height, target_width, method=ResizeMethod.BILINEAR,
                          align_corners=False):
    """An image (rank 3) or batch (rank 4), resized without changing its aspect ratio and padded
    with zeros, evenly on both sides, to the target size. Raises ValueError for other ranks.
    TF: tf.image.resize_image_with_pad.
    image: [h, w, c] or [batch, h, w, c] of numbers. ValueError for other ranks."""
    with graph.name_scope(None, "resize_image_with_pad", [image]):
        for name, size in (("height", target_height), ("width", target_width)):
            if not isinstance(size, graph.Tensor) and size <= 0:
                raise ValueError(f"target_{name} must be > 0, got {size}")
        image = graph.convert_to_tensor(image, name="image")
        image = image_functions.one_or_batch(image)

        def padded(batch):
            sizes = tensors.shape(batch)
            height, width = (tensors.cast(sizes[i], dtypes.float64) for i in (1, 2))
            target = [tensors.cast(t, dtypes.float64) for t in (target_height, target_width)]
            ratio = binary_ops.Maximum(width / target[1], height / target[0])
            exact = [height / ratio, width / ratio]
            new = [tensors.cast(unary_ops.Floor(e), dtypes.int32) for e in exact]
            room = [tensors.cast(unary_ops.Floor((t - e) / 2), dtypes.int32)
                    for t, e in zip(target, exact)]
            resized = resize_images(batch, tensors.stack(new), method, align_corners)
            top, left = (binary_ops.Maximum(r, 0) for r in room)
            return image_functions.pad_to_bounding_box(resized, top, left, target_height,
                                                       target_width)
        return batched(image, padded)


PUBLIC = {
    "image.ResizeMethod": ResizeMethod, "image.resize_bilinear": resize_bilinear,
    "image.resize_nearest_neighbor": resize_nearest_neighbor,
    "image.resize_bicubic": resize_bicubic, "image.resize_area": resize_area,
    "image.resize_images": resize_images, "image.resize": resize_images,
    "image.resize_image_with_pad": resize_image_with_pad,
}
