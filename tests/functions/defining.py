"""How tests of functions make them."""
import pyflow as tf
from pyflow.python.framework import function


def defined(*types, name="f", **options):
    """A decorator: the Defun, in the library of the graph."""
    def define(body):
        found = function.Defun(*types, func_name=name, **options)(body)
        found.add_to_graph(tf.get_default_graph())
        return found
    return define
