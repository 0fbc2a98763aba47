"""tf.contrib.compiler.jit: marks ops for just-in-time compilation.

pyflow has no such compiler: marked ops run as others do, and keep the marks in the GraphDef, where
TensorFlow's reads them.

Thread: the one building the graph.  Source: TF 1.15, contrib/compiler/jit.py.

Example:
    with tf.contrib.compiler.jit.experimental_jit_scope():
        y = tf.nn.relu(tf.matmul(x, w))
"""
import contextlib

from pyflow.framework import graph as ops

_SCOPES = "__jit_scope_number"


@contextlib.contextmanager
def experimental_jit_scope(compile_ops=True, separate_compiled_gradients=False):
    """Scope whose ops have the attributes _XlaCompile, _XlaScope ("jit_scope_0", "jit_scope_1",
    ...) and _XlaSeparateCompiledGradients.

    compile_ops: a bool, or a function of the operation that gives one. Inner scopes are of the
    outermost one's cluster. For ops of any shapes and dtypes; never an error.
    TF: tf.contrib.compiler.jit.experimental_jit_scope."""
    graph = ops.get_default_graph()
    numbers = graph.get_collection_ref(_SCOPES)
    if not numbers:
        numbers.append([0, 0])              # depth, the number of the outermost scope
    state = numbers[0]
    name = f"jit_scope_{state[1]}"
    state[0] += 1
    compiles = compile_ops if callable(compile_ops) else (lambda op: bool(compile_ops))
    try:
        with graph._attr_scope({
                "_XlaCompile": compiles, "_XlaScope": lambda op: name.encode(),
                "_XlaSeparateCompiledGradients": lambda op: bool(separate_compiled_gradients)}):
            yield
    finally:
        state[0] -= 1
        if state[0] == 0:
            state[1] += 1


PUBLIC = {"contrib.compiler.jit.experimental_jit_scope": experimental_jit_scope}
