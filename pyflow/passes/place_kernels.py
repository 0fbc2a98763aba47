"""Which device types can run a node: the registered kernels, by op and element types.

Invariants
    1. `types(node)` is a frozenset of device types; ANYWHERE for ops that every device has (those a
       plan runs itself, kernels for "*"); None where no loaded kernel takes the op with these types
       (then another part of the session says what is missing).
    2. An answer is computed once per op and combination of type attributes.

Threads: a table belongs to one session, which compiles under a lock.

    KernelTable(executor.kernels()).types(node)
"""
import functools

from pyflow.framework import dtypes
from pyflow.framework import op as op_lib

PUTS, TAKES = 128, 256                  # PF_KERNEL_PUTS, PF_KERNEL_TAKES
ANYWHERE = frozenset("*")
HOST_ONLY = frozenset(("CPU",))

# Ops a plan runs itself, with the values where they are.
BUILT_IN = frozenset(
    """_Arg _Retval Const Identity RefIdentity StopGradient PreventGradient Snapshot LoopCond NoOp
    ControlTrigger Switch RefSwitch Merge RefMerge Enter RefEnter Exit RefExit NextIteration
    RefNextIteration VariableV2 Variable VarHandleOp""".split()
)
# Kernels for "*" that run Python, which sees host memory only.
_PYTHON = frozenset(("PyFunc", "PyFuncStateless", "EagerPyFunc"))


class KernelTable:
    """Kernels by op.  kernels: dicts of op, device, where ("T=float|double, Tidx=int32"), as
    `_executor.kernels()` gives them."""

    def __init__(self, kernels):
        self._given = {}                # op: its kernels as they were given
        for kernel in kernels:
            self._given.setdefault(kernel["op"], []).append(kernel)
        self._kernels, self._found = {}, {}
        self._attrs = {}                # op: names of the type attributes its kernels care about

    def _of(self, op):
        """[(device, where)] of an op's kernels, read when they are first asked for."""
        found = self._kernels.get(op)
        if found is None:
            found = [(kernel["device"], _parse(kernel.get("where", "")))
                     for kernel in self._given.get(op, ())]
            self._attrs[op] = list(dict.fromkeys(name for _, where in found for name in where))
            self._kernels[op] = found
        return found

    def role(self, op):
        """What the op's kernels do at the resource that they use: 1: they end others' waits, 2:
        they wait until others have put something there; 0: neither."""
        flags = [kernel.get("flags", 0) for kernel in self._given.get(op, ())]
        return 2 if any(f & TAKES for f in flags) else 1 if any(f & PUTS for f in flags) else 0

    def types(self, node):
        """The device types that have a kernel for the node; see invariant 1."""
        key = self.key(node)
        try:
            return self._found[key]
        except KeyError:
            found = self._found[key] = self._find(node)
            return found

    def key(self, node):
        """Equal for nodes that have the same kernels."""
        names = self._attrs.get(node.op)
        if names is None:
            self._of(node.op)
            names = self._attrs[node.op]
        if not names:
            return node.op
        attrs = node.attrs
        if len(names) == 1:
            value = attrs.get(names[0])
            return node.op, value._number if value.__class__ is dtypes.DType else _number(value)
        return (node.op, *[_number(attrs.get(name)) for name in names])

    def _find(self, node):
        if node.op in BUILT_IN:
            return ANYWHERE
        if node.op in _PYTHON:
            return HOST_ONLY
        found = {device for device, where in self._of(node.op)
                 if _accepts(where, node)}
        if "*" in found:
            return ANYWHERE
        return frozenset(found) or None

    def registered(self, op):
        """'CPU: T=float|double; GPU: any type': the kernels there are, for messages."""
        lines = {f"{device}: " + (", ".join(f"{a}={'|'.join(sorted(t))}" for a, t in where.items())
                                  or "any type") + _by(kernel)
                 for kernel, (device, where) in zip(self._given.get(op, ()), self._of(op))}
        return "; ".join(sorted(lines)) or "none"


def _by(kernel):
    """" (plugin 'id')" for a kernel that does not come with pyflow."""
    return f" (plugin '{kernel['plugin']}')" if kernel.get("origin", "pyflow") != "pyflow" else ""


def _number(value):
    """A hashable stand-in for a type attribute's value."""
    if isinstance(value, dtypes.DType):
        return value._number
    if isinstance(value, (list, tuple)):
        return tuple(_number(v) for v in value)
    return None


@functools.lru_cache(maxsize=None)          # each session makes a table of all kernels
def _parse(where):
    """{'T': {'float', 'double'}} of "T=float|double"."""
    found = {}
    for part in (where or "").split(","):
        name, _, allowed = part.strip().partition("=")
        if name:
            found[name] = frozenset(word.strip() for word in allowed.split("|"))
    return found


def _accepts(where, node):
    return all(_allowed(node, name, types) for name, types in where.items())


def _allowed(node, name, types):
    value = node.attrs.get(name)
    if value is None:
        op_def = op_lib.find_op(node.op)
        attr = op_def.attrs.get(name) if op_def is not None else None
        if attr is None or not attr.has_default:
            return True                 # the node does not say
        value = attr.default
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(dtypes.schema_name(v.base_dtype) in types for v in values
               if isinstance(v, dtypes.DType))
