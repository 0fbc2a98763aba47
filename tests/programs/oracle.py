"""Runs a TensorFlow 1.x program on TensorFlow 2's compat.v1: python oracle.py SCRIPT [ARGUMENT ...]

`import tensorflow` is compat.v1 with what 1.15 had beside it and programs of programs.txt use:
tutorials' input_data (pyflow's file, which needs NumPy only), contrib.layers (tf-slim, where it
lives now), cells and losses of contrib, and the names of TensorFlow 0.x by pyflow's own table.
Needs tf-keras, tf-slim and tensorboard.
"""
import importlib
import importlib.util
import os
import pathlib
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


def untrained():
    """Optimizers change nothing from here on but the step: what a broken program ends with."""
    from tensorflow.python.training import optimizer

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        del self, grads_and_vars
        return v1.no_op(name) if global_step is None else v1.assign_add(global_step, 1).op
    optimizer.Optimizer.apply_gradients = apply_gradients


def _v1(name, lazy):
    if name.startswith("__") or name in lazy:
        raise AttributeError(name)
    return getattr(v1, name)


def _contrib():
    import tf_slim
    from tensorboard.plugins import projector
    cells = v1.nn.rnn_cell
    module("tensorflow.contrib")
    rnn = module("tensorflow.contrib.rnn", static_rnn=v1.nn.static_rnn,
                 static_bidirectional_rnn=v1.nn.static_bidirectional_rnn)
    for name in ("BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMCell", "MultiRNNCell",
                 "DropoutWrapper", "LSTMStateTuple", "RNNCell"):
        setattr(rnn, name, getattr(cells, name))
    module("tensorflow.contrib.layers", **{
        name: value for name, value in vars(tf_slim.layers).items() if not name.startswith("_")})
    layers = sys.modules["tensorflow.contrib.layers"]
    for part in ("initializers", "regularizers"):
        for name, value in vars(importlib.import_module(f"tf_slim.layers.{part}")).items():
            if name.endswith(part[:-1]):
                setattr(layers, name, value)
    module("tensorflow.contrib.seq2seq", sequence_loss=_sequence_loss)
    for name in ("tensorboard", "tensorboard.plugins"):
        module(f"tensorflow.contrib.{name}")
    sys.modules["tensorflow.contrib.tensorboard.plugins"].projector = projector
    module("tensorflow.contrib.legacy_seq2seq", rnn_decoder=_rnn_decoder,
           sequence_loss_by_example=_sequence_loss_by_example)


def _rnn_decoder(inputs, state, cell, loop_function=None, scope=None):
    """(the outputs, the last state) of a cell over a list of inputs."""
    outputs = []
    with v1.variable_scope(scope or "rnn_decoder"):
        for at, value in enumerate(inputs):
            if at:
                v1.get_variable_scope().reuse_variables()
            if outputs and loop_function is not None:
                value = loop_function(outputs[-1], at)
            output, state = cell(value, state)
            outputs.append(output)
    return outputs, state


def _sequence_loss_by_example(logits, targets, weights, *unused, **more):
    """Of lists with a step's logits, targets and weights each."""
    losses = [weight * v1.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logit)
              for logit, target, weight in zip(logits, targets, weights)]
    return v1.add_n(losses) / (v1.add_n(weights) + 1e-12)


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
    path = "tensorflow.contrib"
    for part in ("learn", "python", "learn", "datasets"):
        path = f"{path}.{part}"
        module(path)
    sys.modules[path].mnist = sys.modules[f"{path}.mnist"] = data
    model = pathlib.Path(os.environ.get("PROGRAM_FILES", ""),
                         "tensorflow/examples/tutorials/mnist/mnist.py")
    if model.exists():                  # TensorFlow's own, in a program's copy of its repository
        name = "tensorflow.examples.tutorials.mnist.mnist"
        sys.modules[name] = load(name, model)
        sys.modules["tensorflow.examples.tutorials.mnist"].mnist = sys.modules[name]


if __name__ == "__main__":
    install()
    if os.environ.get("PROGRAM_UNTRAINED"):
        untrained()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import seeded
    seeded.run(sys.modules["tensorflow"], sys.argv[1:])
