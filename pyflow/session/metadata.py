"""RunMetadata of a traced step: StepStats as TensorFlow's, for tf.profiler-like tools and
timeline.Timeline.

What goes where in NodeExecStats:

    scheduled_*   the block of the kernel became ready      all_start_*   its kernel began
    op_end_rel_*  the kernel returned, or called done        all_end_rel_*  outputs were delivered
    thread_id     the system's thread number; names in DeviceStepStats.thread_names
    timeline_label  "node [frame:iteration] = Op(inputs)", the brackets only inside loops
    memory        bytes of the outputs, and the allocator's bytes in use afterwards

Micros are of the wall clock, as TensorFlow's.  A device with streams has entries of its own,
"<device>/stream:compute".

Threads: pure functions.
"""
import time

from pyflow.session import trace_records

LEVELS = {1: 1, 2: 3, 3: 3}                       # RunOptions.TraceLevel -> detail of the core's


def level_of(options):
    """The detail to trace with for RunOptions: 0 none, 1 blocks, 3 kernels."""
    return LEVELS.get(int(getattr(options, "trace_level", 0) or 0), 0)


def fill(run_metadata, taken):
    """Adds the StepStats of what Trace.take returned to a RunMetadata."""
    steps = trace_records.steps(taken)
    names = trace_records.lanes()
    to_wall = time.time_ns() - time.monotonic_ns()
    devices = {}
    shown = [e for e in trace_records.events(taken, steps)
             if e.kind in ("kernel", "async", "block", "stream")]
    for event in sorted(shown, key=lambda e: e.start):
        device = event.device
        if event.kind == "stream":
            device += f"/stream:{trace_records.STREAMS[event.done]}"
        stats = devices.get(device)
        if stats is None:
            stats = devices[device] = run_metadata.step_stats.dev_stats.add(device=device)
        add_node(stats.node_stats.add(), event, steps[event.step].plan, names, to_wall)
        thread, name = names[event.lane]
        stats.thread_names[thread & 0xFFFFFFFF] = name
    return run_metadata


def add_node(stats, event, plan, names, to_wall):
    """Fills one NodeExecStats."""
    start, ready = event.start + to_wall, event.ready + to_wall
    stop = event.done if event.kind == "async" else event.end
    stats.node_name = event.name
    stats.timeline_label = label(event, plan)
    stats.thread_id = names[event.lane][0] & 0xFFFFFFFF
    for unit, scale in (("micros", 1000), ("nanos", 1)):
        setattr(stats, f"scheduled_{unit}", ready // scale)
        setattr(stats, f"all_start_{unit}", start // scale)
        setattr(stats, f"op_end_rel_{unit}", max(0, stop - event.start) // scale)
        setattr(stats, f"all_end_rel_{unit}", max(1, (event.end - event.start) // scale))
    if event.outputs:
        _add_outputs(stats, event)


def _add_outputs(stats, event):
    total = 0
    for value in event.outputs:
        out = stats.output.add(slot=value.slot)
        described = out.tensor_description
        described.dtype = value.type
        for size in value.shape or ():
            described.shape.dim.add(size=size)
        described.allocation_description.requested_bytes = value.bytes
        described.allocation_description.allocated_bytes = value.bytes
        described.allocation_description.allocator_name = allocator(value.memory)
        total += value.bytes
    stats.memory.add(allocator_name=allocator(event.outputs[0].memory), total_bytes=total,
                     peak_bytes=total, live_bytes=total, allocator_bytes_in_use=event.in_use)


def allocator(memory):
    """The name of an allocator by DLPack device type: "cpu" for the host's."""
    return "cpu" if memory in (0, 1) else f"device_{memory}"


def label(event, plan):
    """"fc/MatMul = MatMul(x, fc/W/read)": what timelines show and parse."""
    inputs = ", ".join(plan.inputs.get(event.name, ())) if plan is not None else ""
    where = f" [{trace_records.tag(event)}]" if event.iteration else ""
    if event.kind == "block":
        return f"{event.name}{where} = block_of_{event.count}({inputs})"
    return f"{event.name}{where} = {event.op}({inputs})"
