"""The op Einsum of graphs that TensorFlow 2 wrote, and what its equations say.

Invariants
  1. Einsum runs as one kernel; its gradient is products of its operands and dy, by the same rules.
  2. An ellipsis stands for the dimensions that a term does not name, counted from the right; sizes
     of 1 broadcast.
  3. A letter that occurs twice in a term walks the diagonal.

Example:  `Einsum([a, b], equation="...ij,...jk->...ik")`.
"""
import numpy as np

from pyflow.framework.op import S, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import conj, dims_of
from pyflow.ops.gemm import products

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Plain:
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


def diagonal(x, term):
    """x with every repeated letter's dimensions joined in their diagonal, and its letters."""
    while len(set(term)) != len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        rest = [i for i in range(len(term)) if i not in (first, second)]
        x = raw_ops.MatrixDiagPart(tensors.transpose(x, rest + [first, second]))
        term = "".join(term[i] for i in rest) + letter
    return x, term


# ---------------------------------------------------------------------------------- the op
def _einsum_shape(op):
    shapes = [dims_of(x.shape) for x in op.inputs]
    if any(s is None for s in shapes):
        if "." in op.attr("equation"):
            return unknown_shape()
        terms = op.attr("equation").partition("->")[0].split(",")
        shapes = [[None] * len(term) if s is None else s for term, s in zip(terms, shapes)]
    plain = Plain(op.attr("equation"), [len(s) for s in shapes], repeats=True)
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
    plain = Plain(op.attr("equation"), [x.shape.ndims for x in inputs], repeats=True)
    dy, plain.result = diagonal(dy, plain.result)
    grads = []
    for k, x in enumerate(inputs):
        others = [(t, conj(other)) for i, (t, other) in enumerate(zip(plain.terms, inputs))
                  if i != k]
        grads.append(_gradient_by(x, plain, k, dy, others))
    return grads


def _gradient_by(x, plain, k, dy, others):
    operands = [(plain.result, dy)] + others
    free = [c for c in LETTERS if c not in "".join(plain.terms) + plain.result]
    size = tensors.shape(x)
    wanted, seen = [], set()
    for i, letter in enumerate(plain.terms[k]):
        if letter in seen:
            twin = free.pop()
            eye = raw_ops.MatrixDiag(tensors.ones(size[i:i + 1], x.dtype))
            operands.append((letter + twin, eye))
            wanted.append(twin)
            continue
        seen.add(letter)
        wanted.append(letter)
        if not any(letter in t for t, _ in operands):
            operands.append((letter, tensors.ones(size[i:i + 1], x.dtype)))
    terms, factors = zip(*operands)
    terms, factors = list(terms), list(factors)
    stretched = [i for i, c in enumerate(plain.terms[k]) if c in plain.dotted
                 and x.shape[i].value == 1]
    for j in range(len(factors)):           # other operands may be 1 where dy is not
        single = [i for i, c in enumerate(terms[j]) if c in plain.dotted and j
                  and factors[j].shape[i].value == 1]
        if single:
            factors[j] = tensors.squeeze(factors[j], axis=single)
            terms[j] = "".join(c for i, c in enumerate(terms[j]) if i not in single)
    grad = products.einsum(",".join(terms) + "->" + "".join(wanted), *factors)
    if stretched:
        grad = tensors.sum_of(grad, stretched, keepdims=True)
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
