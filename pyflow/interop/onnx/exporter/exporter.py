"""From a pyflow graph to an ONNX graph: operations in an order in which they can be written.

Invariants:
1. A tensor is written once per body it belongs to; what is known while the model is written
   (constants, sizes, what follows from them) becomes initializers.
2. Control inputs order effects; a model has none, so they are dropped, with what only they need
   (assertions, prints).
3. What cannot be written is collected over the whole graph and raised once.

One model is written by one thread.  See `model.py`.
"""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.errors import OnnxError, UnsupportedError
from pyflow.interop.onnx.exporter import control, lists, registry
from pyflow.interop.onnx.exporter.body import Body, Names, Value, onnx_type
from pyflow.interop.onnx.exporter.node import Node
from pyflow.interop.onnx.exporter.walk import Walk, is_header
from pyflow.interop.onnx.values import Knowledge

_PASSED_ON = frozenset(("Enter", "RefEnter", "Switch", "RefSwitch", "_SwitchN", "NextIteration",
                        "RefNextIteration", "LoopCond"))
_FLOW = _PASSED_ON | {"Exit", "RefExit", "Merge", "RefMerge"}
_LARGEST_FOLDED = 1 << 14       # elements of a value computed from constants, unless it shrinks
_WRONG = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class Exporter:
    """Writes what some tensors need.  inputs: {tensor: name}; variables: {handle or variable
    operation: array}; walk: of these outputs and inputs; kept: names that only outputs may have."""

    def __init__(self, walk, inputs, variables, opset, kept=()):
        self.walk, self.variables, self.opset = walk, variables, opset
        self.names = Names(opset)
        self.main = Body(self.names)
        self.knowledge = Knowledge()
        self.problems = {}              # Operation -> message
        for name in [*inputs.values(), *kept]:
            self.names.reserve(name)
        for tensor, name in inputs.items():
            self.main.values[tensor] = Value(name, None, tensor.shape.as_tuple(),
                                             self.type_of(tensor), self.main)
            self.knowledge._found[tensor.op, tensor.value_index] = None

    def type_of(self, tensor):
        """The DType of a tensor in ONNX; float32 for what has none (a problem that is noted)."""
        return onnx_type(tensor.dtype) or dtypes.float32

    # what nodes ask for
    def value_of(self, tensor, body):
        """The Value of a tensor that was written."""
        found = body.find(tensor)
        if isinstance(found, lists.List):
            raise UnsupportedError(f"{tensor.name} is a TensorArray or TensorList, and used "
                                   f"otherwise")
        if found is None:
            raise UnsupportedError(f"{tensor.name} has no value here")
        return found

    def array_of(self, tensor, body):
        """A tensor's value as an array, or None."""
        found = body.find(tensor)
        if found is not None:
            if found.array is not None:
                return found.array
            if isinstance(found, lists.List) or tensor.op.type in _FLOW:
                return None
        return self.knowledge.array(tensor)

    # writing
    def run(self, targets, body):
        """Writes all that `targets` need into `body`."""
        stack = [(tensor, False) for tensor in reversed(targets)]
        while stack:
            tensor, ready = stack.pop()
            if body.find(tensor) is not None:
                continue
            if ready:
                self._write(tensor.op, body)
                continue
            if self._write_known(tensor, body):
                continue
            if tensor.op.type in ("Merge", "RefMerge") and is_header(tensor.op):
                self.problem(tensor.op, "a value inside of a loop is asked for outside of it", body)
                continue
            stack.append((tensor, True))
            stack += [(t, False) for t in reversed(self.walk.needs(tensor.op))
                      if body.find(t) is None]

    def _write_known(self, tensor, body):
        op = tensor.op
        if op.type in _FLOW:
            return False
        array = self.variables.get(op) if op.type != "Const" else op.attrs["value"]
        if array is None and op.type == "ReadVariableOp":
            array = self.variables.get(_handle(op))
        if array is None and op.type != "Const":
            array = self.knowledge.array(tensor)
        if array is None:
            return False
        if onnx_type(tensor.dtype) is None:
            return False
        body.values[tensor] = Value(array=_plain(array), home=self.main, wanted=op.name)
        return True

    def _write(self, op, body):
        try:
            self._convert(op, body)
        except UnsupportedError as error:
            self.problem(op, str(error), body)
        except lists.NotCollected:
            raise
        except _WRONG as error:
            if not self.problems:
                raise OnnxError(f"node {op.name!r} (op {op.type}; {op.user_frame}): "
                                f"{type(error).__name__}: {error}") from error
            self.problem(op, "", body)          # follows from another one

    def problem(self, op, message, body):
        """Notes what cannot be written, and goes on as if it could."""
        if message:
            self.problems.setdefault(op, message)
        for tensor in op.outputs:
            body.values[tensor] = Value("?", None, tensor.shape.as_tuple(), self.type_of(tensor),
                                        body)

    def _convert(self, op, body):
        walk = self.walk
        if op.type in ("Exit", "RefExit"):
            if op not in walk.loops:
                raise UnsupportedError("the loop it leaves cannot be told from the graph")
            return control.write_loop(self, walk.loops[op], body)
        if op in walk.branches:
            return control.write_branch(self, walk.branches[op], body)
        if op.type in _PASSED_ON:
            for tensor in op.outputs:
                body.values[tensor] = body.find(op.inputs[0])
            return None
        convert = registry.find(op.type)
        if convert is None:
            raise UnsupportedError(registry.reason(op.type))
        if not self._fold(op, body):
            start = len(body.nodes)
            self._bind(op, body, convert(Node(self, op, body)))
            self._keep_name(op, body, start)
        return None

    def _keep_name(self, op, body, start):
        """Of the nodes that were written for an operation, the one that gives its result is called
        as it: a part of it that took the name changes names with it."""
        results = [body.values.get(t) for t in op.outputs]
        if not results or not isinstance(results[0], Value) or results[0].array is not None:
            return
        nodes, name = body.nodes[start:], results[0].named()
        made = {output for n in nodes for output in n.output}
        if name == op.name or not {name, op.name} <= made or \
                any(a.g is not None for n in nodes for a in n.attribute):
            return
        swapped = {name: op.name, op.name: name}
        for n in nodes:
            n.name = swapped.get(n.name, n.name)
            n.input = [swapped.get(text, text) for text in n.input]
            n.output = [swapped.get(text, text) for text in n.output]
        body.rename(swapped)
        for value in results:
            if isinstance(value, Value):
                value.rename(swapped)

    def _bind(self, op, body, results):
        if not isinstance(results, (list, tuple)):
            results = [results]
        node = Node(self, op, body)
        for i, (tensor, result) in enumerate(zip(op.outputs, results)):
            if result is not None:
                body.values[tensor] = result if isinstance(result, (Value, lists.List)) else \
                    node.as_value(result, i)
        missing = [t.name for t in op.outputs[len(results):]
                   if any(user in self.walk.within for user in t.consumers())]
        if missing:
            raise UnsupportedError(f"output {missing[0]} is not written")

    def _fold(self, op, body):
        """Computes an operation over arrays by its reference; whether that was done."""
        op_def = op.op_def
        if op_def.is_stateful or not op_def.reference or not op.inputs:
            return False
        values = [body.find(t) for t in op.inputs]
        if any(v is None or v.array is None for v in values):
            return False
        size = sum(v.array.size for v in values)
        counts = [t.shape.num_elements() for t in op.outputs]
        if any(c is None or c > max(size, _LARGEST_FOLDED) for c in counts):
            return False
        try:
            with np.errstate(all="ignore"):
                made = op_def.call_reference([v.array for v in values], op.attrs)
        except _WRONG:
            return False
        made = made if isinstance(made, (tuple, list)) else [made]
        for tensor, array in zip(op.outputs, made):
            dtype = onnx_type(tensor.dtype)
            if dtype is None:
                return False
            array = np.asarray(array, object if dtype is dtypes.string else dtype.as_numpy_dtype)
            body.values[tensor] = Value(array=array, home=self.main, wanted=op.name)
        return True


def written(outputs, inputs, variables, opset, lines=True):
    """(the Exporter after its work, the Value of each output).  outputs: {name: tensor}, inputs:
    {tensor: name}.  UnsupportedError names all that cannot be written, with the user's lines if
    `lines`."""
    names, outputs = list(outputs), list(outputs.values())
    walk = Walk(outputs, inputs)
    exporter = Exporter(walk, inputs, variables, opset, names)
    for op in walk.needed:
        if op.type not in _FLOW and op not in variables and op.type not in _HELD \
                and registry.find(op.type) is None and op.outputs[0] not in inputs \
                and exporter.knowledge.array(op.outputs[0]) is None:
            exporter.problems[op] = registry.reason(op.type)
    exporter.run(outputs, exporter.main)
    if exporter.problems:
        raise unsupported(exporter.problems, lines)
    return exporter, [exporter.value_of(t, exporter.main) for t in outputs]


_HELD = frozenset(("Const", "VarHandleOp", "ReadVariableOp"))


def unsupported(problems, lines=True):
    """One error for all operations that cannot be written."""
    by_text = {}
    for op, message in problems.items():
        by_text.setdefault((op.type, message), []).append(op)
    texts = []
    for (kind, message), ops in by_text.items():
        shown = ", ".join(f"{op.name!r}" + (f" ({op.user_frame})" if lines else "")
                          for op in ops[:3])
        more = f", ... ({len(ops)} nodes)" if len(ops) > 3 else ""
        texts.append(f"{kind}: {message}: {shown}{more}")
    head = f"the graph cannot be written as ONNX; {len(problems)} of its nodes:"
    error = UnsupportedError("\n  ".join([head, *texts]))
    error.operations = list(problems)
    return error


def _plain(array):
    """An array of quantised or native elements as ONNX holds it."""
    array = np.asarray(array)
    if array.dtype.names is not None:           # qint8 and the like
        return array.view(array.dtype[0])
    return array


def _handle(op):
    """The VarHandleOp that a ReadVariableOp reads."""
    source = op.inputs[0].op
    while source.type in _PASSED_ON | {"Identity"} and source.inputs:
        source = source.inputs[0].op
    return source
