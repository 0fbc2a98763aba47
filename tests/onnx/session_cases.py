"""What programs ask of onnxruntime's module, as cases for it and for pyflow's.

    outcomes(onnxruntime, models)       # {case: what it answered, in JSON's types}

models: {name: bytes}, made by record_session.py.
"""

import numpy as np

X = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
I = np.array(3)


def shown(value):
    """A result in JSON's types: arrays as [dtype, shape, elements]."""
    if isinstance(value, np.ndarray):
        kind = "str" if value.dtype.kind in "OU" else value.dtype.name
        return [kind, list(value.shape), value.ravel().tolist()]
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    if isinstance(value, dict):
        return {str(k): shown(v) for k, v in value.items()}
    return value


def outcome(function):
    """What the function returns, or the name and text of what it raises."""
    try:
        return shown(function())
    except Exception as error:
        return {"raises": type(error).__name__, "says": str(error)}


def args(nodes):
    return [[a.name, a.shape, a.type] for a in nodes]


def feeding(session):
    """Values that are fed, and names that are asked for."""
    def run(names=None, **feeds):
        return lambda: session.run(names, {"x": X, "i": I, **feeds})
    return {
        "plain": run(), "names": run(["j"]), "no names": run([]), "lists": run(x=X.tolist()),
        "lists of int": run(x=X.astype(int).tolist()), "a NumPy scalar": run(i=np.int64(3)),
        "an int": run(i=3), "float64": run(x=X.astype(np.float64)),
        "float16": run(x=X.astype(np.float16)), "int32": run(i=np.array(3, np.int32)),
        "strings": run(x=np.array([[["a", "b"]]])), "rank": run(x=X[0]),
        "a size": run(x=np.zeros([2, 3, 3], np.float32)), "two sizes": run(["y"], x=X[:, :1, :]),
        "strided": run(x=X.T.copy().T), "other byte order": run(x=X.astype(">f4")),
        "an object": run(x=object()), "extra": run(z=X), "no such output": run(["z"]),
        "an initializer": run(b=np.array([5.0], np.float32)),
        "missing": lambda: session.run(None, {"x": X}),
        "positional": lambda: session.run(None, [X, I]),
        "empty": run(x=np.zeros([0, 2, 3], np.float32)),
    }


def binding(ort, session):
    """The simple form of run_with_iobinding."""
    bound, room = session.io_binding(), np.zeros([2, 2, 3], np.float32)
    held = np.ascontiguousarray(I)
    bound.bind_cpu_input("x", X)
    bound.bind_input("i", "cpu", 0, np.int64, [], held.ctypes.data)
    bound.bind_output("y", "cpu", 0, np.float32, [2, 2, 3], room.ctypes.data)
    bound.bind_output("j")
    session.run_with_iobinding(bound)
    first = [bound.copy_outputs_to_cpu(), room]
    bound.clear_binding_outputs()
    bound.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X * 2))
    bound.bind_output("y", "cpu")
    session.run_with_iobinding(bound)
    return [first, [v.numpy() for v in bound.get_outputs()]]


def values(ort):
    """OrtValue's questions."""
    value = ort.OrtValue.ortvalue_from_numpy(X.copy())
    made = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int32)
    changed = ort.OrtValue.ortvalue_from_numpy(X.copy())
    changed.update_inplace(X + 1)
    return [value.shape(), value.data_type(), value.element_type(), value.device_name(),
            value.is_tensor(), value.has_value(), value.is_sparse_tensor(),
            value.is_tensor_sequence(), value.tensor_size_in_bytes(), value.numpy(), made.shape(),
            made.data_type(), changed.numpy(), ort.OrtValue.from_dlpack(X.copy()).numpy(),
            np.from_dlpack(value._ortvalue)]


def terminated(ort, session):
    """A run that was ended before it began."""
    options = ort.RunOptions()
    options.terminate = True
    return session.run(None, {"x": X, "i": I}, options)


def fixed(ort, model):
    """Inputs of a session with a free dimension that is given."""
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("N", 2)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [session.run(["y"], {"x": X, "i": I}), len(session.get_inputs())]


def replaced(ort, model):
    """A session whose initializer is another."""
    options = ort.SessionOptions()
    held = ort.OrtValue.ortvalue_from_numpy(np.array([100.0], np.float32))
    options.add_initializer("b", held)
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(
        ["y"], {"x": X, "i": I})


def structures(made):
    """Maps and sequences in and out; a classifier's scores are maps."""
    scores, split, cast, row = (made(name) for name in ("scores", "split", "map", "words"))
    x = np.array([[1, 2], [3, 4]], np.float32)
    return {
        "types": lambda: [args(s.get_inputs() + s.get_outputs()) for s in (scores, split, cast)],
        "scores": lambda: scores.run(None, {"x": x}), "some": lambda: scores.run(["z"], {"x": x}),
        "split": lambda: split.run(None, {"x": x}),
        "map": lambda: cast.run(None, {"m": {1: 2.0, 3: 5.0}}),
        "no entries": lambda: cast.run(None, {"m": {}}),
        "words": lambda: row.run(None, {"m": {"c": 2.0, "q": 5.0}}),
        "a list": lambda: cast.run(None, {"m": [1]}),
        "other keys": lambda: cast.run(None, {"m": {"a": 1.0}}),
    }


def outcomes(ort, models):
    """{case: outcome} of a module with onnxruntime's names."""
    def made(name, *more, **named):
        return ort.InferenceSession(models[name], *more, **{
            "providers": ["CPUExecutionProvider"], **named})
    session = made("plain")
    cases = {f"feed: {name}": case for name, case in feeding(session).items()}
    strings = made("strings")
    cases.update({f"structures: {name}": case for name, case in structures(made).items()})
    cases.update({
        "inputs": lambda: args(session.get_inputs()),
        "outputs": lambda: args(session.get_outputs()),
        "overridable": lambda: args(made("overridable").get_overridable_initializers()),
        "providers": session.get_providers, "provider options": session.get_provider_options,
        "metadata": lambda: [getattr(session.get_modelmeta(), name) for name in (
            "custom_metadata_map", "description", "domain", "graph_description", "graph_name",
            "producer_name", "version")],
        "no version": lambda: made("strings").get_modelmeta().version,
        "strings": lambda: strings.run(None, {"s": np.array(["a", "ü"])}),
        "strings as objects": lambda: strings.run(None, {"s": np.array(["a", "ü"], object)}),
        "string types": lambda: args(strings.get_inputs() + strings.get_outputs()),
        "binding": lambda: binding(ort, session), "values": lambda: values(ort),
        "ort values": lambda: [v.numpy() for v in session.run_with_ort_values(["y"], {
            "x": ort.OrtValue.ortvalue_from_numpy(X), "i": ort.OrtValue.ortvalue_from_numpy(I)})],
        "terminated": lambda: terminated(ort, session),
        "free dimension": lambda: fixed(ort, models["plain"]),
        "added initializer": lambda: replaced(ort, models["plain"]),
        "no file": lambda: ort.InferenceSession("nowhere.onnx"),
        "garbage": lambda: made("garbage"), "nothing": lambda: made("nothing"),
        "a number": lambda: ort.InferenceSession(5),
        "options and providers by place": lambda: ort.InferenceSession(
            models["plain"], ort.SessionOptions(), ["CPUExecutionProvider"], [{}]).get_providers(),
        "a provider with options": lambda: made(
            "plain", providers=[("CPUExecutionProvider", {"a": "b"})]).get_providers(),
        "unknown op": lambda: made("unknown op"),
        "no such attribute": lambda: setattr(ort.SessionOptions(), "nonsense", 1),
        "a step that fails": lambda: made("reshape").run(None, {
            "x": np.ones(4, np.float32), "s": np.array([3])}),
        "levels": lambda: [int(getattr(ort.GraphOptimizationLevel, name)) for name in (
            "ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")],
        "modes": lambda: [int(ort.ExecutionMode.ORT_SEQUENTIAL),
                          int(ort.ExecutionMode.ORT_PARALLEL)],
        "device": ort.get_device,
    })
    return {name: outcome(case) for name, case in cases.items()}
