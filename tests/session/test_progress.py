"""Progress: a bar on a terminal, lines in a log, nothing when piped; cheap; no stream is hurt."""
import io
import logging
import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
import types

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow import progress
from pyflow.train import file_progress

LOOP = """
    import time
    from pyflow import progress
    progress.DELAY_S, progress._LINE_S = 0.05, 0.15
    {before}
    for i in progress.steps(range(40), "training"):
        time.sleep(0.01)
        if i == 30:
            progress.line("hello")
"""
LOGGED = "import logging; logging.basicConfig(level=logging.INFO)"


def program(before=""):
    return [sys.executable, "-P", "-c", textwrap.dedent(LOOP).format(before=before)]


def on_terminal(command, **variables):
    """What a program writes to a terminal of 70 columns."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=follower,
                             env={**os.environ, "COLUMNS": "70", **variables})
    os.close(follower)
    text = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            block = os.read(leader, 4096)
        except OSError:                     # the child has closed it
            break
        if not block:
            break
        text += block
    assert child.wait(60) == 0
    os.close(leader)
    return text.decode("utf-8")


def test_a_bar_on_a_terminal():
    text = on_terminal(program(), PYTHONIOENCODING="utf-8")
    drawn = [part for part in re.split(r"[\r\n]+", text) if part.startswith("training: ")]
    assert 2 <= len(drawn) <= 42 and all(len(part) <= 70 for part in drawn)
    assert re.match(r"training: 100% █+ 40/40, [\d.]+/s, 0:\d\d", drawn[-1])
    assert "\r" + " " * 69 + "\rhello\r\n" in text and text.endswith("\n") and "\x1b" not in text


@pytest.mark.parametrize("arranged", [LOGGED, "import pyflow as tf; tf.logging.set_verbosity('INFO')"])
def test_a_line_that_is_logged_is_whole(arranged):
    """The bar is taken away before it."""
    told = program(arranged.replace("'INFO'", "20") + "; import logging")
    told[-1] = told[-1].replace('progress.line("hello")', "logging.getLogger('tensorflow').info('told')")
    text = on_terminal(told, PYTHONIOENCODING="utf-8")
    assert "\r" + " " * 69 + "\rINFO:tensorflow:told\r\n\rtraining: " in text


LOGGING_THREADS = """
    import logging, sys, threading, time
    from pyflow import progress
    progress.DELAY_S, progress._DRAW_S = 0, 0.001

    def log(name):
        handler = logging.StreamHandler()
        logger = logging.getLogger(name)
        logger.addHandler(handler)          # when a bar stands already
        for i in range(100):
            logger.warning("%s %d of a hundred", name, i)
            time.sleep(0.001)

    with progress.of("working", 1000) as shown:
        shown.add(300)
        threads = [threading.Thread(target=log, args=(name,)) for name in ("mine", "yours.too")]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            shown.add(1)
        logging.getLogger("mine").warning("quiet now")
        logging.warning("with nobody's handler")
        sys.stderr.write("END")             # nothing was looked at since, and the bar stands
"""


def lines_seen(text):
    """What stands in each line of a terminal that got `text`; carriage returns write over."""
    for line in text.replace("\r\n", "\n").split("\n"):
        seen = ""
        for part in line.split("\r"):
            seen = part + seen[len(part):]
        yield seen.rstrip()


def test_lines_of_other_threads_and_handlers_are_whole():
    """Also of a handler that came when the bar stood already; the bar stands again at once."""
    text = on_terminal([sys.executable, "-P", "-c", textwrap.dedent(LOGGING_THREADS)],
                       PYTHONIOENCODING="utf-8")
    lines = [line for line in lines_seen(text) if line]
    told = [f"{name} {i} of a hundred" for name in ("mine", "yours.too") for i in range(100)]
    rest = [line for line in lines if line not in set(told)]
    assert set(told) <= set(lines), rest
    assert [line for line in rest if not line.startswith("working: ")] == [
        "quiet now", "WARNING:root:with nobody's handler"]
    assert re.search(r"handler\r\n\rworking: [^\r]* *END", text)


class FakeNotebook:
    """IPython, as far as a bar asks: what a kernel's `display` is given and changed to."""

    def __init__(self, kernel=True):
        self.shown, self.updates = [], []
        shell = types.SimpleNamespace(kernel=object()) if kernel else types.SimpleNamespace()
        self.display = types.SimpleNamespace(display=self._display)
        self.get_ipython = lambda: shell

    def _display(self, what, display_id):
        self.shown.append(what._repr_html_())
        return types.SimpleNamespace(update=lambda w: self.updates.append((w._repr_html_(), repr(w))))


@pytest.fixture
def notebook(monkeypatch):
    made = FakeNotebook()
    monkeypatch.setitem(sys.modules, "IPython", made)
    monkeypatch.setitem(sys.modules, "IPython.display", made.display)
    monkeypatch.setattr(progress, "DELAY_S", 0)
    monkeypatch.setattr(progress, "_DRAW_S", 0)
    return made


def test_a_notebook_s_bar_is_one_display_that_changes(notebook, capsys):
    with progress.of("<b>reading</b>", 4) as shown:
        for loss in (0.5, 0.25, 0.125, 0.0625):
            shown.add(1, loss=loss)
    assert len(notebook.shown) == 1 and len(notebook.updates) == 4
    page, text = notebook.updates[-1]
    assert 'value="1.0000"' in page and "&lt;b&gt;reading" in page and "<b>" not in page
    assert text.startswith("<b>reading</b>: 100% 4/4") and "loss 0.0625" in text
    with progress.of("unknown") as shown:
        shown.add(3)
    assert "value=" not in notebook.updates[-1][0] and "3" in notebook.updates[-1][1]
    assert capsys.readouterr().err == ""


def test_a_notebook_whose_front_end_fails_and_a_shell_that_is_none(notebook, monkeypatch, capsys):
    def broken(what, display_id):
        raise OSError("no front end")
    notebook.display.display = broken
    assert list(progress.steps(range(3), "unseen")) == [0, 1, 2]
    monkeypatch.setitem(sys.modules, "IPython", FakeNotebook(kernel=False))
    assert list(progress.steps(range(3), "in a shell, piped")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_ipython_is_not_imported():
    code = "import sys; from pyflow import progress; list(progress.steps(range(9), 'x')); " \
           "print('IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYFLOW_PROGRESS": "bar"})
    assert done.stdout == "False\n"


def test_without_unicode_and_without_a_width():
    text = on_terminal(program(), PYTHONIOENCODING="ascii", COLUMNS="0")
    assert re.search(r"training: 100% \[#+\] 40/40", text)


def test_switched_off_on_a_terminal():
    assert on_terminal(program(), PYFLOW_PROGRESS="off") == "hello\r\n"


@pytest.mark.parametrize("before, mode, lines", [
    ("", "auto", 0), (LOGGED, "auto", 1), (LOGGED, "off", 0), ("", "lines", 0),
    ("import pyflow as tf; tf.logging.set_verbosity(tf.logging.INFO)", "auto", 1)])
def test_lines_in_a_log_and_nothing_when_piped(before, mode, lines):
    done = subprocess.run(program(before), capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYFLOW_PROGRESS": mode})
    assert done.returncode == 0 and done.stdout == "hello\n"
    said = done.stderr.splitlines()
    assert (2 <= len(said) <= 41) if lines else said == [], said
    assert all(re.match(r"INFO:tensorflow:training: +\d+% \d+/40, [\d.]+/s, ", s) for s in said)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    made = Terminal()
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=made, modules={}))
    monkeypatch.setattr(progress, "DELAY_S", 0)
    monkeypatch.setattr(progress, "_DRAW_S", 0)
    return made


def test_what_is_quick_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(progress, "DELAY_S", 0.5)
    assert list(progress.steps(range(1000), "quick")) == list(range(1000))
    assert terminal.getvalue() == ""


def test_unknown_totals_bytes_values_and_long_names(terminal):
    with progress.of("reading", unit="B") as shown:
        shown.add(1_500_000, loss=0.25, place="here")
        assert re.match(r"reading: 1\.5 MB, .*/s, 0:00, loss 0\.25, place here$", shown.text())
    with progress.of("x" * 100, 10) as shown:
        shown.set(5)
        assert len(shown.text(wide=60)) == 60 and shown.count == 5
    assert list(progress.steps((i for i in range(3)), "of a generator")) == [0, 1, 2]
    with progress.of("too many", 10) as shown:
        shown.add(20)
        assert "100%" in shown.text()


def test_one_bar_at_a_time(terminal):
    with progress.of("outer", 2) as outer:
        outer.add()
        with progress.of("inner", 2) as inner:
            inner.add()
        outer.add()
    assert "inner" not in terminal.getvalue() and terminal.getvalue().count("\n") == 1
    for _ in progress.steps(range(3), "left early"):
        break
    with progress.of("after", 2) as after:
        after.add()
    assert "after" in terminal.getvalue()


def test_an_error_in_the_loop_passes_and_a_broken_stream_is_left_alone(terminal, monkeypatch):
    with pytest.raises(KeyError):
        for i in progress.steps(range(3), "failing"):
            if i:
                raise KeyError
    assert terminal.getvalue().endswith("\n")
    terminal.close()
    assert list(progress.steps(range(3), "closed")) == [0, 1, 2]
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=None, modules={}))
    assert list(progress.steps(range(3), "none")) == [0, 1, 2]


def test_a_wrong_setting_is_named(monkeypatch):
    monkeypatch.setenv("PYFLOW_PROGRESS", "loud")
    with pytest.raises(ValueError, match="PYFLOW_PROGRESS='loud': expected auto|bar|lines|off"):
        progress.of("x")


@pytest.mark.alone
def test_a_turn_costs_less_than_a_hundredth_of_ten_microseconds(terminal, monkeypatch):
    """With the bar on, in time of this thread's own; the least of seven rounds."""
    monkeypatch.setattr(progress, "_DRAW_S", 0.1)
    turns = range(200_000)

    def seconds(items):
        start = time.thread_time()
        for _ in items:
            pass
        return time.thread_time() - start
    plain = min(seconds(turns) for _ in range(7))
    shown = min(seconds(progress.steps(turns, "measured")) for _ in range(7))
    assert "measured: 100%" in terminal.getvalue()
    assert (shown - plain) / len(turns) < 1e-7, (shown - plain) / len(turns)


# ---------------------------------------------------------------- checkpoints, imports
def test_a_step_is_looked_at_while_it_is_waited_for():
    calls = []
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [2], name="x")
        slow = tf.py_func(lambda v: time.sleep(0.3) or v * 2, [x], tf.float32)
        empty = tf.FIFOQueue(1, tf.float32).dequeue()
        found = sess.run_watched({"a": slow, "b": [x]}, {x: [1, 2]}, lambda: calls.append(1), 0.02)
        np.testing.assert_array_equal(found["a"], [2, 4])
        np.testing.assert_array_equal(found["b"][0], [1, 2])
        assert len(calls) >= 2

        def stop():
            raise KeyError("stop")
        start = clock()
        with pytest.raises(KeyError, match="stop"):
            sess.run_watched(empty, None, stop, 0.02)
        assert clock() - start < 5
        other = tf.placeholder_with_default(tf.ones([2, 2]), None)
        bad = tf.matmul(tf.ones([2, 3]), other, name="bad")
        with pytest.raises(tf.errors.InvalidArgumentError, match="'bad'"):
            sess.run_watched(bad, None, stop)


@pytest.mark.parametrize("file_format", ["pyflow", "tensorflow"])
def test_a_checkpoint_shows_its_bytes(terminal, tmp_path, monkeypatch, file_format):
    """48 MB; a disk may be too fast for more than the end to be seen."""
    monkeypatch.setattr(file_progress, "LEAST", 1 << 20)
    monkeypatch.setenv("PYFLOW_CHECKPOINT_FORMAT", file_format)
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.get_variable("v", [12 << 20], initializer=tf.ones_initializer())
        sess.run(v.initializer)
        saver = tf.train.Saver()
        path = saver.save(sess, str(tmp_path / "big"))
        saver.restore(sess, path)
    shown = re.split(r"[\r\n]+", terminal.getvalue())
    for word in ("saving big", "restoring big"):
        parts = [part for part in shown if part.startswith(f"{word}: ")]
        assert "100%" in parts[-1] and "50.3 MB/50.3 MB" in parts[-1], shown


def test_a_training_shows_its_steps(terminal, tmp_path):
    """Those of this start: a restored one begins at 0 again."""
    for start, last in ((0, 5), (5, 8)):
        with tf.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            train = tf.assign_add(step, 1)
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), log_step_count_steps=None,
                    save_summaries_steps=None, save_summaries_secs=None,
                    hooks=[tf.train.StopAtStepHook(last_step=last)]) as sess:
                while not sess.should_stop():
                    assert sess.run(train) > start
        shown = re.split(r"[\r\n]+", terminal.getvalue())
        count = last - start
        assert re.match(rf"training: 100% █+ {count}/{count}, ", shown[-2]), shown


def test_a_bar_that_nobody_holds_any_more_stands_in_nobodys_way(terminal):
    lost = progress.of("lost", 2)
    lost.add()
    del lost
    with progress.of("next", 2) as shown:
        shown.add()
    assert "next: " in terminal.getvalue()


def test_a_small_checkpoint_asks_nothing(terminal, tmp_path, monkeypatch):
    monkeypatch.setattr(file_progress, "_written", None)
    with tf.Graph().as_default(), tf.Session() as sess:
        sess.run(tf.get_variable("v", [3], initializer=tf.ones_initializer()).initializer)
        tf.train.Saver().save(sess, str(tmp_path / "small"))
    assert terminal.getvalue() == ""


def test_imports_show_their_nodes(terminal):
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0)
        for _ in range(200):
            x = x + 1.0
        tf.identity(x, name="y")
    with tf.Graph().as_default():
        tf.import_graph_def(graph.as_graph_def(), name="")
    assert re.search(r"importing nodes: 100% █+ 402/402", terminal.getvalue())
    from pyflow.interop import onnx
    data = onnx.export_graph_def(onnx_graph(), ["y:0"])
    onnx.import_model(data, graph=tf.Graph())
    assert re.search(r"importing ONNX nodes: 100% █+ 50/50", terminal.getvalue())


def onnx_graph():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        for _ in range(49):
            x = tf.tanh(x)
        tf.tanh(x, name="y")
    return graph.as_graph_def()


def test_the_logger_is_the_one_that_shows(monkeypatch):
    monkeypatch.setenv("PYFLOW_PROGRESS", "lines")
    monkeypatch.setattr(logging.getLogger("tensorflow"), "level", logging.WARNING)
    monkeypatch.setattr(logging.getLogger("pyflow"), "level", logging.INFO)
    logger, handler = logging.getLogger("pyflow"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        logger.manager._clear_cache()
        assert progress._logger() is logger
    finally:
        logger.removeHandler(handler)
        logger.manager._clear_cache()
