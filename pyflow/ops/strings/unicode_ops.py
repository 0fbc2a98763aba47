"""Scripts of characters: the block.

Example:  `tf.strings.unicode_script(tf.strings.unicode_decode("a\\u03b1", "UTF-8"))`  # 25, 14
"""
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.ops.base.common import unchanged


@op("UnicodeScript", inputs="input: int32", outputs="output: int32")
class UnicodeScript:
    """The script of each code point, by ICU's numbers; -1 for what is no code point. No NumPy
    oracle, as Python has no such table: TensorFlow's recorded answers. TF: UnicodeScript."""
    shape = unchanged
    gradient = UNREGISTERED
    reference = None
    samples = [S(lit([[97, 0x3b1], [0x4e2d, 0x1f600]])), S(lit([-1, 0x110000, 2**31 - 1])),
               S(lit(0x5d0))]
