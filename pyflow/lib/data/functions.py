"""Python functions of elements as functions of the graph's library.

Invariants
  1. A function takes an element's components and then what it captured; its name is unique.
  2. A tuple is passed as several arguments, anything else as one, as in TF.
  3. Its results' structure is told by `types` and `shapes`; a list of results, as py_func gives, is
     a tuple, lists in it become tensors.

Who calls it: the transformations of lib/data.  Thread: the one building the graph.
"""
from pyflow.framework import function_export, graph as ops
from pyflow.framework.function_library import Body, effects_of
from pyflow.framework.sparse_values import SparseTensor, SparseTensorValue
from pyflow.lib.data import structure
from pyflow.lib.function import func_graph
from pyflow.lib.function.traced_function import order_effects


class ElementFunction:
    """A traced function.  name: in the library; captured: tensors outside; outputs: its tensors;
    returned: their structure, of Tensors."""

    def __init__(self, function, label, types, shapes, by_value=False, allowed_stateful=()):
        returned = []
        flat_types = [None] if types is None else structure.flat_types(types)

        def body(*components):
            element = structure.packed(types, components, shapes)
            result = function(*element) if type(types) is tuple or hasattr(types, "_fields") \
                else function(element)
            if isinstance(result, list):
                result = tuple(result)
            if result is None:
                raise TypeError(f"Unsupported return value from function passed to Dataset."
                                f"{label.split('_')[0]}(): None.")
            result = structure.map_leaves(_as_component, result)
            returned.append(result)
            return [structure.unwrapped(leaf) for leaf in structure.flatten(result)]

        def nothing():
            result = function()
            returned.append(result)
            return [structure.unwrapped(leaf) for leaf in structure.flatten(result)]

        graph = func_graph.trace(
            body if flat_types != [None] else nothing,
            [] if flat_types == [None] else flat_types,
            shapes=[] if flat_types == [None] else structure.flat_shapes(types, shapes),
            name=label, read_variables=False, capture_by_value=by_value,
            allowed_stateful=allowed_stateful)
        order_effects(graph)
        self.graph, self.returned = graph, returned[0]
        self.captured, self.outputs = graph.extra_inputs, graph.outputs
        self.name = _define(graph, label)

    @property
    def captured_types(self):
        return [tensor.dtype.base_dtype for tensor in self.captured]


def _as_component(value):
    """A leaf of what a function returned: datasets and sparse tensors stay, all else becomes a
    tensor."""
    if hasattr(value, "_variant_tensor") or isinstance(value, SparseTensor):
        return value
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    return ops.convert_to_tensor(value)


def _define(graph, label):
    library, count = graph._library, 0
    while f"Dataset_{label}_{count}" in library:
        count += 1
    name = f"Dataset_{label}_{count}"
    effects = effects_of(graph, graph.inputs)
    definition, names = function_export.definition(name, graph.inputs, graph.outputs, effects)
    library.add(definition, Body(name, graph, graph.inputs, graph.outputs, effects, names, False))
    return name
