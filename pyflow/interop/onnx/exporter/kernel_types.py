"""Which element types onnxruntime's CPU kernels lack, where ONNX has the op for them.

Source: onnxruntime 1.32, asked for each op and type at opset 18.  A value of such a type is
computed in a wider one that holds all of its numbers and cast back (`wider`); float64, which has no wider
one, is written as it is: the model is right, another runtime may have the kernel.
"""

from pyflow.framework.dtypes import (bfloat16, bool, float16, float32, int8, int16, int32, int64,
                                     uint8, uint16, uint32, uint64)

_MANY = (uint16, uint32, uint64, int8, int16, bfloat16)
_LACKS = {
    "Relu": (int16, bfloat16),
    "Max": (uint16, int16, bfloat16), "Min": (uint16, int16, bfloat16),
    "Clip": (uint16, int16, bfloat16),
    "Where": (uint16, uint64, int16, bfloat16, bool),
    "Pad": (uint16, int16, bfloat16),
    "Pow": (uint8, uint16, uint32, uint64, int8, int16, bfloat16),
    "MatMul": (int8, int16, uint8, uint16, bfloat16),
    "ReduceSum": (uint8, uint16, int8, int16, uint32, bfloat16),
    "ReduceMean": (uint8, uint16, int8, int16, uint32, bfloat16),
    "ReduceProd": (uint8, uint16, int8, int16, uint32, bfloat16),
    "ReduceMax": (uint16, int16, uint32, bfloat16), "ReduceMin": (uint16, int16, uint32, bfloat16),
    "ReduceL2": (uint32, bfloat16),
    "ArgMax": (uint16, uint32, int16, bfloat16), "ArgMin": (uint16, uint32, int16, bfloat16),
    "TopK": (uint16, uint32, bfloat16),
    "CumSum": (uint8, uint16, int8, int16, uint32, bfloat16),
    "SpaceToDepth": _MANY + (bool,), "DepthToSpace": _MANY + (bool,),
    "OneHot": (uint8, uint16, uint32, int8, int16, int32, bool, bfloat16),
    "NonZero": (uint16, uint32, int8, int16, bfloat16),
    "Trilu": (uint8, uint16, uint32, int8, int16, bfloat16),
    "Tile": (bfloat16,), "Expand": (bfloat16,), "Identity": (),
    "Resize": (uint16, int16, bfloat16),
    "MaxPool": (int16, int32, uint16, bfloat16), "IsInf": (float16, bfloat16),
    "IsNaN": (bfloat16,), "ReverseSequence": (bfloat16,), "Not": (), "Sign": (),
    "Unique": (uint8, uint16, uint32, int16, int32, bool, bfloat16), "Range": (bfloat16, float16),
    "GatherND": (), "ScatterND": (), "Gather": (), "Slice": (), "Split": (), "Concat": (),
    "Reshape": (), "Squeeze": (), "Unsqueeze": (), "Transpose": (), "Cast": (), "Shape": (),
    "LayerNormalization": (),
}
_WIDER = {uint8: int32, uint16: int32, int8: int32, int16: int32, uint32: int64, bool: int32,
          float16: float32, bfloat16: float32, int32: int64}
_BY_OP = {"SpaceToDepth": float32, "DepthToSpace": float32, "MaxPool": float32,
          "NonZero": int64, "Unique": int64, "OneHot": int64, "Where": int32, "CumSum": int32}


def wider(op, dtype):
    """The type in which `op` is computed instead of `dtype`, or None: it can be as it is."""
    if dtype not in _LACKS.get(op, (bfloat16,)):
        return None
    if dtype is uint64:
        return int64 if op == "Where" else None     # its bits only pass through
    wide = _BY_OP.get(op, _WIDER[dtype])
    if dtype is bfloat16:
        return float32
    if wide is int32 and dtype is uint32:
        return int64
    if wide is float32 and dtype in (int32, uint32):
        return None
    return wide
