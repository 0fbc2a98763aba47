"""Whole programs: control flow, variables, optimisers, errors.  Each takes `tf` and returns named
arrays."""

import itertools

import numpy as np

from cases import script

_registered = itertools.count()
X = np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32)


def evaluate(tf, fetches, feeds=None, init=False):
    """One run of the default graph in a new session."""
    with tf.Session() as session:
        if init:
            session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


# ---------------------------------------------------------------- control flow


@script
def cond_both_ways(tf):
    p, x = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.float32, [3], name="x")
    y, z = tf.cond(p, lambda: (x * 2, tf.reduce_sum(x)), lambda: (x - 1, tf.constant(7.0)))
    (gradient,) = tf.gradients([y, z], x)
    found = {}
    with tf.Session() as session:
        for flag in (True, False):
            found[f"y_{flag}"], found[f"z_{flag}"], found[f"g_{flag}"] = session.run(
                [y, z, gradient], {p: flag, x: [1.0, 2.0, 3.0]}
            )
    return found


@script
def cond_nested(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    y = tf.cond(n > 0, lambda: tf.cond(n > 10, lambda: n * 100, lambda: n * 10), lambda: -n)
    with tf.Session() as session:
        return {str(v): session.run(y, {n: v}) for v in (-3, 5, 20)}


@script
def case_and_switch_case(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    y = tf.case(
        [(tf.less(n, 0), lambda: tf.constant(-1)), (tf.equal(n, 0), lambda: tf.constant(0))],
        default=lambda: tf.constant(1),
        exclusive=False,
    )
    with tf.Session() as session:
        return {str(v): session.run(y, {n: v}) for v in (-5, 0, 5)}


@script
def while_counter(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    i, total = tf.while_loop(
        lambda i, s: i < n, lambda i, s: (i + 1, s + i * i), [tf.constant(0), tf.constant(0)]
    )
    with tf.Session() as session:
        return {str(v): np.array(session.run([i, total], {n: v})) for v in (0, 1, 10, 1000)}


@script
def while_parallel_iterations(tf):
    found = {}
    for k in (1, 4, 32):
        i, x = tf.while_loop(
            lambda i, x: i < 50,
            lambda i, x: (i + 1, tf.tanh(x) + 0.1),
            [0, tf.constant(X)],
            parallel_iterations=k,
        )
        found[str(k)] = evaluate(tf, x)
    return found


@script
def while_gradient(tf):
    x, w = tf.placeholder(tf.float32, [4, 3], name="x"), tf.placeholder(
        tf.float32, [3, 3], name="w"
    )
    _, y = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), [0, x])
    gradients = tf.gradients(tf.reduce_sum(y * y), [x, w])
    weights = (np.arange(9).reshape(3, 3) / 10 - 0.3).astype(np.float32)
    found = evaluate(tf, [y] + gradients, {x: X, w: weights})
    return dict(zip(["y", "dx", "dw"], found))


@script
def while_nested_gradient(tf):
    x = tf.placeholder(tf.float32, [3], name="x")

    def outer(i, y):
        _, z = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, tf.sin(z) + y), [0, y])
        return i + 1, z

    _, y = tf.while_loop(lambda i, y: i < 4, outer, [0, x])
    (g,) = tf.gradients(y, x)
    found = evaluate(tf, [y, g], {x: [0.1, 0.5, -0.7]})
    return {"y": found[0], "g": found[1]}


@script
def while_with_cond_gradient(tf):
    x = tf.placeholder(tf.float32, [], name="x")
    _, y = tf.while_loop(
        lambda i, y: i < 6,
        lambda i, y: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: y + tf.sin(y))),
        [tf.constant(0), tf.constant(1.0)],
    )
    (g,) = tf.gradients(y, x)
    with tf.Session() as session:
        return {str(v): np.array(session.run([y, g], {x: v})) for v in (0.5, 1.5)}


@script
def cond_in_gradient_of_unused_branch(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sqrt(x), lambda: tf.zeros([2]))
    (g,) = tf.gradients(y, x)
    with tf.Session() as session:
        return {
            "positive": session.run(g, {x: [1.0, 4.0]}),
            "negative": session.run(g, {x: [-1.0, -4.0]}),
        }


@script
def while_shape_grows(tf):
    _, x = tf.while_loop(
        lambda i, x: i < 4,
        lambda i, x: (i + 1, tf.concat([x, [tf.cast(i, tf.float32)]], 0)),
        [tf.constant(0), tf.zeros([1])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    return {"x": evaluate(tf, x)}


@script
def while_structure(tf):
    loop = tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, (p[0] + p[1], p[0])), (0, (1, 1)))
    i, (a, b) = evaluate(tf, loop)
    return {"i": i, "a": a, "b": b}


@script
def tensor_array_roundtrip(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    array = tf.TensorArray(tf.float32, 4).unstack(x)
    _, out = tf.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a.write(i, array.read(3 - i) * tf.cast(i, tf.float32))),
        [0, tf.TensorArray(tf.float32, 4)],
    )
    y = out.stack()
    (g,) = tf.gradients(y, x)
    found = evaluate(tf, [y, g, out.concat() if False else out.size()], {x: X})
    return {"y": found[0], "g": found[1], "size": found[2]}


@script
def map_fn_scan_foldl(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    mapped, scanned, folded = (
        tf.map_fn(lambda r: tf.reduce_sum(r * r), x),
        tf.scan(lambda a, r: a * 0.5 + r, x),
        tf.foldl(lambda a, r: a + r, x),
    )
    (g,) = tf.gradients([mapped, tf.reduce_sum(scanned, 1)], x)
    return dict(
        zip(["map", "scan", "fold", "g"], evaluate(tf, [mapped, scanned, folded, g], {x: X}))
    )


@script
def raw_switch_merge(tf):
    p, x = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.float32, [], name="x")
    from_false, from_true = tf.raw_ops.Switch(data=x, pred=p)
    merged = tf.raw_ops.Merge(inputs=[from_false * 10, from_true + 1])
    with tf.Session() as session:
        return {
            str(v): np.array(
                session.run(
                    [merged.output, tf.cast(merged.value_index, tf.float32)], {p: v, x: 3.0}
                )
            )
            for v in (True, False)
        }


@script
def control_dependencies(tf):
    v = tf.Variable(1.0, name="v")
    first = tf.assign(v, 5.0)
    with tf.control_dependencies([first]):
        y = tf.identity(v.read_value() if hasattr(v, "read_value") else v)
    return {"y": evaluate(tf, y, init=True)}


# ---------------------------------------------------------------- variables


@script
def variables_assign(tf):
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.get_variable(
        "w", [2], initializer=tf.constant_initializer(3.0)
    )
    add, sub = tf.assign_add(v, [10.0, 20.0]), tf.assign_sub(w, v)
    found = {}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found["0"] = np.array(session.run([v, w]))
        session.run(add)
        session.run(sub)
        found["1"] = np.array(session.run([v, w]))
        v.load([7.0, 8.0], session)
        found["2"] = session.run(v * w)
    return found


@script
def scatter_updates(tf):
    found = {}
    for name in [
        "scatter_update",
        "scatter_add",
        "scatter_sub",
        "scatter_mul",
        "scatter_div",
        "scatter_min",
        "scatter_max",
    ]:
        v = tf.Variable(np.arange(1, 9).reshape(4, 2).astype(np.float32), name=name)
        found[name] = evaluate(
            tf, getattr(tf, name)(v, [3, 0], [[2.0, 3.0], [4.0, 5.0]]), init=True
        )
    v = tf.Variable(np.arange(4.0, dtype=np.float32))
    found["scatter_nd_add"] = evaluate(tf, tf.scatter_nd_add(v, [[1], [3]], [5.0, 6.0]), init=True)
    return found


@script
def resource_variables(tf):
    v = tf.get_variable("r", initializer=np.float32([1, 2, 3]), use_resource=True)
    (g,) = tf.gradients(tf.reduce_sum(v * v), v)
    steps = [
        v.assign_add([1.0, 1.0, 1.0]),
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(v * v)),
    ]
    found = {}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found["g"] = session.run(g)
        for i, step in enumerate(steps):
            session.run(step)
            found[str(i)] = session.run(v)
    return found


@script
def variable_scopes(tf):
    with tf.variable_scope("a", reuse=False):
        with tf.variable_scope("b"):
            x = tf.get_variable("x", [2], initializer=tf.ones_initializer())
    with tf.variable_scope("a/b", reuse=True):
        y = tf.get_variable("x", [2])
    with tf.name_scope("n"):
        z = tf.Variable(1.0, name="z")
    with tf.name_scope("n"):
        u = tf.add(z, 1.0, name="u")
    names = (
        [x.name, y.name, z.name, u.name]
        + [v.name for v in tf.global_variables()]
        + [v.op.name for v in tf.trainable_variables()]
    )
    return {"names": np.array(names), "same": np.array(x is y)}


@script
def node_names(tf):
    """The names and ops of a small training graph are TF's, so graphs and checkpoints keep their
    names."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.Variable(tf.zeros([3, 2]), name="w")
    b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
    with tf.name_scope("model"):
        y = tf.nn.relu(tf.matmul(x, w) + b)
    with tf.name_scope("model"):
        loss = tf.reduce_mean(tf.square(y))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    graph = tf.get_default_graph()
    kept = [op for op in graph.get_operations() if not op.name.startswith("gradients/")]
    return {
        "names": np.array([op.name for op in kept]),
        "types": np.array([op.type for op in kept]),
    }


@script
def initializers(tf):
    made = {
        "zeros": tf.zeros_initializer(),
        "ones": tf.ones_initializer(),
        "constant": tf.constant_initializer(2.5),
        "list": tf.constant_initializer([1.0, 2.0, 3.0, 4.0]),
        "identity": tf.initializers.identity(),
    }
    fetches = {name: tf.get_variable(name, [2, 2], initializer=i) for name, i in made.items()}
    return evaluate(tf, fetches, init=True)


# ----------------------------------------------------- optimisers: five steps of a small regression


def trajectory(tf, optimizer):
    rng = np.random.default_rng(3)
    features, labels = rng.standard_normal((8, 4)).astype(np.float32), rng.integers(0, 3, 8)
    table = tf.Variable(rng.standard_normal((5, 4)).astype(np.float32) * 0.1, name="table")
    w = tf.Variable(rng.standard_normal((4, 3)).astype(np.float32) * 0.1, name="w")
    b = tf.Variable(np.zeros(3, np.float32), name="b")
    rows = tf.nn.embedding_lookup(
        table, [0, 2, 2, 4, 0, 1, 1, 0]
    )  # sparse gradients: IndexedSlices
    logits = tf.matmul(tf.constant(features) + rows, w) + b
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.constant(labels), logits=logits)
    )
    step = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    losses = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            losses.append(session.run(loss))
            session.run(step)
        found = session.run(
            {"table": table, "w": w, "b": b, "global_step": tf.train.get_global_step()}
        )
        slots = {}
        for name in sorted(optimizer.get_slot_names()):
            slots["slot_" + name] = session.run(optimizer.get_slot(w, name))
    return {"losses": np.array(losses), **found, **slots}


for _name, _make in {
    "sgd": lambda tf: tf.train.GradientDescentOptimizer(0.5),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.5, 0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(0.5, 0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "rmsprop_centered": lambda tf: tf.train.RMSPropOptimizer(0.1, centered=True),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.5),
    "sgd_decayed": lambda tf: tf.train.GradientDescentOptimizer(
        tf.train.exponential_decay(0.5, tf.train.get_or_create_global_step(), 2, 0.5)
    ),
}.items():

    def _run(tf, make=_make):
        return trajectory(tf, make(tf))

    _run.__name__ = "optimizer_" + _name
    script(_run)


@script
def gradient_clipping_step(tf):
    w = tf.Variable([3.0, -4.0])
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = [
        (tf.clip_by_norm(g, 1.0), v) for g, v in optimizer.compute_gradients(tf.reduce_sum(w * w))
    ]
    with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
        after = w.read_value()
    return {"w": evaluate(tf, after, init=True)}


@script
def moving_average(tf):
    v = tf.Variable(1.0, name="v")
    average = tf.train.ExponentialMovingAverage(0.9)
    apply = average.apply([v])
    found = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for x in (2.0, 3.0, 4.0):
            session.run(v.assign(x))
            session.run(apply)
            found.append(session.run(average.average(v)))
    return {"averages": np.array(found)}


# ---------------------------------------------------------------- gradients


@script
def gradients_options(tf):
    x, y = tf.constant([1.0, 2.0], name="x"), tf.constant([3.0, 4.0], name="y")
    z = x * y + tf.sin(x)
    found = {
        "grad_ys": tf.gradients(z, x, grad_ys=[tf.constant([10.0, 100.0])])[0],
        "stop": tf.gradients(z * x, x, stop_gradients=[z])[0],
        "sum": tf.gradients([z, x * 2], [x, y])[0],
        "second": tf.gradients(tf.gradients(z * z, x)[0], x)[0],
    }
    assert tf.gradients(tf.constant(1.0), x) == [None]
    return evaluate(tf, found)


@script
def hessian_vector(tf):
    x = tf.constant([0.5, -0.3, 0.8])
    f = tf.reduce_sum(tf.tanh(x) * tf.reduce_prod(x))
    (g,) = tf.gradients(f, x)
    (hv,) = tf.gradients(tf.reduce_sum(g * tf.constant([1.0, 2.0, 3.0])), x)
    return dict(zip("fgh", evaluate(tf, [f, g, hv])))


@script
def indexed_slices(tf):
    table = tf.constant(np.arange(12.0).reshape(4, 3).astype(np.float32))
    y = tf.gather(table, [1, 3, 1]) * tf.constant([[1.0], [10.0], [100.0]])
    (g,) = tf.gradients(y, table)
    fetched = evaluate(
        tf,
        {
            "values": g.values,
            "indices": g.indices,
            "dense": tf.convert_to_tensor(g),
            "shape": g.dense_shape,
        },
    )
    return fetched


@script
def custom_gradient_map(tf):
    triple = f"OracleTriple{next(_registered)}"     # once a process: parity.py runs this too

    @tf.RegisterGradient(triple)
    def _triple(op, dy):
        return 3.0 * dy

    with tf.get_default_graph().gradient_override_map({"Identity": triple}):
        x = tf.constant([1.0, 2.0])
        y = tf.identity(x)
    return {"g": evaluate(tf, tf.gradients(y, x)[0])}


# ---------------------------------------------------------------- sessions


@script
def fetch_structures(tf):
    x = tf.constant([1, 2], name="x")
    with tf.Session() as session:
        found = session.run({"a": x, "b": [x, (x + 1, "x:0")], "c": {"d": x * 2}})
        by_name = session.run("x:0")
        fed = session.run(x + 1, {x: [5, 6]})
        fed_name = session.run("x:0", {"x:0": [8, 9]})
        call = session.make_callable(x * 3, [x])
        called = call(np.array([2, 3], np.int32))
        nothing = session.run(x.op)
    assert nothing is None
    return {
        "a": found["a"],
        "b0": found["b"][0],
        "b10": found["b"][1][0],
        "b11": found["b"][1][1],
        "d": found["c"]["d"],
        "by_name": by_name,
        "fed": fed,
        "fed_name": fed_name,
        "called": called,
    }


@script
def partial_run(tf):
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    c = a + 1
    d = c * b
    with tf.Session() as session:
        handle = session.partial_run_setup([c, d], [a, b])
        first = session.partial_run(handle, c, {a: 2.0})
        second = session.partial_run(handle, d, {b: first * 10})
    return {"first": first, "second": second}


@script
def py_function(tf):
    x = tf.constant([1.0, 2.0])
    y = tf.py_func(lambda v: (v * 2).astype(np.float32), [x], tf.float32)
    return {"y": evaluate(tf, y + 1)}


@script
def random_seeds(tf):
    """Equal seeds give equal numbers, within TF's rules for graph and op seeds; shapes, types and
    ranges."""
    tf.set_random_seed(7)
    a, b = tf.random_uniform([1000], seed=1), tf.random_uniform([1000], seed=1)
    n, t, s = (
        tf.random_normal([2000]),
        tf.truncated_normal([2000], stddev=2.0),
        tf.random_shuffle(tf.range(20)),
    )
    i = tf.random_uniform([500], 3, 9, dtype=tf.int32)
    with tf.Session() as one:
        first = one.run([a, b, n, t, s, i])
        again = one.run([a, b])
    with tf.Session() as two:
        second = two.run([a, b, n, t, s, i])
    same = [np.array_equal(x, y) for x, y in zip(first, second)]
    return {
        "sessions_agree": np.array(same),
        "ops_agree": np.array(np.array_equal(first[0], first[1])),
        "steps_differ": np.array(not np.array_equal(first[0], again[0])),
        "ranges": np.array(
            [
                first[0].min() >= 0,
                first[0].max() < 1,
                abs(first[2].mean()) < 0.1,
                abs(first[2].std() - 1) < 0.1,
                np.abs(first[3]).max() <= 4,
                first[5].min() == 3,
                first[5].max() == 8,
                len(set(first[4])) == 20,
            ]
        ),
    }


def failing_runs(tf, session, x, v):
    """Mistakes made with a session that is open: name -> what makes it."""
    def given(value, shape):
        return tf.placeholder_with_default(value, shape)
    return {
        "unfed": lambda: session.run(x + 1),
        "uninitialized": lambda: session.run(v + 1),
        "feed_shape": lambda: session.run(x, {x: [1.0, 2.0, 3.0]}),
        "fetch_name": lambda: session.run("nothing:0"),
        "fetch_type": lambda: session.run(3.5),
        "gather_range": lambda: session.run(tf.gather(given([1.0], [1]), given([4], [1]))),
        "assert": lambda: session.run(tf.Assert(given(False, []), ["no"])),
        "numerics": lambda: session.run(tf.check_numerics(tf.log(given(-1.0, [])), "bad")),
        "int_zero": lambda: session.run(tf.floordiv(given(1, []), given(0, []))),
        "reshape": lambda: session.run(tf.reshape(given([1.0, 2.0], [2]), given([3], [1]))),
    }


def failing_calls(tf, closed, x, v):
    """Mistakes made without one; `closed` is a session that was."""
    return {
        "closed": lambda: closed.run(v),
        "shape_static": lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3])),
        "dtype": lambda: tf.constant(1.0) + tf.constant(1),
        "other_graph": lambda: tf.Session(graph=tf.Graph()).run(x),
        "variable_twice": lambda: [tf.get_variable("twice", [1]) for _ in range(2)],
        "feed_unknown": lambda: tf.Session().run(x, {"nothing:0": 1}),
        "no_gradient_path": lambda: tf.train.GradientDescentOptimizer(0.1).minimize(
            tf.constant(1.0), var_list=[v]),
    }


def class_of_error(act):
    try:
        act()
    except Exception as error:  # noqa: BLE001  the class is the answer
        return np.array(type(error).__name__)
    return np.array("none")


@script
def error_types(tf):
    """The class of error of common mistakes."""
    x = tf.placeholder(tf.float32, [2], name="x")
    v = tf.Variable(1.0, name="v")
    with tf.Session() as session:
        errors = {name: class_of_error(act)
                  for name, act in failing_runs(tf, session, x, v).items()}
    errors |= {name: class_of_error(act) for name, act in failing_calls(tf, session, x, v).items()}
    return errors
