"""One peer as a process that stays alive, so that measurements of several interleave.

    python server.py pyflow|tf|tf_single|torch|numpy

tf_single is TensorFlow with its SINGLE_THREADED_EXECUTOR, which knows no control flow: for
information.

Reads one JSON request a line, {"case": name, "seconds": s} or {"case": name, "count": true}, and
answers one JSON line:
{"best": seconds of the best run, "runs": how many, "units": n}, {"kernels": {op: n}, "expected":
{...}}, or {"error": text}.
"""

import gc
import json
import os
import sys
import time

PEER = sys.argv[1]
ANSWERS = os.fdopen(
    os.dup(1), "w"
)  # the protocol has its own stream: libraries print what they like
os.dup2(2, 1)
os.environ.update(
    OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3"
)


def load():
    """-> {case name: function that makes its Work}, the version."""
    if PEER in ("torch", "numpy"):
        module = __import__(PEER + "_cases")
        return module.CASES, __import__(PEER).__version__
    import cases

    if PEER == "pyflow":
        import pyflow as tf
    else:
        import logging

        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        tf.logging.set_verbosity(tf.logging.ERROR)
    if PEER == "tf_single":
        cases.EXECUTOR = "SINGLE_THREADED_EXECUTOR"
        cases.CASES = {
            name: make
            for name, make in cases.CASES.items()
            if name.startswith(("noop", "add", "one", "null"))
        }
    return {
        name: (lambda make=make: make(tf)) for name, make in cases.CASES.items()
    }, tf.__version__


def measure(work, seconds):
    gc.collect()
    gc.disable()
    best, runs, end = float("inf"), 0, time.perf_counter() + seconds
    while runs < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        work.run()
        best = min(best, time.perf_counter() - start)
        runs += 1
    gc.enable()
    return {"best": best, "runs": runs, "units": work.units}


def answer(request, makers, made):
    name = request["case"]
    if name not in makers:
        return {"absent": True}
    if name not in made:
        made[name] = makers[name]()
    if request.get("count"):
        work = made[name]
        return {"kernels": work.count() if work.count else None, "expected": work.expected}
    return measure(made[name], request["seconds"])


def main():
    makers, version = load()
    made = {}
    print(json.dumps({"ready": PEER, "version": version}), file=ANSWERS, flush=True)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line), makers, made)
        except Exception as error:  # noqa: BLE001  the caller prints it and goes on
            found = {"error": f"{type(error).__name__}: {str(error)[:400]}"}
        print(json.dumps(found), file=ANSWERS, flush=True)


if __name__ == "__main__":
    main()
