"""tf.contrib.tfprof.model_analyzer: parameters and multiplications of a graph, by scope.

    stats = tf.contrib.tfprof.model_analyzer.print_model_analysis(tf.get_default_graph())
    stats.total_parameters

Parameters are those of trainable variables; float operations those of the ops for which
TensorFlow registers a count and the graph knows the shapes: MatMul, Conv2D, DepthwiseConv2dNative
and BiasAdd, a multiplication and an addition counted as two.
Threads: any.
"""
import math
import sys

from pyflow.framework.graph import GraphKeys

TRAINABLE_VARS_PARAMS_STAT_OPTIONS = {
    "account_type_regexes": ["_trainable_variables"], "select": ["params"], "order_by": "name",
    "max_depth": 10000, "output": "stdout"}
FLOAT_OPS_OPTIONS = {
    "account_type_regexes": [".*"], "select": ["float_ops"], "order_by": "float_ops",
    "max_depth": 10000, "output": "stdout"}


class ModelNode:
    """A scope, variable or op: its name, own and total parameters, bytes and float_ops,
    children."""

    def __init__(self, name):
        self.name, self.children, self._by_name = name, [], {}
        self.parameters = self.float_ops = self.total_parameters = self.total_float_ops = 0
        self.bytes = self.total_bytes = self.total_tensors = 0

    def child(self, name):
        """The child of this name, made if need be."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = ModelNode(name)
            self.children.append(found)
        return found


def print_model_analysis(graph, run_meta=None, op_log=None, tfprof_cmd="scope",
                         tfprof_options=None):
    """The tree of scopes with its counts; printed unless tfprof_options["output"] is "none".
    TF: contrib.tfprof.model_analyzer.print_model_analysis.

    tfprof_options: TRAINABLE_VARS_PARAMS_STAT_OPTIONS (default) or FLOAT_OPS_OPTIONS, or a dict
    with "select" of either. run_meta and op_log, measured times, are not looked at; ValueError for
    another tfprof_cmd than "scope" and "graph".
    Shapes of variables are counted as they are known.
    """
    if tfprof_cmd not in ("scope", "graph"):
        raise ValueError(f"tfprof_cmd {tfprof_cmd!r}: 'scope' is offered")
    options = tfprof_options or TRAINABLE_VARS_PARAMS_STAT_OPTIONS
    select = options.get("select", ["params"])
    root = ModelNode("_TFProfRoot")
    if "params" in select:
        for variable in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES):
            count = math.prod(variable.shape.as_list())
            place(root, variable.op.name).parameters += count
    if "float_ops" in select:
        for op in graph.get_operations():
            count = _float_ops(op)
            if count:
                place(root, op.name).float_ops += count
    total(root)
    if options.get("output", "stdout") != "none":
        _show(root, "float_ops" in select and "params" not in select, 0)
    return root


def place(root, name, separators="/"):
    """The node of a name, with the scopes above it.  separators: characters that end a scope."""
    node = root
    for at, char in enumerate(name):
        if char in separators and at:
            node = node.child(name[:at])
    return node.child(name)


def total(root):
    """Fills in the totals of a node and all below it."""
    order, stack = [], [root]
    while stack:
        order.append(stack.pop())
        stack += order[-1].children
    for node in reversed(order):
        below = node.children
        node.total_parameters = node.parameters + sum(c.total_parameters for c in below)
        node.total_float_ops = node.float_ops + sum(c.total_float_ops for c in below)
        node.total_bytes = node.bytes + sum(c.total_bytes for c in below)
        node.total_tensors += sum(c.total_tensors for c in below)


def _show(node, float_ops, depth):
    total = node.total_float_ops if float_ops else node.total_parameters
    own = node.float_ops if float_ops else node.parameters
    unit = "flops" if float_ops else "params"
    sys.stdout.write(f"{'  ' * depth}{node.name} ({own:,}/{total:,} {unit})\n")
    for child in sorted(node.children, key=lambda c: -c.total_float_ops if float_ops else c.name):
        _show(child, float_ops, depth + 1)


def _float_ops(op):
    """The additions and multiplications of an op; 0 where shapes are unknown or none are counted."""
    if op.type not in ("MatMul", "Conv2D", "DepthwiseConv2dNative", "BiasAdd"):
        return 0
    shapes = [t.shape for t in (*op.inputs, *op.outputs)]
    if not all(s.is_fully_defined() for s in (shapes[1], shapes[-1])):
        return 0
    out = math.prod(shapes[-1].as_list())
    if op.type == "BiasAdd":
        return out
    if op.type == "MatMul":
        inner = shapes[1].as_list()[1 if op.get_attr("transpose_b") else 0]
        return 2 * out * inner
    height, width, channels = shapes[1].as_list()[:3]
    return 2 * out * height * width * (channels if op.type == "Conv2D" else 1)


_PLACE = "contrib.tfprof.model_analyzer"
PUBLIC = {
    f"{_PLACE}.print_model_analysis": print_model_analysis,
    f"{_PLACE}.TRAINABLE_VARS_PARAMS_STAT_OPTIONS": TRAINABLE_VARS_PARAMS_STAT_OPTIONS,
    f"{_PLACE}.FLOAT_OPS_OPTIONS": FLOAT_OPS_OPTIONS,
}
