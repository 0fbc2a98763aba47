"""Kills what a launcher leaves behind: reads from it until it is gone, then ends its processes.

A process of its own, run by its path with -I -S.  Its standard input is a pipe of which the
launcher alone has the other end, so that it closes however the launcher dies.  Lines on it:
"+ID" and "-ID", a process group that is there, or no more; "=PATH", a folder to remove.

Threads: none.  Caller: processes.py.
"""
import os
import shutil
import signal
import sys


def main(lines):
    """Returns when the launcher is gone and its processes are."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    groups, folders = set(), []
    for line in lines:
        kind, what = line[:1], line[1:].rstrip("\n")
        if kind == "+":
            groups.add(int(what))
        elif kind == "-":
            groups.discard(int(what))
        else:
            folders.append(what)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.stdin)
