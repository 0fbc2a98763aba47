"""SIGUSR1: a process that seems stuck says what its steps wait for.

    kill -USR1 PID        # on stderr: the nodes that have not completed, and what waits for them

Invariants
    1. A program that handles SIGUSR1 itself, or ignores it, keeps its way.
    2. The report is made by Python's own signal handling: on the main thread, within 100 ms even
       while it sits in `run`.

Threads: `install` acts on the main thread only; elsewhere it does nothing.
"""
import signal
import sys
import threading


def install():
    """Makes SIGUSR1 print `report`, if nobody has said otherwise and the platform has it."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, _print_report)


def report():
    """Text: every running step that can last, its nodes that have not completed, and for what
    the others wait."""
    from pyflow import _executor
    return _executor.report_steps()


def _print_report(number, frame):
    print(f"pyflow: {report()}", file=sys.stderr, flush=True)
