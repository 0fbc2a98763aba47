"""RunMetadata of a traced step: StepStats as TensorFlow's, for tf.profiler-like tools and
timeline.Timeline.

What goes where in NodeExecStats:

    scheduled_*   the block of the kernel became ready      all_start_*   its kernel began
    op_end_rel_*  the kernel returned, or called done        all_end_rel_*  outputs were delivered
    thread_id     the system's thread number; names in DeviceStepStats.thread_names
    timeline_label  "node [frame:iteration] = Op(inputs)", the brackets only inside loops
    output        dtype, shape and bytes of each output
    memory        bytes of the outputs, and the allocator's bytes in use afterwards; not of nodes that
                  allocate nothing: Identity, Const, the nodes of loops and conditions

Micros are of the wall clock, as TensorFlow's.  A device with streams has entries of its own,
"<device>/stream:compute".

The message is written by _executor/api_step_stats.pxi, which has one place for each of the above.

Threads: any.
"""
from pyflow.session import runtime, trace_records

LEVELS = {1: 1, 2: 3, 3: 3}                       # RunOptions.TraceLevel -> detail of the core's


def level_of(options):
    """The detail to trace with for RunOptions: 0 none, 1 blocks, 3 kernels."""
    return LEVELS.get(int(getattr(options, "trace_level", 0) or 0), 0)


def fill(run_metadata, trace):
    """Adds the StepStats of a core Trace, whose steps are over, to a RunMetadata."""
    def merge_more(number, data):
        run_metadata.step_stats.dev_stats[number].MergeFromString(data)
    executor = runtime.executor()
    executor.step_stats(
        trace, _lane_names(executor), _inputs, run_metadata.MergeFromString, merge_more)
    return run_metadata


def _inputs(plan):
    return trace_records.plan_info(plan).inputs


_names = []


def _lane_names(executor):
    """[(thread id, name)] by lane: a lane stays with its thread, so they are asked for when there
    are new ones."""
    global _names
    if len(_names) < executor.trace_lane_count():
        _names = [(thread & 0xFFFFFFFF, name.encode()) for thread, name in trace_records.lanes()]
    return _names
