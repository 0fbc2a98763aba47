"""Runs a program with all random seeds set: python -m pyflow exec seeded.py SCRIPT [ARGUMENT ...]

What the program sees is otherwise what it sees when it is run by itself: sys.argv, sys.path[0] and
__main__. PROGRAM_SEED is the seed, 1 where it is not set. oracle.py does the same on TensorFlow.
"""
import os
import random
import runpy
import sys


def run(tf, argv):
    """Runs the program argv[0] with the arguments argv[1:], tf being its tensorflow."""
    import numpy
    seed = int(os.environ.get("PROGRAM_SEED", "1"))
    random.seed(seed)
    numpy.random.seed(seed)
    _seed_graphs(tf, seed)
    sys.argv = argv
    sys.path[:] = [os.path.dirname(os.path.abspath(argv[0])),
                   *(p for p in sys.path if p not in ("", os.path.dirname(__file__)))]
    runpy.run_path(argv[0], run_name="__main__")


def _seed_graphs(tf, seed):
    """Seeds the default graph, and every graph that the program makes."""
    made = tf.Graph.__init__

    def init(self, *args, **kwargs):
        made(self, *args, **kwargs)
        self.seed = seed
    tf.Graph.__init__ = init
    tf.set_random_seed(seed)


if __name__ == "__main__":
    import tensorflow
    run(tensorflow, sys.argv[1:])
