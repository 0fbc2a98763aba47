"""Element types of tensors: `DType`, the constants `float32`, `int64`, ..., and `as_dtype`.

Invariants:
1. One `DType` object exists per number, so `is` compares types and a DType is a cheap dict key.
2. Numbers are TensorFlow's DataType (and kernel.h's `PF_*`); reference types are number + 100.
3. `ml_dtypes` (bfloat16, float8, int4) is imported only when a NumPy type of that kind is asked
   for.

Everything here is immutable and safe to use from any thread.

    >>> as_dtype("float32") is float32, as_dtype(np.int64).size, float32._as_ref.name
    (True, 8, 'float32_ref')
"""

import builtins

import numpy as np

from pyflow.framework import late_text

_REF_OFFSET = 100


class DType:
    """The type of a tensor's elements (TF 1.x `tf.DType`).

    tf.float32, tf.int64, tf.bool, tf.string and the others: each is one object.

        >>> tf.float32.name, tf.float32.size, tf.float32.is_floating
        ('float32', 4, True)
        >>> tf.as_dtype("int64") is tf.int64
        True
    """

    __slots__ = ("_number", "name", "size", "_kind", "_np", "base_dtype", "_as_ref", "is_floating",
                 "is_integer", "is_complex", "is_bool", "is_quantized", "is_unsigned")

    def __new__(cls, type_enum):
        """The type of a DataType number, an int; TypeError for a number that is none."""
        return as_dtype(type_enum)

    @classmethod
    def _made(cls, number, name, size, kind, np_type):
        self = object.__new__(cls)
        self._number = number
        self.name = name
        self.size = size
        self._kind = kind
        self._np = np_type
        self.base_dtype = self
        self._as_ref = self
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_complex = kind == "c"
        self.is_bool = kind == "b"
        self.is_quantized = kind == "q"
        self.is_unsigned = kind == "u"
        return self

    @property
    def as_datatype_enum(self):
        """TensorFlow's DataType number."""
        return self._number

    @property
    def as_numpy_dtype(self):
        """The NumPy type that holds such elements (`object` for strings)."""
        np_type = self._np
        if isinstance(np_type, str):
            np_type = self._np = _load_ml_dtype(np_type)
            if self.base_dtype is not self:
                self.base_dtype._np = np_type
        if np_type is None:
            raise TypeError(f"{self.name} has no NumPy counterpart")
        return np_type

    @property
    def is_numpy_compatible(self):
        """True if NumPy has a dtype for it: false for resource and variant."""
        return self._np is not None

    @property
    def _is_ref_dtype(self):
        return self._number > _REF_OFFSET

    @property
    def real_dtype(self):
        """float32 for complex64, float64 for complex128, otherwise the type itself (base type)."""
        return {8: float32, 18: float64}.get(self.base_dtype._number, self)

    @property
    def limits(self):
        """(smallest, largest) finite value, as `tf.DType.limits`."""
        return self.min, self.max

    @property
    def min(self):
        """Smallest finite value; TypeError for types that are not ordered numbers."""
        return self._limit("min")

    @property
    def max(self):
        """Largest finite value; TypeError for types that are not ordered numbers."""
        return self._limit("max")

    def _limit(self, which):
        if self._kind == "f":
            if self.base_dtype._number in (1, 2, 19):
                return getattr(np.finfo(self.as_numpy_dtype), which)
            import ml_dtypes
            return getattr(ml_dtypes.finfo(self.as_numpy_dtype), which)
        if self._kind in "iu":
            if self.name.startswith(("int4", "uint4")):
                return {"int4": (-8, 7), "uint4": (0, 15)}[self.base_dtype.name][which == "max"]
            return getattr(np.iinfo(self.as_numpy_dtype), which)
        if self._kind == "b":
            return which == "max"
        if self._kind == "q":
            return getattr(np.iinfo(self.as_numpy_dtype[0]), which)
        raise TypeError(f"Cannot find {which}imum value of {self!r}: it is not an ordered number")

    def is_compatible_with(self, other):
        """True if a tensor of type `other` may be used where this type is expected."""
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other):
        if self is other:
            return True
        if other is None or isinstance(other, DType):
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return self._number

    def __int__(self):
        return self._number

    def __repr__(self):
        return f"tf.{self.name}"

    def __str__(self):
        return f"<dtype: {self.name!r}>"

    def __reduce__(self):
        return as_dtype, (self.name,)


def _load_ml_dtype(name):
    import ml_dtypes
    return getattr(ml_dtypes, name)


def _quantized(name, np_type):
    return np.dtype([(name, np_type)])


# name, number, bytes, kind, NumPy type (a string: the name in ml_dtypes)
_TABLE = (
    ("float32", 1, 4, "f", np.float32),
    ("float64", 2, 8, "f", np.float64),
    ("int32", 3, 4, "i", np.int32),
    ("uint8", 4, 1, "u", np.uint8),
    ("int16", 5, 2, "i", np.int16),
    ("int8", 6, 1, "i", np.int8),
    ("string", 7, 1, "s", np.object_),
    ("complex64", 8, 8, "c", np.complex64),
    ("int64", 9, 8, "i", np.int64),
    ("bool", 10, 1, "b", np.bool_),
    ("qint8", 11, 1, "q", _quantized("qint8", np.int8)),
    ("quint8", 12, 1, "q", _quantized("quint8", np.uint8)),
    ("qint32", 13, 4, "q", _quantized("qint32", np.int32)),
    ("bfloat16", 14, 2, "f", "bfloat16"),
    ("qint16", 15, 2, "q", _quantized("qint16", np.int16)),
    ("quint16", 16, 2, "q", _quantized("quint16", np.uint16)),
    ("uint16", 17, 2, "u", np.uint16),
    ("complex128", 18, 16, "c", np.complex128),
    ("float16", 19, 2, "f", np.float16),
    ("resource", 20, 1, "o", np.dtype([("resource", np.uint8)])),
    ("variant", 21, 1, "o", None),
    ("uint32", 22, 4, "u", np.uint32),
    ("uint64", 23, 8, "u", np.uint64),
    ("float8_e5m2", 24, 1, "f", "float8_e5m2"),
    ("float8_e4m3fn", 25, 1, "f", "float8_e4m3fn"),
    ("int4", 29, 1, "i", "int4"),
    ("uint4", 30, 1, "u", "uint4"),
)

_BY_NAME = {}
_BY_NUMBER = {}
_BY_NUMPY = {}
_ML_DTYPE_NAMES = set()


def _build_table():
    for name, number, size, kind, np_type in _TABLE:
        base = DType._made(number, name, size, kind, np_type)
        ref = DType._made(number + _REF_OFFSET, name + "_ref", size, kind, np_type)
        ref.base_dtype = base
        base._as_ref = ref._as_ref = ref
        for dtype in (base, ref):
            _BY_NAME[dtype.name] = _BY_NUMBER[dtype._number] = dtype
        if isinstance(np_type, str):
            _ML_DTYPE_NAMES.add(np_type)
        elif np_type is not None:
            _BY_NUMPY[np.dtype(np_type)] = base


_build_table()

float32 = _BY_NAME["float32"]
float64 = double = _BY_NAME["float64"]
float16 = half = _BY_NAME["float16"]
bfloat16 = _BY_NAME["bfloat16"]
int8 = _BY_NAME["int8"]
int16 = _BY_NAME["int16"]
int32 = _BY_NAME["int32"]
int64 = _BY_NAME["int64"]
uint8 = _BY_NAME["uint8"]
uint16 = _BY_NAME["uint16"]
uint32 = _BY_NAME["uint32"]
uint64 = _BY_NAME["uint64"]
bool = _BY_NAME["bool"]  # noqa: A001 - TF's name
string = _BY_NAME["string"]
complex64 = _BY_NAME["complex64"]
complex128 = _BY_NAME["complex128"]
resource = _BY_NAME["resource"]
variant = _BY_NAME["variant"]
qint8 = _BY_NAME["qint8"]
quint8 = _BY_NAME["quint8"]
qint16 = _BY_NAME["qint16"]
quint16 = _BY_NAME["quint16"]
qint32 = _BY_NAME["qint32"]
float8_e5m2 = _BY_NAME["float8_e5m2"]
float8_e4m3fn = _BY_NAME["float8_e4m3fn"]
int4 = _BY_NAME["int4"]
uint4 = _BY_NAME["uint4"]

_BY_NAME.update(half=float16, double=float64, half_ref=float16._as_ref,
                double_ref=float64._as_ref)
_BY_NAME["float"] = float32
_BY_NAME["float_ref"] = float32._as_ref

# How OpDefs and signatures spell the types whose names differ from ours.
_SCHEMA_NAMES = {"float32": "float", "float64": "double", "float16": "half"}

# Sets for `@op(..., T=FLOATS)`.
FLOATS = (float16, bfloat16, float32, float64)
INTS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
COMPLEX = (complex64, complex128)
REAL = FLOATS + INTS
NUMBERS = REAL + COMPLEX
ALL = NUMBERS + (bool, string)
INDEX = (int32, int64)
QUANTIZED = (qint8, quint8, qint16, quint16, qint32)
QUANTIZED_DTYPES = frozenset(QUANTIZED)


def _near(name):
    """The type a misspelt name may mean."""
    import difflib
    if not isinstance(name, str):
        return ""
    close = difflib.get_close_matches(name, [n for n in _BY_NAME if isinstance(n, str)], n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def as_dtype(type_value):
    """The `DType` for a DType, TF type number, type name, or anything NumPy takes as a dtype.

    Raises TypeError for anything else. Python's `float` is float32 and `int` is int64, as in TF
    1.x.
    """
    if isinstance(type_value, DType):
        return type_value
    if type_value is builtins.float:
        return float32
    if type_value is builtins.bool:
        return bool
    try:
        number = isinstance(type_value, (int, float))       # 1.0 is a number of TF, too
        found = (_BY_NUMBER if number else _BY_NAME).get(type_value)
    except TypeError:  # unhashable, such as a structured dtype given as a list
        found = None
    if found is not None:
        return found
    found = None if isinstance(type_value, (int, float)) else _from_numpy(type_value)
    if found is None:
        raise late_text.error(TypeError, lambda: (
            f"Cannot convert value {type_value!r} to a TensorFlow DType.{_near(type_value)}"))
    return found


def _from_numpy(type_value):
    if type_value is None:
        return None
    try:
        np_dtype = np.dtype(type_value)
    except (TypeError, ValueError):
        np_dtype = getattr(type_value, "dtype", None)
        if not isinstance(np_dtype, np.dtype):
            return None
    found = _BY_NUMPY.get(np_dtype)
    if found is None and np_dtype.kind in "SUO":
        return string
    if found is None and np_dtype.name in _ML_DTYPE_NAMES:
        return _BY_NAME[np_dtype.name]
    if found is None and not np_dtype.isnative:
        return _BY_NUMPY.get(np_dtype.newbyteorder("="))
    return found


def schema_name(dtype):
    """`dtype`'s spelling in op signatures and OpDefs: `float`, `double`, `half`, `int32`, ..."""
    return _SCHEMA_NAMES.get(dtype.name, dtype.name)
