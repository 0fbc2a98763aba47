"""Products: MatMul, Gemm, Einsum, Det."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, bias_add, call, scalar, sizes
from pyflow.interop.onnx.ops.integers import dequantised_product
from pyflow.interop.onnx.registry import converter


@converter("MatMul")
def matmul(node):
    made = dequantised_product(node.value(0), node.value(1))
    return product(node, node.x(0), node.x(1)) if made is None else made


def product(node, a, b):
    """a @ b with NumPy's rules for vectors and batches."""
    ra, rb = a.shape.ndims, b.shape.ndims
    for tensor, rank in ((a, ra), (b, rb)):
        if rank is None:
            raise node.needs(tensor, "the rank of a factor")
    if not ra or not rb:
        raise node.error(f"expected tensors of rank 1 and more, got shapes {a.shape} and {b.shape}")
    if ra == 1:
        a = tf.expand_dims(a, 0)
    if rb == 1:
        b = tf.expand_dims(b, 1)
    if a.shape.ndims == 2 and b.shape.ndims == 2:
        made = call("MatMul", a, b)
    elif b.shape.ndims == 2 and None not in a.shape.as_tuple()[-1:]:
        lead = sizes(a)[:-1]
        made = call("MatMul", tf.reshape(a, [-1, a.shape.as_tuple()[-1]]), b)
        made = tf.reshape(made, tf.concat([lead, sizes(b)[1:]], 0))
    else:
        made = call("BatchMatMulV2", a, b)
    if rb == 1:
        made = tf.squeeze(made, [-1])
    return tf.squeeze(made, [-1 if rb == 1 else -2]) if ra == 1 else made


@converter("Gemm")
def gemm(node):
    """alpha A' B' + beta C; a constant alpha goes into constant weights."""
    a, b = node.x(0), node.value(1)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    node.expect_rank(0, 2)
    node.expect_rank(1, 2)
    if alpha != 1 and b.is_array and b.dtype.is_floating:
        b, alpha = Value(array=b.array * b.array.dtype.type(alpha)), 1
    made = call("MatMul", a, b.plain, transpose_a=bool(node.attr("transA", 0)),
                transpose_b=bool(node.attr("transB", 0)))
    if alpha != 1:
        made = _scaled(made, alpha)
    if not node.has(2) or beta == 0:
        return made
    c = node.value(2)
    columns = made.shape.as_tuple()[1]
    if c.is_array and columns is not None and c.array.size == columns and beta == 1 \
            and c.shape[-1:] == (columns,) and made.dtype.is_floating:
        return bias_add(made, tf.constant(c.array.reshape(-1)))
    return call("AddV2", made, c.plain if beta == 1 else _scaled(c.plain, beta))


def _scaled(x, factor):
    if x.dtype.is_floating:
        return x * scalar(factor, x)
    return tf.cast(tf.cast(x, tf.float64) * tf.constant(float(factor), tf.float64), x.dtype)


@converter("Einsum")
def einsum(node):
    """By diagonals, sums, transposes and one batched product per operand."""
    equation = node.attr("equation").replace(" ", "")
    return contracted(node, equation, [node.x(i) for i in range(len(node))])


def contracted(node, equation, tensors):
    """The tensor an einsum equation describes."""
    terms, arrow, result = equation.partition("->")
    terms = terms.split(",")
    if len(terms) != len(tensors):
        raise node.error(f"equation {equation!r} has {len(terms)} terms for {len(tensors)} inputs")
    for tensor in tensors:
        if tensor.shape.ndims is None:
            raise node.needs(tensor, "the rank of an input")
    names = [_axes(node, term, t.shape.ndims) for term, t in zip(terms, tensors)]
    widest = max((sum(n.startswith(".") for n in axes) for axes in names), default=0)
    dots = [f".{i}" for i in reversed(range(widest))]
    if arrow:
        out = [n for part in _letters(result) for n in (dots if part == "..." else [part])]
    else:
        flat = [n for axes in names for n in axes if not n.startswith(".")]
        out = dots + sorted(n for n in set(flat) if flat.count(n) == 1)
    tensor, axes = _diagonal(tensors[0], names[0])
    for other, other_axes in zip(tensors[1:], names[1:]):
        later = out + [n for rest in names[names.index(other_axes) + 1:] for n in rest]
        tensor, axes = _pair(tensor, axes, *_diagonal(other, other_axes), later)
    gone = [i for i, n in enumerate(axes) if n not in out]
    if gone:
        tensor = tf.reduce_sum(tensor, gone)
        axes = [n for n in axes if n in out]
    missing = [n for n in out if n not in axes]
    if missing or len(set(out)) != len(out):
        raise node.error(f"equation {equation!r} names axes that no input has, or one twice")
    return tf.transpose(tensor, [axes.index(n) for n in out]) if axes != out else tensor


def _letters(term):
    letters, i = [], 0
    while i < len(term):
        step = 3 if term.startswith("...", i) else 1
        letters.append(term[i:i + step])
        i += step
    return letters


def _axes(node, term, rank):
    """The axes' names; those of an ellipsis are .1, .0, counted from the last."""
    letters = _letters(term)
    extra = rank - len([x for x in letters if x != "..."])
    if extra < 0 or extra and "..." not in letters:
        raise node.error(f"term {term!r} does not fit a tensor of rank {rank}")
    made = []
    for letter in letters:
        made += [f".{i}" for i in reversed(range(extra))] if letter == "..." else [letter]
    return made


def _diagonal(tensor, axes):
    """The tensor with axes of one name taken together."""
    axes = list(axes)
    while len(set(axes)) != len(axes):
        name = next(n for n in axes if axes.count(n) > 1)
        i = axes.index(name)
        j = axes.index(name, i + 1)
        rest = [k for k in range(len(axes)) if k not in (i, j)]
        tensor = tf.matrix_diag_part(tf.transpose(tensor, rest + [i, j]))
        axes = [axes[k] for k in rest] + [name]
    return tensor, axes


def _pair(a, names_a, b, names_b, later):
    """Product of two, summed over axes that nothing later needs."""
    def reduced(t, names, other):
        gone = [i for i, n in enumerate(names) if n not in other and n not in later]
        return (tf.reduce_sum(t, gone) if gone else t), [n for k, n in enumerate(names)
                                                         if k not in gone]
    a, names_a = reduced(a, names_a, names_b)
    b, names_b = reduced(b, names_b, names_a)
    shared = [n for n in names_a if n in names_b]
    batch = [n for n in shared if n in later]
    inner = [n for n in shared if n not in later]
    left = [n for n in names_a if n not in shared]
    right = [n for n in names_b if n not in shared]
    if not inner or any(n.startswith(".") for n in shared):
        names = batch + left + right + inner
        made = _spread(a, names_a, names) * _spread(b, names_b, names)
        return (tf.reduce_sum(made, list(range(len(names) - len(inner), len(names))))
                if inner else made), batch + left + right
    x = _matrix(a, names_a, batch, left, inner)
    y = _matrix(b, names_b, batch, inner, right)
    made = call("BatchMatMulV2", x, y) if batch else call("MatMul", x, y)
    shape = tf.concat([sizes(made)[:len(batch)], _some(a, names_a, left), _some(b, names_b, right)],
                      0)
    return tf.reshape(made, shape), batch + left + right


def _spread(t, have, names):
    t = tf.transpose(t, [have.index(n) for n in names if n in have])
    for i, n in enumerate(names):
        if n not in have:
            t = tf.expand_dims(t, i)
    return t


def _some(t, have, names):
    own = sizes(t)
    if not names:
        return tf.constant(np.zeros(0, np.int64))
    return tf.stack([own[have.index(n)] for n in names])


def _matrix(t, have, batch, rows, columns):
    """The tensor as [batch..., rows, columns]."""
    t = tf.transpose(t, [have.index(n) for n in batch + rows + columns])
    own = sizes(t)
    k, m = len(batch), len(batch) + len(rows)
    return tf.reshape(t, tf.concat([own[:k], [tf.reduce_prod(own[k:m])],
                                    [tf.reduce_prod(own[m:])]], 0))


@converter("Det")
def det(node):
    return tf.matrix_determinant(node.x(0))
