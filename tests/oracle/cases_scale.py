"""Images scaled and translated through each filter."""

from cases import ints, normal, op

I = (2, 7, 9, 3)
KERNELS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic",
           "mitchellcubic")
for kernel in KERNELS:
    for antialias in (True, False):
        op(f"scale_{kernel}_{antialias}", lambda tf, x, k=kernel, a=antialias: [
            tf.raw_ops.ScaleAndTranslate(
                images=x, size=size, scale=scale, translation=shift, kernel_type=k, antialias=a)
            for size, scale, shift in [([5, 12], [0.7, 1.4], [0.0, 0.0]),
                                       ([9, 4], [1.3, 0.31], [-1.2, 0.4]),
                                       ([6, 6], [0.05, 3.0], [2.6, -8.0])]], normal(*I))
for kind in ("uint8", "int32", "float16", "float64"):
    op(f"scale_{kind}", lambda tf, x: tf.raw_ops.ScaleAndTranslate(
        images=x, size=[4, 11], scale=[0.6, 1.2], translation=[0.5, 0.0]),
       ints(0, 200, 1, 7, 9, 2, dtype=kind), gradient=False)
