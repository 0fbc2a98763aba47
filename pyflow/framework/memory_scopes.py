"""Marks by which a program asks for less memory: what to compute again, what to keep on the host.

A mark is an attribute of an operation; the passes recompute and swap read it when a plan is made.

    with tf.recompute_scope("block1"):      # its interior values are computed again for gradients
        y = layer(x)
    with tf.swap_scope():                   # its values wait for the gradients in host memory
        y = layer(x)

Invariant: results are the same with and without marks.  Threads: those of the default graph.
"""
import contextlib
import functools

from pyflow.framework import graph as graph_lib

RECOMPUTE = "_recompute_hint"           # TF's names
SWAP = "_swap_to_host"


@contextlib.contextmanager
def recompute_scope(name="recompute"):
    """Operations made in this context are computed again for the gradients that need them.

    What the scope's operations give to others stays in memory, all between is freed in the forward
    pass and computed a second time before the gradients: memory for about one more forward pass of
    time. Use one scope per layer or block. Random and stateful operations in it run once, and
    their values are kept. Also an attribute, as in TF 1.x: `_recompute_hint`.
    """
    graph = graph_lib.get_default_graph()
    number = graph.__dict__.setdefault("_recompute_scopes", 0) + 1
    graph._recompute_scopes = number
    with graph._attr_scope({RECOMPUTE: f"{name}_{number}"}):
        yield


def recompute_grad(f):
    """`f`, its operations in a `recompute_scope` of each call.  TF: recompute_grad,
    contrib.layers.recompute_grad."""
    @functools.wraps(f)
    def recomputed(*args, **kwargs):
        with recompute_scope(getattr(f, "__name__", "recompute")):
            return f(*args, **kwargs)
    return recomputed


@contextlib.contextmanager
def swap_scope():
    """Outputs of operations made in this context that gradients read wait for them in host memory.

    Acts on devices that are not CPUs: each such value is copied to the host after it was made and
    back when its gradient is near. On CPUs it does nothing: their memory is the host's.
    """
    with graph_lib.get_default_graph()._attr_scope({SWAP: True}):
        yield
