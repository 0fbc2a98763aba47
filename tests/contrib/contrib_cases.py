"""Programs of tf.contrib.layers and slim, for pyflow and for TensorFlow with tf_slim.

record.py runs them in TensorFlow, test_layers.py in pyflow.  Each gets (tf, slim): slim is
tf.contrib.slim or tf_slim, whose names are the same.
"""
import zlib

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def data(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def value_of(name, shape, dtype):
    """What a variable holds: by its name; positive where it is a variance."""
    made = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape) * 0.5
    if "variance" in name or "stddev" in name or "gamma" in name:
        made = np.abs(made) + 0.5
    return np.asarray(made).astype(dtype)


def placeholder(tf, *shape):
    full = [3 if size is None else size for size in shape]
    return tf.placeholder_with_default(tf.constant(data(*full)), list(shape))


def answers(tf, slim, name):
    """Everything that is compared, of one case: {key: array or text}."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        made = CASES[name](tf, slim)
        everything = tf.global_variables()
        trained = {v.name for v in tf.trainable_variables()}
        model = {v.name for v in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)}
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        said = {"variables": "\n".join(
            f"{v.name} {v.shape.as_list()} {v.dtype.base_dtype.name} {v.name in trained} "
            f"{v.name in model}" for v in everything)}
        said["shapes"] = "\n".join(f"{k} {t.shape.as_list()}" for k, t in made.items())
        ends = slim.utils.convert_collection_to_dict("ends")
        said["ends"] = "\n".join(f"{k} {t.shape.as_list()}" for k, t in ends.items())
        said["collections"] = "\n".join(
            f"{key} {[getattr(v, 'name', None) for v in tf.get_collection(key)]}"
            for key in ("weights", "biases", "mine"))
        said["counts"] = f"{len(updates)} {len(losses)}"
        floats = [t for t in made.values() if t.dtype.is_floating]
        wrt = [v for v in everything if v.name in trained]
        grads = tf.gradients(floats, wrt) if wrt else []
        assigned = [v.assign(value_of(v.op.name, v.shape.as_list(),
                                      v.dtype.base_dtype.as_numpy_dtype)) for v in everything]
        with tf.Session(graph=graph) as session:
            session.run(assigned)
            for i, loss in enumerate(losses):
                said[f"loss {i}"] = session.run(loss)
            for v, g in zip(wrt, grads):
                if g is not None:
                    said[f"grad {v.op.name}"] = session.run(g)
            session.run(assigned)
            for key, value in session.run(made).items():
                said[f"out {key}"] = value
            session.run(updates)
            for v in everything:
                if v.name not in trained:
                    said[f"kept {v.op.name}"] = session.run(v)
    return said


# ------------------------------------------------------------------------- arg_scope, dense layers
@case
def connected(tf, slim):
    x = placeholder(tf, None, 4)
    y = slim.fully_connected(x, 5, weights_regularizer=slim.l2_regularizer(0.1),
                             outputs_collections="ends")
    z = slim.fully_connected(y, 2, activation_fn=None, scope="logits",
                             variables_collections={"weights": ["weights"], "biases": ["mine"]})
    return {"y": y, "z": z, "again": slim.fully_connected(x, 5, reuse=True,
                                                          scope="fully_connected")}


@case
def connected_rank_three(tf, slim):
    return {"y": slim.fully_connected(placeholder(tf, None, 3, 4), 2, biases_initializer=None)}


@case
def connected_normalized(tf, slim):
    x = placeholder(tf, None, 4)
    return {"y": slim.fully_connected(x, 5, normalizer_fn=slim.batch_norm, scope="a",
                                      normalizer_params={"decay": 0.9, "scale": True}),
            "z": slim.fully_connected(x, 5, normalizer_fn=slim.layer_norm, scope="b")}


@case
def scoped(tf, slim):
    x = placeholder(tf, None, 6, 6, 3)
    with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=tf.nn.elu,
                        weights_regularizer=slim.l1_regularizer(0.5)) as kept:
        with slim.arg_scope([slim.conv2d], padding="VALID", outputs_collections=["ends"]):
            with slim.arg_scope([slim.model_variable], device=""):
                a = slim.conv2d(x, 4, [3, 3], scope="a")
                b = slim.conv2d(a, 4, 3, padding="SAME", scope="b")
    with slim.arg_scope(kept):
        c = slim.conv2d(b, 2, [3, 3], stride=2)
    return {"a": a, "b": b, "c": c, "d": slim.fully_connected(slim.flatten(c), 2)}


@case
def stacked(tf, slim):
    x = placeholder(tf, None, 8, 8, 3)
    net = slim.repeat(x, 2, slim.conv2d, 4, [3, 3], scope="conv1")
    net = slim.max_pool2d(net, [2, 2], scope="pool1", outputs_collections="ends")
    net = slim.repeat(net, 2, slim.conv2d, 2, [3, 3])
    net = slim.stack(slim.flatten(net), slim.fully_connected, [3, 4], scope="fc")
    net = slim.stack(net, slim.layers.relu, [[3], [2]])
    return {"y": net, "z": slim.layers.linear(net, 2), "w": slim.layers.elu(net, 2, scope="e")}


@case
def named_functions(tf, slim):
    x = placeholder(tf, None, 4)
    return {"unit": slim.unit_norm(x, 1), "max": slim.layers.maxout(x, 2),
            "soft": slim.softmax(placeholder(tf, None, 2, 3)),
            "hot": slim.one_hot_encoding(tf.constant([0, 2]), 3, on_value=2.0),
            "same": slim.dropout(x, 0.5, is_training=False, outputs_collections="ends"),
            "bias": slim.bias_add(x, scope="b", activation_fn=tf.nn.relu)}


@case
def scaled_gradient(tf, slim):
    w = slim.model_variable("w", [2, 3])
    return {"y": slim.layers.scale_gradient(w, 0.25) * 3.0}


# ------------------------------------------------------------------------------------ convolutions
@case
def convolutions(tf, slim):
    x1, x2 = placeholder(tf, None, 7, 3), placeholder(tf, None, 6, 5, 3)
    return {"one": slim.conv1d(x1, 2, 3), "two": slim.conv2d(x2, 4, [3, 2], stride=[2, 1]),
            "rate": slim.conv2d(x2, 2, 3, rate=2, biases_initializer=None),
            "three": slim.conv3d(placeholder(tf, None, 3, 4, 4, 2), 2, [2, 2, 2]),
            "plain": slim.layers.convolution(x2, 2, 1, activation_fn=None)}


@case
def transposed(tf, slim):
    x = placeholder(tf, None, 3, 4, 2)
    return {"two": slim.conv2d_transpose(x, 3, [3, 3], stride=2),
            "valid": slim.conv2d_transpose(x, 3, 2, stride=[1, 2], padding="VALID", scope="v"),
            "three": slim.conv3d_transpose(placeholder(tf, None, 2, 3, 3, 2), 2, 2, stride=2)}


@case
def separable(tf, slim):
    x = placeholder(tf, None, 6, 6, 3)
    return {"y": slim.separable_conv2d(x, 4, [3, 3], 2, weights_regularizer=slim.l2_regularizer(1.),
                                       variables_collections=["mine"]),
            "depth": slim.separable_conv2d(x, None, [3, 3], depth_multiplier=2, stride=2,
                                           scope="d"),
            "normal": slim.separable_conv2d(x, None, 3, 1, normalizer_fn=slim.batch_norm,
                                            scope="n"),
            "plane": slim.conv2d_in_plane(x, 3, stride=2)}


@case
def pools(tf, slim):
    x, v = placeholder(tf, None, 6, 6, 2), placeholder(tf, None, 4, 4, 4, 2)
    return {"a": slim.max_pool2d(x, 2), "b": slim.avg_pool2d(x, [3, 2], stride=1, padding="SAME"),
            "c": slim.max_pool3d(v, 2), "d": slim.avg_pool3d(v, 2, outputs_collections="ends"),
            "e": slim.layers.pool(x, 2, "AVG", stride=2), "f": slim.layers.pool(x, 2, "MAX",
                                                                               dilation_rate=2)}


@case
def spatial(tf, slim):
    x = placeholder(tf, None, 3, 4, 2)
    return {"y": slim.layers.spatial_softmax(x, temperature=0.5),
            "z": slim.layers.spatial_softmax(x, name="fixed", trainable=False)}


# ----------------------------------------------------------------------------------- normalisation
@case
def batch_norms(tf, slim):
    x, r = placeholder(tf, None, 4, 4, 3), placeholder(tf, None, 3)
    return {"a": slim.batch_norm(x, decay=0.9), "b": slim.batch_norm(x, scale=True, fused=False),
            "c": slim.batch_norm(r, decay=0.8, scope="rows", activation_fn=tf.nn.relu),
            "d": slim.batch_norm(x, is_training=False, scale=True, scope="still",
                                 param_initializers={"beta": tf.ones_initializer()},
                                 param_regularizers={"gamma": slim.l2_regularizer(0.1)}),
            "e": slim.batch_norm(x, center=False, outputs_collections=["ends"], scope="e",
                                 variables_collections={"moving_mean": ["mine"]})}


@case
def batch_norm_updates_at_once(tf, slim):
    x, r = placeholder(tf, None, 4, 4, 3), placeholder(tf, None, 3)
    return {"a": slim.batch_norm(x, updates_collections=None, scope="a"),
            "b": slim.batch_norm(r, updates_collections=None, decay=0.5, scope="b"),
            "c": slim.batch_norm(x, updates_collections=None, fused=False, scope="c"),
            "d": slim.batch_norm(x, updates_collections="mine", is_training=False, scope="d"),
            "e": slim.batch_norm(x, updates_collections=None, scale=True, scope="e",
                                 is_training=tf.placeholder_with_default(True, []))}


@case
def batch_norm_rarer(tf, slim):
    x, r = placeholder(tf, None, 4, 4, 3), placeholder(tf, None, 3)
    weights = tf.constant([1.0, 2.0, 0.5])
    return {"a": slim.batch_norm(x, zero_debias_moving_mean=True, decay=0.9, scope="a"),
            "b": slim.batch_norm(x, batch_weights=weights, scale=True, scope="b"),
            "c": slim.batch_norm(r, renorm=True, renorm_decay=0.9, scope="c",
                                 renorm_clipping={"rmax": 2.0, "rmin": 0.5, "dmax": 1.0}),
            "d": slim.batch_norm(x, is_training=tf.placeholder_with_default(False, []), scope="d"),
            "e": slim.batch_norm(placeholder(tf, None, 3, 2, 2, 2), batch_weights=weights,
                                 data_format="NCHW", scope="e")}


@case
def other_norms(tf, slim):
    x = placeholder(tf, None, 4, 4, 6)
    return {"layer": slim.layer_norm(x),
            "rows": slim.layer_norm(x, begin_norm_axis=-1, scale=False),
            "params": slim.layer_norm(x, begin_params_axis=1, scope="p"),
            "instance": slim.instance_norm(x), "first": slim.instance_norm(
                placeholder(tf, None, 3, 4, 4), data_format="NCHW", scope="f"),
            "group": slim.group_norm(x, groups=3), "zero": slim.group_norm(
                x, groups=2, mean_close_to_zero=True, scope="z", center=False),
            "second": slim.group_norm(placeholder(tf, 2, 4, 3, 3), 2, -3, (-2, -1), scope="s")}
