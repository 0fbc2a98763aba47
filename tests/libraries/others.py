"""Libraries of the package index written for TensorFlow 1.x do their main job: `long.py libraries`.

    .venv-libraries/bin/python -P tests/libraries/others.py [--only REGEX] [--folder FOLDER]
    python tests/libraries/others.py --needs            # what the environment needs beside pyflow
    python tests/libraries/others.py --python PYTHON --tensorflow    # the same jobs on TensorFlow

Each is installed unmodified at the version of LIBRARIES, into a folder of its own; what it needs
lies in the environment, at versions of today where it works with them. Its job, a script of ours in
jobs/, runs in a process of its own by `python -m pyflow exec --old-python`, with a limit of time,
and prints lines `value NAME NUMBER`.

Invariants
    1. A library passes if its job ends with status 0 and every bar holds for the number printed. A
       number that is missing, or not finite, holds no bar.
    2. Each library has a bar that a program that does nothing, or computes nothing right, misses;
       the reason says which.

Exit status 1 unless all pass.
"""
import argparse
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
COMMON = ["numpy==1.26.*", "scipy==1.11.*", "six", "protobuf", "scikit-learn", "requests",
          "setuptools<81", "wheel"]


class Bar(typing.NamedTuple):
    """A number of the job's, "<=" or ">=", its limit, and why a broken program misses it."""

    value: str
    sign: str
    limit: float
    reason: str

    def holds(self, number):
        if number is None or not math.isfinite(number):
            return False
        return number <= self.limit if self.sign == "<=" else number >= self.limit


class Library(typing.NamedTuple):
    """A release, its job, its bars, what is installed beside it, what the environment needs."""

    release: str
    job: str
    bars: list
    beside: tuple = ()
    needs: tuple = ()


ROUND = "what was saved and loaded computes the same"
CHANCE = "guessing gets a tenth of the digits right"
NUMPY = "float rounding; a wrong formula is off by more than 0.1"
LIBRARIES = [
    Library("tflearn==0.5.0", "tflearn_digits", [
        Bar("accuracy", ">=", 0.85, CHANCE), Bar("loaded_differs", "<=", 0.0, ROUND),
        Bar("accuracy_untrained", "<=", 0.4, "new initial values forget what was learnt")],
        needs=("pillow<10", "h5py")),
    Library("gpflow==1.5.1", "gpflow_regression", [
        Bar("off_numpy", "<=", 1e-6, "float64 rounding beside the formulas in NumPy"),
        Bar("likelihood_gain", ">=", 20, "without training it is 0"),
        Bar("mean_error", "<=", 0.5, "a mean of zeros is off by 1")],
        needs=("decorator", "tabulate", "multipledispatch", "pytest", "h5py", "pandas<3")),
    Library("cleverhans==3.0.1", "cleverhans_attacks", [
        Bar("clean_accuracy", ">=", 0.95, CHANCE),
        Bar("fgm_accuracy", "<=", 0.1, "without an attack it is that of clean digits"),
        Bar("pgd_accuracy", "<=", 0.1, "without an attack it is that of clean digits"),
        Bar("pgd_moved", "<=", 0.20001, "the attack may move a pixel by 0.2"),
        Bar("fgm_off_numpy", "<=", 0.001, "share of pixels off the formula; signs at rounding")],
        needs=("matplotlib<3.9", "joblib", "tqdm")),
    Library("stable-baselines==2.10.2", "baselines_cartpole", [
        Bar("ppo2_steps", ">=", 150, "an agent at random keeps it up for about 22 steps"),
        Bar("dqn_steps", ">=", 80, "an agent at random keeps it up for about 22 steps"),
        Bar("loaded_agrees", ">=", 1.0, ROUND)],
        beside=("gym==0.17.3",),
        needs=("cloudpickle", "pandas<3", "matplotlib<3.9", "opencv-python-headless==4.11.*")),
    Library("bert-tensorflow==1.0.1", "bert_sentences", [
        Bar("wordpieces_right", ">=", 1.0, "cats is cat and ##s"),
        Bar("loss", "<=", 0.2, "guessing costs 0.69"),
        Bar("accuracy", ">=", 0.95, "guessing is right half of the time, so is any bag of words")]),
    Library("t3f==1.0.0", "t3f_completion", [
        Bar("off_numpy", "<=", 1e-3, NUMPY),
        Bar("unseen_error", "<=", 0.05, "a tensor of zeros is off by 1")]),
    Library("foolbox==1.8.0", "foolbox_attacks", [
        Bar("clean_accuracy", ">=", 0.95, CHANCE),
        Bar("GradientSignAttack", ">=", 0.9, "share of digits it finds a neighbour for"),
        Bar("DeepFoolAttack", ">=", 0.9, "share of digits it finds a neighbour for"),
        Bar("DeepFoolAttack_distance", "<=", 0.7, "noise has to move digits by 2 or more"),
        Bar("SaltAndPepperNoiseAttack", ">=", 0.9, "share of digits it finds a neighbour for")]),
    Library("dm-sonnet==1.11", "sonnet_modules", [
        Bar("variables_shared", ">=", 1.0, "a module that is called twice has one set of them"),
        Bar("error", "<=", 0.005, "the mean of all answers is off by 0.17"),
        Bar("sharing_differs", "<=", 0.0, "the same variables give the same error")],
        needs=("contextlib2",)),
    Library("tensorlayer==1.11.1", "tensorlayer_digits", [
        Bar("accuracy", ">=", 0.85, CHANCE), Bar("loaded_differs", "<=", 0.0, ROUND),
        Bar("accuracy_untrained", "<=", 0.4, CHANCE)],
        needs=("progressbar2", "wrapt", "imageio", "tqdm", "lxml",
               "matplotlib<3.9")),
    Library("tf-slim==1.1.0", "slim_digits", [
        Bar("accuracy", ">=", 0.85, CHANCE), Bar("loss", "<=", 0.5, "guessing costs 2.3")],
        needs=("absl-py",)),
    Library("tensorflow-hub==0.1.1", "hub_module", [
        Bar("accuracy", ">=", 0.9, CHANCE), Bar("loaded_differs", "<=", 1e-5, ROUND),
        Bar("column_right", ">=", 1.0, "lengths of three texts, as the module computes them")]),
]
MENDS = {   # the environment a library needs to be imported at all, whatever TensorFlow it finds
    "tensorflow-hub==0.1.1": {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
}


# ---------------------------------------------------------------- running

def install(library, args):
    """The folder with the release and what is beside it, made where it is missing."""
    into = args.folder / library.release
    if not (into / "ready").exists():
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install",
                        "--no-deps", "--no-build-isolation", "--upgrade", "--target", str(into),
                        library.release, *library.beside], check=True)
        (into / "ready").touch()
    return into


def run(library, into, args):
    """(exit status or "timeout", what the job printed)."""
    env = {**os.environ, "PYTHONPATH": str(into), "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "Agg",
           "TF_CPP_MIN_LOG_LEVEL": "3", **MENDS.get(library.release, {})}
    how = ["-m", "pyflow", "exec", "--old-python"]
    if args.tensorflow:                 # tf.contrib.slim is tf_slim there
        env["PYTHONPATH"] += f"{os.pathsep}{args.folder / 'tf-slim==1.1.0'}"
        how = [str(HERE / "on_tensorflow.py")]
    command = [args.python, "-P", "-W", "ignore", *how, str(HERE / f"jobs/{library.job}.py")]
    try:
        done = subprocess.run(command, cwd=args.folder, env=env, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=args.timeout)
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or b""
        return "timeout", printed if isinstance(printed, str) else printed.decode("utf-8", "replace")
    return done.returncode, done.stdout


# ---------------------------------------------------------------- judging

def values(printed):
    """{name: number} of the lines `value NAME NUMBER`, which terminal codes may precede."""
    found = re.findall(r"value (\w+) (\S+)\s*$", printed, re.M)
    return {name: _number(text) for name, text in found}


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


def missed(library, status, numbers):
    """The bars that do not hold; all of them where the job did not end well."""
    return [bar for bar in library.bars if status != 0 or not bar.holds(numbers.get(bar.value))]


def last_frame(printed):
    """Where a job's traceback ends, and with what."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', printed)
    errors = re.findall(r"^[\w.]*(?:Error|Exception|Interrupt)\b.*", printed, re.M)
    where = ":".join(frames[-1]) if frames else "no frame"
    return f"{re.sub(r'.*/(?:site-packages|libraries)/', '', where)}: {(errors or [''])[-1][:200]}"


def rows(library, status, numbers, seconds):
    """Lines of the table: the library, then a line per bar."""
    bad = missed(library, status, numbers)
    yield f"{'FAILS' if bad else 'passes':8}{library.release:28}{seconds:6.1f} s"
    for bar in library.bars:
        number = numbers.get(bar.value)
        shown = "missing" if number is None else f"{number:.6g}"
        mark = "!" if bar in bad else " "
        yield f"      {mark} {bar.value:26}{shown:>14} {bar.sign} {bar.limit:<8g} {bar.reason}"


def needs():
    """What the environment holds beside pyflow, each once."""
    return list(dict.fromkeys([*COMMON, *(need for lib in LIBRARIES for need in lib.needs)]))


# ---------------------------------------------------------------- the command

def main(argv=None):
    args = _arguments(argv)
    if args.needs:
        print("\n".join(needs()))
        return 0
    args.folder.mkdir(parents=True, exist_ok=True)
    chosen = [lib for lib in LIBRARIES if re.search(args.only, lib.release)]
    passed = 0
    for library in chosen:
        began = time.perf_counter()
        status, printed = run(library, install(library, args), args)
        (args.folder / f"{library.job}.txt").write_text(printed, encoding="utf-8")
        numbers = values(printed)
        print("\n".join(rows(library, status, numbers, time.perf_counter() - began)), flush=True)
        if status != 0:
            print(f"        status {status}, last frame: {last_frame(printed)}", flush=True)
        passed += not missed(library, status, numbers)
    print(f"{passed} of {len(chosen)} libraries do their job")
    return 0 if passed == len(chosen) else 1


def _interpreter(path):
    """It is run in other folders."""
    return os.path.abspath(shutil.which(path) or path)


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parents[1] / "build/libraries")
    parser.add_argument("--only", default="", help="releases that this regular expression finds")
    parser.add_argument("--python", type=_interpreter, default=sys.executable,
                        help="the Python with pyflow")
    parser.add_argument("--tensorflow", action="store_true",
                        help="runs them on that Python's TensorFlow 2 (compat.v1) instead")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a job")
    parser.add_argument("--needs", action="store_true", help="prints the environment's packages")
    args = parser.parse_args(argv)
    args.folder = args.folder.resolve()
    return args


if __name__ == "__main__":
    sys.exit(main())
