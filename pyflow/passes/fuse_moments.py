"""Mean and variance in one reading, and layer normalisation as one node.

    %m = Mean(%x, axes) {keep_dims}
    %d = SquaredDifference(%x, %m)      ->   %m = _FusedMoments(%x) {axes}: mean, variance
    %v = Mean(%d, axes) {keep_dims}

    %y = Add(Mul(%x, %i), Sub(%b, Mul(%m, %i)))     of tf.nn.batch_normalization, or
         Add(Mul(Mul(Sub(%x, %m), Rsqrt(%v + e)), %g), %b), or with RealDiv by Sqrt(%v + e)
                                        ->   %y = _FusedLayerNorm(%x, %g, %b) {epsilon: e}

where %i = Mul(Rsqrt(%v + e), %g).  Instead of SquaredDifference there may be Square (or Mul with
itself) of Sub(%x, %m).

Invariants
    1. The variance goes with what was built for it alone; its readers read output 1 of the mean's
       node, which keeps its name, origin and place.  Both nodes read the same tensors and neither
       waits for more than the other, so both were alive, and turned, together.
    2. A layer norm is made where nobody else reads what is between x and its result (gradients do:
       they keep the moments and the element-wise program), and the static shapes say that scale
       and offset have x's last dimensions, those of the axes.
    3. Results differ in their last digits: mean and variance of float32 are within 1e-6 of the sums
       of squares, and nearer to the exact ones; halves are rounded once, not after every node.
    4. One walk over the nodes each: the time is linear.

Threads: works on the caller's graph, in place.

    counts = fuse_moments.fuse(graph)           # {"moments": 2, "layer norm": 1}
"""
import collections

import numpy as np

from pyflow.framework import dtypes
from pyflow.passes import pure

MOMENTS, LAYER_NORM = "_FusedMoments", "_FusedLayerNorm"
_HALVES = (dtypes.float16, dtypes.bfloat16)
_TYPES = (dtypes.float32, *_HALVES)
_ADDS = ("Add", "AddV2")


def fuse(graph):
    """Fuses in place.  Returns {"moments": how often, "layer norm": how often}."""
    if not any(n.op in ("SquaredDifference", "Square", "Mul") for n in graph.nodes):
        return {}
    counts = collections.Counter()
    replaced, orphans = {}, []
    for node in graph.nodes:
        found = _mean_and_squares(node)
        if found is not None and found[0] not in replaced:
            mean, squares = found
            orphans += [squares, *(s for n in (node, mean) for s, _ in n.inputs)]
            replaced[node] = _fuse_moments(mean)
    if not replaced:
        return {}
    counts["moments"] = len(replaced)
    for node in graph.nodes:
        node.inputs = [(replaced[s], 1) if s in replaced else (s, i) for s, i in node.inputs]
        if any(c in replaced for c in node.controls):
            node.controls = list(dict.fromkeys(replaced.get(c, c) for c in node.controls))
    gone = set(replaced)
    graph.nodes = [n for n in graph.nodes if n not in gone]
    pure.sweep(graph, [n for n in orphans if n not in gone])
    found = _layer_norms(graph)
    if found:
        counts["layer norm"] = found
    return dict(counts)


# ---------------------------------------------------------------- moments
def _is_mean(node):
    return (node.op == "Mean" and node.attrs.get("T") in _TYPES and node.attrs.get("keep_dims")
            and node.inputs[1][0].op == "Const"
            and not (node.device and ":CPU:" not in node.device))


def _mean_and_squares(variance):
    """(mean, squared differences) of a node that is their variance, or None."""
    if not _is_mean(variance) or variance.controls:
        return None
    squares = variance.inputs[0][0]
    edges = _difference(squares)
    if edges is None or squares.controls:
        return None
    x, (mean, index) = edges
    if index == 0 and _is_mean(mean) and not mean.controls and mean.inputs[0] == x \
            and mean.device == variance.device and _same_axes(mean, variance, x):
        return mean, squares
    return None


def _difference(squares):
    """[minuend, subtrahend] whose difference `squares` is the square of, or None."""
    if squares.op == "SquaredDifference":
        return squares.inputs
    if squares.op == "Square" or squares.op == "Mul" and squares.inputs[0] == squares.inputs[1]:
        inner = squares.inputs[0][0]
        if inner.op == "Sub" and not inner.controls:
            return inner.inputs
    return None


def _axes(node):
    return [int(a) for a in np.asarray(node.inputs[1][0].attrs["value"]).reshape(-1)]


def _same_axes(one, other, x):
    a, b = set(_axes(one)), set(_axes(other))
    dims = _dims(x)
    if dims is not None and dims:
        a, b = ({i % len(dims) for i in s} for s in (a, b))
    return a == b


def _fuse_moments(mean):
    """Makes `mean` the fused node, which it returns."""
    x, axes, dtype = mean.inputs[0], mean.inputs[1][0], mean.attrs["T"]
    source = x[0]
    if (source.op == "Cast" and dtype is dtypes.float32 and source.attrs.get("SrcT") in _HALVES
            and not source.controls):
        x = source.inputs[0]                # read as they are: the kernel's sums are float
    mean.attrs = {"axes": _axes(mean), "S": x[0].types[x[1]], "T": dtype}
    mean.op, mean.inputs = MOMENTS, [x]
    mean.controls = list(dict.fromkeys(axes.controls))
    mean.types = (dtype, dtype)
    if mean.shapes:
        mean.shapes = [mean.shapes[0], mean.shapes[0]]
    return mean


# ---------------------------------------------------------------- layer norms
_Norm = collections.namedtuple("_Norm", "x moments epsilon scale offset inner")


def _layer_norms(graph):
    readers, held = collections.defaultdict(list), set()
    for node in graph.nodes:
        for source, _ in node.inputs:
            readers[source].append(node)
        held.update(node.controls)
    gone, orphans = set(), []
    for node in graph.nodes:
        if node.op not in _ADDS:
            continue
        norm = _of_batch_normalization(node) or _by_hand(node)
        if norm is not None and _may_go(norm, node, readers, held) and _is_of_rows(norm):
            _replace(node, norm)
            gone |= {norm.moments, *norm.inner}
            orphans += [s for n in norm.inner for s, _ in n.inputs if s.op == "Const"]
    graph.nodes = [n for n in graph.nodes if n not in gone]
    pure.sweep(graph, [n for n in orphans if n not in gone])
    return sum(n.op == LAYER_NORM for n in graph.nodes)


def _pairs(node):
    """The inputs of a node of two, in both orders."""
    return (node.inputs, node.inputs[::-1])


def _inverse(edge):
    """(moments node, epsilon, root node, [inner nodes]) of (variance + epsilon) and its root."""
    root = edge[0]
    if root.op not in ("Rsqrt", "Sqrt") or root.inputs[0][0].op not in _ADDS:
        return None
    total = root.inputs[0][0]
    for (source, index), (constant, _) in _pairs(total):
        if source.op == MOMENTS and index == 1 and constant.op == "Const":
            value = np.asarray(constant.attrs["value"])
            if value.size == 1 and value.ndim == 0:
                return source, float(value), root, [root, total]
    return None


def _scaled_inverse(edge):
    """(scale edge, what _inverse gives, with the product) of scale * rsqrt(variance + epsilon)."""
    if edge[0].op != "Mul":
        return None
    for one, scale in _pairs(edge[0]):
        found = _inverse(one)
        if found is not None and found[2].op == "Rsqrt":
            return scale, (*found[:3], [edge[0], *found[3]])
    return None


def _of_batch_normalization(root):
    """x * i + (offset - mean * i)"""
    for (product, _), (shift, _) in _pairs(root):
        if product.op != "Mul" or shift.op != "Sub" or shift.inputs[1][0].op != "Mul":
            continue
        offset, (shifted, _) = shift.inputs
        for x, by in _pairs(product):
            found = _scaled_inverse(by)
            if found is None:
                continue
            scale, (moments, epsilon, _, inner) = found
            if (set(shifted.inputs) == {(moments, 0), by} and moments.inputs[0] == x):
                return _Norm(x, moments, epsilon, scale, offset,
                             [product, shift, shifted, *inner])
    return None


def _by_hand(root):
    """(x - mean) * rsqrt(variance + e) * scale + offset, or / sqrt(variance + e)"""
    for (product, _), offset in _pairs(root):
        if product.op != "Mul":
            continue
        for (centred, _), scale in _pairs(product):
            found = _normalised(centred)
            if found is not None:
                x, moments, epsilon, inner = found
                return _Norm(x, moments, epsilon, scale, offset, [product, *inner])
    return None


def _normalised(node):
    """(x, moments node, epsilon, [inner nodes]) of (x - mean) / sqrt(variance + e)"""
    orders = _pairs(node) if node.op == "Mul" else [node.inputs] if node.op == "RealDiv" else ()
    for (difference, _), by in orders:
        found = _inverse(by)
        if found is None or difference.op != "Sub" or \
                (found[2].op == "Rsqrt") != (node.op == "Mul"):
            continue
        x, mean = difference.inputs
        if mean == (found[0], 0) and found[0].inputs[0] == x:
            return x, found[0], found[1], [node, difference, *found[3]]
    return None


def _may_go(norm, root, readers, held):
    """True if only the pattern reads what is between x and its result."""
    inside = {root, *norm.inner}
    return not any(n.controls or n in held or n.device != root.device or not inside.issuperset(
        readers[n]) for n in (norm.moments, *norm.inner))


def _dims(edge):
    node, index = edge
    shape = node.shapes[index] if node.shapes else None
    return shape.as_tuple() if shape is not None else None


def _is_of_rows(norm):
    """True if the axes are the last ones of x, and scale and offset are known to have them all."""
    x, scale, offset = map(_dims, (norm.x, norm.scale, norm.offset))
    dtype = norm.moments.attrs["T"]
    if x is None or scale is None or scale != offset or not scale or None in scale:
        return False
    if any(s.types[i] is not dtype for s, i in (norm.x, norm.scale, norm.offset)):
        return False
    first = len(x) - len(scale)
    return (first >= 0 and x[first:] == scale
            and {a % len(x) for a in norm.moments.attrs["axes"]} == set(range(first, len(x))))


def _replace(root, norm):
    root.op, root.inputs = LAYER_NORM, [norm.x, norm.scale, norm.offset]
    root.attrs = {"epsilon": norm.epsilon, "T": norm.moments.attrs["T"]}
