"""Pipelines drawn from seeds, read by several threads and sessions at once, cut short and gone on
from saved states: their elements stay the same.

    python tests/data/random_pipelines.py --count 200 --seed 1
    python tests/fuzz/sanitize.py thread --script ../data/random_pipelines.py --count 200

Each is read whole on one thread; then with 1, 2 or 8 parallel calls by several Python threads that
share one iterator (the same elements, in any order); then in pieces, of which each begins in a
session of its own from the state that the one before left, while a last read is cut off by its
deadline or by closing the session.
"""
import argparse
import collections
import concurrent.futures
import random
import sys

import pyflow as tf
from pipelines import Reading


def read_by_threads(seed, parallel, threads):
    """How often each element was read by `threads` threads that share an iterator."""
    reading = Reading(seed, parallel)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda _: reading.read(), range(threads)))
    reading.sess.close()
    return collections.Counter(digest for part in found for digest in part)


def read_in_pieces(seed, rng):
    """The digests, read in sessions that each go on from the state of the one before."""
    found, state = [], None
    while True:
        reading = Reading(seed, rng.choice((1, 2, 8)))
        if state is not None:
            reading.sess.run(reading.load, {reading.given: state})
        wanted = rng.randrange(1, 30)
        found += reading.read(wanted)
        state = reading.sess.run(reading.state)
        ended = not reading.read(1)
        cut_off(reading, rng)
        if ended:
            return found
        if len(found) > 1000:
            raise AssertionError(f"pipeline {seed} has no end")


def cut_off(reading, rng):
    """Ends reads that are under way: by a deadline, and by closing the session."""
    options = tf.RunOptions(timeout_in_ms=1)

    def read():
        value = None
        try:
            while True:
                value = reading.sess.run(reading.following, options=options)
        except (tf.errors.OutOfRangeError, tf.errors.DeadlineExceededError,
                tf.errors.CancelledError, RuntimeError):
            return value
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for _ in range(rng.randrange(3)):
            pool.submit(read)
        reading.sess.close()


def check(seed):
    """What is wrong with pipeline `seed`; "" if nothing is."""
    rng = random.Random(seed)
    whole = Reading(seed, 1).read()
    parallel, threads = rng.choice((1, 2, 8)), rng.choice((2, 3, 5))
    if read_by_threads(seed, parallel, threads) != collections.Counter(whole):
        return f"other elements for {threads} threads, {parallel} parallel calls"
    if read_in_pieces(seed, rng) != whole:
        return "other elements from saved states"
    return ""


def main(count, seed):
    """Checks `count` pipelines; how many were wrong."""
    failed = 0
    for k in range(count):
        wrong = check(seed * 10**6 + k)
        if wrong:
            failed += 1
            print(f"pipeline {seed * 10**6 + k}: {wrong}", file=sys.stderr, flush=True)
    print(f"{count} pipelines, {failed} failed")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    sys.exit(1 if main(**vars(parser.parse_args())) else 0)
