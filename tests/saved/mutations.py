"""Damaged checkpoints and SavedModels: each must be read, or refused by a typed error.

    PYTHONSAFEPATH=1 python tests/saved/mutations.py --count 100000 --seed 1

Bytes of index and data files are changed as they are, and entries of tables with CRCs put right
again, so that what lies behind a CRC is reached; of saved_model.pb bytes and fields.  Counts what
came of it, and fails for an error of another type, for a case of over TIME_LIMIT seconds, and for
a peak of memory that grows by MEMORY_LIMIT.
"""
import argparse
import collections
import logging
import pathlib
import random
import resource
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import numpy as np  # noqa: E402
import pyflow as tf  # noqa: E402
import tables  # noqa: E402
from pyflow.framework import protos  # noqa: E402
from pyflow.ops.checkpoint import io_ops  # noqa: E402

DATA = HERE / "data"
TIME_LIMIT = 2.0
MEMORY_LIMIT = 1 << 30
WANTED = {"plain/float32": tf.float32, "texts": tf.string, "parted": tf.float32,
          "one_text": tf.string, "plain/complex64": tf.complex64, "plain/bool": tf.bool,
          "empty": tf.float32, "plain/float16": tf.float16, "scalar": tf.int64}


def damaged(data, rng):
    """Bytes flipped, set, cut, doubled or taken out."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.randrange(6)
        n = rng.choice((1, 1, 2, 4, 8, 40))
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del data[at:at + n]
        elif kind == 3:
            data[at:at] = data[at:at + n]
        elif kind == 4:
            data[at:at + n] = bytes(rng.choice((0, 0xFF)) for _ in range(n))
        else:
            del data[rng.choice((at, len(data) - n)):]
    return bytes(data)


def damaged_entries(data, rng):
    """The table with some keys and values changed, dropped, doubled or exchanged; right CRCs."""
    entries = tables.read(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.choice((0, rng.randrange(len(entries))))
        key, value = entries[at]
        kind = rng.randrange(8)
        if kind < 5:
            entries[at] = key, damaged(value, rng)
        elif kind == 5:
            entries[at] = damaged(key, rng), value
        elif kind == 6:
            entries[at] = key, entries[rng.randrange(len(entries))][1]
        elif len(entries) > 2:
            del entries[at]
    if rng.random() < 0.8:
        entries.sort()
    return tables.write(entries, rng.choice((1, 8, 1000)), int(rng.random() < 0.3))


class Checkpoints:
    """One session that lists and restores checkpoints, whose files are damaged in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.v2 = {name: (DATA / f"ckpt_v2.{name}").read_bytes()
                   for name in ("index", "data-00000-of-00001")}
        self.v1 = (DATA / "ckpt_v1").read_bytes()
        with tf.Graph().as_default() as graph:
            self.prefix = tf.placeholder(tf.string, [])
            self.listed = list(io_ops._CheckpointEntries(self.prefix))
            self.restored = [io_ops.RestoreV2(self.prefix, [name], [""], dtypes=[dtype])[0]
                             for name, dtype in WANTED.items()]
        self.session = tf.Session(graph=graph)

    def write(self, rng):
        """A damaged checkpoint's prefix."""
        change = damaged_entries if rng.random() < 0.7 else damaged
        if rng.random() < 0.4:
            (self.folder / "v1").write_bytes(change(self.v1, rng))
            return str(self.folder / "v1")
        index, data = self.v2["index"], self.v2["data-00000-of-00001"]
        if rng.random() < 0.8:
            index = change(index, rng)
        else:
            data = damaged(data, rng)
        (self.folder / "c.index").write_bytes(index)
        (self.folder / "c.data-00000-of-00001").write_bytes(data)
        return str(self.folder / "c")

    def case(self, rng):
        """What came of one: "read", or the error's name."""
        feed = {self.prefix: self.write(rng)}
        found = []
        for fetch in (self.listed, rng.choice(self.restored), rng.choice(self.restored)):
            try:
                self.session.run(fetch, feed)
                found.append("read")
            except tf.OpError as e:
                found.append(type(e).__name__)
        return found


def _leaves(message, found):
    """(message, field, value) of every plain field below a message."""
    for field, value in message.ListFields():
        repeated = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
        if field.message_type is None:
            found.append((message, field.name, value, repeated))
        elif repeated and field.message_type.GetOptions().map_entry:
            for item in value.values():
                if hasattr(item, "ListFields"):
                    _leaves(item, found)
        else:
            for item in value if repeated else [value]:
                _leaves(item, found)
    return found


def _changed(value, texts, rng):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((0, 1, 2, value ^ 1, 7, 100))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, float("nan")))
    if isinstance(value, bytes):
        return damaged(value, rng)
    return rng.choice([*texts, "", "^" + value, value + ":1", value[:-1]])


def damaged_message(message, rng):
    """Some plain fields have other values: names, types, sizes, inputs, attributes."""
    leaves = _leaves(message, [])
    texts = [value for _, _, value, repeated in leaves if isinstance(value, str)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        owner, name, value, repeated = rng.choice(leaves)
        try:
            if not repeated:
                setattr(owner, name, _changed(value, texts, rng))
            elif len(value):
                at = rng.randrange(len(value))
                value[at] = _changed(value[at], texts, rng)
        except (ValueError, TypeError):         # no value of that field's
            pass
    return message.SerializeToString()


class Models:
    """Loads SavedModels whose saved_model.pb is damaged."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / "model"
        tf.reset_default_graph()
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, [None, 2], name="x")
            w = tf.get_variable("w", initializer=np.ones((2, 2), np.float32), use_resource=True)
            y = tf.nn.relu(tf.matmul(x, w), name="y")
            sess.run(tf.global_variables_initializer())
            tf.saved_model.simple_save(sess, str(self.folder), {"x": x}, {"y": y})
        self.file = self.folder / "saved_model.pb"
        self.good = self.file.read_bytes()

    def case(self, rng):
        if rng.random() < 0.3:
            self.file.write_bytes(damaged(self.good, rng))
        else:
            message = protos.SavedModel.FromString(self.good)
            self.file.write_bytes(damaged_message(message, rng))
        try:
            with tf.Session(graph=tf.Graph()) as sess:
                found = tf.saved_model.loader.load(sess, None, str(self.folder))
                signature = found.signature_def["serving_default"]
                sess.run(signature.outputs["y"].name, {signature.inputs["x"].name: [[1.0, 2.0]]})
            return ["read"]
        except (tf.OpError, IOError, RuntimeError, ValueError, TypeError, KeyError) as e:
            return [type(e).__name__]


def run(kind, count, seed, folder):
    """Counter of what came of `count` cases of Checkpoints or Models."""
    subject, found = kind(folder), collections.Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(count):
        rng, start = random.Random(f"{kind.__name__} {seed} {i}"), time.perf_counter()
        try:
            found.update(subject.case(rng))
        except Exception as e:
            raise AssertionError(f"{kind.__name__} case {i} of seed {seed}: {e!r}") from e
        took = time.perf_counter() - start
        assert took < TIME_LIMIT, f"{kind.__name__} case {i} of seed {seed}: {took:.1f} s"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < MEMORY_LIMIT, f"{kind.__name__}: {grown >> 20} MB"
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.getLogger("pyflow").setLevel(logging.CRITICAL)     # what is left out is warned of
    folder = tempfile.mkdtemp()
    for kind, count in ((Checkpoints, args.count), (Models, args.count // 20)):
        print(kind.__name__, count, dict(run(kind, count, args.seed, folder).most_common()),
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
