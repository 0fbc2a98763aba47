"""Frames of the user's program, made anew: so that a traceback, `pdb.pm()` and breakpoints lead to
the line that made an operation, although that line ran long before.

A frame made here has the file, function name and line of the user's, the globals of the user's
module (a copy), and as locals what the caller gives.  Around it lie frames for the user's own
callers of that line, up to the function that is running now.

Invariants
    1. The frame of the line itself is the innermost one: what it raises has it at the end of its
       traceback.
    2. Nothing of the user's program is run.

Threads: any.

    call_at(op.origin, {"op": op}, action)                 # action() is called in that frame
    raise_at(op.origin, {"op": op}, ValueError("..."))
"""
import ast
import functools
import linecache
import sys
import types

from pyflow.framework import origin as origin_lib


def call_at(origin, values, action):
    """action(), called from a frame at the user's line whose locals are `values`."""
    _enter(origin, {**values, "_action": action}, "return _action()")


def raise_at(origin, values, error, cause=None):
    """Raises `error` (from `cause`) in a frame at the user's line whose locals are `values`."""
    if cause is not None:
        _enter(origin, {**values, "error": error, "cause": cause}, "raise error from cause")
    _enter(origin, {**values, "error": error}, "raise error")


def _enter(origin, values, statement):
    tracer = sys.gettrace()
    sys.settrace(None)                  # a debugger sees the user's frames, not how they are made
    try:
        step = _prepared(origin, values, statement)
    finally:
        sys.settrace(tracer)
    return step()


def _prepared(origin, values, statement):
    frames = _frames_to_show(origin)
    inner = _function(frames[0], tuple(values), statement)
    step = functools.partial(inner, **values)
    for frame in frames[1:]:
        step = functools.partial(_function(frame, ("_inner",), "return _inner()"), _inner=step)
    return step


def _frames_to_show(origin):
    """The user's line, then its callers in the user's files that are not running now, innermost
    first."""
    frames = origin_lib.frames(origin)
    running, frame = set(), sys._getframe(1)
    while frame is not None:
        running.add(frame.f_code)
        frame = frame.f_back
    shown = frames[:1]
    if origin[0] in running:
        return shown
    for k in range(1, len(frames)):
        if origin[2 * k] in running:
            break
        if not origin_lib.is_internal(frames[k].filename):
            shown.append(frames[k])
    return shown


def _function(frame, names, statement):
    """A function with those parameters that consists of `statement` and lies at `frame`."""
    key = (frame.filename, frame.lineno, frame.function, names, statement)
    code = _codes.get(key)
    if code is None:
        code = _codes[key] = _compile(frame, names, statement)
    return types.FunctionType(code, _globals_of(frame.filename))


_codes = {}


def _compile(frame, parameters, statement):
    tree = ast.parse(f"def _made_({', '.join(parameters)}):\n {statement}\n")
    line = linecache.getline(frame.filename, frame.lineno)
    start, end = len(line) - len(line.lstrip()), len(line.rstrip().encode())
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = frame.lineno
            node.col_offset, node.end_col_offset = start, max(end, start + 1)
    module = compile(tree, frame.filename, "exec")
    [code] = [c for c in module.co_consts if isinstance(c, types.CodeType)]
    names = ("co_name", "co_qualname") if hasattr(code, "co_qualname") else ("co_name",)
    return code.replace(**dict.fromkeys(names, frame.function))


def _globals_of(filename):
    """A copy of the globals of the module made from that file."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return dict(vars(module))
    return {"__name__": "__user__", "__file__": filename}
