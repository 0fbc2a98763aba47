"""Dimension, TensorShape, DType."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import (
    Dimension, TensorShape, as_shape, broadcast_static_shape, unknown_shape)

DIMS = st.one_of(st.none(), st.integers(0, 4))
SHAPES = st.one_of(st.none(), st.lists(DIMS, max_size=4))


class TestDimension:
    def test_arithmetic(self):
        d, q = Dimension(6), Dimension(None)
        assert [(d + 1).value, (d - 2).value, (d * 2).value, (d // 4).value, (d % 4).value] == [7,
                                                                                                4,
                                                                                                12,
                                                                                                1,
                                                                                                2]
        assert [(10 - d).value, (13 // d).value, (1 + d).value] == [4, 2, 7]
        assert (d + q).value is None and (q * 3).value is None
        assert d > 5 and d <= 6 and (q > 1) is None and (d == 6) and (d != 5) and (q == 1) is None
        assert int(d) == 6 and np.zeros(d).shape == (6,) and list(range(10))[d] == 6

    def test_type_error(self):
        with pytest.raises(TypeError):
            Dimension(object())

    def test_text_is_a_number(self):
        """As int() takes it, here as in TensorFlow 1.15."""
        assert Dimension("12") == 12 and Dimension(12) == "12" and (Dimension(None) != "13") is None
        assert TensorShape(["3", "4"]) == [3, 4] == TensorShape(["3", "4"])
        with pytest.raises(ValueError, match="invalid literal"):
            Dimension("a")

    def test_negative_and_unknown(self):
        with pytest.raises(ValueError, match="must be >= 0"):
            Dimension(-1)
        with pytest.raises(TypeError):
            int(Dimension(None))

    def test_merge(self):
        assert Dimension(None).merge_with(3).value == 3
        with pytest.raises(ValueError):
            Dimension(2).merge_with(3)


class TestTensorShape:
    @given(SHAPES)
    def test_round_trips(self, dims):
        shape = TensorShape(dims)
        assert TensorShape(shape.as_proto()) == shape
        assert TensorShape(shape) == shape == as_shape(dims)
        assert pickle.loads(pickle.dumps(shape)) == shape and hash(shape) == hash(TensorShape(dims))
        if dims is not None:
            assert shape.as_list() == dims and len(shape) == len(dims) == shape.ndims
            assert TensorShape([Dimension(d) for d in dims]) == shape

    @given(SHAPES, SHAPES)
    def test_merge_is_the_meet(self, a, b):
        a, b = TensorShape(a), TensorShape(b)
        assert a.is_compatible_with(b) == b.is_compatible_with(a)
        if not a.is_compatible_with(b):
            with pytest.raises(ValueError, match="not compatible"):
                a.merge_with(b)
            return
        merged = a.merge_with(b)
        assert merged == b.merge_with(a) == merged.merge_with(a).merge_with(b)
        assert a.most_specific_compatible_shape(merged) == a or a.ndims is None

    @given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4))
    def test_broadcast_is_numpys(self, a, b):
        try:
            wanted = list(np.broadcast_shapes(tuple(a), tuple(b)))
        except ValueError:
            with pytest.raises(ValueError, match="Incompatible shapes for broadcasting"):
                broadcast_static_shape(a, b)
        else:
            assert broadcast_static_shape(a, b).as_list() == wanted

    @given(st.lists(DIMS, max_size=4), st.lists(DIMS, max_size=4), st.data())
    def test_partial_broadcast_is_sound(self, a, b, data):
        """Whatever the unknown sizes turn out to be, the result fits the static one."""
        full_a = [data.draw(st.integers(0, 3)) if d is None else d for d in a]
        full_b = [data.draw(st.integers(0, 3)) if d is None else d for d in b]
        try:
            real = np.broadcast_shapes(tuple(full_a), tuple(full_b))
        except ValueError:
            return
        assert broadcast_static_shape(a, b).is_compatible_with(list(real))

    def test_indexing(self):
        shape = TensorShape([None, 3, 4])
        assert shape[1] == 3 and shape[0].value is None and shape[1:] == TensorShape([3, 4])
        assert [d.value for d in shape] == [None, 3, 4]
        unknown = TensorShape(None)
        assert unknown[2].value is None and unknown[1:3].ndims == 2 and unknown[:].ndims is None
        assert (shape + [5]).as_list() == [None, 3, 4, 5] and ([5] + shape).ndims == 4

    def test_ranks(self):
        assert unknown_shape(2).as_list() == [None, None]
        assert TensorShape(None).with_rank(1).as_list() == [None]
        shape = TensorShape([2, 3])
        assert shape.with_rank_at_least(1) is shape is shape.with_rank_at_most(2)
        for call in (lambda: shape.with_rank(3), lambda: shape.with_rank_at_least(3),
                     lambda: shape.with_rank_at_most(1), lambda: shape.assert_has_rank(0),
                     lambda: shape.assert_same_rank([1]),
                     lambda: TensorShape([None]).assert_is_fully_defined(),
                     lambda: TensorShape(None).as_list(), lambda: len(TensorShape(None)),
                     lambda: shape.assert_is_compatible_with([2, 4])):
            with pytest.raises(ValueError):
                call()

    def test_num_elements_and_text(self):
        assert TensorShape([2, 3]).num_elements() == 6 and TensorShape([]).num_elements() == 1
        assert TensorShape([2, None]).num_elements() is None is TensorShape(None).num_elements()
        assert [str(TensorShape(s)) for s in (None, [], [1], [None, 2])] == [
            "<unknown>", "()", "(1,)", "(?, 2)"]
        assert repr(TensorShape([None])) == "TensorShape([Dimension(None)])"
        assert not TensorShape(None) and TensorShape([])

    @pytest.mark.parametrize("bad", ["abc", [1.5], [-2], [[1]], {"a": 1}, object()])
    def test_malformed(self, bad):
        with pytest.raises((TypeError, ValueError)):
            TensorShape(bad)

    def test_equality_with_other_things(self):
        assert TensorShape([1, 2]) == [1, 2] == TensorShape((1, 2)) and TensorShape([1]) != "abc"


class TestDType:
    def test_numbers_are_tensorflows(self):
        numbers = {d.name: d.as_datatype_enum for d in dtypes.ALL}
        assert numbers == {
            "float16": 19, "bfloat16": 14, "float32": 1, "float64": 2, "int8": 6, "int16": 5,
            "int32": 3,
            "int64": 9, "uint8": 4, "uint16": 17, "uint32": 22, "uint64": 23, "complex64": 8,
            "complex128": 18, "bool": 10, "string": 7}
        assert dtypes.float32._as_ref.as_datatype_enum == 101

    @pytest.mark.parametrize("text,dtype", [
        ("float", dtypes.float32), ("half", dtypes.float16), ("double", dtypes.float64),
        (np.int8, dtypes.int8),
        (np.dtype("S3"), dtypes.string), (np.str_, dtypes.string), (object, dtypes.string),
        (float, dtypes.float32), (bool, dtypes.bool), (int, dtypes.int64), (9, dtypes.int64),
        (np.dtype(">f4"), dtypes.float32), (dtypes.int8, dtypes.int8),
        (101, dtypes.float32._as_ref)])
    def test_as_dtype(self, text, dtype):
        assert dtypes.as_dtype(text) is dtype

    @pytest.mark.parametrize("bad", [None, "floaty", 99, [], {}, 1.5, "datetime64[s]", object()])
    def test_not_a_dtype(self, bad):
        with pytest.raises(TypeError, match="Cannot convert value"):
            dtypes.as_dtype(bad)

    def test_sizes_match_numpy(self):
        for dtype in dtypes.ALL + dtypes.QUANTIZED:
            if dtype is not dtypes.string:
                assert np.dtype(dtype.as_numpy_dtype).itemsize == dtype.size, dtype

    def test_numpy_round_trip(self):
        for dtype in dtypes.ALL + dtypes.QUANTIZED + (dtypes.float8_e5m2, dtypes.int4):
            assert dtypes.as_dtype(dtype.as_numpy_dtype) is dtype

    def test_limits(self):
        assert dtypes.int8.limits == (-128, 127) and dtypes.uint64.max == 2**64 - 1
        assert dtypes.float32.max == np.finfo(np.float32).max and float(dtypes.bfloat16.max) > 3e38
        assert dtypes.bool.limits == (False, True) and dtypes.int4.limits == (-8, 7)
        for dtype in (dtypes.string, dtypes.complex64, dtypes.resource):
            with pytest.raises(TypeError):
                dtype.max

    def test_references(self):
        ref = dtypes.float32._as_ref
        assert ref.base_dtype is dtypes.float32 and ref._is_ref_dtype and ref.name == "float32_ref"
        assert dtypes.float32.is_compatible_with(ref) and not ref.is_compatible_with(dtypes.float32)
        assert ref != dtypes.float32 and ref.is_floating

    def test_equality(self):
        assert dtypes.float32 == "float32" == dtypes.float32 and dtypes.float32 == np.float32
        assert dtypes.float32 != "nonsense"
        assert dtypes.float32 != None  # noqa: E711 - the operator is tested
        assert {dtypes.float32: 1}[dtypes.as_dtype("float")] == 1
        assert pickle.loads(pickle.dumps(dtypes.int32)) is dtypes.int32

    def test_properties(self):
        assert dtypes.complex64.real_dtype is dtypes.float32
        assert dtypes.int32.real_dtype is dtypes.int32
        assert dtypes.uint8.is_unsigned and dtypes.uint8.is_integer and not dtypes.bool.is_integer
        assert dtypes.quint8.is_quantized and not dtypes.quint8.is_integer
        assert repr(dtypes.float32) == "tf.float32" and str(dtypes.float32) == "<dtype: 'float32'>"
