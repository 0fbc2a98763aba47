"""What all tests share.

Ctrl-C works even where the shell started us with SIGINT ignored (a background job, some CI).  And the current folder is
this one: a child process that `python -c` starts searches it first, and in the root of the source tree it would find the
sources `pyflow/` there instead of the pyflow that is installed and tested.
"""
import contextlib
import faulthandler
import gc
import os
import signal
import threading
import time

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HUNG = 300                              # seconds after which a test is given up, and with it the process
_stderr = None                          # the process' own, a copy: pytest catches the other while a test runs
_now = ("", time.monotonic())           # the test that runs, since when


def pytest_runtest_logstart(nodeid):
    global _now
    _now = (nodeid, time.monotonic())


def _give_up_what_hangs():
    """A test that hangs would be known by nobody: a run that is cut off tells no names.  Says last what is looked for
    first.  (pytest's faulthandler_timeout starts a thread for each test, which costs more than many a test.)"""
    test, since = _now
    while not test or time.monotonic() - since < HUNG:
        faulthandler.dump_traceback_later(HUNG + 60, exit=True, file=_stderr)   # should a thread keep the GIL for itself
        time.sleep(10)
        test, since = _now
    faulthandler.dump_traceback(file=_stderr)
    children = _descendants(os.getpid())
    told = "".join(f"  process {pid}, {state}: {words}\n" for pid, (state, words) in children.items())
    os.write(_stderr, f"\n{told}{test}: hangs after {HUNG} s (its threads and processes are above)\n".encode())
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(3)


def _descendants(root):
    """{pid: (state and what it waits in, its command)} of the processes below one, of Linux's /proc."""
    below, found = {root}, {}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
            if int(parent) not in below:
                continue
            below.add(pid)
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                words = " ".join(file.read().split("\0"))
            with open(f"/proc/{pid}/wchan", encoding="utf-8", errors="replace") as file:
                found[pid] = (f"{state} {file.read()}", words[:2000])
        except OSError:                 # it has just ended
            continue
    return found


def pytest_configure(config):
    global _stderr
    _stderr = os.dup(2)
    threading.Thread(target=_give_up_what_hangs, name="gives up what hangs", daemon=True).start()
    config.addinivalue_line("markers", "alone: it measures time; `make test`, which runs several at "
                            "once, runs it after them, beside nothing")
    config.addinivalue_line("markers", "long: several seconds for what shorter tests find, too, nearly always; `make test-all` "
                            "runs it, `make test` does not")


def pytest_collection_modifyitems(config, items):
    """tests/cuda runs in a process of its own (`make test` does so): the emulated GPU, once loaded, would be the default
    device of every test that comes after it."""
    cuda = [item for item in items if item.path.parent.name == "cuda"]
    if cuda and len(cuda) < len(items):
        config.hook.pytest_deselected(items=cuda)
        items[:] = [item for item in items if item.path.parent.name != "cuda"]


def pytest_collection_finish():
    """Tens of thousands of tests are objects that stay: a tenth of the time went into looking at them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _folder_without_pyflow():
    before = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    yield
    os.chdir(before)
