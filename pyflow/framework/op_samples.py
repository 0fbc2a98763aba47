"""Sample inputs of an op: `S(...)` in an `@op` block, from which value, shape and gradient tests
come.

An input is described by a shape tuple (normal numbers), `pos(shape)`, `unit(shape)`, `ints(shape,
lo, hi)`, `bools(shape)`, `lit(value, dtype)`, `strs([...])`, or a list of these for a list input.

Invariant: arrays depend only on the sample, the types chosen and the seed.

    samples = [S((2, 3), (3, 4)), S(pos((5,)), axis=0, types=FLOATS)]
    arrays = samples[0].arrays(MatMul, {"T": float32})
"""

import numpy as np

from pyflow.framework import dtypes


class _Input:
    """How to make one input array. `make(rng, dtype)`; dtype is a DType the input must have."""

    def __init__(self, text, make):
        self._text = text
        self.make = make

    def __repr__(self):
        return self._text if isinstance(self._text, str) else self._text()


def _as(array, dtype):
    return np.asarray(array).astype(dtype.as_numpy_dtype)


def _draw(rng, shape, dtype, real, lo, hi):
    """Numbers from `real(rng)` for floats and complex, integers in [lo, hi) otherwise."""
    if dtype.is_complex:
        return _as(real(rng) + 1j * real(rng), dtype)
    if dtype.is_floating:
        return _as(real(rng), dtype)
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype is dtypes.string:
        return np.array([b"s%d" % i for i in rng.integers(0, 100, int(np.prod(shape)))],
                        dtype=object).reshape(shape)
    return _as(rng.integers(0 if dtype.is_unsigned else lo, hi, shape), dtype)


def normal(shape):
    """Normal numbers; integers in [-5, 5]; what a bare shape tuple means."""
    shape = tuple(shape)
    return _Input(repr(shape), lambda rng, dtype: _draw(
        rng, shape, dtype, lambda r: r.standard_normal(shape), -5, 6))


def pos(shape):
    """Positive numbers in [0.5, 2.5); integers in [1, 6]."""
    shape = tuple(shape)

    def make(rng, dtype):
        if dtype.is_integer:
            return _as(rng.integers(1, 7, shape), dtype)
        return _draw(rng, shape, dtype, lambda r: r.uniform(0.5, 2.5, shape), 1, 7)
    return _Input(f"pos({shape})", make)


def unit(shape):
    """Numbers strictly inside (-1, 1), at most 0.9 in size."""
    shape = tuple(shape)
    return _Input(f"unit({shape})", lambda rng, dtype: _draw(
        rng, shape, dtype, lambda r: r.uniform(-0.9, 0.9, shape), 0, 1))


def ints(shape, lo, hi):
    """Whole numbers in [lo, hi), whatever the type."""
    shape = tuple(shape)
    return _Input(f"ints({shape}, {lo}, {hi})",
                  lambda rng, dtype: _as(rng.integers(lo, hi, shape), dtype))


def bools(shape):
    """Truth values."""
    shape = tuple(shape)
    return _Input(f"bools({shape})", lambda rng, dtype: _as(rng.integers(0, 2, shape), dtype))


def lit(value, dtype=None):
    """This value, or what it returns, called when it is needed; with `dtype`, of that type whatever
    the op's type attribute says."""
    def given():
        return value() if callable(value) else value

    def make(rng, wanted):
        chosen = dtypes.as_dtype(dtype) if dtype is not None else wanted
        if chosen is dtypes.string:
            return np.array(given(), dtype=object)
        return np.array(given()).astype(chosen.as_numpy_dtype)
    spec = _Input(lambda: f"lit({given()!r})", make)
    spec.dtype = None if dtype is None else dtypes.as_dtype(dtype)
    return spec


def strs(value):
    """These strings (str or bytes, nested lists), as bytes."""
    array = np.array(value, dtype=object)
    for index in np.ndindex(array.shape):
        item = array[index]
        array[index] = item.encode() if isinstance(item, str) else item
    spec = _Input(f"strs({value!r})", lambda rng, dtype: array.copy())
    spec.dtype = dtypes.string
    return spec


def _spec(value):
    if isinstance(value, _Input):
        return value
    if isinstance(value, list):
        return [_spec(v) for v in value]
    if isinstance(value, tuple):
        return normal(value)
    raise TypeError(f"S: {value!r} is no input spec; give a shape tuple, pos(...), unit(...), "
                    f"ints(...), bools(...), lit(...), strs(...) or a list of these")


class S:
    """One sample: input specs and attributes. `types=` narrows the types it is tried with."""

    def __init__(self, *inputs, types=None, **attrs):
        for value in inputs:
            if not isinstance(value, (tuple, list, _Input)):
                _spec(value)                            # raises
        self._given, self._inputs = inputs, None        # thousands are made when pyflow is imported
        self.attrs = attrs
        self.types = None if types is None else tuple(dtypes.as_dtype(t) for t in types)

    @property
    def inputs(self):
        """The specs of the inputs.  TypeError for what is none."""
        if self._inputs is None:
            self._inputs = [_spec(value) for value in self._given]
        return self._inputs

    def arrays(self, op_def, types=None, seed=0):
        """The input arrays (lists for list inputs) with type attributes chosen by `types`.

        types: {attr name: DType}, or {attr name: [DType, ...]} for list(type) attributes.
        """
        if len(self.inputs) != len(op_def.inputs):
            raise ValueError(f"{op_def.name}: {self!r} gives {len(self.inputs)} inputs, the op has "
                             f"{len(op_def.inputs)}: {', '.join(a.name for a in op_def.inputs)}")
        rng = np.random.default_rng(seed)
        made = []
        for arg, spec in zip(op_def.inputs, self.inputs):
            dtype = arg.dtype or (types or {}).get(arg.type_attr or arg.type_list_attr)
            if isinstance(spec, list):
                each = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(spec)
                made.append([s.make(rng, _known(s, t)) for s, t in zip(spec, each)])
            else:
                made.append(spec.make(rng, _known(spec, dtype)))
        return made

    def __repr__(self):
        parts = [repr(i) for i in self.inputs] + [f"{k}={v!r}" for k, v in self.attrs.items()]
        return f"S({', '.join(parts)})"


def _known(spec, dtype):
    return dtype if dtype is not None else getattr(spec, "dtype", None) or dtypes.float32
