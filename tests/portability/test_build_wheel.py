"""_executor/build_wheel.py: what people see while the wheel is built."""
import importlib.util
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[2] / "_executor" / "build_wheel.py"


def load():
    spec = importlib.util.spec_from_file_location("build_wheel", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_progress_is_said_by_tenths(capsys):
    lines = ["Building wheels\n", *[f"  [{i}/40] Compiling C object x.o\n" for i in range(1, 41)]]
    last = load().show(lines)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "compiling 4 of 40" and said[-1] == "compiling 40 of 40" and len(said) == 10
    assert last[-1] == lines[-1]


def test_a_failed_build_shows_its_end(capsys, monkeypatch):
    build = load()

    class Pip:
        returncode, stdout = 3, ["[1/2] Compiling a.c\n", "a.c:1: error: no\n"]

        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass
    asked = []
    monkeypatch.setattr(build.subprocess, "Popen", lambda command, **_: asked.append(command) or Pip())
    assert build.main(["-Csetup-args=-Disa=baseline"]) == 3
    said = capsys.readouterr().out
    assert said.startswith("building the wheel on ") and "error: no" in said
    assert "-Csetup-args=-Disa=baseline" in asked[0] and "three instruction sets" not in said
