"""A plugin's kernel is lent a variable only with the element type it expects, whether it says so or
not, and no kernel can pass off a handle, a string or a number as one another (holds/holds.c)."""

import numpy as np
import pytest

import pyflow as tf
from pyflow import plugins


@pytest.fixture(scope="module", autouse=True)
def library(build_plugin):
    tf.load_op_library(build_plugin("holds", "-O1"))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def op(name, *inputs, **attrs):
    return plugins.op("holds." + name)(*inputs, **attrs)


def variable(values, dtype):
    return tf.get_variable("v", initializer=tf.constant(values, dtype), use_resource=True)


def run(fetch):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetch)


def refused(fetch, *words):
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run(fetch)
    assert all(word in str(caught.value) for word in ("'v'", "with wrong dtype", *words))


def test_the_kernel_says_the_type():
    v = variable([1.0, 2.0], tf.float32)
    assert run(op("Said", v.handle)) == 3


def test_the_kernel_says_another_type():
    v = variable(["a", "b"], tf.string)
    refused(op("Said", v.handle), "Expected float got string", "holds.Said")


def test_the_attribute_dtype_says_it():
    v = variable([1.0, 2.0], tf.float32)
    assert run(op("Named", v.handle, tf.constant(0, tf.int64), dtype=tf.float32)) == 3
    refused(op("Named", v.handle, tf.constant(0, tf.int64), dtype=tf.float64),
            "Expected double got float")


@pytest.mark.parametrize("dtype", [tf.int8, tf.float64, tf.string])
def test_a_kernel_that_says_nothing_gets_a_type_of_the_node(dtype):
    v = variable(["a"] if dtype == tf.string else [1], dtype)
    refused(op("Silent", v.handle, tf.constant(1.0)), "Expected float got ")


def test_a_kernel_that_says_nothing_works_as_before():
    v = variable([1.0, 2.0], tf.float32)
    assert run(op("Silent", v.handle, tf.constant(1.0))) == 3


def test_a_kernel_that_takes_any_type():
    v = variable([1.0], tf.float64)
    assert run(op("Bits", v.handle, tf.constant(1, tf.int8))) == 64


def test_one_variable_behind_two_inputs():
    v = variable([1.0], tf.float32)
    refused(op("Twice", v.handle, v.handle), "input 1", "Expected int32 got float")


@pytest.mark.parametrize("name", ["Leak", "LeakResource"])
def test_a_handle_is_not_passed_off_as_a_value(name):
    v = tf.Variable([1.0, 2.0]) if name == "Leak" else variable([1.0, 2.0], tf.float32)
    with pytest.raises(tf.errors.InternalError, match="no handle can be there"):
        run(op(name, v._ref() if name == "Leak" else v.handle))


@pytest.mark.parametrize("name", ["Handle", "WrongRef"])
def test_a_handle_is_no_output_of_another_type(name):
    with pytest.raises(tf.errors.InternalError, match="no handle can be there"):
        run(op(name))


def test_numbers_are_not_passed_off_as_strings():
    numbers = tf.constant([1 + 2j, 3 + 4j], tf.complex128) * 2
    assert run(op("Text", numbers)).tolist() == [b"", b""]
    with pytest.raises(tf.errors.InternalError, match="cannot be the output's"):
        run(op("AliasText", numbers))
    with pytest.raises(tf.errors.InternalError, match="not of type string"):
        run(op("KeptText", numbers))


def test_numbers_may_be_looked_at_as_numbers():
    bits = np.array([1.5, -2.0]).view(np.int64)
    assert run(op("AsDouble", tf.constant(bits))).tolist() == [1.5, -2.0]
