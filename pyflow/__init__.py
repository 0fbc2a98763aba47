"""pyflow: dataflow for machine learning and numeric work, with TensorFlow 1.x's graph API.

    import pyflow as tf

    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.matmul(x, tf.Variable(tf.ones([4, 2])))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(y, {x: images})

This file only assembles names.  Ops modules bring tables `PUBLIC = {"nn.relu": function}`; dotted
names become namespaces (`tf.nn`).  What is rarely needed, or dear to import (protobuf messages, the
test case, flags), is loaded at its first use.

Invariants
    1. Importing prints nothing, starts no thread, opens no library, reads no entry points.
    2. A public name has one definition; a second one is an error at import.
"""
import sys as _sys

from pyflow import _names

__version__ = "0.1.0"

_names.assemble(_sys.modules[__name__])


def __getattr__(name):
    return _names.load_lazily(_sys.modules[__name__], name)


def __dir__():
    return sorted(set(globals()) | set(_names.LAZY))
