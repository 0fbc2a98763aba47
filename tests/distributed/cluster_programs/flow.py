"""Control flow, functions, gradients, partial runs and callables, with parts on several tasks."""
import numpy as np

from cluster_programs import program

WORKER0, WORKER1 = "/job:worker/task:0", "/job:worker/task:1"
PS0, PS1 = "/job:ps/task:0", "/job:ps/task:1"


@program
def while_loops(tf, x):
    sess = x.session()
    n = tf.placeholder(tf.int32, [])

    def body(i, total):
        with tf.device(PS0):
            term = tf.cast(i * i, tf.float32)
        with tf.device(WORKER1):
            return i + 1, total + term

    i, total = tf.while_loop(lambda i, _: i < n, body, [0, 0.0])
    for times in (0, 1, 7):
        x.note("sum of squares", sess.run([i, total], {n: times}))
    with tf.device(PS1):
        _, elsewhere = tf.while_loop(lambda i, _: i < n, body, [0, 0.0])
    x.note("a loop on a ps", sess.run(elsewhere, {n: 4}))


@program
def nested_loops(tf, x):
    def outer(i, total):
        def inner(j, t):
            with tf.device(PS1):
                return j + 1, t + i * j
        with tf.device(PS0):
            _, total = tf.while_loop(lambda j, _: j < 3, inner, [0, total])
        with tf.device(WORKER0):
            return i + 1, total

    x.note("nested", x.session().run(tf.while_loop(lambda i, _: i < 4, outer, [0, 0])))


@program
def loop_with_a_variable(tf, x):
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=0.0, use_resource=True)

    def body(i):
        with tf.control_dependencies([v.assign_add(2.0)]):
            with tf.device(WORKER1):
                return i + 1

    loop = tf.while_loop(lambda i: i < 5, body, [0], parallel_iterations=1)
    sess = x.session()
    sess.run(v.initializer)
    x.note("times", sess.run(loop))
    x.note("added", sess.run(v))


@program
def loop_invariants(tf, x):
    """A value of another task is used in each iteration; arrays collect."""
    with tf.device(PS0):
        w = tf.placeholder_with_default(np.float32([[1, 2], [3, 4]]), [2, 2])

    def body(i, state, found):
        with tf.device(WORKER1):
            state = tf.matmul(state, w)
        return i + 1, state, found.write(i, state[0, 0])

    _, state, found = tf.while_loop(
        lambda i, *_: i < 3, body, [0, tf.eye(2), tf.TensorArray(tf.float32, 3)])
    x.note("powers", x.session().run([state, found.stack()]))


@program
def conditionals(tf, x):
    sess = x.session()
    p = tf.placeholder(tf.bool, [])
    with tf.device(WORKER1):
        a = tf.constant(3.0) + tf.placeholder_with_default(0.0, [])

    def yes():
        with tf.device(PS0):
            return a * 2.0

    def no():
        with tf.device(PS1):
            return a - 1.0

    with tf.device(WORKER0):
        y = tf.cond(p, yes, no)
    x.note("values", [sess.run(y, {p: True}), sess.run(y, {p: False})])
    k = tf.placeholder(tf.int32, [])
    c = tf.case({tf.equal(k, 1): yes, tf.equal(k, 2): no}, default=lambda: a)
    x.note("case", [sess.run(c, {k: n}) for n in (1, 2, 3)])
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=1.0, use_resource=True)
    sess.run(v.initializer)
    act = tf.cond(p, lambda: tf.group(v.assign_add(1.0)), tf.no_op)
    sess.run(act, {p: False})
    sess.run(act, {p: True})
    x.note("one update", sess.run(v))
    g, = tf.gradients(y, a)
    x.note("gradients", [sess.run(g, {p: True}), sess.run(g, {p: False})])


@program
def cond_in_loop(tf, x):
    def body(i, t):
        def even():
            with tf.device(PS0):
                return t + i

        def odd():
            with tf.device(PS1):
                return t * 2
        with tf.device(WORKER1):
            return i + 1, tf.cond(tf.equal(i % 2, 0), even, odd)

    x.note("collatz's kin", x.session().run(tf.while_loop(lambda i, _: i < 8, body, [0, 1])))


@program
def gradients(tf, x):
    with tf.device(PS0):
        w = tf.get_variable("w", initializer=tf.constant([[1., 2.], [3., 4.]]))
    with tf.device(PS1):
        b = tf.get_variable("b", initializer=tf.constant([0.5, -0.5]), use_resource=True)
    a = tf.placeholder(tf.float32, [None, 2])
    with tf.device(WORKER0):
        h = tf.nn.relu(tf.matmul(a, w) + b)
    with tf.device(WORKER1):
        loss = tf.reduce_sum(h * h)
    plain, placed = tf.gradients(loss, [w, b]), tf.gradients(loss, [w, b],
                                                             colocate_gradients_with_ops=True)
    sess = x.session()
    sess.run(tf.global_variables_initializer())
    feed = {a: [[1, 2], [-3, 1]]}
    x.note("loss", sess.run(loss, feed))
    x.note("gradients", sess.run(plain, feed))
    x.note("colocated", sess.run(placed, feed))


@program
def gradient_of_a_loop(tf, x):
    with tf.device(PS0):
        w = tf.get_variable("w", initializer=1.5)

    def body(i, y):
        with tf.device(WORKER1):
            return i + 1, y * w

    _, y = tf.while_loop(lambda i, _: i < 4, body, [0, tf.constant(2.0)])
    g, = tf.gradients(y, w)
    sess = x.session()
    sess.run(w.initializer)
    x.note("value and slope", sess.run([y, g]))


@program
def embeddings(tf, x):
    """Rows of a table in two parts, and their gradient."""
    parts = []
    for k, ps in enumerate((PS0, PS1)):
        with tf.device(ps):
            parts.append(tf.get_variable(
                f"part{k}", initializer=np.float32(np.arange(6).reshape(3, 2) + 10 * k)))
    with tf.device(WORKER0):
        ids = tf.constant([0, 1, 5, 2, 5])
        rows = tf.nn.embedding_lookup(parts, ids)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(rows))
    sess = x.session()
    sess.run(tf.global_variables_initializer())
    x.note("rows", sess.run(rows))
    sess.run(train)
    x.note("after a step", sess.run(parts))
    x.note("div", sess.run(tf.nn.embedding_lookup(parts, ids, partition_strategy="div")))


@program
def partitioned_variable(tf, x):
    with tf.device(tf.train.replica_device_setter(cluster=x.cluster.spec)):
        v = tf.get_variable("v", shape=[5, 2], initializer=tf.ones_initializer(),
                            partitioner=tf.fixed_size_partitioner(2))
        y = tf.reduce_sum(tf.convert_to_tensor(v), 0)
    sess = x.session()
    sess.run(tf.global_variables_initializer())
    x.note("devices", [p.device for p in v])
    x.note("shapes", [p.shape.as_list() for p in v])
    x.note("sum", sess.run(y))


@program
def functions(tf, x):
    """Defun called on several tasks; a body with devices of its own."""
    from_framework = getattr(tf, "_cluster_programs_defun", None)
    if from_framework is None:
        if tf.__name__ == "pyflow":
            from pyflow.python.framework import function
        else:
            from tensorflow.python.framework import function
        from_framework = function.Defun

    @from_framework(tf.float32, tf.float32)
    def f(a, b):
        return a * b + 1.0

    with tf.device(PS0):
        one = f(tf.constant(2.0), tf.placeholder_with_default(3.0, []))
    with tf.device(WORKER1):
        two = f(one, one)
    sess = x.session()
    x.note("calls", sess.run([one, two]))
    with tf.device(WORKER0):
        g, = tf.gradients(two, one)
    x.note("gradient", sess.run(g))


@program
def functions_with_devices(tf, x):
    """A body that names tasks; a function that calls itself's kin; one in a loop."""
    if tf.__name__ == "pyflow":
        from pyflow.python.framework import function
    else:
        from tensorflow.python.framework import function

    @function.Defun(tf.float32)
    def inner(a):
        return a + 1.0

    @function.Defun(tf.float32)
    def outer(a):
        with tf.device(PS1):
            b = a * 3.0
        return inner(b) + inner(a)

    n = tf.placeholder(tf.float32, [])
    with tf.device(WORKER1):
        y = outer(n)
    sess = x.session()
    x.note("called", sess.run(y, {n: 2.0}))

    def body(i, v):
        with tf.device(PS0):
            v = inner(v) * 2.0
        v.set_shape([])
        return i + 1, v

    x.note("in a loop", sess.run(tf.while_loop(lambda i, _: i < 3, body, [0, n]), {n: 1.0}))


@program
def partial_runs(tf, x):
    with tf.device(PS0):
        a = tf.placeholder(tf.float32, [], name="a")
        b = tf.placeholder(tf.float32, [], name="b")
        y = a * 2.0
    with tf.device(WORKER1):
        z = y + b
    sess = x.session()
    handle = sess.partial_run_setup([y, z], [a, b])
    x.note("first", sess.partial_run(handle, y, {a: 3.0}))
    x.note("second", sess.partial_run(handle, z, {b: 10.0}))
    x.error("again", lambda: sess.partial_run(handle, z, {b: 10.0}))
    handle = sess.partial_run_setup([y, z], [a, b])
    x.error("too early", lambda: sess.partial_run(handle, z, {a: 3.0}))
    other = sess.partial_run_setup([y, z], [a, b])
    third = sess.partial_run_setup([y, z], [a, b])
    x.note("two at once", [sess.partial_run(other, y, {a: 1.0}),
                           sess.partial_run(third, y, {a: 2.0}),
                           sess.partial_run(other, z, {b: 1.0}),
                           sess.partial_run(third, z, {b: 1.0})])
    x.error("unknown", lambda: sess.partial_run("nobody", z, {b: 1.0}))


@program
def callables(tf, x):
    a = tf.placeholder(tf.float32, [2])
    with tf.device(PS0):
        b = a * 2.0
    with tf.device(WORKER1):
        c = b + 1.0
    sess = x.session()
    f = sess.make_callable([c, b], [a])
    x.note("values", f([1, 2]))
    x.note("again", f(np.float32([3, 4])))
    g = sess.make_callable(c.op, [a])
    x.note("operation", g([1, 2]))
    h = sess.make_callable(c, [a], accept_options=True)
    meta = tf.RunMetadata()
    x.note("with options", h([1, 2], options=tf.RunOptions(
        trace_level=tf.RunOptions.FULL_TRACE), run_metadata=meta))
    x.note("traced", len(meta.step_stats.dev_stats) > 0)
    bad = sess.make_callable(tf.gather(c, tf.cast(b[0], tf.int32)), [a])
    x.error("fails", lambda: bad([1, 2]))


@program
def many_steps_at_once(tf, x):
    """Threads of both workers add on one ps."""
    with tf.device(PS0):
        v = tf.get_variable("v", initializer=0, dtype=tf.int32)
    with tf.device(WORKER0):
        n = tf.placeholder(tf.int32, [])
    add = v.assign_add(n, use_locking=True)
    sessions = [x.session("worker", 0), x.session("worker", 1)]
    sessions[0].run(v.initializer)
    threads = [x.thread(lambda s=s: [s.run(add.op, {n: 1}) for _ in range(20)] and None)
               for s in sessions * 3]
    x.note("ends", [t.end() for t in threads])
    x.note("sum", sessions[0].run(v))


@program
def diamond(tf, x):
    """One value read by several tasks, joined again; an edge used twice."""
    a = tf.placeholder(tf.float32, [2])
    found = []
    for device in (PS0, PS1, WORKER0, WORKER1):
        with tf.device(device):
            found.append(a * float(len(found) + 1) + a)
    with tf.device(PS1):
        y = tf.add_n(found) + found[0]
    sess = x.session()
    x.note("sum", sess.run(y, {a: [1, 10]}))
    x.note("parts", sess.run(found, {a: [1, 10]}))
