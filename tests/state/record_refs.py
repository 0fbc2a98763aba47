"""Records what TensorFlow 2.21's compat.v1 answers to the programs of ref_programs.py.

    python tests/state/record_refs.py [--first 0] [--count 300] [--into tests/state/ref_answers.npz]

A program is kept where TensorFlow agrees with itself over 20 runs on 1 and on 4 threads.
"""
import argparse
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)

import numpy as np
import tensorflow.compat.v1 as tf

import ref_programs

tf.disable_v2_behavior()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--into", default=os.path.join(here, "ref_answers.npz"))
    args = parser.parse_args()
    kept, torn = {}, []
    for seed in range(args.first, args.first + args.count):
        answers = [a for threads in (1, 4) for a in ref_programs.run(tf, seed, threads, times=20)]
        if all(np.allclose(a, answers[0], rtol=1e-5, atol=1e-6) for a in answers):
            kept[str(seed)] = answers[0]
        else:
            torn.append(seed)
    np.savez_compressed(args.into, **kept)
    print(f"{len(kept)} programs kept; TensorFlow disagrees with itself on {torn}")


if __name__ == "__main__":
    main()
