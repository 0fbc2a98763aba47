"""What the rewrites of a session would do to a graph of a file, for `python -m pyflow explain`.

Threads: the command's own.

    graph, lines = rewritten(graph_def)     # a pass graph, or None; lines say what each pass did
"""


def rewritten(message):
    """(rewritten pass graph or None, [lines]).  All nodes nobody reads count as fetched."""
    from pyflow.framework import errors
    from pyflow.framework import graph as graph_lib
    from pyflow.framework.graph_io import import_graph_def
    from pyflow.passes import node, pipeline, place_kernels
    from pyflow.passes.options import Options
    from pyflow.passes.place import Devices
    from pyflow.session import contract, evaluate, runtime
    try:
        with graph_lib.Graph().as_default() as user_graph:
            import_graph_def(message, name="")
    except (ValueError, TypeError, KeyError, errors.OpError) as e:
        return None, [f"rewrites: not tried, the graph cannot be imported: {e}"]
    executor = runtime.start()
    graph = node.whole(user_graph)
    before = len(graph.nodes)
    evaluator = evaluate.Evaluator(runtime.pool(1), Devices.of_process(),
                                   contract.PlanOptions(threads=1))
    work = pipeline.Work(Options(), evaluator,
                         lambda: place_kernels.KernelTable(executor.kernels()))
    graph = pipeline.run(graph, work, pipeline.CALLS + pipeline.REWRITES + pipeline.FUSIONS)
    lines = [f"rewrites (see --rewritten): {before} nodes become {len(graph.nodes)}"]
    return graph, lines + [f"  {line}" for line in pipeline.report(work.counts).splitlines()]
