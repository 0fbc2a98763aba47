"""tf.einsum with an ellipsis or repeated letters.

Invariant: it builds transposes and matrix products; the op Einsum only where the rank of an operand
with an ellipsis is not known.

Example:  `tf.einsum("...ij,...jk->...ik", a, b)`;  `tf.einsum("ii->i", a)`.
"""
from pyflow.framework import graph
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.gemm import products
from pyflow.ops.linalg.einsum_ops import Einsum, Plain, diagonal


def _of_known_rank(equation, factors):
    """The operands, where a term without an ellipsis tells the rank with it."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    known = []
    for term, x in zip(terms, factors):
        if x.shape.ndims is None and "." not in term:
            x = identity_ops.Identity(x)
            x.set_shape([None] * len(term))
        known.append(x)
    return known + factors[len(terms):]


def einsum(equation, *inputs, **kwargs):
    """Sums of products by index letters, "ij,jk->ik"; "..." and repeated letters as in NumPy.
    TF: tf.einsum.

    Reduced to transposes and matmul, operands from left to right. Raises ValueError for equations
    that do not fit the operands; an ellipsis of one or two operands of unknown rank needs "->".
    Dtypes, shapes, errors: as ops ExpandDims, MatrixDiagPart and Squeeze."""
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"tf.einsum: unexpected keyword argument {sorted(kwargs)[0]!r}")
    with graph.name_scope(name, "einsum", inputs):
        factors = [graph.convert_to_tensor(x) for x in inputs]
        if any(x.shape.ndims is None for x in factors):
            if "..." in equation and "->" in equation and len(factors) < 3:
                return Einsum(factors, equation=equation.replace(" ", ""))
            factors = _of_known_rank(equation, factors)
        plain = Plain(equation, [x.shape.ndims for x in factors])
        terms = list(plain.terms)
        for i, x in enumerate(factors):
            x, term = diagonal(x, terms[i])
            single = [k for k, c in enumerate(term) if c in plain.dotted and len(inputs) > 1
                      and x.shape[k].value == 1
                      and any(c in t for j, t in enumerate(terms) if j != i)]
            if single:                      # broadcast: whoever has the full size counts
                x = tensors.squeeze(x, axis=single)
                term = "".join(c for k, c in enumerate(term) if k not in single)
            factors[i], terms[i] = x, term
        lost = [c for c in plain.result if not any(c in t for t in terms)]
        kept = "".join(c for c in plain.result if c not in lost)
        result = products.einsum(",".join(terms) + "->" + kept, *factors)
        for at, letter in enumerate(plain.result):
            if letter in lost:              # a dimension of 1 in every operand
                result = tensors.expand_dims(result, at)
        return result


PUBLIC = {"einsum": einsum, "linalg.einsum": einsum}
