"""The table of environment variables: reading, refusing, completeness, silence."""

import os
import re
import subprocess
import sys

import pytest

from pyflow import config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_values(monkeypatch):
    for name in config.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert config.value("PYFLOW_DEBUG") == 0 and config.value("PYFLOW_THREADS") is None
    monkeypatch.setenv("PYFLOW_DEBUG", " 3 ")
    monkeypatch.setenv("PYFLOW_STRICT_GRAPH", "Yes")
    monkeypatch.setenv("PYFLOW_DUMP", "/tmp/x")
    assert config.value("PYFLOW_DEBUG") == 3
    assert config.value("PYFLOW_STRICT_GRAPH") is True and config.value("PYFLOW_DUMP") == "/tmp/x"
    assert "now: /tmp/x" in config.table()


@pytest.mark.parametrize("name,text", [("PYFLOW_DEBUG", "9"), ("PYFLOW_DEBUG", "a"),
                                       ("PYFLOW_THREADS", "0"),
                                       ("PYFLOW_THREADS", "-2"), ("PYFLOW_STRICT_GRAPH", "maybe"),
                                       ("PYFLOW_CPU_ISA", "sse9")])
def test_malformed_values_say_what_is_possible(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=f"{name}={text!r}: expected"):
        config.value(name)


def _sources():
    for folder in ("pyflow", "_executor", "plugins", "include"):
        for path, _, files in os.walk(os.path.join(ROOT, folder)):
            for name in files:
                if name.endswith((".py", ".pyx", ".c", ".h")):
                    yield os.path.join(path, name)


def test_every_variable_read_is_in_the_table():
    missing = {}
    for path in _sources():
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        for name in re.findall(r"""(?:environ|getenv)\W+(?:get\W+)?["'](PYFLOW_[A-Z_]+)["']""",
        text):
            if name not in config.VARIABLES:
                missing[name] = path
    assert not missing


def test_table_documents_everything():
    text = config.table()
    for variable in config.VARIABLES.values():
        assert variable.name in text and len(variable.doc) > 20


def test_import_is_silent_and_adds_no_handler():
    code = ("import logging, pyflow.config as c, pyflow.framework.graph\n"
            "assert not c.logger.handlers and not logging.getLogger().handlers")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "" and done.stderr == "", done.stderr


def test_debug_shows_messages_where_no_logging_is_set_up():
    code = "import pyflow.config as c; assert c.debug_level() == 1; c.logger.debug('hello')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYFLOW_DEBUG": "1"})
    assert done.returncode == 0 and "DEBUG:pyflow:hello" in done.stderr
