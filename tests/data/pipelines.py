"""Pipelines drawn from a seed, and how their elements are hashed.

Run as a program it starts processes that read one, saving its state into a file after each element,
until they are killed.
"""
import hashlib
import json
import os
import random
import sys

import numpy as np

import pyflow as tf


def _noisy(dataset, parallel):
    return dataset.map(lambda x: x + tf.random_uniform([], 0, 1000, tf.int64) * 100, parallel)


def _filtered(dataset, parallel):
    return dataset.filter(lambda x: tf.not_equal(x % 7, 3))


def _interleaved(dataset, parallel):
    def three(x):
        return tf.data.Dataset.range(x, x + 3).map(
            lambda y: y + tf.random_uniform([], 0, 10, tf.int64))
    return dataset.interleave(three, 3, 2, num_parallel_calls=parallel)


def _shuffled(dataset, parallel):
    return dataset.shuffle(17, seed=5)


def _windows(dataset, parallel):
    return dataset.batch(3).map(lambda x: tf.reduce_sum(x), parallel)


def _flat(dataset, parallel):
    return dataset.flat_map(lambda x: tf.data.Dataset.from_tensors(x).repeat(2))


MORE = [_windows, _flat, lambda d, p: d.prefetch(3), lambda d, p: d.skip(4),
        lambda d, p: d.shard(2, 1),
        lambda d, p: d.repeat(2), lambda d, p: d.take(60), _shuffled, _noisy]


def pipeline(seed, parallel):
    """At least five stages, among them a shuffle, an interleave, a filter and a random map."""
    rng = random.Random(seed)
    stages = [_noisy, _filtered, _interleaved, _shuffled]
    for _ in range(rng.randint(1, 4)):
        stages.append(rng.choice(MORE))
    rng.shuffle(stages)
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(rng.randint(20, 40))) \
        if rng.random() < 0.5 else tf.data.Dataset.range(rng.randint(20, 40))
    for stage in stages:
        dataset = stage(dataset, parallel)
    return dataset.batch(rng.randint(1, 4)).prefetch(2).take(80)


class Reading:
    """A pipeline being read in a graph and session of its own."""

    def __init__(self, seed, parallel):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(seed + 1)
            iterator = pipeline(seed, parallel).make_initializable_iterator()
            self.following = iterator.get_next()
            saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
            tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
            self.saver = tf.train.Saver()
            self.state = saveable.specs[0].tensor
            self.given = tf.placeholder(tf.string, [])
            self.load = saveable.restore([self.given], None)
        self.sess = tf.Session(graph=self.graph)
        self.sess.run(iterator.initializer)

    def read(self, most=1 << 30):
        """Digests of the elements, until the end."""
        found = []
        while len(found) < most:
            try:
                value = self.sess.run(self.following)
            except tf.errors.OutOfRangeError:
                break
            found.append(hashlib.sha256(np.ascontiguousarray(value)).hexdigest())
        return found


def read_on(seed, parallel, checkpoint, log):
    """Reads pipeline `seed` from its checkpoint on, if there is one, to its end: a line of the file
    `log` and a checkpoint after each element."""
    reading = Reading(seed, parallel)
    if os.path.exists(checkpoint + ".n"):
        with open(checkpoint + ".n") as f:
            done = int(f.read())
        reading.saver.restore(reading.sess, f"{checkpoint}-{done}")
    else:
        done = 0
    with open(log, "a") as out:
        while True:
            digests = reading.read(1)
            if not digests:
                break
            done += 1
            print(done, digests[0], file=out, flush=True)
            reading.saver.save(reading.sess, checkpoint, done, write_meta_graph=False)
            with open(checkpoint + ".tmp", "w") as f:
                f.write(str(done))
            os.replace(checkpoint + ".tmp", checkpoint + ".n")
        print("end", done, file=out, flush=True)


def main():
    """A process for each line of stdin, the arguments of read_on: its number, and when it has ended
    its status.  It is forked off one that has built a graph and opened a session, but run nothing:
    what is loaded for that would take most of the time of a process that is soon killed."""
    with tf.Graph().as_default():
        iterator = pipeline(0, 2).make_initializable_iterator()
        tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        tf.Session().close()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            read_on(*json.loads(line))
            os._exit(0)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


if __name__ == "__main__":
    main()
