"""The same work in torch, eager, one thread."""

import numpy as np
import torch
import torch.nn.functional as F

from cases import TEN, Work, ptb_data, repeated

torch.set_num_threads(1)
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def add_chain():
    x, one = torch.zeros(()), torch.ones(())

    def run():
        y = x
        for _ in range(10_000):
            y = y + one

    return Work(run, 10_000, None, None)


@case
def one_add_callable():
    x = torch.from_numpy(TEN)
    return Work(repeated(lambda: (x + x)), 200, None, None)


@case
def one_add_run():
    """From and to NumPy."""
    return Work(
        repeated(lambda: (torch.from_numpy(TEN) + torch.from_numpy(TEN)).numpy()), 200, None, None
    )


@case
def while_counter(steps=10_000):
    def run():
        i = torch.zeros((), dtype=torch.int32)
        while i < steps:
            i = i + 1

    return Work(run, steps, None, None)


@case
def while_matmul(steps=5_000):
    x = w = torch.eye(10)

    def run():
        y = x
        for _ in range(steps):
            y = y @ w

    return Work(run, steps, None, None)


@case
def while_gradient(steps=1_000):
    x, w = torch.tensor(1.0, requires_grad=True), torch.tensor(1.0001, requires_grad=True)

    def run():
        y = x
        for _ in range(steps):
            y = y * w
        torch.autograd.grad(y, [x, w])

    return Work(run, steps, None, None)


def training(model, batch, rate=0.01):
    rng = np.random.default_rng(0)
    images, labels = rng.random((batch, 784)).astype(np.float32), rng.integers(0, 10, batch)
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), rate)

    def run():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(torch.from_numpy(images)), torch.from_numpy(labels))
        loss.backward()
        optimizer.step()
        return loss.item()

    return Work(run, 1, None, None)


@case
def train_softmax():
    return training(lambda: torch.nn.Linear(784, 10), 100)


@case
def train_mlp():
    return training(
        lambda: torch.nn.Sequential(
            torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)
        ),
        100,
    )


@case
def train_lenet():
    nn = torch.nn
    return training(
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(7 * 7 * 64, 1024),
            nn.ReLU(),
            nn.Linear(1024, 10),
        ),
        64,
    )


class Ptb(torch.nn.Module):
    """torch's own fused LSTM."""

    def __init__(self, units=200, layers=2, words=10_000):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, units)
        self.lstm = torch.nn.LSTM(units, units, layers, batch_first=True)
        self.head = torch.nn.Linear(units, words)
        for p in self.parameters():
            torch.nn.init.uniform_(p, -0.1, 0.1)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0].reshape(-1, self.head.in_features))


@case
def train_ptb():
    x, y = (torch.from_numpy(a).long() for a in ptb_data())
    torch.manual_seed(0)
    net = Ptb()
    optimizer = torch.optim.SGD(net.parameters(), 1.0)

    def run():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y.reshape(-1), reduction="sum") / len(x)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        return loss.item()

    return Work(run, 1, None, None)
