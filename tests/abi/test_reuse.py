"""A third party's kernels get in-place reuse and planned memory on the same terms as ours: what the
planner knows, it knows from the kernels' tables (reuse/reuse.c)."""

import numpy as np
import pytest

import pyflow as tf
from pyflow import plugins
from pyflow.tools import buffers


@pytest.fixture(scope="module")
def acme(build_plugin):
    return plugins.load_library(build_plugin("reuse"))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def large(name):
    """An output of 4 MB, by a kernel that writes into a buffer of its own."""
    return tf.cumsum(tf.placeholder(tf.float32, [1024, 1024], name=f"fed_{name}"), name=name)


def plan():
    """{output: (where, bytes, note)} of the graph, as `explain --buffers` prints it."""
    found = {}
    for line in buffers.lines(tf.get_default_graph().as_graph_def()):
        if not line.startswith("#"):
            where, _, rest = line.partition("  ")
            size, name, _, *note = rest.split(maxsplit=3)
            found[name] = where, size, note
    return found


def ours_and_theirs(ours, theirs):
    """The plans of cumsum -> op -> cumsum -> sum, with our op and with theirs."""
    plans = []
    for op in (ours, theirs):
        with tf.Graph().as_default():
            inputs = [large("first"), large("other")]
            made = op(*inputs)
            made = made if isinstance(made, (list, tuple)) else [made]
            for i, y in enumerate(made):
                tf.reduce_sum(tf.cumsum(tf.identity(y), name=f"second{i}"), name=f"total{i}")
            tf.reduce_sum(inputs[1], name="late")
            plans.append(plan())
    return plans


def of(op, *arity):
    return lambda x, y: op(x, name="it")


def test_relu_is_planned_as_ours(acme):
    ours, theirs = ours_and_theirs(of(tf.nn.relu), of(acme.relu))
    assert theirs == ours and ours["it"][:2] == ("in place of 0", f"{4 << 20:,}")
    assert ours_and_theirs(of(tf.nn.relu), of(acme.silent))[1]["it"][0] != "in place of 0"


def test_either_input_is_written_over(acme):
    """The second is read by another later, so the first is taken over; then the other way."""
    ours, theirs = ours_and_theirs(lambda x, y: tf.add(x, y, name="it"),
                                   lambda x, y: acme.add(x, y, name="it"))
    assert theirs == ours and ours["it"][0] == "in place of 0"
    ours, theirs = ours_and_theirs(lambda x, y: tf.add(y, x, name="it"),
                                   lambda x, y: acme.add(y, x, name="it"))
    assert theirs == ours and ours["it"][0] == "in place of 1"


def test_a_view_shares_as_reshape_does(acme):
    ours, theirs = ours_and_theirs(lambda x, y: tf.reshape(x, [-1], name="it"), of(acme.view))
    assert theirs == ours and ours["it"][0] == "shares 0"


def test_a_list_shares_one_by_one_as_identity_n_does(acme):
    ours, theirs = ours_and_theirs(lambda x, y: tf.identity_n([x, y], name="it"),
                                   lambda x, y: acme.pair([x, y], name="it"))
    assert theirs == ours
    assert (ours["it"][0], ours["it:1"][0]) == ("shares 0", "shares 1")


@pytest.mark.parametrize("op, heap", [("Look", False), ("Put", True), ("Store", True)])
def test_what_a_kernel_keeps_stays_on_the_heap(acme, op, heap):
    handle = tf.get_variable("v", [2], use_resource=True).handle
    x = large("kept")
    tf.reduce_sum(tf.cumsum(large("other")), name="total")
    getattr(acme, op.lower())(handle, x)
    assert (plan()["kept"][0] == "heap") is heap


def test_values(acme):
    given = np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)
    x = tf.placeholder(tf.float32, given.shape)
    y = acme.view(acme.add(acme.relu(tf.cumsum(x)), acme.relu(-x)))
    pair = acme.pair([y, acme.relu(x)])
    with tf.Session() as session:
        found = session.run(pair, {x: given})
    wanted = np.maximum(np.cumsum(given, 0), 0) + np.maximum(-given, 0)
    np.testing.assert_allclose(found[0], wanted.reshape(-1), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(found[1], np.maximum(given, 0))
