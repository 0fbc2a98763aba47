"""TensorFlow builds, freezes and answers the programs of frozen_models.py: NAME.pb and answers.npz.
The programs of function_models.py, frozen the TensorFlow 2 way: answers_functions.npz.

    .venv-tf/bin/python tests/frozen/record.py [functions]

Run by `long.py oracle`, in an environment that has TensorFlow 2.21 and not pyflow.
functional.pb is a tf.function with a loop and a condition, frozen the TensorFlow 2 way, which
lowers both to version 1.
"""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import tensorflow as tf2  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402
from tensorflow.python.framework import convert_to_constants  # noqa: E402

import frozen_models as models  # noqa: E402
import function_models  # noqa: E402


def record(name, function):
    """{key: array} and the frozen GraphDef."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        inputs, outputs = function(tf)
        outputs = [tf.identity(y, name=f"out{i}") for i, y in enumerate(outputs)]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            frozen = tf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), [y.op.name for y in outputs])
            values = session.run(outputs, dict(zip(inputs, models.feeds(name))))
    answers = {f"{name}/out{i}": v for i, v in enumerate(values)}
    answers[f"{name}/inputs"] = np.array([x.name for x in inputs])
    return answers, frozen


def functional():
    """The same for a concrete function of TensorFlow 2."""
    @tf2.function(input_signature=[tf2.TensorSpec([None, 3], tf2.float32)])
    def run(x):
        total = tf2.zeros([3])
        for i in tf2.range(tf2.shape(x)[0]):
            row = x[i]
            if tf2.reduce_sum(row) > 0:
                total += row
            else:
                total -= tf2.sqrt(-tf2.reduce_sum(row)) * row
        return tf2.identity(total, name="out0")
    frozen = convert_to_constants.convert_variables_to_constants_v2(run.get_concrete_function())
    x = np.random.default_rng(5).standard_normal((6, 3)).astype(np.float32)
    (value,) = frozen(tf2.constant(x))
    name = frozen.graph.inputs[0].name
    return {
        "functional/x": x, "functional/out": value.numpy(), "functional/inputs": np.array([name]),
        "functional/output": np.array(frozen.graph.outputs[0].name),
    }, frozen.graph.as_graph_def()


def record_function(name):
    """The same for a program of function_models.py: frozen with its library, or as traced."""
    run, specs = function_models.MODELS[name](tf2)
    function = tf2.function(lambda *args: run(*args), input_signature=specs)
    concrete = function.get_concrete_function()
    if name not in function_models.RAW:
        concrete = convert_to_constants.convert_variables_to_constants_v2(
            concrete, lower_control_flow=name in function_models.LOWERED)
    given = [tf2.constant(x) for x in function_models.feeds(name)]
    values = tf2.nest.flatten(concrete(*given))
    inputs = [x.name for x in concrete.graph.inputs]
    answers = {f"{name}/out{i}": v.numpy() for i, v in enumerate(values)}
    answers[f"{name}/inputs"] = np.array(inputs)
    answers[f"{name}/outputs"] = np.array([y.name for y in concrete.graph.outputs])
    frozen = concrete.graph.as_graph_def()          # before the gradient adds to it
    if name not in function_models.LOWERED:
        answers[f"{name}/gradient"] = gradient_of(function, given)
    return answers, frozen


def gradient_of(function, given):
    """Of the sum of the squares of the float results, by the first float input."""
    x = next(x for x in given if x.dtype.is_floating)
    with tf2.GradientTape() as tape:
        tape.watch(x)
        results = tf2.nest.flatten(function(*given))
        loss = tf2.add_n([tf2.reduce_sum(y * y) for y in results if y.dtype.is_floating])
    return tf2.convert_to_tensor(tape.gradient(loss, x)).numpy()


def record_functions():
    answers = {}
    for name in function_models.MODELS:
        found, frozen = record_function(name)
        answers.update({key: plain(value) for key, value in found.items()})
        save(name, frozen)
        print(f"{name}: {len(frozen.node)} nodes, {len(frozen.library.function)} functions, "
              f"{frozen.ByteSize()} bytes")
    np.savez_compressed(HERE / "answers_functions.npz", **answers)


def plain(value):
    value = np.asarray(value)
    return value.astype("S") if value.dtype == object else value


def save(name, frozen):
    (HERE / f"{name}.pb").write_bytes(frozen.SerializeToString(deterministic=True))


def main():
    record_functions()
    if sys.argv[1:] == ["functions"]:
        return
    answers, frozen = functional()
    save("functional", frozen)
    tf.disable_control_flow_v2()
    for name, function in models.MODELS.items():
        found, frozen = record(name, function)
        answers.update({key: plain(value) for key, value in found.items()})
        save(name, frozen)
        print(f"{name}: {len(frozen.node)} nodes, {frozen.ByteSize()} bytes")
    np.savez_compressed(HERE / "answers.npz", **answers)


if __name__ == "__main__":
    main()
