"""Gradients of calls: a call of the gradient function (args, dys) -> dxs, which computes the
function's body again.

    f(x, n) -> y        f_grad(x, n, dy) -> dx          # of arguments and results with gradients

Invariants
  1. A function has one gradient function, made when first asked for: gradient nodes in the body's
     own graph, so that loops, conditionals and custom gradients in it are known.  Its name and
     signature are there before its body: a recursive function's gradient calls itself.
  2. A program's own comes first: Defun's python_grad_func, then its grad_func (GradientDef), which
     takes and gives a gradient for every result and argument.
  3. An argument of a type that has gradients gets one: zeros where no result depends on it.
  4. Effects of the body are not repeated, unless a result needs them.
  5. What a PartitionedCall drew and read is not drawn and read again: the call gets those values as
     further results (`saved`) and its gradient takes them.  A recursive function, a branch, and
     what stands in a loop or branch of the body, compute again; so do Defun's calls, as in TF.

Source: TF 1.x SymbolicGradient, with the branches of If and Case as in cond_v2.
"""
from pyflow.framework import dtypes, function_export, function_library, graph as ops
from pyflow.framework.function_library import Body
from pyflow.framework.function_name import node_name
from pyflow.framework.op_attrs import FunctionName
from pyflow.framework.tensor import Tensor
from pyflow.framework.tensor_shape import unknown_shape
from pyflow.gradients.backprop import gradients
from pyflow.lib.function.func_graph import placeholder_like
from pyflow.ops.base import tensors
from pyflow.ops.control import functional_ops, identity_ops
from pyflow.ops.state import resource_handles

_WITH_GRADIENT = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
                            dtypes.complex64, dtypes.complex128))


class Derived:
    """A function's gradient function.  wanted: the arguments it has gradients for; given: the
    results it takes gradients of; captured: tensors outside that it takes as well; saved: tensors
    of the body that it takes, which function `forward` gives after the results; called: whether it
    was called while it was made."""

    def __init__(self, name, op_def, wanted, given):
        self.name, self.op_def, self.wanted, self.given = name, op_def, wanted, given
        self.captured, self.saved, self.forward = [], [], None
        self.called = False


def of_call(op, dys):
    """Gradients of a call's inputs, for backprop; dys: of its outputs."""
    if op.type in ("If", "StatelessIf"):
        return _of_branches(op, dys, [op.attrs["else_branch"], op.attrs["then_branch"]])
    if op.type in ("Case", "StatelessCase"):
        return _of_branches(op, dys, op.attrs["branches"])
    library = op.graph._library
    name, attrs = _function_of(op)
    defined = getattr(op, "_defun", None) or library.python.get(name)
    own = getattr(defined, "python_grad_func", None)
    if own is not None:
        return own(op, *dys)
    if name in library.gradients:
        return _call_own(op, dys, library.gradients[name])
    derived = gradient_function(library, name, attrs, op, op.type in function_library.PLAIN_CALLS)
    inputs = list(op.inputs) + [_dense(dys[i], op.outputs[i]) for i in derived.given]
    node = _emit(derived.op_def, inputs + _saved(op, derived) + derived.captured, op)
    return _spread(derived, node.outputs, len(op.inputs))


def _function_of(op):
    if op.type in function_library.PLAIN_CALLS:
        return op.attrs["f"].name, op.attrs["f"].attrs
    return op.type, op.attrs


def _emit(op_def, inputs, op):
    attrs = {"_noinline": True} if op.attrs.get("_noinline") else {}
    return ops.get_default_graph().create_op(op_def.name, inputs, name=node_name(op_def.name),
                                             attrs=attrs, op_def=op_def)


def _saved(op, derived):
    """The outputs of a call that hold what its gradient function takes; the call gets them here."""
    if not derived.saved:
        return []
    if op.attrs["f"].name != derived.forward:
        outputs = op.outputs + [
            Tensor(op, len(op.outputs) + i, t.dtype.base_dtype, t.shape)
            for i, t in enumerate(derived.saved)]
        op._set_attr("f", FunctionName(derived.forward))
        op._set_attr("Tout", [t.dtype.base_dtype for t in outputs])
        op.outputs = outputs
    return op.outputs[-len(derived.saved):]


def _spread(derived, outputs, count):
    """A gradient, or None, for each of `count` arguments."""
    found = dict(zip(derived.wanted, outputs))
    return [found.get(i) for i in range(count)]


def _dense(dy, y):
    return ops.convert_to_tensor(dy) if dy is not None else tensors.zeros_like(y)


def _call_own(op, dys, name):
    """A call of the program's gradient function."""
    library = op.graph._library
    op_def = library.op_def(name)
    if op_def is None:
        raise LookupError(f"No gradient of operation '{op.name}': its gradient function {name!r} "
                          f"is not in the graph's library")
    inputs = list(op.inputs) + [_dense(dy, y) for dy, y in zip(dys, op.outputs)]
    node = _emit(op_def, inputs, op)
    if len(node.outputs) != len(op.inputs):
        raise ValueError(f"The gradient function {name!r} of {op.type} node '{op.name}' has "
                         f"{len(node.outputs)} results for {len(op.inputs)} arguments")
    return [dx if dx.dtype.base_dtype in _WITH_GRADIENT else None for dx in node.outputs]


def _of_branches(op, dys, branches):
    """If and Case: the same op with the branches' gradient functions."""
    library, found = op.graph._library, []
    for ref in branches:
        derived = gradient_function(library, ref.name, ref.attrs, op)
        if derived.captured:
            names = ", ".join(t.name for t in derived.captured)
            raise LookupError(f"No gradient of operation '{op.name}' ({op.type}): the gradient of "
                              f"its branch {ref.name!r} uses tensors outside ({names})")
        found.append(derived)
    first = found[0]
    inputs = list(op.inputs[1:]) + [_dense(dys[i], op.outputs[i]) for i in first.given]
    refs = [FunctionName(derived.name) for derived in found]
    types = [gradient_type(op.inputs[1 + i]) for i in first.wanted]
    if op.type.endswith("If"):
        block = functional_ops.If if op.type == "If" else functional_ops.StatelessIf
        outputs = block(op.inputs[0], inputs, Tout=types, else_branch=refs[0],
                        then_branch=refs[1])
    else:
        block = functional_ops.Case if op.type == "Case" else functional_ops.StatelessCase
        outputs = block(op.inputs[0], inputs, Tout=types, branches=refs)
    return [None] + _spread(first, outputs, len(op.inputs) - 1)


# ------------------------------------------------------------------------------- gradient functions


def gradient_type(tensor):
    """The type of a tensor's gradient, of a handle the variable's; None: it has none."""
    dtype = tensor.dtype.base_dtype
    if dtype == dtypes.resource:
        dtype = resource_handles.known_dtype(tensor)
    return dtype if dtype in _WITH_GRADIENT else None


def gradient_function(library, name, attrs, where=None, saving=False):
    """The Derived of a function with the attributes of a call (native values); where: the
    Operation that is differentiated; saving: the call can be given results to be saved."""
    key = library.forwards.get(name)            # of a call that has got them already
    if key is None:
        body = library.body(name, attrs, getattr(where, "name", where))
        key = body.name, saving
        _tell_handles(body, getattr(where, "inputs", ()))
    with library._lock:
        found = library.derived.get(key)
        if found is None:
            return _derive(library, body, key)
        found.called = True
    return found


def _tell_handles(body, inputs):
    """What a call knows of its handles' variables, its function knows: their gradients' types."""
    for mine, given in zip(reversed(body.args), reversed(inputs)):
        if mine.dtype.base_dtype == dtypes.resource and resource_handles.known_dtype(mine) is None:
            dtype = resource_handles.known_dtype(given)
            if dtype is not None:
                mine.op.attrs.update(_handle_dtypes=[dtype], _handle_shapes=[unknown_shape()])


def _derive(library, body, key):
    variants = [t.name for t in body.args if t.dtype.base_dtype == dtypes.variant]
    if variants:
        raise LookupError(f"Function {body.name!r} has no gradient: arguments {variants} are "
                          f"variants")
    wanted = [i for i, t in enumerate(body.args) if gradient_type(t) is not None]
    given = [i for i, t in enumerate(body.results) if t.dtype.base_dtype in _WITH_GRADIENT]
    name, count = f"{body.name}_grad", 0
    while name in library:
        count += 1
        name = f"{body.name}_grad_{count}"
    names = _names(body, wanted, given)
    found = library.derived[key] = Derived(name, _signature(name, body, names, wanted, given),
                                           wanted, given)
    try:
        _build(library, body, found, names, key)
    except BaseException:
        del library.derived[key]
        raise
    return found


def _names(body, wanted, given):
    """(names of arguments, names of results) of the gradient function."""
    args = list(body.names[0])
    used = set(args)

    def free(name):
        while name in used:
            name += "_"
        used.add(name)
        return name
    args += [free(f"d{body.names[1][i]}") for i in given]
    return args, [free(f"d{body.names[0][i]}") for i in wanted]


def _signature(name, body, names, wanted, given):
    from pyflow.framework import protos
    signature = protos.OpDef(name=name)
    types = [t.dtype.base_dtype for t in body.args]
    types += [body.results[i].dtype.base_dtype for i in given]
    for arg, dtype in zip(names[0], types):
        signature.input_arg.add(name=arg, type=dtype.as_datatype_enum)
    for result, i in zip(names[1], wanted):
        signature.output_arg.add(name=result,
                                 type=gradient_type(body.args[i]).as_datatype_enum)
    return function_library.op_def_of(signature)


def _build(library, body, derived, names, key):
    """Adds gradient nodes to the body's graph, and the function to the library."""
    graph = body.graph
    before = len(getattr(graph, "extra_inputs", ()))
    scope = node_name(derived.name)
    with graph.as_default(), ops.control_dependencies(None), ops.name_scope(scope):
        dys = [placeholder_like(body.results[i], f"dy{i}") for i in derived.given]
        args = [body.args[i] for i in derived.wanted]
        dxs = gradients([body.results[i] for i in derived.given], args, dys) if dys and args \
            else [None] * len(args)
        dxs = [identity_ops.Identity(_dense_or_zeros(dx, x)) for dx, x in zip(dxs, args)]
    extra = list(getattr(graph, "extra_args", ()))[before:]
    derived.captured = list(getattr(graph, "extra_inputs", ()))[before:]
    if key[1] and not derived.called:
        _save(library, body, derived, dxs, dys, key)
    inputs = body.args + dys + derived.saved + extra
    names = names[0] + [f"saved{i}_" for i in range(len(derived.saved))] + [
        f"captured{i}_" for i in range(len(extra))], names[1]
    definition, _ = function_export.definition(derived.name, inputs, dxs, names=names)
    derived.op_def = function_library.op_def_of(definition.signature)
    library.add(definition, Body(derived.name, graph, inputs, dxs, [], names, body.noinline,
                                 body.imported))


def _save(library, body, derived, dxs, dys, key):
    """Finds what the gradient would draw or read again, and makes the function that gives it."""
    made = function_export.reachable(dxs, [], body.args + dys)
    derived.saved = [
        t for op in made if op.op_def.stateful and op._get_control_flow_context() is None
        for t in op.outputs if t.dtype.base_dtype not in (dtypes.resource, dtypes.variant)
        and not t.dtype._is_ref_dtype]
    if not derived.saved:
        return
    derived.forward, count = f"{body.name}_saving", 0
    while derived.forward in library:
        count += 1
        derived.forward = f"{body.name}_saving_{count}"
    results = body.results + derived.saved
    names = body.names[0], body.names[1] + [f"saved{i}_" for i in range(len(derived.saved))]
    definition, _ = function_export.definition(derived.forward, body.args, results, body.effects,
                                               names=names)
    library.add(definition, Body(derived.forward, body.graph, body.args, results, body.effects,
                                 names, body.noinline, body.imported))
    library.forwards[derived.forward] = key


def _dense_or_zeros(dx, x):
    if dx is not None:
        return ops.convert_to_tensor(dx)
    if x.dtype.base_dtype == dtypes.resource:
        shape = resource_handles.variable_shape(x)
        return tensors.zeros(shape, resource_handles.known_dtype(x))
    return tensors.zeros_like(x)


def gradient_body(library, name, attrs, where):
    """For a SymbolicGradient node: (name of its gradient function, wanted, given); the latter None
    where the program's own takes and gives all."""
    if name in library.gradients:
        return library.gradients[name], None, None
    derived = gradient_function(library, name, attrs, where)
    if derived.captured:
        raise LookupError(f"SymbolicGradient node {where!r}: the gradient of {name!r} uses tensors "
                          f"outside")
    return derived.name, derived.wanted, derived.given


PUBLIC = {}
