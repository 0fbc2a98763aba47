"""Programs whose graphs are compared with TensorFlow's: each takes `tf` and builds into the
default graph.

record.py runs them under TensorFlow (compat.v1, control flow v1) and keeps the nodes;
test_structure.py runs them under pyflow.
"""
import numpy as np

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def _pair(tf, shape=None):
    return tf.placeholder(tf.float32, shape, name="x"), tf.placeholder(tf.float32, shape, name="w")


@program
def cond_simple(tf):
    x, y = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.float32, [], name="y")
    tf.cond(tf.less(x, y), lambda: tf.multiply(x, 2.0), lambda: tf.subtract(y, x))


@program
def cond_gradient(tf):
    x, y = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.float32, [], name="y")
    z = tf.cond(tf.less(y, 0.0), lambda: tf.subtract(x, y), lambda: tf.identity(x))
    tf.gradients(z, [x, y])


@program
def cond_nested(tf):
    x = tf.placeholder(tf.float32, [], name="x")
    z = tf.cond(tf.less(x, 1.0),
                lambda: tf.cond(tf.less(x, 0.0), lambda: tf.negative(x), lambda: tf.exp(x)),
                lambda: tf.tanh(x))
    tf.gradients(z, x)


@program
def cond_passes_through(tf):
    x, y = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.float32, [], name="y")
    tf.cond(tf.less(x, y), lambda: [x, y], lambda: [y, tf.constant(1.0)], name="pick")


@program
def cond_with_operations(tf):
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.Variable(1.0, name="v")
    tf.cond(p, lambda: tf.assign(v, 2.0).op, lambda: tf.no_op())


@program
def case_three(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    tf.case([(tf.less(n, 0), lambda: tf.constant(-1)), (tf.equal(n, 0), lambda: tf.constant(0))],
            default=lambda: tf.constant(1))


@program
def while_counter(tf):
    n = tf.placeholder(tf.int32, [], name="n")
    tf.while_loop(lambda i: tf.less(i, n), lambda i: tf.add(i, 1), [tf.constant(0)])


@program
def while_maximum(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.while_loop(lambda x: tf.less(tf.reduce_sum(x, axis=0), 9.0), lambda x: tf.multiply(x, 2.0),
                  [x], maximum_iterations=5)


@program
def while_shapes(tf):
    x = tf.placeholder(tf.float32, [1, 2], name="x")
    tf.while_loop(lambda i, x: tf.less(i, 3), lambda i, x: (tf.add(i, 1), tf.concat([x, x], 0)),
                  [tf.constant(0), x],
                  shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])])


@program
def while_gradient(tf):
    x, w = _pair(tf, [2, 2])
    y = tf.while_loop(lambda i, y: tf.less(i, 5), lambda i, y: (tf.add(i, 1), tf.matmul(y, w)),
                      [tf.constant(0), x])
    tf.gradients(y[1], [x, w])


@program
def while_gradient_unknown_shape(tf):
    x, w = tf.placeholder(tf.float32, name="x"), tf.placeholder(tf.float32, name="w")
    y = tf.while_loop(lambda i, y: tf.less(i, 5),
                      lambda i, y: (tf.add(i, 1), tf.tanh(tf.identity(w))), [tf.constant(0), x])
    tf.gradients(y[1], [x, w])


@program
def while_gradient_nested(tf):
    x, w = _pair(tf, [2, 2])

    def outer(i, y):
        inner = tf.while_loop(lambda j, z: tf.less(j, i),
                              lambda j, z: (tf.add(j, 1), tf.matmul(z, w)), [tf.constant(0), y])
        return tf.add(i, 1), inner[1]
    y = tf.while_loop(lambda i, y: tf.less(i, 3), outer, [tf.constant(0), x])
    tf.gradients(y[1], [x, w])


@program
def cond_in_while_gradient(tf):
    x, w = _pair(tf, [2, 2])

    def body(i, y):
        return tf.add(i, 1), tf.cond(tf.less(i, 2), lambda: tf.matmul(y, w), lambda: tf.tanh(y))
    y = tf.while_loop(lambda i, y: tf.less(i, 4), body, [tf.constant(0), x])
    tf.gradients(y[1], [x, w])


@program
def while_in_cond(tf):
    x, w = _pair(tf, [2, 2])
    p = tf.placeholder(tf.bool, [], name="p")

    def loop():
        return tf.while_loop(lambda i, y: tf.less(i, 4),
                             lambda i, y: (tf.add(i, 1), tf.matmul(y, w)), [tf.constant(0), x])[1]
    y = tf.cond(p, loop, lambda: tf.identity(x))
    tf.gradients(y, [x, w])


@program
def while_control_dependencies(tf):
    a, x = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="x")
    outside = tf.identity(a, name="outside")
    with tf.control_dependencies([outside]):
        def body(i, y):
            inner = tf.identity(y, name="inner")
            with tf.control_dependencies([inner, outside]):
                return tf.add(i, 1), tf.multiply(y, x)
        tf.while_loop(lambda i, y: tf.less(i, 4), body, [tf.constant(0), x])


@program
def tensor_array_loop(tf):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    source = tf.TensorArray(tf.float32, 4).unstack(x)

    def body(i, out):
        return tf.add(i, 1), out.write(i, tf.tanh(source.read(i)))
    out = tf.while_loop(lambda i, out: tf.less(i, 4), body,
                        [tf.constant(0), tf.TensorArray(tf.float32, 4)])[1]
    tf.gradients(out.stack(), x)


@program
def variables_both_kinds(tf):
    v = tf.Variable([1.0, 2.0], name="v")
    r = tf.Variable([1.0, 2.0], name="r", use_resource=True)
    with tf.variable_scope("s"):
        tf.get_variable("g", [2], initializer=tf.zeros_initializer())
        tf.get_variable("h", [2], initializer=tf.ones_initializer(), use_resource=True)
    tf.add(v, r)
    tf.assign(v, [3.0, 4.0])
    r.assign([3.0, 4.0])
    v.assign_add([1.0, 1.0])
    r.assign_sub([1.0, 1.0])
    tf.global_variables_initializer()


@program
def variable_scopes(tf):
    with tf.variable_scope("a"):
        tf.get_variable("x", [1], initializer=tf.zeros_initializer())
        with tf.variable_scope("b"):
            tf.get_variable("x", [1], initializer=tf.zeros_initializer())
            tf.identity(1.0, name="op")
    with tf.variable_scope("a", reuse=True):
        tf.identity(tf.get_variable("x", [1]), name="again")
    for _ in range(2):
        with tf.variable_scope(None, default_name="layer"):
            tf.get_variable("w", [1], initializer=tf.ones_initializer())
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE) as scope:
        tf.get_variable("y", [1], initializer=tf.zeros_initializer())
    with tf.variable_scope(scope):
        tf.get_variable("y", [1])
        tf.constant(2.0, name="inside")
    with tf.variable_scope(scope, auxiliary_name_scope=False):
        tf.constant(2.0, name="outside")


def _model(tf, use_resource=False):
    x = tf.placeholder(tf.float32, [4, 3], name="x")
    w = tf.get_variable("w", [3, 2], initializer=tf.zeros_initializer(), use_resource=use_resource)
    b = tf.get_variable("b", [2], initializer=tf.zeros_initializer(), use_resource=use_resource)
    y = tf.nn.bias_add(tf.matmul(x, w), b)
    return tf.nn.l2_loss(y, name="loss")


def _optimizer(name, make):
    for use_resource in (False, True):
        def build(tf, use_resource=use_resource):
            step = tf.train.get_or_create_global_step()
            make(tf).minimize(_model(tf, use_resource), global_step=step)
        PROGRAMS[f"train_{name}{'_resource' * use_resource}"] = build


_optimizer("gradient_descent", lambda tf: tf.train.GradientDescentOptimizer(0.1))
_optimizer("momentum", lambda tf: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True))
_optimizer("adam", lambda tf: tf.train.AdamOptimizer())
_optimizer("rmsprop", lambda tf: tf.train.RMSPropOptimizer(0.1))
_optimizer("rmsprop_centered", lambda tf: tf.train.RMSPropOptimizer(0.1, centered=True))
_optimizer("adagrad", lambda tf: tf.train.AdagradOptimizer(0.1))
_optimizer("adadelta", lambda tf: tf.train.AdadeltaOptimizer(0.1))


@program
def train_twice(tf):
    loss = _model(tf)
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    tf.train.AdamOptimizer().minimize(loss)


@program
def assertion(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.control_dependencies([tf.Assert(tf.reduce_all(tf.greater(x, 0.0), axis=0), [x])]):
        tf.identity(x, name="checked")


@program
def grouping(tf):
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    tf.group(a, b)
    tf.group()
    tf.tuple([a, b])
    with tf.device("/cpu:0"):
        c = tf.constant(np.float32(3.0), name="c")
    tf.group(a, c, name="two_devices")
