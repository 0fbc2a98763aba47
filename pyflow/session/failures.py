"""Failures of a step as tf.errors exceptions that say where the user should look.

A message reads, for a node of the user's graph:

    MatMul node 'fc/MatMul' made at train.py:31 (inputs: x:0 float32 [?, 4],
        fc/w/read:0 float32 [5, 2]) failed: In[0] ...
      on /job:localhost/replica:0/task:0/device:CPU:0
      it is the gradient of 'fc/MatMul' (MatMul), made at train.py:12
      'Dataset_map_0/Gather' (Gather) in it was made at train.py:7     # in a function that it calls

With "From /job:worker/replica:0/task:1:" before it where it arose in a task that has a name.

Invariants
    1. The class follows the status code alone (absl codes, kernel.h).
    2. What has no value yet is named with the initializer that the program lacks: of global or
       local variables, or of tables.
    3. `e.op` is the user's Operation also for nodes that a pass put in (send, receive, feeds,
       fetches), and the failed one's of a fused node, whose message begins with "{{node NAME}} ".

Threads: pure functions.
"""
import contextlib
import re

from pyflow.framework import errors
from pyflow.framework.collections import GraphKeys
from pyflow.session import runtime


def to_op_error(failure, graph, origins):
    """The tf.errors exception for `failure`, an `_executor.StepError`.

    origins: node name -> Operation, for nodes made by passes.
    """
    if failure.explained:                       # by another process
        return errors.exception_type_from_error_code(failure.code)(
            None, _operation(graph, failure.node), failure.message)
    if failure.code == errors.CANCELLED and failure.message.startswith("KeyboardInterrupt"):
        return KeyboardInterrupt()              # Ctrl-C while a py_func ran
    inner = _INNER.match(failure.message)       # a node that was fused with others
    message = failure.message[inner.end():] if inner else failure.message
    if failure.code == errors.FAILED_PRECONDITION:
        message = _with_initializer(message, graph)
    op = (inner and _operation(graph, inner[1]) or origins.get(failure.node)
          or _operation(graph, failure.node))
    kind = (
        errors.exception_type_from_error_code(failure.code)
        if failure.code in _CODES
        else errors.UnknownError
    )
    where = f"From {failure.task}:\n" if failure.task else ""
    called = [f"\n  {line}" for line in _in_functions(failure.message, graph)]
    return kind(None, op, where + _message(failure, message, op) + "".join(called))


@contextlib.contextmanager
def typed(graph):
    """Within, an `_executor.StepError` becomes its tf.errors exception.  graph: None: nobody's."""
    try:
        yield
    except runtime.executor().StepError as failure:
        raise to_op_error(failure, graph, {}) from None


_CODES = frozenset(range(1, 17))
_INNER = re.compile(r"\{\{node ([^{}\s]+)\}\} ")
_CALLED = re.compile(r"in node '([^'/]+)/([^']+)' \(op [^)]*\): (?:\{\{node ([^{}\s]+)\}\} )?")


def _with_initializer(text, graph):
    """The message, its advice the initializer of the collection that the variable is in."""
    text = text.replace("Table not initialized.",
                        "Table not initialized. Run tf.tables_initializer() first.")
    found = _UNSET.search(text)
    if found is None or graph is None:
        return text
    name, advice = found[1], None
    if _holds(graph, GraphKeys.GLOBAL_VARIABLES, name):
        advice = "Run tf.global_variables_initializer() first."
    elif _holds(graph, GraphKeys.LOCAL_VARIABLES, name):
        advice = ("Run tf.local_variables_initializer() first: it is a local variable, as those of "
                  "metrics and epoch counters.")
    elif _operation(graph, name) is not None:
        advice = ("Run its own initializer first: it is in no collection, so neither "
                  "tf.global_variables_initializer() nor tf.local_variables_initializer() does.")
    return text if advice is None else text[:found.end(1)] + text[found.end(1):].replace(
        _FOR_EXAMPLE, advice, 1)


_UNSET = re.compile(r"uninitialized value (\S+) \(read by ")
_FOR_EXAMPLE = ("Run the variable's initializer first, for example "
                "tf.global_variables_initializer().")


def _holds(graph, collection, name):
    """Whether a collection of variables has the one of that operation, or shared name."""
    ops = [getattr(v, "op", None) for v in graph.get_collection(collection)]
    return any(op is not None and name in (op.name, op.attrs.get("shared_name")) for op in ops)


def _operation(graph, name):
    if not name or graph is None:
        return None
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _message(failure, text, op):
    if op is None:
        where = f"{failure.op} node '{failure.node}' failed: " if failure.node else ""
        return f"{where}{text}"
    lines = [f"{describe(op)} failed: {text}"]
    if failure.device:
        lines.append(f"  on {failure.device}")
    later = op.type.startswith("Placeholder") and _made_again(op)
    if later:
        lines.append(f"  a placeholder {later.name!r} was made later, at {place(later)}: was that "
                     "one fed? A notebook's cell that runs again makes its nodes again; "
                     "tf.reset_default_graph() before them starts anew")
    forward = forward_op(op)
    if forward is not None:
        lines.append(f"  it belongs to the gradient of '{forward.name}' ({forward.type}), made at "
                     f"{place(forward)}")
    return "\n".join(lines)


def _made_again(op):
    """The last placeholder that would have the name of `op`, had that not been there; or None."""
    found, number = None, 1
    while True:
        other = _operation(op.graph, f"{op.name}_{number}")
        if other is None or other.type != op.type:
            return found
        found, number = other, number + 1


def _in_functions(text, graph):
    """Where the program made the nodes that failed in functions, the outermost first."""
    for function, node, fused in _CALLED.findall(text):
        body = graph and graph._library.traced_body(function)
        op = body and _operation(body.graph, fused or node)
        if op:
            yield f"'{function}/{op.name}' ({op.type}) in it was made at {place(op)}"


def describe(op):
    """'MatMul node 'fc/MatMul' made at train.py:31 (inputs: ...)'."""
    inputs = ", ".join(f"{t.name} {t.dtype.name} {t.shape}" for t in op.inputs) or "none"
    return f"{op.type} node '{op.name}' made at {place(op)} (inputs: {inputs})"


def place(op):
    """'train.py:31' and, if the file can be read, the source line."""
    frame = op.user_frame
    source = getattr(frame, "line", "")
    return f"{frame}: {source}" if source else str(frame)


def forward_op(op):
    """The forward operation that `op`, made while building gradients, belongs to, or None."""
    original = getattr(op, "_original_op", None)
    return original if original is not op else None
