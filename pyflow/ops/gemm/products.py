"""tf.matmul and tf.einsum, which gradients build with, too: products of tensors of any rank.

Invariants
  1. No op is declared here; ops are named by type.
  2. `matmul` picks MatMul where both ranks are known to be 2, or a sparseness hint says so; a
     tensor of unknown rank may hold a batch.

Thread: the one building the graph.

Example:  `matmul(dy, w, transpose_b=True)`.
"""
import numpy as np

from pyflow.framework import dtypes, foreign_arrays, graph
from pyflow.framework.op import raw_ops
from pyflow.ops.base import tensors
from pyflow.ops.base.common import conj, int32s
from pyflow.ops.base.tensors import cast


# ----------------------------------------------------------------------------------- linear algebra
def matrix_transpose(x):
    return tensors.matrix_transpose(x)


def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False,
           a_is_sparse=False, b_is_sparse=False, name=None):
    """Product of matrices, or of batches of them with broadcast batch dimensions. TF: tf.matmul.

    a: [..., m, k], b: [..., k, n], each transposed (transpose_a, transpose_b) or conjugate
    transposed (adjoint_a, adjoint_b) first if asked (not both: ValueError). The sparseness hints
    a_is_sparse and b_is_sparse say that both are matrices; with one of them float32 and bfloat16
    may be mixed, the product is float32.
    Dtypes, shapes, errors: as ops BatchMatMulV2 and MatMul.

        >>> tf.Session().run(tf.matmul([[1., 2.]], [[3., 4.]], transpose_b=True))
        array([[11.]], dtype=float32)
    """
    if transpose_a and adjoint_a or transpose_b and adjoint_b:
        raise ValueError("tf.matmul: only one of transpose and adjoint can be True for each "
                         "argument")
    with graph.name_scope(name, "MatMul", [a, b]) as scope:
        if not isinstance(a, graph.Tensor):
            a = graph.convert_to_tensor(a, name="a")
        if not isinstance(b, graph.Tensor):
            b = foreign_arrays.as_numpy(b)
            b = graph.convert_to_tensor(b, dtype=_type_beside(a, b), name="b")
        if not (a_is_sparse or b_is_sparse or a.shape.ndims == b.shape.ndims == 2):
            if transpose_a:
                a, adjoint_a = conj(a), True
            if transpose_b:
                b, adjoint_b = conj(b), True
            return raw_ops.BatchMatMulV2(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=scope)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        a, b = _one_type(a, b)
        return raw_ops.MatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=scope)


_MIXED = {dtypes.float32, dtypes.bfloat16}  # what TensorFlow's SparseMatMul multiplies


def _type_beside(a, b):
    """The type that `b`, no tensor yet, is converted to: that of `a`, unless both may be mixed."""
    wanted = a.dtype.base_dtype
    own = getattr(b, "dtype", None)
    if wanted in _MIXED and own is not None and dtypes.as_dtype(own).base_dtype in _MIXED:
        return None
    return wanted


def _one_type(a, b):
    """Matrices of float32 and bfloat16 both as float32."""
    if {a.dtype.base_dtype, b.dtype.base_dtype} != _MIXED:
        return a, b
    return cast(a, dtypes.float32), cast(b, dtypes.float32)


def einsum(equation, *inputs, **kwargs):
    """Sums of products by index letters, "ij,jk->ik"; reduced to transposes and matmul. TF:
    tf.einsum.

    Each letter once per operand, no ellipsis (ValueError); operands are contracted left to right.
    inputs: numbers of one dtype, a dimension for each letter. ValueError for a malformed
    equation or sizes that differ, TypeError for an unknown keyword."""
    name = kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"tf.einsum: unexpected keyword argument {sorted(kwargs)[0]!r}")
    terms, result = _einsum_terms(equation, len(inputs))
    with graph.name_scope(name, "einsum", inputs):
        factors = [graph.convert_to_tensor(x) for x in inputs]
        for term, x in zip(terms, factors):
            if x.shape.ndims is not None and x.shape.ndims != len(term):
                raise ValueError(f"tf.einsum: {term!r} names {len(term)} dimensions of a tensor "
                                 "of shape "
                                 f"{x.shape}")
        current, letters = _sum_out(factors[0], terms[0], "".join(terms[1:]) + result)
        for i in range(1, len(factors)):
            later = "".join(terms[i + 1:]) + result
            other, term = _sum_out(factors[i], terms[i], letters + later)
            current, letters = _einsum_pair(current, letters, other, term, later)
        current, letters = _sum_out(current, letters, result)
        if letters != result:
            current = tensors.transpose(current, [letters.index(c) for c in result])
        return current


def _einsum_terms(equation, count):
    text = equation.replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise ValueError(f"tf.einsum: {equation!r} has {len(terms)} operands, {count} tensors "
                         "were given")
    if not all(t.isalpha() or not t for t in terms + [result]):
        raise ValueError(f"tf.einsum: {equation!r} may hold letters, commas and '->' only")
    if any(len(set(t)) != len(t) for t in terms + [result]):
        raise ValueError(f"tf.einsum: {equation!r} repeats a letter within one operand")
    if not arrow:
        joined = "".join(terms)
        result = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    missing = set(result) - set("".join(terms))
    if missing:
        raise ValueError(f"tf.einsum: {sorted(missing)} of the output occur in no operand of "
                         f"{equation!r}")
    return terms, result


def _sum_out(x, letters, needed):
    """Sums over the dimensions that nothing later needs."""
    gone = [i for i, c in enumerate(letters) if c not in needed]
    if not gone:
        return x, letters
    return raw_ops.Sum(x, int32s(gone)), "".join(c for c in letters if c in needed)


def _einsum_pair(x, a, y, b, later):
    """One contraction as a batched matrix product: batch letters, free of x, summed, free of y."""
    batch = [c for c in a if c in b and c in later]
    summed = [c for c in a if c in b and c not in later]
    free_x, free_y = [c for c in a if c not in b], [c for c in b if c not in a]
    x = tensors.transpose(x, [a.index(c) for c in batch + free_x + summed])
    y = tensors.transpose(y, [b.index(c) for c in batch + summed + free_y])
    xs, ys = _dims_or_vector(x), _dims_or_vector(y)
    n, m = len(batch), len(free_x)
    k = len(summed)
    left = raw_ops.Reshape(x, _join([xs[:n], _product(xs[n:n + m]), _product(xs[n + m:])]))
    right = raw_ops.Reshape(y, _join([ys[:n], _product(ys[n:n + k]), _product(ys[n + k:])]))
    product = raw_ops.BatchMatMulV2(left, right) if batch else raw_ops.MatMul(left, right)
    result = raw_ops.Reshape(product, _join([xs[:n + m], ys[n + k:]]))
    return result, "".join(batch + free_x + free_y)


def _dims_or_vector(x):
    return x.shape.as_list() if x.shape.is_fully_defined() else raw_ops.Shape(x)


def _product(dims):
    if isinstance(dims, list):
        return [int(np.prod(dims, dtype=np.int64))]
    return tensors.product_of(dims, 0, keepdims=True)


def _join(parts):
    if all(isinstance(p, list) for p in parts):
        return int32s([d for p in parts for d in p])
    return tensors.concat([int32s(p) if isinstance(p, list) else p for p in parts], 0)


PUBLIC = {"matmul": matmul, "linalg.matmul": matmul}
