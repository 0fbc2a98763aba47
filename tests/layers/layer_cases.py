"""Programs of tf.layers, for pyflow and for TensorFlow: each builds a graph and returns tensors.

record.py runs them in TensorFlow, test_layers.py in pyflow.  Variables get values by name, so both
have the same.
"""
import zlib

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def data(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def value_of(name, shape, dtype):
    """What a variable holds: by its name; positive where it is a variance."""
    made = np.random.default_rng(zlib.crc32(name.encode())).normal(size=shape) * 0.5
    if "variance" in name or "stddev" in name or "gamma" in name:
        made = np.abs(made) + 0.5
    return made.astype(dtype)


def placeholder(tf, *shape, value=None, dtype=None):
    """A tensor of static shape `shape` (None: unknown) that holds data."""
    full = [3 if size is None else size for size in shape]
    made = data(*full) if value is None else value
    return tf.placeholder_with_default(tf.constant(made, dtype), list(shape))


def answers(tf, name):
    """Everything that is compared, of one case: {key: array or text}."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        made = CASES[name](tf)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        everything = tf.global_variables()
        trained = {v.name for v in tf.trainable_variables()}
        floats = [t for t in made.values() if t.dtype.is_floating]
        wrt = [v for v in everything if v.name in trained]
        grads = tf.gradients(floats, wrt) if floats and wrt else []
        said = {"variables": "\n".join(f"{v.name} {v.shape.as_list()} {v.dtype.base_dtype.name} "
                                       f"{v.name in trained}" for v in everything),
                "shapes": "\n".join(f"{key} {t.shape.as_list() if t.shape.ndims is not None else None}"
                                    for key, t in made.items()),
                "counts": f"{len(updates)} {len(losses)}"}
        assigned = [v.assign(value_of(v.op.name, v.shape.as_list(), v.dtype.base_dtype.as_numpy_dtype))
                    for v in everything]
        with tf.Session(graph=graph) as session:
            session.run(assigned)
            for key, value in session.run(made).items():
                said[f"out {key}"] = value
            for v, g in zip(wrt, grads):
                if g is not None:
                    said[f"grad {v.op.name}"] = session.run(g)
            for i, loss in enumerate(losses):
                said[f"loss {i}"] = session.run(loss)
            if updates:
                session.run(updates)
                for v in everything:
                    said[f"updated {v.op.name}"] = session.run(v)
    return said


# ------------------------------------------------------------------------------------------- dense
@case
def dense(tf):
    x = placeholder(tf, None, 4)
    return {"y": tf.layers.dense(x, 5), "z": tf.layers.dense(x, 2, activation=tf.nn.relu)}


@case
def dense_rank_three(tf):
    return {"y": tf.layers.dense(placeholder(tf, 2, None, 4), 5, activation=tf.tanh)}


@case
def dense_options(tf):
    x = placeholder(tf, 3, 4)
    y = tf.layers.dense(
        x, 3, use_bias=False, name="logits", kernel_initializer=tf.ones_initializer(),
        kernel_regularizer=lambda w: tf.reduce_sum(w * w))
    return {"y": y, "z": tf.layers.dense(x, 3, use_bias=False, name="logits", reuse=True)}


@case
def dense_in_scopes(tf):
    x = placeholder(tf, 3, 4)
    made = {}
    with tf.variable_scope("net", regularizer=lambda w: 0.1 * tf.reduce_sum(tf.abs(w))):
        made["a"] = tf.layers.dense(x, 4)
        made["b"] = tf.layers.dense(made["a"], 4)
    with tf.variable_scope("net", reuse=True):
        made["c"] = tf.layers.dense(x, 4, name="dense")
    with tf.variable_scope("other", reuse=tf.AUTO_REUSE):
        made["d"] = tf.layers.dense(x, 4, name="same")
        made["e"] = tf.layers.dense(x, 4, name="same")
    return made


@case
def layer_called_twice(tf):
    layer = tf.layers.Dense(3, bias_regularizer=lambda b: tf.reduce_sum(b * b),
                            activity_regularizer=lambda y: 0.01 * tf.reduce_sum(y * y))
    a, b = layer(placeholder(tf, 3, 4)), layer(placeholder(tf, 2, 4))
    return {"a": a, "b": b, "losses": tf.constant(len(layer.losses)),
            "params": tf.constant(layer.count_params())}


@case
def dense_double(tf):
    return {"y": tf.layers.dense(placeholder(tf, 2, 3, value=data(2, 3, dtype=np.float64)), 2)}


@case
def dense_not_trainable(tf):
    x = placeholder(tf, 3, 4)
    return {"y": tf.layers.dense(x, 2, trainable=False), "z": tf.layers.dense(x, 2)}


@case
def dropout_and_flatten(tf):
    x = placeholder(tf, None, 2, 5)
    training = tf.placeholder_with_default(False, [])
    return {"still": tf.layers.dropout(x, 0.4), "asked": tf.layers.dropout(x, training=training),
            "flat": tf.layers.flatten(x),
            "ones": tf.to_float(tf.layers.dropout(tf.ones([1000]), 0.5, training=True) < 3.0),
            "planes": tf.layers.Flatten(data_format="channels_first")(placeholder(tf, 2, 3, 4, 5))}


# ------------------------------------------------------------------------------------- convolutions
@case
def conv1d(tf):
    x = placeholder(tf, None, 9, 3)
    return {"y": tf.layers.conv1d(x, 4, 3), "s": tf.layers.conv1d(x, 4, 3, 2, "same"),
            "d": tf.layers.conv1d(x, 2, 3, dilation_rate=2, activation=tf.nn.elu)}


@case
def conv2d(tf):
    x = placeholder(tf, None, 9, 8, 3)
    return {"y": tf.layers.conv2d(x, 4, 3), "s": tf.layers.conv2d(x, 4, (3, 2), (2, 1), "same"),
            "d": tf.layers.conv2d(x, 2, 3, dilation_rate=(2, 2), padding="SAME"),
            "n": tf.layers.conv2d(x, 2, [1, 1], use_bias=False, name="one")}


@case
def conv3d(tf):
    x = placeholder(tf, 1, 5, 6, 5, 2)
    return {"y": tf.layers.conv3d(x, 3, 3), "s": tf.layers.conv3d(x, 3, 2, 2, "same")}


@case
def separable(tf):
    x = placeholder(tf, None, 9, 8, 3)
    return {"y": tf.layers.separable_conv2d(x, 4, 3, depth_multiplier=2),
            "s": tf.layers.separable_conv2d(x, 4, 3, 2, "same", activation=tf.nn.relu),
            "one": tf.layers.separable_conv1d(placeholder(tf, 2, 9, 3), 4, 3, 2)}


@case
def transposed(tf):
    x = placeholder(tf, None, 4, 5, 3)
    return {"y": tf.layers.conv2d_transpose(x, 2, 3, 2),
            "s": tf.layers.conv2d_transpose(x, 2, 3, (2, 1), "same"),
            "v": tf.layers.conv3d_transpose(placeholder(tf, 1, 3, 2, 3, 2), 2, 2, 2)}


@case
def pools(tf):
    x, line = placeholder(tf, None, 7, 6, 2), placeholder(tf, 2, 7, 3)
    volume = placeholder(tf, 1, 4, 5, 6, 2)
    made = {}
    for padding in ("valid", "same"):
        for kind in ("max", "average"):
            pool = {n: getattr(tf.layers, f"{kind}_pooling{n}d") for n in (1, 2, 3)}
            made[f"{kind}1 {padding}"] = pool[1](line, 3, 2, padding)
            made[f"{kind}2 {padding}"] = pool[2](x, (3, 2), (2, 2), padding)
            made[f"{kind}3 {padding}"] = pool[3](volume, 2, 2, padding)
    return made


# ----------------------------------------------------------------------------------- normalisation
def _norm(tf, x, **options):
    return {"y": tf.layers.batch_normalization(x, **options)}


@case
def norm_still(tf):
    return _norm(tf, placeholder(tf, None, 4))


@case
def norm_training(tf):
    return _norm(tf, placeholder(tf, 6, 4), training=True, momentum=0.9)


@case
def norm_fused_training(tf):
    return _norm(tf, placeholder(tf, None, 5, 4, 3), training=True, momentum=0.9)


@case
def norm_fused_still(tf):
    return _norm(tf, placeholder(tf, 2, 5, 4, 3), name="bn")


@case
def norm_asked(tf):
    training = tf.placeholder_with_default(True, [])
    made = {"y": tf.layers.batch_normalization(placeholder(tf, 6, 4), training=training)}
    made["z"] = tf.layers.batch_normalization(placeholder(tf, 2, 5, 4, 3), training=training)
    return made


@case
def norm_not_asked(tf):
    training = tf.placeholder_with_default(False, [])
    made = {"y": tf.layers.batch_normalization(placeholder(tf, 6, 4), training=training)}
    made["z"] = tf.layers.batch_normalization(placeholder(tf, 2, 5, 4, 3), training=training)
    return made


@case
def norm_not_fused(tf):
    return _norm(tf, placeholder(tf, 2, 5, 4, 3), training=True, fused=False, scale=False)


@case
def norm_axes(tf):
    x = placeholder(tf, 3, 4, 5)
    return {"one": tf.layers.batch_normalization(x, axis=1, training=True),
            "two": tf.layers.batch_normalization(x, axis=[1, 2], training=True, center=False),
            "still": tf.layers.batch_normalization(x, axis=1)}


@case
def norm_renorm(tf):
    return _norm(tf, placeholder(tf, 6, 4), training=True, renorm=True,
                 renorm_clipping={"rmax": 1.5, "rmin": 0.7, "dmax": 0.3}, momentum=0.9)


@case
def norm_virtual(tf):
    return _norm(tf, placeholder(tf, 6, 4), training=True, virtual_batch_size=2, momentum=0.9)


@case
def norm_virtual_image(tf):
    return _norm(tf, placeholder(tf, 6, 2, 2, 3), training=True, virtual_batch_size=3)


@case
def norm_adjusted(tf):
    def adjustment(shape):
        return tf.fill([1, 4], 1.5), tf.fill([1, 4], 0.25)
    return _norm(tf, placeholder(tf, 6, 4), training=True, adjustment=adjustment)


@case
def norm_regularized(tf):
    return _norm(tf, placeholder(tf, 6, 4), gamma_regularizer=lambda g: tf.reduce_sum(g * g),
                 trainable=False, training=True)


@case
def norm_half(tf):
    x = placeholder(tf, 4, 3, value=data(4, 3, dtype=np.float16))
    return _norm(tf, x, training=True)


# -------------------------------------------------------------------------------------- subclasses
@case
def own_layer(tf):
    class Scaled(tf.layers.Layer):
        def build(self, shape):
            self.factor = self.add_variable("factor", [int(shape[-1])],
                                            initializer=tf.ones_initializer())
            self.steps = self.add_weight("steps", [], dtype=tf.int32, trainable=False,
                                         initializer=tf.zeros_initializer())
            super().build(shape)

        def call(self, inputs, extra=0.0):
            return inputs * self.factor + extra

    layer = Scaled()
    x = placeholder(tf, 3, 4)
    return {"a": layer(x), "b": layer(x, extra=2.0), "c": Scaled(name="mine")(x)}
