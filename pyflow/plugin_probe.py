"""Tries a plugin's library in a process of its own, once, and remembers what happened.

A library runs code when it is opened, asked for its tables, and started; what crashes there would
take the whole program with it, at its first session.  So an installed library that was not seen
before is opened, registered and started by a child process first (half a second).  The verdict
is kept in `plugins.json` under the user's cache folder ($XDG_CACHE_HOME or ~/.cache, pyflow/).

Invariants
    1. A verdict is about one file as it was (path, size, time of change), and one pyflow (same of
       its extension): whichever changes, the library is tried again.
    2. Only a crash or a hang is a verdict against a library.  One that is refused politely passes:
       the program itself will refuse it, with the same message every time.
    3. Where no child can be run (a frozen program, no processes left) a library counts as good, and
       nothing is remembered.
    4. The file of verdicts is replaced whole, so that two programs may write it; losing a verdict
       costs another try.

What it cannot see: a crash that comes later, in a kernel, or only on another machine or with
another driver, or a library that crashes only now and then.

    problem = verdict("/site-packages/acme/libacme.so")     # None: it may be opened
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile

PATIENCE = 60                       # seconds a library may take to be opened and started
MOST = 500                          # verdicts kept

log = logging.getLogger("pyflow")

_CHILD = """
import json, sys
path, preload, sys.path[:] = json.loads(sys.argv[1])
from pyflow import plugin_probe
plugin_probe.run_child(path, preload)
"""


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


def run_child(path, preload):
    """In the child: everything that a program does with the library before its first kernel."""
    from pyflow import _executor, plugins
    try:
        plugins._preload(preload)
        _executor.register_plugin(plugins._open(path), "probe")
    except Exception as e:          # refused: no crash
        print(e)
    sys.stdout.flush()
    os._exit(0)


def _run(path, preload):
    """(problem or None, whether that is final)."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None, False
    log.debug("trying plugin library %s", path)
    task = json.dumps([path, preload, [os.path.abspath(p) if p else os.getcwd() for p in sys.path]])
    try:
        done = subprocess.run([sys.executable, "-I", "-c", _CHILD, task], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                              cwd=tempfile.gettempdir(), check=False)
    except subprocess.TimeoutExpired:
        return _advice(path, f"did not finish opening within {PATIENCE} seconds"), True
    except OSError as e:
        log.debug("plugin library %s could not be tried: %s", path, e)
        return None, False
    if done.returncode >= 0:
        if done.returncode:
            log.debug("trying %s: %s", path, done.stderr.decode("utf-8", "replace")[-500:])
            return _advice(path, f"ended its process with exit status {done.returncode}"), True
        return None, True
    try:
        name = signal.Signals(-done.returncode).name
    except ValueError:
        name = f"signal {-done.returncode}"
    return _advice(path, f"crashed with {name}"), True


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
