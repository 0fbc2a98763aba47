"""RunMetadata of a traced step: StepStats as TensorFlow's, for tf.profiler-like tools and
timeline.Timeline.

What goes where in NodeExecStats:

    scheduled_*   the block of the kernel became ready      all_start_*   its kernel began
    op_end_rel_*  the kernel returned, or called done        all_end_rel_*  outputs were delivered
    thread_id     the system's thread number; names in DeviceStepStats.thread_names
    timeline_label  "node [frame:iteration] = Op(inputs)", the brackets only inside loops
    output        dtype, shape and bytes of each output; scalars have an empty shape
    memory        bytes of the outputs, and the allocator's bytes in use afterwards; not of nodes
                  that allocate nothing: Identity, Const, the nodes of loops and conditions

Micros are of the wall clock, as TensorFlow's.  A device with streams has entries of its own,
"<device>/stream:compute".  Kernels of one device stand in the order in which they began.

The message is written by _executor/api/step_stats.pyx, which has one place for each of the above,
when a tf.RunMetadata is first read (framework/run_metadata.py), and at once where a message of
another class was given.  Until then it holds the records of its last run, at most 2^20 of 64 bytes
in chunks of 16 KB, one at least per thread, and the names of the plan's nodes.

Threads: any.

    trace = executor.Trace(level_of(options))
    plan.run(feeds, trace=trace)
    fill(run_metadata, trace)
"""
import functools
import weakref

from pyflow.session import runtime, trace_records

LEVELS = {1: 1, 2: 3, 3: 3}                       # RunOptions.TraceLevel -> detail of the core's


def level_of(options):
    """The detail to trace with for RunOptions: 0 none, 1 blocks, 3 kernels."""
    return LEVELS.get(int(getattr(options, "trace_level", 0) or 0), 0)


_elsewhere = weakref.WeakKeyDictionary()        # Trace: what the step's other tasks recorded


def add_elsewhere(trace, data):
    """Bytes of a RunMetadata with what another task recorded in a step that `trace` is of."""
    _elsewhere.setdefault(trace, []).append(data)


def weakly(run_metadata):
    """A weak reference to a tf.RunMetadata; None of a message of another class."""
    return weakref.ref(run_metadata) if hasattr(run_metadata, "_fill_later") else None


def fill(run_metadata, trace=None, graphs=()):
    """Replaces what is in a RunMetadata by the StepStats of a core Trace, whose steps are over, and
    serialized GraphDefs; a tf.RunMetadata makes them later."""
    write = None
    if trace is not None:
        write = runtime.executor().StepStats(trace, _lane_names).write
        others = _elsewhere.pop(trace, None)
        if others:
            write = functools.partial(_write_others, others, write)
    if graphs:
        write = functools.partial(_write_graphs, graphs, write)
    fill_later = getattr(run_metadata, "_fill_later", None)
    if fill_later is not None:
        fill_later(write)
    else:
        run_metadata.Clear()
        if write is not None:
            write(run_metadata)
    return run_metadata


def _write_others(others, write, message):
    write(message)
    for data in others:
        message.MergeFromString(data)


def _write_graphs(graphs, write_stats, message):
    if write_stats is not None:
        write_stats(message)
    for data in graphs:
        message.partition_graphs.add().ParseFromString(data)


def _lane_names():
    """[(thread id, name)] by lane."""
    return [(thread & 0xFFFFFFFF, name.encode()) for thread, name in trace_records.lanes()]
