"""Conversion registry, sparse values, gradient registry, static values."""

import numpy as np
import pytest

import pyflow.ops  # noqa: F401 - registers ops
from pyflow.framework import convert, dtypes, gradient_registry, graph as ops
from pyflow.framework.op import find_op, get_op, registered_ops
from pyflow.framework.tensor_shape import Dimension, TensorShape
from pyflow.framework.tensor_util import constant_value, constant_value_as_shape


@pytest.fixture
def registry(monkeypatch):
    registered_ops()            # conversions that modules bring go to the real registry
    monkeypatch.setattr(convert, "_registry", list(convert._registry))
    monkeypatch.setattr(convert, "_by_type", {})
    return convert


class Thing:
    def __init__(self, value):
        self.value = value


class TestConversion:
    def test_tensors_pass_through(self, graph):
        c = ops.constant(1.0)
        assert ops.convert_to_tensor(c) is c is ops.convert_to_tensor(c, dtypes.float32)
        with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype float32"):
            ops.convert_to_tensor(c, dtypes.int32)

    def test_preferred_dtype_is_a_preference(self, graph):
        assert ops.convert_to_tensor(1, preferred_dtype=dtypes.int64).dtype is dtypes.int64
        assert ops.convert_to_tensor(1.5, preferred_dtype=dtypes.int64).dtype is dtypes.float32

    def test_shapes_and_dimensions(self, graph):
        assert constant_value(ops.convert_to_tensor(TensorShape([2, 3]))).tolist() == [2, 3]
        assert ops.convert_to_tensor(Dimension(2**40)).dtype is dtypes.int64
        assert ops.convert_to_tensor(TensorShape([]), dtypes.int64).shape == [0]
        for bad in (TensorShape([None]), TensorShape(None), Dimension(None)):
            with pytest.raises(ValueError):
                ops.convert_to_tensor(bad)
        with pytest.raises(TypeError):
            ops.convert_to_tensor(TensorShape([1]), dtypes.float32)

    def test_registered_functions_by_priority(self, graph, registry):
        made = ops.constant(7.0)
        calls = []

        def late(value, dtype=None, name=None, as_ref=False):
            calls.append("late")
            return made

        def early(value, dtype=None, name=None, as_ref=False):
            calls.append("early")
            return NotImplemented
        ops.register_tensor_conversion_function(Thing, late, 100)
        ops.register_tensor_conversion_function((Thing, Dimension), early, 50)
        assert ops.convert_to_tensor(Thing(1)) is made and calls == ["early", "late"]
        with pytest.raises(RuntimeError, match="incompatible dtype"):
            ops.convert_to_tensor(Thing(1), dtypes.int32)

    def test_bad_conversion_functions(self, graph, registry):
        ops.register_tensor_conversion_function(Thing, lambda value, **unused: "text")
        with pytest.raises(RuntimeError, match="returned non-Tensor"):
            ops.convert_to_tensor(Thing(1))
        with pytest.raises(TypeError):
            ops.register_tensor_conversion_function(Thing, "not callable")
        with pytest.raises(TypeError):
            ops.register_tensor_conversion_function("not a type", lambda: None)

    def test_unknown_object(self, graph):
        with pytest.raises(TypeError, match="Failed to convert object of type Thing"):
            ops.convert_to_tensor(Thing(1))

    def test_many(self, graph):
        names = [t.op.name for t in ops.convert_n_to_tensor([1, 2.0], name="n")]
        assert names == ["n_0", "n_1"]
        assert ops.convert_n_to_tensor_or_indexed_slices([None, 1])[0] is None

    def test_graph_of(self, graph):
        c = ops.constant(1)
        with ops.Graph().as_default() as other:
            d = ops.constant(1)
            assert ops.graph_of([1, [c]]) is graph and ops.graph_of([3]) is other
            with pytest.raises(ValueError, match="must be from the same graph as 'Const:0'"):
                ops.graph_of([c, d])


class TestSparseValues:
    def test_indexed_slices(self, graph):
        s = ops.IndexedSlices(ops.constant([[1.0, 2.0]]), ops.constant([3]), ops.constant([5, 2]))
        assert s.shape == [5, 2] and s.dtype is dtypes.float32 and s.graph is graph
        assert s.op is s.values.op and s.name == s.values.name
        assert ops.convert_to_tensor_or_indexed_slices(s) is s
        assert ops.IndexedSlices(s.values, s.indices).shape.ndims is None

    def test_sparse_tensor(self, graph):
        s = ops.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 4])
        assert s.shape == [3, 4] and s.indices.dtype is dtypes.int64 and s.dtype is dtypes.float32
        value = ops.SparseTensorValue(np.zeros((1, 2), np.int64), np.ones(1), np.array([2, 2]))
        assert ops.SparseTensor.from_value(value).shape == [2, 2]
        with pytest.raises(TypeError):
            ops.SparseTensor.from_value([1])
        with pytest.raises(ValueError):
            ops.SparseTensor([[0, 1]], [1.0, 2.0], [3, 4])


class TestGradientRegistry:
    def test_lookup_and_override(self, graph, monkeypatch):
        monkeypatch.setattr(gradient_registry, "_functions", {})
        square = get_op("Square")
        node = square(ops.constant(2.0)).op
        assert gradient_registry.get_gradient_function(node) is square.gradient

        @gradient_registry.RegisterGradient("Mine")
        def mine(op, grad):
            return grad
        with graph.gradient_override_map({"Square": "Mine"}):
            assert gradient_registry.get_gradient_function(square(ops.constant(2.0)).op) is mine
        with pytest.raises(KeyError, match="two gradients with name 'Mine'"):
            gradient_registry.RegisterGradient("Mine")(mine)
        with pytest.raises(KeyError, match="'Square'"):
            gradient_registry.RegisterGradient("Square")(mine)
        with pytest.raises(TypeError):
            gradient_registry.RegisterGradient(3)

    def test_declined_and_missing(self, graph, monkeypatch):
        monkeypatch.setattr(gradient_registry, "_functions", {})
        gradient_registry.NotDifferentiable("Nothing")
        assert gradient_registry.gradient_of_type("Nothing") is None
        with pytest.raises(LookupError, match="no entry for: Missing"):
            gradient_registry.gradient_of_type("Missing")
        assert gradient_registry.get_gradient_function(ops.constant(1).op) is None


def _call(name, *args, **attrs):
    return get_op(name)(*args, **attrs)


class TestStaticValues:
    def test_constants_and_shapes(self, graph):
        x = _call("Placeholder", "float32", shape=[None, 3])
        y = ops.constant(np.zeros((4, 5)))
        assert constant_value(_call("Shape", y)).tolist() == [4, 5]
        assert constant_value(_call("Size", y)) == 20 and constant_value(_call("Rank", x)) == 2
        assert constant_value(_call("Shape", x)) is None and constant_value(x) is None
        assert constant_value(_call("Shape", y)).dtype == np.int32

    def test_small_arithmetic_is_folded(self, graph):
        shape = _call("Shape", ops.constant(np.zeros((4, 5))))
        first = _call("StridedSlice", shape, [0], [1], [1], shrink_axis_mask=1)
        assert constant_value(first) == 4
        assert constant_value(_call("Mul", first, 3)) == 12
        assert constant_value(_call("Pack", [first, 7])).tolist() == [4, 7]
        assert constant_value(_call("Cast", first, DstT="int64")).dtype == np.int64

    def test_value_used_cannot_be_fed(self, graph):
        shape = _call("Shape", ops.constant(np.zeros((4, 5))))
        assert graph.is_feedable(shape)
        constant_value(shape)
        assert not graph.is_feedable(shape)

    def test_shape_functions_only_look(self, graph):
        shape = ops.constant([2, 3])
        assert _call("Reshape", ops.constant(np.zeros(6)), shape).shape == [2, 3]
        assert graph.is_feedable(shape)

    def test_big_and_deep_values_are_left_alone(self, graph):
        assert constant_value(_call("Fill", [2000, 2000], 1.0)) is None
        assert constant_value(_call("Range", 0, 10**9, 1)) is None
        t = ops.constant(1)
        for _ in range(100):
            t = _call("Mul", t, 1)
        assert constant_value(t) is None

    def test_mistakes_are_left_to_the_step(self, graph):
        assert constant_value(_call("GatherV2", [1, 2], [5], 0)) is None

    def test_partial(self, graph):
        x = _call("Placeholder", "int32", shape=[])
        packed = _call("Pack", [x, 7])
        assert constant_value(packed) is None
        assert constant_value(packed, partial=True).tolist() == [None, 7]

    def test_as_shape(self, graph):
        x = _call("Placeholder", "float32", shape=[None, 3])
        shape = _call("Shape", x)
        batch = _call("StridedSlice", shape, [0], [1], [1], shrink_axis_mask=1)
        width = _call("StridedSlice", shape, [1], [2], [1], shrink_axis_mask=1)
        tail = _call("StridedSlice", shape, [1], [0], [1], end_mask=1)
        assert constant_value_as_shape(shape).as_list() == [None, 3]
        assert constant_value_as_shape(_call("Pack", [batch, width, -1, 2])).as_list() == [None, 3,
                                                                                           None, 2]
        assert constant_value_as_shape(tail).as_list() == [3]
        joined = _call("ConcatV2", [tail, [7]], 0)
        assert constant_value_as_shape(joined).as_list() == [3, 7]
        assert constant_value_as_shape(ops.constant([-1, 4])).as_list() == [None, 4]
        assert constant_value_as_shape(_call("Placeholder", "int32", shape=[2])).as_list() == [None,
                                                                                               None]
        assert constant_value_as_shape(_call("Placeholder", "int32")).ndims is None
        assert constant_value_as_shape(ops.constant(-1)).ndims is None
        with pytest.raises(ValueError):
            constant_value_as_shape(ops.constant(3))


def test_operators_come_from_the_ops_layer(graph):
    assert find_op("AddV2") or find_op("Add")
    with pytest.raises(ValueError, match="cannot be overloaded"):
        ops.install_operators({"__eq__": None})
