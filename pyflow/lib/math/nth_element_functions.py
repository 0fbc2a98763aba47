"""tf.contrib.nn.nth_element: the n-th smallest of each row, without sorting."""
from pyflow.framework import graph
from pyflow.ops.reduce.nth_element_ops import NthElement


def nth_element(input, n, reverse=False, name=None):
    """The n-th smallest (`reverse`: largest) element of each row of `input`.
    TF: contrib.nn.nth_element.
    Dtypes, shapes, errors: as op NthElement."""
    input = graph.convert_to_tensor(input, name="input")
    return NthElement(input, n, reverse=reverse, name=name)


PUBLIC = {"contrib.nn.nth_element": nth_element}
