"""Lookup tables: what goes wrong is said, and tables outlive steps; their answers are compared with
TensorFlow's in tests/oracle/cases_tables.py."""
import numpy as np
import pytest

import pyflow as tf

errors = tf.errors


def table_of(keys=("a", "b"), values=(1, 2), default=-1):
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        list(keys), list(values), value_dtype=tf.int64), default)


def test_a_table_answers_after_its_initializer_alone():
    with tf.Graph().as_default(), tf.Session() as session:
        table = table_of()
        found = table.lookup(tf.constant(["b", "x"]))
        with pytest.raises(errors.FailedPreconditionError, match="not initialized"):
            session.run(found)
        session.run(tf.tables_initializer())
        np.testing.assert_array_equal(session.run(found), [2, -1])


def test_other_entries_are_refused_and_change_nothing():
    with tf.Graph().as_default(), tf.Session() as session:
        table = table_of()
        other = tf.lookup.KeyValueTensorInitializer(["a"], [7], value_dtype=tf.int64)
        refill = other.initialize(table)
        session.run(table.initializer)
        with pytest.raises(errors.FailedPreconditionError, match="different data"):
            session.run(refill)
        assert session.run(table.lookup(tf.constant("a"))) == 1


def test_a_failed_initializer_leaves_the_table_empty():
    with tf.Graph().as_default(), tf.Session() as session:
        table = table_of(["a", "a"], [1, 2])
        with pytest.raises(errors.InvalidArgumentError, match="different values for same key"):
            session.run(table.initializer)
        assert session.run(table.size()) == 0


@pytest.mark.parametrize("build, error, said", [
    (lambda raw, t: raw.LookupTableFindV2(table_handle=t, keys=[1], default_value=np.int64(0)),
     errors.InvalidArgumentError, "Conflicting key/value dtypes"),
    (lambda raw, t: raw.LookupTableFindV2(table_handle=t, keys=["a"],
                                          default_value=np.zeros(2, np.int64)),
     errors.InvalidArgumentError, "must be a scalar"),
    (lambda raw, t: raw.LookupTableInsertV2(table_handle=t, keys=["a", "b"],
                                            values=np.zeros(1, np.int64)),
     errors.InvalidArgumentError, "equal shapes"),
    (lambda raw, t: raw.LookupTableInsertV2(table_handle=t, keys=["a"],
                                            values=np.zeros(1, np.int64)),
     errors.UnimplementedError, "initializer alone"),
    (lambda raw, t: raw.LookupTableRemoveV2(table_handle=t, keys=["a"]),
     errors.UnimplementedError, "mutable"),
    (lambda raw, t: raw.LookupTableExportV2(table_handle=t, Tkeys=tf.int64, Tvalues=tf.int64)[0],
     errors.InvalidArgumentError, "Conflicting"),
    (lambda raw, t: raw.InitializeTableFromTextFileV2(
        table_handle=t, filename="/nowhere/at/all", key_index=-2, value_index=-1),
     errors.NotFoundError, "nowhere"),
])
def test_wrong_calls_are_typed_errors(build, error, said):
    with tf.Graph().as_default(), tf.Session() as session:
        table = table_of()
        wrong = build(tf.raw_ops, table.resource_handle)
        with pytest.raises(error, match=said):
            session.run(wrong)


def test_lines_that_do_not_fit_name_their_number(tmp_path):
    path = tmp_path / "words"
    path.write_text("one\t1\ntwo\tx\n", encoding="utf-8")
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            str(path), tf.string, 0, tf.int64, 1), -1)
        with pytest.raises(errors.InvalidArgumentError, match="line 1"):
            session.run(table.initializer)
        short = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            str(path), tf.string, 0, tf.int64, -1, vocab_size=3), -1)
        with pytest.raises(errors.InvalidArgumentError, match="expected 3 lines"):
            session.run(short.initializer)
    with pytest.raises(ValueError, match="does not go with"):
        tf.lookup.TextFileInitializer(str(path), tf.int64, -2, tf.int64, -1)


def test_entries_come_and_go_against_a_dict():
    rng, known = np.random.default_rng(0), {}
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int32, -1)
        keys, values = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int32, [None])
        put, drop = table.insert(keys, values), table.remove(keys)
        ask, size = table.lookup(keys), table.size()
        for _ in range(30):
            some, numbers = rng.integers(0, 60, 20), rng.integers(0, 1000, 20)
            session.run(put, {keys: some, values: numbers})
            known.update(zip(some.tolist(), numbers.tolist()))
            gone = rng.integers(0, 60, 15)
            session.run(drop, {keys: gone})
            for key in gone.tolist():
                known.pop(key, None)
            assert session.run(size) == len(known)
            np.testing.assert_array_equal(session.run(ask, {keys: np.arange(60)}),
                                          [known.get(k, -1) for k in range(60)])
