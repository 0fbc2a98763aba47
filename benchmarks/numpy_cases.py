"""NumPy itself: the floor of one add, and of a training step's arithmetic."""

import numpy as np

from cases import TEN, Work, repeated

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def one_add_callable():
    x, y = TEN, TEN.copy()
    return Work(repeated(lambda: x + y), 200, None, None)


@case
def one_add_run():
    return one_add_callable()


@case
def train_mlp():
    """The three matrix products forward and backward, ReLU and softmax, without autograd."""
    rng = np.random.default_rng(0)
    x = rng.random((100, 784)).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 100)]
    w, v = (rng.standard_normal(s).astype(np.float32) * 0.05 for s in ((784, 100), (100, 10)))

    def run():
        hidden = np.maximum(x @ w, 0)
        e = np.exp(hidden @ v)
        d = (e / e.sum(1, keepdims=True) - labels) / 100
        dh = (d @ v.T) * (hidden > 0)
        np.subtract(v, 0.01 * (hidden.T @ d), out=v)
        np.subtract(w, 0.01 * (x.T @ dh), out=w)

    return Work(run, 1, None, None)
