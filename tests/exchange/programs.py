"""Programs whose graphs are exchanged: each is a function of (tf, tools) that builds into the
default graph and runs it; the same code for pyflow and for TensorFlow 1.15 and 2.21.

    sample:OP-N    a node of OP by a sample of its block, inputs fed, with gradients if it has any
    case:NAME      the expressions of tests/oracle, with gradients
    script:NAME    its programs: control flow, variables, optimisers
    value:NAME     loops and branches (tests/control_flow), with gradients
    defun:NAME     functions (tests/functions)
    loop:NAME      loops and branches whose gradients are made after the import (loop_graphs.py)
    data:, failing:, input:, queue:, reader:    input_graphs.py
    era:NAME       models as they were written for TensorFlow 1.x (era_graphs.py)
    layer:NAME     layers and recurrent cells with variables (tests/layers): also as SavedModels
                   and frozen

`LEFT_OUT` says what cannot be exchanged and why.  Needs Python 3.7 or later.
"""
import fnmatch
import importlib
import pathlib
import pickle
import sys

import numpy as np

import era_graphs
import input_graphs
import loop_graphs

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
SAMPLES = "samples.pickle"

LEFT_OUT = {
    "py_function": "a Python function lives in its process",
    "older_prints": "a Python function lives in its process",
    "tables_from_files": "its file is gone when the program is over",
    "state_checkpoints": "its folder is gone when the program is over",
    "ragged_fetches": "fetches a ragged tensor, which TensorFlow 1.15's session does not take",
}


def load(folder, module):
    path = str(TESTS / folder)
    if path not in sys.path:
        sys.path.insert(0, path)
    return importlib.import_module(module)


# ------------------------------------------------------------------------------------------ arrays
def packed(value):
    """An array as plain data: NumPy's own pickles do not go from version 2 to 1."""
    array = np.asarray(value)
    if array.dtype.kind in "SU" and not isinstance(value, np.ndarray):
        array = np.asarray(value, dtype=object)         # S drops zero bytes at the end
    if array.dtype.kind in "OSU":
        flat = [x.encode() if isinstance(x, str) else x for x in array.ravel().tolist()]
        if not all(isinstance(x, bytes) for x in flat):
            raise TypeError("no array: %r" % (value,))
        return ("strings", array.shape, flat)
    small = array.dtype.itemsize == 2 and (array.dtype.kind == "V" or array.dtype.names)
    return ("bfloat16" if small else array.dtype.name, array.shape, array.tobytes())


def unpacked(tf, data):
    """The array of `packed`."""
    if data[0] == "strings":
        array = np.empty(len(data[2]), object)
        array[:] = data[2]
        return array.reshape(data[1])
    dtype = tf.bfloat16.as_numpy_dtype if data[0] == "bfloat16" else np.dtype(data[0])
    return np.frombuffer(data[2], dtype).reshape(data[1])


# ---------------------------------------------------------------------------------------- programs
def sample_programs(tf, folder):
    with open(str(pathlib.Path(folder) / SAMPLES), "rb") as file:
        samples = pickle.load(file)
    return {"sample:" + name: sample_program(tf, *parts) for name, parts in samples.items()}


def sample_program(tf, graph_bytes, feeds):
    def program(tf, tools):
        graph_def = tf.GraphDef.FromString(graph_bytes)
        node, = tf.import_graph_def(graph_def, name="", return_elements=["node"])
        graph = tf.get_default_graph()
        inputs = [graph.get_tensor_by_name("in%d:0" % i) for i in range(len(feeds))]
        given = {t: unpacked(tf, a) for t, a in zip(inputs, feeds)}
        fetches = [t for t in node.outputs if t.dtype not in (tf.resource, tf.variant)]
        fetches += gradients_of(tf, node.outputs, inputs)
        with tf.Session() as session:
            session.run(fetches or node, given)
    return program


def gradients_of(tf, outputs, inputs):
    """The gradients that are there; none where the op has no gradient function."""
    smooth = [y for y in outputs if y.dtype.is_floating or y.dtype.is_complex]
    wanted = [x for x in inputs if x.dtype.is_floating or x.dtype.is_complex]
    if not smooth or not wanted:
        return []
    try:
        found = tf.gradients(smooth, wanted)
    except (LookupError, TypeError, ValueError, NotImplementedError, AttributeError):
        return []
    return [tf.convert_to_tensor(g) for g in found if g is not None]


def oracle_programs():
    cases = load("oracle", "cases")
    for path in sorted(cases.HERE.glob("cases_*.py")) + [cases.HERE / "scripts.py"]:
        try:
            importlib.import_module(path.stem)
        except TypeError:               # of a newer Python than 3.7
            pass

    def of_case(case):
        def program(tf, tools):
            inputs, outputs, grads = cases.build(tf, case)
            with tf.Session() as session:
                session.run(outputs + grads, dict(zip(inputs, cases.arrays(case))))
        return program

    found = {"case:" + case.name: of_case(case) for case in cases.OPS}
    found.update(("script:" + name, lambda tf, tools, script=script: script(tf))
                 for name, script in cases.SCRIPTS.items())
    return found


def value_programs():
    module = load("control_flow", "value_programs")

    def of(make):
        def program(tf, tools):
            fetches, feeds = make(tf)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for feed in feeds:
                    session.run(fetches, feed)
        return program
    return {"value:" + name: of(make) for name, make in module.PROGRAMS.items()}


def defun_programs():
    module = load("functions", "defun_programs")

    def of(make):
        def program(tf, tools):
            fetches, feeds, *first = make(tf, tools.function)
            with tf.Session() as session:
                for op in first or [tf.global_variables_initializer()]:
                    session.run(op)
                session.run(fetches, feeds)
        return program
    return {"defun:" + name: of(make) for name, make in module.PROGRAMS.items()}


def layer_programs():
    module = load("layers", "layer_cases")

    def of(name):
        def program(tf, tools):
            made = module.CASES[name](tf)
            outputs = [tf.identity(made[key]) for key in sorted(made)]
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for v in tf.global_variables():
                    v.load(module.value_of(v.op.name, v.shape.as_list(), v.dtype.as_numpy_dtype),
                           session)
                session.run(outputs)
                tools.save(session, outputs)
        return program
    return {"layer:" + name: of(name) for name in module.CASES}


def loop_programs():
    def of(make):
        def program(tf, tools):
            fetches, feeds = make(tf)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(fetches, feeds)
                if make.__name__ not in loop_graphs.UPDATING:
                    tools.save(session, fetches, feeds)
                    session.run(fetches, feeds)
        return program
    return {"loop:" + make.__name__: of(make) for make in loop_graphs.LOOPS}


def is_chosen(name, patterns):
    """Whether one of the patterns, with commas between them, fits a program's name."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns.split(","))


def all_programs(tf, folder):
    """{name: function of (tf, tools)}."""
    found = sample_programs(tf, folder) if folder else {}
    for programs in (oracle_programs, value_programs, defun_programs, layer_programs,
                     loop_programs):
        found.update(programs())
    found.update(input_graphs.input_programs(load))
    found.update(era_graphs.ERA)
    return {name: program for name, program in found.items()
            if name not in LEFT_OUT and name.partition(":")[2] not in LEFT_OUT}
