"""`python -m pyflow trace`: golden texts of committed traces, and the critical path."""

import json
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pyflow.session.trace_records import Event
from pyflow.tools import trace, trace_report

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("name", ["run_metadata.pb", "small_trace.json", "tf_like.json"])
def test_golden(name, capsys):
    assert trace.main([str(HERE / name), "--top", "6"]) == 0
    assert capsys.readouterr().out == (HERE / f"{name}.txt").read_text()


def event(name, start, end, step=0, kind="kernel", lane=0, iteration=()):
    return Event(kind, step, name, "Op", "", lane, start, start, end, end, "", iteration, 0,
                 False, 1, [])


def steps(inputs):
    return [SimpleNamespace(id=1, plan=SimpleNamespace(inputs=inputs, keys={}, lines={}))]


def test_critical_path_follows_edges_not_threads():
    inputs = {"b": ["a"], "c": ["a:1"], "d": ["b", "c"], "e": ["^d"]}
    events = [event("a", 0, 10), event("b", 10, 15), event("c", 10, 40, lane=1),
              event("d", 50, 60), event("e", 60, 61), event("alone", 0, 45, lane=2)]
    length, path = trace_report.critical_path(steps(inputs), events)
    assert [e.name for e in path] == ["a", "c", "d", "e"] and length == 10 + 30 + 10 + 1


def test_critical_path_through_a_loop():
    inputs = {"work": ["merge"], "next": ["work"], "merge": ["start", "next"], "exit": ["work"]}
    events = [event("start", 0, 1)]
    for k in range(4):
        at = 10 * k + 1
        events += [event("work", at, at + 8, iteration=(k,)),
                   event("next", at + 8, at + 9, iteration=(k,))]
    events.append(event("exit", 50, 52))
    length, path = trace_report.critical_path(steps(inputs), events)
    assert [e.name for e in path] == ["start", *["work", "next"] * 3, "work", "exit"]
    assert length == 1 + 4 * 8 + 3 + 2


def test_self_time_leaves_out_what_is_nested():
    events = [event("outer", 0, 100), event("inner", 10, 40), event("deep", 20, 30),
              event("other", 10, 90, lane=1), event("wait", 5, 500, kind="async")]
    assert list(trace_report.self_times(events).values()) == [70, 20, 10, 80, 495]


def test_spans_and_sizes():
    assert [trace_report.span(n) for n in (1, 999, 1500, 2.5e6, 3e9)] == [
        "0.001 us", "0.999 us", "1.5 us", "2.5 ms", "3 s"]
    assert [trace_report.size(n) for n in (5, 2048, 3e9)] == ["5 B", "2.05 KB", "3 GB"]


@pytest.mark.parametrize("text, why", [
    (b"", "no node statistics"), (b"{}", "traceEvents"), (b"{", "as JSON"),
    (b"\x0a\xff\xff", "as RunMetadata")])
def test_what_is_no_trace(tmp_path, text, why, capsys):
    path = tmp_path / "x"
    path.write_bytes(text)
    assert trace.main([str(path)]) == 2
    assert why in capsys.readouterr().err
    path.write_text(json.dumps({"traceEvents": []}))
    assert trace.main([str(path)]) == 1 and "no kernels" in capsys.readouterr().err


def test_one_step_of_several(capsys):
    assert trace.main([str(HERE / "small_trace.json"), "--step", "2"]) == 0
    assert capsys.readouterr().out.startswith("1 step, ")
    assert trace.main([str(HERE / "small_trace.json"), "--step", "99"]) == 1
    assert "no step 99" in capsys.readouterr().err


def test_the_command_is_listed():
    shown = subprocess.run([sys.executable, "-m", "pyflow"], text=True, capture_output=True,
                           cwd=HERE.parents[1])
    assert " trace " in shown.stdout
