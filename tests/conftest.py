"""What all tests share.

Ctrl-C works even where the shell started us with SIGINT ignored (a background job, some CI).  And the current folder is
this one: a child process that `python -c` starts searches it first, and in the root of the source tree it would find the
sources `pyflow/` there instead of the pyflow that is installed and tested.
"""
import faulthandler
import gc
import os
import signal
import time

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HUNG = 300                              # seconds of a test after which all threads' stacks are printed
_stderr = None                          # the process' own, a copy: pytest catches the other while a test runs
_armed = 0.0


def pytest_runtest_logstart():
    """pytest's faulthandler_timeout, whose thread per test cost more than many a test: the clock is set anew every
    10 s at most."""
    global _armed
    if time.monotonic() - _armed > 10:
        faulthandler.dump_traceback_later(HUNG, file=_stderr)
        _armed = time.monotonic()


def pytest_sessionfinish():
    faulthandler.cancel_dump_traceback_later()


def pytest_configure(config):
    global _stderr
    _stderr = os.dup(2)
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
