"""ONNX's backend test cases, run on pyflow: what passes, what fails, what is left out and why.

    python tests/onnx/onnx_suite.py                  # the table
    python tests/onnx/onnx_suite.py --write          # and known.json anew; reasons stay
    python tests/onnx/onnx_suite.py --only resize    # names with this, failures in full

known.json holds the names of the cases that are left out, by class, and of those that fail, each
with its reason; test_backend.py holds pyflow to it.
"""
import argparse
import collections
import functools
import glob
import json
import os
import pathlib
import re
import sys
import warnings

import numpy as np

FOLDERS = ("node", "simple", "pytorch-operator", "pytorch-converted", "light")
KNOWN = pathlib.Path(__file__).with_name("known.json")
CLASSES = {
    "training": "domain ai.onnx.preview.training",
}


@functools.lru_cache(None)
def cases(folder):
    """The package's cases of a folder, by name."""
    from onnx.backend.test.loader import load_model_tests
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="real" if folder == "light" else folder)
    return {case.name: case for case in sorted(found, key=lambda case: case.name)}


def model_of(case):
    """The case's onnx.ModelProto."""
    import onnx
    return case.model if case.model is not None else onnx.load(_path(case))


def _path(case):
    if case.model_dir is None:              # light models lie beside the package's test data
        import onnx
        return os.path.join(os.path.dirname(onnx.__file__), case.url.partition("onnx/")[2])
    return os.path.join(case.model_dir, "model.onnx")


def left_out(model):
    """The class a model is left out for, or None."""
    for node in model.graph.node:
        if node.domain == "ai.onnx.preview.training":
            return "training"
    return None


def _read(pattern):
    from onnx import TensorProto, numpy_helper
    arrays = []
    for i in range(len(glob.glob(pattern.format("*")))):
        with open(pattern.format(i), "rb") as file:
            arrays.append(numpy_helper.to_array(TensorProto.FromString(file.read())))
    return arrays


def data_sets(case, model):
    """[(inputs, outputs)], arrays."""
    from onnx.backend.test.runner import Runner, _normalize_tensor
    if case.data_sets is not None:
        return [([_normalize_tensor(a) for a in inputs], [_normalize_tensor(a) for a in outputs])
                for inputs, outputs in case.data_sets]
    if case.model_dir is not None:
        return [(_read(f"{folder}/input_{{}}.pb"), _read(f"{folder}/output_{{}}.pb"))
                for folder in sorted(glob.glob(f"{case.model_dir}/test_data_set*"))]
    held = {t.name for t in model.graph.initializer}
    inputs = [Runner.generate_dummy_data(i) for i in model.graph.input if i.name not in held]
    return [(inputs, _read(_path(case)[:-5] + "_output_{}.pb"))]


def run(case, model=None):
    """None if pyflow gives what is expected, else the error."""
    from onnx.backend.test.runner import Runner
    from pyflow.interop import onnx as backend
    model = model or model_of(case)
    try:
        prepared = backend.prepare(model if case.model is not None else _path(case))
        for inputs, outputs in data_sets(case, model):
            made = prepared.run(inputs)
            assert _lengths(made) == _lengths(outputs), (made, outputs)
            # arrays one by one: the runner asks those of a sequence for their length
            Runner.assert_similar_outputs(_arrays(outputs), _arrays(made), rtol=case.rtol,
                                          atol=case.atol)
        prepared.close()
    except Exception as error:      # whatever goes wrong is this case's failure
        return error
    return None


def _lengths(values):
    return [len(v) if isinstance(v, (list, tuple)) else None for v in values]


def _arrays(values):
    return [a for v in values for a in (v if isinstance(v, (list, tuple)) else [v])]


def known():
    """{"left out": {class: [folder/name]}, "failing": {folder/name: reason}}."""
    return json.loads(KNOWN.read_text())


def sweep(folders, only=""):
    """(Counter of (folder, result), {folder/name: error}, {class: [folder/name]})."""
    counts, failed, out = collections.Counter(), {}, collections.defaultdict(list)
    for folder in folders:
        for name, case in cases(folder).items():
            if only not in name:
                continue
            model = model_of(case)
            reason = left_out(model)
            if reason:
                out[reason].append(f"{folder}/{name}")
                counts[folder, "left out"] += 1
                continue
            error = run(case, model)
            counts[folder, "failed" if error else "passed"] += 1
            if error:
                failed[f"{folder}/{name}"] = error
    return counts, failed, out


def table(counts):
    """The counts as text, a line per folder."""
    lines = [f"{'folder':20}{'passed':>8}{'failed':>8}{'left out':>10}{'share':>9}"]
    total = collections.Counter()
    for folder in FOLDERS:
        row = [counts[folder, kind] for kind in ("passed", "failed", "left out")]
        if any(row):
            lines.append(_line(folder, row))
            total.update(dict(enumerate(row)))
    return "\n".join([*lines, _line("all", [total[i] for i in range(3)])])


def _line(name, row):
    share = row[0] / max(row[0] + row[1], 1)
    return f"{name:20}{row[0]:8}{row[1]:8}{row[2]:10}{share:9.2%}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--folders", nargs="*", default=FOLDERS)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    counts, failed, out = sweep(args.folders, args.only)
    for name, error in failed.items():
        text = str(error).strip()
        print(f"{name}: {type(error).__name__}: {text if args.only else text[:200]}\n")
    print(table(counts))
    if args.write:
        import onnx
        reasons = known()["failing"] if KNOWN.exists() else {}
        KNOWN.write_text(json.dumps({
            "onnx": onnx.__version__.rpartition(".")[0], "classes": CLASSES,
            "left out": {kind: sorted(names) for kind, names in sorted(out.items())},
            "failing": {n: reasons.get(n, "?") for n in sorted(failed)}}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
