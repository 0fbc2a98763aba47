"""What all tests share.

Ctrl-C works even where the shell started us with SIGINT ignored (a background job, some CI).  And the current folder is
this one: a child process that `python -c` starts searches it first, and in the root of the source tree it would find the
sources `pyflow/` there instead of the pyflow that is installed and tested.
"""
import os
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _folder_without_pyflow():
    before = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    yield
    os.chdir(before)
