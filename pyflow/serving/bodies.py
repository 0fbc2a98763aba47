"""Bodies of TensorFlow Serving's predict, classify and regress: JSON to feeds, results to JSON.

    predict    {"instances": [row, ...]}    -> {"predictions": [row, ...]}
               {"inputs": {name: value}}    -> {"outputs": {name: value}}
    classify   {"examples": [{feature: value}], "context": {...}} -> {"results": [[[label, score]]]}
    regress                                                       -> {"results": [number, ...]}

"signature_name" chooses the signature in all of them. Of one input or output alone the name is left
out. Source: TensorFlow Serving's api_rest.md and util/json_tensor.cc.

Invariants
    1. Arrays are in the order of the endpoint's inputs, and fit their types and shapes.
    2. What is wrong is an InvalidArgumentError that names the key.

Threads: functions without state.
"""
from pyflow.framework import dtypes
from pyflow.saved_model import keys
from pyflow.serving import refusals, tensors


def signature_name(request):
    """The signature that a request's JSON names; None: the default one."""
    if type(request) is not dict:
        raise refusals.bad(f"expected a JSON object, got {tensors.NAMES[type(request)]}")
    name = request.get("signature_name", "")
    if type(name) is not str:
        raise refusals.bad(f"'signature_name': expected String, got {tensors.NAMES[type(name)]}")
    return name or None


# ---------------------------------------------------------------- predict

def predict_feeds(request, endpoint):
    """([array], rows): the inputs, and of how many rows they came, None for columns."""
    in_rows = "instances" in request
    if in_rows == ("inputs" in request):
        raise refusals.bad(f"expected either 'instances' (rows) or 'inputs' (columns), got "
                           f"{'both' if in_rows else 'neither'}")
    if in_rows:
        arrays = _of_rows(request["instances"], endpoint)
        return arrays, len(request["instances"])
    return _of_columns(request["inputs"], endpoint), None


def _of_columns(given, endpoint):
    specs = endpoint.inputs
    if type(given) is not dict or tensors.is_bytes(given):
        if len(specs) != 1:
            raise refusals.bad("'inputs': expected an object with the inputs "
                               f"{_names(specs)}, got {tensors.NAMES[type(given)]}")
        return [tensors.array_of(given, specs[0])]
    missing = [spec.name for spec in specs if spec.name not in given]
    if missing:
        raise refusals.bad(f"'inputs': input {missing[0]!r} is missing; expected "
                           f"{_names(specs)}, got {', '.join(given) or 'nothing'}")
    return [tensors.array_of(given[spec.name], spec) for spec in specs]


def _of_rows(rows, endpoint):
    specs = endpoint.inputs
    if type(rows) is not list or not rows:
        raise refusals.bad("'instances': expected a list of at least one row, got "
                           + ("an empty one" if rows == [] else tensors.NAMES[type(rows)]))
    for spec in specs:
        if spec.dims == ():
            raise refusals.bad(f"'instances': input {spec.name!r} ({spec}) has no rows; give it in "
                               "'inputs'")
    if type(rows[0]) is not dict or tensors.is_bytes(rows[0]):
        if len(specs) != 1:
            raise refusals.bad(f"'instances': expected objects with the inputs {_names(specs)}, got"
                               f" {tensors.NAMES[type(rows[0])]}")
        return [tensors.array_of(rows, specs[0])]
    return [tensors.array_of(column, spec)
            for spec, column in zip(specs, _columns(rows, [s.name for s in specs], "instances"))]


def _columns(rows, names, what):
    """[values of a name in all rows] for each name; the rows have exactly these names."""
    wanted = set(names)
    for at, row in enumerate(rows):
        if type(row) is not dict:
            raise refusals.bad(f"{what!r}: expected an object at {at}, got "
                               f"{tensors.NAMES[type(row)]}")
        if row.keys() != wanted:
            raise refusals.bad(f"{what!r}: expected the keys {', '.join(names)} at {at}, got "
                               f"{', '.join(row) or 'none'}")
    return [[row[name] for row in rows] for name in names]


def _names(specs):
    return ", ".join(f"{spec.name!r} ({spec})" for spec in specs)


def predict_answer(results, endpoint, rows):
    """The JSON value of a predict's results; rows: how many were asked for, None for columns."""
    specs = endpoint.outputs
    if rows is not None:
        return {"predictions": _rows(results, specs, rows)}
    values = {spec.name: tensors.json_of(array, spec) for spec, array in zip(specs, results)}
    return {"outputs": values if len(specs) > 1 else values[specs[0].name]}


def _rows(results, specs, rows):
    for spec, array in zip(specs, results):
        if not array.ndim or len(array) != rows:
            raise refusals.bad(
                f"output {spec.name!r} of shape {tensors.shown(array.shape)} has no row for each of"
                f" {rows} instances; ask with 'inputs'")
    values = [tensors.json_of(array, spec) for spec, array in zip(specs, results)]
    if len(specs) == 1:
        return values[0]
    parts = [v if type(v) is list or v.ndim > 1 else tensors.plain(v) for v in values]
    return [{spec.name: part[at] for spec, part in zip(specs, parts)}
            for at in range(rows)]


# ---------------------------------------------------------------- classify, regress

def example_feeds(request, endpoint):
    """[array] of the request's examples: serialised tf.train.Examples for a signature whose one
    input is strings (TensorFlow Serving's), else each feature as the input of its name."""
    rows = _examples(request)
    specs = endpoint.inputs
    if endpoint.takes_examples:
        return [tensors.objects([_serialized(row) for row in rows])]
    columns = _columns(rows, [spec.name for spec in specs], "examples")
    return [_feature_array(column, spec) for spec, column in zip(specs, columns)]


def _examples(request):
    rows, context = request.get("examples"), request.get("context", {})
    if type(rows) is not list or not rows:
        raise refusals.bad("'examples': expected a list of at least one object, got "
                           + ("none" if not rows else tensors.NAMES[type(rows)]))
    for what, row in [("context", context), *(("examples", row) for row in rows)]:
        if type(row) is not dict:
            raise refusals.bad(f"{what!r}: expected an object of features, got "
                               f"{tensors.NAMES[type(row)]}")
    for row in rows:
        if both := context.keys() & row.keys():
            raise refusals.bad(f"feature {min(both)!r} is in 'context' and in 'examples'")
    return [{**context, **row} for row in rows] if context else rows


def _feature_array(column, spec):
    """A feature of one value is that value, or a list of it, whichever the input takes."""
    rank = None if spec.dims is None else len(spec.dims)
    if rank == 2:
        column = [value if type(value) is list else [value] for value in column]
    elif rank == 1:
        column = [value[0] if type(value) is list and len(value) == 1 else value
                  for value in column]
    return tensors.array_of(column, spec)


def _serialized(row):
    """A tf.train.Example: whole numbers and booleans are int64, decimals float, texts and b64
    bytes, as TensorFlow Serving has it."""
    from pyflow.framework import protos
    example = protos.Example()
    for name, value in row.items():
        values = value if type(value) is list else [value]
        feature = example.features.feature[name]
        kinds = {_KINDS.get(type(v)) for v in values}
        if len(kinds) > 1 or None in kinds:
            shown = ", ".join(sorted({tensors.NAMES[type(v)] for v in values}))
            raise refusals.bad(f"feature {name!r}: expected numbers of one kind (whole or decimal),"
                               f" or texts, got {shown}")
        for kind in kinds:
            _add(name, feature, kind, values)
    return example.SerializeToString(deterministic=True)


_KINDS = {bool: "int64_list", int: "int64_list", float: "float_list", str: "bytes_list",
          dict: "bytes_list"}


def _add(name, feature, kind, values):
    try:
        if kind == "bytes_list":
            values = [v.encode() if type(v) is str else tensors.bytes_of(v) for v in values]
        elif kind == "int64_list":
            values = [int(v) for v in values]           # booleans
        getattr(feature, kind).value.extend(values)
    except (ValueError, OverflowError) as e:
        raise refusals.bad(f"feature {name!r}: {e or 'an object that is no b64'}") from None


def regress_answer(results, endpoint, count):
    """{"results": [number]} of the output "outputs", or the only one: one value an example."""
    spec, array = _output(endpoint, results, keys.REGRESS_OUTPUTS)
    if spec is None:
        spec, array = endpoint.outputs[0], results[0]
        if len(results) != 1:
            raise _no_method(endpoint, "regress", f"an output {keys.REGRESS_OUTPUTS!r}")
    if array.size != count or array.ndim not in (1, 2) or not spec.dtype.is_floating:
        raise refusals.bad(f"output {spec.name!r}: expected a float for each of {count} examples, "
                           f"got {spec.dtype.name} {tensors.shown(array.shape)}")
    return {"results": tensors.json_of(array.reshape(-1), spec)}


def classify_answer(results, endpoint, count):
    """{"results": [[[label, score]]]} of the outputs "classes" and "scores", [examples, classes]
    each; without one of them labels are "" and scores 0.0."""
    classes, labels = _output(endpoint, results, keys.CLASSIFY_OUTPUT_CLASSES)
    scores, numbers = _output(endpoint, results, keys.CLASSIFY_OUTPUT_SCORES)
    there = [(s, a) for s, a in ((classes, labels), (scores, numbers)) if s is not None]
    if not there:
        raise _no_method(endpoint, "classify", "an output 'classes' or 'scores'")
    for (spec, array), dtype in zip(there, [d for s, d in ((classes, dtypes.string),
                                                           (scores, None)) if s is not None]):
        if array.ndim != 2 or len(array) != count or array.shape != there[0][1].shape or (
                spec.dtype != dtype if dtype else not spec.dtype.is_floating):
            raise refusals.bad(
                f"output {spec.name!r}: expected {dtype.name if dtype else 'float'} [{count}, "
                f"classes], got {spec.dtype.name} {tensors.shown(array.shape)}")
    width = there[0][1].shape[1]
    texts = tensors.json_of(labels, classes) if classes else [[""] * width] * count
    values = tensors.plain(numbers) if scores else [[0.0] * width] * count
    return {"results": [[[t, v] for t, v in zip(*row)] for row in zip(texts, values)]}


def _output(endpoint, results, name):
    for spec, array in zip(endpoint.outputs, results):
        if spec.name == name:
            return spec, array
    return None, None


def _no_method(endpoint, method, expected):
    return refusals.bad(f"signature {endpoint.name!r} cannot {method}: expected {expected}, it has "
                        f"{', '.join(spec.name for spec in endpoint.outputs)}")
