"""What a CallableOptions message asks for, as a function: Session._make_callable_from_options.

    options = config_pb2.CallableOptions(feed=[x.name], fetch=[loss.name], target=[train.op.name])
    step = session._make_callable_from_options(options)
    loss_value, = step(images)

Invariants
    1. The step is compiled once; it serves any thread, and after the graph has grown.
    2. A tensor_connection is an edge of the step: what reads `to_tensor` reads `from_tensor`, which
       is computed in the same step, once.

Threads: any; compiling is under the session's lock.
Callers: Session._make_callable_from_options, which Keras 2.2 and later uses for every batch.
"""
from pyflow.framework import errors, late_text
from pyflow.session import feeds as feeds_lib


def make(session, options):
    """The function; see Session._make_callable_from_options.  InvalidArgumentError for a name that
    the graph lacks, a tensor that is given twice or connected to one of another type, or to what it
    is computed from."""
    graph = session.graph
    fetches = [_tensor(graph, name) for name in options.fetch]
    targets = [_element(graph, name, allow_tensor=False) for name in options.target]
    fed = tuple(feeds_lib.feedable(graph, _tensor(graph, name)) for name in options.feed)
    pairs = [(feeds_lib.feedable(graph, _tensor(graph, pair.to_tensor)),
              _tensor(graph, pair.from_tensor)) for pair in options.tensor_connection]
    _require_once([*fed, *(there for there, _ in pairs)])
    _require_types(pairs)
    wanted = options.run_options
    with session._lock:
        session._require_open()
        session._drop_stale_plans()
        try:
            step = session._make_step(fetches, fed, wanted.inter_op_thread_pool, targets,
                                      dict(pairs))
        except ValueError as e:
            raise errors.InvalidArgumentError(None, None, f"CallableOptions: {e}") from None
    fast = None if wanted.timeout_in_ms else session._fast_callable(step)

    def run_step(*values, run_metadata=None):
        if fast is not None and run_metadata is None and len(values) == len(fed):
            return fast(*values)
        session._require_open()
        if len(values) != len(fed):
            raise errors.InvalidArgumentError(
                None, None, f"Expected {len(fed)} feed tensors, but got {len(values)}: a value for "
                "each feed of the CallableOptions")
        return session._run_step(step, values, wanted, run_metadata)
    return run_step


def _element(graph, name, **allowed):
    try:
        return graph.as_graph_element(name, **allowed)
    except (KeyError, ValueError) as e:
        problem = e                             # `e` is gone when its text is read
        raise late_text.error(errors.InvalidArgumentError, lambda: (
            f"CallableOptions: {problem.args[0]}"), None, None) from None


def _tensor(graph, name):
    return _element(graph, name, allow_operation=False)


def _require_once(tensors):
    twice = [t.name for i, t in enumerate(tensors) if t in tensors[:i]]
    if twice:
        raise errors.InvalidArgumentError(
            None, None, f"Endpoint {twice[0]!r} fed more than once, by feed or tensor_connection "
            "of the CallableOptions")


def _require_types(pairs):
    for there, here in pairs:
        if there.dtype.base_dtype != here.dtype.base_dtype:
            raise errors.InvalidArgumentError(
                None, here.op, f"CallableOptions connects {here.name!r}, "
                f"{here.dtype.base_dtype.name}, to {there.name!r}, which is "
                f"{there.dtype.base_dtype.name}: use tf.cast")
