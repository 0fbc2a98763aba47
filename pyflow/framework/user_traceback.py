"""What a notebook shows of an error: the user's frames, without pyflow's and without IPython's.

IPython asks an exception for `_render_traceback_`.  tf.errors have one; other errors get theirs
where they leave pyflow, through functions under `@told_to_users`.

Invariants
    1. Only the text changes: the exception keeps its traceback (%debug goes everywhere) and cause.
    2. Outside IPython nothing happens; with PYFLOW_DEBUG everything is shown.
    3. Frames of a user's function that pyflow called (py_func, a loop's body) are the user's.

Threads: any.

    @told_to_users
    def convert(value): ...
"""

import functools
import sys
import traceback
import types

from pyflow import config
from pyflow.framework import origin


def told_to_users(function):
    """Decorator: errors that come out of `function` show the user's frames in a notebook."""
    @functools.wraps(function)
    def calling(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            mark(error)
            raise
    return calling


def mark(error):
    """Lets `error` show the user's frames in a notebook."""
    if "IPython" in sys.modules and not hasattr(error, "_render_traceback_"):
        error._render_traceback_ = functools.partial(render, error)


def render(error):
    """The lines that IPython prints for `error`, those of its formatter."""
    frames = error.__traceback__ if config.value("PYFLOW_DEBUG") else of_user(error.__traceback__)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    try:
        if frames is not error.__traceback__:
            if cause is not None and _all_internal(cause):
                error.__cause__ = None
            if context is not None and _all_internal(context):
                error.__context__ = None
        if shell is None:
            return "".join(traceback.format_exception(type(error), error, frames)).splitlines()
        return shell.InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=0)
    finally:
        error.__cause__, error.__context__ = cause, context
        error.__suppress_context__ = suppressed


def of_user(frames):
    """A traceback of the user's frames in `frames`; `frames` itself where there is none."""
    kept, entry = [], frames
    while entry is not None:
        filename = entry.tb_frame.f_code.co_filename
        if origin.is_host(filename):
            kept.clear()                    # what called the user's program
        elif not origin.is_internal(filename):
            kept.append(entry)
        entry = entry.tb_next
    shown = None
    for entry in reversed(kept):
        shown = types.TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown or frames


def _all_internal(error):
    """Was it raised and caught in pyflow?"""
    return all(origin.is_internal(frame.f_code.co_filename)
               for frame, _ in traceback.walk_tb(error.__traceback__))
