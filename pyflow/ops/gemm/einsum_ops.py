"""einsum with ellipses and repeated letters, and the op Einsum of graphs that TensorFlow 2 wrote.

Invariants
  1. `einsum` builds transposes and matrix products (matmul_ops); the op Einsum runs as one kernel.
  2. An ellipsis stands for the dimensions that a term does not name, counted from the right; sizes
  of 1 broadcast.
  3. A letter that occurs twice in a term walks the diagonal.

Example:  `tf.einsum("...ij,...jk->...ik", a, b)`;  `tf.einsum("ii->i", a)`.
"""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import S, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import conj, dims_of
from pyflow.ops.control import identity_ops
from pyflow.ops.gemm import matmul_ops
from pyflow.ops.move import array_ops, diag_ops
from pyflow.ops.reduce import reduction_ops

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _Plain:
    """An equation without ellipses: terms and result as strings of letters.

    `terms[i]` has a letter for each dimension of operand i; `dotted` are the letters that stand
    for ellipses.
    """

    def __init__(self, equation, ranks, repeats=False):
        text = equation.replace(" ", "")
        left, arrow, result = text.partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks):
            raise ValueError(f"tf.einsum: {equation!r} has {len(terms)} operands, {len(ranks)} "
                             "tensors were given")
        for term in terms + [result]:
            if term.count("...") > 1 or not (term.replace("...", "").isalpha()
                                             or not term.replace("...", "")):
                raise ValueError(f"tf.einsum: {equation!r} may hold letters, commas, '...' and "
                                 "'->' only")
        free = [c for c in LETTERS if c not in text]
        more = []
        for term, rank in zip(terms, ranks):
            letters = term.replace("...", "")
            if "..." in term and rank is None:
                raise ValueError(f"tf.einsum: {term!r} needs a tensor of known rank")
            extra = 0 if rank is None else rank - len(letters)
            if extra < 0 or extra and "..." not in term:
                raise ValueError(f"tf.einsum: {term!r} names {len(letters)} dimensions of a tensor "
                                 f"of rank {rank}")
            more.append(extra)
        widest = max(more, default=0)
        if widest > len(free):
            raise ValueError(f"tf.einsum: {equation!r} has too many dimensions")
        self.dotted = free[:widest]
        self.terms = [t.replace("...", "".join(self.dotted[widest - n:])) if n or "..." in t else t
                      for t, n in zip(terms, more)]
        if arrow:
            self.result = result.replace("...", "".join(self.dotted))
        else:
            joined = "".join(t.replace("...", "") for t in terms)
            single = sorted(c for c in set(joined) if joined.count(c) == 1)
            self.result = "".join(self.dotted + single)
        if len(set(self.result)) != len(self.result) and not repeats:
            raise ValueError(f"tf.einsum: {equation!r} repeats a letter in the output")
        missing = set(self.result) - set("".join(self.terms))
        if missing:
            raise ValueError(f"tf.einsum: {sorted(missing)} of the output occur in no operand of "
                             f"{equation!r}")


def _diagonal(x, term):
    """x with every repeated letter's dimensions joined in their diagonal, and its letters."""
    while len(set(term)) != len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        rest = [i for i in range(len(term)) if i not in (first, second)]
        x = diag_ops.MatrixDiagPart(array_ops.transpose(x, rest + [first, second]))
        term = "".join(term[i] for i in rest) + letter
    return x, term


def _of_known_rank(equation, tensors):
    """The operands, where a term without an ellipsis tells the rank with it."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    known = []
    for term, x in zip(terms, tensors):
        if x.shape.ndims is None and "." not in term:
            x = identity_ops.Identity(x)
            x.set_shape([None] * len(term))
        known.append(x)
    return known + tensors[len(terms):]


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
        tensors = [graph.convert_to_tensor(x) for x in inputs]
        if any(x.shape.ndims is None for x in tensors):
            if "..." in equation and "->" in equation and len(tensors) < 3:
                return Einsum(tensors, equation=equation.replace(" ", ""))
            tensors = _of_known_rank(equation, tensors)
        plain = _Plain(equation, [x.shape.ndims for x in tensors])
        terms = list(plain.terms)
        for i, x in enumerate(tensors):
            x, term = _diagonal(x, terms[i])
            single = [k for k, c in enumerate(term) if c in plain.dotted and len(inputs) > 1
                      and x.shape[k].value == 1
                      and any(c in t for j, t in enumerate(terms) if j != i)]
            if single:                      # broadcast: whoever has the full size counts
                x = array_ops.squeeze(x, axis=single)
                term = "".join(c for k, c in enumerate(term) if k not in single)
            tensors[i], terms[i] = x, term
        lost = [c for c in plain.result if not any(c in t for t in terms)]
        kept = "".join(c for c in plain.result if c not in lost)
        result = matmul_ops.einsum(",".join(terms) + "->" + kept, *tensors)
        for at, letter in enumerate(plain.result):
            if letter in lost:              # a dimension of 1 in every operand
                result = array_ops.expand_dims(result, at)
        return result


# ---------------------------------------------------------------------------------- the op
def _einsum_shape(op):
    shapes = [dims_of(x.shape) for x in op.inputs]
    if any(s is None for s in shapes):
        if "." in op.attr("equation"):
            return unknown_shape()
        terms = op.attr("equation").partition("->")[0].split(",")
        shapes = [[None] * len(term) if s is None else s for term, s in zip(terms, shapes)]
    plain = _Plain(op.attr("equation"), [len(s) for s in shapes], repeats=True)
    sizes = {}
    for term, dims in zip(plain.terms, shapes):
        for letter, size in zip(term, dims):
            known = sizes.get(letter)
            broadcasts = letter in plain.dotted
            if known is None or broadcasts and known == 1:
                sizes[letter] = size if known is None or size is not None else None
            elif size is not None and size != known and not (broadcasts and size == 1):
                raise ValueError(f"Einsum: dimension {letter!r} has sizes {known} and {size}")
    return TensorShape([sizes.get(c) for c in plain.result])


def _einsum_gradient(op, dy):
    """For each operand the einsum of dy with the other, with ones for what was summed and identity
    matrices for diagonals."""
    inputs = list(op.inputs)
    if any(x.shape.ndims is None for x in inputs):
        raise ValueError(f"the gradient of '{op.name}' (Einsum) needs operands of known rank")
    plain = _Plain(op.attr("equation"), [x.shape.ndims for x in inputs], repeats=True)
    dy, plain.result = _diagonal(dy, plain.result)
    grads = []
    for k, x in enumerate(inputs):
        others = [(t, conj(other)) for i, (t, other) in enumerate(zip(plain.terms, inputs))
                  if i != k]
        grads.append(_gradient_by(x, plain, k, dy, others))
    return grads


def _gradient_by(x, plain, k, dy, others):
    operands = [(plain.result, dy)] + others
    free = [c for c in LETTERS if c not in "".join(plain.terms) + plain.result]
    size = array_ops.shape(x)
    wanted, seen = [], set()
    for i, letter in enumerate(plain.terms[k]):
        if letter in seen:
            twin = free.pop()
            eye = diag_ops.MatrixDiag(array_ops.ones(size[i:i + 1], x.dtype))
            operands.append((letter + twin, eye))
            wanted.append(twin)
            continue
        seen.add(letter)
        wanted.append(letter)
        if not any(letter in t for t, _ in operands):
            operands.append((letter, array_ops.ones(size[i:i + 1], x.dtype)))
    terms, tensors = zip(*operands)
    terms, tensors = list(terms), list(tensors)
    stretched = [i for i, c in enumerate(plain.terms[k]) if c in plain.dotted
                 and x.shape[i].value == 1]
    for j in range(len(tensors)):           # other operands may be 1 where dy is not
        single = [i for i, c in enumerate(terms[j]) if c in plain.dotted and j
                  and tensors[j].shape[i].value == 1]
        if single:
            tensors[j] = array_ops.squeeze(tensors[j], axis=single)
            terms[j] = "".join(c for i, c in enumerate(terms[j]) if i not in single)
    grad = matmul_ops.einsum(",".join(terms) + "->" + "".join(wanted), *tensors)
    if stretched:
        grad = reduction_ops.reduce_sum(grad, stretched, keepdims=True)
    return grad


@op("Einsum", inputs="inputs: N * T", outputs="output: T",
    attrs="equation: string, N: int >= 1, T: type")
class Einsum:
    """Sums of products of one or two operands by index letters, in one kernel. TF: Einsum."""
    shape = _einsum_shape
    gradient = _einsum_gradient

    def reference(inputs, equation):
        left, _, result = equation.partition("->")
        if len(set(result)) == len(result) or "." in result:
            return np.einsum(equation, *inputs)
        first = np.einsum(f"{left}->{result[0]}", *inputs)      # samples repeat one letter alone
        return np.diag(first)
    samples = [S([(2, 3), (3, 4)], equation="ij,jk->ik"), S([(2, 3, 4)], equation="ijk->kj"),
               S([(3, 3)], equation="ii->i"), S([(3, 3)], equation="ii->"),
               S([(3,)], equation="i->ii"),
               S([(2, 3), (2, 3)], equation="ij,ij->"),
               S([(2, 1, 3, 4), (5, 4, 2)], equation="...ij,...jk->...ik"),
               S([(2, 3), (3,)], equation="...j,j->..."),
               S([(0, 3), (3, 2)], equation="ij,jk->ik"),
               S([(2, 0), (0, 2)], equation="ij,jk->ik")]


PUBLIC = {"einsum": einsum, "linalg.einsum": einsum}
