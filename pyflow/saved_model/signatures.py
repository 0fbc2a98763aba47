"""SignatureDefs: which tensors of a graph are fed and fetched, by names that clients use.

Names, arguments and errors are TF 1.15's (python/saved_model/signature_def_utils_impl.py,
utils_impl.py).

    info = tf.saved_model.build_tensor_info(x)
    signature = tf.saved_model.build_signature_def({"x": info}, {"y": ...}, "my_method")
"""
from pyflow.framework import dtypes, errors, graph as graph_lib
from pyflow.framework.tensor_shape import TensorShape
from pyflow.saved_model import keys


def build_tensor_info(tensor):
    """The TensorInfo of a Tensor, SparseTensor or variable: name, type and shape. TypeError for
    others."""
    from pyflow.framework import protos
    if isinstance(tensor, graph_lib.SparseTensor):
        info = protos.TensorInfo(dtype=tensor.dtype.as_datatype_enum)
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
        shape = tensor.get_shape()
    else:
        reference = getattr(tensor, "_ref", None)       # a variable goes by its own name
        tensor = graph_lib.convert_to_tensor(tensor) if reference is None or \
            getattr(tensor, "handle", None) is not None else reference()
        info = protos.TensorInfo(name=tensor.name, dtype=tensor.dtype.base_dtype.as_datatype_enum)
        shape = tensor.get_shape()
    info.tensor_shape.CopyFrom(shape.as_proto())
    return info


def get_tensor_from_tensor_info(tensor_info, graph=None, import_scope=None):
    """The Tensor or SparseTensor that a TensorInfo names in `graph` (None: the default one).
    KeyError if the graph lacks it, ValueError for a malformed TensorInfo."""
    graph = graph or graph_lib.get_default_graph()
    prefix = f"{import_scope}/" if import_scope else ""

    def find(name):
        return graph.get_tensor_by_name(prefix + name)
    kind = tensor_info.WhichOneof("encoding")
    if kind == "name":
        return find(tensor_info.name)
    if kind == "coo_sparse":
        parts = tensor_info.coo_sparse
        return graph_lib.SparseTensor(find(parts.indices_tensor_name),
                                      find(parts.values_tensor_name),
                                      find(parts.dense_shape_tensor_name))
    raise ValueError(f"Invalid TensorInfo.encoding: {kind}")


def build_signature_def(inputs=None, outputs=None, method_name=None):
    """A SignatureDef of TensorInfos by name, and its method's name."""
    from pyflow.framework import protos
    signature = protos.SignatureDef()
    for target, given in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for name, info in (given or {}).items():
            target[name].CopyFrom(info)
    if method_name is not None:
        signature.method_name = method_name
    return signature


def _infos(tensors):
    return {name: build_tensor_info(tensor) for name, tensor in tensors.items()}


def predict_signature_def(inputs, outputs):
    """The SignatureDef of TF Serving's predict: any tensors, by name."""
    for what, given in (("inputs", inputs), ("outputs", outputs)):
        if not given:
            raise ValueError(f"Prediction {what} cannot be None or empty.")
    return build_signature_def(_infos(inputs), _infos(outputs), keys.PREDICT_METHOD_NAME)


def _require(given, what, dtype):
    if given is not None and given.dtype.base_dtype != dtype:
        raise ValueError(f"{what} must be of type {dtype.name}, got {given.dtype.name}")


def classification_signature_def(examples, classes, scores):
    """The SignatureDef of TF Serving's classify: serialised Examples (strings) to class labels
    (strings), scores (floats), or both."""
    if examples is None:
        raise ValueError("Classification examples cannot be None.")
    if not hasattr(examples, "dtype"):
        raise ValueError("Classification examples must be a string Tensor.")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    _require(examples, "Classification input tensors", dtypes.string)
    _require(classes, "Classification classes", dtypes.string)
    _require(scores, "Classification scores", dtypes.float32)
    outputs = {keys.CLASSIFY_OUTPUT_CLASSES: classes,
               keys.CLASSIFY_OUTPUT_SCORES: scores}
    return build_signature_def(
        _infos({keys.CLASSIFY_INPUTS: examples}),
        _infos({name: tensor for name, tensor in outputs.items() if tensor is not None}),
        keys.CLASSIFY_METHOD_NAME)


def regression_signature_def(examples, predictions):
    """The SignatureDef of TF Serving's regress: serialised Examples (strings) to floats."""
    if examples is None:
        raise ValueError("Regression examples cannot be None.")
    if not hasattr(examples, "dtype"):
        raise ValueError("Regression examples must be a string Tensor.")
    if predictions is None:
        raise ValueError("Regression predictions cannot be None.")
    _require(examples, "Regression input tensors", dtypes.string)
    _require(predictions, "Regression output tensors", dtypes.float32)
    return build_signature_def(_infos({keys.REGRESS_INPUTS: examples}),
                               _infos({keys.REGRESS_OUTPUTS: predictions}),
                               keys.REGRESS_METHOD_NAME)


def is_valid_signature(signature_def):
    """True if TF Serving could answer the signature: predict, classify or regress with what these
    need."""
    inputs, outputs = signature_def.inputs, signature_def.outputs
    text, number = dtypes.string.as_datatype_enum, dtypes.float32.as_datatype_enum
    method = signature_def.method_name
    if method == keys.PREDICT_METHOD_NAME:
        return len(inputs) >= 1 and len(outputs) >= 1
    if method == keys.REGRESS_METHOD_NAME:
        return (set(inputs) == {keys.REGRESS_INPUTS} and set(outputs) ==
                {keys.REGRESS_OUTPUTS} and inputs[keys.REGRESS_INPUTS].dtype == text
                and outputs[keys.REGRESS_OUTPUTS].dtype == number)
    if method != keys.CLASSIFY_METHOD_NAME or set(inputs) != {keys.CLASSIFY_INPUTS}:
        return False
    types = {keys.CLASSIFY_OUTPUT_CLASSES: text, keys.CLASSIFY_OUTPUT_SCORES: number}
    return (inputs[keys.CLASSIFY_INPUTS].dtype == text and 0 < len(outputs) <= 2
            and all(types.get(name) == info.dtype for name, info in outputs.items()))


def chosen(meta_graph, name, where):
    """(name, SignatureDef) of a MetaGraphDef: `name`, or the default one to serve, or the only one.
    ValueError that lists what there are."""
    there = {key: value for key, value in meta_graph.signature_def.items()
             if not key.startswith("__saved_model")}
    if name is None:
        name = keys.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if name not in there and len(there) == 1:
            (name,) = there
    if name in there:
        return name, there[name]
    raise ValueError(f"SavedModel '{where}' has no signature {name!r}; it has "
                     f"{', '.join(sorted(there)) or 'none'}")


def names_of(infos, what, where):
    """{key: tensor name} of a signature's inputs or outputs, sorted by key."""
    found = {}
    for key in sorted(infos):
        info = infos[key]
        if info.WhichOneof("encoding") != "name":
            raise errors.UnimplementedError(
                None, None, f"SavedModel '{where}': {what} {key!r} is no dense tensor")
        found[key] = info.name
    return found


def described(info):
    """"float32 [?, 3]" of a TensorInfo."""
    try:
        dtype = dtypes.as_dtype(info.dtype).name
    except TypeError:
        dtype = f"type {info.dtype}"
    shape = TensorShape(info.tensor_shape)
    if shape.ndims is None:
        return f"{dtype} of any shape"
    return f"{dtype} [{', '.join('?' if d is None else str(d) for d in shape.as_list())}]"


PUBLIC = {}
for _name in ("build_signature_def", "classification_signature_def", "is_valid_signature",
              "predict_signature_def", "regression_signature_def"):
    PUBLIC[f"saved_model.{_name}"] = globals()[_name]
    PUBLIC[f"saved_model.signature_def_utils.{_name}"] = globals()[_name]
for _name in ("build_tensor_info", "get_tensor_from_tensor_info"):
    PUBLIC[f"saved_model.{_name}"] = globals()[_name]
    PUBLIC[f"saved_model.utils.{_name}"] = globals()[_name]
