"""What all sessions of the process share: plugins, op signatures, thread pools, the executor
itself.

Invariants
    1. The executor and the plugins are loaded at the first session, never at import.
    2. There is one pool per thread count; a session's close leaves it, idle threads cost nothing.
    3. Every op registered in Python is known to the core before a plan that may use it is compiled.

Threads: every function may be called from any thread.
"""
import logging
import pathlib
import threading

from pyflow.session import stuck

log = logging.getLogger("pyflow")
_started = False
_hosted = False
_lock = threading.Lock()
_pools = {}
_declared = 0


def executor():
    """The module `pyflow._executor`, with a message that helps where it is missing."""
    try:
        from pyflow import _executor
    except ImportError as e:
        raise ImportError(f"pyflow's executor is not built ({e}): {_what_to_do()}") from None
    return _executor


def _what_to_do():
    """About a package without its executor: a source tree hides the installed one, if there is."""
    tree = pathlib.Path(__file__).resolve().parents[2]
    if not (tree / "pyproject.toml").is_file():
        return "install the wheel, or run `pip install .` in the source tree"
    return (f"what was imported is the source tree {tree}, not an installed package. After `make "
            "demo` or an installation leave its root, run `python -P`, or set PYTHONSAFEPATH=1; "
            "else run `pip install .` there")


def start():
    """Loads the executor and the plugins, once."""
    from pyflow import config, plugins
    global _started
    module = executor()
    if not hasattr(module, "Runnable"):
        raise ImportError(f"{module.__file__} is of an older build than pyflow's Python files: "
                          "build the tree, or install the wheel, again")
    _register_hosted(module)
    config.value("PYFLOW_CPU_ISA")          # read by the CPU plugin, which cannot complain
    found = plugins.load_all()
    if not _started:
        _started = True
        stuck.install()
        if config.debug_level() >= 1:
            log.info(
                "devices: %s",
                ", ".join(f"{kind}:{i} ({name})" for kind, i, name in module.devices()),
            )
            for plugin in found:
                log.info("plugin %s %s from %s: %s", plugin.id, plugin.version, plugin.origin,
                         plugin.problem or plugin.path)
    return module


def _register_hosted(module):
    """Gives the executor the kernels that are Python functions: image codecs, image summaries,
    Unicode case, JSON."""
    global _hosted
    with _lock:
        if not _hosted:
            from pyflow.ops.image import image_codec
            from pyflow.ops.strings import string_codec
            from pyflow.ops.summary import summary_image
            module.register_files(_serve_files)
            module.register_hosted(image_codec.KERNELS | string_codec.KERNELS
                                   | summary_image.KERNELS)
            _hosted = True


def _serve_files(path, what, fd):
    """A kernel's path with a scheme; the module is loaded by the first one."""
    from pyflow.lib.files import remote
    remote.serve(path, what, fd)


def release_memory():
    """Gives memory that is cached, the host's and every device's, back to the system.

    Closing the last session does it, too.  What variables and values still hold stays.
    """
    executor().release_memory()


def pool(threads):
    """The process's pool of `threads` compute threads."""
    with _lock:
        found = _pools.get(threads)
        if found is None:
            found = _pools[threads] = executor().Pool(threads)
        return found


def declare_ops():
    """Tells the core about ops registered since the last call."""
    global _declared
    from pyflow.framework import op as op_lib
    with _lock:
        ops = op_lib.loaded_ops()
        if len(ops) != _declared:
            from pyflow.plugins import op_flags
            known = set(executor().known_ops())
            executor().set_ops(
                [
                    (d.name, d.signature(), op_flags(d))
                    for d in ops
                    if d.name not in known
                ]
            )
            _declared = len(ops)
