"""`import_graph_def`: adds the nodes of a GraphDef, which may come from anywhere, to the default
graph.

Invariants:
1. Everything that can be found before the first node is added is found there: unknown ops,
   attributes and inputs are listed in one error each, and nothing is added.
2. Nodes are added in the order of the file as far as their inputs allow. Only edges from
   NextIteration into Merge may run backwards; other cycles are errors.
3. A malformed GraphDef raises ValueError, TypeError or an OpError, whatever its bytes.
4. Calls of functions (PartitionedCall, While, If, Case, ...) are inlined before anything else, see
   function_inline.py: the graph's own nodes are those of version 1, and calls that must stay.  The
   file's library becomes the graph's.

States of a node: WAITING (inputs missing) -> READY [in file order] -> ADDED.
"""

import heapq

from pyflow import progress
from pyflow.framework import (default_graph, errors, exported, function_inline, function_lower,
                              op_check, wire)
from pyflow.framework.default_scopes import name_scope
from pyflow.framework.device import checked_name
from pyflow.framework.function_library import op_def_of
from pyflow.framework.op import find_op
from pyflow.framework.scopes import _VALID_OP_NAME
from pyflow.framework.tensor import UNKNOWN_SHAPE, Tensor
from pyflow.framework.tensor_shape import TensorShape, as_shape

CONSUMER_VERSION = 2474  # TF 2.21's
LEVEL = "1.15.0"         # the API's, pyflow.VERSION


def import_graph_def(graph_def, input_map=None, return_elements=None, name=None, op_dict=None,
                     producer_op_list=None):
    """Adds the nodes of `graph_def` to the default graph (TF 1.x `tf.import_graph_def`).

    graph_def: a GraphDef (ours or TensorFlow's) or its bytes. input_map: {"node:0": tensor}
    replaces tensors of the file. return_elements: names of operations and tensors to return. name:
    prefix, "import" by default; "" for none. producer_op_list: OpList of the producer, to drop
    attributes that are newer than our schema and at the producer's default. op_dict: accepted.

    Raises NotFoundError that lists every op no plugin knows, ValueError and TypeError as TF does.

        >>> with tf.Graph().as_default() as graph:
        ...     y = tf.identity(tf.placeholder(tf.float32, name="x") * 2.0, name="y")
        >>> x, y = tf.import_graph_def(graph.as_graph_def(), return_elements=["x:0", "y:0"])
        >>> tf.Session().run(y, {x: 21})
        np.float32(42.0)
    """
    graph_def = _as_graph_def(graph_def)
    input_map = _checked_map(input_map)
    return_elements = _checked_elements(return_elements)
    graph = default_graph.get_default_graph()
    _check_versions(graph_def.versions)
    tensors = [v for v in input_map.values() if isinstance(v, Tensor)]
    with name_scope(name, "import", tensors) as scope:
        if len(tensors) < len(input_map):
            input_map = _convert_map(input_map, scope)
        graph._check_not_finalized()
        with graph._lock:
            task = Import(graph, graph_def, input_map, scope, producer_op_list)
            task.run()
            return task.returned(return_elements)


def _as_graph_def(value):
    from google.protobuf import message

    from pyflow.framework import protos
    if isinstance(value, protos.GraphDef):
        return value
    if not isinstance(value, (bytes, bytearray)):
        if not hasattr(value, "SerializeToString") or not hasattr(value, "node"):
            raise TypeError(f"graph_def must be a GraphDef proto, got {type(value).__name__}.")
        value = value.SerializeToString()
    try:
        return protos.GraphDef.FromString(bytes(value))
    except message.DecodeError as error:
        raise ValueError(f"graph_def is not a GraphDef: {error}") from None


def _checked_map(input_map):
    if input_map is None:
        return {}
    if not isinstance(input_map, dict) or not all(isinstance(k, (str, bytes)) for k in input_map):
        raise TypeError(f"input_map must be a dictionary mapping strings to Tensor objects. "
                        f"Obtained {type(input_map).__name__}")
    return {k.decode() if isinstance(k, bytes) else k: v for k, v in input_map.items()}


def _convert_map(input_map, scope):
    from pyflow.framework.convert import convert_to_tensor
    if not scope:
        raise ValueError("tf.import_graph_def() requires a non-empty `name` if `input_map` "
                         "contains non-Tensor values. Try calling tf.convert_to_tensor() on "
                         "`input_map` values before calling tf.import_graph_def().")
    with name_scope("_inputs"):
        return {key: value if key.startswith("^") else convert_to_tensor(value)
                for key, value in input_map.items()}


def _checked_elements(elements):
    if elements is None:
        return None
    if isinstance(elements, (str, bytes)) or not all(isinstance(e, (str, bytes)) for e in elements):
        raise TypeError("return_elements must be a list of strings.")
    return [e.decode() if isinstance(e, bytes) else e for e in elements]


def _check_versions(versions):
    if versions.min_consumer > CONSUMER_VERSION:
        raise ValueError(f"GraphDef min consumer version {versions.min_consumer} above current "
                         f"version {CONSUMER_VERSION} of this pyflow. Please upgrade pyflow.")
    if CONSUMER_VERSION in versions.bad_consumers:
        raise ValueError(f"GraphDef disallows consumer version {CONSUMER_VERSION}.")
    if versions.producer < 0:
        raise ValueError(f"GraphDef producer version {versions.producer} below min producer 0 "
                         f"supported by TensorFlow {LEVEL}.  Please regenerate your graph.")


def _parse_input(text):
    """("node", index) of "node", "node:1" or "^node" (index -1)."""
    if text.startswith("^"):
        return text[1:], -1
    name, colon, index = text.rpartition(":")
    if not colon or not index.isdigit() or len(index) > 9:
        return text, 0
    return name, int(index)


class _Node:
    """One NodeDef, or FlatNode of a function's body, on its way into the graph."""

    __slots__ = ("index", "name", "op_type", "attr", "device", "context", "op_def", "inputs",
                 "waiting", "readers", "back_edges", "op")

    def __init__(self, index, source, inputs, op_def):
        self.index = index
        self.name, self.op_type, self.attr = source.name, source.op, source.attr
        self.device = source.device
        self.context = getattr(source, "context", None)
        self.op_def = op_def
        self.inputs = [_parse_input(text) for text in inputs]
        self.waiting = 0
        self.readers = []
        self.back_edges = []
        self.op = None

    @property
    def label(self):
        return f"Node {self.name!r} ({self.op_type})"


class Import:
    """One call of import_graph_def.  flat: (Inliner, [FlatNode]), where the calls are inlined."""

    def __init__(self, graph, graph_def, input_map, scope, producer_op_list, flat=None):
        self.graph = graph
        self.graph_def = graph_def
        self.input_map = input_map
        self.used_keys = set()
        self.prefix = scope
        self.producer_ops = _op_list(producer_op_list)
        self.inliner, self.flat = flat or (function_inline.Inliner(
            graph_def, _names_mapped(input_map), graph._library.definitions,
            [*graph._library.gradients, *(g.function_name for g in graph_def.library.gradient)]),
            None)
        self.nodes = {}
        self.names = {}
        self.functions = {}             # OpDefs of the file's functions that stay calls

    def run(self):
        self.check_library()
        self.read_nodes()
        self.check_ops()
        self.prepare_attrs()
        self.connect()
        self.check_map_used()
        self.choose_names()
        self.take_library()
        self.take_versions()
        self.add_all()
        self.colocate()
        self.make_contexts()

    # Reading and checking, before anything is added

    def check_library(self):
        """ValueError for functions that are others than those of the graph."""
        given, library = self.graph_def.library, self.graph._library
        for function in given.function:
            library.check(function)
        for gradient in given.gradient:
            library.check_gradient(gradient.function_name, gradient.gradient_func)

    def take_library(self):
        """The file's functions become the graph's."""
        given, library = self.graph_def.library, self.graph._library
        for function in given.function:
            copy = type(function)()
            copy.CopyFrom(function)
            library.add(copy)
        for gradient in given.gradient:
            library.add_gradient(gradient.function_name, gradient.gradient_func)

    def take_versions(self):
        """The graph is as old as the oldest of its parts, and wants what any of them wants."""
        graph, given = self.graph, self.graph_def.versions
        graph._producer_version = min(graph._producer_version, given.producer)
        graph._min_consumer = max(graph._min_consumer, given.min_consumer)

    def op_def(self, op_type):
        """The OpDef of an op or of a function; None: neither."""
        found = find_op(op_type) or self.graph._library.op_def(op_type)
        if found is None and op_type in self.inliner.library:
            found = self.functions.get(op_type)
            if found is None:
                found = self.functions[op_type] = op_def_of(
                    self.inliner.library[op_type].signature)
        return found

    def read_nodes(self):
        flat = self.inliner.run() if self.flat is None else self.flat
        for index, source in enumerate(self.graph_def.node if flat is None else flat):
            if not _VALID_OP_NAME.match(source.name):
                raise ValueError(f"Node {source.name!r}: Node name contains invalid characters")
            if source.name in self.nodes:
                raise ValueError(f"Node {source.name!r} is not unique")
            inputs = source.input if flat is None else source.inputs
            self.nodes[source.name] = _Node(index, source, inputs, self.op_def(source.op))

    def check_ops(self):
        """One error for every op that nobody declares."""
        missing = {}
        for node in self.nodes.values():
            if node.op_def is None:
                missing.setdefault(node.op_type, []).append(node.name)
        if not missing:
            return
        lines = []
        for op_type, names in sorted(missing.items()):
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"  {op_type}: node {', '.join(names[:5])}{more}")
        raise errors.NotFoundError(None, None, (
            f"The graph needs {len(missing)} op type(s) not registered here:\n" + "\n".join(lines) +
            "\nInstall the plugin that declares them (`python -m pyflow check` lists what is "
            "missing)."))

    def prepare_attrs(self):
        """Native attributes of every node; one error for all attributes the schemas do not know."""
        unknown = []
        for node in self.nodes.values():
            attrs = {}
            for key, value in node.attr.items():
                try:
                    known = node.op_def.attrs.get(key)
                    if known is not None:
                        wire.require_kind(value, known.kind)
                    attrs[key] = wire.from_attr_value(value)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"{node.label}: attr {key!r}: {error}") from None
                if key not in node.op_def.attrs and not key.startswith("_"):
                    if not self.may_drop(node, key, attrs[key]):
                        unknown.append(f"  {node.label}: {key} = {attrs[key]!r}")
                    del attrs[key]
            node.op = attrs  # until the node is added
        if unknown:
            raise ValueError("NodeDef mentions attrs that are not in our ops (is the producer "
                             "newer?):\n" +
                             "\n".join(unknown[:20]))

    def may_drop(self, node, key, value):
        """An attribute newer than our schema may go if it says what leaving it out says."""
        producer = self.producer_ops.get(node.op_type)
        if producer is not None and key in producer:
            return wire.from_attr_value(producer[key]) == value
        return value is None or value in (False, 0, 0.0, "", []) if not hasattr(value,
                                                                                "shape") else False

    def connect(self):
        """Counts what each node waits for; ValueError for inputs that do not exist."""
        for node in self.nodes.values():
            data_done = False
            for position, (name, index) in enumerate(node.inputs):
                if index >= 0 and data_done:
                    raise ValueError(f"{node.label}: Control dependencies must come after regular "
                                     f"dependencies")
                data_done = index < 0
                if self.mapped(name, index) is not None:
                    continue
                source = self.nodes.get(name)
                if source is None:
                    raise ValueError(f"Node {node.name!r}: Unknown input node {name!r}")
                if node.op_type in ("Merge", "RefMerge") and index >= 0 \
                        and source.op_type in ("NextIteration", "RefNextIteration"):
                    node.back_edges.append((position, source, index))
                    continue
                node.waiting += 1
                source.readers.append(node)

    def mapped(self, name, index):
        """The replacement in input_map of an input, or None."""
        if not self.input_map:
            return None
        keys = (f"^{name}",) if index < 0 else (f"{name}:{index}", name) if index == 0 else \
            (f"{name}:{index}",)
        for key in keys:
            if key in self.input_map:
                self.used_keys.add(key)
                return self.input_map[key]
        return None

    def check_map_used(self):
        """Every key of input_map must name something in the file."""
        missing = []
        for key in set(self.input_map) - self.used_keys:
            name, index = _parse_input(key)
            node = self.nodes.get(name)
            if node is None or index >= _outputs_at_most(node):
                missing.append(key)
        if missing:
            raise ValueError(f"Attempted to map inputs that were not found in graph_def: "
                             f"[{', '.join(sorted(missing))}]")

    def choose_names(self):
        """Final names: prefixed, and made unique where the graph has them already."""
        graph, taken = self.graph, None
        for name in self.nodes:
            full = self.prefix + name
            if full.lower() in graph._names_in_use and taken is None:
                taken = _names_and_scopes(graph)
            if taken and full in taken:
                saved, graph._scopes.name = graph._scopes.name, ""
                try:
                    full = graph.unique_name(full)
                finally:
                    graph._scopes.name = saved
            self.names[name] = full

    # Adding

    def add_all(self):
        ready = [n.index for n in self.nodes.values() if n.waiting == 0]
        order = list(self.nodes.values())
        heapq.heapify(ready)
        added, look = 0, 1
        with progress.of("importing nodes", len(order)) as shown:
            while ready:
                node = order[heapq.heappop(ready)]
                self.add(node)
                added += 1
                if added == look:
                    shown.set(added)
                    look += shown.turns
                for reader in node.readers:
                    reader.waiting -= 1
                    if reader.waiting == 0:
                        heapq.heappush(ready, reader.index)
            shown.count = added
        if added < len(order):
            stuck = [n.name for n in order if n.waiting]
            raise ValueError(f"{len(stuck)} nodes in a cycle: {', '.join(stuck[:5])}. Only edges "
                             f"from NextIteration to Merge may run backwards.")
        for node in order:
            for position, source, index in node.back_edges:
                self.close_loop(node, position, source, index)

    def source_tensor(self, node, name, index):
        found = self.mapped(name, index)
        if found is not None:
            return found
        outputs = self.nodes[name].op.outputs
        if index >= len(outputs):
            raise ValueError(f"Node {node.name!r}: Connecting to invalid output {index} of "
                             f"source node {name} which has {len(outputs)} outputs.")
        return outputs[index]

    def add(self, node):
        attrs = node.op
        back = {position for position, _, _ in node.back_edges}
        inputs, control = [], []
        for position, (name, index) in enumerate(node.inputs):
            if index < 0:
                replaced = self.mapped(name, index)
                source = self.nodes[name].op if replaced is None else getattr(replaced, "op",
                                                                              replaced)
                if source not in control:
                    control.append(source)
            else:
                inputs.append(None if position in back else self.source_tensor(node, name, index))
        inputs = self.stand_in(node, inputs)
        try:
            types = op_check.complete(node.op_def, node.name, inputs, attrs)
            device = checked_name(node.device)
        except (ValueError, TypeError) as error:
            raise ValueError(str(error)) from None
        self.prefix_colocation(node, attrs)
        given = attrs.pop("_output_shapes", None)
        if self.prefix and node.op_type in ("Enter", "RefEnter"):   # one frame for each import
            attrs["frame_name"] = f"{self.prefix}{attrs['frame_name']}"
        # What comes round a loop may have another shape than what enters it.
        known = (UNKNOWN_SHAPE, TensorShape(())) if back else None
        node.op = self.graph.add_node(node.op_def, self.names[node.name], tuple(inputs),
                                      attrs, types,
                                      known, control, device)
        if given:
            self.refine_shapes(node, given)

    def stand_in(self, node, inputs):
        """A Merge is added with another of its inputs in place of the back edges still to come."""
        if not node.back_edges:
            return inputs
        present = next((t for t in inputs if t is not None), None)
        if present is None:
            raise ValueError(f"{node.label}: every input is a back edge, so the loop can never "
                             f"start")
        return [present if t is None else t for t in inputs]

    def close_loop(self, node, position, source, index):
        tensor = self.source_tensor(node, source.name, index)
        try:
            node.op._update_input(position, tensor)
        except TypeError as error:
            raise ValueError(str(error)) from None

    def refine_shapes(self, node, given):
        """`_output_shapes` of the producer must agree with ours and may say more."""
        if not isinstance(given, list) or len(given) != len(node.op.outputs):
            raise ValueError(f"{node.label}: _output_shapes has {given!r} for "
                             f"{len(node.op.outputs)} outputs")
        for i, (tensor, shape) in enumerate(zip(node.op.outputs, given)):
            if not exported.is_shared(node.op_type, i):
                continue
            try:
                tensor._shape = tensor._shape.merge_with(as_shape(shape))
            except (ValueError, TypeError):
                if self.graph_def.versions.producer >= 21 \
                        and node.op_type not in exported.SHAPES_CHANGED:
                    raise ValueError(
                        f"Node {node.name!r} has an _output_shapes attribute inconsistent "
                        f"with the GraphDef for output #{i}: {shape} against "
                        f"{tensor._shape}") from None

    # Afterwards

    def prefix_colocation(self, node, attrs):
        groups = attrs.get("_class")
        if not groups:
            return
        if not isinstance(groups, list) or not all(isinstance(g, str) for g in groups):
            raise ValueError(f"{node.label}: attr '_class' must be a list of strings, got "
                             f"{groups!r}")
        renamed = []
        for group in groups:
            if group.startswith("loc:@"):
                if group[5:] not in self.names:
                    raise ValueError(f"Node {node.name!r} expects to be colocated with "
                                     f"unknown node {group[5:]!r}")
                group = "loc:@" + self.names[group[5:]]
            renamed.append(group)
        attrs["_class"] = renamed

    def colocate(self):
        """A node that is colocated with others has the device of the first of them that has one,
        whatever the file and the scopes around the import say of its own."""
        find, colocated = self.graph._nodes_by_name.get, []
        for node in self.nodes.values():
            others = [find(group[5:]) for group in node.op.attrs.get("_class", ())
                      if group.startswith("loc:@") and group[5:] != node.op.name]
            if others:
                node.op._set_device("")
                colocated.append((node.op, others))
        for op, others in colocated:
            device = next((other._device for other in others if other is not None
                           and other._device), "")
            if device:
                op._set_device(device)

    def make_contexts(self):
        """Loops and branches made of functions are known to the graph, for gradients."""
        around = self.graph._get_control_flow_context()
        if self.inliner.contexts and around is None and function_lower.make_contexts is not None:
            function_lower.make_contexts(
                self.graph, self.inliner.contexts,
                {node.op: node.context for node in self.nodes.values()}, self.tensor_named)

    def tensor_named(self, text):
        """The tensor that an input of the file ("node", "node:1") means, or its replacement."""
        name, index = _parse_input(text)
        found = self.mapped(name, index)
        return self.nodes[name].op.outputs[index] if found is None else found

    def returned(self, elements):
        if elements is None:
            return None
        return [self.element(text) for text in elements]

    def element(self, text):
        if ":" not in text:
            if text not in self.nodes:
                raise ValueError(f"Requested return node {text!r} not found in graph def")
            return self.nodes[text].op
        name, index = _parse_input(text)
        found = self.mapped(name, index)
        if found is not None:
            return found
        if name not in self.nodes or index >= len(self.nodes[name].op.outputs):
            raise ValueError(f"Requested return tensor {text!r} not found in graph def")
        return self.nodes[name].op.outputs[index]


def _names_and_scopes(graph):
    """Names of operations and of the scopes around them: a scope that was entered and left without
    an operation does not take its name."""
    found = set()
    for name in graph._nodes_by_name:
        while name and name not in found:
            found.add(name)
            name = name.rpartition("/")[0]
    return found


def _outputs_at_most(node):
    """How many outputs a node whose attributes are read has, as far as these say."""
    count = 0
    for arg in node.op_def.outputs:
        size = node.op.get(arg.number_attr or arg.type_list_attr, 1 << 20) if arg.is_list else 1
        count += len(size) if isinstance(size, list) else size
    return count


def _names_mapped(input_map):
    return {_parse_input(key)[0] for key in input_map}


def _op_list(producer_op_list):
    """{op: {attr: default AttrValue}} of an OpList."""
    if producer_op_list is None:
        return {}
    return {op.name: {a.name: a.default_value for a in op.attr if a.HasField("default_value")}
            for op in producer_op_list.op}
