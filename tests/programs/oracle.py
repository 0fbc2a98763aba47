"""Runs a TensorFlow 1.x program on TensorFlow 2's compat.v1: python oracle.py SCRIPT [ARGUMENT ...]

`import tensorflow` is compat.v1 with what 1.15 had beside it and programs of programs.txt use:
tutorials' input_data (pyflow's file, which needs NumPy only), cells and initialisers of contrib, and
the names of TensorFlow 0.x by pyflow's own table. Needs tf-keras for layers and cells.
"""
import importlib.util
import os
import pathlib
import runpy
import sys
import types

import tensorflow
import tensorflow.compat.v1 as v1

ROOT = pathlib.Path(__file__).resolve().parents[2] / "pyflow"


def module(name, **values):
    """A module in sys.modules, and on the one above it."""
    made = types.ModuleType(name)
    made.__path__ = []
    made.__dict__.update(values)
    sys.modules[name] = made
    outer, _, last = name.rpartition(".")
    if outer:
        setattr(sys.modules[outer], last, made)
    return made


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def install():
    """Puts 1.15's `tensorflow` into sys.modules."""
    v1.disable_v2_behavior()
    _seeds()
    old = types.ModuleType("tensorflow")
    old.__path__ = tensorflow.__path__
    old.__version__ = old.VERSION = "1.15.0"
    lazy = {"contrib", "examples"}
    old.__getattr__ = lambda name: _v1(name, lazy)
    sys.modules["tensorflow"] = old
    renamed = load("renamed", ROOT / "interop/tensorflow/renamed.py")
    for name, new in renamed.NAMES.items():
        if new and "." not in name and not hasattr(v1, name):
            target = v1
            for part in new.split("."):
                target = getattr(target, part, None)
            if target is not None:
                setattr(old, name, target)
    _contrib()
    _tutorials()


def _seeds():
    """Ops without a seed of their own take the number of the last op for one, as in 1.15; TensorFlow
    2 counts them."""
    from tensorflow.python.framework import random_seed
    most = 2**31 - 1

    def get_seed(op_seed):
        graph = v1.get_default_graph()
        if graph.seed is not None:
            last = len(graph.get_operations())
            seeds = graph.seed % most, (last if op_seed is None else op_seed) % most
        elif op_seed is not None:
            seeds = 87654321, op_seed % most
        else:
            return None, None
        return (0, most) if seeds == (0, 0) else seeds
    random_seed.get_seed = get_seed


def _v1(name, lazy):
    if name.startswith("__") or name in lazy:
        raise AttributeError(name)
    return getattr(v1, name)


def _contrib():
    cells, glorot = v1.nn.rnn_cell, v1.glorot_uniform_initializer
    module("tensorflow.contrib")
    rnn = module("tensorflow.contrib.rnn", static_rnn=v1.nn.static_rnn,
                 static_bidirectional_rnn=v1.nn.static_bidirectional_rnn)
    for name in ("BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMCell", "MultiRNNCell",
                 "DropoutWrapper", "LSTMStateTuple", "RNNCell"):
        setattr(rnn, name, getattr(cells, name))
    flatten = v1.layers.flatten
    module("tensorflow.contrib.layers", flatten=flatten,
           xavier_initializer=lambda uniform=True, seed=None, dtype=v1.float32: (
               glorot(seed=seed) if uniform else v1.glorot_normal_initializer(seed=seed)),
           fully_connected=_fully_connected,
           variance_scaling_initializer=v1.variance_scaling_initializer)
    module("tensorflow.contrib.seq2seq", sequence_loss=_sequence_loss)


def _fully_connected(inputs, num_outputs, activation_fn=v1.nn.relu, **unused):
    return v1.layers.dense(inputs, num_outputs, activation_fn)


def _sequence_loss(logits, targets, weights):
    losses = v1.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return v1.reduce_sum(losses * weights) / (v1.reduce_sum(weights) + 1e-12)


def _tutorials():
    for name in ("examples", "examples.tutorials", "examples.tutorials.mnist"):
        module(f"tensorflow.{name}")
    data = load("tensorflow.examples.tutorials.mnist.input_data",
                ROOT / "examples/tutorials/mnist/input_data.py")
    data._seed = lambda seed: v1.get_seed(seed)[0 if seed is None else 1]
    more = os.environ.get("PYFLOW_DATA")
    data._other_folders = lambda: [more, os.path.join(more, "mnist")] if more else []
    sys.modules[data.__name__] = data
    sys.modules["tensorflow.examples.tutorials.mnist"].input_data = data


if __name__ == "__main__":
    install()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")
