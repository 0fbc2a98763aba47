"""tensorflow.python.tf2: which of TensorFlow's behaviours is in force. Here it is 1.x's, always.

    if not tf2.enabled(): ...
"""


def enabled():
    """False."""
    return False
