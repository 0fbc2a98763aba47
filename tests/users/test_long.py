"""tests/long.py and the Makefile: every experiment's files are there, CONTRIBUTING quotes the list,
and nobody is told to `make` what make does not know."""
import pathlib
import re
import runpy
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = runpy.run_path(str(ROOT / "tests/long.py"))
EXPERIMENTS = LONG["EXPERIMENTS"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PUBLIC = dict(re.findall(r"^([a-z-]+):.*?  ## (.+)", MAKEFILE, re.M))
PRIVATE = set(re.findall(r"^([a-z-]+):(?!.*##)", MAKEFILE, re.M))


def long(*words, cwd=None):
    return subprocess.run([sys.executable, ROOT / "tests/long.py", *words], capture_output=True,
                          text=True, cwd=cwd)


def test_contributing_quotes_the_list():
    """`python tests/long.py --markdown` prints it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"\n\n{LONG['markdown']()}\n\n" in text
    for name, row in EXPERIMENTS.items():
        assert f"\n{name}\n" in f"\n{LONG['listed']()}\n"
        assert row.asks and row.takes and row.commands, name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_s_files_are_there(name):
    """Scripts, the options they are given, environments and programs."""
    row = EXPERIMENTS[name]
    values = {"python": "python", "count": 7, "tenth": 1, "hundredth": 1,
              **dict.fromkeys(row.needs, "python")}
    assert set(row.needs) <= set(LONG["ENVIRONMENTS"]) | set(LONG["PROGRAMS"])
    used = {field for command in row.commands for field in re.findall(r"\{([\w-]+)\}", command)}
    assert used <= set(values) and ("count" in used) == (row.count is not None)
    assert used & set(LONG["ENVIRONMENTS"]) == set(row.needs) & set(LONG["ENVIRONMENTS"])
    for command in row.commands:
        _, words = LONG["words_of"](command, values, ["--extra"])
        scripts = [word for word in words
                   if word.endswith((".py", ".c")) or word.startswith("tests/")]
        assert scripts or "build-fuzz/fuzz" in words[0], command
        for script in scripts:
            there = (ROOT / script, ROOT / "tests/fuzz" / script)     # sanitize.py's --script
            assert any(path.exists() for path in there), script
        options_exist(command, words, scripts)


def options_exist(command, words, scripts):
    if "pytest" in words or not scripts:
        return
    text = (ROOT / scripts[0]).read_text(encoding="utf-8")
    text += (ROOT / "tests/fuzz/soaking.py").read_text(encoding="utf-8") if "soak" in command else ""
    for word in words:
        if word.startswith("--") and word != "--extra":
            assert f'"{word}"' in text, (command, word)


def test_words_of_a_command():
    words_of = LONG["words_of"]
    values = {"python": "p", "count": 3}
    assert words_of("A=1 B=x=y {python} -P s.py --count {count} ...", values, ["--one", "two"]) == (
        {"A": "1", "B": "x=y"}, ["p", "-P", "s.py", "--count", "3", "--one", "two"])
    assert words_of("all: {python} s.py", values, []) == ({}, ["p", "s.py"])
    assert words_of("all: {python} s.py", values, ["--only", "x"]) is None


def test_one_is_run():
    """With this Python; its count reaches the scripts."""
    done = long("queue-schedules", "--count", "20", "--python", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [shlex.split(line)[2:] for line in done.stdout.splitlines() if line.startswith("+ ")]
    script = "tests/queues/schedules.py"
    assert lines == [[script, "--count", "20", "--seed", "1"],
                     [script, "--count", "2", "--seed", "1", "--threads", "3"]]


@pytest.mark.parametrize("words, says", [
    (["nothing"], "there is no nothing; there are fuzz-graphs"),
    (["oracle", "--count", "3"], "oracle has no count"),
    (["oracle", "--", "--seed", "3"], "oracle takes no words behind --"),
    (["kills", "--count", "0"], "--count is a number above 0")])
def test_what_cannot_be_asked(words, says):
    done = long(*words)
    assert done.returncode in (1, 2) and says in done.stderr and "Traceback" not in done.stderr


def test_without_a_build_it_says_what_to_do(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/long.py").write_bytes((ROOT / "tests/long.py").read_bytes())
    done = subprocess.run([sys.executable, tmp_path / "tests/long.py", "kills"], text=True,
                          capture_output=True)
    assert done.returncode == 1 and "`make demo` builds it" in done.stderr


# ---------------------------------------------------------------- make

def test_make_has_about_a_dozen_targets_and_lists_them():
    assert 12 <= len(PUBLIC) <= 16 and len(PRIVATE) <= 5, (PUBLIC, PRIVATE)
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True)
    assert dict(line.split(maxsplit=1) for line in done.stdout.splitlines()) == PUBLIC
    assert not PUBLIC.keys() & EXPERIMENTS.keys()


def texts():
    """(name, text) of everything that a person reads."""
    for path in [*ROOT.glob("*"), *(ROOT / ".ci").iterdir()]:
        if path.is_file() and path.suffix in (".md", ".toml", ".build", ""):
            yield path.name, path.read_text(encoding="utf-8")
    for folder in ("docs", "tests", "benchmarks", "examples", "pyflow", "plugins", "_executor"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".md", ".py", ".pyx", ".c", ".h", ".txt", ".build", ".ipynb") \
                    and path.name != "test_long.py":
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_what_texts_have_people_make_is_there():
    """`make NAME` in backticks, NAME an experiment's anywhere, and every target of .ci/run."""
    known = PUBLIC.keys() | PRIVATE | {"PYTHON"}
    experiment = re.compile(rf"\bmake ({'|'.join(EXPERIMENTS)}|dist|test-blas)(?![\w-])")
    for name, text in texts():
        for words in re.findall(r"`make\s+([^`]+)`", text):
            for word in words.split():
                if re.fullmatch(r"[a-z][a-z-]*", word):
                    assert word in known, f"{name}: make {words}"
        if "make " in text:
            assert not experiment.search(text), f"{name}: {experiment.search(text)[0]}"
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for words in re.findall(r"(?:^|[;\"] |timeout \d+ )make ([^;|\"\n]+)", ci, re.M):
        for word in shlex.split(words, comments=True):
            assert word.startswith(("-", ".venv/")) or "=" in word or word in PUBLIC, words
