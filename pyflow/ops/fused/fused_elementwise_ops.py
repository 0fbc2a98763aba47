"""Programs of element-wise ops: what passes/fuse_elementwise.py makes of chains and trees of them.

Invariants
  1. `program` holds instructions separated by ";": an op type and the values it reads.  Values 0 to
     n - 1 are the inputs, n + k is what instruction k makes.  `params` holds an attribute (alpha)
     per instruction, `results` the values that are outputs, `nodes` the user's node of each
     instruction, which errors name.
  2. Every instruction computes, broadcasts and rounds as the op of its name does: equal bits.
  3. Made after gradients were built: it has none.

Example:  `_FusedElementwise([x, c], program="Mul 0 1;Relu 2", results=[3], T=tf.float32,
Tout=[tf.float32])` is relu(x * c).
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, get_op, op
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base.common import text

# op type -> (op whose reference computes it, operands, operands must be of one shape)
INSTRUCTIONS = {name: (name, 1, False) for name in """Abs Neg Sign Square Sqrt Rsqrt Reciprocal
    Floor Ceil Round Softsign Relu Relu6 LeakyRelu Exp Expm1 Log Log1p Tanh Sigmoid Softplus Elu
    Selu Erf LogicalNot Inv Rint""".split()}
INSTRUCTIONS.update({name: (name, 2, False) for name in """Add AddV2 Sub Mul Div RealDiv FloorDiv
    Maximum Minimum SquaredDifference DivNoNan MulNoNan Xdivy Xlogy Equal NotEqual Less LessEqual
    Greater GreaterEqual LogicalAnd LogicalOr""".split()})
INSTRUCTIONS.update({name: (name, 2, True) for name in """TanhGrad SigmoidGrad SqrtGrad RsqrtGrad
    ReciprocalGrad InvGrad ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SoftplusGrad
    SoftsignGrad""".split()})
INSTRUCTIONS.update(AddSame=("Add", 2, True), BiasAdd=("Add", 2, False), Select=("Select", 3, True),
                    SelectV2=("SelectV2", 3, False))
WITH_ALPHA = frozenset(("LeakyRelu", "LeakyReluGrad"))
MAX_INSTRUCTIONS, MAX_INPUTS, MAX_RESULTS = 64, 32, 8


def parse(program, inputs):
    """[(op type, [values])] of a program with so many inputs; ValueError says what is wrong."""
    found = []
    for k, line in enumerate(text(program).split(";")):
        name, *operands = line.split() or [""]
        if name not in INSTRUCTIONS:
            raise ValueError(f"program: instruction {k} has the unknown op {name!r}")
        limit = inputs + k
        values = [int(v) if v.isdigit() else limit for v in operands]
        if len(values) != INSTRUCTIONS[name][1] or max(values) >= limit:
            raise ValueError(f"program: instruction {k} ({name}) takes {INSTRUCTIONS[name][1]} "
                             f"values below {limit}, got {operands}")
        found.append((name, values))
    return found


def _shapes(op):
    shapes = [t.shape for t in op.inputs]
    for name, values in parse(op.attr("program"), len(shapes)):
        made = shapes[values[0]]
        for v in values[1:]:
            made = (made.merge_with(shapes[v]) if INSTRUCTIONS[name][2]
                    else broadcast_static_shape(made, shapes[v]))
        shapes.append(made)
    results = op.attr("results")
    if len(results) != len(op.attr("Tout")) or not all(
            len(op.inputs) <= v < len(shapes) for v in results):
        raise ValueError(f"results: one value of an instruction per output, got {results}")
    return [TensorShape(shapes[v]) for v in results]


def _interpret(inputs, program, params, results, T, Tout):
    """The results, each instruction by the reference of its op."""
    values = list(inputs)
    for k, (name, operands) in enumerate(parse(program, len(values))):
        attrs = {"T": T}
        if name in WITH_ALPHA:
            attrs["alpha"] = params[k]
        if name in ("Equal", "NotEqual"):
            attrs["incompatible_shape_error"] = True
        read = [values[v] for v in operands]
        if name.startswith("Logical") or name.startswith("Select"):
            read[0] = read[0] != 0
            if name.startswith("Logical"):
                read = [r != 0 for r in read]
        values.append(np.asarray(get_op(INSTRUCTIONS[name][0]).call_reference(read, attrs)))
    return tuple(values[v].astype(t.as_numpy_dtype if t.size != 2 else np.float32)
                 for v, t in zip(results, Tout))


F32, BOOL = dtypes.float32, dtypes.bool
_CHAIN = "Mul 0 1;Add 2 1;Maximum 3 1;Sub 4 1"
_MIXED = "Tanh 0;Mul 2 1;Sigmoid 1;Sub 3 4;TanhGrad 2 5;LeakyRelu 6"


def _sample(inputs, program, results, **attrs):
    return S(inputs, program=program, results=results, T=F32, Tout=[F32] * len(results), **attrs)


@op("_FusedElementwise", inputs="inputs: Tin", outputs="outputs: Tout",
    attrs="program: string, params: list(float) = [], results: list(int), "
          "nodes: list(string) = [], T: {float, double, half, bfloat16, int32}, Tin: list(type) >= 1, Tout: list(type) >= 1")
class _FusedElementwise:
    """The outputs of a program of element-wise ops, each of the shape its operands broadcast to.
    TF: none, the ops the program names."""
    shape = _shapes
    gradient = UNREGISTERED

    def reference(inputs, program, params, results, T, Tout):
        return _interpret(inputs, program, params, results, T, Tout)
    samples = [
        _sample([(5, 300), ()], _CHAIN, [5]), _sample([(7,), (7,)], _CHAIN, [5]),
        _sample([(3, 130), (130,)], _CHAIN, [5]), _sample([(4, 1, 3), (1, 5, 1)], _CHAIN, [5]),
        _sample([(), ()], _CHAIN, [5]), _sample([(0, 3), (3,)], _CHAIN, [5]),
        _sample([(1000,), (1000,)], _MIXED, [7], params=[0.0] * 5 + [0.25]),
        _sample([(33,), (33,)], _MIXED, [7, 2, 5], params=[0.0] * 5 + [0.25]),
        _sample([(2, 3), (3,)], "Exp 1;Mul 0 2", [2, 3]),
        _sample([(9,), (9,), ()], "Less 0 1;SelectV2 3 0 2;Sub 0 4", [5]),
    ]
