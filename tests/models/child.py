"""A process that holds one model and answers requests, one JSON a line; run.py starts it.

    {"load": path, "threads": n, "feeds": [npz, ...], "save": [npz, ...]}
        -> {"load": s, "first": s, "peak": bytes} or {"error": text}
    {"seconds": s}  -> the median of the calls with the first feeds in s seconds, at least three

Both systems run the same lines: with "pyflow" `import onnxruntime` finds pyflow.
"""
import json
import resource
import statistics
import sys
import time


def load(request):
    import numpy as np
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = request["threads"], 1
    options.log_severity_level = 4
    feeds = [dict(np.load(path)) for path in request["feeds"]]
    begun = time.perf_counter()
    session = onnxruntime.InferenceSession(request["load"], options,
                                           providers=["CPUExecutionProvider"])
    loaded = time.perf_counter()
    session.run(None, feeds[0])
    first = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for feed, path in zip(feeds, request["save"]):
        np.savez(path, **_arrays(session.run(None, feed)))
    return (lambda: session.run(None, feeds[0])), {
        "load": loaded - begun, "first": first - loaded, "peak": peak}


def _arrays(outputs):
    """{key: array} of outputs; of a list of maps its values."""
    import numpy as np
    found = {}
    for i, value in enumerate(outputs):
        if isinstance(value, list):
            value = np.array([list(item.values()) if isinstance(item, dict) else item
                              for item in value])
        found[f"o{i}"] = np.asarray(value)
    return found


def median(call, seconds):
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main(system):
    if system == "pyflow":
        import pyflow
        pyflow.compat.install_as_onnxruntime()
    else:
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
    call = None
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            try:
                call, answer = load(request)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
        else:
            answer = median(call, request["seconds"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
