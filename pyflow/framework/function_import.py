"""A FunctionDef as a graph: what Library.body makes when an imported function is first needed.

Invariant: the body's operations are those of version 1, as an import of the function's nodes would
make them; calls that are recursive or marked `_noinline` stay.

Threads: under the library's lock.  Who calls it: function_library.py.
"""
from pyflow.framework import function_inline, graph as graph_lib, graph_import, protos, wire
from pyflow.framework import dtypes
from pyflow.framework.function_library import Body, effects_of
from pyflow.framework.tensor_shape import unknown_shape


def body_of(library, name, function_def, attrs):
    """The Body of a definition; attrs: native values of the signature's attributes."""
    graph = graph_lib.Graph(strict=False)
    graph._library = library
    protos_of_attrs = {key: protos.AttrValue.FromString(wire.encode_attr(value))
                       for key, value in attrs.items()}
    inliner = function_inline.Inliner(protos.GraphDef(), known=library.definitions,
                                       differentiable=library.gradients)
    function = function_inline.Function(function_def, protos_of_attrs)
    args = _arguments(function)
    flat, results, controls = inliner.run_body(function, args)
    with graph.as_default():
        task = graph_import.Import(graph, protos.GraphDef(), {}, "", None, (inliner, flat))
        try:
            task.run()
        except (ValueError, TypeError) as error:
            raise ValueError(f"Function {function_def.signature.name!r}: {error}") from None
    tensors = [task.tensor_named(text) for text in results]
    held = [task.nodes[text[1:]].op for text in controls]
    noinline = "_noinline" in function_def.attr and function_def.attr["_noinline"].b
    names = ([_flat_name(*arg) for arg in function.args],
             [_flat_name(*result) for result in function.results])
    inputs = [task.nodes[node.name].op.outputs[0] for node in flat[:len(args)]]
    return Body(name, graph, inputs, tensors, effects_of(graph, inputs, held), names, noinline,
                imported=True)


def _flat_name(name, index):
    return f"{name}_{index}" if index else name


def _arguments(function):
    """Placeholders, one per flat argument."""
    signature, types = function.proto.signature, []
    for arg in signature.input_arg:
        types.extend(function.types_of(arg))
    made = []
    for i, ((name, index), dtype) in enumerate(zip(function.args, types)):
        attr = {"dtype": dtypes.as_dtype(dtype), "shape": unknown_shape()}
        described = function.proto.arg_attr[i].attr if i in function.proto.arg_attr else {}
        shapes = described["_output_shapes"].list.shape if "_output_shapes" in described else ()
        if len(shapes) == 1:
            attr["shape"] = wire.from_attr_value(described["_output_shapes"])[0]
        for key in ("_handle_dtypes", "_handle_shapes"):
            if key in described:
                attr[key] = described[key]
        made.append(function_inline.FlatNode(_flat_name(name, index), "Placeholder", [], attr, "",
                                             None))
    return made
