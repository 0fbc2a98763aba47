"""What programs and tests expect of tensorflow.python.*: decorators of tests, structures of data
sets, absltest's assertions in TestCase; and two errors at construction."""
import collections

import numpy as np
import pytest

import pyflow as tf
from pyflow.interop.tensorflow import data_nest, test_util

Pair = collections.namedtuple("Pair", "a b")


def test_a_test_that_was_written_for_v1_runs_on_the_default_graph():
    @test_util.run_deprecated_v1
    def graph_of_test():
        return tf.get_default_graph()

    with tf.Graph().as_default() as graph:
        assert graph_of_test() is graph


@pytest.mark.parametrize("structure, leaves", [
    ([1, 2], [[1, 2]]), ((1, [2, 3]), [1, [2, 3]]), ({"b": 1, "a": (2, 3)}, [2, 3, 1]),
    (Pair((1, 2), [3]), [1, 2, [3]]), (5, [5]), ((), []),
    (tf.SparseTensorValue([[0]], [1], [2]), [tf.SparseTensorValue([[0]], [1], [2])]),
])
def test_lists_are_leaves_of_data_sets_structures(structure, leaves):
    assert data_nest.flatten(structure) == leaves
    assert data_nest.pack_sequence_as(structure, leaves) == structure


def test_structures_of_data_sets():
    assert data_nest.map_structure(lambda x, y: [x, y], {"b": 1, "a": (2,)}, {"b": 3, "a": (4,)}) \
        == {"b": [1, 3], "a": ([2, 4],)}
    assert data_nest.map_structure_up_to((0, 0), len, ([1, 2], (3,))) == (2, 1)
    for call, kind in (
            (lambda: data_nest.assert_same_structure((1, 2), (1, (2,))), ValueError),
            (lambda: data_nest.assert_same_structure((1, 2), Pair(1, 2)), TypeError),
            (lambda: data_nest.assert_same_structure({"a": 1}, {"b": 1}), ValueError),
            (lambda: data_nest.flatten_up_to((0, 0), (1,)), ValueError),
            (lambda: data_nest.flatten_up_to((0,), [1]), TypeError),
            (lambda: data_nest.pack_sequence_as((1, 2), [1]), ValueError)):
        with pytest.raises(kind):
            call()


HOLDS_AND_FAILS = {
    "assertEndsWith": [("abc", "bc"), ("abc", "ab")], "assertNotEndsWith": [("ab", "a"), ("ab", "b")],
    "assertRegexMatch": [("x\nab", ["q", "^a"]), ("ab", ["^b"])],
    "assertContainsInOrder": [(["a", "c"], "abc"), (["c", "a"], "abc")],
    "assertUrlEqual": [("http://h/p?a=1&b=2", "http://h/p?b=2&a=1"), ("http://h/?a", "http://h/?b")],
    "assertJsonEqual": [('{"a": [1]}', '{"a":[1]}'), ('{"a": 1}', '{"a": 2}')],
    "assertEmpty": [([],), ([1],)], "assertNotEmpty": [([1],), ({},)],
    "assertLen": [((1, 2), 2), ((1, 2), 3)],
    "assertSequenceAlmostEqual": [([1.0], [1.0 + 1e-9]), ([1.0], [1.1])],
    "assertSequenceStartsWith": [([1], [1, 2]), ([2], [1, 2])],
    "assertContainsSubset": [([1], [1, 2]), ([3], [1, 2])],
    "assertNoCommonElements": [([1], [2]), ([1, 2], [2])],
    "assertSameElements": [([1, 1, 2], [2, 1]), ([1], [2])],
    "assertContainsSubsequence": [([1, 2, 3], [1, 3]), ([1, 2, 3], [3, 1])],
    "assertContainsExactSubsequence": [([1, 2, 3], [2, 3]), ([1, 2, 3], [1, 3])],
    "assertSameStructure": [({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}),
                            ({"a": [1]}, {"a": [1, 2]})],
    "assertBetween": [(1, 0, 2), (3, 0, 2)],
    "assertTotallyOrdered": [([1], [2, 2.0], [3]), ([2], [1])],
    "assertRaisesWithLiteralMatch": [(ValueError, "could not convert string to float: 'x'", float,
                                      "x"), (ValueError, "no", float, "x")],
    "assertCommandSucceeds": [("echo ab", [b"^a"]), ("exit 1", [b""])],
    "assertCommandFails": [("echo ab; exit 1", [b"^a"]), ("exit 0", [b""])],
}


@pytest.mark.parametrize("name", HOLDS_AND_FAILS)
def test_assertions_of_absltest(name):
    holds, fails = HOLDS_AND_FAILS[name]
    check = getattr(type("Case", (tf.test.TestCase,), {"runTest": None})(), name)
    check(*holds)
    with pytest.raises(AssertionError):
        check(*fails)


def test_a_multi_cell_s_state_has_to_be_a_tuple():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2)])
        for state in (tf.zeros([1, 4]), (tf.zeros([1, 2]),)):
            with pytest.raises(ValueError, match="Expected state to be a tuple of length 2"):
                cell(tf.zeros([1, 3]), state)


def test_a_profiler_hook_takes_steps_or_seconds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="both every_secs and every_steps"):
        tf.train.ProfilerHook(save_secs=10, save_steps=20)
    with pytest.raises(ValueError, match="should be provided"):
        tf.train.ProfilerHook()
    assert tf.train.ProfilerHook(save_steps=1)


def test_functions_of_gen_modules_take_tensorflow_s_names():
    from pyflow.interop.tensorflow import gen_ops
    with tf.Graph().as_default(), tf.Session() as sess:
        np.testing.assert_array_equal(sess.run(gen_ops._sum(input=[[1, 2]], axis=1)), [3])
