"""One traced step, read: what test_records.py looks at."""

from types import SimpleNamespace

from pyflow.session import contract, runtime, trace_records


def traced(session, fetches, feeds=None, level=3, max_records=1 << 20):
    """Runs one step with a Trace: value, events, steps, kernels counted by the executor."""
    step, values = session._step_for(fetches, feeds)
    arguments = [f.convert(v) for f, v in zip(step.feeds, values)]
    trace, stats = runtime.executor().Trace(level, max_records), {}
    value = failure = None
    try:
        value = step.compiled.plan.run(arguments, contract.RunOptions(stats=stats, trace=trace))
    except runtime.executor().StepError as e:
        failure = e
    taken = trace.take()
    steps = trace_records.steps(taken)
    return SimpleNamespace(value=value, failure=failure, taken=taken, steps=steps,
                           kernels=stats.get("kernels"), plan=step.compiled.plan,
                           events=trace_records.events(taken, steps))


def kernels(events):
    return [e for e in events if e.kind in ("kernel", "async")]
