"""An op is two files and a line of its family's list; a pass is a file, a row and its test.

A copy of the tree gets an op of each of five families, and a pass (fixtures/); `make tables` and
the derived tests run in it; then nothing differs but what was added and what is generated.
"""
import hashlib
import importlib.resources
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIXTURES = HERE / "fixtures"
COPIED = ("pyflow", "include", "plugins/cpu", "tests/ops", "tests/passes")
GENERATED = {"pyflow/ops/op_types.py", "pyflow/_public.py"}
OPS = {"elementwise": "house_twice", "reduce": "house_total", "move": "house_backwards",
       "strings": "house_letters", "linalg": "house_trace"}
KERNELS = "plugins/cpu/kernels"


def files(tree):
    return {str(p.relative_to(tree)): hashlib.sha1(p.read_bytes()).hexdigest()
            for p in tree.rglob("*")
            if p.is_file() and p.suffix not in (".so", ".pyi") and p.parent.name != "__pycache__"}


def changed(before, after):
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.fixture
def tree(tmp_path):
    """A copy of the tree; the installed package's libraries lie in it."""
    for folder in COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder,
                        ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "Makefile", tmp_path)
    built = next(importlib.resources.files("pyflow").glob("_executor*.so"))
    (tmp_path / "pyflow" / built.name).symlink_to(built)
    return tmp_path


def run(tree, *command, **variables):
    """The output of a child in which the copy is what `import pyflow` finds."""
    paths = [tree, tree / "tests" / "ops", tree / "tests" / "passes", HERE]
    done = subprocess.run(
        [str(word) for word in command], cwd=tree, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONSAFEPATH": "1",
             "PYTHONDONTWRITEBYTECODE": "1", **variables})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def listed(tree):
    """{family: the C files of its list}."""
    return {family: re.findall(r"'(\w+\.c)'", (tree / KERNELS / family / "meson.build").read_text())
            for family in OPS}


def add_ops(tree):
    """Two files each, and a line in the family's list; the paths that this touches."""
    touched = set()
    for family, name in OPS.items():
        block, kernel = f"pyflow/ops/{family}/{name}_ops.py", f"{KERNELS}/{family}/{name}.c"
        shutil.copy(FIXTURES / "ops" / family / f"{name}_ops.py", tree / block)
        shutil.copy(FIXTURES / "kernels" / family / f"{name}.c", tree / kernel)
        build = tree / KERNELS / family / "meson.build"
        text, n = re.subn(r"(?m)^kernels \+= files\(\n", f"kernels += files(\n  '{name}.c',\n",
                          build.read_text(), count=1)
        assert n == 1, build
        build.write_text(text)
        touched |= {block, kernel, f"{KERNELS}/{family}/meson.build"}
    return touched


def build_new(tree, was):
    """A plugin of what the lists have now and had not."""
    new = [tree / KERNELS / family / name for family, names in listed(tree).items()
           for name in names if name not in was[family]]
    made = tree.parent / f"{tree.name}-built"
    made.mkdir()
    head = (tree / KERNELS / "tables.h.in").read_text()
    (made / "tables.h").write_text(
        head.replace("@TABLES@", " \\\n".join(f"  ONCE({p.stem})" for p in new)))
    library = made / "libhouse.so"
    run(tree, "cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-shared", "-fPIC",
        "-I", made, "-I", tree / KERNELS, "-I", tree / "include", HERE / "entry.c", *new,
        "-o", library)
    return library


def test_an_op_is_two_files(tree):
    before, was = files(tree), listed(tree)
    touched = add_ops(tree)
    run(tree, sys.executable, "-m", "pyflow.tools.tables", "pyflow")
    assert changed(before, files(tree)) <= touched | GENERATED
    assert "HouseTwice" in (tree / "pyflow/ops/op_types.py").read_text()
    said = run(tree, sys.executable, "-m", "pytest", "-q", "-rA", "-p", "only_new",
               "-p", "no:cacheprovider", "-k", "House", *(f"tests/ops/test_{kind}.py" for kind in
                                      ("blocks", "values", "malformed", "gradients")),
               HOUSE_LIBRARY=str(build_new(tree, was)))
    passed = re.findall(r"PASSED \S*::(test_\w+)\[(House[A-Za-z]+)", said)
    ops = {"HouseTwice", "HouseTotal", "HouseBackwards", "HouseLetters", "HouseTrace"}
    for test in ("test_block_is_complete", "test_value", "test_static_shape_is_the_reference_s"):
        assert {op for kind, op in passed if kind == test} == ops, test
    assert "HouseTwice" in {op for kind, op in passed if "gradient" in kind}
    assert changed(before, files(tree)) == touched | GENERATED


PASS_TEST = '''
import pyflow as tf
import rewriting
from pyflow.passes import pipeline


def test_it_runs_where_its_row_stands():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        graph = rewriting.pruned([tf.negative(tf.negative(x))], [x])
        work = pipeline.Work(pipeline.Options())
        pipeline.run(graph, work, pipeline.REWRITES)
    assert work.counts["doubled"] == 1
    names = [row.name for row in pipeline.PASSES]
    assert names.index("doubled") < names.index("folded")
'''


def test_a_pass_is_a_file_and_a_row(tree):
    before = files(tree)
    shutil.copy(FIXTURES / "passes" / "house_double_neg.py", tree / "pyflow" / "passes")
    table = tree / "pyflow/passes/pipeline.py"
    row = ('    Pass("doubled", "counts negations of negations (house_double_neg.py)",\n'
           '         lambda graph, work: house_double_neg.count(graph)),\n')
    text = table.read_text().replace("REWRITES = (\n", "REWRITES = (\n" + row).replace(
        "from pyflow.passes.options", "from pyflow.passes import house_double_neg\n"
        "from pyflow.passes.options")
    table.write_text(text)
    (tree / "tests/passes/test_house_double_neg.py").write_text(PASS_TEST)
    said = run(tree, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
               "tests/passes/test_house_double_neg.py", "tests/passes/test_pipeline.py")
    assert "failed" not in said
    assert "negations of negations" in run(tree, sys.executable, "-m", "pyflow", "explain",
                                           "--passes")
    assert changed(before, files(tree)) == {
        "pyflow/passes/house_double_neg.py", "pyflow/passes/pipeline.py",
        "tests/passes/test_house_double_neg.py"}
