"""Calls every op with bad arguments, in child processes: a typed error or an answer, never a
crash, a hang or 1 GB.

    python tests/fuzz_ops/run.py --count 10000          # long.py fuzz-ops: so many of each op
    python tests/fuzz_ops/run.py --count 1000 --sanitize       # under AddressSanitizer and UBSan
    python tests/fuzz_ops/run.py --ops Qr,Svd --count 100000 --seed 3
    python tests/fuzz_ops/run.py --again Qr 17 4               # one call alone, printed

The CPU plugin picks the best instruction set there is; PYFLOW_CPU_ISA=baseline or avx2 in the
environment fuzzes another one's kernels.  A child that dies is replaced; the new one goes on behind
the fatal call.  Memory is limited by RLIMIT_AS (sanitized: by the allocator), to 1 GB beyond what
the process has before its first call.  A call that takes more than HANG seconds of the processor
or ten times as many of the clock (it waits for ever) is killed.  Exit status
1 if there was a finding.
"""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

import psutil

HERE = pathlib.Path(__file__).resolve().parent
HANG = 60
MEGABYTES = 1024


def report_of(log):
    """The first lines of what a sanitizer or the interpreter said."""
    text = log.read_text(errors="replace")
    marks = ("ERROR: AddressSanitizer", "runtime error:", "Fatal Python error")
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if any(mark in line for mark in marks):
            return "\n    ".join(lines[i:i + 12])
    return "\n    ".join(lines[-3:])


class Watch:
    """One child after another, until all calls of `ops` are made."""

    def __init__(self, folder, name, ops, count, seed, env, megabytes, until):
        self.ops, self.count, self.seed = ops, count, seed
        self.env, self.megabytes, self.until = env, megabytes, until
        self.state, self.log = folder / f"state_{name}", folder / f"log_{name}"
        self.state.write_bytes(struct.pack("4q", 0, 0, -1, 0) + bytes(32))
        self.findings, self.out_of_time = [], False

    def where(self):
        return struct.unpack("4q", self.state.read_bytes()[:32])

    def run(self):
        while self.where()[0] < len(self.ops) and not self.out_of_time:
            before = self.where()
            code = self.run_child()
            place, group, call, _ = self.where()
            if self.out_of_time or code == 0:
                continue
            if (place, group, call) == before[:3] and before[3]:    # died before a new call
                self.skip_group(place, group)
            if place >= len(self.ops):
                break
            how = "hangs" if code == "hang" else f"crashes ({code})"
            self.tell(f"{self.ops[place]} {group} {call}: {how}\n    {report_of(self.log)}")
            self.crowded(place)
        return self.findings

    def crowded(self, place):
        """An op with many findings is not tried to the end."""
        mine = [f for f in self.findings if f.startswith(self.ops[place] + " ")]
        if len(mine) >= 5:
            _, _, _, done = self.where()
            self.write(place + 1, 0, -1, done)

    def skip_group(self, place, group):
        self.write(place, group + 1, -1, self.where()[3])

    def write(self, *four):
        with open(self.state, "r+b") as file:
            file.write(struct.pack("4q", *four))

    def tell(self, finding):
        self.findings.append(finding)
        print("FOUND", finding, flush=True)

    def run_child(self):
        command = [sys.executable, "-X", "faulthandler", HERE / "child.py", self.state,
                   ",".join(self.ops), self.count, self.seed, self.megabytes]
        with open(self.log, "wb") as log:
            child = subprocess.Popen([str(part) for part in command], env=self.env,
                                     stdout=subprocess.PIPE, stderr=log, text=True,
                                     start_new_session=True)
        os.set_blocking(child.stdout.fileno(), False)
        last, since, busy_since = None, time.monotonic(), 0.0
        while child.poll() is None:
            time.sleep(0.2)
            self.read(child)
            now, busy = self.where(), seconds_of(child)
            if now != last:
                last, since, busy_since = now, time.monotonic(), busy
            slow = HANG * (5 if last[3] == 0 else 1)        # the start takes its time
            if busy - busy_since > slow or time.monotonic() - since > 10 * slow:
                self.kill(child)
                return "hang"
            if self.until and time.monotonic() > self.until:
                self.out_of_time = True
                self.kill(child)
                return 0
        self.read(child)
        return child.returncode

    def read(self, child):
        try:
            for line in child.stdout.read().splitlines():
                self.tell(line.removeprefix("FOUND "))
        except (TypeError, AttributeError):                          # nothing there
            pass

    @staticmethod
    def kill(child):
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def seconds_of(child):
    """Of the processor, that it has taken; 0 where it is over."""
    try:
        return sum(psutil.Process(child.pid).cpu_times()[:2])
    except psutil.Error:
        return 0.0


def sanitized(folder):
    """(environment, folder of the build) with the plugin and the core under ASan and UBSan."""
    sys.path.insert(0, str(HERE.parent / "fuzz"))
    import sanitize
    folder.mkdir(parents=True, exist_ok=True)
    tree = sanitize.build(folder, "address", "all")
    env = sanitize.environment(folder, tree, "address")
    env["ASAN_OPTIONS"] = ("detect_leaks=0:halt_on_error=1:abort_on_error=1:handle_segv=1"
                           ":allocator_may_return_null=1:detect_stack_use_after_return=0"
                           f":max_allocation_size_mb={MEGABYTES}")
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1:abort_on_error=1"
    return env


def all_ops(env):
    code = (f"import sys; sys.path.insert(0, {str(HERE)!r}); import calls; "
            "print(','.join(calls.fuzzed_ops()))")
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                          check=True).stdout.strip().split(",")


def again(op, group, call, seed):
    """One call in this process, with everything printed."""
    sys.path.insert(0, str(HERE))
    import calls
    import pyflow as tf
    made = calls.Group(calls.fuzzed_ops()[op], seed, int(group))
    print(made)
    for array in made.feeds(int(call)):
        print(array.dtype, array.shape, array.ravel()[:40])
    with tf.Graph().as_default(), tf.Session() as session:
        outputs, placeholders = made.build()
        print(session.make_callable(list(outputs), placeholders)(*made.feeds(int(call))))


def main(count, seed, ops, sanitize, keep, minutes, part, jobs):
    folder = pathlib.Path(keep or tempfile.mkdtemp(prefix="pyflow-fuzz-ops-"))
    folder.mkdir(parents=True, exist_ok=True)
    env = sanitized(folder / "sanitized") if sanitize else dict(os.environ)
    env.update(OPENBLAS_NUM_THREADS="1", PYFLOW_PLUGIN_PROBE="0", PYFLOW_THREADS="1")
    names = ops.split(",") if ops else all_ops(env)
    first, parts = (int(n) for n in part.split("/"))
    names = names[first::parts]
    until = time.monotonic() + minutes * 60 if minutes else None
    watches = [Watch(folder, f"{part.replace('/', '_')}_{job}", names[job::jobs], count, seed, env,
                     0 if sanitize else MEGABYTES, until) for job in range(jobs)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        findings = sum(pool.map(Watch.run, watches), [])
    tried = sum(min(watch.where()[0], len(watch.ops)) for watch in watches)
    done = sum(watch.where()[3] for watch in watches)
    print(f"{tried} of {len(names)} ops, {done} calls, {len(findings)} findings"
          + (" (out of time)" if any(watch.out_of_time for watch in watches) else ""))
    return 1 if findings else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10**4, help="calls of each op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", help="names, joined by commas; default: all")
    parser.add_argument("--sanitize", action="store_true", help="under ASan and UBSan")
    parser.add_argument("--keep", help="a folder to work in, which stays")
    parser.add_argument("--minutes", type=float, help="stop then")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th op from the I-th on")
    parser.add_argument("--jobs", type=int, default=1, help="children at a time")
    parser.add_argument("--again", nargs=3, metavar=("OP", "GROUP", "CALL"))
    arguments = vars(parser.parse_args())
    one = arguments.pop("again")
    sys.exit(again(*one, arguments["seed"]) if one else main(**arguments))
