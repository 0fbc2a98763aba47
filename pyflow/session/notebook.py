"""What a notebook shows of a session: the steps it has compiled, and the last that was traced.

A step that runs again and again leaves no time behind: nothing is measured that nobody asked for.
What is shown is what there is: a plan's size, and what the core expects a step of it to take; of a
run with trace_level, as long as the program keeps its tf.RunMetadata, a bar a kernel.

Threads: any.

    IPython.display.HTML(session_html(session))
"""
import html

from pyflow.framework import notebook
from pyflow.session import runtime

SHOWN = 10                      # signatures of fetches and feeds, the last first


def session_html(session):
    """A line about the session, its steps as a table, the last traced step as bars."""
    steps = list(dict.fromkeys(session._steps.copy().values()))[::-1]
    rows = [_row(step) for step in steps[:SHOWN]]
    parts = [f"<div>{html.escape(repr(session))}</div>"]
    if rows:
        first = f", the last {SHOWN} that were new" if len(steps) > SHOWN else ", the newest first"
        parts += [notebook.titled(f"{len(steps)} steps{first}"),
                  notebook.table(rows, ("fetches", "feeds", "nodes", "expected"))]
    step, told = session._traced or (None, None)
    told = told() if told is not None else None
    if told is not None and told.step_stats.dev_stats:
        parts += [notebook.titled(f"the last traced step: {_row(step)[0]}"),
                  notebook.step_html(told.step_stats)]
    return "".join(parts)


def _row(step):
    """Fetches, feeds, how many nodes, how long the core expects it to take."""
    fetches = [t.name for t in step.mapper.tensors] + [op.name for op in step.mapper.targets]
    feeds = [feed.tensor.name for feed in step.feeds]
    plan, nodes, time = step.compiled.plan, "", ""
    if isinstance(plan, runtime.executor().Plan):       # not one of several devices or tasks
        nodes, cost = plan.counts()["nodes"], plan.cost()
        time = f"at most {cost[0] / 1000:.1f} us" if cost is not None else "any time"
    return _some(fetches), _some(feeds) or "none", nodes, time


def _some(names, most=5):
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
