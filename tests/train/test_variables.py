"""Variables and variable scopes: methods, names, collections, errors, uninitialised reads."""
import numpy as np
import pytest

import pyflow as tf

KINDS = pytest.mark.parametrize("use_resource", [False, True])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as s:
        yield s


@KINDS
def test_methods(session, use_resource):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=use_resource)
    assert isinstance(v, tf.Variable) and v.name == "v:0" and v.op.name == "v"
    assert v.shape.as_list() == [2] and v.dtype.base_dtype == tf.float32 and v.trainable
    session.run(v.initializer)
    assert v.eval().tolist() == [1.0, 2.0]
    assert session.run(v.assign([3.0, 4.0])).tolist() == [3.0, 4.0]
    assert session.run(v.assign_add([1.0, 1.0])).tolist() == [4.0, 5.0]
    assert session.run(v.assign_sub([1.0, 0.0])).tolist() == [3.0, 5.0]
    v.load(np.float32([7.0, 8.0]))
    assert session.run(v).tolist() == [7.0, 8.0]
    assert session.run(v.read_value()).tolist() == [7.0, 8.0]
    assert session.run(v.initialized_value()).tolist() == [7.0, 8.0]
    assert session.run(v.assign([0.0, 0.0], read_value=False)) is None
    assert session.run("v:0" if not use_resource else v).tolist() == [0.0, 0.0]


@KINDS
def test_operators(session, use_resource):
    v = tf.Variable([4.0, 9.0], use_resource=use_resource)
    session.run(tf.global_variables_initializer())
    results = session.run([v + 1.0, 1.0 - v, v * v, v / 2.0, -v, v ** 2.0, v > 5.0, v[1], abs(v),
                           2.0 / v, v // 2.0, v % 2.0])
    expected = [[5, 10], [-3, -8], [16, 81], [2, 4.5], [-4, -9], [16, 81], [False, True], 9, [4, 9],
                [0.5, 2 / 9], [2, 4], [0, 1]]
    for result, want in zip(results, expected):
        np.testing.assert_allclose(result, want, rtol=1e-6)
    with pytest.raises(TypeError, match="not iterable"):
        list(v)


@KINDS
def test_scatters(session, use_resource):
    v = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2), use_resource=use_resource)
    session.run(tf.global_variables_initializer())
    rows = np.float32([[1, 1], [2, 2]])
    want = np.arange(8, dtype=np.float32).reshape(4, 2)
    for function, change in ((tf.scatter_add, np.add), (tf.scatter_sub, np.subtract),
                             (tf.scatter_mul, np.multiply), (tf.scatter_div, np.divide)):
        result = session.run(function(v, [3, 0], rows))
        want[[3, 0]] = change(want[[3, 0]], rows)
        np.testing.assert_allclose(result, want)
    want[[1, 2]] = rows
    np.testing.assert_allclose(session.run(tf.scatter_update(v, [1, 2], rows)), want)
    want[0, 1] = 50
    np.testing.assert_allclose(session.run(tf.scatter_nd_update(v, [[0, 1]], [50.0])), want)
    slices = tf.IndexedSlices(tf.constant(rows), tf.constant([0, 1]))
    want[[0, 1]] -= rows
    np.testing.assert_allclose(session.run(v.scatter_sub(slices)), want)
    with pytest.raises(ValueError, match="not IndexedSlices"):
        v.scatter_sub(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(tf.scatter_add(v, [4], [[1.0, 1.0]]))


@KINDS
def test_slices_are_assigned(session, use_resource):
    v = tf.Variable(np.zeros([3, 4], np.float32), use_resource=use_resource)
    session.run(tf.global_variables_initializer())
    want = np.zeros([3, 4], np.float32)
    for change, index, value in ((v[1, 2:].assign([5.0, 6.0]), np.s_[1, 2:], [5.0, 6.0]),
                                 (v[::2, 0].assign([1.0, 2.0]), np.s_[::2, 0], [1.0, 2.0]),
                                 (v[..., 3].assign([7.0, 8.0, 9.0]), np.s_[..., 3], [7, 8, 9]),
                                 (tf.assign(v[1:, 1], [3.0, 4.0]), np.s_[1:, 1], [3.0, 4.0])):
        want[index] = value
        np.testing.assert_allclose(session.run(change), want)
    np.testing.assert_allclose(session.run(v[1]), want[1])
    with pytest.raises(TypeError, match="is not a variable"):
        tf.assign(tf.identity(v)[1:], [3.0, 4.0])


@KINDS
def test_count_up_to(session, use_resource):
    v = tf.Variable(0, use_resource=use_resource)
    session.run(tf.global_variables_initializer())
    step = v.count_up_to(3)
    assert [session.run(step) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(step)


@KINDS
def test_uninitialised_read_names_the_variable(session, use_resource):
    v = tf.Variable(1.0, name="weights", use_resource=use_resource)
    reader = tf.add(v, 1.0, name="reader")
    with pytest.raises(tf.errors.FailedPreconditionError, match="weights"):
        session.run(reader)


def test_which_are_uninitialised(session):
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b", use_resource=True)
    report = tf.report_uninitialized_variables()
    assert session.run(report).tolist() == [b"a", b"b"]
    session.run(a.initializer)
    assert session.run(report).tolist() == [b"b"]
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(tf.assert_variables_initialized())
    known = [tf.is_variable_initialized(a), tf.is_variable_initialized(b)]
    assert session.run(known) == [True, False]
    session.run(b.initializer)
    assert session.run(report).size == 0
    session.run(tf.assert_variables_initialized())


def test_constructor_errors():
    with pytest.raises(ValueError, match="initial_value must be specified"):
        tf.Variable()
    with pytest.raises(ValueError, match="must have a shape specified"):
        tf.Variable(tf.placeholder(tf.float32))
    tf.Variable(tf.placeholder(tf.float32), validate_shape=False)
    with pytest.raises(ValueError, match="list, tuple, or set"):
        tf.Variable(1.0, collections="x")
    with pytest.raises(ValueError, match="callable"):
        tf.Variable(1.0, constraint=3)


def test_shape_of_assignments_is_checked():
    v, r = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0], use_resource=True)
    for variable in (v, r):
        with pytest.raises(ValueError):
            variable.assign([1.0, 2.0, 3.0])
    tf.assign(v, [1.0, 2.0, 3.0], validate_shape=False)
    with pytest.raises(TypeError, match="not a variable"):
        tf.assign(tf.constant(1.0), 2.0)


def test_collections():
    a = tf.Variable(1.0)
    b = tf.Variable(1.0, trainable=False)
    c = tf.get_local_variable("c", [])
    assert tf.global_variables() == [a, b]
    assert tf.trainable_variables() == [a]
    assert tf.local_variables() == [c]
    assert tf.get_collection("variables", scope="Variable_1") == [b]


def test_initial_values_wait_for_other_variables(session):
    """One initialiser works whatever the order (TF races here for nested cases)."""
    a = tf.Variable(lambda: tf.fill([2], 3.0))
    b = tf.Variable(a * 2.0)
    c = tf.Variable(b.initialized_value() + a, use_resource=True)
    d = tf.Variable(c + 1.0)
    session.run(tf.global_variables_initializer())
    assert session.run([b, c, d])[2].tolist() == [10.0, 10.0]


def test_variable_made_in_a_loop_is_outside(session):
    made = []

    def body(i):
        if not made:
            made.append(tf.Variable(5))
        return i + made[0]
    total = tf.while_loop(lambda i: i < 12, body, [tf.constant(0)])
    session.run(tf.global_variables_initializer())
    assert session.run(total) == 15


# ---------------------------------------------------------------------------------- variable scopes


def test_sharing():
    with tf.variable_scope("s"):
        v = tf.get_variable("v", [1])
        with pytest.raises(ValueError, match="already exists, disallowed.*Originally defined at"):
            tf.get_variable("v", [1])
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("v", [1]) is v
        with pytest.raises(ValueError, match="specified shape.*found shape"):
            tf.get_variable("v", [2])
        with pytest.raises(ValueError, match="specified dtype"):
            tf.get_variable("v", [1], dtype=tf.int32)
        with pytest.raises(ValueError, match="does not exist.*near names: s/v"):
            tf.get_variable("w", [1])
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("v", [1]) is v
        assert tf.get_variable("new", [1]) is tf.get_variable("new", [1])


def test_scope_defaults():
    def half(shape, dtype=None, partition_info=None):
        return tf.fill(shape, 0.5)
    with tf.variable_scope("s", initializer=half, regularizer=lambda w: tf.nn.l2_loss(w),
                           dtype=tf.float32, use_resource=True) as scope:
        v = tf.get_variable("v", [2])
        assert hasattr(v, "handle") and v.initial_value.op.type == "Fill"
        assert [loss.op.name for loss in tf.get_collection("regularization_losses")] == [
            "s/v/Regularizer/L2Loss"]
        tf.get_variable("plain", [2], regularizer=tf.no_regularizer)
        assert len(tf.get_collection("regularization_losses")) == 1
        assert scope.name == "s" and scope.original_name_scope == "s/"
        assert scope.trainable_variables()[0] is v
        scope.reuse_variables()
        assert tf.get_variable("v", [2]) is v
    assert tf.get_variable_scope().name == ""


def test_get_variable_arguments():
    with pytest.raises(ValueError, match="must be fully defined"):
        tf.get_variable("a", [None, 2])
    with pytest.raises(ValueError, match="do not specify shape"):
        tf.get_variable("b", [1], initializer=tf.constant([1.0]))
    with pytest.raises(ValueError, match="don't match"):
        tf.get_variable("c", dtype=tf.int32, initializer=np.float32([1.0]))
    with pytest.raises(ValueError, match="not valid"):
        tf.get_variable("d", initializer=tf.zeros_initializer())
    assert len(list(tf.get_variable("e", [4], partitioner=tf.fixed_size_partitioner(2)))) == 2
    assert tf.get_variable("f", initializer=lambda: tf.ones([3])).shape.as_list() == [3]
    assert tf.get_variable("g", [2], initializer=tf.ones_initializer).shape.as_list() == [2]


def test_custom_getters_nest():
    calls = []

    def getter(tag):
        def get(getter, name, *args, **kwargs):
            calls.append((tag, name))
            return getter(name, *args, **kwargs)
        return get
    with tf.variable_scope("a", custom_getter=getter("outer")):
        with tf.variable_scope("b", custom_getter=getter("inner")):
            v = tf.get_variable("v", [1])
    assert calls == [("inner", "a/b/v"), ("outer", "a/b/v")] and v.op.name == "a/b/v"


def test_scope_argument_errors():
    with pytest.raises(TypeError, match="name_or_scope is required"):
        tf.variable_scope(None)
    with pytest.raises(ValueError, match="cannot be used without"):
        tf.variable_scope(None, default_name="x", reuse=True)
    with pytest.raises(TypeError, match="string or VariableScope"):
        tf.variable_scope(3)


def test_orthogonal_and_random_initialisers(session):
    q = tf.get_variable("q", [6, 4], initializer=tf.orthogonal_initializer(seed=1))
    u = tf.get_variable("u", [200, 100])
    normal = tf.truncated_normal_initializer(stddev=0.5, seed=3)
    n = tf.get_variable("n", [200, 100], initializer=normal)
    h = tf.get_variable("h", [200, 100], initializer=tf.initializers.he_normal(seed=3))
    session.run(tf.global_variables_initializer())
    q, u, n, h = session.run([q, u, n, h])
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-5)
    bound = np.sqrt(6 / 300)
    assert abs(u).max() <= bound and u.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    assert abs(n).max() <= 1.0 and n.std() == pytest.approx(0.5 * 0.8796, rel=0.05)
    assert h.std() == pytest.approx(np.sqrt(2 / 200), rel=0.05)


@KINDS
def test_assignments_inside_loops_and_branches(session, use_resource):
    v = tf.Variable(1.0, use_resource=use_resource)
    p = tf.placeholder(tf.bool, [])

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, tf.cast(i, tf.float32)).op]):
            return i + 1
    loop = tf.while_loop(lambda i: i < 4, body, [tf.constant(1)], parallel_iterations=1)
    branch = tf.cond(p, lambda: tf.assign(v, 10.0).op, lambda: tf.assign_sub(v, 1.0).op)
    session.run(tf.global_variables_initializer())
    assert session.run(loop) == 4 and session.run(v) == 7.0
    session.run(branch, {p: False})
    assert session.run(v) == 6.0
    session.run(branch, {p: True})
    assert session.run(v) == 10.0


@KINDS
def test_reads_inside_loops_see_assignments(session, use_resource):
    v = tf.Variable(0.0, use_resource=use_resource)

    def body(i, total):
        with tf.control_dependencies([tf.assign_add(v, 1.0).op]):
            return i + 1, total + v.read_value()
    total = tf.while_loop(lambda i, t: i < 4, body, [0, 0.0], parallel_iterations=1)[1]
    session.run(tf.global_variables_initializer())
    assert session.run(total) == 10.0


@KINDS
def test_gradient_of_a_variable_used_in_a_loop_and_a_branch(session, use_resource):
    v = tf.Variable([2.0, 3.0], use_resource=use_resource)
    p = tf.placeholder(tf.bool, [])

    def body(i, y):
        return i + 1, tf.cond(tf.equal(i, 1), lambda: y * v, lambda: y + v)
    y = tf.while_loop(lambda i, y: i < 3, body, [0, tf.ones([2])])[1]
    z = tf.cond(p, lambda: y * v, lambda: y)
    grad = tf.gradients(z, v)[0]
    session.run(tf.global_variables_initializer())
    w = np.array([2.0, 3.0])
    # y = (1 + v) v + v = v^2 + 2 v
    np.testing.assert_allclose(session.run(grad, {p: False}), 2 * w + 2)
    np.testing.assert_allclose(session.run(grad, {p: True}), 3 * w ** 2 + 4 * w)


def test_regularizers(session):
    layers = tf.contrib.layers
    w = tf.get_variable("w", initializer=np.float32([1.0, -2.0]),
                        regularizer=layers.l1_l2_regularizer(0.5, 0.25))
    tf.get_variable("b", [2], regularizer=layers.l2_regularizer(0.0))
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(losses) == 1
    session.run(w.initializer)
    assert session.run(losses[0]) == pytest.approx(0.5 * 3 + 0.25 * 5 / 2)
    applied = layers.apply_regularization(layers.l1_regularizer(0.1), [w])
    assert session.run(applied) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="less than 0"):
        layers.l2_regularizer(-1.0)
    with pytest.raises(ValueError, match="cannot be an integer"):
        layers.l1_regularizer(1)


def test_averages_of_tensors_are_restored_by_their_own_names(session):
    """As in TF the average of a tensor is no moving average variable: its name is not doubled."""
    v = tf.Variable(1.0, name="v")
    loss = tf.multiply(v, 2.0, name="loss")
    averages = tf.train.ExponentialMovingAverage(0.9)
    averages.apply([v, loss])
    assert tf.moving_average_variables() == [v]
    assert {name: x.op.name for name, x in averages.variables_to_restore().items()} == {
        "v/ExponentialMovingAverage": "v",
        "loss/ExponentialMovingAverage": "loss/ExponentialMovingAverage"}


# ------------------------------------------------------------------------- as TF 2.21 answers, too


def test_get_variable_takes_a_reference_dtype_and_says_what_is_missing():
    v = tf.Variable(1.0)
    assert v.dtype == tf.float32._as_ref
    assert tf.get_variable("w", [2], dtype=v.dtype).dtype.base_dtype == tf.float32
    with tf.variable_scope("s", dtype=v.dtype):
        assert tf.get_variable("w", [2]).dtype.base_dtype == tf.float32
    with pytest.raises(ValueError, match="did not get an initializer, so its `shape`"):
        tf.get_variable("x")
    for make in (lambda: tf.get_variable("y", [2], custom_getter=3),
                 lambda: tf.get_variable("y", [2], custom_getter=0)):
        with pytest.raises(ValueError, match="custom_getter"):
            make()


@KINDS
def test_variables_work_outside_their_graph(graph, use_resource):
    """Every use adds to the variable's graph, whatever the default graph is."""
    v = tf.Variable([1.0, 2.0], use_resource=use_resource, name="v")
    n = tf.Variable(0, use_resource=use_resource, trainable=False)
    loss = tf.reduce_sum(v * v)
    uses = [lambda: v * 2.0, lambda: 2.0 * v, lambda: -v, lambda: abs(v), lambda: v < 1.0,
            lambda: v[0], lambda: v ** 2.0, lambda: v[0:1].assign([1.0]), lambda: v.read_value(),
            lambda: v.value(), lambda: v.initialized_value(), lambda: v.assign([1.0, 2.0]),
            lambda: v.assign_add([1.0, 2.0]), lambda: v.assign_sub([1.0, 2.0]),
            lambda: tf.assign(v, [1.0, 2.0]), lambda: tf.scatter_update(v, [0], [1.0]),
            lambda: tf.scatter_nd_update(v, [[0]], [1.0]), lambda: tf.count_up_to(n, 3),
            lambda: tf.convert_to_tensor(v), lambda: tf.nn.embedding_lookup(v, [0]),
            lambda: tf.is_variable_initialized(v), lambda: tf.assert_variables_initialized([v]),
            lambda: tf.cond(v[0] > 0.0, lambda: v[0], lambda: v[1]), lambda: tf.square(v),
            lambda: tf.concat([v, v], 0), lambda: tf.gradients(loss, v)[0]]
    uses += [lambda o=o: o.minimize(loss, global_step=n, var_list=[v]) for o in (
        tf.train.GradientDescentOptimizer(0.1), tf.train.MomentumOptimizer(0.1, 0.9),
        tf.train.AdamOptimizer(0.1), tf.train.RMSPropOptimizer(0.1), tf.train.FtrlOptimizer(0.1))]
    with tf.Graph().as_default() as other:
        for use in uses:
            assert use().graph is graph
        assert not other.get_operations()


def test_python_protocols_of_variables():
    ref, resource = tf.Variable([1.0]), tf.Variable([1.0], use_resource=True)
    assert ref and not (not ref)                        # an object, as any other
    with pytest.raises(TypeError, match="bool"):
        bool(resource)
    with pytest.raises(NotImplementedError):
        np.array(resource)
    for change in ("+=", "-=", "*=", "/=", "**="):
        with pytest.raises(RuntimeError, match="assign_add"):
            exec(f"v {change} 1.0", {"v": resource})
    with pytest.raises(TypeError):
        list(resource)


def test_assert_variables_initialized_is_a_tensor_of_ranks(session):
    v, w = tf.Variable(1.0), tf.Variable([1.0, 2.0], use_resource=True)
    ranks = tf.assert_variables_initialized()
    assert ranks.name == "stack:0" and ranks.dtype == tf.int32 and ranks.shape.as_list() == [2]
    one = tf.assert_variables_initialized([w])
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(one)
    session.run([v.initializer, w.initializer])
    assert session.run(ranks).tolist() == [0, 1] and session.run(one) == 1
    assert tf.assert_variables_initialized([]) is None


@KINDS
def test_a_variable_and_its_message(graph, use_resource):
    with tf.name_scope("s"):
        v = tf.Variable(1.0, name="v", use_resource=use_resource)
    message = v.to_proto()
    assert message.variable_name == "s/v:0" and message.is_resource == use_resource
    assert v.to_proto("s").variable_name == "v:0" and v.to_proto("other") is None
    same = tf.Variable.from_proto(message)
    assert type(same) is type(v) and same.op is v.op and same.initializer is v.initializer


def test_temporary_variables_of_one_name_are_two(session):
    made = [tf.raw_ops.TemporaryVariable(shape=[1], dtype=tf.float32, var_name="q")
            for _ in range(2)]
    filled = [tf.assign(t, [float(i)]) for i, t in enumerate(made, 1)]
    with tf.control_dependencies(filled):
        ended = [tf.raw_ops.DestroyTemporaryVariable(ref=t, var_name="q") for t in filled]
    assert [x.tolist() for x in session.run(ended)] == [[1.0], [2.0]]
