"""Models as they were written for TensorFlow 1.x, for the exchange: functions of (tf, tools) that
build into the default graph, initialise, train and evaluate it.

Random numbers are left out: variables begin with constants.  Models of tf.contrib cannot be written
by TensorFlow 2.21, which reads them.
"""
import base64
import os

import numpy as np

ERA = {}
X = np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32)
PNG = base64.b64decode(                 # 8 x 8 RGB, a ramp
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAA00lEQVR42gHIADf/AAABAgMEBQYHCAkKCwwNDg8QERIT"
    "FBUWFwAYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8AMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHAEhJSktMTU5PUFFSU1RV"
    "VldYWVpbXF1eXwBgYWJjZGVmZ2hpamtsbW5vcHFyc3R1dncAeHl6e3x9fn+AgYKDhIWGh4iJiouMjY6PAJCRkpOUlZaX"
    "mJmam5ydnp+goaKjpKWmpwCoqaqrrK2ur7CxsrO0tba3uLm6u7y9vr+d5keh42uWggAAAABJRU5ErkJggg==")
LABELS = np.array([0, 2, 1, 2], np.int32)


def program(function):
    ERA["era:" + function.__name__] = function
    return function


def ramp(tf, low=-0.5, high=0.5):
    """An initializer whose values differ and follow from the shape."""
    def made(shape, dtype=None, partition_info=None, **more):
        sizes = [int(d) for d in shape]
        values = np.linspace(low, high, max(int(np.prod(sizes)), 1)).reshape(sizes)
        return tf.constant(values, dtype or tf.float32)
    return made


def started(tf, session):
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    session.run(tf.tables_initializer())


def dense(tf, x, units, name, activation=None):
    w = tf.get_variable(name + "/w", [x.shape[-1], units], initializer=ramp(tf))
    b = tf.get_variable(name + "/b", [units], initializer=tf.zeros_initializer())
    y = tf.nn.xw_plus_b(x, w, b)
    return activation(y) if activation else y


# ----------------------------------------------------------------------------------------- training
@program
def generator_and_critic(tf, tools):
    z, real = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    with tf.variable_scope("generator"):
        fake = dense(tf, dense(tf, z, 4, "a", tf.nn.relu), 3, "b", tf.tanh)

    def critic(x, reuse):
        with tf.variable_scope("critic", reuse=reuse):
            return dense(tf, dense(tf, x, 4, "a", tf.nn.leaky_relu), 1, "b")
    on_real, on_fake = critic(real, None), critic(fake, True)
    cross = tf.nn.sigmoid_cross_entropy_with_logits
    critic_loss = tf.reduce_mean(cross(labels=tf.ones_like(on_real), logits=on_real)) + \
        tf.reduce_mean(cross(labels=tf.zeros_like(on_fake), logits=on_fake))
    loss = tf.reduce_mean(cross(labels=tf.ones_like(on_fake), logits=on_fake))
    of = tf.get_collection
    trainable = tf.GraphKeys.TRAINABLE_VARIABLES
    steps = [tf.train.AdamOptimizer(0.1, beta1=0.5).minimize(critic_loss,
                                                             var_list=of(trainable, "critic")),
             tf.train.AdamOptimizer(0.1, name="Other").minimize(loss,
                                                                var_list=of(trainable, "gen"))]
    with tf.Session() as session:
        started(tf, session)
        for _ in range(2):
            for step in steps:
                session.run(step, {z: X, real: X + 1})
        session.run([loss, critic_loss, fake], {z: X, real: X + 1})
        tools.save(session, [fake], {z: X})


@program
def digits(tf, tools):
    x, keep = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder_with_default(1.0, [])
    y = tf.placeholder(tf.int64, [None])
    h = x
    for i, filters in enumerate((2, 3)):
        w = tf.get_variable("conv%d" % i, [3, 3, h.shape[-1], filters], initializer=ramp(tf))
        h = tf.nn.max_pool(tf.nn.relu(tf.nn.conv2d(h, w, [1, 1, 1, 1], "SAME")), [1, 2, 2, 1],
                           [1, 2, 2, 1], "SAME")
    logits = dense(tf, tf.reshape(h, [-1, 12]) * keep, 5, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.5, step, 1, 0.5, staircase=True)
    train = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True).minimize(loss, step)
    right = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, y, 2), tf.float32))
    feeds = {x: np.linspace(0, 1, 256).reshape(4, 8, 8, 1), y: LABELS}
    with tf.Session() as session:
        started(tf, session)
        for _ in range(3):
            session.run(train, feeds)
        session.run([loss, right, rate, step], feeds)
        tools.save(session, [tf.nn.softmax(logits)], {x: feeds[x]})


def regression(tf, resource):
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    with tf.variable_scope("model", use_resource=resource):
        out = dense(tf, x, 1, "out")
    return x, y, tf.reduce_mean(tf.squared_difference(out, y))


def optimized(make, resource):
    def run(tf, tools):
        x, y, loss = regression(tf, resource)
        step = tf.train.create_global_step()
        optimizer = make(tf)
        pairs = optimizer.compute_gradients(loss)
        clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 0.5)
        train = optimizer.apply_gradients(zip(clipped, [v for _, v in pairs]), step)
        with tf.control_dependencies([train]):
            average = tf.train.ExponentialMovingAverage(0.9, step).apply(tf.trainable_variables())
        feeds = {x: X, y: X[:, :1] * 2}
        with tf.Session() as session:
            started(tf, session)
            for _ in range(2):
                session.run(average, feeds)
            session.run([loss, norm, step] + tf.global_variables(), feeds)
    return run


OPTIMIZERS = {
    "descent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda tf: tf.train.AdadeltaOptimizer(0.1),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "proximal": lambda tf: tf.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.1),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
}
for _name, _make in OPTIMIZERS.items():
    for _resource in (False, True):
        ERA["era:optimizer_%s%s" % (_name, "_resource" * _resource)] = optimized(_make, _resource)


@program
def towers(tf, tools):
    """Gradients of two devices, averaged; variables are shared by reuse."""
    x, y = tf.placeholder(tf.float32, [4, 3]), tf.placeholder(tf.float32, [4, 1])
    optimizer, found = tf.train.GradientDescentOptimizer(0.5), []
    for i, (a, b) in enumerate(zip(tf.split(x, 2), tf.split(y, 2))):
        with tf.device("/cpu:0"), tf.name_scope("tower_%d" % i), \
                tf.variable_scope("model", reuse=i > 0):
            loss = tf.reduce_mean(tf.square(dense(tf, a, 1, "out") - b))
            found.append(optimizer.compute_gradients(loss))
    mean = [(tf.reduce_mean(tf.stack([g for g, _ in pairs]), 0), pairs[0][1])
            for pairs in zip(*found)]
    train = optimizer.apply_gradients(mean)
    with tf.Session() as session:
        started(tf, session)
        session.run(train, {x: X, y: X[:, :1]})
        session.run(tf.global_variables())


@program
def normalised_with_updates(tf, tools):
    x, training = tf.placeholder(tf.float32, [None, 3]), tf.placeholder_with_default(False, [])
    h = tf.layers.dense(x, 4, kernel_initializer=ramp(tf), name="dense")
    h = tf.layers.batch_normalization(h, training=training, momentum=0.5, name="norm")
    loss = tf.reduce_mean(tf.square(h - 1.0))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        started(tf, session)
        for _ in range(2):
            session.run(train, {x: X, training: True})
        session.run([loss] + tf.global_variables(), {x: X})
        tools.save(session, [h], {x: X})


@program
def q_network(tf, tools):
    """A target network that is copied, a memory that is scattered into."""
    x, action = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])

    def network(name):
        with tf.variable_scope(name):
            return dense(tf, x, 2, "q"), tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, name)
    (q, mine), (target, others) = network("online"), network("target")
    copy = tf.group(*[a.assign(b) for a, b in zip(others, mine)])
    chosen = tf.reduce_sum(q * tf.one_hot(action, 2), 1)
    loss = tf.losses.huber_loss(tf.stop_gradient(1.0 + 0.9 * tf.reduce_max(target, 1)), chosen)
    train = tf.train.RMSPropOptimizer(0.1).minimize(loss, var_list=mine)
    memory = tf.get_variable("memory", [6, 3], trainable=False, initializer=tf.zeros_initializer())
    kept = tf.scatter_update(memory, [1, 4, 0, 5], x)
    feeds = {x: X, action: [0, 1, 1, 0]}
    with tf.Session() as session:
        started(tf, session)
        session.run([copy, kept], feeds)
        session.run(train, feeds)
        session.run([loss, memory, q, tf.argmax(target, 1)], feeds)


@program
def metrics_as_they_stream(tf, tools):
    p, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int64, [None])
    found = [tf.metrics.accuracy(y, tf.cast(p > 0.5, tf.int64)), tf.metrics.auc(y, p),
             tf.metrics.precision(y, p > 0.5), tf.metrics.mean(p),
             tf.metrics.mean_iou(y, tf.cast(p > 0.5, tf.int64), 2)]
    values, updates = zip(*found)
    with tf.Session() as session:
        started(tf, session)
        session.run(updates, {p: [0.1, 0.7, 0.6], y: [0, 1, 0]})
        session.run(updates, {p: [0.9, 0.2], y: [1, 1]})
        session.run(values)


@program
def summaries(tf, tools):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    tf.summary.scalar("mean", tf.reduce_mean(x))
    tf.summary.histogram("x", x)
    tf.summary.text("text", tf.constant(["a", "b"]))
    merged = tf.summary.merge_all()
    with tf.Session() as session:
        session.run(merged, {x: X + 2})


# -------------------------------------------------------------------------- texts, tables, features
@program
def words_in_tables(tf, tools):
    text = tf.placeholder(tf.string, [None], name="text")
    words = tf.string_split(text)
    keys, numbers = tf.constant(["the", "cat", "sat"]), tf.constant([1, 2, 3], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, numbers), 0)
    back = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(numbers, keys), "?")
    ids = table.lookup(words.values)
    w = tf.get_variable("w", [4, 2], initializer=ramp(tf))
    mean = tf.nn.embedding_lookup_sparse(
        w, tf.SparseTensor(words.indices, ids, words.dense_shape), None, combiner="mean")
    feeds = {text: ["the cat", "a dog sat"]}
    with tf.Session() as session:
        started(tf, session)
        session.run([ids, back.lookup(ids), mean, table.size()], feeds)
        tools.save(session, [mean, back.lookup(ids)], feeds, main_op=tf.tables_initializer(),
                   frozen=False)


@program
def words_out_of_vocabulary(tf, tools):
    lookup = tf.contrib.lookup
    table = lookup.index_table_from_tensor(tf.constant(["a", "b"]), num_oov_buckets=3)
    back = lookup.index_to_string_table_from_tensor(tf.constant(["a", "b"]), "none")
    x = tf.placeholder(tf.string, [None])
    ids = table.lookup(x)
    with tf.Session() as session:
        started(tf, session)
        session.run([ids, back.lookup(ids)], {x: ["b", "zz", "a", "yy"]})


@program
def words_of_a_file(tf, tools):
    path = os.path.join(tools.files("words"), "vocabulary.txt")
    with open(path, "w") as file:
        file.write("red\ngreen\nblue\n")
    asset = tf.constant(path)
    tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        asset, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    x = tf.placeholder(tf.string, [None])
    ids = table.lookup(x)
    with tf.Session() as session:
        started(tf, session)
        session.run(ids, {x: ["blue", "pink"]})
        tools.save(session, [ids], {x: ["blue", "pink"]}, main_op=tf.tables_initializer(),
                   frozen=False)


@program
def words_hashed(tf, tools):
    x = tf.placeholder(tf.string, [None])
    lower = tf.regex_replace(tf.strings.lower(x), "[^a-z ]", "")
    parts = tf.string_split(lower, " ")
    found = [tf.string_to_hash_bucket_fast(parts.values, 100),
             tf.string_to_hash_bucket_strong(parts.values, 100, [1, 2]),
             tf.substr(parts.values, 0, 1), tf.strings.length(parts.values),
             tf.reduce_join(tf.reshape(x, [1, -1]), 1, separator="|"),
             tf.string_to_number(tf.as_string(tf.size(parts.values)), tf.float32)]
    with tf.Session() as session:
        session.run(found, {x: ["The CAT.", "sat, on!"]})


@program
def examples_parsed(tf, tools):
    serialized = tf.placeholder(tf.string, [None], name="examples")
    found = tf.parse_example(serialized, {
        "age": tf.FixedLenFeature([], tf.int64, default_value=-1),
        "size": tf.FixedLenFeature([2], tf.float32),
        "tags": tf.VarLenFeature(tf.string),
        "at": tf.SparseFeature("i", "v", tf.float32, 5)})
    total = tf.cast(found["age"], tf.float32) + tf.reduce_sum(found["size"], 1)
    tags = tf.sparse_tensor_to_dense(found["tags"], default_value="")
    at = tf.sparse_tensor_to_dense(found["at"])

    def example(**named):
        features = {}
        for name, values in named.items():
            kind = "bytes" if isinstance(values[0], bytes) else \
                "float" if isinstance(values[0], float) else "int64"
            lists = {"bytes": tf.train.BytesList, "float": tf.train.FloatList,
                     "int64": tf.train.Int64List}
            features[name] = tf.train.Feature(**{kind + "_list": lists[kind](value=values)})
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    given = [example(age=[3], size=[1.0, 2.0], tags=[b"a", b"bc"], i=[1, 4], v=[0.5, 1.5]),
             example(size=[3.0, 4.0], i=[0], v=[2.5])]
    with tf.Session() as session:
        session.run([total, tags, at], {serialized: given})
        tools.save(session, [total, tags], {serialized: given})


@program
def columns(tf, tools):
    column = tf.feature_column
    features = {"age": tf.placeholder(tf.float32, [None, 1]),
                "job": tf.placeholder(tf.string, [None, 1])}
    age = column.numeric_column("age")
    job = column.categorical_column_with_vocabulary_list("job", ["a", "b", "c"])
    made = [column.bucketized_column(age, [20.0, 40.0]), column.indicator_column(job),
            column.embedding_column(job, 2, initializer=ramp(tf)), age]
    net = tf.feature_column.input_layer(features, made)
    crossed = column.crossed_column([made[0], "job"], 7)
    linear = tf.feature_column.linear_model(features, [crossed, job])
    feeds = {features["age"]: [[15.0], [33.0], [60.0]], features["job"]: [["a"], ["c"], ["z"]]}
    with tf.Session() as session:
        started(tf, session)
        session.run([net, linear], feeds)
        tools.save(session, [net, linear], feeds, main_op=tf.tables_initializer(), frozen=False)


@program
def ragged_rows(tf, tools):
    ragged = tf.RaggedTensor.from_row_lengths(tf.placeholder_with_default(
        [1.0, 2.0, 3.0, 4.0, 5.0], [None]), [2, 0, 3])
    found = [tf.reduce_sum(ragged, axis=1), ragged.to_tensor(-1.0), (ragged * 2.0).values,
             tf.concat([ragged, ragged], axis=1).to_tensor(), ragged.row_splits,
             tf.gather(ragged, [2, 0]).to_tensor()]
    with tf.Session() as session:
        session.run(found)


@program
def sparse_regression(tf, tools):
    x = tf.sparse_placeholder(tf.float32, name="x")
    w = tf.get_variable("w", [5, 2], initializer=ramp(tf))
    y = tf.sparse_tensor_dense_matmul(x, w)
    loss = tf.reduce_sum(tf.square(y)) + tf.sparse_reduce_sum(x)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    feeds = {x: tf.SparseTensorValue([[0, 1], [1, 0], [1, 4]], [1.0, 2.0, 3.0], [2, 5])}
    with tf.Session() as session:
        started(tf, session)
        session.run(train, feeds)
        session.run([y, loss, tf.sparse_softmax(x)], feeds)


# ----------------------------------------------------------------------------------------- pictures
@program
def pictures(tf, tools):
    encoded = tf.placeholder(tf.string, [], name="picture")
    picture = tf.image.convert_image_dtype(tf.image.decode_png(encoded, 3), tf.float32)
    small = tf.image.resize_images(picture, [4, 6], method=0)
    near = tf.image.resize_nearest_neighbor(picture[None], [5, 5])
    found = [small, near, tf.image.central_crop(picture, 0.5), tf.image.flip_left_right(picture),
             tf.image.adjust_contrast(picture, 1.5), tf.image.rgb_to_grayscale(picture),
             tf.image.per_image_standardization(picture), tf.image.adjust_hue(picture, 0.1),
             tf.image.crop_and_resize(picture[None], [[0.1, 0.2, 0.9, 0.8]], [0], [3, 3])]
    with tf.Session() as session:
        session.run(found, {encoded: PNG})
        tools.save(session, [small], {encoded: PNG})


@program
def pictures_of_any_kind(tf, tools):
    encoded = tf.placeholder(tf.string, [])
    found = [tf.image.decode_image(encoded), tf.image.decode_image(encoded, 1, tf.float32)]
    with tf.Session() as session:
        session.run(found, {encoded: PNG})
        tools.save(session, found, {encoded: PNG})
        for data in (b"GIF89a", b"no picture"):
            try:
                session.run(found, {encoded: data})
            except tf.errors.InvalidArgumentError:
                pass


@program
def boxes(tf, tools):
    corners, scores = tf.placeholder(tf.float32, [2, 5, 4]), tf.placeholder(tf.float32, [2, 5])

    def best(pair):
        kept = tf.image.non_max_suppression(pair[0], pair[1], 3, 0.5)
        kept = tf.pad(kept, [[0, 3 - tf.size(kept)]], constant_values=-1)
        return kept
    kept = tf.map_fn(best, (corners, scores), dtype=tf.int32)
    lows = np.random.RandomState(0).uniform(0, 0.5, [2, 5, 2])
    feeds = {corners: np.concatenate([lows, lows + 0.4], 2),
             scores: np.linspace(0, 1, 10).reshape(2, 5)}
    with tf.Session() as session:
        session.run(kept, feeds)
        tools.save(session, [kept], feeds)


@program
def quantized_in_training(tf, tools):
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.fake_quant_with_min_max_args(tf.get_variable("w", [3, 2], initializer=ramp(tf)), -1, 1)
    low, high = tf.get_variable("low", initializer=-2.0), tf.get_variable("high", initializer=2.0)
    y = tf.fake_quant_with_min_max_vars(tf.matmul(x, w), low, high, num_bits=4)
    train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(y - 1.0)))
    with tf.Session() as session:
        started(tf, session)
        session.run(train, {x: X})
        session.run(y, {x: X})
        tools.save(session, [y], {x: X})


# ------------------------------------------------------------------------------------------ control
@program
def control_in_loops(tf, tools):
    """Updates and checks that run before others, in a conditional of a loop."""
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    count = tf.get_variable("count", initializer=0, trainable=False, use_resource=True)

    def more(y):
        with tf.control_dependencies([v.assign_add(y), count.assign_add(1)]):
            return tf.identity(y * 2.0)

    def body(i, y):
        check = tf.Assert(y < 1e6, [y, "is large"])
        with tf.control_dependencies([check]):
            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: more(y), lambda: y + v.read_value())
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda i, y: i < 5, body, (0, x), parallel_iterations=1)[1]
    with tf.Session() as session:
        started(tf, session)
        session.run(y, {x: 1.0})
        session.run([v, count])


@program
def tuples_and_groups(tf, tools):
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    with tf.control_dependencies([tf.assign(v, [1.0, 2.0])]):
        a, b = tf.tuple([v * 2.0, tf.reduce_sum(v)], control_inputs=[tf.no_op()])
    done = tf.group(a, b, name="done")
    with tf.control_dependencies([done]):
        last = tf.identity(tf.scatter_nd_add(v, [[1]], [10.0]))
    with tf.Session() as session:
        started(tf, session)
        session.run([a, b, last])


@program
def second_derivatives(tf, tools):
    x = tf.placeholder(tf.float32, [3])
    y = tf.reduce_sum(tf.sin(x) * tf.square(x)) + tf.reduce_prod(x)
    hessian, = tf.hessians(y, x)
    g, = tf.gradients(y, x)
    penalty, = tf.gradients(tf.sqrt(tf.reduce_sum(tf.square(g))), x)
    with tf.Session() as session:
        session.run([y, hessian, penalty], {x: [0.5, -0.25, 1.5]})
        tools.save(session, [hessian, penalty], {x: [0.5, -0.25, 1.5]})


# -------------------------------------------------------------------------- checkpoints, MetaGraphs
@program
def saved_and_restored(tf, tools):
    """By the names of the saver's own nodes, and by names of variables."""
    path = os.path.join(tools.files("saved"), "model")
    a = tf.get_variable("a", [3], initializer=ramp(tf))
    b = tf.get_variable("scope/b", initializer=7, use_resource=True, trainable=False)
    saver = tf.train.Saver(max_to_keep=2)
    other = tf.train.Saver({"a": a, "renamed": b})
    with tf.Session() as session:
        started(tf, session)
        saver.save(session, path, write_meta_graph=False)
        session.run([a.assign([0.0, 0.0, 0.0]), b.assign(0)])
        saver.restore(session, path)
        session.run([a, b])
        other.save(session, path + "2", write_meta_graph=False, write_state=False)
        session.run(a.assign(a * 2.0))
        other.restore(session, path + "2")
        session.run([a, b])


@program
def partitioned(tf, tools):
    path = os.path.join(tools.files("partitioned"), "model")
    x = tf.placeholder(tf.int32, [None])
    with tf.variable_scope("model", partitioner=tf.fixed_size_partitioner(3)):
        table = tf.get_variable("table", [7, 2], initializer=ramp(tf))
        y = tf.nn.embedding_lookup(table, x, partition_strategy="div")
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(tf.square(y)))
    saver = tf.train.Saver(sharded=True)
    with tf.Session() as session:
        started(tf, session)
        session.run(train, {x: [0, 3, 6, 3]})
        saver.save(session, path, write_meta_graph=False)
        session.run(train, {x: [1, 2]})
        saver.restore(session, path)
        session.run([y, tf.convert_to_tensor(table)], {x: [0, 3, 5]})
        tools.save(session, [y], {x: [0, 3, 5]})


@program
def imported_into_a_scope(tf, tools):
    """A MetaGraph twice in one graph, its input replaced, devices cleared."""
    with tf.Graph().as_default() as first:
        with tf.device("/device:GPU:0"):
            x = tf.placeholder(tf.float32, [None, 3], name="x")
            y = tf.identity(dense(tf, x, 2, "layer", tf.nn.relu), name="y")
        tf.add_to_collection("outputs", y)
        tf.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, z * y), (0, y), name="loop")
        meta = tf.train.export_meta_graph(graph=first, clear_devices=True)
    mine = tf.placeholder(tf.float32, [None, 3], name="mine")
    tf.train.import_meta_graph(meta, import_scope="one", input_map={"x:0": mine * 2.0})
    tf.train.import_meta_graph(meta, import_scope="two")
    graph = tf.get_default_graph()
    outputs = [graph.get_tensor_by_name(n) for n in ("one/y:0", "one/loop/Exit_1:0", "two/y:0")]
    with tf.Session() as session:
        started(tf, session)
        session.run(outputs, {mine: X, "two/x:0": X})


@program
def a_scope_exported(tf, tools):
    """Another graph's scope, whose input from outside becomes one here."""
    with tf.Graph().as_default() as other:
        x = tf.placeholder(tf.float32, [None, 3], name="outside")
        with tf.variable_scope("part"), tf.name_scope("part/"):
            tf.identity(dense(tf, x, 2, "layer"), name="y")
        meta = tf.train.export_meta_graph(graph=other, export_scope="part")
    mine = tf.placeholder(tf.float32, [None, 3], name="mine")
    tf.train.import_meta_graph(meta, import_scope="copy",
                               input_map={"$unbound_inputs_outside": mine})
    tf.constant(sorted(v.name for v in tf.global_variables()), name="names")
    with tf.Session() as session:
        started(tf, session)
        session.run(["copy/y:0", "names:0"], {mine: X})


@program
def cut_out(tf, tools):
    """extract_sub_graph and graph_util: the part that an output needs."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    h = dense(tf, x, 4, "hidden", tf.nn.relu)
    tf.identity(dense(tf, h, 1, "unused"))
    y = tf.identity(dense(tf, h, 2, "used"), name="y")
    with tf.Session() as session:
        started(tf, session)
        frozen = tf.graph_util.convert_variables_to_constants(
            session, tf.get_default_graph().as_graph_def(), ["y"])
    frozen = tf.graph_util.remove_training_nodes(frozen, ["y"])
    again, = tf.import_graph_def(frozen, {"x:0": x}, ["y:0"], name="frozen")
    with tf.Session() as session:
        started(tf, session)
        session.run([y, again], {x: X})


@program
def estimator_exported(tf, tools):
    def model(features, labels, mode):
        y = dense(tf, features["x"], 2, "out")
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"y": y})}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"y": y}, export_outputs=outputs)
        loss = tf.losses.mean_squared_error(labels, y)
        train = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def data():
        return tf.data.Dataset.from_tensors(({"x": X}, X[:, :2])).repeat(3)

    def serving():
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})
    folder = tools.files("estimator_" + str(os.getpid()))
    estimator = tf.estimator.Estimator(model, folder)
    estimator.train(data)
    export = getattr(estimator, "export_saved_model", None) or estimator.export_savedmodel
    tools.keep(export(os.path.join(folder, "export"), serving), {"x": X})


# ---------------------------------------------------------------------------------------- sequences
@program
def speech(tf, tools):
    """CTC: its loss, its gradient, its decoders."""
    x = tf.placeholder(tf.float32, [6, 2, 4])
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 2, 1]), [2, 2])
    loss = tf.nn.ctc_loss(labels, x, [6, 5])
    decoded, probability = tf.nn.ctc_greedy_decoder(x, [6, 5])
    beams, logs = tf.nn.ctc_beam_search_decoder(x, [6, 5], beam_width=3)
    distance = tf.edit_distance(tf.cast(decoded[0], tf.int32), labels)
    value = np.sin(np.arange(48.0)).reshape(6, 2, 4) * 3
    with tf.Session() as session:
        session.run([loss, probability, tf.sparse_tensor_to_dense(decoded[0]), logs,
                     tf.sparse_tensor_to_dense(beams[0]), distance, tf.gradients(loss, x)[0]],
                    {x: value})


@program
def tagged(tf, tools):
    """A linear-chain CRF over a recurrent network."""
    crf = tf.contrib.crf
    x = tf.placeholder(tf.float32, [2, 3, 2])
    with tf.variable_scope("", initializer=ramp(tf)):
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), x, [3, 2], dtype=tf.float32)
        lengths = tf.constant([3, 2])
        likelihood, transitions = crf.crf_log_likelihood(
            outputs, tf.constant([[0, 1, 2], [2, 0, 0]]), lengths)
    loss = -tf.reduce_mean(likelihood)
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    tags, score = crf.crf_decode(outputs, transitions, lengths)
    feeds = {x: np.linspace(-1, 1, 12).reshape(2, 3, 2)}
    with tf.Session() as session:
        started(tf, session)
        session.run(train, feeds)
        session.run([loss, tags, score], feeds)
        tools.save(session, [tags, score], feeds)


def translated(tf, tools, beams):
    """An encoder, an attending decoder that feeds itself."""
    seq2seq = tf.contrib.seq2seq
    x = tf.placeholder(tf.int32, [2, 3])
    table = tf.get_variable("table", [6, 4], initializer=ramp(tf))
    cell = tf.nn.rnn_cell.GRUCell
    with tf.variable_scope("", initializer=ramp(tf)):
        memory, state = tf.nn.dynamic_rnn(cell(4), tf.nn.embedding_lookup(table, x), [3, 2],
                                          dtype=tf.float32, scope="encoder")
        lengths = tf.constant([3, 2])
        if beams:
            memory, state, lengths = (seq2seq.tile_batch(t, beams)
                                      for t in (memory, state, lengths))
        attention = seq2seq.LuongAttention(4, memory, memory_sequence_length=lengths)
        wrapped = seq2seq.AttentionWrapper(cell(4), attention, attention_layer_size=4)
        first = wrapped.zero_state(2 * max(beams, 1), tf.float32).clone(cell_state=state)
        output = tf.layers.Dense(6, use_bias=False)
        if beams:
            decoder = seq2seq.BeamSearchDecoder(wrapped, table, [1, 1], 2, first, beams, output)
        else:
            helper = seq2seq.GreedyEmbeddingHelper(table, [1, 1], 2)
            decoder = seq2seq.BasicDecoder(wrapped, helper, first, output)
        outputs, _, sizes = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
    found = outputs.predicted_ids if beams else outputs.sample_id
    more = [] if beams else [outputs.rnn_output, sizes]
    feeds = {x: [[3, 4, 5], [5, 3, 0]]}
    with tf.Session() as session:
        started(tf, session)
        session.run([found] + more, feeds)
        tools.save(session, [found], feeds)


@program
def translated_greedily(tf, tools):
    translated(tf, tools, 0)


@program
def translated_by_beams(tf, tools):
    translated(tf, tools, 3)


@program
def translation_trained(tf, tools):
    seq2seq = tf.contrib.seq2seq
    x = tf.placeholder(tf.float32, [2, 3, 2])
    with tf.variable_scope("", initializer=ramp(tf)):
        memory, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(3), x, dtype=tf.float32)
        attention = seq2seq.BahdanauAttention(3, memory)
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(3), attention)
        helper = seq2seq.TrainingHelper(x, [3, 2])
        decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32).clone(
            cell_state=state), tf.layers.Dense(4))
        outputs, _, _ = seq2seq.dynamic_decode(decoder)
    loss = seq2seq.sequence_loss(outputs.rnn_output, tf.constant([[1, 2, 3], [3, 0, 0]]),
                                 tf.constant([[1.0, 1, 1], [1, 1, 0]]))
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    feeds = {x: np.linspace(-1, 1, 12).reshape(2, 3, 2)}
    with tf.Session() as session:
        started(tf, session)
        session.run(train, feeds)
        session.run([loss, outputs.sample_id], feeds)


@program
def words_near_words(tf, tools):
    """word2vec: its loss of noise, drawn beforehand."""
    x, y = tf.placeholder(tf.int32, [4]), tf.placeholder(tf.int64, [4, 1])
    table = tf.get_variable("table", [6, 3], initializer=ramp(tf))
    w, b = tf.get_variable("w", [6, 3], initializer=ramp(tf)), tf.get_variable(
        "b", [6], initializer=tf.zeros_initializer())
    sampled = (tf.constant([1, 4], tf.int64), tf.fill([4, 1], 0.3), tf.fill([2], 0.2))
    loss = tf.reduce_mean(tf.nn.nce_loss(w, b, y, tf.nn.embedding_lookup(table, x), 2, 6,
                                         sampled_values=sampled))
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    near = tf.nn.top_k(tf.matmul(tf.nn.l2_normalize(table, 1), table, transpose_b=True), 2)
    feeds = {x: [0, 1, 2, 2], y: [[1], [2], [3], [5]]}
    with tf.Session() as session:
        started(tf, session)
        session.run(train, feeds)
        session.run([loss, near.values, near.indices], feeds)


# ------------------------------------------------------------------------- what else programs have
@program
def random_numbers_with_seeds(tf, tools):
    tf.set_random_seed(7)
    logits = tf.constant([[0.1, 0.7, 0.2], [1.0, -1.0, 0.0]])
    found = [tf.random_uniform([2, 3]), tf.random_normal([3], seed=3), tf.truncated_normal([4]),
             tf.random_uniform([3], 0, 10, tf.int32), tf.nn.dropout(tf.ones([8]), 0.5, seed=5),
             tf.random_gamma([2], [0.5, 2.0], seed=2), tf.random_poisson([3.0], [4], seed=1),
             tf.multinomial(logits, 5, seed=4), tf.random_shuffle(tf.range(7), seed=9)]
    with tf.Session() as session:
        for _ in range(2):
            session.run(found)


@program
def random_variables(tf, tools):
    tf.set_random_seed(1)
    made = [tf.get_variable("v%d" % i, [3, 4], initializer=initializer) for i, initializer in
            enumerate([tf.glorot_uniform_initializer(), tf.orthogonal_initializer(seed=2),
                       tf.variance_scaling_initializer(2.0, "fan_out", "normal"),
                       tf.truncated_normal_initializer(stddev=0.1), tf.random_uniform_initializer(),
                       tf.initializers.identity()])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(made)
        tools.save(session, [tf.identity(v) for v in made])


@program
def restored_averages(tf, tools):
    """A saver that maps the averages' names to variables."""
    path = os.path.join(tools.files("averages"), "model")
    w = tf.get_variable("w", [2], initializer=ramp(tf))
    average = tf.train.ExponentialMovingAverage(0.5)
    step = average.apply([w])
    saver, restorer = tf.train.Saver(), tf.train.Saver(average.variables_to_restore())
    with tf.Session() as session:
        started(tf, session)
        session.run(w.assign([4.0, 8.0]))
        session.run(step)
        saver.save(session, path, write_meta_graph=False)
        restorer.restore(session, path)
        session.run([w, average.average(w)])


@program
def begun_from_a_checkpoint(tf, tools):
    path = os.path.join(tools.files("begun"), "model")
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("old/a", [2, 3], initializer=ramp(tf))
        session.run(a.initializer)
        tools.saver().save(session, path, write_meta_graph=False)
    with tf.variable_scope("new"):
        a = tf.get_variable("a", [2, 3])
    tf.get_variable("b", [2], initializer=tf.zeros_initializer())
    tf.train.init_from_checkpoint(path, {"old/": "new/"})
    with tf.Session() as session:
        started(tf, session)
        session.run(a * 2.0)


@program
def own_gradients(tf, tools):
    """custom_gradient, gradient_override_map of a known op, stop_gradient."""
    @tf.custom_gradient
    def clipped(x):
        return tf.identity(x), lambda dy: tf.clip_by_value(dy, -0.1, 0.1)
    x = tf.placeholder(tf.float32, [3])
    y = clipped(x * x) + tf.stop_gradient(x) * x
    g, = tf.gradients(tf.reduce_sum(y * y), x)
    with tf.Session() as session:
        session.run([y, g], {x: [0.5, -2.0, 3.0]})
        tools.save(session, [y, g], {x: [0.5, -2.0, 3.0]})


@program
def functions_called_often(tf, tools):
    defun = tools.function.Defun

    @defun(tf.float32, tf.float32, noinline=True)
    def layer(x, w):
        return tf.nn.relu(tf.matmul(x, w)), tf.reduce_sum(w)
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.get_variable("w", [3, 3], initializer=ramp(tf))
    h, total = layer(x, w)
    for _ in range(2):
        h, more = layer(h, w)
        total += more
    g, = tf.gradients(tf.reduce_sum(h) + total, w)
    with tf.Session() as session:
        started(tf, session)
        session.run([h, total, g], {x: X})


@program
def control_flow_of_functions(tf, tools):
    """While, If: control flow's second version."""
    tf.enable_control_flow_v2()
    try:
        x = tf.placeholder(tf.float32, [2], name="x")
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.cond(
            y[0] > 0.5, lambda: y * x, lambda: y + x)), (0, x))[1]
        g, = tf.gradients(y, x)
        with tf.Session() as session:
            session.run([y, g], {x: [0.75, 2.0]})
            session.run([y, g], {x: [0.1, -2.0]})
    finally:
        tf.disable_control_flow_v2()


@program
def slim_network(tf, tools):
    layers = tf.contrib.layers
    x, training = tf.placeholder(tf.float32, [None, 8, 8, 3]), tf.placeholder_with_default(False, [])
    with tf.variable_scope("net", initializer=ramp(tf)):
        h = layers.conv2d(x, 4, 3, normalizer_fn=layers.batch_norm, weights_initializer=ramp(tf),
                          normalizer_params={"is_training": training, "updates_collections": None})
        h = layers.separable_conv2d(h, 4, 3, 1, weights_initializer=ramp(tf))
        h = layers.max_pool2d(h, 2)
        y = layers.fully_connected(layers.flatten(h), 2, activation_fn=None,
                                   weights_initializer=ramp(tf),
                                   weights_regularizer=layers.l2_regularizer(0.1))
    loss = tf.reduce_mean(tf.square(y)) + tf.losses.get_regularization_loss()
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    feeds = {x: np.linspace(-1, 1, 384).reshape(2, 8, 8, 3), training: True}
    with tf.Session() as session:
        started(tf, session)
        session.run(train, feeds)
        session.run([loss], feeds)
        session.run(y, {x: feeds[x]})
        tools.save(session, [y], {x: feeds[x]}, frozen=False)   # TensorFlow reads its own no more


@program
def cells_of_contrib(tf, tools):
    rnn = tf.contrib.rnn
    x = tf.placeholder(tf.float32, [2, 3, 2])
    found = []
    with tf.variable_scope("", initializer=ramp(tf)):
        for i, cell in enumerate([rnn.LayerNormBasicLSTMCell(3), rnn.LSTMBlockCell(3),
                                  rnn.AttentionCellWrapper(rnn.GRUCell(3), 2,
                                                           state_is_tuple=True)]):
            found.append(tf.nn.dynamic_rnn(cell, x, [3, 2], dtype=tf.float32, scope="r%d" % i)[0])
    grads = tf.gradients(found, x)
    feeds = {x: np.linspace(-1, 1, 12).reshape(2, 3, 2)}
    with tf.Session() as session:
        started(tf, session)
        session.run(found + grads, feeds)
        tools.save(session, found, feeds)


@program
def canned_estimators(tf, tools):
    folder = tools.files("canned_" + str(os.getpid()))
    column = tf.feature_column
    age, job = column.numeric_column("age"), column.categorical_column_with_vocabulary_list(
        "job", ["a", "b"])
    made = tf.estimator.DNNLinearCombinedClassifier(
        folder, linear_feature_columns=[job], dnn_feature_columns=[age, column.indicator_column(
            job)], dnn_hidden_units=[3], n_classes=3)

    def data():
        return tf.data.Dataset.from_tensors((
            {"age": [[1.0], [2.0]], "job": [["a"], ["b"]]}, [[0], [2]])).repeat(2)
    made.train(data)
    spec = tf.feature_column.make_parse_example_spec([age, job])
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    export = getattr(made, "export_saved_model", None) or made.export_savedmodel
    feature = tf.train.Feature
    record = tf.train.Example(features=tf.train.Features(feature={
        "age": feature(float_list=tf.train.FloatList(value=[1.5])),
        "job": feature(bytes_list=tf.train.BytesList(value=[b"b"]))})).SerializeToString()
    tools.keep(export(os.path.join(folder, "export"), receiver), {"inputs": [record]})


@program
def variables_of_all_kinds(tf, tools):
    with tf.variable_scope("kinds", use_resource=True):
        a = tf.get_variable("a", [4, 2], initializer=ramp(tf))
        counter = tf.get_variable("counter", [], tf.int64, tf.zeros_initializer(), trainable=False)
    ref = tf.Variable(np.arange(6.0).reshape(3, 2), name="ref", use_resource=False)
    wide = tf.Variable([1.0], validate_shape=False, name="wide", use_resource=False)
    ops = [tf.scatter_update(a, [1, 3], [[9.0, 8.0], [7.0, 6.0]]), tf.assign_add(counter, 3),
           tf.scatter_add(ref, [0, 0], [[1.0, 1.0], [2.0, 2.0]]), ref[1, 1].assign(-1.0),
           tf.scatter_nd_update(ref, [[2, 0]], [5.0]), tf.assign(wide, [1.0, 2.0], False),
           tf.count_up_to(tf.Variable(0, name="up", use_resource=False), 5)]
    with tf.Session() as session:
        started(tf, session)
        session.run(tf.is_variable_initialized(ref))
        for op in ops:
            session.run(op)
        session.run([a, counter, ref, wide, tf.report_uninitialized_variables()])


@program
def linear_algebra(tf, tools):
    a = tf.placeholder(tf.float64, [3, 3])
    spd = tf.matmul(a, a, transpose_b=True) + 3.0 * tf.eye(3, dtype=tf.float64)
    found = [tf.cholesky(spd), tf.matrix_inverse(spd), tf.matrix_determinant(a),
             tf.self_adjoint_eig(spd)[0], tf.svd(a, compute_uv=False), tf.matrix_solve(spd, a),
             tf.linalg.logdet(spd), tf.einsum("ij,kj->ik", a, spd), tf.norm(a, axis=1),
             tf.matrix_band_part(a, 1, 0), tf.trace(a), tf.linalg.expm(a / 5.0)]
    grads = tf.gradients([tf.reduce_sum(y) for y in found[:8]], a)
    with tf.Session() as session:
        value = np.array([[1.0, 0.5, -0.2], [0.3, -1.0, 0.4], [0.2, 0.1, 0.7]])
        session.run(found + grads, {a: value})
        tools.save(session, found[:3], {a: value})
