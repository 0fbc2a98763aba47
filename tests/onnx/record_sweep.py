"""Records onnxruntime's answers to the sweep's cases.

    ORT_PYTHON tests/onnx/record_sweep.py               # a Python with onnxruntime and onnx
    ORT_PYTHON tests/onnx/record_sweep.py --full FILE   # every case, for a look at all of them

Writes sweep.xz (see sweep_answers.py).  Where onnxruntime has no kernel, onnx.reference answers;
what neither can run has no answer."""
import sys
import warnings

import numpy as np
import sweep_answers
import sweep_cases


def main(full=None):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    answers = {}
    for case in sweep_cases.cases(full is not None):
        answers[case.name] = answer(onnxruntime, case)
    path = sweep_answers.write(answers, sweep_cases.cases(full is not None), full)
    kinds = [a if isinstance(a, str) else "answers" for a in answers.values()]
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))}, path, path.stat().st_size)


def answer(onnxruntime, case):
    """Arrays; "refused", "nobody", or a list of arrays of onnx.reference."""
    model = case.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return session.run(None, case.feeds())
    except Exception as error:  # noqa: BLE001  what is raised is the answer
        if "NOT_IMPLEMENTED" not in str(error) and "opset" not in str(error):
            return "refused"
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
        onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
        return ReferenceEvaluator(model).run(None, case.feeds())
    except Exception:           # noqa: BLE001
        return "nobody"


if __name__ == "__main__":
    main(*sys.argv[2:] if "--full" in sys.argv else ())
