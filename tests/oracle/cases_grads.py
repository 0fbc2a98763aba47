"""Gradients that are recorded for themselves: of gradient ops, of tensors of unknown rank, through
sparse gradients and arrays that grow, and for `grad_ys` of another shape."""

import numpy as np

from cases import ints, normal, op, positive, script, value


# ----------------------------------------------------------------------------- batch normalisation
def _norm_grad(name, training):
    def function(tf, dy, x, scale, mean, variance):
        third = {"reserve_space_3": tf.zeros([0])} if name.endswith("V3") else {}
        return list(getattr(tf.raw_ops, name)(
            y_backprop=dy, x=x, scale=scale, reserve_space_1=mean, reserve_space_2=variance,
            is_training=training, epsilon=0.01, **third))[:3]
    return function


for _name in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"):
    for _training in (True, False):
        op(f"second_{_name}_{_training}", _norm_grad(_name, _training), normal(2, 3, 2, 3),
           normal(2, 3, 2, 3), positive(3), normal(3), positive(3))

# ------------------------------------------------------------------------------------ one op each
op("hsv_gradient", lambda tf, x: tf.image.rgb_to_hsv(x), positive(3, 4, 3))
op("hsv_gradient_of_ties", lambda tf, x: tf.image.rgb_to_hsv(x), value(
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.25], [0.25, 0.5, 0.5], [0.5, 0.25, 0.5], [0.0, 0.0, 0.0],
     [0.0, 0.5, 0.0], [1.0, 0.0, 0.0], [0.25, 0.25, 0.5]]))
op("segment_prod_gradient", lambda tf, x: tf.math.segment_prod(x, [0, 0, 1, 1, 1, 4]),
   value([[1.0, 2.0], [3.0, 0.0], [0.0, 5.0], [0.0, -6.0], [2.0, 0.0], [4.0, 7.0]]))
op("second_max_pool_zeros", lambda tf, x: tf.gradients(tf.nn.max_pool(
    x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), x)[0], normal(1, 4, 4, 1))
op("cross_entropy_over_dim_0", lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits_v2(
    labels=tf.nn.softmax(y), logits=x, dim=0), normal(2, 3, 4), normal(2, 3, 4))
op("cross_entropy_over_dim_1", lambda tf, x, y: tf.nn.softmax_cross_entropy_with_logits(
    labels=y, logits=x, dim=1), normal(2, 3, 4), normal(2, 3, 4))
op("cross_entropy_without_classes", lambda tf, x: tf.nn.softmax_cross_entropy_with_logits(
    labels=x, logits=x), normal(2, 3, 0), gradient=False)
op("standardized_uint8", lambda tf, x: tf.image.per_image_standardization(x),
   ints(0, 255, 3, 3, 3, dtype=np.uint8))
op("standardized_int64", lambda tf, x: tf.image.per_image_standardization(x),
   ints(0, 1000, 2, 3, 3, 1, dtype=np.int64))
op("sparse_reductions_over_none", lambda tf, x: [
    f(tf.SparseTensor([[0, 0], [1, 2]], x, [2, 3]), axis=[], keepdims=keep)
    for f in (tf.sparse_reduce_sum, tf.sparse_reduce_max) for keep in (False, True)],
   normal(2), gradient=False)
op("gather_of_nothing", lambda tf, x: tf.gather(x, [0, 5], axis=1), normal(0, 0), gradient=False)


# ------------------------------------------------------------------------------- unknown ranks
def _of_unknown_rank(build, array):
    """Values and gradients of what `build` makes of a placeholder of unknown rank."""

    def function(tf):
        x = tf.placeholder(tf.float32)
        y = build(tf, x)
        grads = tf.gradients(y, x)
        with tf.Session() as session:
            found = session.run([y] + [tf.convert_to_tensor(g) for g in grads], {x: array})
        return dict(zip(("value", "gradient"), found))

    return function


DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 7
UNKNOWN = {
    "gather_axis_1": lambda tf, x: tf.gather(tf.square(x), [2, 0, 2], axis=1),
    "gather_axis_last": lambda tf, x: tf.gather(tf.square(x), [[1, 0], [3, 3]], axis=-1),
    "gather_batched": lambda tf, x: tf.gather(tf.square(x), [[1, 1], [0, 2]], axis=1, batch_dims=1),
    "gather_batched_far": lambda tf, x: tf.gather(tf.square(x), [[3], [0]], axis=2, batch_dims=1),
    "gather_axis_computed": lambda tf, x: tf.gather(tf.square(x), [1, 1], axis=tf.rank(x) - 2),
    "segment_mean": lambda tf, x: tf.math.segment_mean(tf.square(x), [0, 0]),
    "unsorted_sum": lambda tf, x: tf.math.unsorted_segment_sum(tf.square(x), [1, -1], 3),
    "unsorted_max": lambda tf, x: tf.math.unsorted_segment_max(tf.square(x), [1, -1], 3),
    "unsorted_min": lambda tf, x: tf.math.unsorted_segment_min(tf.square(x), [1, 1], 3),
}


@script
def gradients_of_unknown_rank(tf):
    found = {}
    for name, build in UNKNOWN.items():
        for key, array in _of_unknown_rank(build, DATA)(tf).items():
            found[f"{name}_{key}"] = array
    return found


@script
def gathers_in_a_loop(tf):
    """A loop invariant of unknown rank: its gradient is a growing list of rows."""
    x = tf.placeholder(tf.float32)
    _, total = tf.while_loop(lambda i, a: i < 3,
                             lambda i, a: (i + 1, a + tf.reduce_sum(tf.gather(x, [i, 0])) * 2.0),
                             [0, tf.constant(0.0)])
    with tf.Session() as session:
        gradient = tf.convert_to_tensor(tf.gradients(total, x)[0])
        return {"one": session.run(gradient, {x: np.ones(4, np.float32)}),
                "two": session.run(gradient, {x: np.ones((4, 2), np.float32)})}


@script
def rows_of_rows(tf):
    """Gathers of gathers: the gradient of the inner one is made of tensors alone."""
    found = {}
    for resource in (False, True):
        w = tf.Variable(np.arange(8.0).reshape(4, 2), use_resource=resource, trainable=True)
        inner = tf.gather(tf.gather(w, [1, 2, 3]), [0, 2])
        ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 3, 1], tf.int64), [2, 2])
        weights = tf.SparseTensor(ids.indices, tf.constant([1.0, 2.0, 3.0], tf.float64), [2, 2])
        looked = tf.nn.embedding_lookup_sparse(w, ids, weights, combiner="sum")
        with tf.Session() as session:
            session.run(w.initializer)
            for name, y in (("gathers", inner), ("embedding", looked)):
                g = tf.gradients(y, w)[0]
                rows = session.run(g)
                found[f"{name}_{resource}_values"] = rows.values
                found[f"{name}_{resource}_indices"] = rows.indices
                found[f"{name}_{resource}_doubled"] = session.run(tf.convert_to_tensor(g) * 2.0)
    return found


@script
def split_of_an_array_that_grows(tf):
    x = tf.placeholder(tf.float32, [3])
    array = tf.TensorArray(tf.float32, size=3, dynamic_size=True, infer_shape=False)
    y = array.split(x, [1, 1, 1]).write(3, [4.0]).concat()
    gradient = tf.gradients(y, x, grad_ys=tf.constant([1.0, 2.0, 3.0, 4.0]))[0]
    with tf.Session() as session:
        value_, slope = session.run([y, gradient], {x: [1.0, 2.0, 3.0]})
    return {"value": value_, "gradient": slope}


@script
def given_gradients_of_another_shape(tf):
    cases = {"reshape": (lambda x: tf.reshape(x, [6]), (3, 2)),
             "sum": (lambda x: tf.reduce_sum(x, 0), (3, 1)),
             "sum_last": (lambda x: tf.reduce_sum(x, 1), (1, 2)),
             "sum_all": (lambda x: tf.reduce_sum(x), (1,)),
             "sum_kept": (lambda x: tf.reduce_sum(x, 0, keepdims=True), (3,)),
             "mean": (lambda x: tf.reduce_mean(x, 0), (3, 1)),
             "max": (lambda x: tf.reduce_max(x, 0), (3, 1)),
             "expand": (lambda x: tf.expand_dims(x, 0), (3, 2))}
    found = {}
    x = tf.placeholder(tf.float32, [2, 3])
    with tf.Session() as session:
        for name, (build, shape) in cases.items():
            given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            gradient = tf.gradients(build(x), x, grad_ys=given)[0]
            found[name] = session.run(gradient, {x: np.arange(6.0).reshape(2, 3)})
    return found


@script
def variables_of_no_elements(tf):
    """Nothing has to be initialised."""
    v = tf.Variable(tf.zeros([0, 3]), use_resource=False)
    with tf.Session() as session:
        return {"value": session.run(v), "sum": session.run(tf.reduce_sum(v)),
                "all": session.run(tf.reduce_all([])), "any": session.run(tf.reduce_any([]))}
