"""What a model function is asked for.

Threads: constants, any.
"""


class ModeKeys:
    """"train", "eval" or "infer": the argument `mode` of a model function.
    TF: tf.estimator.ModeKeys."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


PUBLIC = {"estimator.ModeKeys": ModeKeys}
