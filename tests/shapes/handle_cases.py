"""Nodes on tensor arrays and tensor lists, as GraphDefs: shapes that travel with handles.

Elements of known, partly known and unknown shapes, written and read with values and with stated shapes that fit, do not, or may.
Both libraries import the GraphDef; the answer is the shape of each output, or what was raised.

    python -P tests/shapes/handle_cases.py handles.pkl       # writes {id: GraphDef}, for record_state.py
"""
import itertools
import pickle
import sys

from pyflow.framework import protos

FLOAT, INT32 = 1, 3
ELEMENTS = (None, (), (2,), (None, 3), (2, 3))
VALUES = ((), (2,), (7,), (2, 3), (5, 2), (5, 2, 3), (None, 3), (None, None, 3), None)


def text(shape):
    return "*" if shape is None else ",".join("?" if d is None else str(d) for d in shape)


class Made:
    """A GraphDef under construction."""

    def __init__(self):
        self.graph = protos.GraphDef()
        self.graph.versions.producer = 134

    def node(self, op, *inputs, name=None, **attrs):
        node = self.graph.node.add(op=op, name=name or f"n{len(self.graph.node)}", input=inputs)
        for key, value in attrs.items():
            attr = node.attr[key]
            if key.endswith("type") or key == "T":
                attr.type = value
            elif isinstance(value, bool):
                attr.b = value
            elif isinstance(value, int):
                attr.i = value
            elif isinstance(value, bytes):
                attr.s = value
            else:
                set_shape(attr.shape, value[0])
        return node.name

    def fed(self, shape, dtype=FLOAT):
        return self.node("Placeholder", dtype=dtype, shape=(shape,))

    def ints(self, *values):
        name = self.node("Const", dtype=INT32)
        tensor = self.graph.node[-1].attr["value"].tensor
        tensor.dtype = INT32
        if len(values) != 1 or isinstance(values[0], tuple):
            values = values[0] if values and isinstance(values[0], tuple) else values
            tensor.tensor_shape.dim.add(size=len(values))
        tensor.int_val.extend(values)
        return name

    def array(self, element):
        return self.node("TensorArrayV3", self.ints(4), dtype=FLOAT, element_shape=(element,), dynamic_size=False,
                         clear_after_read=True, identical_element_shapes=True, tensor_array_name=b"")

    def list(self, element):
        return self.node("TensorListReserve", self.shape(element), self.ints(4), element_dtype=FLOAT, shape_type=INT32)

    def shape(self, element):
        return self.ints(-1) if element is None else self.ints(tuple(-1 if d is None else d for d in element))


def set_shape(proto, shape):
    proto.unknown_rank = shape is None
    for size in shape or ():
        proto.dim.add(size=-1 if size is None else size)


def arrays(m, e, v):
    """{key: how the node under question is added}."""
    a = m.array(e)
    flow = f"{a}:1"
    return {
        "TensorArrayReadV3": lambda: m.node("TensorArrayReadV3", a, m.fed((), INT32), flow, name="node", dtype=FLOAT),
        "TensorArrayWriteV3": lambda: m.node("TensorArrayWriteV3", a, m.fed((), INT32), m.fed(v), flow, name="node", T=FLOAT),
        "TensorArrayReadV3 written": lambda: m.node("TensorArrayReadV3", a, m.fed((), INT32), m.node(
            "TensorArrayWriteV3", a, m.fed((), INT32), m.fed(v), flow, T=FLOAT), name="node", dtype=FLOAT),
        "TensorArrayGatherV3": lambda: m.node("TensorArrayGatherV3", a, m.fed((3,), INT32), flow, name="node", dtype=FLOAT,
                                              element_shape=(v,)),
        "TensorArrayScatterV3": lambda: m.node("TensorArrayScatterV3", a, m.fed((5,), INT32), m.fed(v), flow, name="node", T=FLOAT),
        "TensorArrayConcatV3": lambda: m.node("TensorArrayConcatV3", a, flow, name="node", dtype=FLOAT,
                                              element_shape_except0=(v,)),
        "TensorArraySplitV3": lambda: m.node("TensorArraySplitV3", a, m.fed(v), m.fed((3,), 9), flow, name="node", T=FLOAT),
        "TensorArraySizeV3": lambda: m.node("TensorArraySizeV3", a, flow, name="node"),
        "TensorArrayCloseV3": lambda: m.node("TensorArrayCloseV3", a, name="node"),
        "TensorArrayGradV3": lambda: m.node("TensorArrayGradV3", a, flow, name="node", source=b"g"),
        "TensorArrayWriteV3 index": lambda: m.node("TensorArrayWriteV3", a, m.fed(v, INT32), m.fed(e), flow, name="node", T=FLOAT),
        "TensorArrayReadV3 index": lambda: m.node("TensorArrayReadV3", a, m.fed(v, INT32), flow, name="node", dtype=FLOAT),
    }


def lists(m, e, v):
    x = m.list(e)
    more = {"element_dtype": FLOAT}
    return {
        "TensorListPushBack": lambda: m.node("TensorListPushBack", x, m.fed(v), name="node", **more),
        "TensorListPopBack": lambda: m.node("TensorListPopBack", x, m.shape(v), name="node", **more),
        "TensorListGetItem": lambda: m.node("TensorListGetItem", x, m.fed((), INT32), m.shape(v), name="node", **more),
        "TensorListSetItem": lambda: m.node("TensorListSetItem", x, m.fed((), INT32), m.fed(v), name="node", **more),
        "TensorListStack": lambda: m.node("TensorListStack", x, m.shape(v), name="node", num_elements=4, **more),
        "TensorListGather": lambda: m.node("TensorListGather", x, m.fed((3,), INT32), m.shape(v), name="node", **more),
        "TensorListFromTensor": lambda: m.node("TensorListFromTensor", m.fed(v), m.shape(e), name="node", shape_type=INT32, **more),
        "TensorListFromTensor then": lambda: m.node("TensorListStack", m.node(
            "TensorListFromTensor", m.fed(v), m.shape(e), shape_type=INT32, **more), m.shape(None), name="node", num_elements=-1, **more),
        "TensorListScatterV2": lambda: m.node("TensorListScatterV2", m.fed(v), m.fed((5,), INT32), m.shape(e), m.ints(4), name="node",
                                              shape_type=INT32, **more),
        "TensorListConcatV2": lambda: m.node("TensorListConcatV2", x, m.shape(v), m.fed((0,), 9), name="node", shape_type=INT32, **more),
        "TensorListConcat": lambda: m.node("TensorListConcat", x, name="node", element_shape=(v,), **more),
        "TensorListSplit": lambda: m.node("TensorListSplit", m.fed(v), m.shape(e), m.fed((3,), 9), name="node", shape_type=INT32, **more),
        "TensorListElementShape": lambda: m.node("TensorListElementShape", x, name="node", shape_type=INT32),
        "TensorListLength": lambda: m.node("TensorListLength", x, name="node"),
        "TensorListResize": lambda: m.node("TensorListResize", x, m.fed(v, INT32), name="node"),
        "TensorListGetItem index": lambda: m.node("TensorListGetItem", x, m.fed(v, INT32), m.shape(e), name="node", **more),
        "TensorListScatterIntoExistingList": lambda: m.node("TensorListScatterIntoExistingList", x, m.fed(v), m.fed((5,), INT32),
                                                            name="node", **more),
        "TensorListConcatLists": lambda: m.node("TensorListConcatLists", x, m.list(v), name="node", **more),
        "EmptyTensorList": lambda: m.node("EmptyTensorList", m.fed(v, INT32), m.ints(4), name="node", shape_type=INT32, **more),
        "TensorListReserve": lambda: m.node("TensorListReserve", m.shape(e), m.fed(v, INT32), name="node", shape_type=INT32, **more),
    }


def cases():
    found = {}
    for e, v in itertools.product(ELEMENTS, VALUES):
        for family in (arrays, lists):
            for key in family(Made(), e, v):
                made = Made()
                family(made, e, v)[key]()
                found[f"{key} of {text(e)} with {text(v)}"] = made.graph.SerializeToString()
    return found


if __name__ == "__main__":
    made = cases()
    with open(sys.argv[1], "wb") as file:
        pickle.dump(made, file)
    print(len(made), "graphs")
