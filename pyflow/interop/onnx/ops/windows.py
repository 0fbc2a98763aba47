"""Geometry of convolutions and pools: pads, output sizes, and windows as slices.

Where a size is not known, its output size is None, and pads that depend on it (of SAME, or of
rounding up) are int64 scalars of the graph; windows are then cut from the padded tensor's end.

    pads = geometry(node, sizes, kernel).pads        # [(before, after), ...] per spatial axis
"""

import itertools

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import size_of

_MAX_WINDOW = 4096


class Geometry:
    """Strides, dilations and pads of each spatial axis; `out`: output sizes."""

    def __init__(self, kernel, strides, dilations, pads, out, plain):
        self.kernel, self.strides, self.dilations = kernel, strides, dilations
        self.pads, self.out = pads, out
        self.plain = plain      # pads before rounding up (ceil_mode)

    @property
    def fixed(self):
        """Whether all pads are numbers."""
        return all(isinstance(p, int) for pair in self.pads for p in pair)

    def piece(self, axis, offset):
        """What lies under the kernel's element `offset` of an axis at all places, as a slice of
        the padded axis."""
        start, stride, out = offset * self.dilations[axis], self.strides[axis], self.out[axis]
        if out is not None:
            return slice(start, start + (out - 1) * stride + 1, stride)
        rest = (self.kernel[axis] - 1) * self.dilations[axis] - start
        return slice(start, -rest or None, stride)


def geometry(node, spatial, kernel, ceil=False):
    """The Geometry for input sizes `spatial` (None where unknown) and a kernel's sizes."""
    n = len(kernel)
    strides = node.attr("strides", None) or [1] * n
    dilations = node.attr("dilations", None) or [1] * n
    if len(spatial) != n or len(strides) != n or len(dilations) != n:
        raise node.error(f"kernel {list(kernel)}, strides {strides} and dilations {dilations} do "
                         f"not fit {len(spatial)} spatial axes")
    if min([*kernel, *strides, *dilations], default=1) < 1:
        raise node.error(f"kernel {list(kernel)}, strides {strides} and dilations {dilations} "
                         f"must be positive")
    if max([*kernel, *strides, *dilations], default=1) >= 1 << 24:
        raise node.error(f"kernel {list(kernel)}, strides {strides} and dilations {dilations} "
                         f"must be less than 2^24")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    plain = _pads(node, spatial, spans, strides)
    pads, out = [], []
    for axis, (size, span, stride, (before, after)) in enumerate(zip(spatial, spans, strides,
                                                                     plain)):
        if size is None:
            out.append(None)
            if ceil:
                after = after + _rounding(size_of(node.value(0), axis + 2), before, after, span,
                                          stride)
            pads.append((before, after))
            continue
        free = size + before + after - span
        if free < 0:
            raise node.error(f"a window of {span} does not fit an axis of {size} padded by "
                             f"({before}, {after})")
        steps = free // stride
        if ceil and free % stride and (steps + 1) * stride < size + before:
            steps += 1
            after += steps * stride - free
        out.append(steps + 1)
        pads.append((before, after))
    return Geometry(list(kernel), strides, dilations, pads, out, plain)


def _pads(node, spatial, spans, strides):
    auto = node.attr("auto_pad", "NOTSET") or "NOTSET"
    n = len(spans)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        made = []
        for axis, (size, span, stride) in enumerate(zip(spatial, spans, strides)):
            if size is None and stride > 1:
                pair = _same_pads_of(size_of(node.value(0), axis + 2), span, stride)
            else:       # any size will do for a stride of 1
                pair = same_pads(size or 1, span, stride)
            made.append(pair if auto == "SAME_UPPER" else pair[::-1])
        return made
    if auto == "VALID":
        return [(0, 0)] * n
    if auto != "NOTSET":
        raise node.error(f"auto_pad {auto!r} is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID")
    pads = node.attr("pads", None) or [0] * 2 * n
    if len(pads) != 2 * n:
        raise node.error(f"expected {2 * n} pads for {n} spatial axes, got {pads}")
    return [(pads[i], pads[i + n]) for i in range(n)]


def same_pads(size, span, stride):
    """(before, after) of padding "SAME"."""
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    return total // 2, total - total // 2


def _number(n):
    return tf.constant(np.int64(n))


def _same_pads_of(size, span, stride):
    """same_pads of a size that only the step knows."""
    steps = (size + _number(stride - 1)) // _number(stride) - _number(1)
    total = tf.maximum(steps * _number(stride) + _number(span) - size, _number(0))
    return total // _number(2), total - total // _number(2)


def _rounding(size, before, after, span, stride):
    """What ceil_mode adds to the pad after a size that only the step knows."""
    stride = _number(stride)
    free = size + before + after - _number(span)
    steps = free // stride + _number(1)
    adds = tf.logical_and(tf.not_equal(tf.floormod(free, stride), _number(0)),
                          tf.less(steps * stride, size + before))
    return tf.where(adds, steps * stride - free, _number(0))


def padded(x, pads, value=0, at=1):
    """x with its axes from `at` on padded; negative pads crop.  Pads may be int64 scalars of the
    graph, none negative."""
    if not all(isinstance(p, (int, np.integer)) for pair in pads for p in pair):
        return _padded_by_tensors(x, pads, value, at)
    if any(min(p) < 0 for p in pads):
        index = [slice(None)] * at + [slice(max(-b, 0), -max(-a, 0) or None) for b, a in pads]
        x = x[tuple(index)]
        pads = [(max(b, 0), max(a, 0)) for b, a in pads]
    if not any(b or a for b, a in pads):
        return x
    rest = x.shape.ndims - at - len(pads)
    table = [[0, 0]] * at + [list(p) for p in pads] + [[0, 0]] * rest
    if value == 0:
        return tf.pad(x, table)
    return tf.pad(x, table, constant_values=tf.constant(np.array(value).astype(
        x.dtype.base_dtype.as_numpy_dtype)))


def _padded_by_tensors(x, pads, value, at):
    rest = x.shape.ndims - at - len(pads)
    table = [0] * 2 * at + [p for pair in pads for p in pair] + [0] * 2 * rest
    table = tf.reshape(tf.stack([_number(p) if isinstance(p, (int, np.integer)) else p
                                 for p in table]), [-1, 2])
    made = tf.pad(x, table, constant_values=tf.constant(np.array(value).astype(
        x.dtype.base_dtype.as_numpy_dtype)))
    dims = x.shape.as_list()
    made.set_shape(dims[:at] + [None] * len(pads) + dims[at + len(pads):])
    return made


def offsets(node, geo):
    """All places inside the kernel."""
    if np.prod(geo.kernel) > _MAX_WINDOW:
        raise node.unsupported(f"kernels of more than {_MAX_WINDOW} elements in this form")
    return list(itertools.product(*[range(k) for k in geo.kernel]))


def window(x, geo, offset):
    """What lies under one kernel element at each place: a strided slice of padded channels-last
    x."""
    return x[(slice(None), *[geo.piece(axis, o) for axis, o in enumerate(offset)])]


def swept(node, x, geo, combine):
    """All of each window combined (by a function such as add), one axis after the other."""
    if sum(geo.kernel) > _MAX_WINDOW:
        raise node.unsupported(f"a kernel {geo.kernel} in this form; at most {_MAX_WINDOW} in all")
    for axis, k in enumerate(geo.kernel):
        result = None
        for offset in range(k):
            part = x[(*[slice(None)] * (axis + 1), geo.piece(axis, offset))]
            result = part if result is None else combine(result, part)
        x = result
    return x
