"""pyflow: dataflow for machine learning and numeric work, with TensorFlow 1.x's graph API.

    import pyflow as tf

    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.matmul(x, tf.Variable(tf.ones([4, 2])))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(y, {x: images})

This file only assembles names.  Ops modules bring tables `PUBLIC = {"nn.relu": function}`; dotted
names become namespaces (`tf.nn`).  Modules of ops, gradients and training, and all that is slow to
import (protobuf messages, the executor, the test case), are loaded when a name of theirs is first
used; `make tables` lists their names anew.

Invariants
    1. Importing prints nothing, starts no thread, opens no library, reads no entry points, loads no
       op but Const.
    2. A public name has one definition; a second one is an error where the names are listed.
"""
import sys as _sys

from pyflow import _names

__version__ = "1.15.0"          # TensorFlow's whose API this is: programs choose spellings by it
pyflow_version = "0.2.0"        # pyflow's own

_names.assemble(_sys.modules[__name__])


def __getattr__(name):
    return _names.find(_sys.modules[__name__], name)


def __dir__():
    return _names.names_of(_sys.modules[__name__])
