"""Geometry of convolutions and pools: pads, output sizes, and windows as slices.

    pads = geometry(node, sizes, kernel).pads        # [(before, after), ...] per spatial axis
"""

import itertools

import numpy as np

import pyflow as tf

_MAX_WINDOW = 4096


class Geometry:
    """Strides, dilations and pads of each spatial axis; `out`: output sizes."""

    def __init__(self, kernel, strides, dilations, pads, out, plain):
        self.kernel, self.strides, self.dilations = kernel, strides, dilations
        self.pads, self.out = pads, out
        self.plain = plain      # pads before rounding up (ceil_mode)


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
    for size, span, stride, (before, after) in zip(spatial, spans, strides, plain):
        if size is None:
            out.append(None)
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
        if None in spatial:
            raise node.needs(node.value(0).tensor, f"the spatial sizes for auto_pad {auto}")
        made = []
        for size, span, stride in zip(spatial, spans, strides):
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
            small = total // 2
            made.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
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


def padded(x, pads, value=0, at=1):
    """x with its axes from `at` on padded; negative pads crop."""
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


def offsets(node, geo):
    """All places inside the kernel."""
    if np.prod(geo.kernel) > _MAX_WINDOW:
        raise node.unsupported(f"kernels of more than {_MAX_WINDOW} elements in this form")
    return list(itertools.product(*[range(k) for k in geo.kernel]))


def window(x, geo, offset):
    """What lies under one kernel element at each place: a strided slice of padded channels-last
    x."""
    index = [slice(None)]
    for o, stride, dilation, out in zip(offset, geo.strides, geo.dilations, geo.out):
        start = o * dilation
        index.append(slice(start, start + (out - 1) * stride + 1, stride))
    return x[tuple(index)]


def swept(node, x, geo, combine):
    """All of each window combined (by a function such as add), one axis after the other."""
    if sum(geo.kernel) > _MAX_WINDOW:
        raise node.unsupported(f"a kernel {geo.kernel} in this form; at most {_MAX_WINDOW} in all")
    for axis, (k, stride, dilation, out) in enumerate(zip(geo.kernel, geo.strides, geo.dilations,
                                                          geo.out)):
        result = None
        for start in range(0, k * dilation, dilation):
            index = [slice(None)] * (axis + 1)
            index.append(slice(start, start + (out - 1) * stride + 1, stride))
            part = x[tuple(index)]
            result = part if result is None else combine(result, part)
        x = result
    return x
