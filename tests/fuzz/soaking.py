"""What soaks share: steps of many kinds drawn by two threads in rounds, between which everything
rests and what is alive is counted.

    class Mine(soaking.Soak):
        def alive(self): return {"rss": ...}
    samples = soaking.soak(Mine([("name", function, weight), ...], seed), steps, first, say)

Callers: soak.py here and in tests/distributed.
"""
import argparse
import os
import random
import sys
import threading
import time

ROUND = 500
# Free memory in the interpreter's arenas, 1 MB each, and in libc's, one per thread, says nothing.
ALLOCATORS = {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1"}


def expect(error, run):
    """run() has to raise it."""
    try:
        run()
    except error:
        return
    raise AssertionError(f"expected {error.__name__}")


class Soak:
    """choices: [(name, function(random numbers), weight)]. Subclasses: `alive`."""

    def __init__(self, choices, seed):
        self._choices = [choice[:2] for choice in choices]
        self._weights = [choice[2] for choice in choices]
        self._rngs = [random.Random(seed), random.Random(seed + 1)]
        self._failure, self.counts = None, {}

    def _some(self, rng):
        try:
            for name, step in rng.choices(self._choices, self._weights, k=ROUND // 2):
                self.counts[name] = self.counts.get(name, 0) + 1
                step(rng)
        except BaseException as problem:            # told by the main thread
            self._failure = name, problem

    def round(self):
        """ROUND steps."""
        threads = [threading.Thread(target=self._some, args=(rng,)) for rng in self._rngs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure:
            raise AssertionError(f"step {self._failure[0]} failed") from self._failure[1]


def soak(made, steps, first, shown=lambda alive: "", looks=2):
    """[(step, what was alive then)], `looks` of them at equal distances from step `first` to the
    last; prints a line now and then, with what shown() says."""
    done, start, found, every = 0, time.perf_counter(), [], max(ROUND, steps // 20)
    wanted = [first + (steps - first) * k // (looks - 1) for k in range(looks)]
    while done < steps:
        made.round()
        done += ROUND
        if done >= wanted[len(found)] or done >= steps:
            found.append((done, made.alive()))
            print(f"step {done}, {time.perf_counter() - start:.0f} s: {found[-1][1]}", flush=True)
        elif done % every == 0:
            print(f"step {done}: {time.perf_counter() - start:.0f} s{shown(made)}", flush=True)
    print(f"steps by kind: {dict(sorted(made.counts.items()))}")
    return found


def slope(samples):
    """Of the straight line through [(x, y)] with the least squares."""
    x = sum(s[0] for s in samples) / len(samples)
    y = sum(s[1] for s in samples) / len(samples)
    return (sum((s[0] - x) * (s[1] - y) for s in samples)
            / max(1e-9, sum((s[0] - x) ** 2 for s in samples)))


def arguments(description, **options):
    """The parser of a soak's command line; options: further ones and their defaults, {name:
    (default, help)}."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    for name, (default, text) in options.items():
        parser.add_argument("--from" if name == "first" else f"--{name}", dest=name,
                            type=type(default), default=default, help=text)
    return parser


def with_plain_allocators():
    """Begins this program anew if memory it has freed would stay with it."""
    if any(os.environ.get(name) != value for name, value in ALLOCATORS.items()):
        os.environ.update(ALLOCATORS)
        os.execv(sys.executable, [sys.executable, *sys.argv])
