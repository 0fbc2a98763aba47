"""python -m pyflow verify-resume --dir DIR SCRIPT [ARGUMENT ...]: does a killed training end as one
that was left alone?

SCRIPT trains in tf.train.MonitoredTrainingSession (or MonitoredSession, Supervisor) with its
checkpoints in DIR, which is emptied. It is run once undisturbed, then killed (SIGKILL) at random
moments and started again, --kills times, and let end. Each variable's bits at the end are compared;
where they differ, what state of the graph no checkpoint has is named.

Invariant: only DIR is changed. Threads: a command of its own; the script runs in child processes.
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

REPORT = "PYFLOW_RESUME_REPORT"         # where a child writes what it ended with


def main(argv):
    """Returns 0 if all variables agree, 1 if not, 2 if it could not be found out."""
    asked = _parser().parse_args(argv)
    if not asked.program:
        print("python -m pyflow verify-resume: expected a SCRIPT", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as passing:
        report = os.path.join(passing, "report.json")
        began = time.monotonic()
        whole = _run(asked, report)
        if whole is None:
            return 2
        seconds = time.monotonic() - began
        print(f"undisturbed: {len(whole['variables'])} variables after {seconds:.1f} s", flush=True)
        _empty(asked.dir)
        os.remove(report)               # the undisturbed run's
        kills, ended = _kill_on(asked, report, seconds)
        parted = _read(report) if ended else _last_run(asked, report, whole)
        if parted is None:
            return 2
        print(f"killed {kills} times: {len(parted['variables'])} variables", flush=True)
    return _compare(whole, parted)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow verify-resume",
                                     description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--dir", required=True, help="the folder of checkpoints; it is emptied")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT")
    return parser


def _empty(folder):
    if os.path.isdir(folder):
        shutil.rmtree(folder)


def _start(asked, report):
    return subprocess.Popen(
        [sys.executable, "-m", "pyflow.tools.resume_child", *asked.program],
        env={**os.environ, REPORT: report}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)


def _run(asked, report):
    """What a run that is let end says it ended with; None, and why on stderr, where it did not."""
    _empty(asked.dir)
    text = _let_end(asked, report)
    if text is None:
        return None
    if not os.path.exists(report):
        return _not_found_out(asked, text, "no monitored session or supervisor of it ended")
    return _read(report)


def _last_run(asked, report, whole):
    """As _run, after the kills.  A killed run may have trained to the end, and the last one had
    nothing to do then: what counts is the killed one's report or, where it did not come to that,
    its last checkpoint."""
    text = _let_end(asked, report)
    if text is None:
        return None
    if os.path.exists(report):
        return _read(report)
    saved = _saved(asked.dir)
    lacking = whole["variables"].keys() - saved
    if lacking:
        return _not_found_out(asked, text, (
            "no monitored session or supervisor of it ended after the last kill, and the last "
            f"checkpoint lacks {sorted(lacking)[0]!r}; another --seed kills at other moments"))
    return {"variables": saved}


def _let_end(asked, report):
    """What it printed, or None, and its exit status on stderr."""
    process = _start(asked, report)
    text, _ = process.communicate()
    if process.returncode:
        return _not_found_out(asked, text, f"exit status {process.returncode}")
    return text


def _not_found_out(asked, text, why):
    print(f"{text}\npython -m pyflow verify-resume: {asked.program[0]}: {why}", file=sys.stderr)


def _saved(folder):
    """The sha256 of each tensor in the folder's last checkpoint, by name."""
    from pyflow.train import checkpoint_state, checkpoint_values
    path = checkpoint_state.latest_checkpoint(folder)
    if path is None:
        return {}
    reader = checkpoint_values.load_checkpoint(path)
    return {name: hashlib.sha256(reader.get_tensor(name).tobytes()).hexdigest()
            for name in reader.get_variable_to_shape_map()}


def _read(report):
    with open(report, encoding="utf-8") as file:
        return json.load(file)


def _kill_on(asked, report, seconds):
    """Starts and kills; how often it was killed, and whether it ended with a report.  One that ends
    before it was killed at all shows nothing: another begins, and is killed earlier."""
    rng, kills = random.Random(asked.seed), 0
    while kills < asked.kills:
        process = _start(asked, report)
        try:
            process.communicate(timeout=rng.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        if kills or process.returncode or not os.path.exists(report):
            return kills, process.returncode == 0 and os.path.exists(report)
        seconds *= 0.7
        _empty(asked.dir)
        os.remove(report)
    return kills, False


def _compare(whole, parted):
    differ = [name for name, bits in whole["variables"].items()
              if parted["variables"].get(name) != bits]
    unsaved = whole["unsaved"]
    if not differ:
        print("equal: all variables have the same bits")
        for text in unsaved:
            print(f"  not saved, without effect here: {text}")
        return 0
    print(f"{len(differ)} variables differ: {', '.join(differ[:20])}"
          + (" ..." if len(differ) > 20 else ""))
    for text in unsaved or ["nothing that is known: does the script use numbers of its own (NumPy, "
                            "random, time), or feed data that does not begin where it stood?"]:
        print(f"  not saved: {text}")
    return 1
