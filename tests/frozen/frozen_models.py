"""Inference programs as TF 1.x users write them, for TensorFlow to build, freeze and answer.

Each of MODELS is a function of (tf) that builds a graph in the default graph and returns
(inputs, outputs): lists of tensors.  Weights are variables with seeded random values; record.py
freezes them.  Feeds are drawn from `feeds(name)`.

The programs use raw TF 1.x, without Keras; control flow is version 1 (Switch, Merge, Enter, ...).
"""
import zlib

import numpy as np

MODELS, _FEEDS = {}, {}


def model(*feeds):
    """feeds: functions of a random generator, one for each input."""
    def keep(function):
        MODELS[function.__name__] = function
        _FEEDS[function.__name__] = feeds
        return function
    return keep


def feeds(name):
    """The arrays fed to a model, always the same ones."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [make(rng) for make in _FEEDS[name]]


def normal(*shape):
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def weight(tf, name, *shape, scale=None):
    rng = np.random.default_rng(zlib.crc32((tf.get_default_graph().unique_name(name)).encode()))
    fan_in = max(1, int(np.prod(shape[:-1])))
    value = rng.standard_normal(shape) * (scale or (2.0 / fan_in) ** 0.5)
    return tf.Variable(value.astype(np.float32), name=name, use_resource=len(name) % 2 == 0)


def conv(tf, x, channels, size=3, stride=1, padding="SAME", activation=True):
    w = weight(tf, "w", size, size, int(x.shape[-1]), channels)
    y = tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding=padding)
    y = tf.nn.bias_add(y, weight(tf, "b", channels, scale=0.1))
    return tf.nn.relu(y) if activation else y


def normalised(tf, x):
    channels = int(x.shape[-1])
    scale, offset = weight(tf, "scale", channels, scale=0.3), weight(tf, "offset", channels)
    mean, variance = weight(tf, "mean", channels), tf.abs(weight(tf, "variance", channels)) + 0.5
    return tf.nn.fused_batch_norm(x, scale + 1.0, offset, mean, variance, is_training=False)[0]


def dense(tf, x, units):
    w = weight(tf, "w", int(x.shape[-1]), units)
    return tf.nn.bias_add(tf.matmul(x, w), weight(tf, "b", units, scale=0.1))


@model(normal(2, 28, 28, 1))
def lenet(tf):
    x = tf.placeholder(tf.float32, [None, 28, 28, 1], name="x")
    y = tf.nn.max_pool(conv(tf, x, 6, 5), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    y = tf.nn.max_pool(conv(tf, y, 16, 5, padding="VALID"), [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    y = tf.reshape(y, [-1, 5 * 5 * 16])
    return [x], [tf.nn.softmax(dense(tf, tf.nn.relu(dense(tf, y, 32)), 10), name="prob")]


@model(normal(2, 17, 17, 3))
def inception(tf):
    x = tf.placeholder(tf.float32, [None, 17, 17, 3], name="x")
    y = tf.nn.lrn(conv(tf, x, 8, 7, stride=2), 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
    pooled = tf.nn.max_pool(y, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
    y = tf.concat([conv(tf, y, 4, 1), conv(tf, conv(tf, y, 4, 1), 6, 3),
                   conv(tf, conv(tf, y, 2, 1), 3, 5), conv(tf, pooled, 3, 1)], 3)
    y = tf.nn.avg_pool(y, [1, 9, 9, 1], [1, 1, 1, 1], "VALID")
    return [x], [tf.nn.softmax(dense(tf, tf.squeeze(y, [1, 2]), 7)), tf.argmax(y, 3)]


@model(normal(2, 16, 16, 3))
def resnet(tf):
    x = tf.placeholder(tf.float32, [2, 16, 16, 3], name="x")
    y = tf.nn.relu(normalised(tf, conv(tf, tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]]), 8, 7, 2,
                                       "VALID", activation=False)))
    for stride in (1, 2):
        z = tf.nn.relu(normalised(tf, conv(tf, y, 8, 1, stride, activation=False)))
        z = normalised(tf, conv(tf, z, 16, 3, activation=False))
        y = tf.nn.relu(z + conv(tf, y, 16, 1, stride, activation=False))
    return [x], [dense(tf, tf.reduce_mean(y, [1, 2]), 5)]


@model(normal(1, 20, 24, 3))
def mobilenet(tf):
    x = tf.placeholder(tf.float32, [None, None, None, 3], name="x")
    y = tf.nn.relu6(normalised(tf, conv(tf, x, 8, 3, 2, activation=False)))
    for stride in (1, 2):
        w = weight(tf, "depthwise", 3, 3, 8, 1)
        y = tf.nn.depthwise_conv2d_native(y, w, [1, stride, stride, 1], "SAME")
        y = tf.nn.relu6(normalised(tf, y))
        y = tf.nn.relu6(normalised(tf, conv(tf, y, 8, 1, activation=False)))
    return [x], [dense(tf, tf.reduce_mean(y, [1, 2]), 4), tf.shape(y)]


@model(normal(2, 16, 16, 3))
def segmentation(tf):
    x = tf.placeholder(tf.float32, [2, 16, 16, 3], name="x")
    y = conv(tf, conv(tf, x, 6, 3, 2), 8, 3, 2)
    y = tf.nn.atrous_conv2d(y, weight(tf, "atrous", 3, 3, 8, 8), rate=2, padding="SAME")
    y = tf.nn.conv2d_transpose(y, weight(tf, "up", 4, 4, 5, 8), [2, 8, 8, 5], [1, 2, 2, 1])
    y = tf.image.resize_bilinear(y, tf.shape(x)[1:3], align_corners=True)
    return [x], [tf.nn.softmax(y), tf.argmax(y, axis=-1, output_type=tf.int32)]


@model(normal(3, 5, 4), lambda rng: np.array([5, 2, 3], np.int32))
def lstm(tf):
    """An LSTM over time with while_loop and TensorArrays; sequences end early."""
    x = tf.placeholder(tf.float32, [None, None, 4], name="x")
    lengths = tf.placeholder(tf.int32, [None], name="lengths")
    kernel, bias = weight(tf, "kernel", 4 + 6, 24), weight(tf, "bias", 24, scale=0.1)
    batch, steps = tf.shape(x)[0], tf.shape(x)[1]
    inputs = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(x, [1, 0, 2]))

    def body(t, c, h, outputs):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs.read(t), h], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, axis=1)
        new_c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        new_h = tf.tanh(new_c) * tf.sigmoid(o)
        live = t < lengths
        outputs = outputs.write(t, tf.where(live, new_h, tf.zeros_like(new_h)))
        return t + 1, tf.where(live, new_c, c), tf.where(live, new_h, h), outputs

    zero = tf.zeros([batch, 6])
    _, c, h, outputs = tf.while_loop(
        lambda t, *_: t < steps, body,
        [tf.constant(0), zero, zero, tf.TensorArray(tf.float32, steps)],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 6]), tf.TensorShape([None, 6]),
                          tf.TensorShape(None)])
    return [x, lengths], [tf.transpose(outputs.stack(), [1, 0, 2]), c, h]


@model(lambda rng: np.array([3, 0, 7, 1], np.int32), lambda rng: np.float32(0.5))
def control_flow(tf):
    """Nested loops, a condition inside one and one outside, a case."""
    counts = tf.placeholder(tf.int32, [None], name="counts")
    x = tf.placeholder(tf.float32, [], name="x")

    def body(k, total):
        def inner(i, y):
            y = tf.cond(tf.equal(i % 2, 0), lambda: y * 1.5 + x, lambda: y - 0.25)
            return i + 1, y
        _, y = tf.while_loop(lambda i, y: i < counts[k], inner, [tf.constant(0), x])
        return k + 1, total + y

    _, total = tf.while_loop(lambda k, _: k < tf.size(counts), body,
                             [tf.constant(0), tf.constant(0.0)])
    size = tf.case([(tf.greater(total, 100.0), lambda: tf.constant("large")),
                    (tf.greater(total, 1.0), lambda: tf.constant("middling"))],
                   default=lambda: tf.constant("small"))
    return [counts, x], [total, size]


@model(lambda rng: np.array([b"The quick brown fox", b"jumps over", b"", b"12 lazy  dogs"], object))
def strings(tf):
    text = tf.placeholder(tf.string, [None], name="text")
    words = tf.string_split(text)
    buckets = tf.string_to_hash_bucket_fast(words.values, 50)
    counts = tf.sparse_tensor_to_dense(tf.SparseTensor(words.indices, buckets, words.dense_shape))
    table = weight(tf, "table", 50, 3)
    embedded = tf.nn.embedding_lookup(table, counts)
    plain = tf.regex_replace(text, "[aeiou]+", "_")
    numbers = tf.string_to_number(tf.regex_replace(words.values, "[^0-9]+", "0"), tf.int32)
    return [text], [words.indices, counts, tf.reduce_sum(embedded, 1), numbers,
                    tf.string_join([plain, tf.as_string(tf.strings.length(text))], ":"),
                    tf.substr(text, [0, 1, 0, 2], [3, 2, 0, 2])]


@model(lambda rng: rng.integers(0, 30, (2, 7)).astype(np.int32))
def transformer(tf):
    """One block: embeddings, causal attention with two heads, layer norm, GELU."""
    tokens = tf.placeholder(tf.int32, [None, 7], name="tokens")

    def norm(x):
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        gain, shift = weight(tf, "gain", 8), weight(tf, "shift", 8)
        return tf.nn.batch_normalization(x, mean, variance, shift, gain, 1e-5)

    def project(x, units):
        w = weight(tf, "projection", int(x.shape[-1]), units)
        return tf.tensordot(x, w, [[2], [0]])

    def heads(x):
        return tf.transpose(tf.reshape(x, [-1, 7, 2, 4]), [0, 2, 1, 3])

    x = tf.gather(weight(tf, "embedding", 30, 8), tokens)
    q, k, v = (heads(y) for y in tf.split(project(norm(x), 24), 3, axis=-1))
    mask = tf.matrix_band_part(tf.ones([7, 7]), -1, 0)
    scores = tf.matmul(q, k, transpose_b=True) * 0.5 - 1e9 * (1.0 - mask)
    mixed = tf.reshape(tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3]), [-1, 7, 8])
    x += project(mixed, 8)
    y = project(norm(x), 16)
    x += project(0.5 * y * (1.0 + tf.erf(y / 2.0 ** 0.5)), 8)
    return [tokens], [tf.nn.log_softmax(tf.tensordot(x, weight(tf, "head", 8, 30), 1))]


@model(lambda rng: np.sort(rng.random((12, 2, 2)), 1).reshape(12, 4).astype(np.float32),
       lambda rng: rng.random(12).astype(np.float32), normal(1, 9, 9, 2))
def detection(tf):
    boxes = tf.placeholder(tf.float32, [None, 4], name="boxes")
    scores = tf.placeholder(tf.float32, [None], name="scores")
    image = tf.placeholder(tf.float32, [1, None, None, 2], name="image")
    best, order = tf.nn.top_k(scores, 8)
    boxes_of_best = tf.gather(boxes, order)
    kept = tf.image.non_max_suppression(boxes_of_best, best, 5, iou_threshold=0.4)
    chosen = tf.gather(boxes_of_best, kept)
    crops = tf.image.crop_and_resize(image, chosen, tf.zeros_like(kept), [4, 4])
    wanted = tf.where(best > 0.5)
    return [boxes, scores, image], [kept, chosen, crops, wanted, tf.gather_nd(best, wanted)]
