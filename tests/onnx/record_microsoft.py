"""Writes microsoft.npz: the models of microsoft_cases.py, what they are fed, and what onnxruntime
answers, or NumPy where onnxruntime's CPU provider does not run the op.

    python tests/onnx/record_microsoft.py       # where onnxruntime and onnx are installed
"""

import json
import pathlib

import microsoft_cases
import numpy as np
import onnxruntime

FILE = pathlib.Path(__file__).with_name("microsoft.npz")


class Store:
    """Bytes one after the other, and where each lies."""

    def __init__(self):
        self.data = bytearray()

    def put(self, data):
        """[offset, length]."""
        self.data += data
        return [len(self.data) - len(data), len(data)]

    def array(self, array):
        """[dtype, shape, offset, length]."""
        array = np.asarray(array)
        return [array.dtype.name, list(array.shape), *self.put(array.tobytes())]


def answer(case, model):
    """(who, outputs) of a case."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        if case.wrong:
            raise ValueError(case.wrong)
        session = onnxruntime.InferenceSession(model, options,
                                               providers=["CPUExecutionProvider"])
        return "onnxruntime", session.run(None, case.feeds)
    except Exception as error:
        if case.reference is None:
            raise RuntimeError(f"{case.name}: {error}") from None
    made = case.reference(*[x for x in case.inputs if x is not None])
    made = made if isinstance(made, tuple) else (made,)
    return "numpy", [np.asarray(y, t) for y, t in zip(made, filter(None, case.outs))]


def record():
    """Writes the file; prints what onnxruntime refused."""
    store, index, failed = Store(), [], []
    for case in microsoft_cases.cases():
        model = case.model()
        try:
            who, outputs = answer(case, model)
        except RuntimeError as error:
            failed.append(str(error))
            continue
        index.append({"name": case.name, "op": case.op, "by": who, "model": store.put(model),
                      "feeds": {n: store.array(x) for n, x in case.feeds.items()},
                      "outputs": [store.array(y) for y in outputs]})
    names = [entry["name"] for entry in index]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    head = {"onnxruntime": onnxruntime.__version__, "cases": index}
    np.savez_compressed(FILE, index=np.frombuffer(json.dumps(head).encode(), np.uint8),
                        data=np.frombuffer(bytes(store.data), np.uint8))
    print(f"{len(index)} cases, {FILE.stat().st_size} bytes")
    print("\n".join(failed))


if __name__ == "__main__":
    onnxruntime.set_default_logger_severity(4)
    record()
