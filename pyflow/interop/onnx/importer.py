"""From an ONNX model to a pyflow graph, node by node.

Invariants:
1. Nodes are converted in the file's order, or, where that is no valid one, in one that is
   (order.py); a name that nothing defines is an error.
2. Names are looked up from the innermost graph outwards, as ONNX does: bodies of If, Loop and Scan
   see the values around them, functions only their own.
3. Graphs nest at most 32 deep and functions do not call themselves, so any model ends.

One import is the work of one thread.  See `import_model`.
"""

import functools
import re

import numpy as np

import pyflow as tf
from pyflow import progress
from pyflow.framework import dtypes
from pyflow.interop.onnx import functions, registry, small_types, trainable
from pyflow.interop.onnx.errors import NeedsConstant, OnnxError, UnsupportedError
from pyflow.interop.onnx.maps import Map, Maps
from pyflow.interop.onnx.node import Node, as_values, dense
from pyflow.interop.onnx.order import ordered
from pyflow.interop.onnx.sequences import Kind, Nothing, Sequence
from pyflow.interop.onnx.tensors import dtype_of, shape_of, to_array
from pyflow.interop.onnx.values import Knowledge, Value, Weight

_MAX_NESTING = 32
_HALF = 10                          # ONNX's number of float16


class Scope:
    """Names of one graph, and where to look further."""

    def __init__(self, outer=None):
        self.values, self.outer = {}, outer
        self.depth = outer.depth + 1 if outer is not None else 0

    def find(self, name):
        """The Value called `name` here or further out, or None."""
        found = self.values.get(name)
        return found if found is not None or self.outer is None else self.outer.find(name)


class Importer:
    """Converts one model into the default graph."""

    def __init__(self, model, folder, constants, shapes, weights=None, chosen=None,
                 wide_halves=False, only_run=False):
        """weights: a dict kept with the model, in which its imports share what it holds; chosen: a
        trainable.Chosen, which of its arrays become variables. wide_halves: float16 is float32 but
        for the model's inputs and outputs; only_run: nobody asks for gradients."""
        self.model, self.folder = model, folder
        self.wide_halves, self.only_run = wide_halves, only_run
        self.constants, self.shapes = constants, shapes
        self._weights = {} if weights is None else weights
        self.opsets = _opsets(model.opset_import)
        self.functions = {(_domain(f.domain), f.name): f for f in model.functions}
        self.knowledge = Knowledge()
        self._placeholders = {}     # Placeholder op -> input name
        self._chosen = chosen or trainable.Chosen(False, model)
        self._graph, self._scope = None, ""     # the graph and the name scope of the import
        self._variables = {}        # id of a TensorProto -> its variable
        self.variables = {}         # the model's name -> variable
        self._fed = {}              # placeholders of inputs whose values are wider
        self.small_outputs = {}     # name -> ONNX's number, of outputs that are codes
        self.map_outputs = {}       # name -> array of keys, of outputs that are maps
        self._calls = []            # functions being expanded
        self._top, self._makers = None, {}      # the graph's scope; value -> (op, node's name)
        self._foreign = 0           # of these, those that the model does not hold

    # what nodes ask for
    def array_of(self, value):
        """The value as an array, or None."""
        if value.array is None:
            tensor = value.tensor
            array = self.knowledge.array(tensor)
            if array is None:
                return None
            if value.order is not None:
                array = array.transpose([value.order.index(i) for i in range(array.ndim)])
            value.array = array
            return array
        return value.array

    def held(self, proto, what, name=""):
        """The Value of a TensorProto of the model.  name: what the model calls it."""
        if proto.data_type in small_types.FORMATS:
            codes = small_types.unpacked(proto, shape_of(proto, what), what)
            return Value(array=codes).tagged(proto.data_type)
        if self._foreign:
            return Value(array=self.widened(to_array(proto, self.folder, what)))
        weight = self._weights.get(id(proto))
        if weight is None:      # the model, which owns the message, lives as long as the dict
            array = self.widened(to_array(proto, self.folder, what))
            weight = self._weights[id(proto)] = Weight(array)
        if self._chosen(name, weight.array):
            if tf.get_default_graph() is not self._graph:       # a trial, which is dropped
                return Value(tf.placeholder(dtypes.as_dtype(weight.array.dtype),
                                            weight.array.shape))
            return Value(self._variable(proto, weight.array, name).value())
        return Value(weight=weight)

    def _variable(self, proto, array, name):
        """The variable of an array of the model, made once."""
        made = self._variables.get(id(proto))
        if made is None:
            made = trainable.variable(array, _node_name(name, "weight"), self._scope)
            self._variables[id(proto)] = made
            key, number = name, 1
            while key in self.variables:        # bodies of loops and branches may repeat a name
                key, number = f"{name}_{number}", number + 1
            self.variables[key] = made
        return made

    def widened(self, array):
        """The array, of float32 where halves are."""
        return array.astype(np.float32) if self.wide_halves and array.dtype == np.float16 else array

    def input_names(self, source_ops):
        """Names of the model's inputs among nodes that nothing goes into."""
        return [self._placeholders[op] for op in source_ops if op in self._placeholders]

    def variable_names(self, source_ops):
        """Names of the model's arrays, of those nodes that are variables."""
        names = {variable.op: name for name, variable in self.variables.items()}
        return [names[op] for op in source_ops if op in names]

    # the model
    def run(self):
        """(inputs, outputs): tensors by name."""
        graph = self.model.graph
        if graph is None:
            raise OnnxError("the model has no graph")
        self._graph = tf.get_default_graph()
        scope, self._scope = Scope(), self._graph.get_name_scope()
        self._top = scope
        self._initializers(graph, scope)
        inputs = {}
        for info in graph.input:
            if info.name not in scope.values:
                made = self._input(info)
                scope.values[info.name] = made
                if isinstance(made, Sequence):
                    inputs[info.name] = [item.tensor for item in made.items]
                elif isinstance(made, Map):
                    inputs[info.name] = [made.keys, made.tensor]
                elif not made.is_array:
                    inputs[info.name] = self._fed.get(info.name, made.tensor)
        self.nodes(graph.node, scope, self.opsets)
        outputs = {}
        for info in graph.output:
            value = self._lookup(scope, info.name, "the graph's output")
            if value.small is not None:
                self.small_outputs[info.name] = value.small
            if isinstance(value, Maps):
                self.map_outputs[info.name] = value.labels
            name = _node_name(info.name, "output")
            try:
                outputs[info.name] = (
                    [tf.identity(item.plain, name=name) for item in value.items]
                    if isinstance(value, Sequence) else self._output(info, value, name))
            except (TypeError, ValueError) as error:
                raise OnnxError(f"output {info.name!r}: {error}") from error
        return inputs, outputs

    def named_values(self):
        """{name: (tensor or array, op type, node's name)} of the graph's own values, in the model's
        order; op type '' for inputs and initializers.  Sequences and maps are left out."""
        found = {}
        for name, value in self._top.values.items():
            if type(value) is Value:
                held = value.array if value.is_array else value.plain
                found[name] = held, *self._makers.get(name, ("", name))
        return found

    def _output(self, info, value, name):
        kind = info.type.tensor_type if info.type is not None else None
        if self.wide_halves and kind is not None and kind.elem_type == _HALF \
                and value.dtype is tf.float32:
            return tf.cast(value.plain, tf.float16, name=name)
        return tf.identity(value.plain, name=name)

    def _initializers(self, graph, scope):
        for proto in graph.initializer:
            try:
                scope.values[proto.name] = self.held(proto, f"initializer {proto.name!r}",
                                                     proto.name)
            except OnnxError:
                raise
            except (TypeError, ValueError) as error:
                raise OnnxError(str(error)) from None
            except OSError as error:
                raise OnnxError(f"initializer {proto.name!r}: {error}") from None
        for proto in graph.sparse_initializer:
            if proto.values is not None:
                scope.values[proto.values.name] = Value(array=dense(proto, self.folder))

    def _input(self, info):
        kind = Kind(info)
        if kind.plain:
            return self._tensor_input(info)
        if kind.entries is not None:
            return self._map_input(info.name, kind.entries)
        if info.name not in self.shapes:
            raise NeedsConstant(f"how many elements the input {info.name!r} has must be known "
                                f"while the graph is built: give their shapes as import_model(..., "
                                f"shapes={{name: [shape, ...]}})", [info.name])
        given = self.shapes[info.name]
        if given is None:
            return Nothing()
        if not kind.sequence:
            return self._tensor_input(kind.tensor)
        return Sequence([self._tensor_input(kind.tensor, shape) for shape in given],
                        tensor_type(kind.tensor)[0])

    def _map_input(self, name, entries):
        made = [tf.placeholder(dtype, [None], name=_node_name(f"{name}/{part}", "input"))
                for dtype, part in zip(entries, ("keys", "values"))]
        self._placeholders.update({tensor.op: name for tensor in made})
        return Map(*made)

    def _tensor_input(self, info, shape=None):
        """A placeholder.  shape: in place of the one that is given or said."""
        own, (dtype, shape) = shape, tensor_type(info)
        bound = self.constants.get(info.name)
        if bound is not None:
            return Value(array=self.widened(bound))
        shape = self.shapes.get(info.name, shape) if own is None else own
        made = tf.placeholder(dtype, shape, name=_node_name(info.name, "input"))
        self._placeholders[made.op] = info.name
        if self.wide_halves and made.dtype is tf.float16:
            self._fed[info.name] = made
            made = tf.cast(made, tf.float32)
        return Value(made).tagged(small_type(info))

    def _lookup(self, scope, name, what):
        value = scope.find(name)
        if value is None:
            raise OnnxError(f"{what} {name!r} is not defined by any node, input or initializer "
                            f"before it")
        return value

    def nodes(self, protos, scope, opsets, references=None):
        """Converts nodes into `scope`.  references: a function call's attributes, by name."""
        protos = ordered(protos)
        if scope is self._top:
            protos = progress.steps(protos, "importing ONNX nodes")
        for proto in protos:
            self._node(proto, scope, opsets, references or {})

    def _node(self, proto, scope, opsets, references):
        domain = _domain(proto.domain)
        opset = opsets.get(domain)
        label = proto.name or (proto.output[0] if len(proto.output) else proto.op_type)
        where = {"node": label, "op": proto.op_type, "opset": opset}
        inputs = []
        for name in proto.input:
            try:
                inputs.append(self._lookup(scope, name, "input") if name else None)
            except OnnxError as error:
                raise OnnxError(str(error), **where) from None
        attributes = _attributes(proto, references)
        node = Node(self, proto, inputs, opset, attributes, (scope, opsets, references))
        with tf.name_scope(_node_name(label, proto.op_type)):
            results = self._convert(node, domain)
        for name, value in zip(proto.output, results):
            if name and value is not None:
                scope.values[name] = value
                if scope is self._top:
                    self._makers[name] = proto.op_type, label
        made = [v is not None for v in results] + [False] * len(proto.output)
        missing = [n for n, ok in zip(proto.output, made) if n and not ok]
        if missing:
            raise UnsupportedError(f"output {missing[0]!r} is not computed here", **where)

    def _convert(self, node, domain):
        function = self.functions.get((domain, node.op))
        if function is not None:
            return self.call(node, function)
        if node.opset is None:
            raise OnnxError(f"the model imports no opset for the domain {domain or 'ai.onnx'!r}; "
                            f"it imports {self.opsets}", **node.where())
        convert = registry.find(domain, node.op, node.opset)
        if small_types.concerns(node):
            convert = functools.partial(small_types.convert, plain=convert)
        if convert is None:
            function = functions.schema_function(node, domain)
            if function is None:
                raise UnsupportedError(
                    f"no converter for this op in domain {domain or 'ai.onnx'!r}; python -c "
                    f"'from pyflow.interop import onnx; print(onnx.supported_ops())' lists those "
                    f"there are", **node.where())
            self._foreign += 1
            try:
                return self.call(node, function)
            finally:
                self._foreign -= 1
        try:
            return as_values(convert(node))
        except (OnnxError, NeedsConstant):
            raise
        except RecursionError:
            raise OnnxError("the node is nested too deeply", **node.where()) from None
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
                OSError, MemoryError) as error:
            raise OnnxError(f"{type(error).__name__}: {error}", **node.where()) from error

    # graphs inside
    def call(self, node, function):
        """The results of a FunctionProto at a node."""
        key = function.domain, function.name
        if key in self._calls or len(self._calls) > _MAX_NESTING:
            raise OnnxError(f"function {function.name!r} calls itself or nests more than "
                            f"{_MAX_NESTING} deep", **node.where())
        scope = Scope()
        for name, value in zip(function.input, node.inputs):
            if value is not None:
                scope.values[name] = value
        references = {a.name: a for a in function.attribute_proto}
        references.update(node._attributes)
        opsets = dict(self.opsets)
        opsets.update(_opsets(function.opset_import))
        absent = [name for i, name in enumerate(function.input) if not node.has(i)]
        self._calls.append(key)
        try:
            self.nodes(functions.without(function.node, absent), scope, opsets, references)
            return [scope.find(name) for name in function.output]
        finally:
            self._calls.pop()

    def subgraph(self, node, graph, inputs):
        """Values of a body's outputs.  inputs: Values, in the order of the body's inputs."""
        outer, opsets, references = node.scope
        if outer.depth >= _MAX_NESTING:
            raise node.error(f"graphs nest more than {_MAX_NESTING} deep")
        scope = Scope(outer)
        self._initializers(graph, scope)
        names = [info.name for info in graph.input]
        if len(names) != len(inputs):
            raise node.error(f"its body has {len(names)} inputs, expected {len(inputs)}")
        scope.values.update(zip(names, inputs))
        self.nodes(graph.node, scope, opsets, references)
        return [self._lookup(scope, info.name, "the body's output") for info in graph.output]


def _opsets(imports):
    return {_domain(entry.domain): int(entry.version) for entry in imports}


def _domain(name):
    return "" if name == "ai.onnx" else name


def _attributes(proto, references):
    """AttributeProtos by name; those that refer to a function's attribute are replaced."""
    found = {}
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            given = references.get(attribute.ref_attr_name)
            if given is not None:
                found[attribute.name] = given
        else:
            found[attribute.name] = attribute
    return found


def tensor_type(info):
    """(DType, shape) of a ValueInfoProto; shape None where the rank is not said, DType uint8 for
    codes of small types.

    Raises UnsupportedError for sequences, maps and optionals."""
    kind = info.type
    if kind is None or kind.tensor_type is None:
        what = next(iter(kind.__dict__), "no type") if kind is not None else "no type"
        raise UnsupportedError(f"input {info.name!r} has {what}; expected a tensor")
    try:
        dtype = (tf.uint8 if kind.tensor_type.elem_type in small_types.FORMATS else
                 dtype_of(kind.tensor_type.elem_type, f"input {info.name!r}"))
    except TypeError as error:
        raise UnsupportedError(str(error)) from None
    shape = kind.tensor_type.shape
    if shape is None:
        return dtype, None
    return dtype, [int(d.dim_value) if d.has("dim_value") and d.dim_value >= 0 else None
                   for d in shape.dim]


def small_type(info):
    """ONNX's number of a ValueInfoProto's element type where that is a small one, else None."""
    number = info.type.tensor_type.elem_type
    return number if number in small_types.FORMATS else None


def _node_name(name, default):
    """`name` as a node name: other characters become underscores."""
    made = re.sub(r"[^A-Za-z0-9_./-]", "_", str(name)).lstrip("_-/").rstrip("/")
    if made and re.match(r"[A-Za-z0-9.]", made):
        return made
    return re.sub(r"[^A-Za-z0-9]", "", str(default)) or "node"
