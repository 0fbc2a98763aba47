"""What goes wrong while control flow is built: error types as in TF 1.x, messages that say what to
do."""
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def placeholder(shape=(), dtype=tf.float32):
    return tf.placeholder(dtype, list(shape))


def test_cond_takes_no_python_bool():
    with pytest.raises(TypeError, match="must not be a Python bool"):
        tf.cond(True, lambda: 1, lambda: 2)


def test_cond_needs_callables():
    with pytest.raises(TypeError, match="true_fn must be callable"):
        tf.cond(placeholder(dtype=tf.bool), 1, lambda: 2)
    with pytest.raises(TypeError, match="may not be set simultaneously"):
        tf.cond(placeholder(dtype=tf.bool), lambda: 1, lambda: 2, fn1=lambda: 1)


def test_cond_old_names():
    assert tf.cond(placeholder(dtype=tf.bool), fn1=lambda: 1.0, fn2=lambda: 2.0).dtype == tf.float32


def test_cond_results_must_match():
    p, x = placeholder(dtype=tf.bool), placeholder()
    with pytest.raises(ValueError, match="must have a return value"):
        tf.cond(p, lambda: None, lambda: x)
    with pytest.raises(ValueError, match="same type: float32, int32"):
        tf.cond(p, lambda: x, lambda: tf.constant(1))
    with pytest.raises(ValueError, match="Incompatible return types"):
        tf.cond(p, lambda: (x, x), lambda: x)


def test_cond_strict_keeps_lists():
    p, x = placeholder(dtype=tf.bool), placeholder()
    assert isinstance(tf.cond(p, lambda: [x], lambda: [x], strict=True), list)
    assert isinstance(tf.cond(p, lambda: [x], lambda: [x]), tf.Tensor)


def test_failed_branch_leaves_the_context(graph):
    p = placeholder(dtype=tf.bool)
    with pytest.raises(ZeroDivisionError):
        tf.cond(p, lambda: 1 // 0, lambda: 1)
    assert graph._get_control_flow_context() is None
    with pytest.raises(ZeroDivisionError):
        tf.while_loop(lambda i: i < 3, lambda i: 1 // 0, [tf.constant(0)])
    assert graph._get_control_flow_context() is None


def test_inside_tensors_cannot_be_fetched(graph):
    inside = []

    def body(i):
        inside.append(i + 1)
        return inside[0]
    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    assert not graph.is_fetchable(inside[0]) and not graph.is_feedable(inside[0])


def test_case_checks_its_arguments():
    p = placeholder(dtype=tf.bool)
    with pytest.raises(TypeError, match="must be a list"):
        tf.case(p)
    with pytest.raises(TypeError, match="2-tuple"):
        tf.case([p])
    with pytest.raises(TypeError, match="type bool"):
        tf.case([(placeholder(), lambda: 1)])
    with pytest.raises(TypeError, match="callable"):
        tf.case([(p, 1)])


def test_while_checks_its_arguments():
    with pytest.raises(TypeError, match="cond must be callable"):
        tf.while_loop(1, lambda i: i, [0])
    with pytest.raises(TypeError, match="body must be callable"):
        tf.while_loop(lambda i: i, 1, [0])
    with pytest.raises(ValueError, match="No loop variables"):
        tf.while_loop(lambda: True, lambda: None, [])
    with pytest.raises(TypeError, match="parallel_iterations"):
        tf.while_loop(lambda i: i < 1, lambda i: i, [0], parallel_iterations=0)
    with pytest.raises(ValueError, match="must be a scalar"):
        tf.while_loop(lambda i: i < 1, lambda i: i, [0], maximum_iterations=[1, 2])


def test_while_keeps_structure_and_dtype():
    with pytest.raises(ValueError, match="same nested structure"):
        tf.while_loop(lambda i, x: i < 3, lambda i, x: i + 1, [0, 1.0])
    with pytest.raises(TypeError, match="dtype"):
        tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0])


def test_while_keeps_shapes():
    x = placeholder([1, 2])
    with pytest.raises(ValueError, match="shape_invariants"):
        tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x, x], 0)), [0, x])
    with pytest.raises(ValueError, match="not compatible with the initial shape"):
        tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), [0, x],
                      shape_invariants=[tf.TensorShape([]), tf.TensorShape([3, 2])])


def test_second_derivative_of_a_loop_is_refused():
    x = placeholder()
    y = tf.while_loop(lambda y: y < 10.0, lambda y: y * x, [x])
    first = tf.gradients(y, x)[0]
    with pytest.raises(TypeError, match="Second-order gradient for while loops"):
        tf.gradients(first, x)


def test_back_prop_false_gives_none():
    x = placeholder()
    y = tf.while_loop(lambda y: y < 10.0, lambda y: y * 2.0, [x], back_prop=False)
    assert tf.gradients(y, x) == [None]


def test_tensor_array_checks():
    with pytest.raises(ValueError, match="Size must be provided"):
        tf.TensorArray(tf.float32)
    array = tf.TensorArray(tf.float32, 2)
    with pytest.raises(TypeError, match="trying to write dtype"):
        array.write(0, tf.constant(1))
    array = array.write(0, tf.zeros([2]))
    with pytest.raises(ValueError, match="Inconsistent shapes"):
        array.write(1, tf.zeros([3]))


def test_group_and_tuple_check():
    with pytest.raises(TypeError, match="tf.group"):
        tf.group(tf.constant(1), "x")
    with pytest.raises(ValueError, match="at least one Tensor"):
        tf.tuple([None])


def test_map_fn_checks():
    with pytest.raises(TypeError, match="fn must be callable"):
        tf.map_fn(1, [1.0])
    with pytest.raises(ValueError, match="not scalars"):
        tf.map_fn(lambda x: x, tf.constant(1.0))


def test_assert_family_while_building():
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.assert_equal(1, 2)
    with pytest.raises(ValueError, match="must have rank"):
        tf.assert_rank(placeholder([2]), 2)
    with pytest.raises(ValueError, match="must have rank at least"):
        tf.assert_rank_at_least(placeholder([2]), 2)
    with pytest.raises(TypeError, match="integer"):
        tf.assert_integer(placeholder())
    with pytest.raises(TypeError, match="must be of type"):
        tf.assert_type(placeholder(), tf.int32)


def test_tensor_of_a_loop_cannot_be_used_outside(graph):
    inside = []

    def body(i):
        inside.append(i * 2)
        return i + 1
    tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    before = len(graph.get_operations())
    with pytest.raises(ValueError, match=r"Cannot use 'while/mul' as input to "
                                         r"'outside'.*test_errors.py"):
        tf.add(inside[0], inside[0], name="outside")
    assert len(graph.get_operations()) == before
    with pytest.raises(ValueError, match="is in a while loop"):
        tf.while_loop(lambda i: i < 3, lambda i: i + inside[0], [tf.constant(0)])
    assert graph._get_control_flow_context() is None


def test_inner_loop_may_use_the_outer_ones_tensors():
    def outer(i):
        return i + tf.while_loop(lambda j: j < i, lambda j: j + i + 1, [tf.constant(0)])
    tf.while_loop(lambda i: i < 3, outer, [tf.constant(1)])


@pytest.mark.parametrize("held", [(True, True), (False, True, True), (True, False, True)])
def test_case_without_default_counts_its_last_predicate(held):
    with tf.Graph().as_default(), tf.Session() as session:
        pairs = [(tf.constant(value), lambda k=k: tf.constant(k)) for k, value in enumerate(held)]
        with pytest.raises(tf.errors.InvalidArgumentError, match="more than 1 conditions"):
            session.run(tf.case(pairs, exclusive=True))
        assert session.run(tf.case(pairs)) == held.index(True)
        assert session.run(tf.case(pairs[-1:], exclusive=True)) == len(held) - 1
