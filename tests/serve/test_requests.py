"""What is asked and answered over HTTP: documented shapes of TensorFlow Serving's REST API, answers
that TensorFlow gave (tests/saved), and requests that are wrong, each with its status and reason."""
import base64
import math
import re

import numpy as np
import pytest

pytest.importorskip("httptools")
pytest.importorskip("uvicorn")

from pyflow.serving import json_text  # noqa: E402
from serving_models import ANSWERS, FROM_TENSORFLOW, TYPES, W, body  # noqa: E402

MODEL = "/v1/models/zoo"


@pytest.fixture(params=["orjson", "json"], autouse=True)
def parser(request, monkeypatch):
    """All of it with orjson and without."""
    if request.param == "json":
        monkeypatch.setattr(json_text, "orjson", None)
    elif json_text.orjson is None:
        pytest.skip("orjson is not installed")


def predict(server, **request):
    return server.ask("POST", MODEL + ":predict", request)


# ---------------------------------------------------------------- what is right
RIGHT = {
    "rows": ({"instances": [1.0, 2.0, 5.0]}, {"predictions": [2.5, 3.0, 4.5]}),
    "a named row": ({"instances": [{"x": 1.0}, {"x": 3}]}, {"predictions": [2.5, 3.5]}),
    "a column": ({"inputs": [1, 2.5]}, {"outputs": [2.5, 3.25]}),
    "a named column": ({"inputs": {"x": [1e1]}}, {"outputs": [7.0]}),
    "what no input is called": ({"inputs": {"x": [1], "z": []}}, {"outputs": [2.5]}),
    "no rows": ({"inputs": []}, {"outputs": []}),
    "shortest digits": ({"instances": [0.4, 1e-6, 2e10]},
                        {"predictions": [2.2, 2.0000005, 1e10]}),
    "two inputs in rows": (
        {"signature_name": "pair", "instances": [{"a": [1, 2], "b": 7}, {"a": [0, 4.0], "b": -1}]},
        {"predictions": [{"b": 14, "c": [3.5, -0.5, 0.5]}, {"b": -2, "c": [6.0, 1.0, -3.0]}]}),
    "two inputs in columns": (
        {"signature_name": "pair", "inputs": {"a": [[1, 2], [0, 4]], "b": [7, 9007199254740993]}},
        {"outputs": {"b": [14, 18014398509481986], "c": [[3.5, -0.5, 0.5], [6.0, 1.0, -3.0]]}}),
    "two inputs without rows": ({"signature_name": "pair", "inputs": {"a": [], "b": []}},
                                {"outputs": {"b": [], "c": []}}),
    "a scalar": ({"signature_name": "count", "inputs": 12}, {"outputs": 12}),
    "texts alone": ({"signature_name": "told", "inputs": [1, 2]},
                    {"outputs": {"about": "3.0", "raw_bytes": {"b64": "/w=="}}}),
    "as many rows as asked for": ({"signature_name": "kept", "instances": [1, 2]},
                                  {"predictions": [{"a_kept": 1, "x": 1}, {"a_kept": 2, "x": 2}]}),
    "texts": ({"signature_name": "text", "instances": ["a", "é\0"]},
              {"predictions": [{"same": "a", "same_bytes": {"b64": "YQ=="}},
                               {"same": "é\0", "same_bytes": {"b64": "w6kA"}}]}),
    "bytes": ({"signature_name": "text", "instances": [{"b64": "/w=="}, {"b64": "YQ=="}]},
              {"predictions": [{"same": {"b64": "/w=="}, "same_bytes": {"b64": "/w=="}},
                               {"same": "a", "same_bytes": {"b64": "YQ=="}}]}),
    "named bytes": ({"signature_name": "text", "instances": [{"words": {"b64": "YQ=="}}]},
                    {"predictions": [{"same": "a", "same_bytes": {"b64": "YQ=="}}]}),
    "columns of bytes": ({"signature_name": "text", "inputs": [{"b64": "YQ=="}]},
                         {"outputs": {"same": ["a"], "same_bytes": [{"b64": "YQ=="}]}}),
    "an output without rows": ({"signature_name": "total", "inputs": [1, 2]},
                               {"outputs": {"total": 3.0, "x": [1.0, 2.0]}}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_predict(server, name):
    request, answer = RIGHT[name]
    assert predict(server, **request) == (200, answer)


def test_every_type_both_ways(server):
    """Extremes of each type, at several ranks."""
    inputs = {}
    for name in TYPES:
        kind = np.dtype(name)
        if kind.kind == "b":
            inputs[name] = [[True, False]]
        elif kind.kind == "f":
            inputs[name] = [float(np.finfo(kind).max), float(np.finfo(kind).tiny), -0.1]
        else:
            inputs[name] = [[[np.iinfo(kind).min], [np.iinfo(kind).max]]]
    status, found = predict(server, signature_name="types", inputs=inputs)
    assert status == 200, found
    for name, value in inputs.items():
        wanted = np.array(value, name)
        assert np.array(found["outputs"][name], name).tobytes() == wanted.tobytes(), name
    scalars = {name: np.ones([], name).item() for name in TYPES}
    assert predict(server, signature_name="types", inputs=scalars) == (200, {"outputs": scalars})


def test_numbers_that_json_lacks(server):
    """NaN, Infinity and -Infinity are tokens, as in TensorFlow Serving."""
    status, found = server.ask("POST", MODEL + ":predict",
                               b'{"instances": [NaN, Infinity, -Infinity, 1]}')
    assert status == 200 and math.isnan(found["predictions"][0])
    assert found["predictions"][1:] == [math.inf, -math.inf, 2.5]


@pytest.mark.parametrize("model, case", FROM_TENSORFLOW, ids=lambda text: text.replace("/", "-"))
def test_as_tensorflow_answered(server, model, case, parser):
    """The SavedModels that TensorFlow 2.21 wrote, asked in columns."""
    sides = {"in": {}, "out": {}}
    for key in ANSWERS:
        if key.split("|")[:2] == [model, case]:
            sides[key.split("|")[2]][key.split("|")[3]] = ANSWERS[key]
    inputs = {name: [{"b64": base64.b64encode(v).decode()} for v in value.ravel()]
              if value.dtype.kind == "S" else value.tolist() for name, value in sides["in"].items()}
    status, found = server.ask("POST", f"/v1/models/{model}:predict",
                               {"signature_name": case.partition("/")[2], "inputs": inputs})
    assert status == 200, found
    outputs = found["outputs"]
    if len(sides["out"]) == 1:
        outputs = dict.fromkeys(sides["out"], outputs)
    assert outputs.keys() == sides["out"].keys()
    for name, wanted in sides["out"].items():
        if wanted.dtype.kind == "S":
            assert [text.encode() for text in np.ravel(outputs[name])] == wanted.ravel().tolist()
        else:
            np.testing.assert_allclose(outputs[name], wanted, rtol=2e-6, atol=1e-6)


def test_classify(server):
    x = np.float32([[1, 2], [0.5, -1]])
    e = np.exp((x @ W).astype(np.float64))
    wanted = e / e.sum(1, keepdims=True)
    for request in ({"examples": [{"x": row} for row in x.tolist()]},
                    {"examples": [{"x": [1, 2]}, {"x": [0.5, -1]}], "context": {}}):
        status, found = server.ask("POST", MODEL + ":classify",
                                   {"signature_name": "classify", **request})
        assert status == 200, found
        assert [[label for label, _ in row] for row in found["results"]] == 2 * [
            ["red", "green", "blue"]]
        scores = [[score for _, score in row] for row in found["results"]]
        np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_classify_without_labels_and_with_a_context(server):
    """One value is that value or a list of it, whichever the input takes."""
    request = {"signature_name": "scores", "examples": [{"a": 1}, {"a": [2.5]}],
               "context": {"b": 4}}
    assert server.ask("POST", MODEL + ":classify", request) == (
        200, {"results": [[["", 1.0], ["", 4.0]], [["", 2.5], ["", 4.0]]]})


def test_regress(server):
    for examples in ([{"x": 1.0}, {"x": 2}], [{"x": [1.0]}, {"x": [2.0]}]):
        request = {"signature_name": "regress", "examples": examples}
        assert server.ask("POST", MODEL + ":regress", request) == (200, {"results": [3.5, 4.0]})


def test_classify_of_parsed_examples(server):
    """tf.parse_example in the graph sees the features as TensorFlow Serving sends them."""
    request = {"signature_name": "parsed", "context": {"word": "a"}, "examples": [
        {"x": [1.0, 2.0]}, {"x": [0.0, 4.0], "n": 2}]}
    assert server.ask("POST", MODEL + ":classify", request) == (200, {"results": [
        [["a", 3.5], ["a", -0.5], ["a", 0.5]], [["a", 12.0], ["a", 2.0], ["a", -6.0]]]})
    for features, reason in (({"x": [1, 2]}, "x"), ({"x": [1.0]}, "x"), ({}, "x")):
        status, found = server.ask("POST", MODEL + ":classify",
                                   {"signature_name": "parsed", "examples": [features]})
        assert status == 400 and reason in found["error"], found


def test_regress_of_serialised_examples(server):
    """The signature takes strings: what comes has the length of a tf.train.Example of them."""
    pytest.importorskip("google.protobuf")
    from pyflow.framework import protos
    example = protos.Example()
    example.features.feature["whole"].int64_list.value.extend([1, 1, -2])
    example.features.feature["decimal"].float_list.value.append(0.5)
    example.features.feature["text"].bytes_list.value.extend([b"a\xff", "é".encode()])
    request = {"signature_name": "examples", "context": {"decimal": 0.5}, "examples": [
        {"whole": [1, True, -2], "text": [{"b64": "Yf8="}, "é"]}]}
    assert server.ask("POST", MODEL + ":regress", request) == (
        200, {"results": [float(len(example.SerializeToString()))]})


# ---------------------------------------------------------------- what is wrong
PAIR = {"signature_name": "pair"}
WRONG = {
    "nothing": (b"", 400, "has no body"),
    "no JSON": (b"{instances: [1]}", 400, "no JSON: .* column 2"),
    "cut off": (b'{"instances": [1.0, ', 400, "no JSON"),
    "two values": (b'{"instances": [1]} {}', 400, "no JSON: Extra data"),
    "not UTF-8": (b'{"instances": ["\xff"]}', 400, "not UTF-8: .* at byte 16"),
    "no object": (b"[1, 2]", 400, "expected a JSON object, got Array"),
    "deep": (b"[" * 50_000, 400, "nested too deep|no JSON"),
    "deep and whole": (b'{"inputs": ' + b"[" * 40 + b"]" * 40 + b"}", 400, "more than 32 deep"),
    "no key": (body(instance=[1]), 400, "either 'instances' .* got neither"),
    "both keys": (body(instances=[1], inputs=[1]), 400, "got both"),
    "a number for a name": (body(signature_name=1, instances=[1]), 400,
                            "'signature_name': expected String, got Number"),
    "no such signature": (body(signature_name="par", instances=[1]), 400,
                          "no signature 'par'; it has checked, classify"),
    "sparse": (body(signature_name="sparse", instances=[1]), 501, "'x' is no dense tensor"),
    "no rows": (body(instances=[]), 400, "at least one row, got an empty one"),
    "rows that are none": (body(instances=1.0), 400, "at least one row, got Number"),
    "null": (body(instances=[1, None]), 400,
             r"'x': expected float32 \[\?\], got Null null at \[1\]"),
    "text for a number": (body(instances=["1"]), 400, r'got String "1" at \[0\]'),
    "truth for a number": (body(instances=[1, True]), 400, r"got Boolean true at \[1\]"),
    "an object for a number": (body(inputs=[1, {"b64": "YQ=="}]), 400,
                               r"got Object with keys b64 at \[1\]"),
    "a matrix for a vector": (body(inputs=[[1], [2]]), 400,
                              r"'x': expected float32 \[\?\], got shape \[2, 1\]"),
    "a scalar for a vector": (body(inputs=1), 400, r"expected float32 \[\?\], got shape \[\]"),
    "ragged": (body(inputs=[[1, 2], [3]]), 400, r"2 values first, but 1 values at \[1\]"),
    "mixed depths": (body(inputs=[1, [2]]), 400, r"a single value first, but 1 values at \[1\]"),
    "mixed depths, inside": (body(inputs=[[1], 2]), 400, r"1 values first, but a single value"),
    "too large for float32": (body(inputs=[0, 1e39]), 400, r"got Number 1e\+39 at \[1\]"),
    "too large for a double": (b'{"inputs": [1e999]}', 400, "too large for a double"),
    "a whole number too large": (b'{"inputs": [1' + b"0" * 400 + b"]}", 400,
                                 "got Number 1|too large"),
    "more digits than are read": (b'{"inputs": [1' + b"0" * 5000 + b"]}", 400, "digits|too large"),
    "a fraction for an integer": (body(**PAIR, inputs={"a": [], "b": [1.5]}), 400,
                                  r"'b': expected int64 \[\?\], got Number 1.5 at \[0\]"),
    "too large for int64": (body(**PAIR, inputs={"a": [], "b": [2 ** 63]}), 400, "'b': expected"),
    "a wrong width": (body(**PAIR, inputs={"a": [[1, 2, 3]], "b": [1]}), 400,
                      r"'a': expected float32 \[\?, 2\], got shape \[1, 3\]"),
    "an input missing": (body(**PAIR, inputs={"a": [[1, 2]]}), 400,
                         r"input 'b' is missing; expected 'a' \(float32 \[\?, 2\]\), 'b'"),
    "plain rows for two": (body(**PAIR, instances=[[1, 2]]), 400, "expected objects .* got Array"),
    "a plain column for two": (body(**PAIR, inputs=[1]), 400, "expected an object .* got Array"),
    "a row too much": (body(**PAIR, instances=[{"a": [1, 2], "b": 1, "c": 1}]), 400,
                       "expected the keys a, b at 0, got a, b, c"),
    "a row too little": (body(**PAIR, instances=[{"a": [1, 2], "b": 1}, {"a": [1, 2]}]), 400,
                         "expected the keys a, b at 1, got a"),
    "a row of another kind": (body(**PAIR, instances=[{"a": [1, 2], "b": 1}, 5]), 400,
                              "expected an object at 1, got Number"),
    "rows of a scalar": (body(signature_name="count", instances=[3]), 400, "has no rows; give it"),
    "outputs without rows": (body(signature_name="total", instances=[3]), 400,
                             "output 'total' of shape .* ask with 'inputs'"),
    "a text for rows": (body(signature_name="told", instances=[3]), 400,
                        r"output 'about' of shape \[\] has no row for each of 1 instances"),
    "another number of rows": (body(signature_name="kept", instances=[1, -1, 2]), 400,
                               r"output 'a_kept' of shape \[2\] has no row for each of 3 inst"),
    "a number for a text": (body(signature_name="text", inputs=[1]), 400,
                            r"'words': expected string \[\?\], got Number 1"),
    "no base64": (body(signature_name="text", inputs=[{"b64": "a"}]), 400,
                  "got Object with keys b64"),
    "another object": (body(signature_name="text", inputs=["a", {"c64": "a"}]), 400,
                       r"got Object with keys c64 at \[1\]"),
    "half a pair": (b'{"signature_name": "text", "inputs": ["\\ud800"]}', 400, "expected string"),
    "a step that fails": (b'{"signature_name": "checked", "inputs": [[NaN, 1]]}', 400,
                          "no number : Tensor had NaN"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bodies(server, name):
    sent, status, reason = WRONG[name]
    got, found = server.ask("POST", MODEL + ":predict", sent)
    assert got == status and list(found) == ["error"], found
    assert re.search(reason, found["error"], re.S), found


WRONG_EXAMPLES = {
    "none": ({}, "'examples': expected a list of at least one object, got none"),
    "no list": ({"examples": {}}, "got none"),
    "no object": ({"examples": [1]}, "expected an object of features, got Number"),
    "a context that is none": ({"examples": [{"x": 1}], "context": [1]}, "got Array"),
    "twice": ({"examples": [{"x": 1}], "context": {"x": 2}},
              "'x' is in 'context' and in 'examples'"),
    "another feature": ({"examples": [{"y": 1}]}, "expected the keys x at 0, got y"),
    "a wrong type": ({"examples": [{"x": "a"}]}, "expected float32 .* got String"),
}


@pytest.mark.parametrize("name", WRONG_EXAMPLES)
def test_wrong_examples(server, name):
    request, reason = WRONG_EXAMPLES[name]
    status, found = server.ask("POST", MODEL + ":regress", {"signature_name": "regress", **request})
    assert status == 400 and re.search(reason, found["error"]), found


@pytest.mark.parametrize("value, reason", [
    ([1, 0.5], "one kind"), ([None], "got Null"), ([1, "a"], "got Number, String"),
    ([[1]], "got Array"), (2 ** 63, "'f'"), ({"a": 1}, "'f'"), ({"b64": "?"}, "'f'")])
def test_features_that_no_example_has(server, value, reason):
    request = {"signature_name": "examples", "examples": [{"f": value}]}
    status, found = server.ask("POST", MODEL + ":regress", request)
    assert status == 400 and reason in found["error"], found


@pytest.mark.parametrize("signature, method, reason", [
    ("serving_default", "classify", "cannot classify: expected an output 'classes' or 'scores'"),
    ("pair", "regress", "expected the keys a, b"),
    ("total", "regress", "cannot regress")])
def test_methods_that_a_signature_has_not(server, signature, method, reason):
    status, found = server.ask("POST", f"{MODEL}:{method}",
                               {"signature_name": signature, "examples": [{"x": 1}]})
    assert status == 400 and reason in found["error"], found


@pytest.mark.parametrize("text, value", [
    ("9223372036854775808", 2 ** 63), ("18446744073709551615", 2 ** 64 - 1),
    ("-9223372036854775808", -2 ** 63), ("18446744073709551616", float(2 ** 64)),
    ("-9223372036854775809", float(-2 ** 63)), ("1" + "0" * 30, 1e30), ("1e300", 1e300)])
def test_large_numbers(text, value):
    """Whole ones of 64 bits are whole, larger ones are doubles (found by the fuzzer)."""
    found = json_text.read(b"[%s]" % text.encode())
    assert found == [value] and type(found[0]) is type(value)
