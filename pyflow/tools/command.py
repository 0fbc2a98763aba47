"""python -m pyflow devices | op NAME | explain FILE | check MODEL | run MODEL | convert MODEL -o FILE
| serve DIR | compare A B | dump MODEL -o FILE | summary MODEL | exec SCRIPT | coverage [FILE ...]
| verify-resume --dir DIR SCRIPT | bench | trace FILE | launch SCRIPT | cluster COMMAND

Installed, it is the command `pyflow`, too; --version says which one it is.
Exit status: 0 all is well; 1 it is not (something is missing, differs, is damaged, or failed); 2 it
could not be found out: a wrong option, a file that is not there or not what it should be.
Each command is a module of this package with `main(argv)`, imported only when it is asked for.
"""
import contextlib
import importlib
import os
import sys

COMMANDS = {
    "devices": "devices, plugins and the CPU they see",
    "op": "schema, kernels, gradient and source of an op; without a name, all ops",
    "explain": "a GraphDef, MetaGraphDef, checkpoint or error code in readable form",
    "check": "what a model needs and this installation lacks",
    "run": "runs a frozen graph or an ONNX model: --input x.npy --profile",
    "convert": "a frozen graph or SavedModel to ONNX, or an ONNX model to a frozen graph",
    "serve": "answers TensorFlow Serving's REST API for SavedModels: DIR, --model NAME=DIR",
    "summary": "the parameters of a model or checkpoint by scope: names, shapes, types, bytes",
    "compare": "the first tensor at which two graphs or runs differ beyond rounding: A B",
    "dump": "every named tensor of one step into a .npz, for compare",
    "exec": "runs a program that imports tensorflow (--onnxruntime: onnxruntime): SCRIPT [ARGUMENT ...]",
    "coverage": "what of TensorFlow 1.x is here, or is missing for FILE ...; --rewrite moves programs over",
    "verify-resume": "kills a training script and compares its end with an undisturbed one's",
    "trace": "top costs and the critical path of a trace or a RunMetadata",
    "launch": "starts a script as the tasks of a cluster: --workers 2 --ps 1 SCRIPT [ARGUMENT ...]",
    "cluster": "of a cluster: status, top, why, trace, stop ADDRESS; scale; make-certificates",
    "bench": "times one-op steps, chains and matrix products here",
}


def main(argv=None):
    """Runs one command.  Returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(__doc__.split("\n\n")[0] + "\n")
        for name, text in COMMANDS.items():
            print(f"  {name:14}{text}")
        return 0
    if argv[0] in ("-V", "--version"):
        import pyflow as tf
        built = f" (commit {tf.version.COMMIT})" if tf.version.COMMIT else ""
        print(f"pyflow {tf.pyflow_version}{built}")
        return 0
    name = argv[0]
    if name not in COMMANDS:
        import difflib
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        print(f"python -m pyflow: no command {name!r}" + (f"; did you mean {near[0]}?" if near else
              f"; there are {', '.join(COMMANDS)}"), file=sys.stderr)
        return 2
    if not _environment_is_right():
        return 2
    if hasattr(sys.stdout, "reconfigure"):      # a path that is no UTF-8 is shown, not an error
        sys.stdout.reconfigure(errors="backslashreplace")
    command = importlib.import_module(f"pyflow.tools.{name.replace('-', '_')}").main
    if name in _OWN_PROGRAMS:
        return command(argv[1:]) or 0
    return _ended(name, command, argv[1:])


_OWN_PROGRAMS = ("exec", "launch")      # what goes wrong is the program's, and said as Python does


def _ended(name, command, argv):
    """The command's exit status; what the system refused, and Ctrl-C, are said in a line."""
    try:
        status = command(argv) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _no_more_output()
        return 0
    except KeyboardInterrupt:
        print(f"python -m pyflow {name}: interrupted", file=sys.stderr)
        return 130
    except MemoryError:
        print(f"python -m pyflow {name}: out of memory", file=sys.stderr)
    except OSError as error:
        _no_more_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"python -m pyflow {name}: {where}{error.strerror or error}", file=sys.stderr)
    return 2


def _no_more_output():
    """What is left to print would fail once more when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _environment_is_right():
    """Says which environment variables are malformed: a line each, where a session would raise."""
    from pyflow import config
    wrong = 0
    for variable in config.VARIABLES:
        try:
            config.value(variable)
        except ValueError as e:
            wrong += 1
            print(e, file=sys.stderr)
    return not wrong
