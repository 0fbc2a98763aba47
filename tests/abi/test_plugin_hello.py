"""examples/plugin_hello really built as a py3-none wheel, installed by pip beside pyflow, and used
from a new process."""

import os
import pathlib
import subprocess
import sys

import pytest

HELLO = pathlib.Path(__file__).resolve().parents[2] / "examples" / "plugin_hello"
USE = """
import numpy as np, pyflow as tf, pyflow_hello
x = tf.placeholder(tf.float32, [None, 2])
y = pyflow_hello.leaky_relu(x, alpha=0.5)
assert y.dtype == tf.float32 and y.shape.as_list() == [None, 2], y
dx, = tf.gradients(y, x)
value = np.array([[-1, 2], [3, -4]], np.float32)
with tf.Session() as session:
    found, gradient = session.run([y, dx], {x: value})
    big = np.random.default_rng(0).standard_normal((50000, 2)).astype(np.float32)
    np.testing.assert_array_equal(session.run(y, {x: big}), np.where(big > 0, big, np.float32(0.5) * big))
np.testing.assert_array_equal(found, [[-0.5, 2], [3, -2]])
np.testing.assert_array_equal(gradient, [[0.5, 1], [1, 0.5]])
import contextlib, io
from pyflow.tools import op
with contextlib.redirect_stdout(io.StringIO()) as told:
    op.main(["hello.LeakyRelu"])
assert "shape function\\n  in the plugin's library" in told.getvalue(), told.getvalue()
print("hello from C")
"""
WITHOUT_ITS_PACKAGE = """
import pyflow as tf
from pyflow import plugins
x = tf.placeholder(tf.float32, [2])
y = plugins.op("hello.LeakyRelu")(x, alpha=0.5)
try:
    tf.gradients(y, x)
except LookupError as error:
    assert "hello.LeakyRelu" in str(error) and "`import pyflow_hello`" in str(error), error
import pyflow_hello
assert tf.gradients(y, x)[0] is not None
print("told what to import")
"""


def run(*command, cwd=None, **variables):
    path = os.pathsep.join(
        [os.path.dirname(sys.executable), os.environ["PATH"]]
    )  # meson and ninja of this environment
    done = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PATH": path, **variables},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def isolation():
    """Build with what is installed when that is enough, else let pip fetch the build
    dependencies."""
    have = (
        subprocess.run(
            [sys.executable, "-c", "import mesonpy, cffi"], capture_output=True
        ).returncode
        == 0
    )
    return ["--no-build-isolation"] if have else []


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """-> a folder with the plugin installed in it, by pip from its wheel."""
    folder = tmp_path_factory.mktemp("hello")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    run(*pip, "wheel", HELLO, "--no-deps", *isolation(), "-w", folder / "dist")
    (wheel,) = (folder / "dist").glob("*.whl")
    run(
        sys.executable,
        "-m",
        "wheel",
        "tags",
        "--python-tag",
        "py3",
        "--abi-tag",
        "none",
        "--remove",
        wheel,
    )
    (wheel,) = (folder / "dist").glob("pyflow_hello-1.0-py3-none-*.whl")
    assert not wheel.name.endswith("-any.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--target", folder / "site", wheel)
    return folder / "site"


def test_the_wheel_works_from_a_new_process(installed, tmp_path):
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert "hello from C" in run(sys.executable, "-c", USE, cwd=tmp_path, PYTHONPATH=path)


def test_its_gradient_is_missed_aloud(installed, tmp_path):
    """A graph whose op was made without the plugin's Python package: no variable is left out."""
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert "told what to import" in run(sys.executable, "-c", WITHOUT_ITS_PACKAGE, cwd=tmp_path,
                                        PYTHONPATH=path)


def test_the_kernel_is_thirty_lines():
    lines = (HELLO / "hello.c").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip() and not line.startswith("/*")]) <= 30


def test_it_needs_no_header_but_pyflows():
    text = (HELLO / "hello.c").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("#include")] == [
        "#include <pyflow/kernel.h>"
    ]
