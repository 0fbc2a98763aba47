"""Tries a plugin's library in a process of its own, once, and remembers what happened.

A library runs code when it is opened, asked for its tables, and started; what crashes there would
take the whole program with it, at its first session.  So an installed library that was not seen
before is opened, registered and started by a child process first (a fifth of a second).  The child
says how far it came, and in the end a word that no library knows.  The verdict is kept in `plugins.json` under the user's cache folder ($XDG_CACHE_HOME or ~/.cache, pyflow/).

Invariants
    1. A verdict is about one file as it was (path, size, time of change), and one pyflow (same of
       its extension): whichever changes, the library is tried again.
    2. Only a crash, a hang or an end of the process is a verdict against a library.  One that is
       refused politely passes: the program itself will refuse it, with the same message every time.
    3. Where no child can be run (a frozen program, no processes left), or it does not come as far
       as the library, the library counts as good, and nothing is remembered.  Nor is it where
       somebody else ended the child (SIGKILL for want of memory, SIGTERM), but then the library
       is not opened this time.
    4. The file of verdicts is replaced whole, so that two programs may write it; losing a verdict
       costs another try.

What it cannot see: a crash that comes later, in a kernel, or only on another machine or with
another driver, or a library that crashes only now and then.

    problem = verdict("/site-packages/acme/libacme.so")     # None: it may be opened
"""

import contextlib
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile

PATIENCE = 60                       # seconds a library may take to be opened and started
MOST = 500                          # verdicts kept

log = logging.getLogger("pyflow")

_CHILD = """
import json, sys
path, preload, sys.path[:], word = json.loads(sys.stdin.readline())
from pyflow import plugin_probe
plugin_probe.run_child(path, preload, word)
"""
STAGES = {                          # what the child says -> what it does next
    "": "before it was opened",
    "opening": "while it was opened",
    "entering": "in its entry function",
    "starting": "in its start function, or while its tables were read",
}
FROM_OUTSIDE = {getattr(signal, name, None) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")}


def verdict(path, preload=()):
    """Why the library at `path` must not be opened, or None.

    preload: as in plugin.json, libraries to open before it.
    """
    key = _key(path)
    known = _read()
    if key in known:
        return known[key]
    problem, final = _run(path, list(preload))
    if final:
        known.pop(key, None)
        known[key] = problem
        _write(known)
    return problem


def run_child(path, preload, word):
    """In the child: everything that a program does with the library before its first kernel."""
    from pyflow import _executor, plugins
    say = os.dup(1)                 # whatever a library does to stdout
    os.dup2(2, 1)
    try:
        os.write(say, b"opening\n")
        plugins._preload(preload)
        address = plugins._open(path, lambda: os.write(say, b"entering\n"))
        os.write(say, b"starting\n")
        _executor.register_plugin(address, "probe")
        if hasattr(_executor, "register_links"):
            _executor.register_links(address, lambda problem: None)
    except Exception as e:          # refused: no crash
        print(e, file=sys.stderr, flush=True)
    os.write(say, word.encode())
    os._exit(0)


def _run(path, preload):
    """(problem or None, whether that is final)."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None, False
    log.debug("trying plugin library %s", path)
    word = secrets.token_hex(16)
    search = [os.path.abspath(p) if p else os.getcwd() for p in sys.path]
    task = json.dumps([path, preload, search, word]) + "\n"
    try:
        status, said, errors = _child(task.encode())
    except OSError as e:
        log.debug("plugin library %s could not be tried: %s", path, e)
        return None, False
    if said.endswith(word):
        return None, True
    if not said:
        log.debug("trying %s: the child did not start: %s", path, errors[-500:])
        return None, False
    log.debug("trying %s: %s", path, errors[-500:])
    return _judge(path, status, STAGES.get(said.split("\n")[-2], ""))


def _child(task):
    """(exit status or None: it did not end in time, what it said, its stderr).  Files, not pipes:
    a process that a library left behind may keep a pipe open."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        child = subprocess.Popen([sys.executable, "-I", "-c", _CHILD], stdin=subprocess.PIPE, stdout=said,
                                 stderr=errors, cwd=tempfile.gettempdir(), start_new_session=True)
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(task)
                child.stdin.close()
            status = child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(OSError):  # and whatever the library started
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        texts = []
        for file in (said, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return status, *texts


def _judge(path, status, where):
    """As `_run`, of a child that did not come to the end."""
    if status is None:
        return _advice(path, f"did not come back within {PATIENCE} seconds {where}"), True
    if status >= 0:
        return _advice(path, f"ended its process with exit status {status} {where}"), True
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if -status in FROM_OUTSIDE:
        return (f"{path} was tried in a process of its own, which {name} ended {where} (no memory left?): "
                f"it is not opened in this one, and tried again next time"), False
    return _advice(path, f"crashed with {name} {where}"), True


def _advice(path, what):
    return (f"{path} {what} when it was tried in a process of its own, and is not opened in this "
            f"one: install a build for this machine, or delete {_file()} to have it tried again")


# ---------------------------------------------------------------- verdicts

def _file():
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(folder, "pyflow", "plugins.json")


def _key(path):
    from pyflow import _executor
    parts = []
    for file in (path, _executor.__file__):
        try:
            s = os.stat(file)
            parts.append(f"{os.path.realpath(file)}:{s.st_size}:{s.st_mtime_ns}")
        except OSError:
            parts.append(file)
    return "|".join(parts)


def _read():
    try:
        with open(_file(), encoding="utf-8") as f:
            known = json.load(f)
        if isinstance(known, dict) and all(v is None or isinstance(v, str) for v in known.values()):
            return known
    except (OSError, ValueError):
        pass
    return {}


def _write(known):
    file = _file()
    temporary = None
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(file), prefix="plugins.")
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            json.dump(dict(list(known.items())[-MOST:]), f, indent=1)
        os.replace(temporary, file)
    except OSError as e:
        log.debug("the verdict on a plugin cannot be kept in %s: %s", file, e)
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
