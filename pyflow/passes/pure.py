"""What rewrites may assume of a node, and the removal of nodes that nothing needs any more.

Invariants
    1. A pure op's outputs are functions of its inputs and attributes: it has no state, draws no
       random numbers, has no effect, and is no control flow.
    2. `sweep` removes pure nodes only: what draws, writes, prints or calls Python stays, and runs
       as often as before.

Threads: pure functions; the table of ops only grows.

    pure.is_pure("MatMul")              # True;  Assign, RandomUniform, PyFunc, Switch: False
"""
import collections

from pyflow.framework import op as op_lib
from pyflow.framework.function_library import names_functions

RESOURCE, VARIANT = 20, 21              # DT_RESOURCE, DT_VARIANT
SPLITS = frozenset(("Switch", "RefSwitch", "_SwitchN", "Enter", "RefEnter", "NextIteration",
                    "RefNextIteration"))
FLOW = SPLITS | frozenset(("Merge", "RefMerge", "Exit", "RefExit", "LoopCond"))
_APART = FLOW | frozenset(("Const", "NoOp", "ControlTrigger", "Placeholder", "PlaceholderV2",
                           "PyFuncStateless", "Empty",
                           "ReadFile", "MatchingFiles"))        # a file may change
_pure = {}


def is_pure(op):
    """True for ops whose nodes may be merged, evaluated early, or removed."""
    found = _pure.get(op)
    if found is None:
        found = _pure[op] = _look_up(op)
    return found


def _look_up(op):
    op_def = op_lib.find_op(op)
    if op in _APART or op[0] == "_" or op_def is None or op_def.stateful or not op_def.outputs:
        return False
    if names_functions(op):                # what it may do, they say
        return False
    args = op_def.inputs + op_def.outputs
    return not any(a.is_ref or _is_handle(a.dtype) for a in args)


def _is_handle(dtype):
    return dtype is not None and dtype.as_datatype_enum in (RESOURCE, VARIANT)


def is_value(dtype):
    """True unless the type is a reference, a handle or a variant: what names state."""
    return not dtype._is_ref_dtype and not _is_handle(dtype)


def full_shape(node, index):
    """The static shape of an output as a tuple of ints, or None if a size is not known."""
    shape = node.shapes[index] if node.shapes else None
    dims = shape.as_tuple() if shape is not None else None
    return dims if dims is not None and None not in dims else None


def conditional(graph):
    """The nodes that may be dead or run more than once: those behind a Switch or an Enter.

    (A Switch may come after its readers in construction order, so edges are followed.)"""
    readers = collections.defaultdict(list)
    for node in graph.nodes:
        for source, _ in node.inputs:
            readers[source].append(node)
        for source in node.controls:
            readers[source].append(node)
    stack = [n for n in graph.nodes if n.op in FLOW]
    found = set(stack)
    while stack:
        for reader in readers[stack.pop()]:
            if reader not in found:
                found.add(reader)
                stack.append(reader)
    return found


def sweep(graph, orphans):
    """Removes the pure nodes and Consts among `orphans`, and behind them, that have no reader left.

    orphans: nodes that lost a reader.  Returns how many went."""
    if not orphans:
        return 0
    readers = collections.Counter(s for n in graph.nodes for s, _ in n.inputs)
    readers.update(c for n in graph.nodes for c in n.controls)
    stack, gone = list(orphans), set()
    while stack:
        node = stack.pop()
        if readers[node] or node in gone or not (node.op == "Const" or is_pure(node.op)):
            continue
        gone.add(node)
        for source in [s for s, _ in node.inputs] + node.controls:
            readers[source] -= 1
            stack.append(source)
    graph.nodes = [n for n in graph.nodes if n not in gone]
    return len(gone)
