"""Where in the user's program something was made: cheap to record, formatted only when asked.

Invariants:
1. Recording stores (code object, instruction offset) pairs; lines are looked up on demand, so it
   costs about 2 us however long the files are, and no frame (with its locals) is kept alive.
2. The first recorded frame is the innermost one outside the pyflow package, when there is one.

Any thread; each call looks at its own stack.

    origin = here(); user_frame(origin)        # Frame(filename, lineno, function)
"""

import itertools
import os
import re
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MAX_FRAMES = 20
_is_internal = {}
# What runs a user's program and is no part of it: notebooks, shells, debuggers, test runners.
_HOSTS = re.compile(r"[/\\](IPython|ipykernel|idlelib|_pytest|pluggy|debugpy|_?pydev\w*)[/\\]"
                    r"|<frozen runpy>|[/\\](runpy|code|bdb|pdb)\.py$")


class Frame:
    """One place in a program. `str()` gives `file.py:12`."""

    __slots__ = ("filename", "lineno", "function")

    def __init__(self, filename, lineno, function):
        self.filename = filename
        self.lineno = lineno
        self.function = function

    @property
    def line(self):
        """The source text of the line, or '' if the file is gone."""
        import linecache
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self):
        return f"{_cell_name(self.filename) or self.filename}:{self.lineno}"

    def __repr__(self):
        return f"Frame({self.filename!r}, {self.lineno}, {self.function!r})"


def _check_internal(filename):
    internal = os.path.abspath(filename).startswith(_PACKAGE)
    _is_internal[filename] = internal
    return internal


def is_internal(filename):
    """Does the file belong to pyflow?"""
    known = _is_internal.get(filename)
    return _check_internal(filename) if known is None else known


def is_host(filename):
    """Does the file belong to what runs the user's program, such as IPython?"""
    return _HOSTS.search(filename) is not None


def _cell_name(filename):
    """`Cell In[3]` of a notebook's cell, as IPython calls it; None for other files."""
    if "IPython" not in sys.modules or "ipython-input" not in filename and "ipykernel_" not in filename:
        return None
    shell = sys.modules["IPython"].get_ipython()
    found = shell and shell.compile.format_code_name(filename)
    return found and " ".join(found)


def here(depth=1):
    """The caller's stack as a flat tuple (code, offset, code, offset, ...), innermost first."""
    frame = sys._getframe(depth)
    first = frame
    known = _is_internal.get
    while frame is not None:
        filename = frame.f_code.co_filename
        internal = known(filename)
        if internal is None:
            internal = _check_internal(filename)
        if not internal:
            break
        frame = frame.f_back
    if frame is None:
        frame = first
    flat = []
    for _ in range(_MAX_FRAMES):
        flat.append(frame.f_code)
        flat.append(frame.f_lasti)
        frame = frame.f_back
        if frame is None:
            break
    return tuple(flat)


def _line_number(code, offset):
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def frames(origin):
    """The recorded Frames, innermost first."""
    return [Frame(origin[i].co_filename, _line_number(origin[i], origin[i + 1]), origin[i].co_name)
            for i in range(0, len(origin), 2)]


def user_frame(origin):
    """The Frame of the user's line: the innermost one outside pyflow."""
    return Frame(origin[0].co_filename, _line_number(origin[0], origin[1]), origin[0].co_name)


def summaries(origin):
    """`traceback.FrameSummary` objects, outermost first, as TF's `op.traceback`."""
    import traceback
    return [traceback.FrameSummary(f.filename, f.lineno, f.function)
            for f in reversed(frames(origin))]


def format_trace(origin, limit=8):
    """The innermost `limit` recorded frames of the user's program as Python prints a stack,
    outermost first."""
    shown = [f for f in itertools.takewhile(lambda f: not is_host(f.filename), frames(origin))
             if "importlib._bootstrap" not in f.filename] or frames(origin)[:1]
    text = ["  ..."] if len(shown) > limit else []
    shown = shown[:limit]
    for frame in reversed(shown):
        file = _cell_name(frame.filename) or f'File "{frame.filename}"'
        text.append(f"  {file}, line {frame.lineno}, in {frame.function}")
        if frame.line:
            text.append(f"    {frame.line}")
    return "\n".join(text)
