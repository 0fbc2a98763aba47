"""What handles say of the elements behind them: a TensorList's, a TensorArray's.

The dtype and shape that a list or an array was made for travel with its handle, through the ops
that give the handle on, as TensorFlow's handle data do; the shape functions of who reads an
element ask here.  Where a handle comes out of a merge, a call or a placeholder, nothing is known.

Thread: the one building the graph.  Source: TF's list_ops and data_flow_ops shape functions.
"""
from pyflow.framework.static_value import constant_value, constant_value_as_shape
from pyflow.framework.tensor_shape import unknown_shape

# Ops whose result is a handle of the elements that their first input's handle has.
PASSED_ON = frozenset("""Identity Switch Enter StopGradient PreventGradient TensorArrayGradV3
    TensorListSetItem TensorListPushBack TensorListPopBack TensorListResize TensorListConcatLists
    TensorListScatterIntoExistingList""".split())
# op: which input holds the shape of a new list's elements
MADE = {"EmptyTensorList": 0, "TensorListReserve": 0, "TensorListFromTensor": 1,
        "TensorListSplit": 1, "TensorListScatter": 2, "TensorListScatterV2": 2}
NOTHING = object()          # a handle was asked, and nothing is known


def shape_input(tensor):
    """What is known of the shape that a shape input holds: a vector, or the scalar -1.  ValueError
    for anything else."""
    if tensor.shape.with_rank_at_most(1).ndims == 0:
        value = constant_value(tensor)
        if value is None or value != -1:
            raise ValueError(f"a shape is a vector, or the scalar -1 for an unknown rank: {tensor}"
                             + ("" if value is None else f" is {value}"))
        return unknown_shape()
    return constant_value_as_shape(tensor)


def elements_of(handle):
    """(dtype, shape) of the elements behind a handle; None: nothing is known."""
    asked, found = [], None
    while found is None:
        op = handle.op
        asked.append(handle)
        if handle._handle_data is not None:
            found = handle._handle_data
        elif op.type in PASSED_ON and (handle.value_index == 0 or op.type == "Switch"):
            handle = op.inputs[0]
        else:
            found = _made(op)
    for tensor in asked:                    # a chain of 10,000 pushes is walked once
        tensor._handle_data = found
    return None if found is NOTHING else found


def _made(op):
    if op.type in MADE:
        return op.attrs["element_dtype"], shape_input(op.inputs[MADE[op.type]])
    if op.type == "TensorArrayV3":
        shape = op.attrs["element_shape"]
        if shape.is_fully_defined() or op.attrs["identical_element_shapes"]:
            return op.attrs["dtype"], shape
    if op.type == "TensorArrayGradWithShape":
        found = elements_of(op.inputs[0])
        if found is not None:
            return found[0], shape_input(op.inputs[2]).concatenate(found[1])
    return NOTHING


def element_shape(op, dtype, *also):
    """The shape of an element of what `op`'s first input names, all that is known of it: of its
    handle and of `also`, shapes.  ValueError where they, or the handle's dtype, do not agree."""
    made, shape = elements_of(op.inputs[0]) or (dtype, unknown_shape())
    if made.base_dtype != dtype.base_dtype:
        raise ValueError(f"Expected a handle of elements of type {dtype.base_dtype.name} but got "
                         f"one of type {made.base_dtype.name}")
    for other in also:
        if not shape.is_compatible_with(other):
            raise ValueError(f"its elements have shape {shape}, not {other}")
        shape = shape.merge_with(other)
    return shape
