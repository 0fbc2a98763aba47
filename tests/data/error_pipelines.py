"""Pipelines with elements that fail, for tests/data/test_errors.py.  With TensorFlow 1.15

    python tests/data/error_pipelines.py

writes anew what it gives, to error_answers.json: elements, names of errors, "end"."""
import json
import pathlib

import numpy as np

ANSWERS = pathlib.Path(__file__).with_name("error_answers.json")
PLACES = {"1": [1], "2": [2], "4": [4], "2-3": [2, 3], "7": [7]}


def pipelines(tf, places):
    """{name: makes the dataset}: of 1 to 7, in `places` errors."""
    experimental, of = tf.data.experimental, tf.data.Dataset

    def checked(x):
        wrong = tf.reduce_any(tf.equal(x, tf.constant(places, tf.int64)))
        number = tf.where(wrong, tf.constant(np.nan, tf.float64), tf.cast(x, tf.float64))
        return tf.cast(tf.check_numerics(number, "bad"), tf.int64)

    def bad(end=8):
        return of.range(1, end).map(checked)

    def twice(x):
        return of.from_tensors(x).repeat(2)

    def within(i):
        return bad(5).map(lambda x: x + 10 * i)
    return {
        "map": lambda: bad(),
        "parallel_map": lambda: bad().map(lambda x: x + 10, num_parallel_calls=3),
        "batch": lambda: bad().batch(2),
        "batch_of_3": lambda: bad().batch(3),
        "batch_drop": lambda: bad().batch(3, drop_remainder=True),
        "padded_batch": lambda: bad().map(lambda x: tf.fill([x], x)).padded_batch(2, [None]),
        "parallel_map_batch": lambda: bad().map(lambda x: x + 10, num_parallel_calls=3).batch(2),
        "window": lambda: bad().window(2).flat_map(lambda w: w.batch(2)),
        "window_shift": lambda: bad().window(3, 1).flat_map(lambda w: w.batch(3)),
        "window_stride": lambda: bad().window(2, 2, 2).flat_map(lambda w: w.batch(2)),
        "window_ignore": lambda: bad().window(2).apply(experimental.ignore_errors()).flat_map(
            lambda w: w.batch(2)),
        "ignore_batch": lambda: bad().apply(experimental.ignore_errors()).batch(2),
        "batch_ignore": lambda: bad().batch(2).apply(experimental.ignore_errors()),
        "unbatch": lambda: bad().batch(2).apply(experimental.unbatch()),
        "prefetch": lambda: bad().prefetch(2),
        "repeat": lambda: bad(5).repeat(2),
        "take": lambda: bad().take(4),
        "skip": lambda: bad().skip(3),
        "filter": lambda: bad().filter(lambda x: x > 1),
        "flat_map": lambda: bad().flat_map(twice),
        "flat_map_within": lambda: of.range(2).flat_map(within),
        "interleave": lambda: bad().interleave(twice, 2),
        "interleave_within": lambda: of.range(3).interleave(within, 2),
        "zip": lambda: of.zip((of.range(8), bad())).map(lambda x, y: x * 100 + y),
        "concatenate": lambda: bad(5).concatenate(bad(4)),
        "scan": lambda: bad().apply(experimental.scan(np.int64(0), lambda s, x: (s + x, s + x))),
        "take_while": lambda: bad().apply(experimental.take_while(lambda x: x < 6)),
        "group_by_window": lambda: bad().apply(experimental.group_by_window(
            lambda x: x % 2, lambda _, w: w.batch(2), 2)),
    }


def ending(tf):
    """{name: makes the dataset}: of functions that say at 4 that they are at the end."""
    experimental, of = tf.data.experimental, tf.data.Dataset

    def stop(x):
        if x == 4:
            raise StopIteration
        return np.int64(x)

    def stops(x):
        y = tf.py_func(stop, [x], tf.int64)
        y.set_shape([])
        return y
    return {
        "map": lambda: of.range(1, 8).map(stops),
        "parallel_map": lambda: of.range(1, 8).map(stops, num_parallel_calls=3),
        "batch": lambda: of.range(1, 8).map(stops).batch(2),
        "map_and_batch": lambda: of.range(1, 8).apply(experimental.map_and_batch(stops, 2)),
        "filter": lambda: of.range(1, 8).filter(lambda x: stops(x) > 0),
        "take_while": lambda: of.range(1, 8).apply(experimental.take_while(lambda x: stops(x) > 0)),
        "scan": lambda: of.range(1, 8).apply(
            experimental.scan(np.int64(0), lambda s, x: (s, stops(x)))),
        "flat_map": lambda: of.range(1, 8).flat_map(lambda x: of.from_tensors(stops(x))),
        "group_by_window": lambda: of.range(1, 8).apply(experimental.group_by_window(
            lambda x: stops(x) % 2, lambda _, w: w.batch(2), 2)),
    }


def events(tf, make, options=None):
    """What comes of a pipeline."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make()
        if options is not None:
            dataset = dataset.with_options(options)
        element = dataset.make_one_shot_iterator().get_next()
        while len(found) < 30:
            try:
                found.append(np.asarray(session.run(element)).tolist())
            except tf.errors.OutOfRangeError:
                return found + ["end"]
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
    return found


def record():
    import tensorflow as tf
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    found = {f"{name} {place}": events(tf, make, options) for place, places in PLACES.items()
             for name, make in pipelines(tf, places).items()}
    found.update({f"{name} ends": events(tf, make, options) for name, make in ending(tf).items()})
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items()))
    ANSWERS.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    record()
