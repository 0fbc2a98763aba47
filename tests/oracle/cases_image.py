"""Images: resizing by every convention, colours, crops, boxes, patches, quality."""

import numpy as np

from cases import Input, ints, normal, op, value

I = (2, 5, 7, 3)


def pixels(*shape):
    """uint8 values."""
    return ints(0, 256, *shape, dtype=np.uint8)


def fractions(*shape):
    return Input(lambda rng: rng.random(shape).astype(np.float32))


# ----------------------------------------------------------------------------------------- resizing
METHODS = {
    "bilinear": "resize_bilinear",
    "nearest": "resize_nearest_neighbor",
    "bicubic": "resize_bicubic",
}
CORNERS = {"": {}, "_align": {"align_corners": True}, "_centers": {"half_pixel_centers": True}}
for method, function in METHODS.items():
    for corners, flags in CORNERS.items():
        for name, size in {"up": (9, 16), "down": (3, 2), "mixed": (11, 3)}.items():

            def resize(tf, x, function=function, size=size, flags=flags):
                return getattr(tf.image, function)(x, size, **flags)

            op(f"resize_{method}_{name}{corners}", resize, normal(*I))
for name, size in {"up": (9, 16), "down": (2, 3)}.items():
    for align in (False, True):

        def area(tf, x, size=size, align=align):
            return tf.image.resize_area(x, size, align_corners=align)

        op(f"resize_area_{name}{'_align' * align}", area, normal(*I), gradient=False)
for dtype in (np.uint8, np.int32, np.float16, np.float64):
    for function in (*METHODS.values(), "resize_area"):
        op(
            f"{function}_{np.dtype(dtype).name}",
            lambda tf, x, f=function: getattr(tf.image, f)(x, [4, 9]),
            ints(0, 200, 1, 6, 5, 2, dtype=dtype),
            gradient=False,
        )
op(
    "resize_images",
    lambda tf, x: [tf.image.resize_images(x, [4, 4], m) for m in range(4)],
    normal(*I),
    gradient=False,
)
op(
    "resize_images_one",
    lambda tf, x: tf.image.resize_images(x, [4, 4], preserve_aspect_ratio=True),
    normal(5, 9, 1),
)
op(
    "resize_image_with_pad",
    lambda tf, x: [
        tf.image.resize_image_with_pad(x, 8, 6),
        tf.image.resize_image_with_pad(x, 3, 9, method=1),
    ],
    normal(4, 6, 2),
)
op(
    "resize_image_with_crop_or_pad",
    lambda tf, x: [
        tf.image.resize_image_with_crop_or_pad(x, h, w) for h, w in [(3, 9), (8, 4), (2, 3), (9, 9)]
    ],
    normal(5, 6, 2),
)

# --------------------------------------------------------------------------------- cutting, turning
op(
    "crop_pad_to_bounding_box",
    lambda tf, x: [
        tf.image.crop_to_bounding_box(x, 1, 2, 3, 4),
        tf.image.pad_to_bounding_box(x, 2, 1, 9, 10),
    ],
    normal(*I),
)
op(
    "central_crop",
    lambda tf, x: [tf.image.central_crop(x, f) for f in (0.3, 0.5, 0.875, 1.0)],
    normal(9, 8, 2),
)
op(
    "flips_and_turns",
    lambda tf, x: [
        tf.image.flip_left_right(x),
        tf.image.flip_up_down(x),
        tf.image.transpose_image(x),
    ]
    + [tf.image.rot90(x, k) for k in range(4)],
    normal(3, 4, 2),
)
op(
    "flips_of_batches",
    lambda tf, x: [
        tf.image.flip_left_right(x),
        tf.image.flip_up_down(x),
        tf.image.transpose_image(x),
        tf.image.rot90(x, 3),
    ],
    normal(*I),
)
op("rot90_by_tensor", lambda tf, x, k: tf.image.rot90(x, k), normal(3, 4, 2), value(6, np.int32))
op(
    "random_flips",
    lambda tf, x: [tf.image.random_flip_left_right(x, seed=s) for s in (1, 2, 3)]
    + [tf.image.random_flip_up_down(x, seed=s) for s in (1, 2, 3)],
    normal(3, 4, 2),
    gradient=False,
)
op(
    "random_flips_of_batches",
    lambda tf, x: [
        tf.image.random_flip_left_right(x, seed=1),
        tf.image.random_flip_up_down(x, seed=5),
    ],
    normal(6, 3, 2, 1),
)
op("image_random_crop", lambda tf, x: tf.image.random_crop(x, [3, 3, 2], seed=4), normal(6, 7, 2))

# ------------------------------------------------------------------------------------ element types
for target in ("uint8", "uint16", "int32", "float16", "float32"):
    for source in (np.uint8, np.int16, np.float32, np.float16):
        if source == np.float16 and "int" in target:
            continue  # 65504 times what an integer holds is infinite
        op(
            f"convert_image_{np.dtype(source).name}_{target}",
            lambda tf, x, t=target: [
                tf.image.convert_image_dtype(x, getattr(tf, t)),
                tf.image.convert_image_dtype(x, getattr(tf, t), saturate=True),
            ],
            fractions(3, 4, 3) if source == np.float32 else (
                value([0.0, 0.25, 1.0], source) if source == np.float16 else
                ints(0, 100, 3, 4, 3, dtype=source)),
            gradient=False,
        )
op("standardization", lambda tf, x: tf.image.per_image_standardization(x), normal(4, 5, 3))
op(
    "standardization_pixels",
    lambda tf, x: [
        tf.image.per_image_standardization(x),
        tf.image.per_image_standardization(tf.zeros_like(x)),
    ],
    pixels(2, 4, 5, 3),
)

# ------------------------------------------------------------------------------------------ colours
op("rgb_to_hsv", lambda tf, x: tf.image.rgb_to_hsv(x), fractions(4, 5, 3), gradient=False)
op("hsv_to_rgb", lambda tf, x: tf.image.hsv_to_rgb(x), fractions(4, 5, 3), gradient=False)
op(
    "rgb_to_hsv_edges",
    lambda tf, x: tf.image.rgb_to_hsv(x),
    value([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]]),
    gradient=False,
)
op(
    "grayscale",
    lambda tf, x: [tf.image.rgb_to_grayscale(x), tf.image.grayscale_to_rgb(x[..., :1])],
    fractions(2, 3, 3, 3),
)
op("grayscale_pixels", lambda tf, x: tf.image.rgb_to_grayscale(x), pixels(5, 6, 3))
for space in ("rgb_to_yiq", "yiq_to_rgb", "rgb_to_yuv", "yuv_to_rgb"):
    op(space, lambda tf, x, f=space: getattr(tf.image, f)(x), fractions(2, 3, 4, 3))
for name, change in {
    "adjust_brightness": lambda tf, x: [tf.image.adjust_brightness(x, d) for d in (-0.3, 0.4)],
    "adjust_contrast": lambda tf, x: [tf.image.adjust_contrast(x, d) for d in (0.3, 2.0)],
    "adjust_gamma": lambda tf, x: [tf.image.adjust_gamma(x, 0.5), tf.image.adjust_gamma(x, 2, 1.2)],
    "adjust_hue": lambda tf, x: [tf.image.adjust_hue(x, d) for d in (-0.4, 0.0, 0.1, 0.9)],
    "adjust_saturation": lambda tf, x: [tf.image.adjust_saturation(x, d) for d in (0.3, 1, 3.0)],
    "random_brightness": lambda tf, x: tf.image.random_brightness(x, 0.4, seed=2),
    "random_contrast": lambda tf, x: tf.image.random_contrast(x, 0.2, 1.8, seed=3),
    "random_hue": lambda tf, x: tf.image.random_hue(x, 0.3, seed=4),
    "random_saturation": lambda tf, x: tf.image.random_saturation(x, 0.2, 1.9, seed=5),
}.items():
    op(name, change, fractions(4, 5, 3), gradient=name in ("adjust_brightness", "adjust_gamma"))
    op(name + "_pixels", change, pixels(2, 4, 5, 3), gradient=False)
op(
    "adjust_hue_outside",
    lambda tf, x: [tf.image.adjust_hue(x, 0.2), tf.image.adjust_saturation(x, 1.5)],
    normal(3, 4, 3),
    gradient=False,
)

# ----------------------------------------------------------------------------------- boxes, patches
BOXES = [[0.1, 0.2, 0.8, 0.9], [0.7, 0.15, 0.25, 0.6], [-0.3, 0.3, 0.6, 1.4], [0.0, 0.0, 1.0, 1.0]]
op(
    "crop_and_resize",
    lambda tf, x, b: tf.image.crop_and_resize(x, b, [0, 1, 1, 0], [3, 4]),
    normal(*I),
    value(BOXES),
)
op(
    "crop_and_resize_one",
    lambda tf, x, b: tf.image.crop_and_resize(
        x, b, [0, 1, 1, 0], [1, 1], extrapolation_value=-2
    ),
    normal(*I),
    value(BOXES),
)
op(
    "crop_and_resize_nearest",
    lambda tf, x, b: tf.image.crop_and_resize(x, b, [0, 1, 1, 0], [6, 9], method="nearest"),
    normal(*I),
    value(BOXES),
    gradient=False,
)
op(
    "crop_and_resize_pixels",
    lambda tf, x, b: tf.image.crop_and_resize(x, b, [0, 1, 1, 0], [6, 9]),
    pixels(*I),
    value(BOXES),
)
for name, depth in {"gray": 1, "rgb": 3, "rgba": 4}.items():
    op(
        f"draw_bounding_boxes_{name}",
        lambda tf, x, b: tf.image.draw_bounding_boxes(x, b),
        fractions(1, 9, 12, depth),
        value([BOXES]),
        gradient=False,
    )
op(
    "draw_bounding_boxes_colors",
    lambda tf, x, b: tf.image.draw_bounding_boxes(x, b, colors=[[0.5, 0.2, 0.1], [1, 0, 0]]),
    fractions(1, 9, 12, 3),
    value([BOXES]),
    gradient=False,
)
for seed in range(4):
    op(
        f"sample_distorted_bounding_box_{seed}",
        lambda tf, b, seed=seed: list(
            tf.image.sample_distorted_bounding_box(
                [123, 217, 3],
                b,
                seed=seed + 1,
                seed2=17,
                min_object_covered=0.1 + 0.2 * seed,
                area_range=[0.05 + 0.1 * seed, 1.0],
            )
        ),
        value([[[0.1, 0.2, 0.6, 0.7]]]),
        gradient=False,
    )
op(
    "sample_distorted_bounding_box_none",
    lambda tf, b: list(
        tf.image.sample_distorted_bounding_box(
            [37, 22, 3], b, seed=3, seed2=4, use_image_if_no_bounding_boxes=True, max_attempts=3
        )
    ),
    value(np.zeros((1, 0, 4))),
    gradient=False,
)


def windows(rng):
    corners = rng.random((40, 2)) * 8
    return np.concatenate([corners, corners + rng.random((40, 2)) * 3], 1).astype(np.float32)


op(
    "non_max_suppression",
    lambda tf, b, s: [
        tf.image.non_max_suppression(b, s, 10),
        tf.image.non_max_suppression(b, s, 50, iou_threshold=0.1),
        tf.image.non_max_suppression(b, s, 50, iou_threshold=0.3, score_threshold=0.4),
        *tf.raw_ops.NonMaxSuppressionV4(
            boxes=b, scores=s, max_output_size=50, iou_threshold=0.2, score_threshold=0.5,
            pad_to_max_output_size=True,
        ),
    ],
    Input(windows),
    fractions(40),
    gradient=False,
)
op(
    "non_max_suppression_soft",
    lambda tf, b, s: [
        *tf.image.non_max_suppression_with_scores(b, s, 30, 0.9, 0.2, soft_nms_sigma=0.5),
        *tf.image.non_max_suppression_with_scores(b, s, 30, 0.3, 0.1, soft_nms_sigma=0.1),
    ],
    Input(windows),
    fractions(40),
    gradient=False,
)
op(
    "non_max_suppression_overlaps",
    lambda tf, o, s: tf.image.non_max_suppression_overlaps(o, s, 20, 0.8, 0.1),
    fractions(25, 25),
    fractions(25),
    gradient=False,
)
op(
    "combined_non_max_suppression",
    lambda tf, b, s: [
        *tf.image.combined_non_max_suppression(b, s, 4, 12, 0.3, 0.2),
        *tf.image.combined_non_max_suppression(
            b, s, 2, 12, 0.3, 0.2, pad_per_class=True, clip_boxes=False
        ),
    ],
    Input(lambda rng: np.stack([windows(rng), windows(rng)])[:, :, None] / 8),
    fractions(2, 40, 3),
    gradient=False,
)
op(
    "extract_image_patches",
    lambda tf, x: [
        tf.image.extract_image_patches(x, [1, 2, 3, 1], [1, 2, 1, 1], [1, 1, 1, 1], "VALID"),
        tf.image.extract_image_patches(x, [1, 3, 2, 1], [1, 1, 2, 1], [1, 2, 1, 1], "SAME"),
    ],
    normal(*I),
    gradient=False,
)
op(
    "extract_volume_patches",
    lambda tf, x: tf.extract_volume_patches(x, [1, 2, 3, 1, 1], [1, 1, 2, 1, 1], "SAME"),
    normal(1, 3, 5, 4, 2),
    gradient=False,
)
for version in ("ExtractGlimpse", "ExtractGlimpseV2"):
    for centered in (False, True):
        for normalized in (False, True):
            op(
                f"{version}_{centered:d}{normalized:d}",
                lambda tf, x, o, v=version, c=centered, n=normalized: getattr(tf.raw_ops, v)(
                    input=x, size=[4, 3], offsets=o, centered=c, normalized=n,
                    uniform_noise=False, noise="zero",
                ),
                normal(2, 7, 6, 2),
                value([[0.5, -0.25], [0.1, 0.6]] if normalized else [[2.0, 3.0], [-1.5, 1.0]]),
                gradient=False,
            )

# ------------------------------------------------------------------------------------------ quality
op("total_variation", lambda tf, x: [tf.image.total_variation(x), tf.image.total_variation(x[0])],
   normal(*I))
op("image_gradients", lambda tf, x: list(tf.image.image_gradients(x)), normal(*I))
op("sobel_edges", lambda tf, x: tf.image.sobel_edges(x), normal(*I))
op("psnr", lambda tf, x, y: tf.image.psnr(x, y, 1.0), fractions(2, 6, 5, 3), fractions(2, 6, 5, 3))
op("psnr_pixels", lambda tf, x, y: tf.image.psnr(x, y, 255), pixels(6, 5, 3), pixels(6, 5, 3))
op(
    "ssim",
    lambda tf, x, y: [
        tf.image.ssim(x, y, 1.0),
        tf.image.ssim(x, y, 1.0, filter_size=5, filter_sigma=1.0, k1=0.02),
    ],
    fractions(2, 13, 14, 2),
    fractions(2, 13, 14, 2),
)
op(
    "ssim_multiscale",
    lambda tf, x, y: tf.image.ssim_multiscale(
        x, y, 1.0, power_factors=(0.4, 0.6), filter_size=5
    ),
    fractions(2, 18, 21, 1),
    fractions(2, 18, 21, 1),
    gradient=False,
)


# ------------------------------------------------------------------------------------------- codecs
def smooth(height, width, channels):
    """An image that a JPEG file keeps nearly as it is."""
    y, x, c = np.ogrid[:height, :width, :channels]
    return Input(lambda rng: ((7 * y + 5 * x) * (1 + c) / 2 % 200 + 20).astype(np.uint8))


for name, dtype in {"": np.uint8, "_deep": np.uint16}.items():
    for depth in (1, 2, 3, 4):
        op(
            f"png_{depth}{name}",
            lambda tf, x, deep=name: [
                tf.image.decode_png(tf.image.encode_png(x), channels=c, dtype=t)
                for c in (0, 1, 3, 4)
                for t in (tf.uint8, tf.uint16)
            ],
            ints(0, np.iinfo(dtype).max, 5, 7, depth, dtype=dtype),
        )
for depth in (1, 3):
    op(
        f"jpeg_{depth}",
        lambda tf, x: [
            tf.image.decode_jpeg(
                tf.image.encode_jpeg(x, **how), channels=c, ratio=r, dct_method="INTEGER_ACCURATE"
            )
            for how in ({}, {"quality": 60}, {"chroma_downsampling": False, "progressive": True})
            for c, r in ((0, 1), (1, 1), (3, 1), (0, 4))
        ]
        + [
            tf.image.extract_jpeg_shape(tf.image.encode_jpeg(x)),
            tf.image.is_jpeg(tf.image.encode_jpeg(x)),
        ],
        smooth(19, 24, depth),
    )
