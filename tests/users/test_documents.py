"""What the texts say is so: README, CONTRIBUTING, SECURITY and docs/.

Every ```python, ```pycon and ```c block and every command of a ```sh block is run, or checked as
far as it can be, in a folder with the files that the texts speak of (`folder`).  A command that is
not run is claimed by exactly one row of CHECKED, which says why and looks at what it names: make's
targets and variables, scripts and their options, folders, build options.  Commands inside the text
are looked at in the same way.  Links, anchors, names of files, environment variables and tables
are compared with the tree.
"""
import ast
import contextlib
import importlib
import inspect
import io
import os
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import typing

import numpy as np
import pytest

import pyflow as tf
from pyflow import config
from pyflow.framework.op_schema import parse_signature
from pyflow.tools import command

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
LINKING = PAGES + [ROOT / "CHANGELOG.md", ROOT / "benchmarks/NOTES.md",
                   *sorted((ROOT / "examples").rglob("README.md")), ROOT / "plugins/cuda/README.md"]
LANGUAGES = {"python", "pycon", "c", "sh", "signature"}


class Block(typing.NamedTuple):
    """A fenced block: where it stands, its language and text, and the indented text behind it."""

    page: str
    line: int
    language: str
    text: str
    output: str

    @property
    def id(self):
        return f"{self.page}:{self.line}"


def blocks_of(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        if fence := re.match(r"( *)```(\w*)$", lines[at]):
            indent, start = len(fence[1]), at + 1
            at = next(k for k in range(start, len(lines)) if lines[k].strip() == "```")
            text = "\n".join(line[indent:] for line in lines[start:at]) + "\n"
            behind = []
            for line in lines[at + 2:]:
                if not line.startswith("    "):
                    break
                behind.append(line[4:])
            name = path.relative_to(ROOT).as_posix()
            yield Block(name, start, fence[2], text, "".join(line + "\n" for line in behind))
        at += 1


BLOCKS = [block for path in PAGES for block in blocks_of(path)]
[TWENTY] = [b for b in BLOCKS if b.page == "README.md" and "quadrants" in b.text]


def in_language(language):
    chosen = [b for b in BLOCKS if b.language == language and b is not TWENTY]
    return pytest.mark.parametrize("block", chosen, ids=lambda block: block.id)


def prose(path):
    """The text outside of fenced blocks."""
    return re.sub(r"^ *```\w+\n.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)


def section(name, title):
    text = (ROOT / name).read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


# ---------------------------------------------------------------- what the texts speak of
TRAIN = """
import pyflow as tf
x = tf.placeholder(tf.float32, [2, 2])
with tf.Session() as sess:
    sess.run(tf.matmul(x, x) + 1.0, {x: [[1, 2], [3, 4]]})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """model.onnx, graph.pb, f.npz (its feed), x.npy, train.py, labels.txt, cat.jpg: names the texts use."""
    made = tmp_path_factory.mktemp("documents")
    (made / "model.onnx").write_bytes(onnx_model())
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3], name="x")
        double = tf.function(lambda x: x * 2.0)         # a call: docs/runtime.md says it is read
        tf.reduce_sum(double(x), name="y")
        (made / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    np.save(made / "x.npy", np.ones([1, 3, 8, 8], np.float32))
    np.savez(made / "f.npz", x=np.float32([1, 2, 3]))
    (made / "train.py").write_text(TRAIN, encoding="utf-8")
    (made / "labels.txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
    from PIL import Image
    Image.fromarray(np.full((20, 30, 3), 40, np.uint8)).save(made / "cat.jpg")
    return made


def onnx_model():
    from onnx import TensorProto, helper
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
             helper.make_node("Flatten", ["pooled"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "colours", [x], [y]),
                             opset_imports=[helper.make_opsetid("", 13)]).SerializeToString()


@pytest.fixture
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def shell(text, cwd, **variables):
    """The output of a script of the shell, whose `python` is this one."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    done = subprocess.run(["sh", "-e", "-c", text], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "PATH": path, **variables})
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# ---------------------------------------------------------------- blocks
def test_every_block_says_its_language():
    assert {block.language for block in BLOCKS} == LANGUAGES
    for language in LANGUAGES:
        assert any(block.language == language for block in BLOCKS), language


def test_the_twenty_lines_run(there):
    """They set no seed, so that figures differ from the shown ones; what they reach does not."""
    assert len([line for line in TWENTY.text.splitlines() if line.strip()]) <= 20
    code = TWENTY.text.replace("/tmp/quadrants", str(there / "quadrants"))
    out = run_python(code.replace("pyflow as tf\n", "pyflow as tf\ntf.set_random_seed(1)\n"),
                     there / "twenty.py")
    for text in (TWENTY.output, out):
        found = re.fullmatch(r"loss (0\.\d+), ([\d.]+)% right, saved as /\S*/quadrants\n", text)
        assert found and float(found[1]) < 0.2 and float(found[2]) > 95, text
    for what in ("quadrants", "quadrants.meta"):
        assert "w1" in tool(["explain", what])


@in_language("python")
def test_python_blocks_run(block, there):
    out = run_python(block.text, there / f"{block.id.replace('/', '_').replace(':', '_')}.py")
    if block.output:
        assert out == block.output


def run_python(code, path):
    """What a program prints that lies in a file of its own, in a graph of its own."""
    path.write_text(code, encoding="utf-8")
    out = io.StringIO()
    with tf.Graph().as_default(), contextlib.redirect_stdout(out):
        exec(compile(code, str(path), "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    """A folder with examples/plugin_hello as pip installs it; the wheel itself is built and
    installed by tests/abi/test_plugin_hello.py."""
    site, source = tmp_path_factory.mktemp("hello"), ROOT / "examples/plugin_hello"
    package, include = site / "pyflow_hello", ROOT / "include"
    shutil.copytree(source / "pyflow_hello", package)
    library = package / "libpyflow_hello.so"
    subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden",
                    f"-I{include}", source / "hello.c", "-o", library], check=True)
    subprocess.run([sys.executable, include / "pyflow/make_plugin_json.py", library,
                    package / "plugin.json"], check=True)
    info = site / "pyflow_hello-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pyflow_hello\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pyflow.plugins]\nhello = pyflow_hello\n")
    return site


@in_language("pycon")
def test_console_blocks_give_what_they_show(block, hello, tmp_path):
    (tmp_path / "block.txt").write_text(block.text, encoding="utf-8")
    code = ("import doctest, sys; found = doctest.testfile('block.txt', module_relative=False); "
            "print(found.attempted); sys.exit(found.failed)")
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(hello)})
    assert done.returncode == 0 and int(done.stdout.split()[-1]) >= 3, done.stdout + done.stderr


@in_language("c")
def test_c_blocks_are_right(block, there):
    """A program is compiled (that it runs: the shell block behind it), a kernel's file is, an
    excerpt stands in the plugin it is from."""
    flags = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    if "int main(" in block.text:
        (there / "program.c").write_text(block.text, encoding="utf-8")
        subprocess.run([*flags, "-fsyntax-only", there / "program.c"], check=True)
    elif '#include "base/common.h"' in block.text:
        (there / "kernel.c").write_text(block.text, encoding="utf-8")
        subprocess.run([*flags, f"-I{ROOT / 'plugins/cpu/kernels'}", "-fsyntax-only",
                        there / "kernel.c"], check=True)
    else:
        source = (ROOT / "examples/plugin_hello/hello.c").read_text(encoding="utf-8")
        for line in block.text.splitlines():
            assert line.strip() in source, line


@in_language("signature")
def test_signatures_parse(block):
    parse_signature(block.text.strip())


def test_the_block_of_an_op_is_one(there):
    """CONTRIBUTING's op: its shape function, gradient and reference agree with one another."""
    [block] = [b for b in BLOCKS if b.page == "CONTRIBUTING.md" and b.language == "python"]
    names = {}
    exec(block.text, names)
    cube = names["Cube"]
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3])
        y = cube(x)
        assert y.shape.as_list() == [2, 3] and y.op.type == cube.name == "Cube"
        gradient = cube.gradient(y.op, tf.ones([2, 3]))
        value = np.float32([[1, 2, 3], [-1, 0, 0.5]])
        with tf.Session() as sess:
            np.testing.assert_allclose(sess.run(gradient, {x: value}), 3 * value * value)
    np.testing.assert_array_equal(cube.reference(value), value ** 3)
    for sample in cube.samples:
        assert sample.arrays(cube, {"T": tf.float32})[0].dtype == np.float32


# ---------------------------------------------------------------- commands
def tool(arguments):
    """What `python -m pyflow ARGUMENTS` prints; its exit status has to be 0."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert not command.main(arguments), (arguments, out.getvalue())
    assert out.getvalue().strip(), arguments
    return out.getvalue()


def traced(line, there):
    shell(line, there, PYFLOW_TRACE="")
    assert (there / "t.json").stat().st_size > 1000


def dumped(line, there):
    shell(line.replace("/tmp/graphs", "graphs"), there)
    assert (there / "graphs").is_dir() and any(f.name.startswith("01-built")
                                               for f in (there / "graphs").rglob("*"))


def embedded(text, there):
    """The program of the page's C block, compiled and run by the block's own lines."""
    [code] = [b.text for b in BLOCKS if b.page == "docs/runtime.md" and b.language == "c"]
    (there / "program.c").write_text(code, encoding="utf-8")
    assert shell(text, there) == "12\n"


def labelled(line, there):
    out = shell(line.replace("examples/", f"{ROOT}/examples/"), there)
    assert len(out.splitlines()) == 3 and "green" in out


SERVER = {}             # the process that the last `serve` of a page began, and its port


def served(line, there):
    """Started at a free port; the one before is told to end, and does so in order."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("httptools")
    stop_server()
    words = shlex.split(re.sub(r"--port \d+", "--port 0", line), comments=True)
    process = subprocess.Popen([sys.executable, "-P", *words[1:]], cwd=there, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    SERVER.update(process=process, port=re.search(r":(\d+)/", process.stdout.readline())[1])


def stop_server():
    if process := SERVER.pop("process", None):
        process.terminate()
        process.communicate()
        assert process.returncode == 0


@pytest.fixture(scope="module", autouse=True)
def no_server_stays():
    yield
    stop_server()


def asked(line, there):
    """What the server of the page answers is what the page shows."""
    from urllib import request
    if "process" not in SERVER:
        served(next(c for b, c in COMMANDS if line in b.text and " serve " in c), there)
    words = shlex.split(line)
    data = words[words.index("-d") + 1].encode() if "-d" in words else None
    address = re.sub(r":\d+/", f":{SERVER['port']}/", words[-1])
    found = request.urlopen(request.Request(address, data), timeout=30).read().decode()
    assert any(found + "\n" in b.output for b in BLOCKS if line in b.text), found


def launched(line, there):
    """As many processes as it says run a script that tells who they are."""
    words = shlex.split(line)[3:]
    (there / "who.py").write_text("from pyflow.distributed import launch\n"
                                  "print(launch.task().label)\n", encoding="utf-8")
    words[-1] = str(there / "who.py")
    said = tool(words)
    assert "[worker-0] worker-0\n" in said, said


# What is run: a pattern of a line, or of a whole block, and how.
RUN = {
    r"python -m pyflow launch .*": launched,
    r"python -m pyflow serve .*": served,
    r"curl .*": asked,
    r"python -m pyflow (?!verify-resume |serve |launch ).*":
        lambda line, there: tool(shlex.split(line, comments=True)[3:]),
    r"PYFLOW_TRACE=t\.json python train\.py.*": traced,
    r"PYFLOW_DUMP=/tmp/graphs python train\.py.*": dumped,
    r"python examples/label_image/label_image\.py .*": labelled,
    r"at\(\) \{.*": embedded,
}


def names_of_make():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", text, re.M)) | {"demo", "test"}
    return targets, set(re.findall(r"\$[({](\w+)", text)) | set(re.findall(r"\(or \$\((\w+)", text))


def check_make(words):
    targets, variables = names_of_make()
    for word in words[1:]:
        name, given, _ = word.partition("=")
        assert name in (variables if given else targets), f"make knows no {name}"


def check_long(words):
    """The experiment is one of the list's, its own words among those of its script."""
    named = [word for word in words[2:] if not word.startswith("-")][:1]
    from_list = next((e for name, e in long_list().items() if [name] == named), None)
    assert from_list or words[2:] in ([], ["--markdown"]) or named == ["NAME"], words
    if "--count" in words:
        assert from_list.count, words
    if "--" in words:
        scripts = " ".join((ROOT / w).read_text(encoding="utf-8") for c in from_list.commands
                           for w in c.split() if w.endswith(".py"))
        for word in words[words.index("--") + 1:]:
            assert not word.startswith("--") or f'"{word}"' in scripts, words


def long_list():
    return runpy.run_path(str(ROOT / "tests/long.py"))["EXPERIMENTS"]


def check_script(words):
    """The script is there and knows the options."""
    [at] = [k for k, word in enumerate(words) if word.endswith(".py")][:1]
    text = (ROOT / words[at]).read_text(encoding="utf-8")
    for word in words[at + 1:]:
        if word.startswith("--"):
            assert f'"{word}"' in text, f"{words[at]} knows no {word}"


def check_pip(words):
    """What is built is there; a build option is one of meson.options."""
    for word in words:
        if option := re.match(r"-C(?:setup-args=)?-D(\w+)=", word):
            files = [*ROOT.glob("meson.options"), *ROOT.glob("*/*/meson.options")]
            assert any(f"option('{option[1]}'" in f.read_text() for f in files), word
        elif word.startswith(("pyflow-dataflow", "plugins/")):
            assert word.startswith("pyflow-dataflow") or (ROOT / word / "pyproject.toml").exists()


def check_pytest(words):
    for word in words[words.index("pytest") + 1:]:
        assert word.startswith("-") or (ROOT / word).exists(), word


def check_template(words):
    [name] = [word for word in words if word.startswith(("pyflow.", "jobset."))]
    assert (ROOT / "pyflow/distributed/launch/templates" / name).is_file()


# What is not run: why, and what is looked at instead.
CHECKED = {
    r"make .*": ("minutes to hours; CI runs demo, test, cuda, compile-all, test-matrix",
                 check_make),
    r"(pip|wheel) .*": ("builds and installs; tests/abi/test_plugin_hello.py does it", check_pip),
    r"cd examples/plugin_hello": ("part of the build above",
                                  lambda words: os.stat(ROOT / words[1])),
    r"(sbatch|kubectl) .*": ("needs Slurm, Kubernetes; tests/distributed/test_launch.py runs what "
                             "they start as local processes", check_template),
    r"kill -USR1 PID .*": ("needs a stuck process; tests/session/test_stuck.py has one",
                        lambda words: os.stat(ROOT / "tests/session/test_stuck.py")),
    r"python examples/02_without_python/freeze\.py": (
        "trains for seconds; tests/abi/test_frozen.py runs it", check_script),
    r"python examples/01_digits\.py.*": ("make demo runs it", check_script),
    r"python examples/fine_tune\.py.*": (
        "trains for seconds; tests/onnx/test_fine_tune.py runs it", check_script),
    r"python examples/(cifar10|word2vec|char_rnn|attention|dqn|vae)\.py.*": (
        "trains for a minute or more; tests/examples/test_examples.py runs it small", check_script),
    r"python examples/distributed/digits\.py.*": (
        "trains for a minute; tests/distributed/test_digits.py runs it small", check_script),
    r"python -m pyflow verify-resume .*": (
        "kills a training for minutes; tests/train/test_verify_resume.py runs it",
        lambda words: os.stat(ROOT / "pyflow/tools/verify_resume.py")),
    r"python tests/long\.py.*": ("minutes to hours; tests/users/test_long.py runs a short one",
                               check_long),
    r"(\.venv/bin/)?python benchmarks/.*": ("measures for seconds to an hour", check_script),
    r"PYTHONSAFEPATH=1 \.venv/bin/python -m pytest .*": ("tests do not run themselves",
                                                         check_pytest),
}


def commands_of(block):
    """Its commands: the lines, or the whole block where it defines a function for its lines."""
    if "() {" in block.text:
        return [block.text]
    return [line for line in block.text.splitlines() if line.strip()]


COMMANDS = [(block, line) for block in BLOCKS if block.language == "sh"
            for line in commands_of(block)]


def claims(rows, line):
    return [pattern for pattern in rows if re.fullmatch(pattern, line, re.S)]


def test_every_command_is_run_or_checked_once():
    for block, line in COMMANDS:
        assert len(claims(RUN, line)) + len(claims(CHECKED, line)) == 1, (block.id, line)
    for reason, _ in CHECKED.values():
        for name in re.findall(r"tests/[\w/]+\.py", reason):
            assert (ROOT / name).is_file(), reason
    for rows in (RUN, CHECKED):
        for pattern in rows:
            assert any(claims([pattern], line) for _, line in COMMANDS + INLINE), pattern


@pytest.mark.parametrize("block, line", COMMANDS,
                         ids=[f"{b.id}-{line.split('  ')[0][:40]}" for b, line in COMMANDS])
def test_commands(block, line, there):
    for pattern in claims(RUN, line):
        if "trace t.json" in line and not (there / "t.json").exists():
            traced("PYFLOW_TRACE=t.json python train.py", there)
        RUN[pattern](line, there)
    for pattern in claims(CHECKED, line):
        CHECKED[pattern][1](shlex.split(line, comments=True))


def inline_commands():
    for path in PAGES:
        for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(path)):
            code = " ".join(code.split())
            if re.match(r"(python|make|pip|\.venv/bin/python) \S", code):
                yield Block(path.relative_to(ROOT).as_posix(), 0, "sh", code, ""), code


INLINE = list(inline_commands())


def test_commands_in_the_text():
    """Their words in capitals stand for something of the reader's."""
    assert len(INLINE) > 20
    for block, line in INLINE:
        words = shlex.split(line)
        if words[:3] == ["python", "-m", "pyflow"]:
            check_tool(words[3:])
        elif words[:2] == ["python", "-c"]:
            assert eval_prints(words[2])
        elif words[:3] == ["python", "-m", "pdb"]:
            assert importlib.util.find_spec("pdb")
        else:
            [pattern] = claims(CHECKED, line)
            CHECKED[pattern][1](words)


def check_tool(words):
    if not words or words[0].startswith("-"):
        return tool(words) if words else None
    assert words[0] in command.COMMANDS, words
    source = inspect.getsource(importlib.import_module(f"pyflow.tools.{words[0]}"))
    for word in words[1:]:
        assert not word.startswith("--") or f'"{word}"' in source, words
    return None


def eval_prints(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    return out.getvalue().strip()


# ---------------------------------------------------------------- links and names
def anchors(path):
    """GitHub's names of the headings."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    for title in re.findall(r"^#+ (.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", LINKING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists() and ROOT in [file, *file.parents], (path.name, target)
        if anchor:
            assert anchor in anchors(file), (path.name, target)


TOP = {p.name for p in ROOT.iterdir() if p.is_dir()} - {"build", "dist"}


def named_files(path):
    """Names in the text that begin with a folder of the tree."""
    for code in re.findall(r"`([\w.+/-]+)`", prose(path)):
        if code.split("/")[0] in TOP and "/" in code:
            yield code


@pytest.mark.parametrize("path", PAGES + [ROOT / "benchmarks/NOTES.md"], ids=lambda path: path.stem)
def test_files_named_in_the_text_exist(path):
    for name in named_files(path):
        assert (ROOT / name).exists(), f"{path.name}: {name}"


# Names of the reader's own files, and of what a build makes.
ELSEWHERE = {"train.py", "program.c", "cube.c", "config_pb2.py"}


def test_sources_named_alone_exist():
    """`gemm_amx.c` without its folder, as decisions and notes name kernels."""
    there = {p.name for folder in TOP - {".git"} for p in (ROOT / folder).rglob("*.*")
             if p.suffix in (".c", ".h", ".py", ".pyx", ".pxi")}
    for path in PAGES + [ROOT / "benchmarks/NOTES.md"]:
        for name in re.findall(r"`(\w+\.(?:c|h|py|pyx|pxi))`", prose(path)):
            assert name in there | ELSEWHERE, f"{path.name}: {name}"


def test_every_environment_variable_is_listed():
    listed = re.findall(r"^\| `(PYFLOW_\w+)`", section("docs/settings.md", "Environment variables"),
                        re.M)
    assert sorted(listed) == sorted(config.VARIABLES)
    for path in PAGES:
        for name in re.findall(r"\bPYFLOW_[A-Z_]+\b", path.read_text(encoding="utf-8")):
            assert name in config.VARIABLES or name == "PYFLOW_ORACLE", (path.name, name)


def test_every_own_argument_of_sessions_is_listed():
    listed = re.findall(r"`(\w+)`", "\n".join(
        line.split("|")[1] for line in section("docs/settings.md", "Arguments of `tf.Session`")
        .splitlines() if line.startswith("| `")))
    own = set(inspect.signature(tf.Session).parameters) - {"target", "graph", "config"}
    assert set(listed) == own


def test_fields_of_config_exist():
    rows = re.findall(r"^\| (`.*?) \|", section("docs/settings.md", "Switches of `tf.ConfigProto`"),
                      re.M)
    assert len(rows) > 3
    for row in rows:
        for name in re.findall(r"`([\w.]+[a-z])(?:\.\*)?`", row):
            message = tf.ConfigProto()
            for part in name.split("."):
                assert hasattr(message, part), name
                message = getattr(message, part)


MADE = {"build", "dist"}                # by `make`, at the root
MADE_FILES = {".so", ".o", ".pyc", ".pyi"}


def folders_on_the_map():
    """The folders of the first cells of the tables, and those named by their last part in a row."""
    found = set()
    rows = re.findall(r"^\| ((?:`[\w/]+/`(?:, )?)+) \|(.*)\|$",
                      (ROOT / "docs/map.md").read_text(encoding="utf-8"), re.M)
    for first, rest in rows:
        named = re.findall(r"`((?:\w+/)+)`", first)
        found.update(name.rstrip("/") for name in named)
        found.update(named[-1] + name for name in re.findall(r"`(\w+)/`", rest))
    return found


def holds_sources(folder):
    return any(p.is_file() and p.suffix not in MADE_FILES and "__pycache__" not in p.parts
               for p in folder.rglob("*"))


def test_the_map_names_every_folder():
    """And no other: where it names one of a folder's folders, it names all that hold sources."""
    named = folders_on_the_map()
    assert len(named) > 150 and not [name for name in named if not holds_sources(ROOT / name)]
    above = {str(pathlib.PurePosixPath(name).parent) for name in named}
    there = {p.relative_to(ROOT).as_posix() for folder in above for p in (ROOT / folder).iterdir()
             if p.is_dir() and not p.name.startswith(".") and holds_sources(p)}
    assert there - MADE - named - above == set(), "docs/map.md lacks them"
    floors = re.findall(r"^\| `(\w+)` \|", section("docs/map.md", "Floors of the core"), re.M)
    assert sorted(floors) == sorted(p.name for p in (ROOT / "_executor/core").iterdir()
                                    if p.is_dir() and any(f.suffix in (".pyx", ".c")
                                                          for f in p.iterdir()))


def test_what_is_said_to_be_missing_is_missing():
    """When it comes, the text changes."""
    text = " ".join(section("docs/limits.md", "The library").split("`python -m")[0].split())
    for name in re.findall(r"`tf\.([\w.]+)`", text.split("and `tf.contrib`")[0]):
        with pytest.raises(AttributeError):
            getattr(tf, name)


def test_messages_of_missing_names_are_about_missing_names():
    """`_names.NOT_HERE`: what has come since is no longer said to be missing."""
    from pyflow import _names
    for name in _names.NOT_HERE:
        found = tf
        for part in name.split("."):
            found = getattr(found, part, None)
        assert found is None, f"tf.{name} is here, and its message says it is not"


def test_flags_in_the_text_exist():
    """`--flag` beside `python -m pyflow COMMAND` in a page is an option of that command."""
    options = {}
    for path in PAGES:
        for command, words in re.findall(r"`python\s-m\spyflow\s([a-z-]+)([^`]*)`", prose(path)):
            if command not in options:
                done = subprocess.run([sys.executable, "-m", "pyflow", command, "--help"],
                                      capture_output=True, text=True)
                options[command] = done.stdout
            for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", words.split(" -- ")[0]):
                if command in ("exec", "launch", "cluster", "verify-resume"):
                    continue            # of the program behind it, or of a command below it
                assert flag in options[command], f"{path.name}: {command} {flag}"


def test_public_names_in_the_text_exist():
    gone = {"docs/limits.md", "docs/differences.md", "docs/faq.md"}      # of what is not there
    for path in PAGES:
        if path.relative_to(ROOT).as_posix() in gone:
            continue
        text = re.sub(r"^- No `tf\..*?(?=^- )", "", prose(path), flags=re.S | re.M)
        for name in re.findall(r"`tf\.((?:\w+\.)*\w+)", text):
            found = tf
            for part in name.split("."):
                assert hasattr(found, part), f"{path.name}: tf.{name}"
                found = getattr(found, part)


# ---------------------------------------------------------------- form
@pytest.mark.parametrize("path", PAGES + [ROOT / "CHANGELOG.md", ROOT / "benchmarks/NOTES.md"],
                         ids=lambda path: path.stem)
def test_lines_are_short(path):
    """Rows of tables and blocks of code apart."""
    for number, line in enumerate(prose(path).splitlines(), 1):
        assert len(line) <= 100 or line.startswith(("|", "    ")), f"{path.name}: {line}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_decisions_are_short():
    text = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
    entries = re.findall(r"^### (.*)\n((?:.+\n)+)", text, re.M)
    assert len(entries) > 50 and len(entries) == text.count("\n### ")
    for title, body in entries:
        assert len(body.splitlines()) <= 8, title


def test_the_changelog_has_a_heading_a_release_and_a_line_a_change():
    """Under areas; an entry may have a second line.  The first release is that of pyproject.toml."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ", 1)[1].splitlines()
    releases = [line for line in ["## " + lines[0], *lines] if line.startswith("## ")]
    version = r"## \d+\.\d+\.\d+, (?:in work|\d{4}-\d\d-\d\d)"
    assert all(re.fullmatch(version, line) for line in releases), releases
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{releases[0][3:].split(",")[0]}"\n' in project
    for before, line in zip(lines, lines[1:]):
        assert not line or line.startswith(("## ", "### ", "- ")) or (
            line.startswith("  ") and before.startswith("- ")), line
    entries = [line for line in lines if line.startswith("- ")]
    assert len(entries) == len(set(entries)), sorted(entries)


def test_python_in_blocks_is_whole():
    """Every block imports what it uses, so that it can be copied."""
    for block in BLOCKS:
        if block.language == "python":
            names = {alias.asname or alias.name for node in ast.walk(ast.parse(block.text))
                     if isinstance(node, ast.Import) for alias in node.names}
            for name, module in (("tf", "pyflow"), ("np", "numpy")):
                assert f"{name}." not in block.text or name in names, (block.id, module)
