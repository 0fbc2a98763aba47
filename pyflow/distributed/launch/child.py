"""Becomes a command that dies with its launcher: child.py LAUNCHER_PID COMMAND [ARGUMENT ...].

Run by its path with -I -S, before pyflow or anything else is imported: Linux kills this process
when the thread that started it ends (PR_SET_PDEATHSIG, which execve keeps), and it looks once
whether that has happened already.  Elsewhere guard.py alone does that work.

Threads: none.  Caller: processes.py.
"""
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(launcher, command):
    """Does not return."""
    if sys.platform == "linux":
        import ctypes
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(1)
    for name in (signal.SIGPIPE, signal.SIGXFSZ):       # Python ignores them, and exec keeps that
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as e:
        print(f"{command[0]}: {e.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
