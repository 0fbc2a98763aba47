"""The n-th smallest element of each row, without sorting.

Invariants
  1. Rows are the last dimension; n counts from 0.
  2. Where several elements equal the n-th, the gradient is shared among them.

Example:  `median = tf.contrib.nn.nth_element(x, x.shape[-1].value // 2)`.
"""
import numpy as np

from pyflow.framework.dtypes import REAL
from pyflow.framework.op import S, lit, op
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, static
from pyflow.ops.base.shape_rules import match


@op("NthElement", inputs="input: T, n: int32", outputs="values: T", attrs="reverse: bool = false",
    T=REAL)
class NthElement:
    """The n-th smallest (`reverse`: largest) element of each row, counted from 0. TF: NthElement.
    """
    def shape(op):
        match(op, None, "")
        shape, n = op.inputs[0].shape, static(op.inputs[1])
        if shape.ndims is None:
            return shape
        shape = at_least_rank(shape, 1, "NthElement: input")
        last = shape.as_list()[-1]
        if n is not None and (n < 0 or last is not None and n >= last):
            raise ValueError(f"NthElement: n = {n} is outside rows of {last}")
        return shape[:-1]

    def gradient(op, dy):
        chosen = tensors.equal(tensors.expand_dims(op.outputs[0], -1), op.inputs[0])
        chosen = tensors.cast(chosen, dy.dtype)
        share = chosen / tensors.sum_of(chosen, -1, keepdims=True)
        return [share * tensors.expand_dims(dy, -1), None]

    def reference(input, n, reverse):
        return np.sort(input, -1)[..., -1 - n if reverse else n]
    samples = [S((2, 3, 7), lit(3)), S((5,), lit(0), reverse=True), S((3, 40), lit(11)),
               S((0, 4), lit(1)), S((2, 1), lit(0))]
