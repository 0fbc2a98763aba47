"""Runs exported one-op models in onnxruntime and records which it agrees with.

    python tests/onnx/record_export.py --ort ORT_PYTHON [--all]

One case per op and way is recorded in export.npz: its id and the model's hash, where onnx.checker
passes the model and onnxruntime gives pyflow's numbers.  --all runs all cases (minutes) and lists
what differs; nothing is recorded.
"""
import argparse
import collections
import pathlib
import pickle
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent

# What the other process does: (id, model, feeds, wanted) -> (id, "" or what differs).
CHILD = r"""
import pickle, sys
import numpy as np, onnx, onnxruntime as ort
ort.set_default_logger_severity(4)
def differs(model, feeds, wanted):
    try:
        onnx.checker.check_model(model)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found = session.run(None, feeds)
    except Exception as error:
        return str(error).replace("\n", " ")[-200:]
    for have, want in zip(found, wanted):
        have, want = np.asarray(have), np.asarray(want)
        if have.shape != want.shape or want.dtype != object and have.dtype != want.dtype:
            return f"{have.dtype}{have.shape}, expected {want.dtype}{want.shape}"
        if want.dtype == object:
            if [str(x) for x in have.ravel()] != [x.decode() for x in want.ravel()]:
                return "other strings"
        elif want.dtype.kind != "f":
            if not (have == want).all():
                return "other numbers"
        else:
            size = {"float16": 4e-3, "float64": 3e-8}.get(want.dtype.name, 3e-5)
            if not np.allclose(have, want, size, size, equal_nan=True):
                return f"off by {np.nanmax(abs(have - want))}"
    return ""
cases = pickle.load(open(sys.argv[1], "rb"))
pickle.dump([(key, differs(*rest)) for key, *rest in cases], open(sys.argv[2], "wb"))
"""


def built(everything):
    """[(id, model, feeds, wanted, hash)]: bfloat16, which NumPy lacks, is left out."""
    sys.path.insert(0, str(HERE))
    import export_cases
    from pyflow.interop import onnx
    made, seen = [], set()
    for case in sorted(export_cases.cases(), key=_rare):
        names = {t.name for t in case.types.values() if not isinstance(t, list)}
        if "bfloat16" in names:
            continue
        for unknown in (False, True):
            if not everything and (case.op.name, unknown) in seen:
                continue
            try:
                one = export_cases.build(case, unknown)
            except onnx.UnsupportedError:
                continue
            except Exception as error:          # pyflow's own: no kernel for the type
                print(f"{case.id}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
                continue
            if any(a.dtype.name == "bfloat16" for a in [*one.feeds.values(), *map(
                    np.asarray, one.wanted)]):
                continue
            if not everything and export_cases.read_back(one):
                print(f"{case.id}: {export_cases.read_back(one)[:100]}", file=sys.stderr)
                continue
            seen.add((case.op.name, unknown))
            key = f"{case.id}/{'unknown' if unknown else 'known'}"
            made.append((key, one.model, one.feeds, one.wanted, export_cases.hash_of(one)))
    return made


def _rare(case):
    """float32, then float64, then the others, each in the order of the blocks."""
    names = [t.name for t in case.types.values() if not isinstance(t, list)]
    return 0 if "float32" in names else 1 if "float64" in names else 2


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ort", required=True, help="a Python with onnx and onnxruntime")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    made = built(args.all)
    with tempfile.TemporaryDirectory() as folder:
        given, answers = f"{folder}/cases", f"{folder}/answers"
        with open(given, "wb") as file:
            pickle.dump([m[:4] for m in made], file)
        subprocess.run([args.ort, "-c", CHILD, given, answers], check=True)
        with open(answers, "rb") as file:
            found = dict(pickle.load(file))
    groups = collections.defaultdict(list)
    for key, text in found.items():
        if text:
            groups[key.partition("-")[0], text].append(key)
    for (op, text), keys in sorted(groups.items()):
        print(f"{op}: {text}: {keys[0]} ({len(keys)})")
    agreed = [m for m in made if not found[m[0]]]
    print(f"{len(agreed)} of {len(made)} agree")
    if not args.all:
        np.savez_compressed(HERE / "export.npz", cases=np.array([m[0] for m in agreed]),
                            hashes=np.array([m[4] for m in agreed]))


if __name__ == "__main__":
    main()
