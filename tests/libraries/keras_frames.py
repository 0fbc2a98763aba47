"""A pytest plugin that writes one JSON line per test of Keras: how it ended, and where it failed.

    KERAS_FRAMES=out.jsonl python -m pyflow exec --old-python -m pytest -p keras_frames tests/...

A line: {"test", "outcome": passed | skipped | failed, "seconds", and of a failure "error" (type and
first lines), "frames": ["file:line function", ...] of the exception and those it came from}. A test
fails with the first of set-up, call and tear-down that does.
"""
import json
import os
import traceback

import pytest

_ends = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    end = _ends.setdefault(item.nodeid, {"test": item.nodeid, "outcome": "passed", "seconds": 0.0})
    end["seconds"] = round(end["seconds"] + report.duration, 3)
    if end["outcome"] != "failed" and report.outcome != "passed":
        end["outcome"] = report.outcome
        if report.outcome == "failed":
            end.update(_told(call.excinfo.value))
        else:
            end["error"] = str(report.longrepr[2] if report.longrepr else "")
    if report.when == "teardown":
        _write(_ends.pop(item.nodeid))


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    report = (yield).get_result()
    if report.failed:
        text = str(report.longrepr)
        _write({"test": collector.nodeid, "outcome": "failed", "seconds": 0.0,
                "error": "\n".join(line[2:].strip() for line in text.splitlines() if line[:2] == "E "),
                "frames": [line for line in text.splitlines() if ": in " in line]})


def _told(error):
    """The error's text and the frames of its chain, the innermost last."""
    chain, frames = error, []
    while chain is not None:
        frames = [f"{f.filename}:{f.lineno} {f.name}"
                  for f in traceback.extract_tb(chain.__traceback__)] + frames
        if chain.__cause__ is None and chain.__suppress_context__:
            break
        chain = chain.__cause__ or chain.__context__
    text = f"{type(error).__name__}: {error}"
    return {"error": text[:500], "frames": [f for f in frames if "/_pytest/" not in f
                                            and "/pluggy/" not in f]}


def _write(end):
    with open(os.environ["KERAS_FRAMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(end) + "\n")
