"""Neural-network ops."""

import numpy as np

from cases import ints, normal, op, positive, value

I = (2, 7, 6, 3)

for name in [
    "relu",
    "relu6",
    "elu",
    "selu",
    "softplus",
    "softsign",
    "leaky_relu",
    "softmax",
    "log_softmax",
    "l2_loss",
    "crelu",
    "swish",
]:
    op("nn_" + name, lambda tf, x, name=name: getattr(tf.nn, name)(x), normal(3, 5))
op("softmax_axis", lambda tf, x: tf.nn.softmax(x, axis=1), normal(2, 3, 4))
op(
    "softmax_cross_entropy",
    lambda tf, x: tf.nn.softmax_cross_entropy_with_logits(
        labels=[[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]], logits=x
    ),
    normal(2, 3),
)
op(
    "softmax_cross_entropy_v2",
    lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(y), logits=x),
    normal(2, 3),
    normal(2, 3),
)
op(
    "sparse_softmax_cross_entropy",
    lambda tf, x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
    normal(4, 3),
    ints(0, 3, 4),
)
op(
    "sigmoid_cross_entropy",
    lambda tf, x, y: tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x),
    normal(4, 3),
    positive(4, 3),
)
op(
    "weighted_cross_entropy",
    lambda tf, x, y: tf.nn.weighted_cross_entropy_with_logits(y, x, 2.0),
    normal(4),
    positive(4),
)
op("bias_add", lambda tf, x, b: tf.nn.bias_add(x, b), normal(*I), normal(3))
op(
    "bias_add_nchw",
    lambda tf, x, b: tf.nn.bias_add(x, b, data_format="NCHW"),
    normal(2, 3, 4, 5),
    normal(3),
)
for padding in ["SAME", "VALID"]:
    for stride in [1, 2]:
        tag = f"_{padding.lower()}_{stride}"
        op(
            "conv2d" + tag,
            lambda tf, x, w, p=padding, s=stride: tf.nn.conv2d(
                x, w, strides=[1, s, s, 1], padding=p
            ),
            normal(*I),
            normal(3, 2, 3, 4),
        )
        op(
            "max_pool" + tag,
            lambda tf, x, p=padding, s=stride: tf.nn.max_pool(x, [1, 3, 2, 1], [1, s, s, 1], p),
            normal(*I),
        )
        op(
            "avg_pool" + tag,
            lambda tf, x, p=padding, s=stride: tf.nn.avg_pool(x, [1, 3, 2, 1], [1, s, s, 1], p),
            normal(*I),
        )
op(
    "conv2d_1x1",
    lambda tf, x, w: tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"),
    normal(*I),
    normal(1, 1, 3, 5),
)
op(
    "conv2d_dilated",
    lambda tf, x, w: tf.nn.conv2d(
        x, w, strides=[1, 1, 1, 1], padding="VALID", dilations=[1, 2, 2, 1]
    ),
    normal(*I),
    normal(3, 2, 3, 4),
    gradient=False,
)
op(
    "conv2d_wide",
    lambda tf, x, w: tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"),
    normal(2, 9, 9, 16),
    normal(5, 5, 16, 24),
)
op(
    "conv2d_transpose",
    lambda tf, x, w: tf.nn.conv2d_transpose(x, w, [2, 8, 8, 3], [1, 2, 2, 1], "SAME"),
    normal(2, 4, 4, 5),
    normal(3, 3, 3, 5),
)
op(
    "depthwise_conv2d",
    lambda tf, x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
    normal(*I),
    normal(3, 3, 3, 2),
)
op(
    "lrn",
    lambda tf, x: tf.nn.local_response_normalization(
        x, depth_radius=2, bias=1.0, alpha=0.1, beta=0.5
    ),
    normal(1, 3, 3, 6),
)
op("l2_normalize", lambda tf, x: tf.nn.l2_normalize(x, 1), normal(3, 4))
op(
    "batch_normalization",
    lambda tf, x, m, v: tf.nn.batch_normalization(x, m, v, 0.5, 2.0, 1e-3),
    normal(4, 3),
    normal(3),
    positive(3),
)
op(
    "fused_batch_norm",
    lambda tf, x, s, o: tf.nn.fused_batch_norm(x, s, o, epsilon=1e-3)[0],
    normal(2, 4, 4, 3),
    positive(3),
    normal(3),
)
op("xw_plus_b", lambda tf, x, w, b: tf.nn.xw_plus_b(x, w, b), normal(2, 3), normal(3, 4), normal(4))
op("dropout_keep_all", lambda tf, x: tf.nn.dropout(x, rate=0.0), normal(3, 4))
op("check_numerics", lambda tf, x: tf.check_numerics(x, "not finite"), normal(3))
op(
    "losses",
    lambda tf, x, y: [tf.losses.mean_squared_error(x, y), tf.losses.absolute_difference(x, y)],
    normal(3, 2),
    normal(3, 2),
)
op(
    "mlp_loss",
    lambda tf, x, w, v: tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=[0, 1, 1, 0, 2], logits=tf.matmul(tf.nn.relu(tf.matmul(x, w)), v)
        )
    ),
    normal(5, 6),
    normal(6, 4),
    normal(4, 3),
)
op("embedding_mean", lambda tf, t: tf.reduce_mean(tf.gather(t, [[0, 2], [2, 4]]), 1), normal(5, 3))
op("log_poisson", lambda tf, x, y: tf.nn.log_poisson_loss(y, x), normal(3), positive(3))
op(
    "zero_fraction",
    lambda tf, x: tf.nn.zero_fraction(x),
    value([0.0, 1.0, 0.0, 2.0]),
    gradient=False,
)
