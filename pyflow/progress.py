"""What long work says of itself: a bar on a terminal or in a notebook, lines in a log, nothing when
piped.

    from pyflow import progress

    for step in progress.steps(range(1000), "training"):
        ...

    with progress.of("writing", total=size, unit="B") as shown:
        for block in blocks:
            file.write(block)
            shown.add(len(block))

Where it goes: PYFLOW_PROGRESS is `auto` (default), `bar`, `lines` or `off`.  auto: a bar, in a
Jupyter notebook or if standard error is a terminal; else lines, where a program shows INFO messages
(tf.logging.set_verbosity(tf.logging.INFO), or a handler and level of the standard loggers
"tensorflow" or "pyflow"); else nothing.

Invariants
    1. Nothing is shown of what ends within DELAY_S seconds.  A bar is drawn at most 10 times a
       second, a line is logged at most every 10 s, or every tenth of the whole if a second has
       passed.
    2. No thread, no escape sequence but carriage return; a stream that fails is left alone.
    3. One bar at a time: what begins while another's is shown is silent.  Whoever logs a line to a
       terminal, on any thread, takes the bar away, writes, and draws it again, holding _pen.
    4. A notebook's bar is one display that changes.  IPython is asked only where it is loaded.
    5. A loop pays 40 ns a turn: the clock is read every so many turns, so that it is about every
       20 ms.

Threads: one Progress belongs to one thread; _pen guards what stands on the terminal.  Callers:
train.Saver, interop.onnx, framework's import of GraphDefs, examples.
"""
import functools
import html
import logging
import os
import sys
import threading
import time
import weakref

from pyflow import config

DELAY_S = 0.5
_DRAW_S, _LINE_S, _LOOK_S = 0.1, 10.0, 0.02
_MOST_TURNS = 1 << 12
_shown = None                   # refers weakly to the Progress whose bar stands on the terminal
_pen = threading.RLock()        # held by who writes where a bar may stand


def steps(iterable, what, total=None):
    """Gives the elements of `iterable` and shows how far it is.  total: of elements; default: its
    length, if it has one."""
    if total is None:
        total = len(iterable) if hasattr(iterable, "__len__") else None
    with of(what, total) as shown:
        if shown.is_silent:
            yield from iterable
            return
        turns, look = 0, shown.look
        wait = 1
        for element in iterable:
            yield element
            turns += 1
            if turns == wait:
                look(turns)
                turns, wait = 0, shown.turns
        shown.count += turns


def of(what, total=None, unit=""):
    """A Progress: of `total` things, or an unknown number (None); unit "B": bytes.  A context
    manager."""
    return Progress(what, total, unit)


def line(text):
    """Prints a line on standard output, above the bar that stands on the terminal, if one does."""
    _above_the_bar(functools.partial(print, text, flush=True))


def _above_the_bar(write, *args):
    """write(*args), where no bar stands meanwhile."""
    with _pen:
        shown = _standing()
        if shown is not None:
            shown.clear()
        write(*args)
        if shown is not None:
            shown.draw_again()


@functools.cache
def _watch_records():
    """From now on, what a handler that came since the bar was drawn writes is above it, too: the
    factory of records is asked before any handler is."""
    make = logging.getLogRecordFactory()

    def made(*args, **kwargs):
        if _standing() is not None:
            _keep_lines_whole()
        return make(*args, **kwargs)
    logging.setLogRecordFactory(made)


def _keep_lines_whole():
    """Has the handlers of all loggers that write to a terminal write above the bar."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = [h for logger in loggers for h in getattr(logger, "handlers", ())]
    for handler in (*handlers, logging.lastResort):
        if isinstance(handler, logging.StreamHandler) and "emit" not in vars(handler) \
                and _is_terminal(handler.stream):
            handler.emit = functools.partial(_above_the_bar, handler.emit)


def _new_pen():
    """A child's, whose parent's other threads may have held theirs."""
    global _pen
    _pen = threading.RLock()


os.register_at_fork(after_in_child=_new_pen)


def _standing():
    """The Progress whose bar stands on the terminal, or None."""
    return _shown() if _shown is not None else None


class Progress:
    """count: how far it is.  is_silent: nothing will be shown, whatever comes."""

    __slots__ = ("what", "total", "unit", "count", "turns", "values", "is_silent", "_begin",
                 "_seen", "_drawn", "_line", "_logged", "_logger", "_stream", "_bar", "_display",
                 "__weakref__")

    def __init__(self, what, total=None, unit=""):
        self.what, self.total, self.unit = what, total, unit
        self.count, self.turns, self.values = 0, 1, {}
        self._begin = self._seen = time.perf_counter()
        self._drawn = self._line = None         # when a bar was drawn, a line logged
        self._logged = 0                        # how far it was then
        self._stream = sys.stderr
        way = _way(self._stream)
        self._bar, self._logger = way == "bar", _logger() if way == "lines" else None
        self._display = _Display() if self._bar and _notebook() else None
        self.is_silent = way == "off"
        if self.is_silent:
            self.turns = _MOST_TURNS

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def add(self, count=1, **values):
        """`count` more are done.  values: what else to show, such as loss=0.25."""
        self.set(self.count + count, **values)

    def set(self, count, **values):
        """So many are done."""
        self.look(count - self.count)
        if values:
            self.values = values

    def look(self, more=0):
        """`more` are done; shows it if it is time."""
        self.count += more
        if self.is_silent:
            return
        now = time.perf_counter()
        self._pace(now)
        if now - self._begin < DELAY_S:
            return
        if self._bar:
            if self._drawn is None or now - self._drawn >= _DRAW_S:
                self._draw(now)
        elif self._is_time(now):
            self._log(now)

    def close(self):
        """The end: what was shown is shown a last time."""
        global _shown
        now = time.perf_counter()
        if self._bar and self._drawn is not None:
            with _pen:
                self._draw(now)
                self._write("\n")
        elif self._logger is not None and self._line is not None and self._logged != self.count:
            self._log(now)
        if _standing() is self:
            _shown = None
        self.is_silent = True

    def clear(self):
        """Takes the bar away until it is drawn again."""
        if self._drawn is not None:
            self._write("\r" + " " * self._columns() + "\r")

    def draw_again(self):
        """The bar that stood there, as it is now."""
        if self._drawn is not None and not self.is_silent:
            self._draw(time.perf_counter())

    def _pace(self, now):
        """How many turns until the clock is read again."""
        passed, self._seen = now - self._seen, now
        if passed < _LOOK_S / 2:
            self.turns = min(self.turns * 2, _MOST_TURNS)
        elif passed > _LOOK_S * 2:
            self.turns = max(1, self.turns // 4)

    # a bar
    def _draw(self, now):
        global _shown
        with _pen:
            if _standing() not in (None, self):
                return
            _shown, self._drawn = weakref.ref(self), now
            if self._display is not None:
                self.is_silent = not self._display.shows(self, now)
                return
            _watch_records()
            _keep_lines_whole()
            wide = self._columns()
            self._write("\r" + self.text(now, wide, _is_unicode(self._stream)).ljust(wide))

    def _columns(self):
        """How wide a bar may be; of a terminal that does not say, of 80 columns."""
        try:
            wide = int(os.environ.get("COLUMNS") or 0) or \
                os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            wide = 0
        return max(20, (wide or 80) - 1)

    def _write(self, text):
        if self._display is not None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):       # closed, or its reader went
            self.is_silent, self._bar = True, False

    # lines
    def _is_time(self, now):
        passed = now - (self._begin if self._line is None else self._line)
        tenth = self.total and self.count - self._logged >= self.total / 10
        return passed >= _LINE_S or tenth and passed >= 1

    def _log(self, now):
        self._line, self._logged = now, self.count
        self._logger.info("%s", self.text(now))

    def text(self, now=None, wide=0, unicode=False):
        """One line about it: at most `wide` columns with a bar, or all there is to say without."""
        seconds = max((time.perf_counter() if now is None else now) - self._begin, 1e-9)
        rate = self.count / seconds
        parts = [f"{self._amount(rate)}/s"]
        if self.total and 0 < self.count < self.total:
            parts.append(f"{_clock((self.total - self.count) / rate)} left")
        else:
            parts.append(_clock(seconds))
        parts += [f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                  for name, value in self.values.items()]
        done = self._amount(self.count)
        if not self.total:
            head, tail = f"{self.what}: ", ", ".join([done, *parts])
            return (head + tail)[:wide or None]
        share = min(1.0, self.count / self.total)
        head = f"{self.what}: {int(100 * share):3d}% "
        tail = ", ".join([f"{done}/{self._amount(self.total)}", *parts])
        room = wide - len(head) - len(tail) - 3
        if room < 5:
            return (head + tail)[:wide or None]
        full = int(min(room, 40) * share)
        bar = ("█" if unicode else "#") * full + ("░" if unicode else "-") * (min(room, 40) - full)
        return f"{head}{bar if unicode else '[' + bar + ']'} {tail}"

    def _amount(self, count):
        if self.unit != "B":
            return f"{count:.1f}" if isinstance(count, float) and count < 100 else f"{count:.0f}"
        unit = "B"
        for larger in ("kB", "MB", "GB"):
            if count >= 1000:
                count, unit = count / 1000, larger
        return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"


class _Display:
    """A bar in a notebook: one output of its cell, changed in place."""

    def __init__(self):
        self._handle = self._html = self._text = None

    def shows(self, progress, now):
        """Whether the front end took it."""
        text = progress.text(now)
        share = min(1.0, progress.count / progress.total) if progress.total else None
        at = f' value="{share:.4f}"' if share is not None else ""      # without: it goes to and fro
        self._text = text
        self._html = (f'<progress max="1"{at} style="width: 20em; vertical-align: middle">'
                      f"</progress> <code>{html.escape(text)}</code>")
        try:
            if self._handle is None:
                from IPython.display import display
                self._handle = display(self, display_id=True)
            else:
                self._handle.update(self)
        except Exception:       # whatever a front end raises: the work goes on
            return False
        return self._handle is not None

    def _repr_html_(self):
        return self._html

    def __repr__(self):
        return self._text or ""


def _notebook():
    """Whether this program is a notebook's kernel, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def _clock(seconds):
    seconds = int(round(seconds))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def _way(stream):
    """bar, lines or off."""
    asked = config.value("PYFLOW_PROGRESS")
    if asked == "lines":
        return "lines" if _logger() is not None else "off"
    if asked != "auto":
        return asked if stream is not None else "off"
    if _notebook() or _is_terminal(stream):
        return "bar"
    return "lines" if _logger() is not None else "off"


def _is_terminal(stream):
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError, AttributeError):       # closed, or not much of a stream
        return False


def _logger():
    """The logger that shows INFO messages, or None."""
    for name in ("tensorflow", "pyflow"):
        logger = logging.getLogger(name)
        if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
            return logger
    return None


def _is_unicode(stream):
    try:
        "█░".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
