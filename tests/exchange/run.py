"""Graphs of pyflow's and TensorFlow's go both ways: written by one, imported and run by the other.

    python tests/exchange/run.py --tensorflow PYTHON --tensorflow PYTHON     # `long.py exchange`

PYTHON: an interpreter that has TensorFlow, 1.15.5 or 2.21, and not pyflow.  Prints the counts of
each direction and every difference that known.py does not explain; exits with 1 if there is one.
--only PATTERNS: of the programs' names (programs.py), with commas between them.  --keep FOLDER:
what was written stays there.
"""
import argparse
import collections
import pathlib
import pickle
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import known  # noqa: E402


def call(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}")
    return done.stdout.splitlines()


def written(python, library, folder, out, only):
    print(call(*python, HERE / "write.py", library, folder, out, only)[-1], flush=True)
    with open(out, "rb") as file:
        return pickle.load(file)


def read(python, library, source, out, only):
    call(*python, HERE / "read.py", library, source, out, only)
    with open(out, "rb") as file:
        return pickle.load(file)


def report(writer, reader, found):
    """Prints a direction; returns how many differences known.py does not explain."""
    counts, forms, told = collections.Counter(), collections.Counter(), []
    for name, result in found["results"].items():
        kind = known.kind_of(name, result, writer, reader)
        counts[kind] += 1
        if kind in ("ok", "known"):
            forms.update(result.get("forms", {}))
        if kind == "differs":
            told.append(f"  {name}: {result['result']}: {result['why']}")
    text = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"{writer} -> {reader}: {sum(counts.values())} graphs: {text}", flush=True)
    print("  as " + ", ".join(f"{form} {count}" for form, count in forms.items()), flush=True)
    unknown = {op for r in found["results"].values() if r["result"] == "unknown ops"
               for op in r["why"].split()}
    if unknown:
        print("  ops that are unknown there:", *sorted(unknown), flush=True)
    print("\n".join(told), end="\n" if told else "", flush=True)
    return len(told)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensorflow", action="append", default=[], metavar="PYTHON")
    parser.add_argument("--only", default="*")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or pathlib.Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(1 if exchange(folder, arguments.tensorflow, arguments.only) else 0)


def exchange(folder, peers, only):
    ours, wrong = [sys.executable, "-P"], 0
    call(*ours, HERE / "samples.py", folder)
    source = folder / "pyflow.pickle"
    failed = written(ours, "pyflow", folder, source, only)["failed"]
    wrong += unwritten("pyflow", failed)
    for number, python in enumerate(peers):
        result = read([python], "tensorflow", source, folder / f"to{number}.pickle", only)
        wrong += report("pyflow", result["version"], result)
        theirs = folder / f"from{number}.pickle"
        version = written([python], "tensorflow", folder, theirs, only)["version"]
        result = read(ours, "pyflow", theirs, folder / f"back{number}.pickle", only)
        wrong += report(version, "pyflow", result)
    return wrong


def unwritten(library, failed):
    told = [f"  {name}: {why}" for name, why in failed.items()
            if not known.is_unwritten(name, why)]
    print("\n".join(told), end="\n" if told else "", flush=True)
    return len(told)


if __name__ == "__main__":
    main()
