"""The wheel with the oldest and the newest of what it depends on, for each Python there is.

    python tests/portability/matrix.py WHEEL [--python PYTHON]... [--only oldest|newest]

Oldest is what pyproject.toml declares: each `name >= version` becomes `name == version`, but for the
few that came out before that Python (FIRST).  Pythons are those on PATH and pyenv's, from 3.11 on.
Each pair gets an environment in build/matrix and runs SMOKE.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What meets NumPy, protobuf and cffi: values in and out, py_func, messages, checkpoints, plugins.
SMOKE = ["tests/test_tiny.py", "tests/session", "tests/train", "tests/graph", "tests/frozen"]
# The first release with wheels for a Python, where pyproject's minimum has none.
FIRST = {(3, 13): {"numpy": "2.1.0", "cffi": "1.17.1"},
         (3, 14): {"numpy": "2.3.3", "cffi": "2.0.0"}}
TOOLS = ["pytest", "hypothesis", "psutil", "pillow", "ml_dtypes"]


def pythons():
    """{(3, 11): path, ...} of this machine; the last patch release of each."""
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 20)] + [sys.executable]
    found = {}
    for path in [*filter(None, names), *pathlib.Path("~/.pyenv/versions").expanduser().glob("*/bin/python3")]:
        asked = subprocess.run([str(path), "-c", "import sys, venv; print(*sys.version_info[:3])"],
                               text=True, capture_output=True)
        if asked.returncode == 0:
            version = tuple(map(int, asked.stdout.split()))
            if version >= (3, 11):
                found[version[:2]] = max(found.get(version[:2], ((), "")), (version, str(path)))
    return {version: path for version, (_, path) in sorted(found.items())}


def oldest(version):
    """The requirements `name==version` that pyproject.toml declares, as this Python can have them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    first = {}
    for since, releases in sorted(FIRST.items()):
        first.update(releases if version >= since else {})
    for text in project["dependencies"]:
        name, least = re.match(r"([\w.-]+) >= ([\w.]+)", text).groups()
        if "python_version" in text:    # said again for later ones: FIRST
            continue
        yield f"{name}=={first.get(name, least)}"


def attempt(python, version, age, wheel):
    """One environment; -> whether SMOKE passes in it."""
    place = ROOT / "build" / "matrix" / f"{version[0]}.{version[1]}-{age}"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([python, "-m", "venv", place], check=True)
    own = place / "bin" / "python"
    wanted = [*oldest(version)] if age == "oldest" else []
    subprocess.run([own, "-m", "pip", "-q", "--disable-pip-version-check", "install", wheel, *wanted, *TOOLS],
                   check=True)
    listed = subprocess.check_output([own, "-m", "pip", "--disable-pip-version-check", "freeze"], text=True)
    found = " ".join(line for line in listed.split() if re.match("numpy|protobuf|cffi|scipy_openblas|scipy-openblas", line))
    print(f"== Python {version[0]}.{version[1]}, {age}: {found}", flush=True)
    return subprocess.run([own, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not alone", *SMOKE], cwd=ROOT,
                          env={**os.environ, "PYTHONSAFEPATH": "1"}).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel")
    parser.add_argument("--python", action="append", type=lambda v: tuple(map(int, v.split("."))),
                        help="3.11, say; all there are where left out")
    parser.add_argument("--only", choices=["oldest", "newest"])
    asked, there = parser.parse_args(), pythons()
    if lacking := set(asked.python or there) - set(there):
        raise SystemExit(f"no Python {lacking} here")
    failed = []
    for version in asked.python or there:
        for age in ([asked.only] if asked.only else ["oldest", "newest"]):
            if not attempt(there[version], version, age, asked.wheel):
                failed.append(f"Python {version[0]}.{version[1]} with the {age}")
    raise SystemExit("failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
