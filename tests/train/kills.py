"""examples/mnist_tutorial.py killed with SIGKILL again and again: each training ends with the bits of
one that was left alone.

    python tests/train/kills.py [--kills 300] [--steps 1000] [--save-steps 10] [--seed 1]

A kill comes at one of three moments, drawn anew for each start: soon after a new checkpoint, while one
is being written (a file that belongs to no checkpoint of the index yet), or after a time, whatever has
happened by then, so that several kills may follow each other without a step between them.  A
training that comes to its end is compared, and the next begins in a folder of its own.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "mnist_tutorial.py"


class Training:
    """Starts and kills of one training; `steps`, `every`: its length, and steps between checkpoints."""

    def __init__(self, folder, steps, every):
        self.folder = folder
        self._command = [sys.executable, str(EXAMPLE), "--logdir", str(folder), "--steps",
                         str(steps), "--save-steps", str(every)]
        self._environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}

    def start(self):
        return subprocess.Popen(self._command, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self._environment)

    def _saved(self):
        return set(self.folder.glob("model.ckpt-*.index"))

    def _pieces(self):
        """Files of checkpoints that have no index, so are not whole."""
        return {path for path in self.folder.glob("model.ckpt-*")
                if not path.with_name(path.name.partition(".data")[0] + ".index").exists()}

    def kill(self, rng):
        """Starts and kills; -> the moment, or (sha256, accuracy) if the end came first."""
        moment = rng.choice(["saved", "saving", "any"])
        before, pieces, process = self._saved(), self._pieces(), self.start()
        limit = time.monotonic() + (rng.uniform(0, 1.5) if moment == "any" else 600)
        while process.poll() is None and time.monotonic() < limit and not (
                moment == "saved" and self._saved() - before
                or moment == "saving" and self._pieces() - pieces):
            time.sleep(0.0005)
        if moment == "saved":
            time.sleep(rng.uniform(0, 0.05))
        if process.poll() is not None:
            return finish(process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return moment


def finish(process):
    """(sha256 of all variables, accuracy) that a training ends with."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return re.search(r"sha256 of all variables (\w+)", out)[1], float(
        re.search(r"test accuracy ([\d.]+)", out)[1])


def run(folder, kills, steps, every, seed):
    """(what the undisturbed training ends with, [what each killed one does], Counter of moments)."""
    whole = finish(Training(folder / "whole", steps, every).start())
    rng, done, ends = random.Random(seed), collections.Counter(), []
    while sum(done.values()) < kills:
        training, end = Training(folder / f"killed{len(ends)}", steps, every), None
        while end is None:
            found = training.kill(rng) if sum(done.values()) < kills else finish(training.start())
            if isinstance(found, str):
                done[found] += 1
            else:
                end = found
        ends.append(end)
    return whole, ends, done


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, ends, done = run(pathlib.Path(folder), args.kills, args.steps, args.save_steps,
                                args.seed)
    wrong = [end for end in ends if end != whole]
    print(f"undisturbed: {whole[0]}, accuracy {whole[1]}; {sum(done.values())} kills "
          f"({', '.join(f'{n} {moment}' for moment, n in sorted(done.items()))}) of {len(ends)} "
          f"trainings of {args.steps} steps: {len(wrong)} ended otherwise")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
