"""Records TensorFlow's answers, and whether TensorFlow loads and runs pyflow's graphs.

    .venv-tf/bin/python tests/oracle/record.py                     # writes answers/AREA.npz, graphs/
    .venv-tf/bin/python tests/oracle/record.py --only image fft    # these areas alone
    .venv-tf/bin/python tests/oracle/record.py --ours FILE.npz     # also runs the graphs that
    export.py wrote: ours/AREA.json
    .venv-tf/bin/python tests/oracle/record.py --seed 7 --into D   # other inputs, kept in folder D;
    PYFLOW_ORACLE=D pytest tests/oracle                            # ... compared with those

The area of a case is its module: cases_math.py -> math.  Run by `long.py oracle`, in an environment
that has TensorFlow 2.21 and not pyflow.
"""

import argparse
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

import cases  # noqa: E402

tf.disable_v2_behavior()


def answer_op(case):
    """-> ({key: array}, serialized GraphDef)."""
    with tf.Graph().as_default() as graph:
        inputs, outputs, gradients = cases.build(tf, case)
        with tf.Session() as session:
            values = session.run(outputs + gradients, dict(zip(inputs, cases.arrays(case))))
        names = [f"out{i}" for i in range(len(outputs))] + [
            f"grad{i}" for i in range(len(gradients))
        ]
        return {
            f"{case.name}/{n}": as_array(v) for n, v in zip(names, values)
        }, graph.as_graph_def().SerializeToString(deterministic=True)


def answer_script(case):
    with tf.Graph().as_default() as graph:
        found = case.function(tf)
        return {
            f"{case.name}/{key}": as_array(v) for key, v in found.items()
        }, graph.as_graph_def().SerializeToString(deterministic=True)


def as_array(value):
    array = np.asarray(value)
    return array.astype("U") if array.dtype == object else array


def areas(only):
    """{area: ([Op], [script as an Op])}, of all areas or of those named."""
    ops, scripts = cases.load_all()
    found = {}
    for case in ops:
        found.setdefault(cases.area_of(case), ([], []))[0].append(case)
    for name, function in scripts.items():
        kept = found.setdefault(cases.area_of(function), ([], []))[1]
        kept.append(cases.Op(name, function, (), None))
    unknown = set(only) - set(found)
    if unknown:
        raise SystemExit(f"no area {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return {area: found[area] for area in only or found}


def record(area, ops, scripts, into):
    answers, graphs, broken = {}, {}, []
    for case in ops + scripts:
        try:
            found, graphs[case.name] = (
                answer_script(case) if case in scripts else answer_op(case)
            )
        except Exception as error:  # noqa: BLE001  all broken cases are told at once
            broken.append(f"{case.name}: {type(error).__name__}: {error}")
        else:
            answers.update(found)
    if broken:
        raise SystemExit("TensorFlow itself fails on\n" + "\n".join(broken))
    count = len(answers)
    answers["versions"] = np.array([tf.__version__, np.__version__])
    answers["seed"] = np.array(cases.seed)
    for folder, arrays in [
        ("answers", answers),
        ("graphs", {k: np.frombuffer(g, np.uint8) for k, g in graphs.items()}),
    ]:
        (into / folder).mkdir(parents=True, exist_ok=True)
        np.savez_compressed(into / folder / f"{area}.npz", **arrays)
    print(
        f"{area}: {len(ops)} ops, {len(scripts)} scripts, {count} arrays recorded with"
        f" TensorFlow {tf.__version__}"
    )


def run_ours(area, ops, path, into):
    """TensorFlow loads each GraphDef that pyflow wrote and must find its own answers in it."""
    import export

    answers, results = np.load(into / "answers" / f"{area}.npz"), {}
    ours = np.load(path)
    for case in ops:
        if case.name not in ours:
            results[case.name] = {"error": "pyflow did not write it"}
            continue
        graph_def = tf.GraphDef.FromString(ours[case.name].tobytes())
        result = {"graph": export.fingerprint(graph_def)}
        try:
            found, wanted = run_graph(case, graph_def, answers)
            worst = [compare(f, answers[f"{case.name}/{w}"]) for f, w in zip(found, wanted)]
            result["problem" if any(worst) else "ok"] = next((w for w in worst if w), True)
        except Exception as error:  # noqa: BLE001  the record says what happened
            result["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        results[case.name] = result
    (into / "ours").mkdir(parents=True, exist_ok=True)
    (into / "ours" / f"{area}.json").write_text(
        json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
    bad = {k: r for k, r in results.items() if "ok" not in r}
    print(
        f"{area}: TensorFlow ran {len(results) - len(bad)} of pyflow's {len(results)} graphs to"
        " its own answers"
    )
    for name, result in bad.items():
        print(" ", name, result)


def run_graph(case, graph_def, answers):
    """-> (what TensorFlow computes with the graph, the names of the answers)."""
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        wanted = [k.split("/", 1)[1] for k in answers.files if k.startswith(case.name + "/")]
        feeds = {f"x{i}:0": x for i, x in enumerate(cases.arrays(case))}
        with tf.Session() as session:
            return session.run([w + ":0" for w in wanted], feeds), wanted


def compare(found, wanted):
    """None if equal up to rounding, else a sentence."""
    found = as_array(found)
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "fc":
        tolerance = 2e-3 if wanted.dtype.itemsize == 2 else 1e-5
        if not np.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(found.astype(complex) - wanted)):.3g}"
    elif not np.array_equal(found, wanted):
        return "differs"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours")
    parser.add_argument("--only", nargs="+", default=[], metavar="AREA")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    cases.seed = arguments.seed
    for area, (ops, scripts) in areas(arguments.only).items():
        record(area, ops, scripts, arguments.into)
        if arguments.ours:
            run_ours(area, ops, arguments.ours, arguments.into)


if __name__ == "__main__":
    main()
