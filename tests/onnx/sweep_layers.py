"""Cases of layers: convolutions, pools, recurrent layers, resizing, sampling, signals, attention,
losses, and control flow."""
import numpy as np
from sweep_model import D, F, H, data, graph, ints, node, sweep

AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def _some(**attributes):
    """The attributes that are not None."""
    return {k: a for k, a in attributes.items() if a is not None}


# convolutions
_WINDOWS = (                # spatial sizes, kernel, attributes
    ((6,), (3,), {}), ((6,), (3,), {"pads": [1, 2], "strides": [2]}),
    ((7,), (2,), {"dilations": [3]}),
    ((5, 6), (3, 3), {"pads": [1, 1, 1, 1]}),
    ((5, 6), (2, 3), {"pads": [0, 2, 1, 0], "strides": [2, 1]}),
    ((5, 6), (3, 2), {"strides": [1, 2], "dilations": [2, 1]}), ((5, 6), (1, 1), {}),
    ((5, 6), (1, 3), {"dilations": [1, 2], "pads": [0, 2, 0, 2]}),
    ((5, 6), (2, 2), {"strides": [3, 3]}),
    ((3, 4, 4), (2, 2, 2), {}),
    ((3, 4, 4), (2, 1, 3), {"pads": [1, 0, 1, 0, 1, 1], "strides": [2, 1, 1]}))


@sweep("Conv")
def conv(c, op, v):
    for spatial, kernel, attributes in _WINDOWS:
        x, w = data(2, 4, *spatial), data(4, 4, *kernel, seed=2)
        yield c([x, w], attributes, const=(1,))
        yield c([x, w], attributes, const=(1,), unknown=True)
        yield c([x, data(4, 2, *kernel, seed=2), data(4, seed=3)], {**attributes, "group": 2},
                const=(1, 2))
        yield c([x, data(4, 1, *kernel, seed=2), data(4, seed=3)], {**attributes, "group": 4},
                const=(1, 2))
    for auto in AUTO:
        for stride in (1, 2):
            for size in (5, 6):
                attributes = {"auto_pad": auto, "strides": [stride, stride]}
                x, w = data(1, 2, size, size), data(3, 2, 3, 2, seed=2)
                yield c([x, w], attributes, const=(1,))
                yield c([x, w], attributes, const=(1,), unknown=True)
    x = data(1, 2, 5, 6)
    yield c([x, data(3, 2, 3, 3), data(3)], {"kernel_shape": [3, 3]})
    yield c([x, data(3, 2, 3, 3), data(3)], unknown=True)
    yield c([x, data(4, 1, 3, 3)], {"group": 2}, const=(1,))
    yield c([x, data(4, 1, 3, 3)], {"group": 2, "strides": [2, 1]}, const=(1,))
    yield c([data(0, 2, 5, 6), data(3, 2, 3, 3)], const=(1,))
    yield c([x, data(3, 2, 7, 7)], const=(1,))
    yield c([data(1, 2, 5, dtype=D), data(3, 2, 3, dtype=D)], const=(1,))
    yield c([data(1, 2, 5, 5, dtype=H), data(3, 2, 3, 3, dtype=H)], const=(1,))
    yield c([data(1, 2, 3, 5), data(3, 2, 3, 3)], {"auto_pad": "SAME_UPPER", "dilations": [2, 1]},
            const=(1,))


@sweep("ConvTranspose")
def conv_transpose(c, op, v):
    for spatial, kernel, attributes in (
            ((4,), (3,), {}), ((4,), (3,), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
            ((3, 4), (3, 3), {}), ((3, 4), (2, 3), {"strides": [2, 3]}),
            ((3, 4), (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
            ((3, 4), (3, 3), {"dilations": [2, 1], "pads": [0, 1, 2, 0]}),
            ((3, 4), (3, 3), {"strides": [2, 2], "output_shape": [7, 8]}),
            ((3, 4), (2, 2), {"strides": [2, 2], "output_shape": [8, 10]}),
            ((3, 4), (2, 2), {"strides": [3, 3], "output_padding": [2, 1]}),
            ((2, 2, 3), (2, 2, 2), {"strides": [2, 1, 2]}),
            ((2, 2, 3), (2, 1, 3), {"pads": [0, 0, 1, 1, 0, 1]})):
        x = data(2, 2, *spatial)
        for unknown in (False, True):
            yield c([x, data(2, 3, *kernel, seed=2)], attributes, const=(1,), unknown=unknown)
        yield c([x, data(2, 2, *kernel, seed=2), data(4, seed=3)], {**attributes, "group": 2},
                const=(1, 2))
    for auto in AUTO:
        for stride in (1, 2, 3):
            for more in ({}, {"output_shape": [3 * stride + 1, 4 * stride]}):
                attributes = {"auto_pad": auto, "strides": [stride, stride], **more}
                yield c([data(1, 2, 3, 4), data(2, 1, 3, 2, seed=2)], attributes, const=(1,))
        yield c([data(1, 2, 3, 4), data(2, 1, 3, 2, seed=2)], attributes, const=(1,), unknown=True)
    yield c([data(1, 2, 3, 4), data(2, 1, 3, 3)], unknown=True)
    yield c([data(1, 2, 4, dtype=D), data(2, 1, 3, dtype=D)])


@sweep("ConvInteger", "QLinearConv")
def conv_integer(c, op, v):
    for spatial, kernel, attributes in _WINDOWS[1:8]:
        for group in (1, 2):
            for dtype in (np.uint8, np.int8):
                x = data(1, 4, *spatial, dtype=dtype, high=90)
                w = data(2, 4 // group, *kernel, dtype=dtype, high=50, seed=3)
                point = np.array(4, dtype)
                settings = {**attributes, "group": group}
                if op == "ConvInteger":
                    yield c([x, w], settings, const=(1,), unknown=group == 2)
                    yield c([x, w, point, point], settings, const=(1, 2, 3))
                    continue
                scales = np.float32(0.1), np.array([0.2, 0.4], F), np.float32(2)
                yield c([x, scales[0], point, w, np.float32(0.2), point, scales[2], point],
                        settings,
                        const=(1, 2, 3, 4, 5, 6, 7))
                yield c([x, scales[0], point, w, scales[1], np.array([0, 0], dtype), scales[2],
                         point,
                         ints(100, -50, dtype=np.int32)], settings, const=(1, 2, 3, 4, 5, 6, 7, 8))


@sweep("DeformConv")
def deform_conv(c, op, v):
    for kernel, attributes, out in (((2, 2), {}, (3, 3)), ((3, 3), {"pads": [1, 1, 1, 1]}, (4, 4)),
                                    ((2, 2), {"strides": [2, 2]}, (2, 2)),
                                    ((2, 2), {"dilations": [2, 2], "pads": [0, 1, 1, 0]}, (3, 3))):
        taps = kernel[0] * kernel[1]
        x, w = data(1, 2, 4, 4), data(2, 2, *kernel, seed=2)
        offset = data(1, 2 * taps, *out, seed=3, low=-1, high=1)
        yield c([x, w, offset], {**attributes, "kernel_shape": list(kernel)})
        yield c([x, w, offset, data(2, seed=5), data(1, taps, *out, seed=7)], attributes,
                unknown=True)
        offset = data(1, 4 * taps, *out, seed=3, low=-1, high=1)
        yield c([x, data(2, 1, *kernel), offset], {**attributes, "offset_group": 2, "group": 2})


# pools
def _pooled(op, v):
    """(x, attributes) of pools."""
    for spatial, kernel, attributes in _WINDOWS:
        if attributes.get("dilations") and not (v >= 19 or op == "MaxPool" and v >= 10
                                                or op == "LpPool" and v >= 18):
            continue
        if op in ("MaxPool", "AveragePool") and "pads" in attributes and max(
                attributes["pads"]) >= min(kernel):
            continue
        yield data(1, 2, *spatial), {"kernel_shape": list(kernel), **attributes}
    for auto in AUTO:
        for stride in (1, 2):
            yield data(1, 2, 5, 6), {"kernel_shape": [3, 2], "strides": [stride, stride],
                                     "auto_pad": auto}
    if v >= 10 and op != "LpPool" or v >= 18:
        for spatial, kernel, stride, pads in (((5, 6), (2, 2), (2, 2), None),
                                              ((7,), (3,), (2,), None),
                                              ((6,), (3,), (2,), [1, 1]),
                                              ((6, 7), (3, 3), (3, 2), [1, 0, 1, 1]),
                                              ((4,), (1,), (2,), None),
                                              ((4, 4), (3, 3), (2, 2), [0, 0, 1, 1]),
                                              ((5,), (2,), (3,), [1, 1]),
                                              ((2, 4, 5), (2, 2, 2), (1, 2, 2), None)):
            for ceil in (0, 1):
                yield data(1, 2, *spatial), {"kernel_shape": list(kernel), "strides": list(stride),
                                             "ceil_mode": ceil,
                                             **_some(pads=pads)}
        yield data(1, 2, 6), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1,
                              "auto_pad": "VALID"}
        yield data(1, 2, 6), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1,
                              "auto_pad": "SAME_UPPER"}


@sweep("MaxPool")
def max_pool(c, op, v):
    for x, attributes in _pooled(op, v):
        yield c([x], attributes)
        yield c([x], attributes, unknown=True)
        if v >= 8:
            for order in (0, 1):
                yield c([x], {**attributes, "storage_order": order}, outputs=2, unknown=order == 1)
    if v >= 12:
        for dtype in (np.int8, np.uint8, D):
            yield c([data(1, 1, 5, 5, dtype=dtype, low=-99, high=99)],
                    {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]})
    yield c([np.full((1, 1, 3, 3), -np.inf, F)], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]})
    yield c([np.array([[[1, np.nan, 2, 3, 4]]], F)], {"kernel_shape": [2]})
    yield c([data(0, 2, 4, 4)], {"kernel_shape": [2, 2]})


@sweep("AveragePool", "LpPool")
def average_pool(c, op, v):
    if op == "LpPool" and v == 1:
        return
    for x, attributes in _pooled(op, v):
        yield c([x], attributes)
        yield c([x], attributes, unknown=True)
        if op == "LpPool":
            for p in (1, 3):
                yield c([x], {**attributes, "p": p})
        elif v >= 7:
            yield c([x], {**attributes, "count_include_pad": 1})
            if "pads" in attributes or "auto_pad" in attributes:
                yield c([x], {**attributes, "count_include_pad": 1}, unknown=True)
    yield c([data(0, 2, 4, 4)], {"kernel_shape": [2, 2]})
    yield c([data(1, 2, 4, 4, dtype=H)], {"kernel_shape": [2, 2]})


@sweep("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(c, op, v):
    for shape in ((2, 3, 4), (1, 2, 3, 3), (1, 2, 2, 3, 2)):
        yield c([data(*shape)])
        yield c([data(*shape)], unknown=True)
    yield c([data(1, 2, 3, dtype=D)])
    if op == "GlobalLpPool" and v >= 2:
        for p in (1, 2, 3):
            yield c([data(1, 2, 3, 3)], {"p": p})


@sweep("MaxUnpool")
def max_unpool(c, op, v):
    x, places = data(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]])
    yield c([x, places], {"kernel_shape": [2, 2], "strides": [2, 2]})
    yield c([x, places], {"kernel_shape": [2, 2], "strides": [2, 2]}, unknown=True)
    yield c([x, places, ints(1, 1, 5, 5)], {"kernel_shape": [2, 2], "strides": [2, 2]}, const=(2,))
    yield c([x, np.array([[[[0, 1], [4, 5]]]])], {"kernel_shape": [2, 2]})
    yield c([data(1, 2, 3), np.array([[[0, 2, 4], [7, 9, 11]]])],
            {"kernel_shape": [2], "strides": [2]})


@sweep("Col2Im")
def col2im(c, op, v):
    for image, block, attributes, count in (
            ((4, 5), (2, 2), {}, 12), ((4, 5), (1, 5), {}, 4),
            ((4, 5), (2, 2), {"strides": [2, 2]}, 4),
            ((4, 5), (2, 2), {"dilations": [2, 3]}, 4),
            ((3, 3), (2, 2), {"pads": [1, 0, 1, 1]}, 12), ((6,), (2,), {}, 5)):
        blocks = int(np.prod(block))
        for const in ((1, 2), ()):
            yield c([data(1, 2 * blocks, count), ints(*image), ints(*block)], attributes,
                    const=const)


# recurrent layers
@sweep("RNN", "GRU", "LSTM")
def recurrent(c, op, v):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    states = 2 if op == "LSTM" else 1
    steps, batch, width, hidden = 3, 2, 2, 2

    def made(directions=1, extra=("B",), outputs=states + 1, layout=None, t=steps, **settings):
        attributes = {"hidden_size": hidden, **settings.pop("attributes", {}),
                      **_some(layout=layout)}
        first = layout == 1
        x = data(t, batch, width, low=-2, high=2)
        w = data(directions, gates * hidden, width, seed=2, low=-1, high=1)
        r = data(directions, gates * hidden, hidden, seed=3, low=-1, high=1)
        state = [data(directions, batch, hidden, seed=5 + k) for k in range(states)]
        if first:
            state = [s.transpose(1, 0, 2).copy() for s in state]
        inputs = [x.transpose(1, 0, 2).copy() if first else x, w, r,
                  data(directions, 2 * gates * hidden, seed=4) if "B" in extra else None,
                  ints(t, 1, dtype=np.int32) if "L" in extra else None,
                  *[s if "S" in extra else None for s in state],
                  data(directions, 3 * hidden, seed=8) if "P" in extra else None]
        while inputs[-1] is None:
            inputs.pop()
        return c(inputs, attributes, const=(1, 2, 3, 7), outputs=outputs, **settings)
    for extra in ("", "B", "BL", "BS", "BLS", *(("BP", "BLSP") if op == "LSTM" else ())):
        for way, n in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            yield made(n, extra, attributes={"direction": way})
            yield made(n, extra, attributes={"direction": way}, unknown=True, t=6)
    for layout in (0, 1) if v >= 14 else ():
        yield made(2, "BLS", layout=layout, attributes={"direction": "bidirectional"})
        yield made(1, "B", layout=layout, unknown=True)
    for clip in (0.1, 0.5, 5.0):
        yield made(1, "B", attributes={"clip": clip})
    names = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}[op]
    for name, a, b in (("Relu", None, None), ("Affine", 0.5, 0.2), ("LeakyRelu", 0.3, None),
                       ("LeakyRelu", None, None),
                       ("ThresholdedRelu", 0.2, None), ("ScaledTanh", 0.5, 0.7),
                       ("HardSigmoid", 0.3, 0.4),
                       ("HardSigmoid", None, None), ("Elu", 0.5, None), ("Elu", None, None),
                       ("Softsign", None, None),
                       ("Softplus", None, None), ("Sigmoid", None, None),
                       ("ThresholdedRelu", None, None)):
        for place in range(len(names)):
            chosen = list(names)
            chosen[place] = name
            yield made(1, "B", attributes={"activations": chosen, **_some(
                activation_alpha=None if a is None else [a],
                activation_beta=None if b is None else [b])})
    yield made(2, "B", attributes={"direction": "bidirectional",
                                   "activations": names + ["Relu"] * len(names)})
    yield made(2, "B", attributes={"direction": "bidirectional",
                                   "activations": ["LeakyRelu"] * 2 * len(names),
                                   "activation_alpha": [0.1 * (k + 1) for k in
                                                        range(2 * len(names))]})
    if op == "GRU" and v >= 3:
        for linear in (0, 1):
            yield made(1, "B", attributes={"linear_before_reset": linear})
            yield made(1, "", attributes={"linear_before_reset": linear})
            yield made(2, "BLS", attributes={"linear_before_reset": linear,
                                             "direction": "bidirectional"})
    if op == "LSTM":
        for forget in (0, 1):
            yield made(1, "B", attributes={"input_forget": forget})
            yield made(1, "BP", attributes={"input_forget": forget})
    yield made(1, "B", outputs=1)
    yield made(1, "B", t=1, unknown=True)


# resizing
_MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
          "tf_crop_and_resize", "tf_half_pixel_for_nn")


@sweep("Upsample")
def upsample(c, op, v):
    x = data(1, 2, 2, 3)
    for mode in (None, "nearest", "linear" if v >= 7 else "bilinear"):
        for h, w in ((2.0, 2.0), (1.0, 3.0), (1.5, 2.6)):
            attributes = _some(mode=mode)
            if v == 1:
                yield c([x], {**attributes, "height_scale": h, "width_scale": w})
            elif v < 9:
                for unknown in (False, True):
                    yield c([x], {**attributes, "scales": [1.0, 1.0, h, w]}, unknown=unknown)
            else:
                for const in ((1,), ()):
                    yield c([x, np.array([1, 1, h, w], F)], attributes, const=const)
                yield c([x, np.array([1, 1, h, w], F)], attributes, const=(1,), unknown=True)


@sweep("Resize")
def resize(c, op, v):
    x = data(1, 2, 4, 5)
    factors = (np.array([1, 1, 2, 2], F), np.array([1, 1, 0.6, 0.5], F),
               np.array([1, 1, 1.3, 2.6], F))
    if v == 10:
        for mode in (None, "nearest", "linear"):
            for scales in factors:
                yield c([x, scales], _some(mode=mode), const=(1,))
                yield c([x, scales], _some(mode=mode), const=(1,), unknown=True)
                yield c([x, scales], _some(mode=mode))
        return
    roi = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1], F)
    empty = None if v >= 13 else np.zeros(0, F)
    for mode in ("nearest", "linear", "cubic"):
        for how in _MODES:
            if how == "half_pixel_symmetric" and v < 19 or how == "tf_half_pixel_for_nn" and v > 11:
                continue
            box = roi if how == "tf_crop_and_resize" else empty
            attributes = {"mode": mode, "coordinate_transformation_mode": how}
            for scales in factors:
                yield c([x, box, scales], attributes, const=(1, 2))
                if scales is not factors[1]:
                    yield c([x, box, scales], attributes, const=(1, 2), unknown=True)
            for sizes in ((1, 2, 7, 3), (1, 2, 2, 9), (1, 2, 1, 1)):
                yield c([x, box, empty, ints(*sizes)], attributes, const=(1, 2, 3),
                        unknown=sizes[2] == 2)
                yield c([x, box, empty, ints(*sizes)], attributes, const=(1, 2),
                        unknown=sizes[2] == 2)
        yield c([x, empty, factors[2]], {"mode": mode})
        yield c([x, empty, factors[2]], {"mode": mode}, const=(1,))
        yield c([x, empty, factors[1]], {"mode": mode}, const=(1,), unknown=True)
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for how in ("half_pixel", "asymmetric", "align_corners"):
            for scales in factors:
                yield c([x, empty, scales], {"coordinate_transformation_mode": how,
                                             "nearest_mode": nearest},
                        const=(1, 2), unknown=scales is factors[0])
    for coefficient in (-0.75, -0.5):
        for outside in (0, 1):
            for scales in factors:
                yield c([x, empty, scales], {"mode": "cubic", "cubic_coeff_a": coefficient,
                                             "exclude_outside": outside},
                        const=(1, 2))
    for value in (None, 10.0, -1.0):
        yield c([x, roi, factors[0]], {"mode": "linear",
                                       "coordinate_transformation_mode": "tf_crop_and_resize",
                                       **_some(extrapolation_value=value)}, const=(1, 2))
    yield c([data(1, 3, 4), empty, np.array([1, 1, 2], F)], {"mode": "linear"}, const=(1, 2))
    yield c([data(3, 4), empty, np.array([2, 1.5], F)], {"mode": "linear"}, const=(1, 2),
            unknown=True)
    yield c([x.astype(np.uint8), empty, factors[0]], {"mode": "nearest"}, const=(1, 2))
    yield c([data(1, 1, 4, 4, dtype=np.uint8, low=0, high=200), empty, factors[0]],
            {"mode": "linear"}, const=(1, 2))
    yield c([data(1, 1, 4, 4, dtype=np.int32), empty, factors[0]], {"mode": "nearest"},
            const=(1, 2))
    if v < 18:
        return
    for policy in ("stretch", "not_larger", "not_smaller"):
        for sizes in ((7, 8), (3, 9), (9, 3)):
            yield c([x, None, None, ints(*sizes)], {"axes": [2, 3],
                                                    "keep_aspect_ratio_policy": policy}, const=(3,),
                    unknown=sizes[0] == 3)
    for axes in ([2, 3], [3, 2], [-1], [0]):
        yield c([x, None, np.array([1.5, 2.0], F)[:len(axes)]], {"axes": axes, "mode": "linear"},
                const=(2,))
    for mode in ("linear", "cubic"):
        for scales in factors[1:]:
            for outside in (0, 1):
                yield c([x, None, scales], {"mode": mode, "antialias": 1,
                                            "exclude_outside": outside}, const=(2,))
    yield c([x, None, None, ints(1, 2, 2, 2)], {"mode": "linear", "antialias": 1}, const=(3,),
            unknown=True)


# sampling
@sweep("GridSample")
def grid_sample(c, op, v):
    names = ("bilinear", "nearest", "bicubic") if v < 20 else ("linear", "nearest", "cubic")
    grid = data(1, 3, 2, 2, low=-1.4, high=1.4)
    for mode in (None, *names):
        for padding in (None, "zeros", "border", "reflection"):
            for corners in (0, 1):
                yield c([data(1, 2, 3, 4), grid], _some(mode=mode, padding_mode=padding,
                                                        align_corners=corners),
                        unknown=corners == 1)
    if v >= 20:
        yield c([data(1, 1, 2, 3, 3), data(1, 2, 2, 2, 3, low=-1.3, high=1.3)], {"mode": "linear"})
        yield c([data(1, 1, 2, 3, 3), data(1, 2, 2, 2, 3, low=-1.3, high=1.3)], {"mode": "nearest"})


@sweep("AffineGrid")
def affine_grid(c, op, v):
    for corners in (None, 0, 1):
        for size, const in (((2, 1, 3, 2), (1,)), ((2, 1, 3, 2), ()), ((2, 1, 1, 4), (1,)),
                            ((2, 1, 2, 3, 2), (1,))):
            n = len(size) - 2
            yield c([data(2, n, n + 1), ints(*size)], _some(align_corners=corners), const=const)


@sweep("RoiAlign")
def roi_align(c, op, v):
    x = data(1, 2, 6, 6)
    rois = np.array([[0, 0, 4, 4], [1, 2, 5, 3.5], [-1, -1, 9, 9]], F)
    base = {"output_height": 2, "output_width": 3}
    for mode in (None, "avg", "max"):
        for ratio in (None, 0, 1, 2):
            yield c([x, rois, ints(0, 0, 0)], {**base, **_some(mode=mode, sampling_ratio=ratio)},
                    const=(1, 2))
    yield c([x, rois, ints(0, 0, 0)])
    yield c([x, rois, ints(0, 0, 0)], base, unknown=True)
    yield c([x, rois, ints(0, 0, 0)], {**base, "spatial_scale": 0.5, "sampling_ratio": 2},
            unknown=True)
    if v >= 16:
        for how in ("half_pixel", "output_half_pixel"):
            yield c([x, rois, ints(0, 0, 0)], {**base, "coordinate_transformation_mode": how,
                                               "sampling_ratio": 2})


@sweep("NonMaxSuppression")
def non_max_suppression(c, op, v):
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11],
                       [1, 1.1, 0, 0.1],
                       [0, 100, 1, 101]]], F)
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]], F)
    yield c([boxes, scores])
    for most in (0, 1, 3):
        for overlap in (None, 0.0, 0.5, 1.0):
            for least in (None, 0.4):
                inputs = [boxes, scores, ints(most),
                          None if overlap is None else np.array([overlap], F),
                          None if least is None else np.array([least], F)]
                yield c(inputs, const=(2, 3, 4) if most == 3 else ())
    centred = np.array([[[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.5, 10, 1, 1]]], F)
    yield c([centred, scores[:, :, :3].copy(), ints(3), np.array([0.5], F)],
            {"center_point_box": 1})
    yield c([boxes, scores, ints(3), np.array([0.5], F)], unknown=True)
    yield c([boxes[:, :0].copy(), scores[:, :, :0].copy(), ints(3)])


# signals
@sweep("HannWindow", "HammingWindow", "BlackmanWindow")
def window(c, op, v):
    for size in (1, 2, 5, 8):
        for periodic in (None, 0, 1):
            yield c([np.array(size, np.int64)], _some(periodic=periodic),
                    const=(0,) if periodic else (), tolerance=4)
    for number in (1, 11):
        yield c([np.array(6, np.int32)], {"output_datatype": number}, tolerance=4)


@sweep("DFT")
def dft(c, op, v):
    for parts in (1, 2):
        for inverse in (0, 1):
            for one in (0, 1):
                for axis in (None, 1, -2):
                    for length in (None, 4, 8):
                        if inverse and one or parts == 2 and one:
                            continue
                        attributes = {"inverse": inverse, "onesided": one}
                        inputs = [data(1, 6, parts), None if length is None else np.array(length)]
                        if v < 20:
                            attributes.update(_some(axis=axis))
                        else:
                            inputs.append(None if axis is None else np.array(axis))
                        while inputs[-1] is None:
                            inputs.pop()
                        yield c(inputs, attributes, const=(1, 2), tolerance=10,
                                unknown=parts == 2 and length is None)


@sweep("STFT")
def stft(c, op, v):
    for one in (None, 0, 1):
        for step in (2, 4):
            x = data(1, 16, 1)
            yield c([x, np.array(step), data(8, low=0.1)], _some(onesided=one), const=(1, 2),
                    tolerance=10)
            yield c([x, np.array(step), data(8, low=0.1)], _some(onesided=one), const=(1, 2),
                    tolerance=10, unknown=True)
            yield c([x, np.array(step), None, np.array(8)], _some(onesided=one), const=(1, 3),
                    tolerance=10)
            yield c([x, np.array(step), data(8, low=0.1), np.array(8)], _some(onesided=one),
                    const=(1, 2, 3), tolerance=10)


@sweep("MelWeightMatrix")
def mel_weight_matrix(c, op, v):
    for bins, length, rate, low, high in ((4, 16, 8000, 0, 4000), (3, 32, 16000, 100, 8000),
                                          (8, 16, 8192, 0, 4096)):
        numbers = [np.array(bins), np.array(length), np.array(rate), np.float32(low),
                   np.float32(high)]
        yield c(numbers, const="all", tolerance=10)
        yield c(numbers, tolerance=10)
        yield c(numbers, {"output_datatype": 11}, const="all")


# attention
@sweep("Attention")
def attention(c, op, v):
    q, k, w = data(2, 3, 4, 2, low=-1, high=1), data(2, 3, 5, 2, seed=2), data(2, 3, 5, 2, seed=3)
    for attributes in ({}, {"is_causal": 1}, {"scale": 0.1}, {"scale": 0.0}, {"softcap": 2.0},
                       {"softcap": 0.0},
                       {"is_causal": 1, "softcap": 1.0}):
        yield c([q, k, w], attributes, tolerance=4)
        yield c([q, k, w, data(4, 5, seed=7)], attributes, tolerance=4)
        yield c([q, k, w, data(4, 5, dtype=bool, seed=7)], attributes, unknown=True, tolerance=4)
    for mode in (0, 1, 2, 3):
        yield c([q, k, w, data(4, 7, seed=7), data(2, 3, 2, 2), data(2, 3, 2, 2)], {
            "qk_matmul_output_mode": mode, "softcap": 3.0}, outputs=4, tolerance=4)
    flat = [data(2, 4, 6, low=-1, high=1), data(2, 5, 6, seed=2), data(2, 5, 6, seed=3)]
    yield c(flat, {"q_num_heads": 3, "kv_num_heads": 3}, tolerance=4)
    yield c([data(2, 4, 8), data(2, 5, 4), data(2, 5, 4)], {"q_num_heads": 4, "kv_num_heads": 2},
            tolerance=4)


@sweep("RotaryEmbedding")
def rotary_embedding(c, op, v):
    for interleaved in (0, 1):
        for turned in (0, 2):
            half = (turned or 4) // 2
            attributes = {"interleaved": interleaved, "rotary_embedding_dim": turned}
            yield c([data(2, 3, 2, 4), data(2, 2, half), data(2, 2, half, seed=3)], attributes)
            yield c([data(2, 3, 2, 4), data(5, half), data(5, half, seed=3),
                     np.array([[0, 4], [2, 1]])], attributes)
            yield c([data(2, 2, 12), data(2, 2, half), data(2, 2, half, seed=3)],
                    {**attributes, "num_heads": 3})


@sweep("LinearAttention")
def linear_attention(c, op, v):
    for rule in ("linear", "gated", "delta", "gated_delta"):
        q = data(1, 3, 4, low=-1, high=1)
        inputs = [q, data(1, 3, 4, seed=2, low=-1, high=1), data(1, 3, 4, seed=3),
                  data(1, 2, 2, 2, seed=4),
                  data(1, 3, 4, seed=5, low=-1, high=0) if "gated" in rule else None,
                  data(1, 3, 2, seed=6, low=0, high=1) if "delta" in rule else None]
        yield c(inputs, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule}, outputs=2,
                tolerance=4)
        yield c(inputs, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule, "scale": 0.5},
                outputs=2, tolerance=4)


@sweep("CausalConvWithState")
def causal_conv(c, op, v):
    for activation in (None, "none", "silu"):
        x, w = data(1, 2, 5), data(2, 1, 3, seed=2)
        yield c([x, w], _some(activation=activation), outputs=2)
        yield c([x, w, data(2, seed=3), data(1, 2, 2, seed=4)], _some(activation=activation),
                outputs=2)


# losses
@sweep("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def losses(c, op, v):
    for how in (None, "none", "sum", "mean"):
        for ignored in (None, 1, -1, 99):
            for weights in (None, data(3, seed=2, low=0.1)):
                for shape in ((4, 3), (2, 3, 2)):
                    target = np.arange(int(np.prod(shape)) // 3).reshape(shape[0], *shape[2:]) % 3
                    if ignored is not None and ignored not in (0, 1, 2):
                        target = target.copy()
                        target.flat[0] = ignored
                    yield c([data(*shape), target.astype(np.int64),
                             *([] if weights is None else [weights])],
                            _some(reduction=how, ignore_index=ignored), const=(2,))
    yield c([data(4, 3), np.ones(4, np.int64)], {"ignore_index": 1})
    yield c([data(4, 3), np.ones(4, np.int64)], {"ignore_index": 1, "reduction": "sum"})
    yield c([data(4, 3), ints(0, 1, 2, 0)], unknown=True)
    if op[0] == "S":
        yield c([data(4, 3), ints(0, 1, 2, 0)], outputs=2)


# control flow
def _branch(op, value):
    return graph([node("Constant", [], ["k" + op], {"value": value}), node(op, ["k" + op], ["r"])],
                 (), [("r",)])


@sweep("If")
def branches(c, op, v):
    for flag in (np.array(True), np.array(False), np.array([True])):
        for const in ((0,), ()):
            yield c([flag], {"then_branch": _branch("Neg", data(2, 3)),
                             "else_branch": _branch("Abs", data(2, 3, seed=3))},
                    const=const)
            yield c([flag], {"then_branch": _branch("Neg", data(2, 3)),
                             "else_branch": _branch("Abs", data(3, seed=3))},
                    const=const)


@sweep("Loop")
def loops(c, op, v):
    body = graph([node("Add", ["s", "s"], ["s2"]), node("Identity", ["go"], ["go2"]),
                  node("Cast", ["i"], ["f"], {"to": 1}),
                  node("Mul", ["s2", "f"], ["out"])],
                 [("i", np.int64, ()), ("go", bool, ()), ("s", F, (2,))],
                 [("go2", bool, ()), ("s2", F, (2,)), ("out", F, (2,))])
    for trips in (0, 1, 4):
        for go in (True, False):
            for const in ((0, 1), ()):
                yield c([np.array(trips), np.array(go), data(2)], {"body": body}, outputs=2,
                        const=const)
    grows = graph([node("Concat", ["s", "s"], ["s2"], {"axis": 0}),
                   node("Identity", ["go"], ["go2"])],
                  [("i", np.int64, ()), ("go", bool, ()), ("s", F, ("n",))],
                  [("go2", bool, ()), ("s2", F, ("m",))])
    yield c([np.array(2), np.array(True), data(2)], {"body": grows})
    yield c([np.array(2), None, data(2)], {"body": grows})
    stops = graph([node("Add", ["s", "s"], ["s2"]), node("ReduceSum", ["s2"], ["t"],
                                                         {"keepdims": 0}),
                   node("Constant", [], ["k"], {"value": np.array(50, F)}),
                   node("Less", ["t", "k"], ["go2"])],
                  [("i", np.int64, ()), ("go", bool, ()), ("s", F, (2,))],
                  [("go2", bool, ()), ("s2", F, (2,))])
    yield c([None, np.array(True), data(2, low=1)], {"body": stops})
    yield c([np.array(3), np.array(True), data(2, low=1)], {"body": stops})


@sweep("Scan")
def scans(c, op, v):
    body = graph([node("Add", ["s", "x"], ["s2"]), node("Mul", ["s2", "x"], ["out"])],
                 [("s", F, (2,)), ("x", F, (2,))], [("s2", F, (2,)), ("out", F, (2,))])
    if v == 8:
        yield c([None, data(2, 2), data(2, 3, 2)], {"body": body, "num_scan_inputs": 1}, outputs=2)
        yield c([None, data(2, 2), data(2, 3, 2)], {"body": body, "num_scan_inputs": 1,
                                                    "directions": [1]}, outputs=2)
        yield c([ints(1, 3), data(2, 2), data(2, 3, 2)], {"body": body, "num_scan_inputs": 1},
                outputs=2)
        return
    for into in (None, 0, 1, -1):
        for out in (None, 1, -1):
            for back in (None, 1):
                x = data(2, 3) if into in (1, -1) else data(3, 2)
                yield c([data(2), x], {"body": body, "num_scan_inputs": 1, **_some(
                    scan_input_axes=None if into is None else [into],
                    scan_output_axes=None if out is None else [out],
                    scan_input_directions=None if back is None else [back],
                    scan_output_directions=None if back is None else [back])}, outputs=2,
                    unknown=back == 1)
    yield c([data(2), data(0, 2)], {"body": body, "num_scan_inputs": 1}, outputs=2)


@sweep("OptionalHasElement", "OptionalGetElement")
def optional(c, op, v):
    if v >= 18:
        yield c([data(2, 3)])
        yield c([data(2, 3, dtype=np.int64)], unknown=True)
