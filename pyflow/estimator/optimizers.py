"""The optimisers of canned estimators: by name, by function, or one given.

Thread: the one building the graph.
"""
import pyflow as tf

NAMES = {"Adagrad": "AdagradOptimizer", "Adam": "AdamOptimizer", "Ftrl": "FtrlOptimizer",
         "RMSProp": "RMSPropOptimizer", "SGD": "GradientDescentOptimizer"}


def optimizer_of(given, learning_rate):
    """The tf.train.Optimizer: of a name with learning_rate, of a function, or as given.

    ValueError for an unknown name or another kind."""
    if isinstance(given, str):
        if given not in NAMES:
            raise ValueError(f"Unsupported optimizer name: {given}. Supported names are: "
                             f"{tuple(sorted(NAMES))}")
        if learning_rate is None:
            raise ValueError("learning_rate must be specified when opt is string.")
        return getattr(tf.train, NAMES[given])(learning_rate=learning_rate)
    if callable(given):
        given = given()
    if not isinstance(given, tf.train.Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {given}")
    return given
