"""Matrix products, tensordot and einsum; inverses, determinants and factors of small matrices.

Invariants
  1. MatMul is for matrices, BatchMatMul(V2) for batches of them; V2 broadcasts the batch
     dimensions.
  2. The gradient of a product is two products with the transposes folded into the attributes.
  3. `tf.matmul` picks MatMul where both ranks are known to be 2, or a sparseness hint says so; a
     tensor of unknown rank may hold a batch.

Example:  `tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])` -> [[11]].
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import COMPLEX, FLOATS
from pyflow.framework.op import S, lit, op, pos
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape, unknown_shape
from pyflow.ops.base.common import (at_least_rank, conj, dims_of, int32s, stretched_axes, sum_over,
                                    sum_static)
from pyflow.ops.base.shape_rules import by_pattern

PRODUCTS = FLOATS + (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
                     dtypes.uint32, dtypes.uint64) + COMPLEX


# ------------------------------------------------------------------------------------ one product
def _matrix_dims(shape, transposed, what):
    if shape.ndims is None:
        return None, None
    if shape.ndims != 2:
        raise ValueError(f"MatMul: {what} must be a matrix (rank 2), got shape {shape}")
    m, n = shape.as_list()
    return (n, m) if transposed else (m, n)


def _matmul_shape(a, b, transpose_a, transpose_b):
    m, inner = _matrix_dims(a, transpose_a, "a")
    other, n = _matrix_dims(b, transpose_b, "b")
    if None not in (inner, other) and inner != other:
        raise ValueError(f"MatMul: inner dimensions must be equal, got {inner} and {other} (a {a}"
                         f"{' transposed' if transpose_a else ''}, b {b}"
                         f"{' transposed' if transpose_b else ''})")
    return TensorShape([m, n])


@op("MatMul", inputs="a: T, b: T", outputs="product: T", T=PRODUCTS,
    attrs="transpose_a: bool = false, transpose_b: bool = false, T: type, "
          "grad_a: bool = false, grad_b: bool = false")
class MatMul:
    """Matrix product of `a` [m, k] and `b` [k, n] -> [m, n], either one transposed first.
    TF: MatMul."""
    shape = _matmul_shape

    def gradient(op, dy):
        a, b = conj(op.inputs[0]), conj(op.inputs[1])
        ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
        if not ta and not tb:
            return [MatMul(dy, b, transpose_b=True), MatMul(a, dy, transpose_a=True)]
        if not ta:
            return [MatMul(dy, b), MatMul(dy, a, transpose_a=True)]
        if not tb:
            return [MatMul(b, dy, transpose_b=True), MatMul(a, dy)]
        return [MatMul(b, dy, transpose_a=True, transpose_b=True),
                MatMul(dy, a, transpose_a=True, transpose_b=True)]

    def reference(a, b, transpose_a, transpose_b):
        return (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    samples = [S((2, 3), (3, 4)), S((0, 3), (3, 4)), S((2, 0), (0, 4)),
               S((3, 2), (3, 4), transpose_a=True),
               S((2, 3), (4, 3), transpose_b=True),
               S((3, 2), (4, 3), transpose_a=True, transpose_b=True),
               S((1, 1), (1, 1)), S((17, 33), (33, 9))]


# ------------------------------------------------------------------------------------ many products
def _batched_dims(op):
    x, y = (at_least_rank(t.shape, 2, f"{op.type}: input") for t in op.inputs)
    if x.ndims is None or y.ndims is None:
        return (*(s if s.ndims is None else TensorShape(s.as_list()[:-2]) for s in (x, y)),
                [_side(op, 0, x), _side(op, 1, y)])
    a, b = x.as_list(), y.as_list()
    m, inner = (a[-1], a[-2]) if op.attr("adj_x") else (a[-2], a[-1])
    other, n = (b[-1], b[-2]) if op.attr("adj_y") else (b[-2], b[-1])
    if None not in (inner, other) and inner != other:
        raise ValueError(f"{op.type}: inner dimensions must be equal, got {inner} and {other} "
                         "(shapes "
                         f"{x} and {y}, adj_x={op.attr('adj_x')}, "
                         f"adj_y={op.attr('adj_y')})")
    return TensorShape(a[:-2]), TensorShape(b[:-2]), [m, n]


def _side(op, which, shape):
    """Rows of the product as the first operand tells, columns as the second does."""
    if shape.ndims is None:
        return None
    adjoint = op.attr("adj_y" if which else "adj_x")
    return shape.as_tuple()[-1 if adjoint != bool(which) else -2]


def _batch_shape(op):
    a, b, matrix = _batched_dims(op)
    return a.merge_with(b).concatenate(matrix)


def _batch_v2_shape(op):
    a, b, matrix = _batched_dims(op)
    return broadcast_static_shape(a, b).concatenate(matrix)


def _batch_gradients(product, op, dy):
    x, y = op.inputs
    ax, ay = op.attr("adj_x"), op.attr("adj_y")
    if not ax and not ay:
        return [product(dy, y, adj_y=True), product(x, dy, adj_x=True)]
    if not ax:
        return [product(dy, y), product(dy, x, adj_x=True)]
    if not ay:
        return [product(y, dy, adj_y=True), product(x, dy)]
    return [product(y, dy, adj_x=True, adj_y=True), product(dy, x, adj_x=True, adj_y=True)]


def _adjoint(x, adjoint):
    return np.conj(np.swapaxes(x, -1, -2)) if adjoint else x


ADJOINTS = "adj_x: bool = false, adj_y: bool = false, grad_x: bool = false, grad_y: bool = false"
BATCHES = [S((5, 2, 3), (5, 3, 4)), S((2, 3), (3, 4)), S((0, 2, 3), (0, 3, 4)),
           S((2, 2, 2, 0), (2, 2, 0, 3)),
           S((5, 3, 2), (5, 3, 4), adj_x=True), S((5, 2, 3), (5, 4, 3), adj_y=True),
           S((2, 3, 2), (2, 4, 3), adj_x=True, adj_y=True)]


@op("BatchMatMul", inputs="x: T, y: T", outputs="output: T", T=PRODUCTS,
    attrs="T: type, " + ADJOINTS)
class BatchMatMul:
    """Products of matrices [..., m, k] and [..., k, n] of equal batch dimensions.
    TF: BatchMatMul."""
    shape = _batch_shape

    def gradient(op, dy):
        return _batch_gradients(BatchMatMul, op, dy)

    def reference(x, y, adj_x, adj_y): return _adjoint(x, adj_x) @ _adjoint(y, adj_y)
    samples = BATCHES


def _batch_v2_gradient(op, dy):
    return _batch_sums(_batch_gradients(BatchMatMulV2, op, dy), *op.inputs)


def _batch_sums(grads, x, y):
    """Two gradients summed over the batch dimensions in which x and y were stretched."""
    known = x.shape.ndims is not None and y.shape.ndims is not None
    if known:
        a, b = TensorShape(x.shape.as_list()[:-2]), TensorShape(y.shape.as_list()[:-2])
        if a.is_fully_defined() and a == b:
            return grads
        rx, ry = stretched_axes(a, b), stretched_axes(b, a)
        if rx is not None and ry is not None:
            return [sum_static(grads[0], rx, x.shape), sum_static(grads[1], ry, y.shape)]
    from pyflow.ops.move import array_ops, broadcast_ops
    rx, ry = broadcast_ops.BroadcastGradientArgs(
        array_ops.Shape(x)[:-2], array_ops.Shape(y)[:-2])
    return [sum_over(grads[0], rx, x), sum_over(grads[1], ry, y)]


@op("BatchMatMulV2", inputs="x: T, y: T", outputs="output: T", T=PRODUCTS,
    attrs="T: type, " + ADJOINTS)
class BatchMatMulV2:
    """Products of matrices [..., m, k] and [..., k, n], batch dimensions broadcast.
    TF: BatchMatMulV2."""
    shape = _batch_v2_shape
    gradient = _batch_v2_gradient

    def reference(x, y, adj_x, adj_y): return _adjoint(x, adj_x) @ _adjoint(y, adj_y)
    samples = BATCHES + [S((2, 3), (5, 3, 4)), S((4, 1, 2, 3), (5, 3, 2)), S((1, 2, 3), (5, 3, 1))]


# ----------------------------------------------------------------------------------- linear algebra
def _square(op, rank=2):
    shape = at_least_rank(op.inputs[0].shape, rank, f"{op.type}: input")
    dims = dims_of(shape)
    if dims is None:
        return shape
    if None not in dims[-2:] and dims[-1] != dims[-2]:
        raise ValueError(f"{op.type}: matrices must be square, got shape {shape}")
    side = dims[-2] if dims[-1] is None else dims[-1]
    return TensorShape(dims[:-2] + [side, side])


WELL = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]
MATRICES = [S(lit(WELL)), S(lit([WELL, WELL])), S((0, 3, 3))]
SOLVABLE = (dtypes.float64, dtypes.float32) + COMPLEX


def wide(x):
    """float16 as float32: NumPy's linear algebra has no halves."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


@op("MatrixInverse", inputs="input: T", outputs="output: T", T=(*SOLVABLE, dtypes.float16),
    attrs="adjoint: bool = false")
class MatrixInverse:
    """Inverses of square matrices [..., n, n]; a singular one is an error. TF: MatrixInverse."""
    def shape(op): return _square(op)

    def gradient(op, dy):
        y, adjoint = op.outputs[0], op.attr("adjoint")
        if adjoint:
            return -matmul(y, matmul(dy, y, adjoint_a=True))
        return -matmul(y, matmul(dy, y, adjoint_b=True), adjoint_a=True)

    def reference(input, adjoint): return np.linalg.inv(_adjoint(wide(input), adjoint))
    samples = MATRICES


@op("MatrixDeterminant", inputs="input: T", outputs="output: T", T=SOLVABLE)
class MatrixDeterminant:
    """Determinants [...] of square matrices [..., n, n]. TF: MatrixDeterminant."""
    def shape(op):
        dims = dims_of(_square(op))
        return unknown_shape() if dims is None else TensorShape(dims[:-2])

    def gradient(op, dy):
        from pyflow.ops.move import array_ops
        inverse = MatrixInverse(op.inputs[0], adjoint=True)
        scale = array_ops.ExpandDims(array_ops.ExpandDims(dy * op.outputs[0], -1), -1)
        return scale * inverse

    def reference(input): return np.linalg.det(input)
    samples = MATRICES


@op("Cholesky", inputs="input: T", outputs="output: T", T=SOLVABLE)
class Cholesky:
    """Lower triangular factors L, L L^H = input, of positive definite matrices. TF: Cholesky."""
    def shape(op): return _square(op)

    def gradient(op, dy):
        from pyflow.ops.move import diag_ops
        low = op.outputs[0]
        inverse = MatrixInverse(low)
        middle = matmul(low, dy, adjoint_a=True)
        middle = diag_ops.MatrixSetDiag(middle, 0.5 * diag_ops.MatrixDiagPart(middle))
        middle = diag_ops.MatrixBandPart(middle, np.int64(-1), np.int64(0))
        grad = matmul(matmul(inverse, middle, adjoint_a=True), inverse)
        return 0.5 * (grad + conj(matrix_transpose(grad)))

    def reference(input): return np.linalg.cholesky(input)
    samples = MATRICES


@op("MatrixSolve", inputs="matrix: T, rhs: T", outputs="output: T", T=SOLVABLE,
    attrs="adjoint: bool = false")
class MatrixSolve:
    """x with matrix x = rhs, for matrices [..., n, n] and rhs [..., n, k]. TF: MatrixSolve."""
    shape = by_pattern("* n n", "* n k", "->", "* n k")

    def gradient(op, dy):
        adjoint, x = op.attr("adjoint"), op.outputs[0]
        d_rhs = MatrixSolve(op.inputs[0], dy, adjoint=not adjoint)
        if adjoint:
            return [-matmul(x, d_rhs, adjoint_b=True), d_rhs]
        return [-matmul(d_rhs, x, adjoint_b=True), d_rhs]

    def reference(matrix, rhs, adjoint): return np.linalg.solve(_adjoint(matrix, adjoint), rhs)
    samples = [S(lit(WELL), (3, 2)), S(lit(WELL), (3, 1), adjoint=True),
               S(lit([WELL, WELL]), pos((2, 3, 2)))]


def matrix_transpose(x):
    from pyflow.ops.move import array_ops
    return array_ops.matrix_transpose(x)


# --------------------------------------------------------------------------------- public functions
def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False,
           a_is_sparse=False, b_is_sparse=False, name=None):
    """Product of matrices, or of batches of them with broadcast batch dimensions. TF: tf.matmul.

    a: [..., m, k], b: [..., k, n], each transposed or conjugate transposed first if asked (not
    both: ValueError). The sparseness hints say that both are matrices; with one of them float32
    and bfloat16 may be mixed, the product is float32.
    Dtypes, shapes, errors: as ops BatchMatMulV2 and MatMul."""
    if transpose_a and adjoint_a or transpose_b and adjoint_b:
        raise ValueError("tf.matmul: only one of transpose and adjoint can be True for each "
                         "argument")
    with graph.name_scope(name, "MatMul", [a, b]) as scope:
        if not isinstance(a, graph.Tensor):
            a = graph.convert_to_tensor(a, name="a")
        if not isinstance(b, graph.Tensor):
            b = graph.convert_to_tensor(b, dtype=_type_beside(a, b), name="b")
        if not (a_is_sparse or b_is_sparse or a.shape.ndims == b.shape.ndims == 2):
            if transpose_a:
                a, adjoint_a = conj(a), True
            if transpose_b:
                b, adjoint_b = conj(b), True
            return BatchMatMulV2(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=scope)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        a, b = _one_type(a, b)
        return MatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=scope)


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
    from pyflow.ops.elementwise.cast_ops import cast
    return cast(a, dtypes.float32), cast(b, dtypes.float32)


def batch_matmul(x, y, adj_x=False, adj_y=False, name=None):
    """Products of batches of matrices, the older form of `tf.matmul`. TF: tf.batch_matmul.
    Dtypes, shapes, errors: as op BatchMatMul."""
    return BatchMatMul(x, y, adj_x=adj_x, adj_y=adj_y, name=name)


def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False,
           name=None):
    """Products of matrices [..., m, k] and vectors [..., k]. TF: linalg.matvec.
    a: [..., m, n]; b: [..., n] -> [..., m], numbers of one dtype. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops.move import array_ops
    with graph.name_scope(name, "MatVec", [a, b]):
        b = graph.convert_to_tensor(b, name="b")
        product = matmul(a, array_ops.ExpandDims(b, -1), transpose_a=transpose_a,
                         adjoint_a=adjoint_a)
        return array_ops.squeeze(product, axis=-1)


def _contracted(x, axes, last):
    """`x` as a matrix with the contracted dimensions last (or first); and its free dimensions.
    `axes` is a list of ints, or a vector if the rank of `x` or the axes are not known yet."""
    from pyflow.ops.move import array_ops, join_ops
    from pyflow.ops.reduce import reduction_ops
    if not isinstance(axes, list):
        return _contracted_by_vector(x, axes, last)
    n = x.shape.ndims
    free = [i for i in range(n) if i not in axes]
    order = free + axes if last else axes + free
    if order != list(range(n)):
        x = array_ops.transpose(x, order)
    dims = x.shape.as_list()
    split = len(free) if last else len(axes)
    if None not in dims:
        sides = [int(np.prod(dims[:split], dtype=np.int64)),
                 int(np.prod(dims[split:], dtype=np.int64))]
        free_dims = dims[:split] if last else dims[split:]
        return array_ops.Reshape(x, int32s(sides)), free_dims
    shape = array_ops.shape(x)
    rows, columns = (reduction_ops.reduce_prod(s) for s in (shape[:split], shape[split:]))
    matrix = array_ops.Reshape(x, join_ops.stack([rows, columns]))
    return matrix, (shape[:split] if last else shape[split:])


def _contracted_by_vector(x, axes, last):
    from pyflow.ops.move import array_ops, gather_ops, join_ops, partition_ops
    from pyflow.ops.reduce import reduction_ops
    shape = array_ops.Shape(x)
    free, _ = partition_ops.ListDiff(array_ops.range_(array_ops.Rank(x)), axes)
    order = join_ops.concat([free, axes] if last else [axes, free], 0)
    sizes = [gather_ops.gather(shape, axis) for axis in (free, axes)]
    sides = [reduction_ops.reduce_prod(s) for s in (sizes if last else sizes[::-1])]
    return array_ops.Reshape(array_ops.transpose(x, order), join_ops.stack(sides)), sizes[0]


def tensordot(a, b, axes, name=None):
    """Sum of products over `axes`: a number n (last n of a, first n of b) or two lists. TF:
    tf.tensordot.

    a, b: numbers of one dtype, of shapes that agree along the axes (ValueError otherwise)."""
    from pyflow.ops.move import array_ops, join_ops
    with graph.name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a, b = graph.convert_to_tensor(a, name="a"), graph.convert_to_tensor(b, name="b")
        a_axes, b_axes = _tensordot_axes(a, b, axes)
        left, a_free = _contracted(a, a_axes, last=True)
        right, b_free = _contracted(b, b_axes, last=False)
        product = MatMul(left, right)
        if isinstance(a_free, list) and isinstance(b_free, list):
            return array_ops.Reshape(product, int32s(a_free + b_free), name=scope)
        parts = [int32s(p) if isinstance(p, list) else p for p in (a_free, b_free)]
        result = array_ops.Reshape(product, join_ops.concat(parts, 0), name=scope)
        if isinstance(a_axes, list) and isinstance(b_axes, list):
            result.set_shape([d for i, d in enumerate(a.shape.as_list()) if i not in a_axes]
                             + [d for i, d in enumerate(b.shape.as_list()) if i not in b_axes])
        return result


def _tensordot_axes(a, b, axes):
    """The axes of a and of b: lists of ints counted from the front, or vectors where these are not
    known yet."""
    from pyflow.ops.base.common import static
    if isinstance(axes, graph.Tensor):
        known = static(axes)
        if known is None:
            return _axes_of_vector(a, axes[0]), _axes_of_vector(b, axes[1])
        axes = known.tolist()
    if isinstance(axes, (int, np.integer)):
        return _edge_axes(a, b, int(axes))
    if len(axes) != 2:
        raise ValueError(f"tf.tensordot: axes must be a number or two lists of axes, got {axes!r}")
    first, second = (list(np.ravel(x).tolist()) for x in axes)
    if len(first) != len(second):
        raise ValueError(f"tf.tensordot: axes {first} and {second} differ in length")
    return _axes_of_list(a, first), _axes_of_list(b, second)


def _edge_axes(a, b, count):
    """The last `count` axes of a, the first of b."""
    from pyflow.ops.move import array_ops
    if count < 0 or any(x.shape.ndims is not None and count > x.shape.ndims for x in (a, b)):
        raise ValueError(f"tf.tensordot: axes = {count} is more than the rank of a {a.shape} "
                         f"or b {b.shape}")
    first = list(range(count))
    b_axes = int32s(first) if b.shape.ndims is None else first
    if a.shape.ndims is None:
        rank = array_ops.Rank(a)
        return array_ops.range_(rank - count, rank), b_axes
    return list(range(a.shape.ndims - count, a.shape.ndims)), b_axes


def _axes_of_list(x, axes):
    if x.shape.ndims is None:
        return _axes_of_vector(x, int32s(axes))
    wrong = [i for i in axes if not -x.shape.ndims <= i < x.shape.ndims]
    if wrong:
        raise ValueError(f"tf.tensordot: axis {wrong[0]} is out of range for shape {x.shape}")
    return [int(i) % x.shape.ndims for i in axes]


def _axes_of_vector(x, axes):
    from pyflow.ops.elementwise import binary_ops
    from pyflow.ops.move import array_ops
    return binary_ops.FloorMod(axes, array_ops.Rank(x))


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
        tensors = [graph.convert_to_tensor(x) for x in inputs]
        for term, x in zip(terms, tensors):
            if x.shape.ndims is not None and x.shape.ndims != len(term):
                raise ValueError(f"tf.einsum: {term!r} names {len(term)} dimensions of a tensor "
                                 "of shape "
                                 f"{x.shape}")
        current, letters = _sum_out(tensors[0], terms[0], "".join(terms[1:]) + result)
        for i in range(1, len(tensors)):
            later = "".join(terms[i + 1:]) + result
            other, term = _sum_out(tensors[i], terms[i], letters + later)
            current, letters = _einsum_pair(current, letters, other, term, later)
        from pyflow.ops.move import array_ops
        current, letters = _sum_out(current, letters, result)
        if letters != result:
            current = array_ops.transpose(current, [letters.index(c) for c in result])
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
    from pyflow.ops.reduce import reduction_ops
    gone = [i for i, c in enumerate(letters) if c not in needed]
    if not gone:
        return x, letters
    return reduction_ops.Sum(x, int32s(gone)), "".join(c for c in letters if c in needed)


def _einsum_pair(x, a, y, b, later):
    """One contraction as a batched matrix product: batch letters, free of x, summed, free of y."""
    from pyflow.ops.move import array_ops
    batch = [c for c in a if c in b and c in later]
    summed = [c for c in a if c in b and c not in later]
    free_x, free_y = [c for c in a if c not in b], [c for c in b if c not in a]
    x = array_ops.transpose(x, [a.index(c) for c in batch + free_x + summed])
    y = array_ops.transpose(y, [b.index(c) for c in batch + summed + free_y])
    xs, ys = _dims_or_vector(x), _dims_or_vector(y)
    n, m = len(batch), len(free_x)
    k = len(summed)
    left = array_ops.Reshape(x, _join([xs[:n], _product(xs[n:n + m]), _product(xs[n + m:])]))
    right = array_ops.Reshape(y, _join([ys[:n], _product(ys[n:n + k]), _product(ys[n + k:])]))
    product = BatchMatMulV2(left, right) if batch else MatMul(left, right)
    result = array_ops.Reshape(product, _join([xs[:n + m], ys[n + k:]]))
    return result, "".join(batch + free_x + free_y)


def _dims_or_vector(x):
    from pyflow.ops.move import array_ops
    return x.shape.as_list() if x.shape.is_fully_defined() else array_ops.Shape(x)


def _product(dims):
    if isinstance(dims, list):
        return [int(np.prod(dims, dtype=np.int64))]
    from pyflow.ops.reduce import reduction_ops
    return reduction_ops.reduce_prod(dims, 0, keepdims=True)


def _join(parts):
    if all(isinstance(p, list) for p in parts):
        return int32s([d for p in parts for d in p])
    from pyflow.ops.move import join_ops
    return join_ops.concat([int32s(p) if isinstance(p, list) else p for p in parts], 0)


def matrix_inverse(input, adjoint=False, name=None):
    """Inverses of square matrices. TF: tf.matrix_inverse.
    Dtypes, shapes, errors: as op MatrixInverse."""
    return MatrixInverse(input, adjoint=adjoint, name=name)


def matrix_solve(matrix, rhs, adjoint=False, name=None):
    """x with matrix x = rhs. TF: tf.matrix_solve.
    Dtypes, shapes, errors: as op MatrixSolve."""
    return MatrixSolve(matrix, rhs, adjoint=adjoint, name=name)


PUBLIC = {
    "matmul": matmul, "linalg.matmul": matmul, "batch_matmul": batch_matmul,
    "linalg.matvec": matvec,
    "tensordot": tensordot, "linalg.tensordot": tensordot,
    "matrix_inverse": matrix_inverse, "linalg.inv": matrix_inverse, "matrix_solve": matrix_solve,
    "linalg.solve": matrix_solve, "matrix_determinant": MatrixDeterminant,
    "linalg.det": MatrixDeterminant,
    "cholesky": Cholesky, "linalg.cholesky": Cholesky,
}
