"""Pipelines whose elements TensorFlow gave, recorded in answers.json.

    python tests/data/recorded_pipelines.py > tests/data/answers.json   # with TensorFlow: compat.v1
"""
import json


def cases(tf):
    """{name: makes the dataset}; `tf` is TensorFlow's compat.v1, or pyflow."""
    data, ex = tf.data.Dataset, tf.data.experimental
    r = data.range

    def ragged(x):
        return tf.fill([tf.cast(x % 4, tf.int32)], x)

    def checked(x):
        return tf.check_numerics(1.0 / tf.cast(x % 3, tf.float32), "zero")

    def repeated(x):
        return data.from_tensors(x).repeat(x)
    return {
        "range": lambda: r(7, -5, -3),
        "nest": lambda: data.from_tensors({"b": [1, 2], "a": (True, "x")}),
        "slices": lambda: data.from_tensor_slices(([[1, 2], [3, 4]], {"k": ["a", "b"]})),
        "take": lambda: r(9).take(4), "skip": lambda: r(9).skip(7),
        "take all": lambda: r(3).take(-1), "skip all": lambda: r(3).skip(-1),
        "shard": lambda: r(11).shard(4, 2), "repeat": lambda: r(3).repeat(2),
        "repeat none": lambda: r(3).repeat(0),
        "batch": lambda: r(7).batch(3), "batch drop": lambda: r(7).batch(3, drop_remainder=True),
        "batch of batches": lambda: r(10).batch(2).batch(3),
        "map": lambda: r(5).map(lambda x: (x * x, tf.as_string(x))),
        "map dict": lambda: r(3).map(lambda x: {"x": x, "y": [x, x + 1]}),
        "map pairs": lambda: data.zip((r(3), r(5, 9))).map(lambda a, b: a * b),
        "filter": lambda: r(20).filter(lambda x: tf.equal(x % 7, 2)),
        "flat_map": lambda: r(5).flat_map(repeated),
        "interleave": lambda: r(1, 7).interleave(repeated, cycle_length=3, block_length=2),
        "interleave 1": lambda: r(1, 5).interleave(repeated, cycle_length=4, block_length=1),
        "interleave long": lambda: r(2, 9).interleave(repeated, cycle_length=2, block_length=3),
        "zip": lambda: data.zip((r(3), {"a": r(10, 20), "b": r(2).repeat()})),
        "concatenate": lambda: r(2).concatenate(r(5, 7)), "prefetch": lambda: r(4).prefetch(2),
        "cache": lambda: r(4).cache().repeat(2), "enumerate": lambda: r(4, 6).enumerate(start=7),
        "padded": lambda: r(1, 8).map(ragged).padded_batch(3, padded_shapes=[None]),
        "padded to": lambda: r(1, 8).map(ragged).padded_batch(
            3, padded_shapes=[5], padding_values=tf.constant(-1, tf.int64), drop_remainder=True),
        "padded pairs": lambda: r(1, 4).map(lambda x: (x, ragged(x))).padded_batch(2, ([], [None])),
        "window": lambda: r(9).window(4).flat_map(lambda w: w.batch(9)),
        "window shift": lambda: r(9).window(3, shift=2, stride=2).flat_map(lambda w: w.batch(9)),
        "window drop": lambda: r(9).window(3, shift=4, drop_remainder=True).flat_map(
            lambda w: w.batch(9)),
        "window far": lambda: r(9).window(2, shift=5).flat_map(lambda w: w.batch(9)),
        "group": lambda: r(17).apply(
            ex.group_by_window(lambda x: x % 3, lambda k, w: w.batch(4), 4)),
        "group sizes": lambda: r(17).apply(ex.group_by_window(
            lambda x: x % 3, lambda k, w: w.batch(9), window_size_func=lambda k: k + 2)),
        "buckets": lambda: r(1, 20).map(lambda x: tf.fill([tf.cast(x * 5 % 9, tf.int32)], x)).apply(
            ex.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3, 6], [2, 3, 4])),
        "buckets bound": lambda: r(1, 20).map(
            lambda x: tf.fill([tf.cast(x * 5 % 9, tf.int32)], x)).apply(
            ex.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3, 9], [2, 3, 4],
                                         pad_to_bucket_boundary=True)),
        "scan": lambda: r(1, 6).apply(
            ex.scan(tf.constant(1, tf.int64), lambda s, x: (s + x, s * x))),
        "ignore": lambda: r(7).map(checked).apply(ex.ignore_errors()),
        "unbatch": lambda: r(7).batch(3).apply(ex.unbatch()),
        "choose": lambda: ex.choose_from_datasets([r(3), r(10, 14)], data.from_tensor_slices(
            tf.constant([1, 0, 0, 1, 0, 0, 1, 1, 1], tf.int64))),
        "take_while": lambda: r(9).apply(ex.take_while(lambda x: x % 5 < 4)),
        "counter": lambda: ex.Counter(3, 4).take(3),
        "map_and_batch": lambda: r(7).apply(
            ex.map_and_batch(lambda x: x + 1, 3, drop_remainder=True)),
    }


def plain(value):
    """An element as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in sorted(value.items())}
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return value.decode() if isinstance(value, bytes) else value


def answers(tf):
    """{name: its elements}"""
    found = {}
    with tf.Graph().as_default():
        made = {name: tf.data.make_initializable_iterator(make())
                for name, make in cases(tf).items()}
        nexts = {name: iterator.get_next() for name, iterator in made.items()}
        with tf.Session() as sess:
            for name, iterator in made.items():
                sess.run(iterator.initializer)
                found[name] = []
                try:
                    while True:
                        found[name].append(plain(sess.run(nexts[name])))
                except tf.errors.OutOfRangeError:
                    pass
    return found


if __name__ == "__main__":
    import tensorflow.compat.v1 as tensorflow
    tensorflow.disable_v2_behavior()
    print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}"
                             for k, v in answers(tensorflow).items()) + "\n}")
