"""Seeds for the two fuzz targets, from real programs: graphs as the core gets them, checkpoints
as saved.

    python tests/fuzz_format/seeds.py FOLDER    # -> FOLDER/graph/*, FOLDER/checkpoint/*

A graph seed is one byte of options and the GraphDef bytes that a session gave to the core, with
every constant inside; a checkpoint seed is what fuzz_checkpoint.c reads.
"""

import hashlib
import pathlib
import sys
import tempfile

import numpy as np

import pyflow as tf
from pyflow import _executor
from pyflow.passes import wire

MAX_BYTES = 6000


# ---------------------------------------------------------------- programs
def arithmetic():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.constant(np.ones((3, 2), np.float32))
    return [tf.nn.softmax(tf.matmul(x, w) + [0.5, 1.0])], {x: np.ones((2, 3), np.float32)}


def loop():
    n = tf.placeholder(tf.int32, [])
    body = lambda i, a: (i + 1, a * 2.0)
    return list(tf.while_loop(lambda i, a: i < n, body, [0, tf.ones([2])])), {n: 3}


def nested_loop_gradient():
    x = tf.constant(1.5)
    inner = lambda v: tf.while_loop(lambda j, a: j < 2, lambda j, a: (j + 1, a * v), [0, v])[1]
    y = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a + inner(a)), [0, x])[1]
    return [y, tf.gradients(y, x)[0]], {}


def parallel_loop():
    return [tf.while_loop(lambda i: i < 5, lambda i: i + 1, [0], parallel_iterations=2)], {}


def conditional():
    p = tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: tf.constant([1, 2]), lambda: tf.constant([3, 4]) * 2)
    z = tf.case([(p, lambda: tf.constant(1))], default=lambda: tf.constant(2))
    return [y, z], {p: True}


def variables():
    v = tf.Variable([1.0, 2.0])
    r = tf.get_variable("r", initializer=tf.constant([3.0]), use_resource=True)
    with tf.control_dependencies([tf.global_variables_initializer()]):
        return [tf.assign_add(v, [1.0, 1.0]), r.assign_add([1.0])], {}


def resources():
    """Reads, updates and slices of variables behind handles, with a slot."""
    r = tf.get_variable("r", initializer=tf.ones([4, 2]), use_resource=True)
    slot = tf.get_variable("slot", initializer=tf.zeros([4, 2]), use_resource=True)
    updates = [
        tf.raw_ops.ResourceScatterAdd(resource=r.handle, indices=[1], updates=tf.ones([1, 2])),
        tf.raw_ops.ResourceScatterNdUpdate(ref=r.handle, indices=[[0]], updates=tf.ones([1, 2])),
        tf.raw_ops.ResourceApplyMomentum(
            var=r.handle, accum=slot.handle, lr=0.1, grad=tf.ones([4, 2]), momentum=0.9
        ),
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=r.handle, begin=[0], end=[2], strides=[1], value=tf.ones([2, 2])
        ),
    ]
    with tf.control_dependencies(updates):
        return [r.sparse_read([1, 0]), r.gather_nd([[1, 1]]), r.read_value()], {}


def tables():
    table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.string)
    keys = tf.constant([1, 2], tf.int64)
    put = tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=keys, values=["a", "b"])
    stack = tf.raw_ops.StackV2(max_size=2, elem_type=tf.float32)
    with tf.control_dependencies([put]):
        found = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=keys, default_value="")
    pushed = tf.raw_ops.StackPushV2(handle=stack, elem=tf.constant([1.0, 2.0]))
    with tf.control_dependencies([pushed]):
        return [found, tf.raw_ops.StackPopV2(handle=stack, elem_type=tf.float32)], {}


def training():
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(v - 1.0)))
    tf.Session().run(tf.global_variables_initializer())
    return [step], {}


def strings_and_lists():
    s = tf.string_join([tf.constant(["a", "b"]), tf.as_string(tf.constant([1, 2]))])
    parts = tf.split(tf.reshape(tf.range(12), [3, 4]), 2, axis=1)
    return [s, tf.concat(parts, 0), tf.stack([tf.constant(1), tf.constant(2)])], {}


def shapes():
    x = tf.placeholder(tf.float32, [2, None])
    y = tf.strided_slice(tf.pad(x, [[1, 0], [0, 2]]), [0, 1], [3, 3], [1, 2])
    return [y, tf.shape(x), tf.transpose(x), tf.tile(x, [2, 1]), tf.one_hot([1, 2], 4)], {
        x: np.ones((2, 3), np.float32)
    }


def images():
    x = tf.constant(np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2))
    y = tf.nn.conv2d(x, tf.ones([2, 2, 2, 3]), [1, 1, 1, 1], "SAME")
    return [tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), tf.nn.lrn(y)], {}


def arrays():
    array = tf.TensorArray(tf.float32, 3)
    array = array.unstack(tf.constant([1.0, 2.0, 3.0]))
    _, out = tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, a.write(i, array.read(i) * 2)),
        [0, tf.TensorArray(tf.float32, 3)],
    )
    return [out.stack()], {}


def gathers():
    p = tf.constant(np.arange(6, dtype=np.int64).reshape(3, 2))
    d = tf.dynamic_partition(tf.range(4), [0, 1, 0, 1], 2)
    return [
        tf.gather(p, [2, 0]),
        tf.segment_sum(p, [0, 0, 1]),
        tf.dynamic_stitch([[0, 2], [1, 3]], d),
        tf.nn.top_k(tf.cast(p, tf.float32), 2)[1],
        tf.unique([1, 2, 1])[0],
    ], {}


def asserted():
    x = tf.placeholder(tf.int32, [])
    with tf.control_dependencies([tf.Assert(x > 0, [x])]):
        return [tf.identity(x)], {x: 1}


PROGRAMS = (
    arithmetic,
    loop,
    nested_loop_gradient,
    parallel_loop,
    conditional,
    variables,
    resources,
    tables,
    training,
    strings_and_lists,
    shapes,
    images,
    arrays,
    gathers,
    asserted,
)


class Recorded:
    """`_executor.compile` keeps the bytes of each graph while this is open."""

    def __enter__(self):
        self.graphs, self.compile, self.limit = [], _executor.compile, wire.CONST_BYTES
        _executor.compile, wire.CONST_BYTES = self.record, 1 << 60
        return self.graphs

    def record(self, data, *rest):
        self.graphs.append(data)
        return self.compile(data, *rest)

    def __exit__(self, *unused):
        _executor.compile, wire.CONST_BYTES = self.compile, self.limit


def graphs():
    """GraphDef bytes as the core gets them."""
    with Recorded() as found:
        for program in PROGRAMS:
            with tf.Graph().as_default():
                fetches, feeds = program()
                with tf.Session() as sess:
                    sess.run(tf.global_variables_initializer())
                    sess.run(fetches, feeds)
    return [g for g in found if len(g) <= MAX_BYTES]


# ---------------------------------------------------------------- checkpoints
TENSORS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "s": np.array([b"", b"ab", b"\xffc"], object),
    "i": np.array(7, np.int64),
    "b": np.array([True, False]),
    "c": np.array([1 + 2j], np.complex64),
    "empty": np.zeros((0, 4), np.float32),
}


def checkpoint(names, folder):
    """(index, data) of a checkpoint with these tensors."""
    with tf.Graph().as_default(), tf.Session() as sess:
        prefix = tf.raw_ops.SaveV2(
            prefix=str(pathlib.Path(folder, "c")),
            tensor_names=list(names),
            shape_and_slices=[""] * len(names),
            tensors=[tf.constant(TENSORS[n]) for n in names],
        )
        sess.run(prefix)
    (data,) = pathlib.Path(folder).glob("c.data-*")
    found = pathlib.Path(folder, "c.index").read_bytes(), data.read_bytes(), data.name
    data.unlink()
    return found


def checkpoints():
    """Inputs of fuzz_checkpoint: flags, the index's length, index, data."""
    for names in (["w"], ["s"], list(TENSORS), ["i", "b"]):
        for flags in (0, 3, 3 + 4, 3 + 8, 3 + 12, 1 + 16):
            with tempfile.TemporaryDirectory() as folder:
                index, data, name = checkpoint(names, folder)
            assert name == "c.data-00000-of-00001.safetensors", name
            yield bytes([flags]) + len(index).to_bytes(2, "little") + index + data


def main(folder):
    for kind, seeds in (("graph", [b"\0" + g for g in graphs()]), ("checkpoint", checkpoints())):
        where = pathlib.Path(folder, kind)
        where.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            (where / hashlib.sha1(seed).hexdigest()[:16]).write_bytes(seed)
        print(f"{len(list(where.iterdir()))} seeds in {where}")


if __name__ == "__main__":
    main(sys.argv[1])
