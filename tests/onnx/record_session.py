"""Writes session.json: models, and what onnxruntime answers for the cases of session_cases.py.

    python tests/onnx/record_session.py         # where onnxruntime and onnx are installed
"""

import base64
import json
import pathlib

import onnxruntime
import session_cases
from onnx import TensorProto, helper

FILE = pathlib.Path(__file__).with_name("session.json")
F, I, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
ML = "ai.onnx.ml"
info = helper.make_tensor_value_info


def model(nodes, inputs, outputs, initializers=(), **more):
    """The bytes of a model."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers, doc_string="of a graph")
    opsets = [helper.make_opsetid("", 17)]
    if any(node.domain for node in nodes):
        opsets.append(helper.make_opsetid(ML, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


def structures():
    """Models with maps and sequences for inputs and outputs."""
    kinds = {key: helper.make_map_type_proto(key, helper.make_tensor_type_proto(F, []))
             for key in (S, I)}
    node, value, x = helper.make_node, helper.make_value_info, info("x", F, ["N", 2])
    return {
        "scores": model([node("ZipMap", ["x"], ["z"], domain=ML, classlabels_strings=["no", "yes"]),
                         node("Identity", ["x"], ["y"])], [x], [
            value("z", helper.make_sequence_type_proto(kinds[S])), info("y", F, ["N", 2])]),
        "split": model([node("SplitToSequence", ["x"], ["s"], axis=1)], [x], [
            value("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None)))]),
        "map": model([node("CastMap", ["m"], ["y"], domain=ML, map_form="SPARSE", max_map=5)],
                     [value("m", kinds[I])], [info("y", F, [1, 5])]),
        "words": model([node("DictVectorizer", ["m"], ["y"], domain=ML,
                             string_vocabulary=["a", "b", "c"])],
                       [value("m", kinds[S])], [info("y", F, [1, 3])]),
    }


def models():
    """{name: bytes}."""
    b = helper.make_tensor("b", F, [1], [1.0])
    plain = model([helper.make_node("Add", ["x", "b"], ["y"]),
                   helper.make_node("Cast", ["i"], ["j"], to=1)],
                  [info("x", F, ["N", 2, None]), info("i", I, [])],
                  [info("y", F, ["N", 2, None]), info("j", F, [])], [b], producer_name="me",
                  doc_string="of a model", domain="a.domain", model_version=7)
    for key, value in (("names", "{0: 'cat'}"), ("stride", "32")):
        entry = plain.metadata_props.add()
        entry.key, entry.value = key, value
    made = {
        "plain": plain,
        "overridable": model([helper.make_node("Add", ["x", "b"], ["y"])],
                             [info("x", F, ["N"]), info("b", F, [1])], [info("y", F, ["N"])], [b]),
        "strings": model([helper.make_node("Identity", ["s"], ["t"])], [info("s", S, ["n"])],
                         [info("t", S, ["n"])]),
        "unknown op": model([helper.make_node("Nope", ["x"], ["y"])], [info("x", F, [1])],
                            [info("y", F, [1])]),
        "reshape": model([helper.make_node("Reshape", ["x", "s"], ["y"])],
                         [info("x", F, [4]), info("s", I, [1])], [info("y", F, None)]),
    }
    made.update(structures())
    made = {name: value.SerializeToString() for name, value in made.items()}
    return {**made, "garbage": b"garbage, no model", "nothing": b""}


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    made = models()
    answers = session_cases.outcomes(onnxruntime, made)
    text = {"onnxruntime": onnxruntime.__version__,
            "models": {name: base64.b64encode(data).decode() for name, data in made.items()},
            "answers": answers}
    lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in
                       answers.items())
    text["answers"] = None
    head = json.dumps(text, ensure_ascii=False).replace('"answers": null}', '"answers": {\n')
    FILE.write_text(head + lines + "}}\n", encoding="utf-8")
    print(f"{len(answers)} cases")
