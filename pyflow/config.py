"""Every environment variable pyflow reads, in one table, and the logger everything writes to.

Invariants:
1. A variable is read when it is used, never at import; a malformed value is an error that names the
   variable and what it may be.
2. Importing is silent. Messages go to the standard logger "pyflow" (children "pyflow.session",
   ...); pyflow adds a handler only when PYFLOW_DEBUG asks for output and the program configured no
   logging.

Read-only apart from the environment; any thread.

    config.value("PYFLOW_THREADS")      # None, or an int >= 1
    python -c "import pyflow.config as c; print(c.table())"
"""

import logging
import os
from typing import NamedTuple


class Variable(NamedTuple):
    """One environment variable: how to read it and what it does."""

    name: str
    kind: str       # int, bool, path, words, or the words allowed: a|b|c
    default: object
    low: int
    high: int
    doc: str


_LADDER = ("How much to say: 0 nothing, 1 devices and plugins, 2 node timings, 3 scheduling, 4 "
           "shapes and values, 5 counters and frames. Each level includes the ones below.")

VARIABLES = {v.name: v for v in (
    Variable("PYFLOW_DEBUG", "int", 0, 0, 5, _LADDER),
    Variable("PYFLOW_DUMP", "path", None, 0, 0,
             "A folder: the graph is written there after each pass, 01-built, 02-pruned, ..."),
    Variable("PYFLOW_DATA", "path", None, 0, 0,
             "A folder with data sets: read_data_sets looks for MNIST in it, and in mnist below it, "
             "where the program's own folder lacks the files."),
    Variable("PYFLOW_THREADS", "int", None, 1, 4096,
             "Threads of the one pool; Session(threads=n) wins over it. Default: the CPUs this "
             "process may use (affinity and cgroup quota)."),
    Variable("PYFLOW_PARTITIONS", "one|device", "one", 0, 0,
             "Plans of a session's step: one, or one per device, joined by Send and Recv; "
             "Session(partitions=...) wins over it."),
    Variable("PYFLOW_PLACEMENT", "default|cost", "default", 0, 0,
             "How nodes without a device are placed; Session(placement=) wins over it. default: "
             "TensorFlow's rule; cost: where a simulated step ends earliest."),
    Variable("PYFLOW_CHECKPOINT_FORMAT", "pyflow|tensorflow", "pyflow", 0, 0,
             "What tf.train.Saver writes: pyflow's checkpoints, or TensorFlow's (V2); "
             "Saver(format=...) wins over it. Both are read."),
    Variable("PYFLOW_TRACE", "path", None, 0, 0,
             "A file: every step of the process is traced into it, for Perfetto and `python -m "
             "pyflow trace FILE`; %p becomes the process id, a name ending in .gz is compressed."),
    Variable("PYFLOW_TRACE_MB", "int", 64, 1, 65536,
             "How much PYFLOW_TRACE records, in MB of 64-byte records, before it stops."),
    Variable("PYFLOW_PROGRESS", "auto|bar|lines|off", "auto", 0, 0,
             "How long work shows its progress: a bar on standard error, lines in a log, or not at "
             "all. auto: a bar on a terminal or in a notebook, lines where INFO messages are shown, else nothing."),
    Variable("PYFLOW_SCHEDULE", "int", None, 0, 2**63 - 1,
             "A number that the order of execution is drawn from: each session runs its steps on the "
             "caller's thread alone, one node at a time, and replays the same order."),
    Variable("PYFLOW_CERTIFICATES", "path", None, 0, 0,
             "A folder with ca.pem, task.pem and task.key: servers and clients of this process show "
             "these certificates and ask for them; `python -m pyflow cluster make-certificates`."),
    Variable("PYFLOW_LINKS", "words", None, 0, 0,
             "Kinds of links between tasks, the best first, as in \"unix,tcp\", or none: what servers "
             "and clients of this process use beside gRPC; Server(links=) wins over it."),
    Variable("PYFLOW_PLUGIN_PROBE", "bool", True, 0, 0,
             "0: newly installed plugins are not tried in a process of their own before they are "
             "opened in this one."),
    Variable("PYFLOW_DEBUG_RUN", "bool", False, 0, 0,
             "1: sessions run op by op, in construction order; errors are raised at the line that "
             "made the op; Session(debug=...) wins over it."),
    Variable("PYFLOW_CHECK_NUMERICS", "bool", False, 0, 0,
             "1: NaN and Inf are errors that name the op they come from; "
             "Session(check_numerics=...) wins over it."),
    Variable("PYFLOW_STRICT_GRAPH", "bool", False, 0, 0,
             "1: adding ops to a graph that has run raises RuntimeError instead of warning once."),
    Variable("PYFLOW_CPU_ISA", "baseline|avx2|avx512", None, 0, 0,
             "The instruction set the CPU kernels use, at most what the CPU has: baseline, avx2 or "
             "avx512."),
    Variable("PYFLOW_CPU_WINOGRAD", "bool", True, 0, 0,
             "0: 3x3 convolutions with constant filters are summed plainly, at a third of the speed; "
             "their rounding error is then about half."),
)}

logger = logging.getLogger("pyflow")


def value(name):
    """The value of a variable of the table, or its default; ValueError if it is malformed."""
    variable = VARIABLES[name]
    text = os.environ.get(name, "").strip()
    if not text:
        return variable.default
    if variable.kind == "int":
        return _integer(variable, text)
    if variable.kind == "bool":
        if text.lower() not in _TRUTH:
            raise ValueError(f"{name}={text!r}: expected 0 or 1. {variable.doc}")
        return _TRUTH[text.lower()]
    if "|" in variable.kind and text not in variable.kind.split("|"):
        raise ValueError(f"{name}={text!r}: expected {variable.kind}. {variable.doc}")
    return text


_TRUTH = {"0": False, "false": False, "no": False, "off": False,
          "1": True, "true": True, "yes": True, "on": True}


def _integer(variable, text):
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not variable.low <= number <= variable.high:
        raise ValueError(f"{variable.name}={text!r}: expected a whole number from {variable.low} "
                         f"to {variable.high}. {variable.doc}")
    return number


def debug_level():
    """PYFLOW_DEBUG, with output arranged for if it is not 0."""
    level = value("PYFLOW_DEBUG")
    if level:
        _show_messages()
    return level


def _show_messages():
    if logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)


def table():
    """The variables as text: name, kind, default, meaning, and the value now if it is set."""
    lines = []
    for variable in VARIABLES.values():
        lines.append(f"{variable.name} ({variable.kind}, default {variable.default})")
        lines.append(f"    {variable.doc}")
        if os.environ.get(variable.name):
            lines.append(f"    now: {os.environ[variable.name]}")
    return "\n".join(lines)
