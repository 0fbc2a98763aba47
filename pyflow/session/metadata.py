"""RunMetadata of a traced step: StepStats as TensorFlow's, for tf.profiler-like tools and
timeline.Timeline.

What goes where in NodeExecStats:

    scheduled_*   the block of the kernel became ready      all_start_*   its kernel began
    op_end_rel_*  the kernel returned, or called done        all_end_rel_*  outputs were delivered
    thread_id     the system's thread number; names in DeviceStepStats.thread_names
    timeline_label  "node [frame:iteration] = Op(inputs)", the brackets only inside loops
    output        dtype, shape and bytes of each output
    memory        bytes of the outputs, and the allocator's bytes in use afterwards; not of nodes
                  that allocate nothing: Identity, Const, the nodes of loops and conditions

Micros are of the wall clock, as TensorFlow's.  A device with streams has entries of its own,
"<device>/stream:compute".  Kernels of one thread stand in the order in which they began.

The message is written by _executor/api_step_stats.pxi, which has one place for each of the above.
Protobuf's parser takes most of the time, so where there are many kernels and a second CPU a thread
fills in what has been recorded while the step still runs, and only the last of it is left.

Threads: any.

    filling = metadata.Filling(run_metadata, trace, kernels_last_time, threads)
    plan.run(feeds, trace=trace)
    kernels = filling.finish()
"""
import os
import queue
import threading
import time

from pyflow.session import runtime, trace_records
from pyflow.session import threads as threads_lib

LEVELS = {1: 1, 2: 3, 3: 3}                       # RunOptions.TraceLevel -> detail of the core's
MANY = 500                                        # kernels: their message takes 150 us
SHORTEST_NAP, LONGEST_NAP = 0.0004, 0.005         # s; kernels of 2.7 us fill a chunk in 0.3 ms


def level_of(options):
    """The detail to trace with for RunOptions: 0 none, 1 blocks, 3 kernels."""
    return LEVELS.get(int(getattr(options, "trace_level", 0) or 0), 0)


class Filling:
    """A RunMetadata that gets the StepStats of a core Trace.

    kernels: how many the steps may run; threads: how many those use.  Where it is worth it the
    filler's thread begins at once.

    `_lock` guards `_stats` and `_filled`; the caller alone sets `_over`, the thread `_failure`.
    """

    __slots__ = ("_stats", "_filled", "_lock", "_over", "_failure")

    def __init__(self, run_metadata, trace, kernels=0, threads=0):
        before = len(run_metadata.step_stats.dev_stats)

        def merge_more(number, data):
            run_metadata.step_stats.dev_stats[before + number].MergeFromString(data)
        self._stats = runtime.executor().StepStats(
            trace, _lane_names, _inputs, run_metadata.MergeFromString, merge_more)
        self._filled, self._lock, self._over, self._failure = 0, None, False, None
        if kernels >= MANY and _a_cpu_is_spare(threads):
            self._lock = threading.Lock()
            _filler_queue().put(self)

    def more(self):
        """Fills in what has surely been recorded of steps that run -> how many kernels."""
        found = self._stats.more()
        self._filled += found
        return found

    def follow(self):
        """Fills in more and more until `finish` is called; on the filler's thread."""
        nap = SHORTEST_NAP
        while not self._over:
            time.sleep(nap)
            with self._lock:
                try:
                    found = 0 if self._over else self.more()
                except BaseException as e:        # for finish, on the caller's thread
                    self._failure = e
                    return
            nap = SHORTEST_NAP if found else min(2 * nap, LONGEST_NAP)

    def finish(self):
        """Fills in the rest of steps that are over -> how many kernels there were."""
        if self._lock is None:
            return self._filled + self._stats.finish()
        self._over = True
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return self._filled + self._stats.finish()


def fill(run_metadata, trace):
    """Adds the StepStats of a core Trace, whose steps are over, to a RunMetadata."""
    Filling(run_metadata, trace).finish()
    return run_metadata


# ------------------------------------------------------------ the filler
_queue = None                                     # of the thread, which stays: a start takes 60 us
_start_lock = threading.Lock()


def _filler_queue():
    global _queue
    with _start_lock:
        if _queue is None:
            waiting = queue.SimpleQueue()
            threading.Thread(target=_fill_each, args=(waiting,), name="pyflow-metadata",
                             daemon=True).start()
            _queue = waiting
    return _queue


def _fill_each(waiting):
    while True:
        waiting.get().follow()


def _after_fork():
    global _queue, _start_lock
    _queue, _start_lock = None, threading.Lock()  # a child has neither the thread nor who held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


_cpus = None


def _a_cpu_is_spare(threads):
    """For steps of so many threads.  With all of two CPUs at work the thread costs 3 %; of four one
    is idle often enough."""
    global _cpus
    if _cpus is None:
        _cpus = threads_lib.available_threads()
    return _cpus > threads or _cpus >= 4


def _inputs(plan):
    return trace_records.plan_info(plan).inputs


_names = []


def _lane_names():
    """[(thread id, name)] by lane: a lane stays with its thread, so they are asked for when there
    are new ones."""
    global _names
    if len(_names) < runtime.executor().trace_lane_count():
        _names = [(thread & 0xFFFFFFFF, name.encode()) for thread, name in trace_records.lanes()]
    return _names
