"""Tables from keys to values."""

import os
import tempfile

import numpy as np

from cases import script

WORDS = ["a", "b", "", "longer than eight bytes"]


def by_key(keys, values):
    """Entries of a table in the order of their keys."""
    order = np.argsort(keys)
    return np.array(keys)[order].astype("U" if keys.dtype == object else keys.dtype), values[order]


@script
def tables_static(tf):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, [5, 6, 7, 8]), -1)
    back = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([1, -2, 2**40], tf.int64), tf.constant(["x", "", "z"])), "none")
    real = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        WORDS, [0.5, 1.5, 2.5, 3.5], value_dtype=tf.float32), 9.0)
    words = tf.constant([["b", "zz"], ["", "a"]])
    sparse = tf.SparseTensor(np.array([[0, 1], [2, 0]], np.int64), tf.constant(["b", "q"]), [3, 2])
    found = {
        "ids": table.lookup(words), "sparse": table.lookup(sparse).values,
        "names": back.lookup(tf.constant([2**40, 0, -2], tf.int64)), "reals": real.lookup(words),
        "sizes": tf.stack([table.size(), back.size(), real.size()]),
    }
    with tf.Session() as session:
        try:
            session.run(found["ids"])
            early = False
        except tf.errors.FailedPreconditionError:
            early = True
        session.run(tf.tables_initializer())
        session.run(table.initializer)
        keys, values = by_key(*session.run(table.export()))
        return session.run(found) | {"early": np.array(early), "keys": keys, "values": values}


@script
def tables_vocabulary(tf):
    of_words = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, tf.range(4, dtype=tf.int64)), 5)
    of_numbers = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([10, 20], tf.int64), tf.constant([0, 1], tf.int64)), 3)
    bare = tf.lookup.StaticVocabularyTable(None, 4)
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return session.run({
            "words": of_words.lookup(tf.constant(["b", "new", "other", "a", "word"])),
            "numbers": of_numbers.lookup(tf.constant([20, 21, 22, 10, -1], tf.int64)),
            "bare": bare.lookup(tf.constant(["b", "new", "other"])),
            "sizes": tf.stack([of_words.size(), of_numbers.size(), bare.size()]),
        })


@script
def tables_from_files(tf):
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "words.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("one\t1\t0.5\ntwo\t2\t1.5\nthree\t-3\t2.5")
        index = tf.lookup.TextFileIndex
        tables = {
            "lines": (tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER, -1),
            "columns": (tf.string, 0, tf.int64, 1, -1),
            "reals": (tf.int64, 1, tf.float32, 2, -1.0),
            "words": (tf.int64, index.LINE_NUMBER, tf.string, 0, "none"),
        }
        asked = {tf.string: ["one", "three", "two\t2\t1.5", "x"], tf.int64: [0, 1, 2, -3]}
        for name, (key, key_index, value, value_index, default) in tables.items():
            table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
                path, key, key_index, value, value_index), default)
            found[name] = table.lookup(tf.constant(asked[key], key))
        with tf.Session() as session:
            session.run(tf.tables_initializer())
            return session.run(found)


@script
def tables_mutable(tf):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    keys = tf.placeholder(tf.string, [None])
    values = tf.placeholder(tf.int64, [None])
    put, drop, ask = table.insert(keys, values), table.remove(keys), table.lookup(keys)
    size, everything = table.size(), table.export()
    sizes, words = [], [f"w{i}" for i in range(100)]
    with tf.Session() as session:
        session.run(put, {keys: words, values: np.arange(100)})
        sizes.append(session.run(size))
        session.run(put, {keys: ["w5", "new"], values: [500, 501]})
        sizes.append(session.run(size))
        session.run(drop, {keys: words[10:] + ["missing"]})
        sizes.append(session.run(size))
        found = session.run(ask, {keys: ["w5", "new", "w11", "w0"]})
        kept, numbers = by_key(*session.run(everything))
    return {"sizes": np.array(sizes), "found": found, "keys": kept, "values": numbers}


@script
def tables_import(tf):
    raw = tf.raw_ops
    handle = raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)
    fill = raw.LookupTableImportV2(
        table_handle=handle, keys=tf.constant([3, 1], tf.int64), values=[0.5, 0.25])
    again = raw.LookupTableImportV2(
        table_handle=handle, keys=tf.constant([7], tf.int64), values=[2.0])
    ask = raw.LookupTableFindV2(
        table_handle=handle, keys=tf.constant([[1, 7], [3, 0]], tf.int64), default_value=-1.0)
    with tf.Session() as session:
        session.run(fill)
        first = session.run(ask)
        session.run(again)
        return {"first": first, "second": session.run(ask)}
