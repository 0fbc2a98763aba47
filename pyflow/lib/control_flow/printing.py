"""tf.print: values written out while a graph runs, to a stream, a level of logging or a file.

    with tf.control_dependencies([tf.print("loss", loss, "at", {"step": step})]):
        train = ...

The text is made by one StringFormat of all tensors and written by a PrintV2. The operation has to
be run, or depended on, as tf.Print's result has to be used.
"""
import logging
import os
import pprint
import sys

from pyflow.framework import dtypes, graph as ops, nest
from pyflow.framework.sparse_values import SparseTensor
from pyflow.lib.contrib.framework import is_tensor
from pyflow.lib.strings import string_text_functions
from pyflow.ops.transfer.logging_ops import PrintV2

_logger = logging.getLogger("tensorflow")       # tf.logging's functions are its methods
_LEVELS = {
    **dict.fromkeys((logging.INFO, _logger.info, logging.info), "log(info)"),
    **dict.fromkeys((logging.WARNING, _logger.warning, logging.warning), "log(warning)"),
    **dict.fromkeys((logging.ERROR, _logger.error, logging.error), "log(error)"),
}


def print_v2(*inputs, output_stream=sys.stderr, summarize=3, sep=" ", end=os.linesep, name=None):
    """An Operation that prints strings, tensors, nested structures of them, and other values.

    inputs: tensors of any shape and dtype (sparse ones, too), lists, tuples and dicts of them, any
    objects. output_stream: sys.stderr, sys.stdout, tf.logging.info, warning or error, or a text
    "file://path", to which lines are added. summarize: how many elements of a dimension's begin
    and end are printed; -1: all. sep, end: between the inputs, and after them. ValueError for
    another stream. TF: tf.print.

        >>> printing = tf.print("a:", tf.constant([1, 2]), output_stream=sys.stdout)
        >>> with tf.Session() as sess:
        ...     sess.run(printing)
    """
    stream = _stream(output_stream)
    if len(inputs) == 1 and _is_scalar_string(inputs[0]):
        text = inputs[0]
    else:
        text = _formatted(inputs, summarize, sep, f"{name}_format" if name else None)
    return PrintV2(text, output_stream=stream, end=end, name=name)


def _stream(given):
    if isinstance(given, str) and given.startswith("file://"):
        return given
    if given is sys.stdout or given is sys.stderr:
        return "stdout" if given is sys.stdout else "stderr"
    try:
        return _LEVELS[given]
    except (KeyError, TypeError):
        raise ValueError(
            f"Unsupported output stream, logging level, or file: {given!r}. Give sys.stdout, "
            "sys.stderr, tf.logging.info, tf.logging.warning, tf.logging.error, or a path as "
            "'file://<path>'.") from None


def _is_scalar_string(value):
    return isinstance(value, ops.Tensor) and value.shape.ndims == 0 \
        and value.dtype.base_dtype == dtypes.string


def _formatted(inputs, summarize, sep, name):
    """The inputs as one string tensor; a mark in the template stands for each tensor."""
    plain = nest.map_structure(lambda x: "" if is_tensor(x) else x, list(inputs))
    shown, mark = " ".join(map(pprint.pformat, plain)), "{}"
    while mark in shown:
        mark = f"{{{mark}}}"
    templates, tensors = [], []
    for each in inputs:
        leaves = []
        for leaf in nest.flatten(each):
            if isinstance(leaf, SparseTensor):
                tensors += [leaf.indices, leaf.values, leaf.dense_shape]
                leaves.append(f"SparseTensor(indices={mark}, values={mark}, shape={mark})")
            elif is_tensor(leaf):
                tensors.append(leaf)
                leaves.append(mark)
            else:
                leaves.append(leaf)
        templates.append(each if isinstance(each, str) else pprint.pformat(
            nest.pack_sequence_as(each, leaves)))
    template = sep.join(templates).replace(f"'{mark}'", mark)
    return string_text_functions.format(template, tensors, placeholder=mark,
                                               summarize=summarize, name=name)


PUBLIC = {"print": print_v2}
