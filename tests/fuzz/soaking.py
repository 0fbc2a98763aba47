"""What soaks share: steps of many kinds drawn by two threads in rounds, between which everything
rests and what is alive is counted.

    class Mine(soaking.Soak):
        def alive(self): return {"rss": ...}
    before, after = soaking.soak(Mine([("name", function, weight), ...], seed), steps, first, say)

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


def soak(made, steps, first, shown=lambda alive: ""):
    """What was alive at step `first` and is at the end; prints a line now and then, with what
    shown() says."""
    done, start, before, every = 0, time.perf_counter(), None, max(ROUND, steps // 20)
    while done < steps:
        made.round()
        done += ROUND
        if before is None and done >= first:
            before = made.alive()
            print(f"step {done}: {before}", flush=True)
        elif done % every == 0:
            print(f"step {done}: {time.perf_counter() - start:.0f} s{shown(made)}", flush=True)
    after = made.alive()
    print(f"step {done}, {time.perf_counter() - start:.0f} s: {after}\n"
          f"steps by kind: {dict(sorted(made.counts.items()))}")
    return before, after


def arguments(description, first, growth):
    """The parser of a soak's command line."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--from", dest="first", type=int, default=first)
    parser.add_argument("--growth", type=int, default=growth, help="bytes RSS may grow")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def with_plain_allocators():
    """Begins this program anew if memory it has freed would stay with it."""
    if any(os.environ.get(name) != value for name, value in ALLOCATORS.items()):
        os.environ.update(ALLOCATORS)
        os.execv(sys.executable, [sys.executable, *sys.argv])
