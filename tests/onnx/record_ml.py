"""Writes ml_answers.npz: onnxruntime's answers to ml_cases.py, all numbers one behind the other, and what they belong to.

    ORT_PYTHON tests/onnx/record_ml.py FILE       # a Python with onnx and onnxruntime, and the cases' file

Its own faults are left out of the cases: a sample of 2.5 is a member of {2} there, and only sets of whole numbers are taken;
numbers 1 and 2 of TreeEnsemble's post_transform are exchanged.

The cases come as pickled arrays from the Python that has pyflow: `python record_ml.py --cases FILE`.
"""
import json
import pathlib
import pickle
import sys

import numpy as np

ANSWERS = pathlib.Path(__file__).with_name("ml_answers.npz")


def write_cases(path):
    import ml_cases
    with open(path, "wb") as file:
        pickle.dump({name: (c.op, c.attributes, c.inputs, c.outputs, c.opset)
                     for name, c in ml_cases.cases().items()}, file)


def answers(case):
    """onnxruntime's outputs; a text where it has none."""
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
    op, attributes, inputs, outputs, opset = case
    held = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v
            for k, v in attributes.items()}
    names = [f"x{i}" for i in range(len(inputs))]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain="ai.onnx.ml", **held)
    infos = [helper.make_tensor_value_info(
        n, 8 if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs)]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=n) for n in node.output])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", opset)])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, dict(zip(names, inputs)))
    except Exception as error:          # whatever it says is what is kept
        return f"{type(error).__name__}: {str(error)[:200]}"


def main():
    if sys.argv[1] == "--cases":
        return write_cases(sys.argv[2])
    with open(sys.argv[1], "rb") as file:
        held = pickle.load(file)
    index, numbers = {}, []
    for name, case in held.items():
        found = answers(case)
        if isinstance(found, str):
            raise SystemExit(f"{name}: {found}")
        index[name] = [[str(a.dtype), a.shape, a.ravel().tolist() if a.dtype == object else None] for a in found]
        numbers += [a.ravel().astype(np.float64) for a in found if a.dtype != object]
    text = np.frombuffer(json.dumps(index).encode(), np.uint8)
    np.savez_compressed(ANSWERS, index=text, numbers=np.concatenate(numbers))
    print(f"{len(index)} cases, {ANSWERS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
