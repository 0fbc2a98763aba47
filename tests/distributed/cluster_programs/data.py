"""Values between tasks: types and shapes, queues, readers, iterators, accumulators, handles."""
import os

import numpy as np

from cluster_programs import program

WORKER0, WORKER1 = "/job:worker/task:0", "/job:worker/task:1"
PS0, PS1 = "/job:ps/task:0", "/job:ps/task:1"


@program
def element_types(tf, x):
    """Each type goes to a ps and comes back, fed and computed."""
    sess = x.session()
    values = {
        "float32": np.float32([1.5, np.inf]), "float64": np.float64([1e300, -0.0]),
        "float16": np.float16([0.5, 2]), "int8": np.int8([-128, 127]),
        "int16": np.int16([-3]), "int32": np.int32([[1, 2], [3, 4]]),
        "int64": np.int64(2**62), "uint8": np.uint8([255]), "uint16": np.uint16([65535]),
        "bool": np.array([True, False]), "complex64": np.complex64([1 + 2j]),
        "complex128": np.complex128(3 - 4j)}
    for name, value in values.items():
        with tf.device(WORKER0):
            a = tf.placeholder(name)
        with tf.device(PS0):
            b = tf.stack([a, a])
        with tf.device(WORKER1):
            c = tf.identity(b)
        found, there = sess.run([c, b], {a: value})
        x.note(name, [str(found.dtype), list(found.shape), found, bool((found == there).all())])
    with tf.device(PS0):
        b = tf.cast(tf.placeholder_with_default(np.float32([1.5, 3]), [2]), tf.bfloat16)
    with tf.device(WORKER0):
        c = tf.cast(b + b, tf.float32)
    x.note("bfloat16", [str(sess.run(b).dtype), [float(v) for v in sess.run(b)], sess.run(c)])


@program
def strings(tf, x):
    sess = x.session()
    a = tf.placeholder(tf.string)
    with tf.device(PS0):
        b = tf.string_join([a, a], separator="|")
    with tf.device(WORKER1):
        c = tf.string_join([b, "!"])
    x.note("vector", sess.run(c, {a: ["", "x", "long " * 30]}))
    x.note("scalar", sess.run([b, c], {a: "one"}))
    x.note("bytes", sess.run(c, {a: np.array([b"\x00\xff", b"z"], object)}))
    x.note("none", [list(sess.run(c, {a: np.zeros([0, 3], object)}).shape)])
    x.note("unicode", sess.run(c, {a: "gr\u00fc\u00df"}).decode("utf-8"))


@program
def shapes(tf, x):
    sess = x.session()
    a = tf.placeholder(tf.float32)
    with tf.device(PS1):
        b = a + 1.0
    with tf.device(WORKER1):
        c = tf.identity(b)
        rank = tf.rank(b)
    for shape in ([], [0], [2, 0, 3], [1], [1, 1, 1, 1, 1, 1, 1], [3, 2]):
        found, r = sess.run([c, rank], {a: np.zeros(shape, np.float32)})
        x.note("shape", [list(found.shape), r, found])


@program
def large_tensor(tf, x):
    """8 MB through three tasks."""
    value = np.arange(2 * 1024 * 1024, dtype=np.float32).reshape(2048, 1024)
    a = tf.placeholder(tf.float32, [2048, 1024])
    with tf.device(PS0):
        b = a + 1.0
    with tf.device(PS1):
        c = tf.transpose(b)
    with tf.device(WORKER1):
        d = tf.transpose(c)
    sess = x.session()
    for _ in range(2):
        found = sess.run(d, {a: value})
        x.note("equal", [list(found.shape), bool((found == value + 1).all())])
    x.note("a part of it", sess.run(tf.reduce_sum(c[7, :10]), {a: value}))


@program
def feeds_and_fetches(tf, x):
    """Tensors of other tasks are fed and fetched; structures; fed and fetched at once."""
    with tf.device(PS0):
        a = tf.constant(2.0, name="a")
        b = tf.placeholder(tf.float32, [], name="b")
        c = tf.add(a, b, name="c")
    with tf.device(WORKER1):
        d = tf.multiply(c, 3.0, name="d")
    sess = x.session()
    x.note("structure", sess.run({"d": d, "rest": [c, (a, b)]}, {b: 5.0}))
    x.note("fed inside", sess.run([d, c], {c: 100.0}))
    x.note("a constant is fed", sess.run([d, a], {a: 7.0, b: 1.0}))
    x.note("by name", sess.run(d.name, {b.name: 1.0}))
    x.note("an operation", sess.run(d.op, {b: 1.0}))
    x.note("twice", sess.run([d, d], {b: 1.0}))
    x.error("not fed", lambda: sess.run(d), "b", "feed")
    x.error("wrong shape", lambda: sess.run(d, {b: [1.0, 2.0]}))
    x.note("nothing computed", sess.run(b, {b: 4.0}))


@program
def dependencies_over_tasks(tf, x):
    """Control edges between tasks keep the order."""
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0, use_resource=True)
    with tf.device(WORKER1):
        with tf.control_dependencies([v.assign(5.0)]):
            other = tf.constant(2.0)
            with tf.control_dependencies([tf.identity(other)]):
                with tf.device(PS0):
                    after = v.read_value()
    sess = x.session()
    sess.run(v.initializer)
    x.note("after the assignment", sess.run(after))
    with tf.device(PS1):
        group = tf.group(v.assign_add(1.0), tf.no_op())
    for _ in range(3):
        sess.run(group)
    x.note("three times", sess.run(v))


@program
def queue_on_a_ps(tf, x):
    with tf.device(PS0):
        q = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[], [2]], shared_name=x.name + "q")
        put = q.enqueue([tf.placeholder_with_default(1, []), ["a", "b"]])
        many = q.enqueue_many([[1, 2, 3], [["a", "b"]] * 3])
        take, take2, size, close = q.dequeue(), q.dequeue_many(2), q.size(), q.close()
        stop = q.close(cancel_pending_enqueues=True)
    one, two = x.session("worker", 0), x.session("worker", 1)
    one.run(put)
    x.note("size", two.run(size))
    x.note("take", two.run(take))
    waiting = x.thread(lambda: two.run(take2), "is closed and has insufficient elements")
    x.note("blocked", waiting.blocked())
    one.run(many)
    x.note("served", waiting.end())
    x.note("left", one.run(size))
    waiting = x.thread(lambda: two.run(take2), "is closed and has insufficient elements")
    x.note("blocked again", waiting.blocked())
    one.run(close)
    x.note("closed from another session", waiting.end())
    x.error("enqueue", lambda: two.run(put), "is closed")
    x.note("what is left", two.run(take))
    x.error("empty", lambda: one.run(take), "is closed and has insufficient elements")
    x.error("close again", lambda: one.run(stop))


@program
def queue_by_shared_name(tf, x):
    """Two graphs, one queue."""
    def graph():
        with tf.Graph().as_default() as g, tf.device(PS1):
            q = tf.FIFOQueue(4, tf.float32, shapes=[[]], shared_name=x.name, name="q")
            return g, q.enqueue(3.5), q.dequeue(), q.size()

    g1, put, _, _ = graph()
    g2, _, take, size = graph()
    x.session("worker", 0, graph=g1).run(put)
    two = x.session("worker", 1, graph=g2)
    x.note("size", two.run(size))
    x.note("take", two.run(take))
    with tf.Graph().as_default(), tf.device(PS1):
        other = tf.FIFOQueue(5, tf.float32, shapes=[[]], shared_name=x.name, name="q")
        sess = x.session()
        x.error("another capacity", lambda: sess.run(other.size()), "capacity")
    with tf.Graph().as_default(), tf.device(PS0):
        elsewhere = tf.FIFOQueue(4, tf.float32, shapes=[[]], shared_name=x.name, name="q")
        x.note("on another task", x.session().run(elsewhere.size()))


@program
def queue_of_the_worker(tf, x):
    """A queue runner's threads through a server."""
    with tf.device(PS0):
        numbers = tf.train.range_input_producer(5, num_epochs=1, shuffle=False,
                                                shared_name=x.name + "r").dequeue()
    with tf.device(WORKER0):
        doubled = numbers * 2
    sess = x.session()
    sess.run(tf.local_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess, coord)
    found = []
    try:
        while True:
            found.append(int(sess.run(doubled)))
    except tf.errors.OutOfRangeError as e:
        x.note("ends", type(e).__name__)
    coord.request_stop()
    coord.join(threads, stop_grace_period_secs=10)
    x.note("found", found)


@program
def reader_on_a_ps(tf, x):
    path = os.path.join(x.folder, "lines")
    with open(path, "w") as file:
        file.write("one\ntwo\nthree\n")
    with tf.device(PS0):
        names = tf.FIFOQueue(2, tf.string, shapes=[[]], shared_name=x.name + "n")
        reader = tf.TextLineReader()
        reader_value = reader.read(names)[1]
        produced = reader.num_records_produced()
    with tf.device(WORKER0):
        value = tf.string_join([reader_value, "."])
    one, two = x.session("worker", 0), x.session("worker", 1)
    one.run(names.enqueue(path))
    one.run(names.close())
    x.note("lines", [one.run(value), one.run(value)])
    x.note("produced", one.run(produced))
    x.error("a reader is its session's own", lambda: two.run(value), "is closed")
    x.note("the last line", one.run(value))
    x.error("end", lambda: one.run(value), "is closed")


@program
def iterator_on_another_task(tf, x):
    with tf.device(PS0):
        data = tf.data.Dataset.range(4).map(lambda n: n * n)
        iterator = tf.data.make_initializable_iterator(data, shared_name=x.name + "i")
        element = iterator.get_next()
    with tf.device(WORKER0):
        y = element + 100
    one, two = x.session("worker", 0), x.session("worker", 1)
    x.error("before", lambda: one.run(y))
    one.run(iterator.initializer)
    x.note("values", [one.run(y), two.run(y), one.run(y), two.run(y)])
    x.error("end", lambda: one.run(y))
    two.run(iterator.initializer)
    x.note("anew", one.run(y))


@program
def accumulator_on_a_ps(tf, x):
    with tf.device(PS0):
        total = tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name=x.name + "a")
        take, count = total.take_grad(2), total.num_accumulated()
        set_step = total.set_global_step(3)
    grad = tf.placeholder(tf.float32, [2])
    step = tf.placeholder(tf.int64, [])
    apply = total.apply_grad(grad, step)
    one, two = x.session("worker", 0), x.session("worker", 1)
    taken = x.thread(lambda: one.run(take))
    x.note("waits", taken.blocked())
    two.run(apply, {grad: [1, 2], step: 0})
    x.note("one is too few", taken.blocked())
    one.run(apply, {grad: [3, 6], step: 0})
    x.note("mean", taken.end())
    one.run(set_step)
    two.run(apply, {grad: [100, 100], step: 1})
    x.note("a stale one is dropped", one.run(count))
    two.run(apply, {grad: [100, 100], step: 3})
    x.note("a new one counts", one.run(count))


@program
def without_a_shared_name(tf, x):
    """What two sessions share on one task although nobody named it, and what they do not."""
    one, two = x.session("worker", 0), x.session("worker", 0)
    with tf.device(PS0):
        q = tf.FIFOQueue(5, tf.int32, shapes=[[]], name="queue")
        r = tf.RandomShuffleQueue(5, 0, tf.int32, shapes=[[]], name="shuffled")
        put, size = q.enqueue(1), q.size()
        put_r, size_r = r.enqueue(1), r.size()
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, name="table")
        grow, count = table.insert(tf.constant(["a"]), tf.constant([1], tf.int64)), table.size()
        total = tf.ConditionalAccumulator(tf.float32, shape=[], name="total")
        add, added = total.apply_grad(1.0, 0), total.num_accumulated()
        v = tf.get_variable("v", initializer=1.0)
        w = tf.get_variable("w", initializer=1.0, use_resource=True)
        raw = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, name="raw")
    x.note("empty", two.run([size, size_r, count, added]))
    one.run([put, put_r, grow, add, v.initializer, w.initializer, tf.assign(raw, 2.0).op])
    x.note("one", one.run([size, size_r, count, added]))
    x.note("two", two.run([size, size_r, count, added]))
    x.note("variables", two.run([tf.is_variable_initialized(v), w.is_initialized(), raw]))
    one.run(put)
    x.note("grown", [one.run(size), two.run(size)])
    with tf.device(PS0):
        data = tf.data.Dataset.range(3)
        iterator = tf.data.make_initializable_iterator(data)
        element = iterator.get_next()
    one.run(iterator.initializer)
    x.note("the first", one.run(element))
    x.error("the other's iterator", lambda: two.run(element))
    one.close()
    three = x.session("worker", 0)
    x.note("afterwards", three.run([size, size_r, count, added]))


@program
def tables(tf, x):
    with tf.device(PS0):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)), -1)
        found = table.lookup(tf.constant(["b", "z"]))
    with tf.device(WORKER0):
        y = found * 10
    sess = x.session()
    x.error("before", lambda: sess.run(y))
    sess.run(tf.tables_initializer())
    x.note("found", sess.run(y))
    x.note("by another worker", x.session("worker", 1).run(y))


@program
def handles_cross_tasks(tf, x):
    """A resource handle that is used on another task than its resource's."""
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=4.0, use_resource=True)
    sess = x.session()
    sess.run(v.initializer)
    with tf.device(WORKER1):
        doubled = v * 2.0
    x.note("read where it lives", sess.run(doubled))


@program
def used_elsewhere(tf, x):
    """What asks for another task than its queue's or variable's goes there all the same."""
    with tf.device(PS0):
        q = tf.FIFOQueue(3, tf.float32, shapes=[[]], shared_name=x.name)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
            tf.constant(["a"]), tf.constant([7], tf.int64)), -1)
        v = tf.get_variable("v", initializer=1.0)
    with tf.device(WORKER1):
        put, take, size = q.enqueue(tf.constant(4.0)), q.dequeue(), q.size()
        found = table.lookup(tf.constant(["a", "b"]))
        grown = v.assign_add(2.0)
        y = v * 10.0
    with tf.device("/job:nobody/task:9"):
        close = q.close()
    sess = x.session("worker", 0)
    sess.run([v.initializer, tf.tables_initializer()])
    sess.run(put)
    x.note("size", sess.run(size))
    x.note("taken", sess.run(take))
    x.note("found", sess.run(found))
    x.note("grown", sess.run(grown))
    x.note("read", sess.run(y))
    sess.run(close)
    x.error("closed", lambda: sess.run(put))


@program
def python_functions(tf, x):
    """py_func on the session's own task."""
    def twice(a):
        return np.float32(a * 2)

    sess = x.session()
    y = tf.py_func(twice, [tf.constant(3.0)], tf.float32)
    x.note("here", sess.run(y))


@program
def random_numbers(tf, x):
    """Seeded, on a ps: the same in each new session."""
    tf.set_random_seed(7)
    with tf.device(PS0):
        r = tf.random_uniform([3], seed=5)
    with tf.device(WORKER1):
        s = r + 1.0
    one, two = x.session("worker", 0), x.session("worker", 0)
    a, b, c, d = one.run(s), one.run(s), two.run(s), two.run(s)
    x.note("a stream", bool((a != b).any()))
    x.note("two sessions", [bool((a == c).all()), bool((b == d).all())])
    x.note("bounds", bool(((a >= 1) & (a < 2)).all()))


@program
def dataset_without_a_device(tf, x):
    """A dataset made outside of tf.device, its iterator on a ps."""
    data = tf.data.Dataset.from_tensor_slices([1, 2, 3]).map(lambda n: n * 2).batch(2)
    with tf.device(PS0):
        iterator = tf.data.make_initializable_iterator(data, shared_name=x.name)
        element = iterator.get_next()
    sess = x.session()
    sess.run(iterator.initializer)
    x.note("values", [sess.run(element), sess.run(element)])
    x.error("end", lambda: sess.run(element))


@program
def sparse_values(tf, x):
    """SparseTensors and IndexedSlices are fed, computed on a ps and fetched."""
    a = tf.sparse_placeholder(tf.float32)
    with tf.device(PS0):
        b = tf.sparse_reorder(a)
        total = tf.sparse_tensor_dense_matmul(b, tf.ones([3, 1]))
    with tf.device(WORKER1):
        c = tf.SparseTensor(b.indices, b.values * 2.0, b.dense_shape)
        rows = tf.IndexedSlices(c.values, tf.constant([4, 2]), tf.constant([9]))
    feed = {a: tf.SparseTensorValue([[1, 2], [0, 1]], [3.0, 4.0], [2, 3])}
    found, sums = x.session().run([c, total], feed)
    x.note("sparse", [found.indices, found.values, found.dense_shape])
    x.note("sums", sums)
    found = x.session().run(rows, feed)
    x.note("slices", [found.values, found.indices, found.dense_shape])


@program
def large_constant(tf, x):
    """A graph of 12 MB."""
    value = np.arange(3 * 1024 * 1024, dtype=np.float32)
    with tf.device(PS1):
        a = tf.placeholder(tf.float32, [])
        b = tf.constant(value) + a
    with tf.device(WORKER0):
        y = tf.reduce_max(b)
    sess = x.session()
    x.note("largest", sess.run(y, {a: 1.0}))
    x.note("and more", sess.run(y + tf.reduce_max(tf.constant(value)), {a: 1.0}))


@program
def one_name_two_types(tf, x):
    """Two graphs that disagree about a variable of one name."""
    def graph(dtype, shape, use_resource):
        with tf.Graph().as_default() as g, tf.variable_scope(x.name), tf.device(PS0):
            v = tf.get_variable(f"v{use_resource}", shape, dtype, tf.zeros_initializer(),
                                use_resource=use_resource)
            return g, v.initializer, tf.identity(v)

    for use_resource in (False, True):
        g1, init, _ = graph(tf.float32, [2], use_resource)
        g2, init2, read2 = graph(tf.int32, [2], use_resource)
        g3, _, read3 = graph(tf.float32, [3], use_resource)
        x.session(graph=g1).run(init)
        x.note("another type", x.failing(lambda: x.session(graph=g2).run(read2))[0])
        x.note("another shape", x.failing(lambda: x.session(graph=g3).run(read3).shape)[0])


@program
def assignments_by_feeds(tf, x):
    """What a worker feeds changes a variable on a ps; slices, scatters."""
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=tf.zeros([3, 2]))
    a = tf.placeholder(tf.float32, [2])
    sess = x.session()
    sess.run(v.initializer)
    x.note("scatter", sess.run(tf.scatter_add(v, [0, 2], [[1., 2.], [3., 4.]])))
    x.note("slice", sess.run(v[1].assign(a), {a: [7, 8]}))
    x.note("load", v.load(np.ones([3, 2], np.float32), sess))
    x.note("loaded", v.eval(x.session("worker", 1)))
