"""Cases of ops that shape, join, cut, pick and place, and of texts and random numbers."""
import numpy as np
from sweep_model import D, F, H, data, ints, sweep, texts

KINDS = (D, H, np.int64, np.int32, np.uint8, bool)


# shapes
@sweep("Reshape")
def reshape(c, op, v):
    x = data(2, 3, 4)
    wanted = ([4, 6], [-1], [2, -1], [0, -1], [0, 0, 4], [0, 12], [-1, 0, 2], [3, 0, -1],
              [2, 3, 2, 2],
              [1, 24, 1], [0, 3, -1, 1], [2, 3, 5], [-1, -1])
    for shape in wanted:
        if v < 5:
            yield c([x], {"shape": shape})
            continue
        yield c([x, ints(*shape)], const=(1,))
        yield c([x, ints(*shape)], const=(1,), unknown=True)
        yield c([x, ints(*shape)], unknown=True)
    if v >= 5:
        yield c([np.float32(3), ints()], const=(1,))
        yield c([data(1, 1), ints()])
        yield c([data(0, 3), ints(0, -1)], const=(1,))
        yield c([data(0, 3), ints(3, 0)], const=(1,))
    if v >= 14:
        for shape in ([0, 3], [3, 0], [0, 0], [0, -1], [3, -1]):
            yield c([data(0, 3), ints(*shape)], {"allowzero": 1}, const=(1,))
            yield c([data(0, 3), ints(*shape)], {"allowzero": 1})
    for dtype in KINDS if v >= 5 else ():
        yield c([data(2, 3, dtype=dtype), ints(3, 2)], const=(1,))


@sweep("Flatten")
def flatten(c, op, v):
    for axis in (None, 0, 1, 2, 3, -1, -2, -3, 4):
        yield c([data(2, 3, 4)], {} if axis is None else {"axis": axis})
        yield c([data(2, 3, 4)], {} if axis is None else {"axis": axis}, unknown=True)
    yield c([np.float32(1)], {"axis": 0})
    yield c([data(3)])
    yield c([data(0, 3)])


@sweep("Transpose")
def transpose(c, op, v):
    for perm in (None, [0, 1, 2], [2, 0, 1], [1, 0, 2], [0, 2, 1]):
        yield c([data(2, 3, 4)], {} if perm is None else {"perm": perm}, unknown=perm is not None)
    yield c([np.float32(1)])
    for dtype in KINDS:
        yield c([data(2, 3, dtype=dtype)])


@sweep("Squeeze", "Unsqueeze")
def squeeze(c, op, v):
    shape = (1, 2, 1, 3) if op == "Squeeze" else (2, 3)
    for axes in (None, [0], [-2], [0, 2], [2, 0], [-4], [0, -4], [1], []):
        if axes is None and op == "Unsqueeze":
            continue
        for unknown in (False, True):
            if v < 13:
                yield c([data(*shape)], {} if axes is None else {"axes": axes}, unknown=unknown)
            else:
                inputs = [data(*shape)] + ([] if axes is None else [ints(*axes)])
                yield c(inputs, const=(1,), unknown=unknown)
                if axes is not None:
                    yield c(inputs, unknown=unknown)
    scalar = np.ones((1, 1), F) if op == "Squeeze" else np.float32(1)
    yield c([scalar, ints(0, 1)], const=(1,)) if v >= 13 else c([scalar], {"axes": [0, 1]})


@sweep("Expand")
def expand(c, op, v):
    for have, wanted in (((3, 1), (2, 3, 4)), ((3, 1), (3, 4)), ((3, 1), (1, 1)), ((3,), (2, 1)),
                         ((), (2, 2)),
                         ((2, 3), ()), ((1, 3), (0, 3)), ((2, 3), (2, 1)), ((2, 3), (4, 3))):
        for const in ((1,), ()):
            for unknown in (False, True):
                yield c([data(*have), ints(*wanted)], const=const, unknown=unknown)
    for dtype in KINDS:
        yield c([data(2, 1, dtype=dtype), ints(2, 3)], const=(1,))


@sweep("Shape")
def shape_of(c, op, v):
    for x in (data(2, 3, 4), np.float32(1), data(0, 2)):
        yield c([x])
        yield c([x], unknown=True)
    if v >= 15:
        for start, end in ((0, None), (1, None), (-1, None), (None, -1), (1, 2), (-9, 9), (2, 1),
                           (3, 3)):
            attributes = {k: n for k, n in (("start", start), ("end", end)) if n is not None}
            yield c([data(2, 3, 4)], attributes, unknown=True)


@sweep("Size", "Identity")
def size_of(c, op, v):
    for x in (data(2, 3), np.float32(1), data(0, 2), data(2, dtype=bool), texts("a", "b"),
              data(3, dtype=H)):
        yield c([x])
    yield c([data(2, 3)], unknown=True)


@sweep("ConstantOfShape")
def constant_of_shape(c, op, v):
    for const in ((0,), ()):
        for shape in ((2, 3), (), (0, 2), (1,)):
            yield c([ints(*shape)], const=const)
        for dtype in (F, D, H, np.int64, np.uint8, bool):
            yield c([ints(2)], {"value": np.array([1], dtype)}, const=const)


@sweep("Constant")
def constant(c, op, v):
    for value in (data(2, 3), np.array(1, F), data(2, dtype=np.int64), data(2, dtype=bool),
                  data(2, dtype=H), data(2, dtype=D), data(0, 2)):
        yield c([], {"value": value})
    if v >= 12:
        for name, value in (("value_float", 1.5), ("value_int", -3), ("value_floats", [1.0, 2.0]),
                            ("value_ints", [1, 2]), ("value_string", "ab"),
                            ("value_strings", ["a", "bc"]), ("value_ints", [])):
            yield c([], {name: value})


# joining and cutting
@sweep("Concat")
def concat(c, op, v):
    for axis in (0, 1, -1, -2, 2):
        yield c([data(2, 3), data(2, 3, seed=4)], {"axis": axis}, unknown=axis in (0, -1))
    yield c([data(2, 3), data(2, 3, seed=4)])
    yield c([data(2, 3), data(2, 0), data(2, 1)], {"axis": 1})
    yield c([data(2, 3), data(2, 1)], {"axis": 1}, const=(1,))
    yield c([data(3)], {"axis": 0})
    for dtype in KINDS:
        yield c([data(2, dtype=dtype), data(1, dtype=dtype)], {"axis": 0})
    yield c([texts("a"), texts("b", "c")], {"axis": 0})


@sweep("Split")
def split(c, op, v):
    x = data(6, 4)
    for axis in (None, 0, 1, -1):
        attributes = {} if axis is None else {"axis": axis}
        even = {"num_outputs": 2} if v >= 18 else {}
        yield c([x], {**attributes, **even}, outputs=2)
        yield c([x], {**attributes, **even}, outputs=2, unknown=True)
        parts = [1, 3] if axis in (1, -1) else [2, 4]
        if v == 1 or v >= 13:
            for const in ((1,), ()):
                yield c([x, ints(*parts)], attributes, outputs=2, const=const)
            yield c([x, ints(*parts)], attributes, outputs=2, const=(1,), unknown=True)
        if v < 13:
            yield c([x], {**attributes, "split": parts}, outputs=2)
    if v >= 18:
        for count in (4, 5, 1, 7):
            yield c([x], {"num_outputs": count}, outputs=count)
            yield c([x], {"num_outputs": count}, outputs=count, unknown=True)
        yield c([data(7)], {"num_outputs": 3}, outputs=3)
    if v >= 13:
        yield c([data(3), ints(0, 3)], outputs=2, const=(1,))
        yield c([data(0, 2), ints(0, 0)], outputs=2, const=(1,))
        yield c([data(3), ints(2, 2)], outputs=2, const=(1,))


@sweep("Slice")
def slice_of(c, op, v):
    big = (1 << 63) - 1
    asked = (([1], [3], [0], None), ([0, 1], [2, 3], None, None), ([-2], [big], [1], None),
             ([1], [-1], [-1], None),
             ([0], [0], [0], None), ([5], [9], [0], None), ([-9], [9], [0], None),
             ([3], [1], [0], None))
    stepped = (([0], [4], [0], [2]), ([-1], [-big - 1], [0], [-1]), ([3], [0], [0], [-2]),
               ([-1], [-9], [1], [-1]),
               ([0, 2], [4, 0], [0, 1], [3, -1]), ([9], [-9], [0], [-3]), ([1], [big], [0], [big]),
               ([-9], [9], [1], [-1]), ([0], [big], None, [2]))
    x = data(4, 3)
    for starts, ends, axes, steps in asked + (stepped if v >= 10 else ()):
        if v < 10:
            given = {"starts": starts, "ends": ends, **({} if axes is None else {"axes": axes})}
            yield c([x], given)
            yield c([x], given, unknown=True)
            continue
        parts = [ints(*starts), ints(*ends), None if axes is None else ints(*axes),
                 None if steps is None else ints(*steps)]
        while parts[-1] is None:
            parts.pop()
        yield c([x, *parts], const=(1, 2, 3, 4))
        yield c([x, *parts], const=(1, 2, 3, 4), unknown=True)
        yield c([x, *parts])
        yield c([x, *parts], const=(3, 4), unknown=True)
    if v >= 10:
        narrow = [np.array(n, np.int32) for n in ([1], [3], [0])]
        yield c([x, *narrow], const=(1, 2, 3))
        yield c([data(0, 3), ints(0), ints(2), ints(0)])


@sweep("Tile")
def tile(c, op, v):
    if v < 6:
        yield c([data(2, 3), np.array([2], F), np.array([1], F)], const=(1, 2))
        return
    for repeats in ((2, 1), (1, 3), (0, 2), (1, 1)):
        yield c([data(2, 3), ints(*repeats)], const=(1,))
        yield c([data(2, 3), ints(*repeats)], unknown=True)
    yield c([data(3), ints(2)])
    yield c([np.float32(2), ints()])
    for dtype in KINDS:
        yield c([data(2, dtype=dtype), ints(2)], const=(1,))


@sweep("Range")
def range_of(c, op, v):
    for dtype in (F, D, np.int16, np.int32, np.int64):
        for start, limit, delta in ((0, 5, 1), (1, 10, 3), (5, 0, -2), (3, 3, 1), (5, 0, 1),
                                    (0, 5, -1)):
            yield c([np.array(n, dtype) for n in (start, limit, delta)],
                    const="all" if delta == 3 else ())
    yield c([np.float32(0), np.float32(1), np.float32(0.1)])
    yield c([np.float32(0), np.float32(1), np.float32(0.3)], const="all")


@sweep("EyeLike")
def eye_like(c, op, v):
    for k in (None, 0, 1, -1, 5, -5):
        for shape in ((3, 4), (4, 2)):
            yield c([data(*shape)], {} if k is None else {"k": k}, unknown=shape[0] == 3)
    for number in (1, 6, 7, 10, 11, 9):
        yield c([data(2, 2, dtype=np.int32)], {"dtype": number})


@sweep("Trilu")
def trilu(c, op, v):
    for upper in (None, 0, 1):
        for k in (None, 0, 1, -1, 4, -4):
            inputs = [data(2, 3, 4)] + ([] if k is None else [np.array(k, np.int64)])
            yield c(inputs, {} if upper is None else {"upper": upper}, const=(1,) if k == 1 else ())
    yield c([data(3, 2), ints(1)], unknown=True)
    yield c([data(0, 2)])
    for dtype in KINDS:
        yield c([data(3, 3, dtype=dtype)])


@sweep("OneHot")
def one_hot(c, op, v):
    values = np.array([0.5, 2], F)
    for axis in (None, 0, 1, -1, -2, -3):
        yield c([data(2, 3, dtype=np.int64, low=0), np.array(4), values],
                {} if axis is None else {"axis": axis}, unknown=axis == 1)
    for indices in (ints(0, 4, -1, -4), ints(-5, 5), ints(9, -9)):
        yield c([indices, np.array(4), values], const=(1, 2))
    yield c([np.array(2), np.array(4), values])
    yield c([ints(1, 2), ints(3), values])
    yield c([ints(), np.array(3), values])
    yield c([np.array([1.0, 2.7], F), np.array(4.0, F), ints(0, 1)])
    yield c([ints(1, 0, dtype=np.int32), np.array(2, np.int32), np.array([False, True])])


@sweep("NonZero")
def non_zero(c, op, v):
    yield c([np.array([[1, 0, np.nan], [0, -0.0, 2]], F)])
    yield c([data(2, 3, dtype=bool)], unknown=True)
    for x in (data(5, dtype=np.int64), data(5, dtype=np.int32), np.zeros((2, 0), F), np.float32(2),
              np.float32(0), np.zeros((2, 2), F)):
        yield c([x])


@sweep("ReverseSequence")
def reverse_sequence(c, op, v):
    yield c([data(4, 3), ints(1, 2, 4)])
    for time, batch in ((0, 1), (1, 0)):
        lengths = ints(1, 2, 4)[:3 if time == 0 else 3]
        shape = (4, 3, 2) if time == 0 else (3, 4, 2)
        yield c([data(*shape), lengths], {"time_axis": time, "batch_axis": batch}, unknown=True)
        yield c([data(*shape, dtype=np.int64), lengths], {"time_axis": time, "batch_axis": batch})


@sweep("DepthToSpace", "SpaceToDepth")
def blocks(c, op, v):
    deep = op == "DepthToSpace"
    for mode in (None, "DCR", "CRD") if deep and v >= 11 or v >= 28 else (None,):
        attributes = {"blocksize": 2, **({} if mode is None else {"mode": mode})}
        shape = (1, 8, 2, 3) if deep else (1, 2, 4, 6)
        yield c([data(*shape)], attributes)
        yield c([data(*shape)], attributes, unknown=True)
        yield c([data(*shape, dtype=D)], attributes)
        yield c([data(*shape)], {**attributes, "blocksize": 1})
    yield c([data(1, 3, 2, 3)], {"blocksize": 2})


@sweep("Compress")
def compress(c, op, v):
    x = data(2, 3)
    for axis in (None, 0, 1, -1):
        for flags in ([True, False], [False, True, True], [True], [False, False]):
            yield c([x, np.array(flags)], {} if axis is None else {"axis": axis},
                    unknown=len(flags) == 2)
    yield c([x, np.array([0, 1, 1, 0, 1], bool)])


@sweep("Unique")
def unique(c, op, v):
    x = np.array([[2, 1, 1], [3, 4, 3], [2, 1, 1]], F)
    for order in (None, 0, 1):
        for axis in (None, 0, 1, -1):
            attributes = {**({} if order is None else {"sorted": order}),
                          **({} if axis is None else {"axis": axis})}
            yield c([x], attributes, outputs=4)
    yield c([ints(5, 5, 2)], outputs=1)
    yield c([data(0)], outputs=4)
    yield c([x], outputs=4, unknown=True)
    yield c([texts("b", "a", "b")], outputs=4)


@sweep("TopK")
def top_k(c, op, v):
    x = data(3, 4)
    ties = np.array([[1, 3, 3, 1], [2, 2, 2, 2]], F)
    for k in (0, 1, 3, 4, 5):
        for axis in (None, 0, 1, -1):
            attributes = {} if axis is None else {"axis": axis}
            if v < 10:
                yield c([x], {**attributes, "k": k}, outputs=2)
                continue
            for const in ((1,), ()):
                yield c([x, ints(k)], attributes, outputs=2, const=const, unknown=axis == 1)
    if v >= 11:
        for largest in (0, 1):
            for order in (1,):
                for t in (ties, np.array([[np.inf, 1, -np.inf, 2]], F), data(2, 4, dtype=np.int64),
                          data(2, 4, dtype=np.int32), data(2, 4, dtype=D)):
                    yield c([t, ints(3)], {"largest": largest, "sorted": order}, outputs=2,
                            const=(1,))
        yield c([data(1, 4), ints(4)], {"largest": 1, "sorted": 0}, outputs=1, const=(1,),
                loose=True)
    for dtype in (np.int8, np.uint8, np.uint64, np.uint32, np.int16) if v >= 11 else ():
        yield c([data(5, dtype=dtype, low=-99, high=99), ints(2)], {"largest": 0}, outputs=2)


# picking and placing
@sweep("Gather")
def gather(c, op, v):
    x = data(3, 4)
    low = 0 if v < 11 else -3
    for axis in (None, 0, 1, -1, -2):
        for indices in (np.array(1), ints(0, 2), ints(low, 1), ints(),
                        np.array([[0, 1], [2, low]])):
            for const in ((1,), ()):
                yield c([x, indices], {} if axis is None else {"axis": axis}, const=const,
                        unknown=axis == 1)
    yield c([x, ints(1, dtype=np.int32)])
    yield c([x, ints(7)])
    yield c([x, ints(7)], const=(1,))
    for dtype in KINDS:
        yield c([data(3, 2, dtype=dtype), ints(2, 0)])
    yield c([texts("a", "b"), ints(1, 0)])


@sweep("GatherElements")
def gather_elements(c, op, v):
    for axis in (None, 0, 1, -1):
        for indices in (np.array([[0, 1], [1, 0]]), np.array([[-1, 0, 1]]),
                        np.zeros((0, 2), np.int64)):
            for const in ((1,), ()):
                yield c([data(2, 3), indices], {} if axis is None else {"axis": axis}, const=const,
                        unknown=axis == 0)
    yield c([data(3), ints(2, 2, 0, dtype=np.int32)])
    for dtype in KINDS:
        yield c([data(3, dtype=dtype), ints(2, 2, 0)])


@sweep("GatherND")
def gather_nd(c, op, v):
    x = data(2, 3, 4)
    for indices in (np.array([[0, 1], [1, -1]]), np.array([[0], [1]]), np.array([[0, 1, 2]]),
                    np.array([1]),
                    np.array([[[1, 0]], [[0, 2]]]), np.zeros((0, 2), np.int64)):
        for const in ((1,), ()):
            yield c([x, indices], const=const)
        yield c([x, indices], const=(1,), unknown=True)
        yield c([x, indices], unknown=True)
    if v >= 12:
        for batch, indices in ((1, np.array([[0], [2]])), (1, np.array([[0, 1], [2, -1]])),
                               (2, np.array([[[0], [1], [2]], [[3], [-1], [0]]])),
                               (0, np.array([[1]]))):
            yield c([x, indices], {"batch_dims": batch}, unknown=batch == 1)
    for dtype in KINDS:
        yield c([data(2, 3, dtype=dtype), np.array([[0, 1]])])


def _reductions(v):
    return (None,) if v < 16 else (None, "none", "add", "mul") if v < 18 else (
        None, "add", "mul", "max", "min")


@sweep("ScatterElements", "Scatter")
def scatter_elements(c, op, v):
    x, updates = data(3, 3), data(2, 3, seed=4)
    indices = np.array([[0, 1, 2], [2, -1 if v >= 11 else 0, 0]])
    for axis in (None, 0, 1, -1):
        for how in _reductions(v):
            attributes = {**({} if axis is None else {"axis": axis}),
                          **({} if how is None else {"reduction": how})}
            yield c([x, indices, updates], attributes, unknown=axis == 1)
    for how in _reductions(v)[1:]:
        for dtype in (np.int32, np.int64, D, H, np.uint8, np.int8):
            yield c([data(4, dtype=dtype), ints(1, 1, 3), data(3, dtype=dtype, seed=2)],
                    {"reduction": how})
    yield c([data(3), np.zeros(0, np.int64), data(0)])
    for dtype in KINDS:
        yield c([data(3, dtype=dtype), ints(2, 0), data(2, dtype=dtype, seed=2)], const=(1,))


@sweep("ScatterND")
def scatter_nd(c, op, v):
    x = data(4, 3)
    for how in _reductions(v):
        attributes = {} if how is None else {"reduction": how}
        repeat = 1 if how in (None, "none") else 3
        yield c([x, np.array([[3], [repeat]]), data(2, 3, seed=5)], attributes)
        yield c([x, np.array([[3], [repeat]]), data(2, 3, seed=5)], attributes, unknown=True)
        yield c([x, np.array([[3, 0], [1, -1]]), data(2, seed=5)], attributes, const=(1,),
                unknown=True)
        yield c([x, np.array([[[3, 0]], [[-4, 1]]]), data(2, 1, seed=5)], attributes)
    yield c([x, np.zeros((0, 1), np.int64), data(0, 3)])
    for dtype in KINDS:
        yield c([data(3, dtype=dtype), np.array([[2], [0]]), data(2, dtype=dtype, seed=2)])


@sweep("TensorScatter")
def tensor_scatter(c, op, v):
    for mode in (None, "linear", "circular"):
        for axis in (None, 1, -2):
            attributes = {**({} if mode is None else {"mode": mode}),
                          **({} if axis is None else {"axis": axis})}
            yield c([data(2, 4, 3), data(2, 2, 3, seed=4), ints(1, 2)], attributes)
            yield c([data(2, 4, 3), data(2, 2, 3, seed=4)], attributes, unknown=True)
    yield c([data(2, 4, 3), data(2, 2, 3, seed=4), ints(3, 2)], {"mode": "circular"})


# pads
@sweep("Pad")
def pad(c, op, v):
    x = data(3, 4)
    modes = (None, "constant", "reflect", "edge") + (("wrap",) if v >= 19 else ())
    for mode in modes:
        attributes = {} if mode is None else {"mode": mode}
        for pads in ([0, 1, 2, 0], [0, 0, 0, 0], [1, 1, 1, 1], [-1, 0, 1, -1], [0, -2, 0, 3],
                     [2, 3, 2, 3]):
            if v < 11:
                yield c([x], {**attributes, ("pads" if v >= 2 else "paddings"): pads, "value": 1.5})
                continue
            for const in ((1, 2), ()):
                yield c([x, ints(*pads), np.float32(1.5)], attributes, const=const,
                        unknown=not const)
            yield c([x, ints(*pads)], attributes, const=(1,), unknown=True)
    if v < 11:
        yield c([x], {("pads" if v >= 2 else "paddings"): [1, 0, 0, 1]})
        return
    if v >= 18:
        for axes in ([0], [1], [-1], [1, 0], []):
            pads = ints(*([1, 2] * len(axes)))
            for const in ((1, 3), ()):
                yield c([x, pads, np.float32(2), ints(*axes)], const=const, unknown=True)
                yield c([x, pads, None, ints(*axes)], {"mode": "edge"}, const=const)
    for dtype in KINDS if v >= 13 else (D,):
        yield c([data(2, dtype=dtype), ints(1, 2), np.array(1, dtype)], const=(1, 2))
        yield c([data(2, dtype=dtype), ints(1, 2)], const=(1,))
    yield c([data(0, 2), ints(1, 0, 1, 0), np.float32(3)], const=(1, 2))
    yield c([np.float32(2), ints()], const=(1,))
    yield c([data(2, 2), ints(1, 0, 1, 0), np.array([4], F)], const=(1, 2))


@sweep("CenterCropPad")
def center_crop_pad(c, op, v):
    for shape in ((5, 2), (2, 6), (3, 4), (4, 3), (6, 7)):
        for const in ((1,), ()):
            yield c([data(3, 4), ints(*shape)], const=const)
        yield c([data(3, 4), ints(*shape)], const=(1,), unknown=True)
    for axes in ([1], [-1], [1, 0], [0]):
        yield c([data(3, 4), ints(*[7, 2][:len(axes)])], {"axes": axes}, const=(1,))


# texts
@sweep("StringConcat")
def string_concat(c, op, v):
    a = texts("a", "", "é", "日本")
    yield c([a, texts("x", "y", "", "z")])
    yield c([a, texts("!")], unknown=True)
    yield c([texts("a", "b", shape=(2, 1)), texts("c", "d")])


@sweep("StringSplit")
def string_split(c, op, v):
    x = texts("a b  c", " lead", "", "one")
    for delimiter in (None, "", " ", "b", ","):
        for most in (None, 0, 1, 2):
            yield c([x], {**({} if delimiter is None else {"delimiter": delimiter}),
                          **({} if most is None else {"maxsplit": most})}, outputs=2)
    yield c([texts("a,b", "c", shape=(2, 1))], {"delimiter": ","}, outputs=2)


@sweep("StringNormalizer")
def string_normalizer(c, op, v):
    x = texts("Monday", "TUESDAY", "wednesday", "Été")
    for action in (None, "NONE", "LOWER", "UPPER"):
        for sensitive in (None, 0, 1):
            for words in (None, ["monday", "TUESDAY"], ["Monday"]):
                yield c([x], {k: a for k, a in (("case_change_action", action),
                                                ("is_case_sensitive", sensitive),
                                                ("stopwords", words)) if a is not None})
    yield c([x.reshape(1, 4)], {"stopwords": ["Monday"], "is_case_sensitive": 1})
    yield c([texts("a", "b")], {"stopwords": ["a", "b"], "is_case_sensitive": 1})
    yield c([texts("a", "b", shape=(1, 2))], {"stopwords": ["a", "b"], "is_case_sensitive": 1})


@sweep("RegexFullMatch")
def regex_full_match(c, op, v):
    x = texts("www.google.com", "abc", "", "aab\n")
    for pattern in (r"www\.[a-z]+\.com", "a*b*c*", "", ".*", "[^a]+", r"\w+", "a|abc", "(?i)ABC"):
        yield c([x], {"pattern": pattern})
    yield c([x.reshape(2, 2)], {"pattern": "a.c"}, unknown=True)


@sweep("TfIdfVectorizer")
def tf_idf(c, op, v):
    base = {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6], "pool_int64s": [
        2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
    x = np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], np.int64)
    for mode in ("TF", "IDF", "TFIDF"):
        for skip in (0, 2):
            for low, high in ((1, 1), (1, 2), (2, 2)):
                for weights in ({}, {"weights": [1.0, 2.0, 0.5, 3.0, 1.5, 1.0, 2.5]}):
                    yield c([x], {**base, **weights, "mode": mode, "max_skip_count": skip,
                                  "min_gram_length": low, "max_gram_length": high})
    yield c([x.reshape(2, 6).astype(np.int32)], {**base, "mode": "TF", "max_skip_count": 1,
                                                 "min_gram_length": 1, "max_gram_length": 2})
    words = {"ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2],
             "pool_strings": ["a", "b", "a", "b"]}
    yield c([texts("a", "b", "a", "c")], {**words, "mode": "TF", "max_skip_count": 0,
                                          "min_gram_length": 1, "max_gram_length": 2})


# random numbers: types and shapes
@sweep("RandomUniform", "RandomNormal")
def random(c, op, v):
    for number in (None, 1, 10, 11):
        yield c([], {"shape": [2, 3], **({} if number is None else {"dtype": number})}, loose=True)
    yield c([], {"shape": [2], "seed": 1.5}, loose=True)
    yield c([], {"shape": []}, loose=True)


@sweep("RandomUniformLike", "RandomNormalLike", "Bernoulli")
def random_like(c, op, v):
    for dtype in (F, D):
        yield c([data(2, 3, dtype=dtype, low=0, high=1)], loose=True, unknown=dtype is F)
    for number in (1, 11):
        yield c([data(2, 3, low=0, high=1)], {"dtype": number}, loose=True)
    if op == "Bernoulli":
        yield c([np.array([0, 1, 1, 0], F)])
        yield c([np.array([0, 1, 1, 0], F)], {"dtype": 7})
        yield c([np.array([0, 1, 1, 0], F)], {"dtype": 9})


@sweep("Multinomial")
def multinomial(c, op, v):
    x = np.array([[-99, 0, -99], [0, -99, -99]], F)
    for attributes in ({}, {"sample_size": 4}, {"dtype": 7}, {"sample_size": 2, "seed": 1.0}):
        yield c([x], attributes)
