"""Loops and branches whose gradients are made after the import of their MetaGraphDef: each is a
function of tf that builds into the default graph and returns ([tensor], {placeholder: value}).

Those that use what TensorFlow 2.21 no longer has cannot be written by it, and are counted so.
"""
import numpy as np

X = np.arange(12, dtype=np.float32).reshape(2, 3, 2) / 10
ROWS = np.linspace(-1, 1, 6).reshape(3, 2).astype(np.float32)


def rows(tf, shape=(3, 2)):
    return tf.placeholder(tf.float32, shape, name="x")


def weights(tf, shape=(2, 2), value=0.3, **how):
    return tf.get_variable("w", shape, initializer=tf.constant_initializer(value), **how)


# ------------------------------------------------------------------------------- recurrent networks
def rnn(tf):
    x = tf.placeholder(tf.float32, [2, 3, 2], name="x")
    cell = tf.nn.rnn_cell.LSTMCell(3, initializer=tf.constant_initializer(0.3))
    outputs, state = tf.nn.dynamic_rnn(cell, x, sequence_length=[3, 2], dtype=tf.float32)
    return [outputs, state[1]], {x: X}


def rnn_of_unknown_length(tf):
    x = tf.placeholder(tf.float32, [None, None, 2], name="x")
    cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=tf.constant_initializer(0.2))
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, time_major=True,
                                       swap_memory=True)
    return [outputs, state], {x: X}


def rnn_both_ways(tf):
    x = tf.placeholder(tf.float32, [2, 3, 2], name="x")
    forward, backward = (tf.nn.rnn_cell.BasicRNNCell(2) for _ in range(2))
    with tf.variable_scope("", initializer=tf.constant_initializer(0.1)):
        outputs, _ = tf.nn.bidirectional_dynamic_rnn(forward, backward, x, [2, 3],
                                                     dtype=tf.float32)
    return list(outputs), {x: X}


def rnn_of_layers(tf):
    x = tf.placeholder(tf.float32, [2, 3, 2], name="x")
    cells = [tf.nn.rnn_cell.BasicLSTMCell(2) for _ in range(2)]
    with tf.variable_scope("", initializer=tf.constant_initializer(0.1), use_resource=True):
        outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), x, dtype=tf.float32)
    return [outputs], {x: X}


# ------------------------------------------------------------------------------------- map and scan
def mapped(tf):
    x = tf.placeholder(tf.float32, [2, 3, 2], name="x")
    return [tf.map_fn(lambda row: tf.cumsum(row) * row, x)], {x: X}


def mapped_to_several(tf):
    x, w = rows(tf), weights(tf)
    y, z = tf.map_fn(lambda row: (tf.matmul([row], w)[0], tf.reduce_sum(row)), x,
                     dtype=(tf.float32, tf.float32))
    return [y, z], {x: ROWS}


def mapped_within_map(tf):
    x = tf.placeholder(tf.float32, [2, 3, 2], name="x")
    return [tf.map_fn(lambda m: tf.map_fn(lambda r: r * tf.reduce_max(m), m), x)], {x: X}


def mapped_branches(tf):
    x = rows(tf, [None, 2])
    return [tf.map_fn(lambda r: tf.cond(r[0] > 0.0, lambda: r * r, lambda: tf.exp(r)), x)], {
        x: ROWS}


def scanned(tf):
    x = tf.placeholder(tf.float32, [2, 3, 2], name="x")
    return [tf.scan(lambda a, row: a * 0.5 + tf.sin(row), x)], {x: X}


def scanned_backwards(tf):
    x = rows(tf)
    return [tf.scan(lambda a, row: a * row + 1.0, x, initializer=tf.ones([2]), reverse=True)], {
        x: ROWS}


def folded(tf):
    x = rows(tf)
    return [tf.foldl(lambda a, r: a * 0.5 + r * r, x), tf.foldr(lambda a, r: tf.tanh(a + r), x)], {
        x: ROWS}


# -------------------------------------------------------------------------------------------- loops
def nested_loops(tf):
    x = tf.placeholder(tf.float32, [2], name="x")

    def inner(y):
        return tf.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, z * x + 1.0), (0, y))[1]

    return [tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y)), (0, x))[1]], {
        x: [0.5, -1.5]}


def three_loops_deep(tf):
    x = tf.placeholder(tf.float32, [], name="x")

    def deep(depth, y):
        if not depth:
            return tf.sin(y) + x
        return tf.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, deep(depth - 1, z)),
                             (0, y))[1]
    return [deep(3, x)], {x: 0.7}


def one_loop_after_another(tf):
    x, w = rows(tf), weights(tf)
    y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.matmul(y, w)), (0, x))[1]
    z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * tf.reduce_sum(y)), (0, y))[1]
    return [z], {x: ROWS}


def loop_of_matrices(tf):
    x, w = rows(tf), weights(tf, use_resource=True)
    y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w) + x)),
                      (0, x), parallel_iterations=1, swap_memory=True)[1]
    return [y], {x: ROWS}


def loop_that_grows(tf):
    x = rows(tf)
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y[-1:] * x[:1]], 0)),
                      (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 2])))[1]
    return [y], {x: ROWS}


def loop_until(tf):
    """As often as a value says."""
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.while_loop(lambda y: y < 50.0, lambda y: y * x, (x,))
    return [y], {x: 1.7}


def loop_of_a_fed_number(tf):
    x, n = rows(tf), tf.placeholder(tf.int32, [], name="n")
    y = tf.while_loop(lambda i, y: i < 9, lambda i, y: (i + 1, y * x), (0, x),
                      maximum_iterations=n)[1]
    return [y], {x: ROWS, n: 3}


def loop_of_a_dict(tf):
    x = tf.placeholder(tf.float32, [], name="x")

    def body(i, state):
        return i + 1, {"a": state["a"] * x, "b": (state["b"][0] + state["a"],)}
    y = tf.while_loop(lambda i, _: i < 3, body, (0, {"a": x, "b": (x * 2.0,)}))[1]
    return [y["a"], y["b"][0]], {x: 1.5}


def loop_with_stop(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.stop_gradient(y) * x + y), (0, x))
    return [y[1]], {x: [0.5, 2.0]}


def loop_of_doubles(tf):
    x = tf.placeholder(tf.float64, [2], name="x")
    y = tf.while_loop(lambda i, y: i < tf.constant(3, tf.int64),
                      lambda i, y: (i + 1, tf.sqrt(y) * x), (tf.constant(0, tf.int64), x))[1]
    return [y], {x: np.array([0.5, 2.0])}


def loop_of_lookups(tf):
    x, w = rows(tf, [4, 2]), weights(tf)
    ids = tf.constant([[0, 2], [1, 3], [3, 3]])

    def body(i, total):
        return i + 1, tf.tanh(total + tf.matmul(tf.nn.embedding_lookup(x, ids[i]), w))
    return [tf.while_loop(lambda i, t: i < 3, body, (0, tf.zeros([2, 2])))[1]], {
        x: np.arange(8.0).reshape(4, 2) / 8}


def loop_of_two_outputs_one_used(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    _, y, _ = tf.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, y * z, z + x),
                            (0, x, x * 2.0))
    return [y], {x: [0.5, -0.5]}


# ----------------------------------------------------------------------------------- tensor arrays
def arrays_written(tf):
    x = rows(tf)
    array = tf.TensorArray(tf.float32, 3)

    def body(i, a, y):
        y = y * 0.5 + x[i]
        return i + 1, a.write(i, y), y
    _, array, y = tf.while_loop(lambda i, *_: i < 3, body, (0, array, x[0]))
    return [array.stack(), y], {x: ROWS}


def arrays_of_unknown_size(tf):
    x = rows(tf, [None, 2])
    source = tf.TensorArray(tf.float32, tf.shape(x)[0]).unstack(x)
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False)

    def body(i, a):
        last = tf.cond(i > 0, lambda: a.read(i - 1), lambda: tf.ones([2]))
        return i + 1, a.write(i, source.read(i) * last)
    _, array = tf.while_loop(lambda i, _: i < tf.shape(x)[0], body, (0, array))
    return [array.stack()], {x: ROWS}


def arrays_scattered(tf):
    x = rows(tf)
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=True)
    array = array.scatter([2, 0, 3], x)
    array = array.write(1, x[0] * x[1])
    gathered = array.gather([3, 1, 2])
    y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * gathered), (0, gathered))[1]
    return [y], {x: ROWS}


def arrays_split_and_joined(tf):
    x = rows(tf)
    array = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2])
    y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y + tf.reduce_sum(x)), (0, x))[1]
    return [array.concat() * y], {x: ROWS}


# ----------------------------------------------------------------------------------------- branches
def branch_in_loop(tf):
    x = tf.placeholder(tf.float32, [], name="x")

    def body(i, y):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: tf.square(y) + x)

    return [tf.while_loop(lambda i, y: i < 4, body, (0, x), maximum_iterations=10)[1]], {x: 1.25}


def loop_in_branch(tf):
    x = tf.placeholder(tf.float32, [], name="x")

    def looped():
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))[1]

    return [tf.cond(x > 0.0, looped, lambda: -x), tf.cond(x < 0.0, looped, lambda: -x)], {x: 1.5}


def loop_in_branch_in_loop(tf):
    x = tf.placeholder(tf.float32, [], name="x")

    def inner(y):
        return tf.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, z * x), (0, y))[1]

    def body(i, y):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: inner(y), lambda: y + x)
    return [tf.while_loop(lambda i, y: i < 3, body, (0, x))[1]], {x: 0.75}


def branches_nested(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.cond(x[0] > 0.0, lambda: tf.cond(x[1] > 0.0, lambda: x * x, lambda: tf.exp(x)),
                lambda: tf.sin(x))
    return [y], {x: [0.5, -0.25]}


def branches_of_variables(tf):
    x, w = rows(tf), weights(tf)
    y = tf.cond(tf.reduce_sum(x) > -1.0, lambda: tf.matmul(x, w), lambda: x)
    return [y, tf.cond(x[0, 0] > 5.0, lambda: tf.reduce_sum(w), lambda: x[0, 1])], {x: ROWS}


def one_of_many(tf):
    x, n = tf.placeholder(tf.float32, [2], name="x"), tf.placeholder(tf.int32, [], name="n")
    y = tf.case([(tf.equal(n, 0), lambda: x * 2.0), (tf.equal(n, 1), lambda: x * x)],
                default=lambda: tf.exp(x), exclusive=True)
    return [y], {x: [0.5, -0.25], n: 1}


def branches_with_updates(tf):
    x, w = tf.placeholder(tf.float32, [2], name="x"), weights(tf, [2], use_resource=True)

    def updated():
        with tf.control_dependencies([w.assign_add([1.0, 2.0])]):
            return x * w.read_value()
    return [tf.cond(x[0] > 0.0, updated, lambda: x)], {x: [0.5, -0.25]}


LOOPS = (
    rnn, rnn_of_unknown_length, rnn_both_ways, rnn_of_layers, mapped, mapped_to_several,
    mapped_within_map, mapped_branches, scanned, scanned_backwards, folded, nested_loops,
    three_loops_deep, one_loop_after_another, loop_of_matrices, loop_that_grows, loop_until,
    loop_of_a_fed_number, loop_of_a_dict, loop_with_stop, loop_of_doubles, loop_of_lookups,
    loop_of_two_outputs_one_used, arrays_written, arrays_of_unknown_size, arrays_scattered,
    arrays_split_and_joined, branch_in_loop, loop_in_branch, loop_in_branch_in_loop,
    branches_nested, branches_of_variables, one_of_many, branches_with_updates)

UPDATING = {"branches_with_updates"}      # a run changes what the next one gives
