"""Changes element types and handles in a GraphDef, so that nodes disagree with the objects behind
their handles, and little else.

    changed = retype(graph_def, random.Random(7))       # a new GraphDef

Some `type` attributes get another type, some resource inputs another resource.  Then every input
of another type than its node declares now is given a constant of the right one: what is left to
refuse the graph, or to run into the wrong memory, are variables, slots, tables, arrays and stacks.
"""
import numpy as np

from pyflow.framework import dtypes, protos, tensor_util
from pyflow.framework.op import registered_ops

TYPES = [dtypes.as_dtype(name) for name in (
    "float32", "float64", "int32", "int64", "string", "int8", "uint16", "bool", "complex128",
    "float16", "bfloat16", "resource", "variant")]
NOT_CHANGED = ("_Arg", "_Retval", "NoOp")


def _count(arg, node):
    if arg.number_attr:
        return node.attr[arg.number_attr].i
    return len(node.attr[arg.type_list_attr].list.type) if arg.type_list_attr else 1


def _types(args, node):
    """[(number of the element type, is a reference)] of inputs or outputs."""
    found = []
    for arg in args:
        if arg.type_list_attr:
            found += [(t % 100, arg.is_ref) for t in node.attr[arg.type_list_attr].list.type]
            continue
        number = node.attr[arg.type_attr].type % 100 if arg.type_attr else \
            arg.dtype.as_datatype_enum % 100
        found += [(number, arg.is_ref)] * _count(arg, node)
    return found


def _split(name):
    node, _, output = name.partition(":")
    return node, int(output or 0)


class _Retyped:
    def __init__(self, graph_def, rng):
        self.rng, self.ops = rng, registered_ops()
        self.graph_def = protos.GraphDef()
        self.graph_def.CopyFrom(graph_def)
        self.nodes = {node.name: node for node in self.graph_def.node}

    def output(self, name):
        """The (type, is a reference) of an output; None: there is none such."""
        node, k = _split(name)
        outputs = _types(self.ops[self.nodes[node].op].outputs, self.nodes[node])
        return outputs[k] if k < len(outputs) else None

    def change(self):
        node = self.rng.choice(list(self.graph_def.node))
        typed = [a for a in node.attr.values() if a.WhichOneof("value") == "type" or a.list.type]
        handles = [k for k, (t, _) in enumerate(_types(self.ops[node.op].inputs, node))
                   if t == dtypes.resource.as_datatype_enum]
        if handles and self.rng.random() < 0.3:
            others = [n.name for n in self.graph_def.node if self.output_is_resource(n)]
            node.input[self.rng.choice(handles)] = self.rng.choice(others)
        elif typed and node.op not in NOT_CHANGED:
            number = self.rng.choice(TYPES).as_datatype_enum
            attr = self.rng.choice(typed)
            if attr.WhichOneof("value") == "type":
                attr.type = number
            else:
                attr.list.type[self.rng.randrange(len(attr.list.type))] = number

    def output_is_resource(self, node):
        found = _types(self.ops[node.op].outputs, node)
        return bool(found) and found[0][0] == dtypes.resource.as_datatype_enum

    def constant(self, number):
        dtype = dtypes.as_dtype(number)
        shape = self.rng.choice([(), (3,), (2, 2), (70,)])
        value = np.full(shape, b"text", object) if dtype == dtypes.string else \
            np.ones(shape, dtype.as_numpy_dtype)
        node = self.graph_def.node.add(name=f"retyped_{len(self.nodes)}", op="Const")
        node.attr["dtype"].type = number
        node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(value, dtype))
        self.nodes[node.name] = node
        return node.name

    def repair(self):
        handles = [t.as_datatype_enum for t in (dtypes.resource, dtypes.variant)]
        for node in list(self.graph_def.node):
            if node.op == "Const" and node.attr["dtype"].type != node.attr["value"].tensor.dtype:
                number = node.attr["dtype"].type
                if number not in handles:
                    node.CopyFrom(self.renamed(self.nodes.pop(self.constant(number)), node.name))
                    del self.graph_def.node[-1]
                    self.nodes[node.name] = node
        for node in list(self.graph_def.node):
            for k, (number, is_ref) in enumerate(_types(self.ops[node.op].inputs, node)):
                if k < len(node.input) and not node.input[k].startswith("^") \
                        and number not in handles and not is_ref:
                    found = self.output(node.input[k])
                    if found is None or found[0] != number:
                        node.input[k] = self.constant(number)

    @staticmethod
    def renamed(node, name):
        copy = protos.NodeDef()
        copy.CopyFrom(node)
        copy.name = name
        return copy


def retype(graph_def, rng):
    """A copy of the GraphDef in which nodes declare other element types."""
    work = _Retyped(graph_def, rng)
    for _ in range(rng.randint(1, 3)):
        work.change()
    work.repair()
    return work.graph_def
