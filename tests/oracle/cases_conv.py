"""Convolutions in one, two and three dimensions, transposed, grouped, with holes; morphology."""

from cases import normal, op

I, V = (2, 7, 6, 3), (1, 5, 6, 4, 2)

# ----------------------------------------------------------------------------------- two dimensions
for name, attrs in {
    "explicit": dict(padding=[[0, 0], [1, 2], [0, 3], [0, 0]], strides=[1, 2, 1, 1]),
    "wide_stride": dict(padding="SAME", strides=[1, 3, 2, 1]),
    "stride_beyond_filter": dict(padding="VALID", strides=[1, 4, 4, 1]),
}.items():
    op("conv2d_" + name, lambda tf, x, w, a=attrs: tf.nn.conv2d(x, w, **a), normal(*I),
       normal(3, 2, 3, 4))
for padding in ["SAME", "VALID"]:
    op("conv2d_dilated_" + padding.lower(), lambda tf, x, w, p=padding: tf.nn.conv2d(
        x, w, strides=[1, 1, 1, 1], padding=p, dilations=[1, 2, 3, 1]), normal(2, 9, 9, 2),
       normal(3, 2, 2, 3), gradient=False)  # TensorFlow's CPU has no gradient with dilations
op("conv2d_scalar_arguments", lambda tf, x, w: tf.nn.conv2d(x, w, 2, "SAME", dilations=1),
   normal(*I), normal(3, 3, 3, 2))
op("conv2d_many_channels", lambda tf, x, w: tf.nn.conv2d(x, w * 0.05, [1, 1, 1, 1], "SAME"),
   normal(1, 7, 7, 96), normal(3, 3, 96, 130))
op("conv2d_pointwise", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID"),
   normal(2, 9, 7, 70), normal(1, 1, 70, 40))
op("conv2d_one_output", lambda tf, x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"),
   normal(2, 6, 6, 20), normal(3, 3, 20, 1))
op("conv2d_double", lambda tf, x, w: tf.nn.conv2d(
    tf.cast(x, tf.float64), tf.cast(w, tf.float64), [1, 2, 2, 1], "SAME"), normal(*I),
   normal(3, 3, 3, 5))
for name in ["input", "filter"]:
    op("conv2d_backprop_" + name + "_op", lambda tf, x, w, y, n=name: (
        tf.nn.conv2d_backprop_input([2, 7, 6, 3], w, y, [1, 2, 2, 1], "SAME") if n == "input" else
        tf.nn.conv2d_backprop_filter(x, [3, 2, 3, 4], y, [1, 2, 2, 1], "SAME")), normal(*I),
       normal(3, 2, 3, 4), normal(2, 4, 3, 4), gradient=False)
op("conv2d_transpose_valid", lambda tf, y, w: tf.nn.conv2d_transpose(
    y, w, [2, 9, 8, 3], [1, 2, 2, 1], "VALID"), normal(2, 4, 3, 5), normal(3, 3, 3, 5))
op("conv2d_transpose_stride", lambda tf, y, w: tf.nn.conv2d_transpose(
    y, w, [1, 8, 9, 2], [1, 2, 3, 1], "SAME"), normal(1, 4, 3, 3), normal(4, 3, 2, 3))
op("atrous_conv2d", lambda tf, x, w: tf.nn.atrous_conv2d(x, w, 2, "SAME"), normal(*I),
   normal(3, 3, 3, 4))
op("atrous_conv2d_valid", lambda tf, x, w: tf.nn.atrous_conv2d(x, w, 2, "VALID"),
   normal(2, 9, 8, 3), normal(3, 3, 3, 4))

# --------------------------------------------------------------------------------------- depthwise
for padding in ["SAME", "VALID"]:
    for stride in [1, 2]:
        op(f"depthwise_{padding.lower()}_{stride}", lambda tf, x, w, p=padding, s=stride:
           tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], p), normal(*I), normal(3, 3, 3, 2))
op("depthwise_rate", lambda tf, x, w: tf.nn.depthwise_conv2d(
    x, w, [1, 1, 1, 1], "SAME", rate=[2, 2]),
   normal(2, 8, 8, 3), normal(3, 3, 3, 1))
op("depthwise_explicit", lambda tf, x, w: tf.nn.depthwise_conv2d(
    x, w, [1, 1, 1, 1], [[0, 0], [1, 0], [2, 1], [0, 0]]), normal(*I), normal(3, 3, 3, 2))
op("separable_conv2d_stride", lambda tf, x, d, p: tf.nn.separable_conv2d(
    x, d, p, [1, 2, 2, 1], "SAME"), normal(*I), normal(3, 3, 3, 2), normal(1, 1, 6, 4))
op("separable_conv2d_rate", lambda tf, x, d, p: tf.nn.separable_conv2d(
    x, d, p, [1, 1, 1, 1], "VALID", rate=[2, 2]), normal(1, 9, 9, 3), normal(3, 3, 3, 2),
   normal(1, 1, 6, 4))

# -------------------------------------------------------------------------------------- one, three
for padding in ["SAME", "VALID"]:
    op("conv1d_" + padding.lower(), lambda tf, x, w, p=padding: tf.nn.conv1d(x, w, 2, p),
       normal(2, 9, 3), normal(4, 3, 5))
    op("conv3d_" + padding.lower(), lambda tf, x, w, p=padding: tf.nn.conv3d(
        x, w, [1, 1, 2, 1, 1], p), normal(*V), normal(2, 3, 2, 2, 3))
    op("conv3d_stride_" + padding.lower(), lambda tf, x, w, p=padding: tf.nn.conv3d(
        x, w, [1, 2, 2, 3, 1], p), normal(*V), normal(3, 2, 2, 2, 3))
op("conv1d_dilated", lambda tf, x, w: tf.nn.conv1d(x, w, 1, "SAME", dilations=2), normal(2, 9, 3),
   normal(3, 3, 2), gradient=False)
op("conv3d_pointwise", lambda tf, x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"), normal(2, 3, 4, 3, 2),
   normal(1, 1, 1, 2, 5))
op("conv1d_transpose", lambda tf, y, w: tf.nn.conv1d_transpose(y, w, [2, 10, 3], 2, "SAME"),
   normal(2, 5, 4), normal(3, 3, 4))
op("conv3d_transpose", lambda tf, y, w: tf.nn.conv3d_transpose(
    y, w, [1, 6, 5, 4, 3], [1, 2, 1, 2, 1], "SAME"), normal(1, 3, 5, 2, 2), normal(3, 2, 3, 3, 2))
op("conv3d_backprop_filter", lambda tf, x, y: tf.nn.conv3d_backprop_filter_v2(
    x, [2, 3, 2, 2, 3], y, [1, 1, 1, 1, 1], "VALID"), normal(*V), normal(1, 4, 4, 3, 3),
   gradient=False)
for rank, shape, window in [(1, (2, 9, 3), (3, 3, 4)), (2, I, (3, 2, 3, 4)),
                            (3, V, (2, 2, 2, 2, 3))]:
    op(f"convolution_{rank}", lambda tf, x, w: tf.nn.convolution(x, w, "SAME"), normal(*shape),
       normal(*window))
    op(f"convolution_{rank}_strides", lambda tf, x, w, r=rank: tf.nn.convolution(
        x, w, "VALID", strides=[2] * r), normal(*shape), normal(*window))
for rank, shape, window in [(1, (2, 9, 3), (3, 3, 4)), (2, I, (3, 2, 3, 4))]:
    op(f"convolution_{rank}_dilation", lambda tf, x, w, r=rank: tf.nn.convolution(
        x, w, "SAME", dilation_rate=[2] * r), normal(*shape), normal(*window))
op("conv_transpose_2", lambda tf, y, w: tf.nn.conv_transpose(y, w, [1, 8, 6, 3], [1, 2, 2, 1]),
   normal(1, 4, 3, 2), normal(3, 3, 3, 2))
for padding in ["SAME", "VALID"]:
    op("with_space_to_batch_" + padding.lower(), lambda tf, x, w, p=padding:
       tf.nn.with_space_to_batch(x, [2, 2], p, lambda y, rank, padding: tf.nn.conv2d(
           y, w, [1, 1, 1, 1], padding), filter_shape=[3, 3]), normal(2, 8, 7, 3),
       normal(3, 3, 3, 4))

# -------------------------------------------------------------------------------------- morphology
for padding in ["SAME", "VALID"]:
    op("dilation2d_" + padding.lower(), lambda tf, x, f, p=padding: tf.nn.dilation2d(
        x, f, [1, 2, 1, 1], [1, 1, 2, 1], p), normal(2, 8, 7, 3), normal(3, 2, 3))
    op("erosion2d_" + padding.lower(), lambda tf, x, f, p=padding: tf.nn.erosion2d(
        x, f, [1, 1, 2, 1], [1, 2, 1, 1], p), normal(2, 8, 7, 3), normal(3, 2, 3))
op("dilation2d_integers", lambda tf, x, f: tf.nn.dilation2d(
    tf.cast(x * 9, tf.int32), tf.cast(f * 5, tf.int32), [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
   normal(1, 5, 5, 2), normal(3, 3, 2), gradient=False)
