"""Modules whose names come from tables: what their names are beside TensorFlow 1.15's modules
(tf_modules.json, recorded), and that they look like modules.

Run as a program it prints {module: [names]} of what there is, for record_modules.py.
"""
import inspect
import json
import pathlib
import pickle
import pydoc
import subprocess
import sys
import textwrap

import pytest

import pyflow as tf
from pyflow.framework.table_module import TableModule, held

HERE = pathlib.Path(__file__).parent

CHECK = """
import importlib, inspect, json, sys, types
import pyflow
pyflow.compat.install_as_tensorflow()
from pyflow.interop.tensorflow import finder, paths, renamed
from pyflow.framework.op_functions import OpFunction

def kind_of(value):
    if isinstance(value, types.ModuleType):
        return "module"
    if inspect.isclass(value):
        return "class"
    if isinstance(value, OpFunction):
        return "op"
    return "function" if callable(value) else "value"
"""
# Where pyflow gives what is called so in tf, and TensorFlow's module means something else.
OBJECTS_NOT_MODULES = {"custom_gradient", "device", "function", "gradients", "map_fn", "string",
                       "variable_scope", "confusion_matrix"}
# Functions in Python there that take an op's arguments in its order: here they are the op.
LIKE_THEIR_OP = {"bessel_i0", "bessel_i1", "exit", "merge", "nth_element", "partitioned_call",
                 "switch", "variable_shape"}
OTHERS = {("data_flow_ops", "TensorArray"), ("state_ops", "Variable"),      # the op there, as a class
          ("variable_scope", "variable"), ("context", "device")}


def run(program):
    done = subprocess.run([sys.executable, "-P", "-c", CHECK + textwrap.dedent(program)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def shim():
    """What one process finds of `import tensorflow`."""
    return run(f"""
    def what(path):
        try:
            return kind_of(importlib.import_module(f"tensorflow.{{path}}"))
        except ImportError:
            return "missing"

    rows = json.load(open({str(HERE / "tf_modules.json")!r}))
    found = {{"wrong": [], "missing": [], "count": 0, "stars": []}}
    for name, kinds in rows.items():
        module = importlib.import_module(f"tensorflow.{{name}}")
        for kind, names in kinds.items():
            for each in set(names.split()) - set(renamed.names_in(name)):
                found["count"] += 1
                try:
                    here = kind_of(getattr(module, each))
                except AttributeError:
                    found["missing"].append((name, each))
                    continue
                if here != kind and (kind, here) != ("op", "function"):
                    found["wrong"].append((name, each, kind, here))
    for path in [*paths.EXACT, *paths.PB2]:
        try:
            exec(f"from tensorflow.{{path}} import *", {{}})
        except ImportError as e:
            found["stars"].append((path, str(e)))
    import tensorflow as tf
    import tensorflow.python.training
    found["unknown"] = [what(f"{{path}}.surely_a_function") for path in (
        "python.training", "python.layers", "python.ops.signal.util_ops", "python.ops.signal",
        "contrib.rnn.python.ops", "contrib.layers.python.layers", "contrib.framework.python",
        "python.estimator", "python.data.ops", "python.saved_model")]
    found["unknown"].append(hasattr(tensorflow.python.training, "surely_a_function"))
    found["known"] = [what(path) for path in (
        "python.training.saver", "contrib.layers.python.layers.layers",
        "python.estimator.canned.dnn", "contrib.rnn.python.ops.core_rnn_cell_impl")]
    found["dictionaries"] = [tf.logging.__dict__["INFO"], "relu" in vars(tf.nn),
                             "Session" in vars(tf)]
    from tensorflow.python.ops import array_ops, sparse_ops, string_ops
    with tf.Session() as sess:
        values = sess.run([
            string_ops.string_format("a {{}}", [tf.constant([1, 2])]),
            sparse_ops.sparse_cross([tf.constant([["a"]]), tf.constant([["b"]])]).values,
            string_ops.string_split_v2(["a b", "c"]).values,
            array_ops.pad_v2([1], [[1, 0]], "CONSTANT", 7),
            array_ops.gather_v2([[1, 2], [3, 4]], [1], axis=1)])
    found["around"] = [[v.decode() for v in [values[0], *values[1], *values[2]]],
                       values[3].tolist(), values[4].tolist()]
    print(json.dumps(found))
    """)


def test_names_are_of_the_kind_that_they_are_in_tensorflow(shim):
    """Function, class, module or value, of each name of TensorFlow's modules that pyflow has; and no
    raw op where TensorFlow has a function around it."""
    wrong = [(module, name, kind, here) for module, name, kind, here in shim["wrong"]
             if not (kind == "module" and name in OBJECTS_NOT_MODULES)
             and not (here == "op" and name in LIKE_THEIR_OP)
             and (module.rpartition(".")[2], name) not in OTHERS]
    assert not wrong and not shim["missing"] and shim["count"] > 3000


def test_every_module_can_be_imported_with_a_star(shim):
    assert not shim["stars"]


def test_a_name_below_a_star_is_no_module_unless_tensorflow_has_one(shim):
    assert shim["unknown"] == ["missing"] * 10 + [False] and shim["known"] == ["module"] * 4


def test_functions_around_ops_have_their_arguments(shim):
    assert shim["around"] == [["a [1 2]", "a_X_b", "a", "b", "c"], [7, 1], [[2], [4]]]


def test_the_dictionary_of_the_shim_s_modules(shim):
    assert shim["dictionaries"] == [20, True, True]


@pytest.mark.parametrize("path", ["nn", "train", "layers", "saved_model", "contrib.layers", "math",
                                  "raw_ops"])
def test_namespaces_look_like_modules(path):
    module = tf
    for part in path.split("."):
        module = getattr(module, part)
    names = [name for name in dir(module) if not name.startswith("_")]
    assert inspect.ismodule(module) and isinstance(module, TableModule)
    assert set(names) <= vars(module).keys() and vars(module) is module.__dict__ is held(module)
    assert dict(inspect.getmembers(module)).keys() >= set(names)


def test_asking_for_a_module_s_dictionary_loads_names_and_nothing_else_does():
    found = run("""
    from pyflow.framework.table_module import held
    def loaded():
        return "relu" in held(pyflow.nn)
    first = loaded()
    dir(pyflow.nn), hasattr(pyflow.nn, "x"), repr(pyflow.nn), pyflow.nn.__name__
    second, third = loaded(), "relu" in vars(pyflow.nn)
    print(json.dumps([first, second, third, loaded(), sorted(vars(pyflow.logging))[0] != ""]))
    """)
    assert found == [False, False, True, True, True]


def test_help_and_pickle():
    text = pydoc.plain(pydoc.render_doc(tf.nn))
    assert "moments" in text and "NAME\n    pyflow.nn" in text
    from pyflow.nn import moments
    assert pickle.loads(pickle.dumps(moments)) is tf.nn.moments


if __name__ == "__main__":
    print(json.dumps(run("""
    from pyflow.interop.tensorflow import module_names
    out = {}
    for path in sorted({*paths.EXACT, *module_names.PATHS}):
        if path.startswith("python.") and finder.homes_of(path):
            module = importlib.import_module(f"tensorflow.{path}")
            old = renamed.names_in(path)
            out[path] = [n for n in dir(module) if n[0] != "_" and n not in old]
            if path.endswith("_ops"):
                from pyflow.interop.tensorflow import gen_ops
                out[path] += [n for n in dir(gen_ops) if hasattr(module, n)]
    print(json.dumps(out))
    """)))
