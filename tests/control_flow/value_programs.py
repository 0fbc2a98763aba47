"""Programs whose values are compared with TensorFlow's: each takes `tf` and returns (fetches,
feeds).

`fetches` is a dict of tensors, `feeds` a list of feed dicts; every one is run with every feed,
after the initialiser of global variables.  record.py keeps TensorFlow's answers.
"""
import numpy as np

PROGRAMS = {}
X = np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32)
W = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [-0.1, 0.2, 0.7]], np.float32)


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def numbered(tensors):
    return {str(i): t for i, t in enumerate(tensors)}


@program
def cond_values_and_gradients(tf):
    x = tf.placeholder(tf.float32, [2, 3])
    y = tf.placeholder(tf.float32, [])
    z = tf.cond(y < 0.0, lambda: x * y, lambda: tf.square(x))
    dx, dy = tf.gradients(z, [x, y])
    return {"z": z, "dx": dx, "dy": dy}, [{x: X, y: -2.0}, {x: X, y: 2.0}]


@program
def cond_unknown_shapes(tf):
    x = tf.placeholder(tf.float32)
    y = tf.placeholder(tf.float32)
    z = tf.cond(tf.reduce_sum(y) < 0.0, lambda: x * y, lambda: tf.square(x))
    dx, dy = tf.gradients(z, [x, y])
    return {"z": z, "dx": dx, "dy": dy}, [{x: X, y: -X - 2}, {x: X, y: X + 2}]


@program
def cond_nested_structures(tf):
    n = tf.placeholder(tf.int32, [])
    out = tf.cond(n > 0, lambda: {"a": n, "b": (n + 1, [n + 2])}, lambda: {"a": -n, "b": (n, [n])})
    return {"a": out["a"], "b0": out["b"][0], "b1": out["b"][1][0]}, [{n: 3}, {n: -3}]


@program
def case_exclusive(tf):
    n = tf.placeholder(tf.int32, [])
    y = tf.case({tf.less(n, 0): lambda: tf.constant(-1), tf.greater(n, 0): lambda: tf.constant(1)},
                default=lambda: tf.constant(0), exclusive=True)
    return {"y": y}, [{n: -5}, {n: 0}, {n: 7}]


@program
def while_nested_gradients(tf):
    x, w = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3, 3])

    def outer(i, y):
        return i + 1, tf.while_loop(lambda j, z: j < i,
                                    lambda j, z: (j + 1, tf.tanh(tf.matmul(z, w))), [0, y + 0.1])[1]
    y = tf.while_loop(lambda i, y: i < 4, outer, [0, x])[1]
    dx, dw = tf.gradients(tf.reduce_sum(y * y), [x, w])
    return {"y": y, "dx": dx, "dw": dw}, [{x: X, w: W}]


@program
def while_nested_gradients_unknown_shapes(tf):
    x, w = tf.placeholder(tf.float32), tf.placeholder(tf.float32)

    def outer(i, y):
        inner = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, tf.tanh(tf.matmul(z, w))),
                              [0, y + 0.1])[1]
        inner.set_shape([None, None])
        return i + 1, inner
    y = tf.while_loop(lambda i, y: i < 4, outer, [0, x],
                      shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
    dx, dw = tf.gradients(tf.reduce_sum(y * y), [x, w])
    return {"y": y, "dx": dx, "dw": dw}, [{x: X, w: W}]


@program
def cond_in_while(tf):
    x, w = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3, 3])

    def body(i, y):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.matmul(y, w), lambda: tf.sin(y) + y)
    y = tf.while_loop(lambda i, y: i < 5, body, [0, x])[1]
    dx, dw = tf.gradients(y, [x, w])
    return {"y": y, "dx": dx, "dw": dw}, [{x: X, w: W}]


@program
def cond_in_while_unknown_shapes(tf):
    x, w = tf.placeholder(tf.float32), tf.placeholder(tf.float32)

    def body(i, y):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * w, lambda: tf.sin(y) + y)
    y = tf.while_loop(lambda i, y: i < 5, body, [0, x])[1]
    dx, dw = tf.gradients(y, [x, w])
    return {"y": y, "dx": dx, "dw": dw}, [{x: X, w: X + 0.5}]


@program
def while_in_cond(tf):
    x, w = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3, 3])
    p = tf.placeholder(tf.bool, [])

    def loop():
        return tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.matmul(y, w)), [0, x])[1]
    y = tf.cond(p, loop, lambda: x * 2.0)
    dx, dw = tf.gradients(y, [x, w])
    return {"y": y, "dx": dx, "dw": dw}, [{x: X, w: W, p: True}, {x: X, w: W, p: False}]


@program
def while_unused_variable(tf):
    """A loop variable whose gradient does not depend on its last value, and one that is not
    used."""
    x, w = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [3])
    _, y, z = tf.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, tf.tanh(w), z * w),
                            [0, x, x])
    dx, dw = tf.gradients(y, [x, w])
    ex, ew = tf.gradients(z, [x, w])
    return {"y": y, "z": z, "dx": dx, "dw": dw, "ex": ex, "ew": ew}, [
        {x: [1, 2, 3], w: [0.1, 0.2, 0.3]}]


@program
def while_passes_an_outside_value(tf):
    """A constant Enter feeds NextIteration directly; in the last iteration only a control edge is
    dead."""
    x = tf.placeholder(tf.float32)
    fetches = {}
    for k in (1, 10):
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, x), [0, x * 2.0],
                          parallel_iterations=k,
                          shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
        z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.tanh(x)), [0, x * 2.0],
                          parallel_iterations=k,
                          shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)])[1]
        fetches.update({f"y{k}": y, f"z{k}": z, f"dy{k}": tf.gradients(y, x)[0],
                        f"dz{k}": tf.gradients(z, x)[0]})
    return fetches, [{x: [1.0, 2.0, 3.0]}]


@program
def while_zero_iterations(tf):
    x, w = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32)
    n = tf.placeholder(tf.int32, [])
    y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.reshape(y * w, [3])), [0, x])[1]
    dx, dw = tf.gradients(y, [x, w])
    feeds = [{x: [1, 2, 3], w: [0.1, 0.2, 0.3], n: k} for k in (0, 1, 3)]
    return {"y": y, "dx": dx, "dw": dw}, feeds


@program
def while_gather_gradient(tf):
    """IndexedSlices gradients of a loop invariant."""
    w = tf.placeholder(tf.float32, [4, 2])
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.gather(w, [i, i + 1])),
                      [0, tf.zeros([2, 2])])[1]
    dw = tf.gradients(tf.reduce_sum(y * y), w)[0]
    return {"y": y, "dw": tf.convert_to_tensor(dw)}, [{w: np.arange(8).reshape(4, 2)}]


@program
def while_shape_invariants(tf):
    x = tf.placeholder(tf.float32, [1, 3])
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y * 0.5], 0)), [0, x],
                      shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])])[1]
    return {"y": y, "dx": tf.gradients(y * y, x)[0]}, [{x: X[:1]}]


@program
def while_maximum_iterations(tf):
    x, n = tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, [])
    y = tf.while_loop(lambda y: y < 100.0, lambda y: y * 2.0, [x], maximum_iterations=n)
    feeds = [{x: 1.0, n: 3}, {x: 1.0, n: 20}, {x: 200.0, n: 5}]
    return {"y": y, "dx": tf.gradients(y, x)[0]}, feeds


@program
def while_parallel_iterations(tf):
    fetches = {}
    x = tf.placeholder(tf.float32, [2, 3])
    for k in (1, 3, 32):
        y = tf.while_loop(lambda i, y: i < 6, lambda i, y: (i + 1, tf.tanh(y) * 1.5), [0, x],
                          parallel_iterations=k)[1]
        fetches[f"y{k}"], fetches[f"dx{k}"] = y, tf.gradients(y, x)[0]
    return fetches, [{x: X}]


@program
def while_structures(tf):
    x = tf.placeholder(tf.float32, [])
    state = {"i": tf.constant(0), "pair": (x, [x + 1.0])}

    def body(s):
        a, b = s["pair"]
        return [{"i": s["i"] + 1, "pair": (a * 2.0, [b[0] + a])}]
    out = tf.while_loop(lambda s: s["i"] < 3, body, [state])[0]
    return {"i": out["i"], "a": out["pair"][0], "b": out["pair"][1][0],
            "dx": tf.gradients(out["pair"][1][0], x)[0]}, [{x: 1.5}]


@program
def grad_ys_and_stops(tf):
    x, g = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [3])
    y = x * x
    z = tf.exp(y) + y
    return {"a": tf.gradients(z, x, grad_ys=[g])[0],
            "b": tf.gradients(z, [x, y], stop_gradients=[y])[1],
            "c": tf.gradients([y, z], x)[0], "d": tf.gradients(tf.stop_gradient(y) * x, x)[0],
            }, [{x: [1.0, 0.5, -1.0], g: [1.0, 2.0, 3.0]}]


@program
def gradients_of_gradients(tf):
    x = tf.placeholder(tf.float32, [3])
    first = tf.gradients(tf.sin(x) * x * x, x)[0]
    return {"first": first, "second": tf.gradients(first, x)[0],
            "hessian": tf.hessians(tf.reduce_sum(tf.sin(x)) * tf.reduce_sum(x * x), x)[0],
            }, [{x: [1, 2, 3]}]


@program
def tensor_array_gradients(tf):
    x, w = tf.placeholder(tf.float32, [4, 3]), tf.placeholder(tf.float32, [3])
    source = tf.TensorArray(tf.float32, 4).unstack(x)

    def body(i, out):
        return i + 1, out.write(3 - i, tf.tanh(source.read(i) * w))
    out = tf.while_loop(lambda i, out: i < 4, body, [0, tf.TensorArray(tf.float32, 4)])[1].stack()
    dx, dw = tf.gradients(out * out, [x, w])
    feed = {x: np.arange(12).reshape(4, 3) / 6.0, w: [0.1, 0.2, 0.3]}
    return {"out": out, "dx": dx, "dw": dw}, [feed]


@program
def tensor_array_methods(tf):
    x = tf.placeholder(tf.float32, [6, 2])
    split = tf.TensorArray(tf.float32, 3, infer_shape=False, clear_after_read=False)
    split = split.split(x, [1, 2, 3])
    read, whole = split.read(1), split.concat()
    gathered = tf.TensorArray(tf.float32, 6).unstack(x).gather([4, 0])
    scattered = tf.TensorArray(tf.float32, 2).scatter([1, 0], x[:2]).stack()
    grown = tf.TensorArray(tf.float32, 1, dynamic_size=True).write(0, x[0]).write(3, x[1])
    return {"read": read, "whole": whole, "gathered": gathered, "scattered": scattered,
            "size": grown.size(), "dread": tf.gradients(read * read, x)[0],
            "dwhole": tf.gradients(whole * whole, x)[0],
            "dgathered": tf.gradients(gathered * 3.0, x)[0],
            "dscattered": tf.gradients(scattered * scattered, x)[0],
            }, [{x: np.arange(12).reshape(6, 2)}]


@program
def functional(tf):
    x = tf.placeholder(tf.float32, [4, 3])
    mapped = tf.map_fn(lambda r: tf.reduce_sum(r * r), x)
    pair = tf.map_fn(lambda r: (r * 2.0, tf.reduce_max(r)), x, dtype=(tf.float32, tf.float32))
    scanned = tf.scan(lambda a, r: a * 0.5 + r, x)
    started = tf.scan(lambda a, r: a + tf.reduce_sum(r), x, initializer=1.0)
    backward = tf.scan(lambda a, r: a * 0.5 + r, x, reverse=True)
    left = tf.foldl(lambda a, r: a * 0.5 + r, x)
    right = tf.foldr(lambda a, r: a * 0.5 + r, x, initializer=tf.ones([3]))
    outs = {"mapped": mapped, "pair0": pair[0], "pair1": pair[1], "scanned": scanned,
            "started": started, "backward": backward, "left": left, "right": right}
    grads = {"d_" + k: tf.gradients(v * v, x)[0] for k, v in outs.items()}
    return {**outs, **grads}, [{x: np.arange(12).reshape(4, 3) / 6.0 - 1}]


@program
def gather_gradients(tf):
    w = tf.placeholder(tf.float32, [5, 2])
    a, b = tf.gather(w, [0, 2, 0]), tf.gather(w, [[4, 1]])
    total = tf.reduce_sum(a * a) + tf.reduce_sum(b) + tf.reduce_sum(w)
    slices = tf.gradients(tf.reduce_sum(a) + tf.reduce_sum(b * b), w)[0]
    return {"dw": tf.convert_to_tensor(tf.gradients(total, w)[0]),
            "sparse": tf.convert_to_tensor(slices),
            }, [{w: np.arange(10).reshape(5, 2)}]


@program
def variables_assigned(tf):
    v = tf.Variable([1.0, 2.0, 3.0])
    r = tf.Variable([1.0, 2.0, 3.0], use_resource=True)
    found = {}
    for name, var in (("v", v), ("r", r)):
        with tf.control_dependencies([tf.assign_add(var, [1.0, 1.0, 1.0])]):
            with tf.control_dependencies([tf.assign_sub(var, [0.5, 0.0, 0.0])]):
                with tf.control_dependencies([tf.scatter_add(var, [2, 2], [10.0, 20.0])]):
                    with tf.control_dependencies([tf.scatter_update(var, [1], [-1.0])]):
                        found[name] = var.read_value()
    found["sum"] = found["v"] + found["r"]
    return found, [{}]


@program
def variable_gradients(tf):
    v = tf.Variable([1.0, 2.0, 3.0])
    r = tf.Variable([1.0, 2.0, 3.0], use_resource=True)
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: v * r, lambda: v + 1.0)
    return {"dv": tf.gradients(v * v, v)[0], "dr": tf.gradients(r * r, r)[0],
            "cv": tf.gradients(y, v)[0], "cr": tf.gradients(y, r)[0]}, [{p: True}, {p: False}]


@program
def variable_initial_values(tf):
    v = tf.Variable(tf.constant([1.0, 2.0]) * 3.0)
    w = tf.Variable(v * 2.0)
    u = tf.Variable(v.initialized_value() + 1.0)
    r = tf.Variable(lambda: tf.ones([2]) * 5.0, use_resource=True)
    return {"v": v, "w": w, "u": u, "r": r}, [{}]


def _training(name, make, sparse=False):
    for use_resource in (False, True):
        def build(tf, use_resource=use_resource):
            w = tf.get_variable("w", initializer=W, use_resource=use_resource)
            b = tf.get_variable("b", initializer=np.float32([0.1, 0.2, 0.3]),
                                use_resource=use_resource)
            rows = tf.gather(w, [2, 0, 2]) if sparse else w
            loss = tf.reduce_sum(tf.square(tf.matmul(X, rows) + b))
            step = make(tf).minimize(loss)
            with tf.control_dependencies([step]):
                return {"w": w.read_value(), "b": b.read_value()}, [{}, {}, {}]
        PROGRAMS[f"train_{name}{'_sparse' * sparse}{'_resource' * use_resource}"] = build


_OPTIMIZERS = {
    "gradient_descent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "rmsprop_centered": lambda tf: tf.train.RMSPropOptimizer(0.1, centered=True),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda tf: tf.train.AdadeltaOptimizer(0.5),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01,
                                              l2_regularization_strength=0.02),
}
_OPTIMIZERS["proximal_gradient_descent"] = lambda tf: tf.train.ProximalGradientDescentOptimizer(
    0.1, l1_regularization_strength=0.1, l2_regularization_strength=0.2)
_OPTIMIZERS["proximal_adagrad"] = lambda tf: tf.train.ProximalAdagradOptimizer(
    0.1, l1_regularization_strength=0.1, l2_regularization_strength=0.2)
for _name, _make in _OPTIMIZERS.items():
    _training(_name, _make)
    _training(_name, _make, sparse=True)


@program
def learning_rates(tf):
    step = tf.placeholder(tf.int64, [])
    t = tf.train
    return {"exponential": t.exponential_decay(0.1, step, 10, 0.5),
            "staircase": t.exponential_decay(0.1, step, 10, 0.5, staircase=True),
            "natural": t.natural_exp_decay(0.1, step, 10, 0.5),
            "inverse": t.inverse_time_decay(0.1, step, 10, 0.5),
            "polynomial": t.polynomial_decay(0.1, step, 20, 0.01, power=2.0),
            "cycle": t.polynomial_decay(0.1, step, 20, 0.01, cycle=True),
            "cosine": t.cosine_decay(0.1, step, 20, alpha=0.1),
            "piecewise": t.piecewise_constant(step, [5, 15], [1.0, 0.5, 0.1]),
            }, [{step: k} for k in (0, 3, 5, 10, 16, 25)]


@program
def moving_averages(tf):
    w = tf.Variable([1.0, 2.0])
    ema = tf.train.ExponentialMovingAverage(0.9)
    debiased = tf.train.ExponentialMovingAverage(0.9, zero_debias=True, name="debiased")
    x = tf.placeholder(tf.float32, [2])
    y = tf.identity(x * 2.0)
    with tf.control_dependencies([tf.assign_add(w, x)]):
        applied = tf.group(ema.apply([w]), debiased.apply([y]))
    with tf.control_dependencies([applied]):
        return {"w": ema.average(w).read_value(), "y": debiased.average(y).read_value(),
                }, [{x: [1, 1]}, {x: [2, 0]}, {x: [3, 3]}]


@program
def custom_gradient(tf):
    x = tf.placeholder(tf.float32, [3])

    @tf.custom_gradient
    def clipped(x):
        return tf.square(x), lambda dy: tf.clip_by_value(dy * 2.0 * x, -1.0, 1.0)
    y = clipped(x)
    return {"y": y, "dx": tf.gradients(y, x)[0]}, [{x: [0.1, 5.0, -5.0]}]


@program
def assertions_hold(tf):
    x = tf.placeholder(tf.float32, [3])
    checks = [tf.assert_positive(x), tf.assert_less(x, 10.0), tf.assert_rank(x, 1),
              tf.assert_equal(tf.shape(x), [3]), tf.Assert(x[0] > 0, [x])]
    with tf.control_dependencies([c for c in checks if c is not None]):
        return {"x": tf.identity(x)}, [{x: [1, 2, 3]}]


@program
def initializers(tf):
    """Those without randomness."""
    get = tf.get_variable
    return {"zeros": get("a", [2, 3], initializer=tf.zeros_initializer()),
            "ones": get("b", [2], initializer=tf.ones_initializer()),
            "constant": get("c", [2, 2], initializer=tf.constant_initializer([1, 2, 3, 4])),
            "scalar": get("d", [3], initializer=tf.constant_initializer(7.0)),
            "identity": get("e", [3, 3], initializer=tf.initializers.identity(2.0)),
            "int": get("f", [2], dtype=tf.int32),
            "value": get("g", initializer=np.float32([1.5, 2.5]))}, [{}]
