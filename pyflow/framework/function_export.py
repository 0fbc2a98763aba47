"""Graphs to FunctionDefs: the nodes between arguments and results, named as TF's GraphToFunction.

    proto, names = definition("double", [x], [y])

Invariants
  1. Names of results are chosen first, then those of arguments, then of nodes; one that is taken
     gets `_0`, `_1`, ...
  2. A node's input is `argument`, `node:output argument:index` or `^node`.
  3. What is neither reachable from a result nor an effect is not part of the function.

Threads: pure functions.
"""
import re

from pyflow.framework import exported, wire


class _Names:
    """Names of one FunctionDef."""

    def __init__(self):
        self.used = set()

    def unique(self, name):
        found, count = name, 0
        while found in self.used:
            found = f"{name}_{count}"
            count += 1
        self.used.add(found)
        return found

    def argument(self, name):
        """A name as arguments have them: small letters, digits and _."""
        return self.unique(normalized(name))


def normalized(name):
    """A node's name as that of an argument."""
    found = re.sub(r"[^a-z0-9_]", "_", name.lower())
    found = found.lstrip("_0123456789") if found[:1].isalpha() is False else found
    return found or "unknown"


def reachable(results, effects, args):
    """The Operations that results ([Tensor]) and effects ([Operation]) need, in the order they were
    made, those of the arguments left out."""
    stops = {t.op for t in args}
    stack = [t.op for t in results] + list(effects)
    seen = set()
    while stack:
        op = stack.pop()
        if op not in seen and op not in stops:
            seen.add(op)
            stack.extend(t.op for t in op._inputs)
            stack.extend(op._control_inputs)
    return sorted(seen, key=lambda op: op._id)


def definition(name, args, results, effects=(), names=None, result_names=None, description="",
               attrs=None):
    """The FunctionDef of a piece of a graph.

    args, results: tensors of one graph.  effects: Operations that always run.  result_names: names
    of the results, chosen after their operations by default; `names`, those of both, as they are.
    Returns (FunctionDef, (argument names, result names))."""
    from pyflow.framework import protos
    ops = reachable(results, effects, args)
    made = _Names()
    if names is not None:
        arg_names, out_names = names
        made.used.update(arg_names)
    else:
        out_names = list(result_names) if result_names else [made.argument(t.op.name)
                                                             for t in results]
        made.used.update(out_names)
        arg_names = [made.argument(t.op.name) for t in args]
    texts = {t: text for t, text in zip(args, arg_names)}
    node_names = {op: made.unique(op.name) for op in ops}
    found = protos.FunctionDef()
    found.signature.name, found.signature.description = name, description or ""
    found.signature.is_stateful = any(op.op_def.stateful for op in ops)
    for i, (arg, text) in enumerate(zip(args, arg_names)):
        found.signature.input_arg.add(name=text, type=arg.dtype.base_dtype.as_datatype_enum)
        _describe(found.arg_attr[i].attr, arg)
    for result, text in zip(results, out_names):
        found.signature.output_arg.add(name=text, type=result.dtype.base_dtype.as_datatype_enum)
        found.ret[text] = _output_text(result, texts, node_names)
    for op in ops:
        inputs = [_output_text(t, texts, node_names) for t in op._inputs]
        inputs += [f"^{node_names[c]}" for c in op._control_inputs if c in node_names]
        inputs += [f"^{texts[c.outputs[0]]}" for c in op._control_inputs if c not in node_names]
        found.node_def.append(protos.NodeDef.FromString(wire.encode_node_parts(
            node_names[op], op.type, inputs, op._device,
            exported.attrs_of(op, _renamed_groups(op, node_names)))))
    for op in effects:
        found.control_ret[node_names[op]] = node_names[op]
    for key, value in (attrs or {}).items():
        found.attr[key].CopyFrom(protos.AttrValue.FromString(wire.encode_attr(value)))
    return found, (arg_names, out_names)


def _describe(attr, tensor):
    """What is known of an argument: its shape, and for a variable's handle the variable's."""
    from pyflow.framework import protos
    described = {"_output_shapes": [tensor.shape]}
    for key in ("_handle_dtypes", "_handle_shapes"):
        if key in tensor.op.attrs:
            described[key] = tensor.op.attrs[key]
    for key, value in described.items():
        attr[key].CopyFrom(protos.AttrValue.FromString(wire.encode_attr(value)))


def _output_text(tensor, texts, node_names):
    if tensor in texts:
        return texts[tensor]
    op = tensor.op
    return f"{node_names[op]}:{output_of(op.op_def, op.attrs, tensor.value_index)}"


def output_of(op_def, attrs, index):
    """"output argument:index" of a node's flat output."""
    for arg, (start, stop) in zip(op_def.outputs, op_def.output_spans(attrs)):
        if start <= index < stop:
            return f"{arg.name}:{index - start}"
    raise IndexError(f"op {op_def.name} has no output {index}")


def _renamed_groups(op, node_names):
    """The attributes, colocation groups in the function's names."""
    groups = op.attrs.get("_class")
    if not groups:
        return op.attrs
    find = op.graph._nodes_by_name.get
    kept = []
    for group in groups:
        other = find(group[5:]) if group.startswith("loc:@") else None
        if not group.startswith("loc:@"):
            kept.append(group)
        elif other in node_names:
            kept.append(f"loc:@{node_names[other]}")
    attrs = dict(op.attrs, _class=kept)
    if not kept:
        del attrs["_class"]
    return attrs
