"""Session(debug=True): op by op in construction order; errors are raised at the user's line, where
pdb works."""
import os
import pathlib
import subprocess
import sys
import traceback

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture
def session():
    with tf.Session(debug=True) as session:
        yield session


def innermost(error):
    """The frame and line at the end of an exception's traceback."""
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame, step.tb_lineno


def layer(x, w):
    return tf.matmul(x, w, name="mm")


def test_the_traceback_ends_at_the_line_that_made_the_op(session):
    x = tf.placeholder(tf.float32, [None, None], name="x")
    y = layer(x, tf.constant(np.float32([[1], [2]]), name="w"))
    np.testing.assert_array_equal(session.run(y, {x: [[1, 1]]}), [[3]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Matrix size-incompatible") as caught:
        session.run(y, {x: [[1, 2, 3]]})
    frame, line = innermost(caught.value)
    assert frame.f_code.co_filename == __file__ and frame.f_code.co_name == "layer"
    assert line == layer.__code__.co_firstlineno + 1
    seen = frame.f_locals
    assert seen["op"] is y.op and seen["name"] == "mm" and seen["outputs"] == {"mm:0": None}
    np.testing.assert_array_equal(seen["inputs"]["x:0"], [[1, 2, 3]])
    np.testing.assert_array_equal(seen["inputs"]["w:0"], [[1], [2]])
    assert frame.f_globals["np"] is np                      # the user's module's names are there
    shown = "".join(traceback.format_exception(caught.value))
    assert 'in layer\n    return tf.matmul(x, w, name="mm")\n' in shown
    assert caught.value.__context__ is None


def test_values_shown_are_read_only_and_outlive_the_step(session):
    x = tf.placeholder(tf.float32, [1000], name="x")
    w = tf.get_variable("w", initializer=np.arange(1000, dtype=np.float32), use_resource=True)
    y = tf.log(x * 2.0 - w, name="bad")
    update = tf.assign_add(w, x)
    session.run(tf.global_variables_initializer())
    feed = np.full(1000, 3, np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(y, {x: feed})
    frame, _ = innermost(caught.value)
    [value] = frame.f_locals["inputs"].values()
    want = 6 - np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(value, want)
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 1
    session.run(update, {x: feed})
    feed[:] = 0
    session.close()
    np.testing.assert_array_equal(value, want)
    assert np.isnan(frame.f_locals["outputs"]["bad:0"]).sum() == 993


def test_nan_in_a_loop_is_raised_at_the_bodys_line(session, line_of):
    out = tf.while_loop(lambda i, a: i < 9,
                        lambda i, a: (i + 1, tf.log(a - 1.0)),  # body
                        [0, 8.0])[1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="iteration 2 of while loop") as caught:
        session.run(out)
    frame, line = innermost(caught.value)
    assert (frame.f_code.co_filename, line) == (__file__, line_of("body"))
    [value] = frame.f_locals["inputs"].values()
    assert value == pytest.approx(np.log(np.log(7.0) - 1) - 1)


def test_a_failing_gradient_op_shows_its_forward_line(session, line_of):
    x = tf.placeholder(tf.float32, [3])
    y = tf.reduce_sum(tf.sqrt(x, name="root"))  # forward
    grad = tf.gradients(y, [x])[0]  # gradient
    np.testing.assert_allclose(session.run(grad, {x: [1, 4, 16]}), [0.5, 0.25, 0.125])
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(grad, {x: [1, 4, 0]})
    frame, line = innermost(caught.value)
    assert (frame.f_code.co_filename, line) == (__file__, line_of("gradient"))
    forward = f"{__file__}:{line_of('forward')}"
    assert f"gradient of 'root' (Sqrt), made at {forward}" in str(caught.value)


def test_what_a_py_func_raised_is_the_cause(session):
    def broken(v):
        raise KeyError("lost")
    y = tf.py_func(broken, [tf.constant(1.0)], tf.float32)
    with pytest.raises(tf.errors.UnknownError, match="lost") as caught:
        session.run(y)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError) and innermost(cause)[0].f_code is broken.__code__


def test_everything_runs_in_construction_order(session, graph, monkeypatch):
    """Feeds and fetches aside, whatever the types of kernels: cheap, expensive, asynchronous, loops
    one iteration after the other."""
    from pyflow.session import inspection
    rng = np.random.RandomState(5)
    values = [tf.constant(1.0)]
    for _ in range(40):
        a, kind = values[rng.randint(len(values))], rng.randint(4)
        if kind == 0:
            y = tf.py_func(lambda v: v, [a], tf.float32)
        elif kind == 1:
            y = tf.matmul(tf.fill([4, 4], a), tf.fill([4, 4], 0.25))[0, 0]
        elif kind == 2:
            def body(i, v):
                return i + 1, same(tf.py_func(lambda u: u, [v], tf.float32))
            y = tf.while_loop(lambda i, v: i < 3, body, [0, tf.identity(a)])[1]
        else:
            y = a + 1.0
        values.append(same(y))
    order, before = [], inspection._Watch._before

    def note(watch, name, inputs):
        order.append(name)
        before(watch, name, inputs)
    monkeypatch.setattr(inspection._Watch, "_before", note)
    session.run([values[k] for k in rng.permutation(len(values))])
    number = {op.name: k for k, op in enumerate(graph.get_operations())}
    plain = [number[n] for n in order if n in number and not n.startswith("while")]
    assert len(plain) > 40 and plain == sorted(plain)
    loop = [n for n in order if n.startswith("while/")]
    assert [n for n in loop if "PyFunc" in n or "NextIteration" in n] == 3 * [
        "while/PyFunc", "while/NextIteration", "while/NextIteration_1"]


def same(tensor):
    tensor.set_shape(())
    return tensor


def test_state_is_the_sessions(session):
    """Variables, random streams and step-scoped resources work as in one step."""
    w = tf.get_variable("w", initializer=1.0)
    add = tf.assign_add(w, 2.0)
    array = tf.TensorArray(tf.float32, 3).unstack(tf.constant([1.0, 2.0, 3.0]))
    total = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * array.read(i)),
                          [0, w + 0.0])[1]
    [slope] = tf.gradients(total, [w])
    session.run(tf.global_variables_initializer())
    assert session.run(add) == 3.0
    assert session.run([total, slope]) == [18.0, 6.0]
    r = tf.random_uniform([2], seed=4)
    drawn = [session.run(r) for _ in range(2)]
    with tf.Session() as plain:
        for want in drawn:
            np.testing.assert_array_equal(plain.run(r), want)


def test_what_waits_for_a_later_op_does_not_hang(graph):
    """Receives wait for sends that were built after other ops: what cannot run in order waits."""
    x = tf.placeholder(tf.float32, [2])
    a = b = x
    for k in range(6):
        with tf.device(f"/cpu:{k % 2}"):
            a, b = a + b * 0.5, tf.py_func(lambda u, v: u - v, [b, a], tf.float32)
            b.set_shape([2])
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.Session(config=config) as plain, tf.Session(config=config, debug=True) as session:
        for feed in ([1, 2], [3, 4]):
            options = tf.RunOptions(timeout_in_ms=20000)
            np.testing.assert_allclose(session.run([a, b], {x: feed}, options=options),
                                       plain.run([a, b], {x: feed}))


def test_debug_break_takes_names_patterns_and_tensors(session, monkeypatch):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.square(x, name="fc1/square")  # square
    z = tf.reduce_sum(y, name="fc2/sum")
    stops = []

    def stop():
        frame = sys._getframe(2)
        stops.append((frame.f_locals["name"], frame.f_lineno, frame.f_code.co_filename))
    monkeypatch.setattr(sys, "breakpointhook", stop)
    session.debug_break("fc1/*", z)
    assert session.run(z, {x: [1, 2]}) == 5
    assert [s[0] for s in stops] == ["fc1/square", "fc2/sum"]
    assert stops[0][2] == __file__
    session.debug_break()
    session.run(z, {x: [1, 2]})
    assert len(stops) == 2
    with tf.Session(debug=False) as plain, pytest.raises(RuntimeError, match="debug=True"):
        plain.debug_break("x")


PROGRAM = '''\
import pyflow as tf
x = tf.placeholder(tf.float32, [None], name="x")
def model(v):
    h = v * 2.0
    return tf.matmul(tf.expand_dims(h, 0), tf.ones([2, 1]))
y = model(x)
session = tf.Session(debug=True)
if BREAK:
    session.debug_break("mul")
session.run(y, {x: [1, 2]})
session.run(y, {x: [1, 2, 3]})
'''


def pdb_session(tmp_path, commands, stop=False, runner=("-m", "pdb")):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("BREAK", str(stop)))
    env = dict(os.environ)
    out = subprocess.run([sys.executable, *runner, str(script)], input="\n".join(commands) + "\n",
                         text=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=60)
    return out.stdout


def test_post_mortem_is_at_the_line_with_the_values(tmp_path):
    """`python -m pdb program.py`, as for any program: continue into the error."""
    text = pdb_session(tmp_path, ["c", "p inputs['ExpandDims:0']", "p op.type", "up", "q", "q"])
    assert "program.py(5)model()" in text
    assert "array([[2., 4., 6.]], dtype=float32)" in text
    assert "'MatMul'" in text
    assert "program.py(6)<module>()" in text or "user_frames.py" in text


def test_a_breakpoint_on_a_line_stops_when_its_op_runs(tmp_path):
    """Twice: when the line makes the op, and when the op runs."""
    text = pdb_session(tmp_path, ["b program.py:4", "c", "c", "p name, inputs", "q"])
    assert text.count("program.py(4)model()") >= 2
    text = text.replace("np.float32(2.0)", "2.0")
    assert "('mul', {'x:0': array([1., 2.], dtype=float32), 'mul/y:0': 2.0})" in text


def test_debug_break_opens_pdb_and_steps_from_op_to_op(tmp_path):
    text = pdb_session(tmp_path, ["p name", "s", "p name", "r", "s", "p op.type", "c"], stop=True,
                       runner=())
    assert "'mul'" in text and "'ExpandDims'" in text and "'MatMul'" in text
    before_the_error = text.split("Traceback")[0]
    assert "pyflow/session" not in before_the_error and "lib/python" not in before_the_error


def test_the_environment_asks_for_it(monkeypatch):
    monkeypatch.setenv("PYFLOW_DEBUG_RUN", "1")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(tf.log(tf.constant(-1.0)))
    assert innermost(caught.value)[0].f_code.co_filename == __file__
