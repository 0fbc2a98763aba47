"""Ops that call functions of the graph's library: PartitionedCall, If, Case, While, MapDefun.

A plain call is inlined (passes/inline.py) unless it is recursive, marked `_noinline`, or inlining
is off; what is left runs as a call.  What a function is: framework/function_library.py.

Invariants
  1. A node and the functions it names agree in the number and types of arguments and results.
     It is checked when a plan is made: a function may be defined after the nodes that call it.
  2. The gradient of a call is a call of the gradient function, see gradients/call_gradient.py.

No samples and no reference, on purpose: what these do is what their functions do; tests/functions
runs them.
"""
from pyflow.framework import function_library
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import unknown_shape

_TYPES = "Tin: list(type) >= 0, Tout: list(type) >= 0"
_CALL = "f: func, config: string = '', config_proto: string = '', executor_type: string = ''"


def _unknown(op):
    return [unknown_shape()] * len(op.outputs)


def _given_shapes(op):
    """Attribute output_shapes, where it says one per result."""
    shapes = op.attrs["output_shapes"]
    if shapes and len(shapes) != len(op.outputs):
        raise ValueError(f"attr 'output_shapes' has {len(shapes)} shapes for {len(op.outputs)} "
                         f"results")
    return list(shapes) if shapes else _unknown(op)


def _branch_shapes(op):
    op.inputs[0].shape.assert_is_compatible_with([])
    return _given_shapes(op)


def _loop_shapes(op):
    """As given; without, every iteration keeps the shapes, as TF takes it."""
    return _given_shapes(op) if op.attrs["output_shapes"] else [t.shape for t in op.inputs]


def _if_shapes(op):
    return _given_shapes(op)


def _map_shapes(op):
    """A row of results for each row of the arguments."""
    count = op.inputs[0].shape[:1] if op.inputs[0].shape.ndims != 0 else None
    if count is None:
        raise ValueError("the arguments of MapDefun need a first dimension to map over")
    return [count.concatenate(shape) for shape in _given_shapes(op)]


def _call_gradient(op, *dys):
    return function_library.call_gradient(op, dys)


@op("PartitionedCall", inputs="args: Tin", outputs="output: Tout", attrs=f"{_TYPES}, {_CALL}")
class PartitionedCall:
    """The results of function `f`, which has no effects. TF: PartitionedCall."""
    shape = _unknown
    gradient = _call_gradient
    reference = None
    samples = None


@op("StatefulPartitionedCall", inputs="args: Tin", outputs="output: Tout",
    attrs=f"{_TYPES}, {_CALL}", stateful=True)
class StatefulPartitionedCall:
    """The results of function `f`. TF: StatefulPartitionedCall."""
    shape = _unknown
    gradient = _call_gradient
    reference = None
    samples = None


def _if(name, what, stateful):
    @op(name, inputs="cond: Tcond, input: Tin", outputs="output: Tout", stateful=stateful,
        attrs="Tcond: type, " + _TYPES + ", then_branch: func, else_branch: func, "
              "output_shapes: list(shape) = []",
        doc=f"The results of `then_branch` where `cond` holds (a number: is not 0; a tensor: is "
            f"not empty), else of `else_branch`{what}. TF: {name}.")
    class Block:
        shape = _if_shapes
        gradient = _call_gradient
        reference = None
        samples = None
    return Block


def _case(name, what, stateful):
    @op(name, inputs="branch_index: int32, input: Tin", outputs="output: Tout", stateful=stateful,
        attrs=_TYPES + ", branches: list(func) >= 1, output_shapes: list(shape) = []",
        doc=f"The results of branch `branch_index`, of the last one where there is none of that "
            f"number{what}. TF: {name}.")
    class Block:
        shape = _branch_shapes
        gradient = _call_gradient
        reference = None
        samples = None
    return Block


def _while(name, what, stateful):
    @op(name, inputs="input: T", outputs="output: T", stateful=stateful,
        attrs="T: list(type) >= 0, cond: func, body: func, output_shapes: list(shape) = [], "
              "parallel_iterations: int = 10",
        doc=f"`input`, given to `body` again and again as long as `cond` of it holds{what}. "
            f"TF: {name}.")
    class Block:
        shape = _loop_shapes
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


_PURE = ", without effects"
If, StatelessIf = _if("If", "", True), _if("StatelessIf", _PURE, False)
Case, StatelessCase = _case("Case", "", True), _case("StatelessCase", _PURE, False)
While, StatelessWhile = _while("While", "", True), _while("StatelessWhile", _PURE, False)


@op("MapDefun", inputs="arguments: Targuments, captured_inputs: Tcaptured",
    outputs="output: output_types",
    attrs="Targuments: list(type) >= 1, Tcaptured: list(type) >= 0 = [], "
          "output_types: list(type) >= 1, output_shapes: list(shape) >= 1, f: func, "
          "max_intra_op_parallelism: int = 1")
class MapDefun:
    """`f` of each row of `arguments` and of all of `captured_inputs`, its results stacked.
    TF: MapDefun."""
    shape = _map_shapes
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("SymbolicGradient", inputs="input: Tin", outputs="output: Tout",
    attrs="Tin: list(type) >= 1, Tout: list(type) >= 1, f: func")
class SymbolicGradient:
    """The gradients of `f`'s arguments: `input` is the arguments, then a gradient for each result.
    It becomes a call of the gradient function before it runs. TF: SymbolicGradient."""

    def shape(op):
        """A gradient has its argument's shape."""
        return [t.shape for t in op.inputs[:len(op.outputs)]]
    gradient = UNREGISTERED
    reference = None
    samples = None


PUBLIC = {}
