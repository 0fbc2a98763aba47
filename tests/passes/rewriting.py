"""What the tests of rewrites share: pass graphs, golden files, sessions with and without rewrites.

A golden file holds the graph before and after, as the printer writes it.  After a wanted change:
WRITE_GOLDEN=1 pytest tests/passes, and read the difference.
"""
import os
import pathlib

import pyflow as tf
from pyflow.passes import node, pipeline, printer
from pyflow.passes.place import Devices
from pyflow.session import contract, evaluate, runtime

GOLDEN = pathlib.Path(__file__).parent / "golden"


def pruned(fetches, feeds=(), targets=()):
    return node.prune(list(fetches), list(targets), list(feeds))


def evaluator():
    runtime.start()
    return evaluate.Evaluator(runtime.pool(1), Devices.of_process(),
                              contract.PlanOptions(threads=1))


def check_golden(name, graph, rewrite):
    """Rewrites `graph` in place and compares the texts before and after with golden/NAME.txt."""
    before = printer.text(graph)
    rewrite(graph)
    found = f"# before\n{before}\n# after\n{printer.text(graph)}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def ops(graph):
    return [n.op for n in graph.nodes]


def session(rewrites=True, **options):
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = not rewrites
    return tf.Session(config=config, **options)


def both(fetches, feeds=None, runs=1):
    """(results with rewrites, results without), of the last of `runs` runs in fresh sessions."""
    results = []
    for rewrites in (True, False):
        with session(rewrites) as sess:
            for _ in range(runs):
                found = sess.run(fetches, feeds)
            results.append(found)
    return results


def rewrite(graph, options, evaluate):
    """The rewrites before fusion, in place; what they did."""
    work = pipeline.Work(options, evaluate)
    pipeline.run(graph, work, pipeline.REWRITES)
    return work.counts


def fuse(graph, options):
    """The fusions, without products, in place; what they did."""
    work = pipeline.Work(options)
    pipeline.run(graph, work, pipeline.FUSIONS)
    return work.counts
