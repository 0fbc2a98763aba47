"""Records onnxruntime's answers for the light models with random weights.

    ORT_PYTHON tests/onnx/record_light.py       # a Python with onnxruntime and onnx

Writes light_logits.npz: for each model the logits of one random image, float32 [1000].
"""
import pathlib
import tempfile

import numpy as np
from onnx_light import NAMES, image, input_name, random_model


def main():
    import onnxruntime
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            model = random_model(name)
            path, feed = f"{folder}/model.onnx", input_name(model)
            pathlib.Path(path).write_bytes(model.SerializeToString())
            del model
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            answers[name] = session.run(None, {feed: image(None)})[-1].reshape(-1)
            print(name, answers[name].shape, answers[name].std())
    np.savez(pathlib.Path(__file__).with_name("light_logits.npz"), **answers)


if __name__ == "__main__":
    main()
