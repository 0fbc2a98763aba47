"""Peak memory of a training step, pyflow beside TensorFlow and torch: each in a process of its own.

    python benchmarks/memory.py --tf TF_PYTHON [--model resnet50] [--threads 1] [--json out.json]
    python benchmarks/memory.py --tf TF_PYTHON --torch TORCH_PYTHON --model train_lenet  # of cases.py

Figures of one process: `rss`, the peak resident size (VmHWM, reset before) during some steps
minus what was resident before the first one (the variables are initialised; their momenta may still
share one buffer of zeros, which a step then parts: that counts as the step's); `allocator`, the
most bytes the system's own allocator had handed out at once during a step minus what lived before
it (pyflow: its counters; TensorFlow: the allocations and releases of a full trace, replayed in time); seconds
of the best later step.
"""

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import time

import resultfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 3


def status(key):
    """Bytes of a line of /proc/self/status."""
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def reset_peak_rss():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def trim():
    """Free heap pages go back to the system, so that they do not hide a step's."""
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def replayed_peak(metadata):
    """The peak of a full trace's allocations (bytes, microseconds) of the CPU allocator."""
    events = []
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                for record in memory.allocation_records:
                    events.append((record.alloc_micros, record.alloc_bytes))
    live = peak = 0
    for _, change in sorted(events):
        live += change
        peak = max(peak, live)
    return peak


class Pyflow:
    def __init__(self, threads):
        import pyflow as tf
        from pyflow import _executor

        self.tf, self.core, self.threads = tf, _executor, threads

    def session(self, rewrites):
        return self.tf.Session(config=self.tf.ConfigProto(
            intra_op_parallelism_threads=self.threads, inter_op_parallelism_threads=self.threads))

    def release(self):
        self.core.release_memory()

    def allocator_peak(self, session, run):
        before = self.core.memory_stats()["in_use"]
        self.core.reset_peak()
        run()
        return self.core.memory_stats()["peak"] - before


class TensorFlow:
    def __init__(self, threads):
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import logging

        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        tf.disable_resource_variables()
        tf.logging.set_verbosity(tf.logging.ERROR)
        self.tf, self.threads = tf, threads

    def session(self, rewrites):
        config = self.tf.ConfigProto(
            intra_op_parallelism_threads=self.threads, inter_op_parallelism_threads=self.threads)
        if not rewrites:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            config.graph_options.optimizer_options.opt_level = -1
        return self.tf.Session(config=config)

    def release(self):
        pass

    def allocator_peak(self, session, run):
        metadata = self.tf.RunMetadata()
        full = self.tf.RunOptions(trace_level=self.tf.RunOptions.FULL_TRACE)
        run(options=full, run_metadata=metadata)
        return replayed_peak(metadata)


def measure(system, model, rewrites):
    import memory_models

    tf = system.tf
    train, loss = memory_models.MODELS[model](tf)
    session = system.session(rewrites)
    session.run(tf.global_variables_initializer())

    def run(**more):
        return session.run([loss, train], **more)[0]

    system.release()
    trim()
    before = status("VmRSS")
    reset_peak_rss()
    losses = [float(run()) for _ in range(STEPS)]
    rss = status("VmHWM") - before
    allocator = system.allocator_peak(session, run)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    variables = 4 * sum(
        int(v.shape.num_elements()) for v in tf.global_variables() if v.shape.num_elements())
    return {"rss": rss, "allocator": allocator, "seconds": best, "variables": variables,
            "losses": losses, "version": tf.__version__}


def measure_case(name, system):
    """The resident size of a training step of cases.py or torch_cases.py, one thread."""
    if name == "torch":
        import torch_cases as cases

        work = cases.CASES[system]()
    else:
        import cases

        found = (Pyflow if name == "pyflow" else TensorFlow)(1)
        work = cases.CASES[system](found.tf)
        found.release()
    trim()
    before = status("VmRSS")
    reset_peak_rss()
    seconds = []
    for _ in range(2 * STEPS):
        start = time.perf_counter()
        work.run()
        seconds.append(time.perf_counter() - start)
    return {"rss": status("VmHWM") - before, "seconds": min(seconds)}


def ask(python, name, asked, rewrites=True):
    """One measurement in a fresh process -> dict, with `error` if it failed."""
    command = [python, str(HERE / "memory.py"), "--worker", name, "--model", asked.model,
               "--threads", str(asked.threads)] + ([] if rewrites else ["--no-rewrites"])
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = found.stdout.strip().splitlines()
    if found.returncode or not lines:
        return {"error": found.stderr.strip()[-2000:] or f"exit {found.returncode}"}
    return json.loads(lines[-1])


def compare(asked):
    """-> {peer: figures}: pyflow, TensorFlow as it is, TensorFlow without its rewrites."""
    found = {"pyflow": ask(sys.executable, "pyflow", asked)}
    if asked.torch and asked.model.startswith("train_"):
        found["torch"] = ask(asked.torch, "torch", asked)
    if asked.tf:
        found["tf"] = ask(asked.tf, "tf", asked)
    if asked.tf and not asked.model.startswith("train_"):
        found["tf_plain"] = ask(asked.tf, "tf", asked, rewrites=False)
    return found


def describe(found):
    """Lines that say what `compare` found."""
    for name, figures in found.items():
        if "error" in figures:
            yield f"{name:9s} {figures['error']}"
            continue
        if "allocator" not in figures:
            yield (f"{name:9s} rss +{figures['rss'] / 2**20:.1f} MB,"
                   f" {figures['seconds'] * 1e3:.2f} ms a step")
            continue
        yield (f"{name:9s} rss +{figures['rss'] / 2**20:.0f} MB, allocator +"
               f"{figures['allocator'] / 2**20:.0f} MB, {figures['seconds'] * 1e3:.0f} ms a step"
               f" (variables {figures['variables'] / 2**20:.0f} MB, losses"
               f" {', '.join(f'{x:.4f}' for x in figures['losses'])})")


def case(tf_python, model="resnet50", threads=1, torch_python=None):
    """For run.py: {peer: figures} of one model, and its lines."""
    found = compare(argparse.Namespace(
        tf=tf_python, torch=torch_python, model=model, threads=threads))
    return found, list(describe(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tf", metavar="PYTHON", help="a Python with TensorFlow")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--worker", choices=["pyflow", "tf", "torch"], help=argparse.SUPPRESS)
    parser.add_argument("--no-rewrites", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker and asked.model.startswith("train_"):
        print(json.dumps(measure_case(asked.worker, asked.model)))
        return
    if asked.worker:
        system = (Pyflow if asked.worker == "pyflow" else TensorFlow)(asked.threads)
        print(json.dumps(measure(system, asked.model, not asked.no_rewrites)))
        return
    found = compare(asked)
    print("\n".join(describe(found)))
    if asked.json:
        resultfile.write(asked.json, found)


if __name__ == "__main__":
    main()
