"""Second derivatives: the gradients of the ops that are themselves gradients, each with the values
and slopes it takes as inputs of its own."""

from cases import normal, op, positive, value

I = (2, 6, 7, 3)  # a batch of images
V = (1, 4, 5, 6, 2)  # a batch of volumes
V23 = normal(2, 3)


def raw(name, *arguments, **attributes):
    """tf.raw_ops.NAME with its inputs in the order of `arguments`."""
    return lambda tf, *x: getattr(tf.raw_ops, name)(**dict(zip(arguments, x)), **attributes)


# ------------------------------------------------------------------------------------- element-wise
for _name, _arguments, _draw in [
    ("ReluGrad", ("gradients", "features"), normal),
    ("Relu6Grad", ("gradients", "features"), normal),
    ("LeakyReluGrad", ("gradients", "features"), normal),
    ("EluGrad", ("gradients", "outputs"), normal),
    ("SeluGrad", ("gradients", "outputs"), normal),
    ("SoftplusGrad", ("gradients", "features"), normal),
    ("SigmoidGrad", ("y", "dy"), positive),
    ("TanhGrad", ("y", "dy"), normal),
    ("SqrtGrad", ("y", "dy"), positive),
    ("RsqrtGrad", ("y", "dy"), positive),
    ("ReciprocalGrad", ("y", "dy"), positive),
    ("InvGrad", ("y", "dy"), positive),
]:
    op("second_" + _name, raw(_name, *_arguments), _draw(2, 3), _draw(2, 3))


def parts_of(tf, x, y):
    z = tf.complex(x, y)
    return [tf.abs(z), tf.imag(z * z), tf.real(tf.conj(z) * tf.conj(z) * z), tf.angle(z)]


op("second_complex_parts", parts_of, positive(2, 3), positive(2, 3))
op("second_bias_grad", raw("BiasAddGrad", "out_backprop"), normal(2, 4, 3))
op("second_bias_grad_nchw", raw("BiasAddGrad", "out_backprop", data_format="NCHW"),
   normal(2, 3, 4, 5))


# ---------------------------------------------------------------------------------- convolution
def slope(build):
    """The gradient of what `build` makes, with respect to its first input, for slopes that are an
    input."""

    def function(tf, x, slopes, *more):
        y = build(tf, x, *more)
        return tf.gradients(y, x, grad_ys=tf.slice(slopes, [0] * len(slopes.shape), tf.shape(y)))[0]

    return function


def filters(name, sizes, **attributes):
    return lambda tf, x, dy: getattr(tf.raw_ops, name)(
        input=x, filter_sizes=sizes, out_backprop=dy, **attributes)


op("second_conv2d_filter", filters("Conv2DBackpropFilter", [3, 2, 3, 4], strides=[1, 1, 2, 1],
                                   padding="SAME"), normal(*I), normal(2, 6, 4, 4))
op("second_conv3d_filter", filters("Conv3DBackpropFilterV2", [2, 3, 2, 2, 3], padding="VALID",
                                   strides=[1] * 5), normal(*V), normal(1, 3, 3, 5, 3))
op("second_depthwise_filter", filters("DepthwiseConv2dNativeBackpropFilter", [3, 3, 3, 2],
                                      strides=[1, 2, 2, 1], padding="SAME"),
   normal(*I), normal(2, 3, 4, 6))
op("second_depthwise_input", lambda tf, w, dy: tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
    input_sizes=I, filter=w, out_backprop=dy, strides=[1, 2, 2, 1], padding="SAME"),
   normal(3, 3, 3, 2), normal(2, 3, 4, 6))

# ------------------------------------------------------------------------------------------ pooling
op("second_avg_pool", raw("AvgPoolGrad", "orig_input_shape", "grad", ksize=[1, 3, 2, 1],
                          strides=[1, 2, 2, 1], padding="SAME"),
   value(I, "int32"), normal(2, 3, 4, 3))
op("second_avg_pool3d", raw("AvgPool3DGrad", "orig_input_shape", "grad", ksize=[1, 2, 2, 2, 1],
                            strides=[1, 2, 2, 2, 1], padding="VALID"),
   value(V, "int32"), normal(1, 2, 2, 3, 2))
POOL = dict(ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
VOLUME = dict(ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID")


def max_grad(name, pool, **attributes):
    """A gradient of max pooling at fixed pixels, differentiated by its slopes."""
    def function(tf, x, dy):
        x = tf.stop_gradient(x)
        y = pool(tf, x)
        return getattr(tf.raw_ops, name)(orig_input=x, orig_output=y, grad=dy, **attributes)
    return function


def pool2(tf, x):
    return tf.raw_ops.MaxPool(input=x, **POOL)


def pool3(tf, x):
    return tf.raw_ops.MaxPool3D(input=x, **VOLUME)


op("second_max_pool", max_grad("MaxPoolGrad", pool2, **POOL), normal(*I), normal(2, 3, 4, 3))
op("second_max_pool_v2", max_grad("MaxPoolGradV2", pool2, **POOL), normal(*I), normal(2, 3, 4, 3))
op("third_max_pool", max_grad("MaxPoolGradGrad", pool2, **POOL), normal(*I), normal(*I))
op("third_max_pool_v2", max_grad("MaxPoolGradGradV2", pool2, **POOL), normal(*I), normal(*I),
   gradient=False)
op("second_max_pool3d", max_grad("MaxPool3DGrad", pool3, **VOLUME), normal(*V),
   normal(1, 2, 2, 3, 2))
op("third_max_pool3d", max_grad("MaxPool3DGradGrad", pool3, **VOLUME), normal(*V), normal(*V))

# ------------------------------------------------------------------------------- patches and slices
op("second_image_patches", lambda tf, x: tf.raw_ops.ExtractImagePatches(
    images=x, ksizes=[1, 3, 2, 1], strides=[1, 2, 2, 1], rates=[1, 1, 2, 1], padding="SAME"),
   normal(*I))
op("second_volume_patches", lambda tf, x: tf.raw_ops.ExtractVolumePatches(
    input=x, ksizes=[1, 2, 3, 2, 1], strides=[1, 1, 2, 2, 1], padding="VALID"), normal(*V))
for _mode in ("REFLECT", "SYMMETRIC"):
    op(f"second_mirror_pad_{_mode}", raw("MirrorPadGrad", "input", paddings=[[1, 1], [0, 2]],
                                         mode=_mode), normal(5, 6))
op("second_strided_slice", lambda tf, dy: tf.raw_ops.StridedSliceGrad(
    shape=[5, 4], begin=[1, 0], end=[5, 4], strides=[2, 3], dy=dy), normal(2, 2))
