"""Constants, identities and what is known of a tensor's shape."""

from pyflow.interop.onnx.exporter.ops.common import Value, converts, dtypes, np


@converts("Identity", "StopGradient", "Snapshot", "PreventGradient", "EnsureShape", "CheckNumerics",
          "RefIdentity", "PlaceholderWithDefault", "ReadVariableOp")
def identity(node):
    """No node; see also Exporter, where variables are read."""
    found = node.body.find(node.op.inputs[0])
    if found is None:
        raise node.unsupported("it reads what has no value here")
    if isinstance(found, Value) and found.shape is None and node.out_dims() is not None:
        return Value(found.named(), None, node.out_dims(), found.dtype, found.home)
    return found


@converts("IdentityN")
def identity_n(node):
    return [node.body.find(t) for t in node.op.inputs]


@converts("Const")
def const(node):
    raise node.unsupported(f"ONNX has no tensors of type {node.op.outputs[0].dtype.name}")


@converts("Placeholder", "PlaceholderV2")
def placeholder(node):
    raise node.unsupported(f"ONNX has no tensors of type {node.op.outputs[0].dtype.name}")


@converts("VarHandleOp", "VariableV2", "Variable")
def variable(node):
    raise node.unsupported("its handle is used other than to read it")


@converts("Shape", "ShapeN")
def shape(node):
    made = []
    for i in range(len(node)):
        value = node.value(i)
        name = node.sizes_of(value.named())
        if value.order is not None:
            back = [value.order.index(axis) for axis in range(len(value.order))]
            name = node.emit("Gather", name, np.array(back, np.int64), axis=0)
        made.append(name if node.out_dtype(i) is dtypes.int64 else node.cast(name,
                                                                             node.out_dtype(i)))
    return made


@converts("Rank")
def rank(node):
    dims = node.dims(0)
    if dims is not None:
        return np.array(len(dims), np.int32)
    return node.cast(node.like_scalar(node.sizes_of(node.sizes_of(node.x(0)))), dtypes.int32)


@converts("Size")
def size(node):
    name = node.value(0).named()
    if node.dtype() is dtypes.bfloat16:
        name = node.reduce("ReduceProd", node.sizes_of(name), [0], False)
    else:
        name = node.emit("Size", name)
    return name if node.out_dtype() is dtypes.int64 else node.cast(name, node.out_dtype())


@converts("ZerosLike", "OnesLike")
def like(node):
    value = node.value(0)
    number = node.const([0 if node.op.type == "ZerosLike" else 1], node.dtype())
    if node.dtype() is dtypes.string:
        raise node.unsupported("strings")
    return node.ordered(node.emit("ConstantOfShape", node.sizes_of(value.named()), value=number),
                        value.order)


@converts("Fill")
def fill(node):
    sizes, value = node.vector(0), node.known(1)
    if value is not None and value.dtype != object:
        return node.emit("ConstantOfShape", sizes, value=np.asarray(value).reshape(1))
    return node.compute("Expand", node.dtype(1), node.x(1), sizes, at=(0,))


@converts("Range")
def range_(node):
    return node.compute("Range", node.dtype(), *node.xs())


@converts("LinSpace")
def lin_space(node):
    """start + i * step, whose last one is stop."""
    dtype = node.dtype()
    start, stop, count = node.x(0), node.x(1), node.ints(2)
    one = np.array(1, np.int64)
    steps = node.emit("Max", node.emit("Sub", count, one), one)
    step = node.compute("Div", dtype, node.compute("Sub", dtype, stop, start),
                        node.cast(steps, dtype))
    index = node.cast(node.emit("Range", np.array(0, np.int64), count, one), dtype)
    return node.compute("Add", dtype, start, node.compute("Mul", dtype, index, step))


@converts("Empty")
def empty(node):
    return node.emit("ConstantOfShape", node.vector(0), value=node.const([0], node.out_dtype()))
