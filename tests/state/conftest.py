"""A fresh graph per test; threads that start together and report what they raised."""
import threading

import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def together(*functions, seconds=60):
    """Runs the functions at once, a thread each; their results, or the first exception."""
    barrier, results, failures = threading.Barrier(len(functions)), [None] * len(functions), []

    def work(k):
        try:
            barrier.wait(seconds)
            results[k] = functions[k]()
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]
    return results


@pytest.fixture(name="together")
def together_fixture():
    return together
