"""TensorFlow's recorded answers hold on every instruction set of this machine, the x86-64 baseline
(SSE2) included."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_recorded_answers_on(isa):
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "-k",
        "test_op or test_script",
        str(HERE / "test_oracle.py"),
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=HERE.parents[1],
        env={**os.environ, "PYFLOW_CPU_ISA": isa},
    )
    assert done.returncode == 0, done.stdout[-3000:]
