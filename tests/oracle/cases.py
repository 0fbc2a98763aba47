"""What is asked of TensorFlow and of pyflow: the same code, run by both.

`OPS` is a table of single expressions: name, function of (tf, *inputs), inputs; each is evaluated,
and differentiated with respect to its float inputs with `grad_ys` of -2, -1, 0, 1, 2, ....
`SCRIPTS` are functions of (tf) that build a graph, run sessions, and return named arrays: control
flow, variables, optimisers.

The cases of an area are those of one module: cases_math.py holds the area "math", scripts.py the
area "scripts"; a new module needs no word here.  `record.py` runs them under TensorFlow 2.21's
`compat.v1` and keeps the answers in answers/AREA.npz; test_oracle.py runs them under pyflow and
compares.  Inputs are made from a seed, so that nothing but answers has to be kept.
"""

import collections
import importlib
import pathlib
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent

Op = collections.namedtuple("Op", "name function inputs gradient")
OPS, SCRIPTS = [], {}


class Input:
    """A seeded array: `make(rng)` draws it."""

    def __init__(self, make):
        self.make = make


def normal(*shape, dtype=np.float32):
    return Input(lambda rng: rng.standard_normal(shape).astype(dtype))


def positive(*shape, dtype=np.float32):
    return Input(lambda rng: (rng.random(shape) * 2 + 0.1).astype(dtype))


def unit(*shape, dtype=np.float32):
    return Input(lambda rng: (rng.random(shape) * 1.8 - 0.9).astype(dtype))


def ints(low, high, *shape, dtype=np.int32):
    return Input(lambda rng: rng.integers(low, high, shape).astype(dtype))


def bools(*shape):
    return Input(lambda rng: rng.random(shape) < 0.5)


def value(x, dtype=np.float32):
    return Input(lambda rng: np.array(x, dtype))


def op(name, function, *inputs, gradient=True):
    OPS.append(Op(name, function, inputs, gradient))


def script(function):
    SCRIPTS[function.__name__] = function
    return function


def area_of(case):
    """The area of an Op or of a script function: its module's name without "cases_"."""
    function = getattr(case, "function", case)
    return function.__module__.removeprefix("cases_")


seed = 0  # of all inputs; a recording keeps the one it was made with


def arrays(case):
    """The inputs of an Op, always the same ones for one `seed`."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()) + seed)
    return [i.make(rng) for i in case.inputs]


def build(tf, case):
    """-> (placeholders, outputs, gradients) of an Op in the current graph.  Outputs and gradients
    are named."""
    inputs = [tf.placeholder(x.dtype, x.shape, name=f"x{i}") for i, x in enumerate(arrays(case))]
    found = case.function(tf, *inputs)
    outputs = list(found) if isinstance(found, (list, tuple)) else [found]
    gradients = []
    if case.gradient:
        wanted = [x for x in inputs if x.dtype.is_floating or x.dtype.is_complex]
        smooth = [y for y in outputs if y.dtype.is_floating or y.dtype.is_complex]
        if wanted and smooth:
            with tf.name_scope("differentiate"):
                weights = [
                    tf.cast(tf.reshape(tf.range(tf.size(y)), tf.shape(y)) % 5 - 2, y.dtype)
                    for y in smooth
                ]
            gradients = [g for g in tf.gradients(smooth, wanted, grad_ys=weights) if g is not None]
    gradients = [tf.convert_to_tensor(g) for g in gradients]
    outputs = [tf.identity(y, name=f"out{i}") for i, y in enumerate(outputs)]
    gradients = [tf.identity(g, name=f"grad{i}") for i, g in enumerate(gradients)]
    return inputs, outputs, gradients


def load_all():
    """Fills OPS and SCRIPTS.  The modules are imported by whichever `tf` there is; they never
    import one."""
    if not OPS:
        if str(HERE) not in sys.path:
            sys.path.insert(0, str(HERE))
        for path in sorted(HERE.glob("cases_*.py")):
            importlib.import_module(path.stem)
        importlib.import_module("scripts")
        names = [case.name for case in OPS] + list(SCRIPTS)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cases of one name: {', '.join(twice)}")
    return OPS, SCRIPTS
