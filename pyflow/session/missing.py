"""What a graph needs and this installation lacks: every op and kernel at once, each with its fix.

Used when a plan does not compile, and by `python -m pyflow check MODEL` before anything runs.

Threads: pure functions over a pass graph and the executor's tables.

    for p in problems_of(pass_graph): print(p.text)
"""
import collections
import difflib

from pyflow import plugins
from pyflow.framework import dtypes, errors
from pyflow.framework.device import DeviceSpec
from pyflow.session import runtime

# text: what is missing and what to do; origin: an Operation or None; nodes: names of the nodes
# concerned
Problem = collections.namedtuple("Problem", "text origin nodes")

DETERMINISTIC = 2                       # PF_KERNEL_DETERMINISTIC
CORE_OPS = frozenset("""_Arg _Retval Const Placeholder PlaceholderV2 Identity RefIdentity
StopGradient PreventGradient
    Snapshot NoOp ControlTrigger Switch RefSwitch Merge RefMerge Enter RefEnter Exit RefExit
    NextIteration RefNextIteration LoopCond IdentityN VariableV2 Variable TemporaryVariable
    VarHandleOp IsVariableInitialized VarIsInitializedOp ReadVariableOp PyFunc EagerPyFunc
    PyFuncStateless _Send _Recv GetSessionHandle GetSessionHandleV2 GetSessionTensor
    DeleteSessionTensor""".split())


def problems_of(graph):
    """[Problem] for a placed or unplaced pass graph, one per (op, device, types), most frequent
    first."""
    from pyflow.framework import op as op_lib
    executor = runtime.start()
    wanted, origin = {}, {}
    for node in graph.nodes:
        key = _key(node, op_lib)
        wanted.setdefault(key, []).append(node.name)
        origin.setdefault(key, node.origin)
    found = []
    for key, names in wanted.items():
        text = _problem(key, executor, op_lib)
        if text:
            found.append(Problem(text, origin[key], names))
    found.sort(key=lambda p: -len(p.nodes))
    return found


def message(problems):
    """One message for all problems."""
    lines = ["this graph needs what is not installed here:"]
    for p in problems:
        at = f", made at {p.origin.user_frame}" if p.origin is not None else ""
        more = f" and {len(p.nodes) - 1} more" if len(p.nodes) > 1 else ""
        lines.append(f"  {p.text}  (node '{p.nodes[0]}'{more}{at})")
    return "\n".join(lines)


def require_deterministic(graph):
    """InvalidArgumentError naming the nodes whose kernels do not promise bit-equal results
    (deterministic=True)."""
    from pyflow.framework import op as op_lib
    executor = runtime.start()
    bad = []
    for node in graph.nodes:
        if node.op in CORE_OPS:
            if node.op in ("PyFunc", "EagerPyFunc"):     # stateless ones promise it
                bad.append(node)
            continue
        kernel = _best_kernel(executor, node.op, _device_type(node.device), _types(node, op_lib))
        if kernel is not None and not kernel["flags"] & DETERMINISTIC:
            bad.append(node)            # a missing kernel has its own message
    if bad:
        shown = "; ".join(
            f"'{n.name}' ({n.op}" + (f", made at {n.origin.user_frame})" if n.origin else ")")
            for n in bad[:10]
        )
        raise errors.InvalidArgumentError(
            None,
            bad[0].origin,
            "deterministic=True, but these kernels do not promise equal bits for any thread count:"
            f" {shown}{' ...' if len(bad) > 10 else ''}. Replace the ops (a py_func"
            " promises it with stateful=False), or run without deterministic=True.",
        )


def _key(node, op_lib):
    types = tuple(sorted(_types(node, op_lib).items()))
    return node.op, _device_type(node.device), types


def _device_type(device):
    return (DeviceSpec.from_string(device).device_type if device else None) or "CPU"


def _types(node, op_lib):
    """{type attribute: enum} as far as the node says."""
    found = {}
    for name, value in node.attrs.items():
        if hasattr(value, "WhichOneof"):
            if value.WhichOneof("value") == "type":
                found[name] = value.type
        elif isinstance(value, dtypes.DType):
            found[name] = value.base_dtype.as_datatype_enum
    op_def = op_lib.find_op(node.op)
    if op_def is not None:
        for attr in op_def.attrs.values():
            if attr.kind == "type" and attr.name not in found and attr.has_default:
                found[attr.name] = attr.default.as_datatype_enum
    return found


def _problem(key, executor, op_lib):
    op, device, types = key
    if op in CORE_OPS:
        return None
    if op_lib.find_op(op) is None:
        near = difflib.get_close_matches(op, op_lib.op_names(), n=2)
        hint = f"; nearest known: {', '.join(near)}" if near else ""
        return (
            f"op {op} is not known: install the plugin that declares it, or remove it from the"
            f" graph{hint}{plugins.why_without(op)}"
        )
    if _best_kernel(executor, op, device, dict(types)) is None:
        return _no_kernel(op, device, types, executor)
    return None


def _best_kernel(executor, op, device, types):
    """The first kernel in selection order that accepts the device and types, or None."""
    for kernel in executor.kernels(op):
        if kernel["device"] in (device, "*") and _accepts(kernel["where"], types):
            return kernel
    return None


def _accepts(where, types):
    """Does `T=float|double, Tidx=int32` allow {attribute: enum}?  Attributes the node does not say
    are allowed."""
    for part in (where or "").split(","):
        name, _, allowed = part.strip().partition("=")
        if name in types and dtypes.schema_name(dtypes.as_dtype(types[name])) not in \
                [a.strip() for a in allowed.split("|")]:
            return False
    return True


def _no_kernel(op, device, types, executor):
    shown = ", ".join(f"{name}={dtypes.as_dtype(enum).name}" for name, enum in types)
    have = executor.kernels(op)
    if not have:
        return (
            f"op {op} has no kernel at all for {shown or 'any type'}: install a plugin that has one"
            f" (python -m pyflow devices lists the plugins){plugins.why_without(op)}"
        )
    there = "; ".join(sorted({f"{k['device']}: {k['where'] or 'any type'}" for k in have}))
    advice = (
        "cast its inputs with tf.cast"
        if any(k["device"] in (device, "*") for k in have)
        else "place it on such a device, or set allow_soft_placement=True"
    )
    return f"op {op} has no kernel on {device} for {shown}; there are: {there}. To fix it, {advice}"
