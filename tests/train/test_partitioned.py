"""Partitioned variables: names, parts, reuse, checkpoints.  Literals are TF 2.21's answers."""
import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def _names(variables):
    return [(v.name, v.shape.as_list()) for v in variables]


@pytest.mark.parametrize("count, parts", [
    (1, [("s/v/part_0:0", [5, 2])]),
    (2, [("s/v/part_0:0", [3, 2]), ("s/v/part_1:0", [2, 2])]),
    (3, [("s/v/part_0:0", [2, 2]), ("s/v/part_1:0", [2, 2]), ("s/v/part_2:0", [1, 2])])])
def test_names_and_parts(count, parts):
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(count)):
        v = tf.get_variable("v", [5, 2], initializer=tf.ones_initializer())
        scalar = tf.get_variable("scalar", [])
    assert _names(v) == parts and len(v) == count
    assert (v.name, v.shape.as_list(), v.dtype) == ("s/v", [5, 2], tf.float32)
    assert scalar.name == "s/scalar:0" and isinstance(scalar, tf.Variable)
    assert [t.name for t in tf.trainable_variables()] == [n for n, _ in parts] + ["s/scalar:0"]
    assert tf.convert_to_tensor(v).name == "s/v:0"
    with pytest.raises(TypeError):
        v * 2.0                                         # no operators, as in TF


def test_values_lookups_and_assignments():
    want = np.arange(10, dtype=np.float32).reshape(5, 2)
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        v = tf.get_variable("v", initializer=tf.constant(want))
    x = tf.convert_to_tensor(v)
    twice = v.assign(2 * want)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert np.array_equal(sess.run(x), want)
        assert np.array_equal(sess.run(tf.nn.embedding_lookup(list(v), [1], "div")), want[[1]])
        assert [part.shape for part in sess.run(twice)] == [(3, 2), (2, 2)]
        assert np.array_equal(sess.run(x), 2 * want)
        sess.run(v.assign_sub([np.ones([3, 2]), np.ones([2, 2])]))
        assert np.array_equal(sess.run(x), 2 * want - 1)


def test_reuse():
    part = tf.fixed_size_partitioner(2)
    with tf.variable_scope("s", partitioner=part):
        v = tf.get_variable("v", [4])
        with pytest.raises(ValueError, match="already exists"):
            tf.get_variable("v", [4])
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("v", [4]) is v
        with pytest.raises(ValueError, match="specified shape"):
            tf.get_variable("v", [5])
        with pytest.raises(ValueError, match="specified partitions"):
            tf.get_variable("v", [4], partitioner=tf.fixed_size_partitioner(4))
        with pytest.raises(ValueError, match="does not exist"):
            tf.get_variable("w", [4], partitioner=part)
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        with pytest.raises(ValueError, match="No partitioner was provided"):
            tf.get_variable("v", [4])
        tf.get_variable("whole", [4])
        with pytest.raises(ValueError, match="unpartitioned version"):
            tf.get_variable("whole", [4], partitioner=part)


@pytest.mark.parametrize("partitioner, message", [
    (lambda shape, dtype: [2, 2], "rank"), (lambda shape, dtype: [0], "zero partitions"),
    (lambda shape, dtype: 3, "must return a sequence"), (5, "must be callable")])
def test_bad_partitioners(partitioner, message):
    with pytest.raises(ValueError, match=message):
        tf.get_variable("v", [4], partitioner=partitioner)
    with pytest.raises(ValueError, match="one dimension"):
        tf.get_variable("v", [4, 4], partitioner=lambda **unused: [2, 2])
    with pytest.raises(ValueError, match="fully defined"):
        tf.get_variable("v", partitioner=tf.fixed_size_partitioner(2))


def test_partitioners():
    def asked(shape, dtype):
        shape = tf.TensorShape(shape)
        return [p(shape=shape, dtype=dtype) for p in (
            tf.min_max_variable_partitioner(8), tf.variable_axis_size_partitioner(1 << 18),
            tf.variable_axis_size_partitioner(64, max_shards=5), tf.fixed_size_partitioner(3),
            tf.min_max_variable_partitioner(8, min_slice_size=16))]
    assert asked([1024, 1024], tf.float32) == [[8, 1], [16, 1], [5, 1], [3, 1], [8, 1]]
    assert asked([1024, 1024], tf.string) == [[8, 1], [64, 1], [5, 1], [3, 1], [8, 1]]
    assert asked([10], tf.float32) == [[1], [1], [1], [3], [3]]
    assert asked([10], tf.string) == [[1], [1], [3], [3], [8]]
    parts = tf.create_partitioned_variables([4, 3], [1, 2], tf.zeros_initializer())
    assert _names(parts) == [("PartitionedVariable/part_0:0", [4, 2]),
                             ("PartitionedVariable/part_1:0", [4, 1])]


def test_checkpoints_hold_the_whole_variable_and_its_slots(tmp_path):
    prefix, want = str(tmp_path / "m"), np.arange(10, dtype=np.float32).reshape(5, 2)
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(3)):
        v = tf.get_variable("v", initializer=tf.constant(want))
        w = tf.get_variable("w", [4], use_resource=True, initializer=tf.ones_initializer())
    loss = tf.reduce_sum(tf.convert_to_tensor(v)) + tf.reduce_sum(tf.convert_to_tensor(w))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver.save(sess, prefix)
        sess.run(v.assign(0 * want))
        saver.restore(sess, prefix)
        assert np.array_equal(sess.run(tf.convert_to_tensor(v)), want)
    assert tf.train.list_variables(prefix) == [
        ("s/v", [5, 2]), ("s/v/Momentum", [5, 2]), ("s/w", [4]), ("s/w/Momentum", [4])]
    for count in (None, 2):
        part = None if count is None else tf.fixed_size_partitioner(count)
        with tf.Graph().as_default(), tf.Session() as sess:
            with tf.variable_scope("s", partitioner=part):
                v, w = tf.get_variable("v", [5, 2]), tf.get_variable("w", [4])
            tf.train.Saver({"s/v": v, "s/w": w}).restore(sess, prefix)
            assert np.array_equal(sess.run(tf.convert_to_tensor(v)), want)
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
            tf.get_variable("v", [6, 2]), tf.get_variable("x", [4])
        with pytest.raises(tf.errors.NotFoundError) as caught:
            tf.train.Saver().restore(sess, prefix)
        assert str(caught.value).count("Key s/v:") == 1         # not once for each part


def _saver(parts, kind):
    return tf.train.Saver({"whole": {"v": parts}, "part": [parts[1]], "parts": [parts[2], parts[0]],
                           "renamed": {"x": parts[1]}, "own": {"v": parts[1]}}[kind])


KINDS = ["whole", "part", "parts", "renamed", "own"]
MISSING, UNLIKE = tf.errors.NotFoundError, tf.errors.InvalidArgumentError
RESTORED = {                    # by whom, of what: which parts come back, or TensorFlow's error
    "whole": ([0, 1, 2], UNLIKE, UNLIKE, MISSING, UNLIKE),
    "part": ([1], [1], UNLIKE, MISSING, UNLIKE), "parts": ([0, 2], UNLIKE, [0, 2], MISSING, UNLIKE),
    "renamed": (MISSING, MISSING, MISSING, [1], MISSING),
    "own": (UNLIKE, UNLIKE, UNLIKE, MISSING, [1])}


@pytest.mark.parametrize("resource", [False, True])
def test_parts_are_saved_and_restored_alone(tmp_path, resource):
    """Slices of the whole where a list names them; else a variable as any other."""
    want = np.arange(20, dtype=np.float32).reshape(10, 2) + 1
    v = tf.get_variable("v", initializer=tf.constant(want), use_resource=resource,
                        partitioner=tf.fixed_size_partitioner(3))
    parts, savers = list(v), {kind: _saver(list(v), kind) for kind in KINDS}
    zeros = v.assign(0 * want)
    shapes = {"whole": [10, 2], "part": [10, 2], "parts": [10, 2], "renamed": [3, 2], "own": [3, 2]}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        paths = [savers[kind].save(sess, str(tmp_path / kind)) for kind in KINDS]
        before = sess.run(parts)
        for kind, path in zip(KINDS, paths):
            assert dict(tf.train.list_variables(path)) == {
                "x" if kind == "renamed" else "v": shapes[kind]}
        for kind, answers in RESTORED.items():
            for path, answer in zip(paths, answers):
                sess.run(zeros)
                if not isinstance(answer, list):
                    with pytest.raises(answer):
                        savers[kind].restore(sess, path)
                    answer = []
                else:
                    savers[kind].restore(sess, path)
                for i, part in enumerate(sess.run(parts)):
                    assert np.array_equal(part, before[i] if i in answer else 0 * before[i])
        sess.run(zeros)
        report = savers["part"].restore(sess, paths[1], strict=False)
        assert report.restored == ["v"] and np.array_equal(sess.run(parts[1]), before[1])
        with pytest.raises(UNLIKE, match="its slices have only 6 of the 20 elements"):
            tf.train.load_variable(paths[1], "v")


def test_wrong_parts():
    v, w = [list(tf.get_variable(name, [4], partitioner=tf.fixed_size_partitioner(4)))
            for name in "vw"]
    with pytest.raises(ValueError, match="must all be from the same tensor: x has parts of v, w"):
        tf.train.Saver({"x": [v[0], w[1]]})
    with pytest.raises(ValueError, match="part of v is given twice"):
        tf.train.Saver({"v": [v[0], v[0]]})
    with pytest.raises(ValueError, match="of v only some parts .*format='tensorflow'"):
        tf.train.Saver([v[0], w[0]], format="pyflow")


def test_a_custom_getter_sees_the_partitioner():
    seen = {}

    def getter(getter, name, **arguments):
        seen.update(arguments)
        return getter(name, **arguments)
    with tf.variable_scope("s", custom_getter=getter):
        v = tf.get_variable("v", [2], partitioner=tf.fixed_size_partitioner(2))
    assert len(list(v)) == 2 and {"partitioner", "synchronization", "aggregation"} <= set(seen)
