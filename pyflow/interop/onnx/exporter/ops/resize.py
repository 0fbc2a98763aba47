"""Images of other sizes."""

from pyflow.interop.onnx.exporter.ops.common import converts, dtypes, np

_ORDER = (0, 3, 1, 2)


def resized(node, mode, nearest=None, **attrs):
    """A Resize of [N, H, W, C] to the sizes of input 1."""
    corners, centers = node.attr("align_corners", False), node.attr("half_pixel_centers", False)
    way = "align_corners" if corners else "half_pixel" if centers else "asymmetric"
    if nearest is not None:
        attrs["nearest_mode"] = nearest[way]
    have, want = node.dtype(), node.out_dtype()
    name = node.value(0).ordered(_ORDER)
    inner = want
    if want is not dtypes.float32 and want not in (dtypes.float16, dtypes.uint8, dtypes.int8,
                                                   dtypes.float64):
        inner = dtypes.float32
    if have is not inner:
        name = node.cast(name, inner)
    dims = node.shape(0)
    lead = np.array([dims[0], dims[3]], np.int64) if None not in (dims[0], dims[3]) else \
        node.slice(node.sizes_of(name), [0], [2], [0])
    sizes = node.concat(lead, node.vector(1))
    made = node.emit("Resize", name, None, None, sizes, mode=mode,
                     coordinate_transformation_mode=way, **attrs)
    return node.ordered(made if inner is want else node.cast(made, want), _ORDER)


@converts("ResizeBilinear")
def bilinear(node):
    return resized(node, "linear")


@converts("ResizeNearestNeighbor")
def nearest(node):
    return resized(node, "nearest", {"asymmetric": "floor", "half_pixel": "round_prefer_ceil",
                                     "align_corners": "round_prefer_ceil"})


@converts("ResizeBicubic")
def bicubic(node):
    """Keys' kernel: a = -0.75, or -0.5 with half-pixel centres, whose weights outside are left
    out."""
    centers = bool(node.attr("half_pixel_centers", False))
    return resized(node, "cubic", cubic_coeff_a=-0.5 if centers else -0.75,
                   exclude_outside=int(centers))
