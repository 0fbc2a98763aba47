"""tf.constant against TensorFlow's record: values, types, TensorProto bytes and refusals."""

import json
import os
import types

import numpy as np
import pytest
from constant_cases import answer

from pyflow.framework import dtypes, protos
from pyflow.framework import graph as ops
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_util import MakeNdarray, make_tensor_proto

_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constant_answers.json")
with open(_PATH) as _f:
    RECORD = [(tuple(case), wanted) for case, wanted in json.load(_f)]

# Where pyflow refuses on purpose: TensorFlow 2.21 wraps integers silently, or reads text as truth.
STRICTER = {("-1", "uint8"), ("-1", "uint64"), ("2**31", "int32"), ("2**31", "uint8"),
            ("-2**31", "uint8"),
            ("-2**31", "uint64"), ("2**40", "int32"), ("2**40", "uint8"), ("[1, 2**40]", "int32"),
            ("[1, 2**40]", "uint8"), ("300", "uint8"), ("2**63", "int32"), ("2**63", "int64"),
            ("2**63", "uint8"), ("[2**63]", "int32"), ("[2**63]", "int64"), ("[2**63]", "uint8"),
            ("np.array(['a', 'b'])", "bool"), ("np.array([b'x'], object)", "bool"),
            ("{}", "bool")}
# Where pyflow takes more (arrays inside lists, ranges, one size as a shape), or reads bytes right.
WIDER = {"[np.arange(2), [3, 4]]", "range(3)", "2**63", "2**64", "[2**63]",
         "np.arange(3, dtype='>i4')", "1"}

TF = types.SimpleNamespace(Graph=ops.Graph, constant=ops.constant,
                           **{d.name: d for d in dtypes.ALL})


@pytest.mark.parametrize("case,wanted", RECORD, ids=[str(c) for c, _ in RECORD])
def test_like_tensorflow(case, wanted):
    value, dtype, shape = case
    got = answer(TF, np, case)
    if (value, dtype) in STRICTER:
        assert got == ["error"]
    elif got != wanted and wanted[0] == "ok" == got[0]:
        # A filled shape or a byte order may be spelled differently: the values must agree.
        assert shape is not None or value in WIDER
        if shape is not None:
            np.testing.assert_array_equal(_array(got[2]), _array(wanted[2]))
    elif value not in WIDER:
        assert got == wanted


def _array(text):
    return MakeNdarray(protos.TensorProto.FromString(bytes.fromhex(text)))


def test_no_quiet_exceptions():
    """The lists above name only cases that are in the record."""
    cases = {(v, d) for (v, d, _), _ in RECORD}
    assert STRICTER <= cases and WIDER <= {v for v, _ in cases}


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d is not dtypes.string],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 0), (2, 2)])
def test_tensor_proto_round_trip(dtype, shape):
    rng = np.random.default_rng(0)
    array = np.asarray(rng.integers(0, 2, shape)).astype(dtype.as_numpy_dtype)
    again = MakeNdarray(make_tensor_proto(array))
    assert again.dtype == array.dtype and again.shape == array.shape
    np.testing.assert_array_equal(again, array)


def test_big_endian_values(graph):
    assert constant_value(ops.constant(np.array([1, 2], ">i4"))).tolist() == [1, 2]


def test_value_is_a_copy(graph):
    source = np.ones(3, np.float32)
    c = ops.constant(source)
    source[:] = 7
    assert constant_value(c).tolist() == [1, 1, 1]
    with pytest.raises(ValueError):
        c.op._const_value[0] = 2


def test_large_constant_makes_no_proto(graph):
    array = np.zeros(4_000_000, np.float32)
    c = ops.constant(array)
    assert c.op._const_value.nbytes == array.nbytes
    assert isinstance(c.op.get_attr("value"), protos.TensorProto)


def test_verify_shape(graph):
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        ops.constant([1, 2], shape=[3], verify_shape=True)
    with pytest.raises(ValueError, match="Too many elements"):
        ops.constant([1, 2, 3], shape=[2])


@pytest.mark.parametrize("change,problem", [
    (lambda p: p.tensor_shape.dim.add(size=-3), "negative"),
    (lambda p: setattr(p.tensor_shape, "unknown_rank", True), "unknown rank"),
    (lambda p: [p.tensor_shape.dim.add(size=1 << 40) for _ in range(4)], "wants"),
    (lambda p: [p.tensor_shape.dim.add(size=1) for _ in range(80)], "dimensions"),
    (lambda p: setattr(p, "tensor_content", b"abc"), "content has 3"),
    (lambda p: p.float_val.extend([1, 2]), "carries 3 values"),
])
def test_malformed_tensor_proto(change, problem):
    proto = make_tensor_proto(1.0)
    change(proto)
    with pytest.raises(ValueError, match=problem):
        MakeNdarray(proto)


def test_short_value_list_is_filled():
    proto = make_tensor_proto(1.0)
    proto.tensor_shape.dim.add(size=3)
    assert MakeNdarray(proto).tolist() == [1, 1, 1]


def test_unsupported_tensor_type():
    with pytest.raises(TypeError):
        MakeNdarray(protos.TensorProto(dtype=protos.DT_VARIANT))
    with pytest.raises(TypeError):
        MakeNdarray(protos.TensorProto(dtype=77))
