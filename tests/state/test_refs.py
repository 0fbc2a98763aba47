"""Reads of ref variables follow TensorFlow's order (rule 4): random programs beside its recorded answers, and cases by name."""
import os

import numpy as np
import pytest
import ref_programs

import pyflow as tf

ANSWERS = np.load(os.path.join(os.path.dirname(__file__), "ref_answers.npz"))
SEEDS = [int(name) for name in ANSWERS.files]


def check(seed, **how):
    (answer,) = ref_programs.run(tf, seed, **how)
    np.testing.assert_allclose(answer, ANSWERS[str(seed)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("part", range(10))
def test_programs_give_what_tensorflow_gives(part):
    assert len(SEEDS) >= 295
    for seed in SEEDS[part::10]:
        check(seed, threads=1 + 3 * (seed % 2))


@pytest.mark.parametrize("part", range(4))
def test_on_two_devices_a_reader_behind_an_update_gets_a_read_of_its_own(part):
    for seed in SEEDS[part::16]:
        check(seed, devices=["/cpu:0", "/cpu:1"])


@pytest.mark.parametrize("way", ["imported", "a plan per device", "debug"])
def test_imported_in_parts_and_under_the_debugger(way):
    devices = ["/cpu:0", "/cpu:1"] if way == "a plan per device" else []
    options = {"partitions": "device", "config": tf.ConfigProto(device_count={"CPU": 2})} if devices else {}
    for seed in SEEDS[5::20]:
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(seed)
            fetches, variables = ref_programs.build(tf, seed, devices)
            names = [t.name for t in fetches] + [v.value().name for v in variables]
            initial = tf.global_variables_initializer().name
        if way == "imported":
            message, graph = graph.as_graph_def(), tf.Graph()
            with graph.as_default():
                tf.import_graph_def(message, name="")
        with tf.Session(graph=graph, debug=way == "debug", **options) as session:
            session.run(initial)
            split = len(fetches)
            values = session.run(names[:split]) + session.run(names[split:])
        np.testing.assert_allclose([np.reshape(v, [ref_programs.SIZE]) for v in values], ANSWERS[str(seed)],
                                   rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- by name; each answer is TensorFlow 2.21's
def after(operation, make):
    with tf.control_dependencies([operation]):
        return make()


def sgd_then_loss():
    v = tf.Variable(5.)
    step = tf.train.GradientDescentOptimizer(.5).minimize(v * v)
    return after(step, lambda: v * v)


def momentum_then_value():
    v = tf.Variable(5.)
    step = tf.train.MomentumOptimizer(.1, .9).minimize(v * v)
    return after(step, lambda: v * 1.)


def scatter_then_gather():
    v = tf.Variable([1., 2., 3.])
    return after(tf.scatter_update(v, [1], [9.]), lambda: tf.gather(v, 1))


def step_then_decay():
    step = tf.Variable(0, trainable=False)
    return after(tf.assign_add(step, 1), lambda: tf.train.exponential_decay(1., step, 1, .5))


def counter_then_cond():
    v = tf.Variable(1.)
    return after(tf.assign_add(v, 1.), lambda: tf.cond(v > 1.5, lambda: v * 10., lambda: v * 20.))


def in_a_branch():
    v = tf.Variable(0.)
    return tf.cond(tf.placeholder_with_default(True, []),
                   lambda: after(tf.assign_add(v, 5.), lambda: tf.identity(v)), lambda: tf.identity(v))


def of_another():
    m, b = tf.Variable(3.), tf.Variable(10.)
    return after(tf.assign(m, 1.), lambda: b - m)


def while_of_a_variable():
    v = tf.Variable(0.)
    return tf.while_loop(lambda i: tf.logical_and(v < 3., i < 100),
                         lambda i: after(tf.assign_add(v, 1.), lambda: i + 1), [0])


def sums_in_a_loop():
    v = tf.Variable(0.)

    def body(i, total):
        update = after(total, lambda: tf.assign_add(v, 1.))
        return i + 1, after(update, lambda: total + tf.identity(v))
    return tf.while_loop(lambda i, _: i < 4, body, [0, 0.])[1]


def a_loop_variable_is_a_name():
    v = tf.Variable(1.)

    def body(i, name):
        update = after(name, lambda: tf.assign_add(v, 1.))
        return after(update, lambda: (i + 1, tf.identity(v)))
    _, name = tf.while_loop(lambda i, _: i < 3, body, [0, 0.])
    update = after(name, lambda: tf.assign_add(v, 100.))
    return after(update, lambda: name * 1.)


def what_a_conditional_gives_is_a_name():
    v = tf.Variable(1.)
    name = tf.cond(tf.placeholder_with_default(True, []), lambda: tf.identity(v), lambda: v * 3.)
    return after(after(name, lambda: tf.assign_add(v, 10.)), lambda: name * 1.)


def names_through(make):
    def program():
        v = tf.Variable([1., 2.])
        name = make(v)
        return after(after(name, lambda: tf.assign_add(v, [10., 10.])), lambda: name + 0.5)
    return program


def strings():
    v = tf.Variable("a")
    name = tf.identity(v)
    return after(after(name, lambda: tf.assign(v, "b")), lambda: tf.strings.join([name, "x"]))


CASES = {
    sgd_then_loss: 0., momentum_then_value: 4., scatter_then_gather: 9., step_then_decay: .5,
    counter_then_cond: 20., in_a_branch: 5., of_another: 9., while_of_a_variable: 3,
    sums_in_a_loop: 10., a_loop_variable_is_a_name: 104., what_a_conditional_gives_is_a_name: 11.,
    strings: b"bx",
    names_through(tf.identity): [11.5, 12.5],
    names_through(tf.stop_gradient): [11.5, 12.5],
    names_through(lambda v: tf.reshape(v, [1, 2])): [[11.5, 12.5]],
    names_through(lambda v: tf.expand_dims(v, 1)): [[11.5], [12.5]],
    names_through(lambda v: tf.check_numerics(v, "v")): [11.5, 12.5],
    names_through(lambda v: tf.identity_n([v, v])[1]): [11.5, 12.5],
    names_through(lambda v: tf.ensure_shape(v, [2])): [11.5, 12.5],
    names_through(lambda v: tf.placeholder_with_default(v, [2])): [11.5, 12.5],
    names_through(lambda v: tf.tuple([v.value()])[0]): [11.5, 12.5],
    names_through(lambda v: tf.bitcast(tf.bitcast(v, tf.int32), tf.float32)): [11.5, 12.5],
    names_through(lambda v: tf.raw_ops.Snapshot(input=v.value())): [1.5, 2.5],
    names_through(tf.nn.relu): [1.5, 2.5],
    names_through(lambda v: tf.stack([v, v])[0]): [1.5, 2.5],
}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__qualname__.split(".")[0])
def test_cases(program, threads):
    result = program()
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=threads)) as session:
        for _ in range(3):
            session.run(tf.global_variables_initializer())
            np.testing.assert_array_equal(session.run(result), CASES[program])


def test_a_fetched_variable_is_read_when_the_step_is_over():
    v = tf.Variable([1., 2.])
    names = [v, v.value(), tf.identity(v), tf.reshape(v, [2, 1])]
    before = v * 2.
    with tf.control_dependencies([before, *names]):
        update = tf.assign_add(v, [4., 4.])
    with tf.Session() as session:
        session.run(v.initializer)
        *read, computed, updated = session.run([*names, before, update])
    assert [r.ravel().tolist() for r in read] == [[5., 6.]] * 4
    assert computed.tolist() == [2., 4.] and updated.tolist() == [5., 6.]


def test_a_name_outlives_an_assignment_of_another_size():
    v = tf.Variable([1., 2.], validate_shape=False)
    name = tf.reshape(v, [2, 1])
    update = after(name, lambda: tf.assign(v, [5., 6., 7.], validate_shape=False))
    late = after(update, lambda: name + 0.)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(late).tolist() == [[1.], [2.]]


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_first_value_may_have_another_shape_without_validation(use_resource):
    v = tf.Variable([1., 2.], use_resource=use_resource)
    other = tf.assign(v, tf.placeholder_with_default([5., 6., 7.], None), validate_shape=False)
    with tf.Session() as session:
        assert session.run(other).tolist() == [5., 6., 7.]
        assert session.run(v).tolist() == [5., 6., 7.]
        session.run(v.initializer if use_resource else tf.assign(v, [1., 2.], validate_shape=False))
        assert session.run(v).tolist() == [1., 2.]


def test_readers_that_no_update_leads_to_share_one_snapshot():
    """Among concurrent steps, too: both see the same value."""
    import threading
    v = tf.Variable(np.zeros(1000, np.float32))
    name = tf.identity(v)
    apart = tf.reduce_max(tf.abs(tf.sin(name) - tf.sin(name + 0.)))
    update = tf.assign_add(v, tf.ones([1000]))
    late = after(update, lambda: v + 0.)
    with tf.Session() as session:
        session.run(v.initializer)
        found = []
        threads = [threading.Thread(target=lambda: found.extend(
            session.run([apart, late])[0] for _ in range(50))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert found == [0.] * 200


def test_references_through_their_own_routing_ops():
    a, b = tf.Variable(1.), tf.Variable(2.)
    same = tf.raw_ops.RefIdentity(input=a._ref())
    picked = tf.raw_ops.RefSelect(index=1, inputs=[a._ref(), b._ref()])
    no, _ = tf.raw_ops.RefSwitch(data=a._ref(), pred=True)
    _, yes = tf.raw_ops.RefSwitch(data=b._ref(), pred=True)
    merged, index = tf.raw_ops.RefMerge(inputs=[no, yes])
    first = tf.assign_add(same, 10.)
    second = after(first, lambda: tf.assign_add(picked, 20.))
    third = after(second, lambda: tf.assign_add(merged, 300.))
    late = after(third, lambda: [a * 1., b * 1.])
    wrong = tf.raw_ops.RefSelect(index=tf.placeholder_with_default(2, []), inputs=[a._ref(), b._ref()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([late, index]) == [[11., 322.], 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Index must be in the range \[0, 2\) but got 2"):
            session.run(wrong)


def test_an_unset_variable_is_named_where_it_is_read():
    v = tf.Variable(1., name="unset")
    late = after(tf.assign(tf.Variable(2.), 3.), lambda: v * 2.)
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="unset"):
        session.run([late, v])
