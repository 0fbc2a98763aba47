"""Plugins of third parties (link_project, pair_project), and a process that serves clusters with them.

    path = here("link")                     # compiled by the C compiler alone, and loaded
    with Peer([path]) as peer:
        peer.serve({"worker": [...], "peer": [...]}, links=("acme",))
"""
import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = """-std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-missing-field-initializers -g -O1 -shared -fPIC
 -fvisibility=hidden""".split()
PAIRS = {"link": [], "pair": ["--pair", "acme acme.Send acme.Recv"]}
MAIN = """
import json, os, sys, threading, time
plugins, parent = json.loads(sys.argv[1])
def watch():
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
import pyflow as tf
for path in plugins:
    tf.load_op_library(path)
kept = []
print("up", flush=True)
for line in sys.stdin:
    setup, spec, links = json.loads(line)
    exec(setup)
    kept.append(tf.train.Server(spec, "peer", 0, links=links))
    print("serves", flush=True)
"""


def include():
    """Where the released headers are."""
    return pathlib.Path(tf.sysconfig.get_include())


def compiled(name, folder, *flags):
    """The path of a project's library, its plugin.json beside it."""
    path = pathlib.Path(folder) / f"libacme_{name}.so"
    sources = sorted((HERE / f"{name}_project").glob("*.c"))
    done = subprocess.run([*map(str, ["cc", *FLAGS, *flags, "-I", include(), *sources, "-pthread", "-o", path])],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    subprocess.run([sys.executable, "-P", str(include() / "pyflow" / "make_plugin_json.py"), str(path),
                    str(path.with_name("plugin.json")), *PAIRS[name]], check=True)
    return str(path)


@functools.cache
def here(name):
    """The path of a project's library, compiled and loaded in this process, once."""
    folder = tempfile.mkdtemp(prefix=f"acme-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return load(compiled(name, folder))


def load(path):
    """Loads a library in this process, without trying it in another one first; its path."""
    old = os.environ.get("PYFLOW_PLUGIN_PROBE")
    os.environ["PYFLOW_PLUGIN_PROBE"] = "0"
    try:
        tf.load_op_library(path)
    finally:
        if old is None:
            del os.environ["PYFLOW_PLUGIN_PROBE"]
        else:
            os.environ["PYFLOW_PLUGIN_PROBE"] = old
    return path


class Peer:
    """A process that serves the task ("peer", 0) of as many clusters as it is told."""

    def __init__(self, plugins=(), env=None):
        environment = {**os.environ, "PYFLOW_PLUGIN_PROBE": "0", **(env or {})}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN, json.dumps([list(plugins), os.getpid()])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.pid, self._up = self._process.pid, False

    def serve(self, spec, links, setup=""):
        """A server of it; setup: Python that runs first."""
        if not self._up:
            assert self._process.stdout.readline() == "up\n"
            self._up = True
        self._process.stdin.write(json.dumps([setup, spec, links]) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "serves\n"

    def kill(self):
        self._process.kill()

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def copied(name, folder):
    """A copy of a project where nothing of pyflow's tree is near; the folder."""
    shutil.copytree(HERE / f"{name}_project", folder)
    return folder


def ran(command, **variables):
    """What a command says; it has to succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600,
                          env={**os.environ, **variables})
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout
