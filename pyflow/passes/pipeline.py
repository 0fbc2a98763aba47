"""The pipeline: all passes, in order, one row each; `python -m pyflow explain --passes` prints it.

A pass is a file beside this one with a function graph -> graph, or in place, and a row in PASSES.
What plans need besides (devices, kernels, transfers) comes in a Work.

Invariants
    1. What has an effect, draws random numbers, or calls Python runs as often as before, and in an
       order that the control and data edges between such nodes still give.
    2. Fetched and fed tensors keep their values within the tolerances of passes/arithmetic.py.
       Errors of nodes that went do not occur; those of other nodes name the same node and line.
    3. Rewrites stand between placement, so that no constraint is lost with a node, and transfers,
       which they need not know.  Fusions come after recomputation and swapping, which know nodes
       by their ops.
    4. A pass that finds nothing to do copies nothing.

Threads: a graph belongs to the thread that compiles it.

    work = pipeline.Work(Options.of(config), evaluate=evaluate)
    pipeline.run(graph, work, pipeline.REWRITES)        # the graph; work.counts: {"cse": 3, ...}
"""
import dataclasses
import typing

from pyflow.passes import (arithmetic, cse, fold, fuse, fuse_elementwise, fuse_moments, inline,
                           partition, partition_delay, recompute, swap)
from pyflow.passes.options import Options


@dataclasses.dataclass
class Work:
    """What the passes of one plan are given, and `counts`: what each of them did.

    evaluate: as in `fold.fold`.  kernels: as in `fuse.fuse`; None: no products.  place: a function
    that places a graph; None: it is placed.  delays: whether large transfers wait; `waits`: which,
    found by partition_delay.  incarnation: as in `partition.cut`.  functions: {name: Body} of what stays a call, found by inline.
    """

    options: Options
    evaluate: typing.Callable = None
    kernels: typing.Callable = None
    place: typing.Callable = None
    delays: bool = False
    waits: dict = None
    incarnation: typing.Callable = partition.no_task
    functions: dict = dataclasses.field(default_factory=dict)
    counts: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Pass:
    """One row.  run(graph, work): what was done, a number or {kind: number}; or the new Graph.

    wanted(work): whether it runs; says when it does, in words.  shown: PYFLOW_DUMP writes the graph
    even if nothing was done.
    """

    name: str
    does: str
    run: typing.Callable
    wanted: typing.Callable = lambda work: True
    when: str = "always"
    shown: bool = True


def _place(graph, work):
    work.place(graph)


def _delay(graph, work):
    work.waits = partition_delay.delay(graph)


CALLS = (
    Pass("inlined", "calls of functions become the functions' nodes (inline.py)",
         lambda graph, work: inline.inline(graph, work.functions, work.options.inline),
         shown=False),
)
PLACEMENT = (
    Pass("placed", "every node gets a full device name (place.py)", _place,
         lambda work: work.place is not None),
)
REWRITES = (
    Pass("folded", "what is constant becomes a Const (fold.py)",
         lambda graph, work: fold.fold(graph, work.evaluate),
         lambda work: work.options.fold, "constant_folding"),
    Pass("cse", "of equal nodes the first one stays (cse.py)",
         lambda graph, work: cse.merge_equal(graph),
         lambda work: work.options.cse, "common_subgraph_elimination"),
    Pass("arithmetic", "nodes that give an input go, costly ones become cheap (arithmetic.py)",
         lambda graph, work: arithmetic.simplify(graph),
         lambda work: work.options.arithmetic, "arithmetic_optimization"),
)
MEMORY = (
    Pass("recomputed", "what only gradients still need is computed again (recompute.py)",
         lambda graph, work: recompute.recompute(graph, work.options.memory),
         lambda work: True, "marks, memory_optimization", shown=False),
    Pass("swapped", "what only gradients still need waits in host memory (swap.py)",
         lambda graph, work: swap.swap(graph, work.options.memory),
         lambda work: True, "marks, memory_optimization", shown=False),
)
FUSIONS = (
    Pass("fused", "products with bias, residual sum and activation become one (fuse.py)",
         lambda graph, work: fuse.fuse(graph, work.kernels),
         lambda work: work.options.programs and work.kernels is not None, "remapping"),
    Pass("moments", "mean and variance are read off once; layer norms become one (fuse_moments.py)",
         lambda graph, work: fuse_moments.fuse(graph) or None,
         lambda work: work.options.programs, "remapping", shown=False),
    Pass("programs", "chains of element-wise nodes become one (fuse_elementwise.py)",
         lambda graph, work: fuse_elementwise.fuse(graph),
         lambda work: work.options.programs, "remapping"),
)
TRANSFERS = (
    Pass("delayed", "large tensors for other devices wait until they are needed (partition_delay.py)",
         _delay, lambda work: work.delays, "enable_recv_scheduling", shown=False),
)
CUT = (
    Pass("cut", "edges between devices go through a Send and a Recv (partition.py); with"
         " partitions='device' a graph per device (partition_split.py)",
         lambda graph, work: partition.cut(graph, work.waits, work.incarnation)),
)
PASSES = CALLS + PLACEMENT + REWRITES + MEMORY + FUSIONS + TRANSFERS + CUT


def run(graph, work, passes, dump=None):
    """Runs `passes` over the graph; the graph that comes out.

    dump(pass name, graph): called after each pass that ran."""
    for row in passes:
        if not row.wanted(work):
            continue
        found = row.run(graph, work)
        if hasattr(found, "nodes"):
            graph = found
        elif found is not None:
            work.counts[row.name] = found
        if dump and (row.shown or found):
            dump(row.name, graph)
    return graph


def table():
    """The lines that `explain --passes` prints: name, when it runs, what it does."""
    wide = [max(len(getattr(row, column)) for row in PASSES) for column in ("name", "when")]
    return [f"{row.name:{wide[0]}}  {row.when:{wide[1]}}  {row.does}" for row in PASSES]


def report(counts):
    """One line per pass: what it did."""
    lines = []
    for name, found in counts.items():
        if isinstance(found, dict):
            parts = [f"{n} {rule}" for rule, n in sorted(found.items())]
            found = f"{sum(found.values())} ({', '.join(parts)})" if parts else "0"
        lines.append(f"{name}: {found}")
    return "\n".join(lines)
