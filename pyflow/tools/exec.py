"""python -m pyflow exec SCRIPT [ARGUMENT ...]: runs a program written for TensorFlow 1.x, or with
--onnxruntime for onnxruntime.

SCRIPT, or the module after -m, and all that it imports find pyflow where they say
`import tensorflow` (`import onnxruntime`); nothing of the program is changed. `python -m pyflow
coverage SCRIPT` says before what it will miss. --old-python: for libraries that Python 3.11 or
today's NumPy would stop (pyflow/interop/old_python.py).

Threads: a command of its own.
"""
import argparse
import os
import runpy
import sys


_RUNPY = runpy.run_path.__code__.co_filename


def main(argv):
    """Runs the program as `python SCRIPT ...` would.  Returns 2, with the reason on stderr, where there
    is none."""
    args = _parser().parse_args(argv)
    words = args.module or args.program
    if not words:
        print("python -m pyflow exec: expected a SCRIPT, or -m and a MODULE", file=sys.stderr)
        return 2
    program = words[0]
    if not args.module and not os.path.exists(program):
        print(f"python -m pyflow exec: no file {program}", file=sys.stderr)
        return 2
    from pyflow.interop import install
    if args.onnxruntime:
        install.install_as_onnxruntime()
    else:
        install.install_as_tensorflow(args.old_python)
    sys.argv = words
    sys.path.insert(0, os.getcwd() if args.module else os.path.dirname(os.path.abspath(program)))
    try:
        if args.module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except Exception as error:
        return _failed(error)
    return 0


def _failed(error):
    """Says what the program raised as Python does, from the program's first line on.  Returns 1."""
    places = error.__traceback__
    while places is not None and places.tb_frame.f_code.co_filename in (__file__, _RUNPY):
        places = places.tb_next
    error.__traceback__ = places
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, places
    sys.excepthook(type(error), error, places)
    return 1


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow exec",
                                     description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--onnxruntime", action="store_true",
                        help="`import onnxruntime` finds pyflow.interop.onnxruntime; without it "
                             "`import tensorflow` finds pyflow")
    parser.add_argument("--old-python", action="store_true",
                        help="gives back names that Python and NumPy have removed since, such as "
                             "collections.Iterable and numpy.float")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
                        help="runs a module, found as `python -m` finds it, with its arguments")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT",
                        help="the program and its arguments")
    return parser
