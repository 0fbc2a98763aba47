"""Random convolutions and products with what follows them: fused or node by node, the same results.

`python tests/passes/test_fuse_random.py SEED SECONDS [THREADS]` goes on with other seeds.
"""
import sys
import time

import ml_dtypes
import numpy as np
import pytest

import pyflow as tf
from pyflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

TOLERANCE = {np.dtype(np.float32): 3e-5, np.dtype(np.float64): 1e-9, np.dtype(np.float16): 2e-2,
             np.dtype(ml_dtypes.bfloat16): 1e-1}
TYPES = (np.float32, np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
ACTIVATIONS = (None, tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu, tf.nn.elu, tf.sigmoid, tf.tanh)
CHANNELS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 31, 32, 33, 64, 65)


class Case:
    """One graph, addressed by its seed; `tensor(x)` builds it."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.seed, self.type = seed, np.dtype(TYPES[rng.integers(len(TYPES))])
        self.kind = str(rng.choice(["Conv2D", "Conv2D", "Conv2D", "Depthwise", "MatMul"]))
        self.nchw = self.kind != "MatMul" and rng.random() < 0.3
        self.constant, self.bias, self.side = (rng.random() < p for p in (0.7, 0.8, 0.4))
        self.norm = self.kind != "MatMul" and self.type == np.float32 and rng.random() < 0.3
        self.activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
        self._choose_sizes()

    def _choose_sizes(self):
        rng = self.rng
        batch, height, width = (int(n) for n in rng.integers(1, (4, 16, 16)))
        ins, outs = (int(n) for n in rng.choice(CHANNELS, 2))
        size, stride = rng.choice([1, 1, 2, 3, 3, 5, 7], 2), rng.choice([1, 1, 1, 2, 3], 2)
        if self.kind == "Depthwise":
            stride[1] = stride[0]
        dilation = int(rng.choice([1, 1, 2])) if stride.max() == 1 else 1
        groups = int(rng.choice([2, 3])) if self.kind == "Conv2D" and rng.random() < 0.2 else 1
        groups = 1 if self.nchw else groups
        ins, outs = ins * groups, outs * groups
        if self.kind == "MatMul":
            self.x, self.filter = self._numbers(batch * height, ins), self._numbers(ins, outs)
            self.channels = outs
            return
        last = int(rng.integers(1, 4)) if self.kind == "Depthwise" else outs
        self.channels = ins * last if self.kind == "Depthwise" else outs
        self.filter = self._numbers(*size, ins // groups, last)
        self.filter /= self.type.type(np.sqrt(np.prod(self.filter.shape[:3])))
        image = (height, width)
        self.x = self._numbers(batch, *((ins, *image) if self.nchw else (*image, ins)))
        self.strides = self._by_axis(*(int(n) for n in stride))
        self.dilations, self.rate = self._by_axis(dilation, dilation), [dilation, dilation]
        self.padding = str(rng.choice(["SAME", "VALID"]))

    def _by_axis(self, h, w):
        return [1, 1, h, w] if self.nchw else [1, h, w, 1]

    def _numbers(self, *shape):
        return self.rng.standard_normal(shape).astype(self.type)

    def product(self, x, filter_):
        data_format = "NCHW" if self.nchw else "NHWC"
        if self.kind == "MatMul":
            return tf.matmul(x, filter_)
        if self.kind == "Depthwise":
            return tf.nn.depthwise_conv2d(x, filter_, self.strides, self.padding, rate=self.rate,
                                          data_format=data_format)
        return tf.nn.conv2d(x, filter_, self.strides, self.padding, data_format=data_format,
                            dilations=self.dilations)

    def results(self, threads):
        """(fused, node by node)"""
        with tf.Graph().as_default():
            x = tf.placeholder(self.type, [None, *self.x.shape[1:]])
            filter_ = tf.constant(self.filter) if self.constant else \
                tf.placeholder(self.type, self.filter.shape)
            y, feeds = self.product(x, filter_), {x: self.x}
            if not self.constant:
                feeds[filter_] = self.filter
            y = self._followed(y, feeds)
            found = []
            for switch in (RewriterConfig.ON, RewriterConfig.OFF):
                config = tf.ConfigProto()
                config.graph_options.rewrite_options.remapping = switch
                with tf.Session(config=config, threads=threads) as sess:
                    found.append(np.asarray(sess.run(y, feeds), np.float64))
            return found

    def _followed(self, y, feeds):
        data_format = "NCHW" if self.nchw else "NHWC"
        if self.bias:
            y = tf.nn.bias_add(y, tf.constant(self._numbers(self.channels)), data_format)
        if self.norm:
            numbers = [np.abs(self._numbers(self.channels)) + np.float32(0.5) for _ in range(4)]
            y = tf.nn.fused_batch_norm(y, *numbers, is_training=False, data_format=data_format)[0]
        if self.side:
            shape = [len(self.x), *y.shape.as_list()[1:]]
            side = tf.placeholder(self.type, [None, *shape[1:]])
            feeds[side] = self._numbers(*shape)
            y = y + side
        return self.activation(y) if self.activation else y

    def __str__(self):
        return f"seed {self.seed}: {({k: v for k, v in vars(self).items() if k != 'rng'})}"


def check(seed, threads=1):
    case = Case(seed)
    try:
        found, plain = case.results(threads)
    except ValueError as error:
        assert "must" in str(error) or "negative" in str(error).lower(), (str(case), error)
        return False                    # a window larger than what it slides over
    tolerance = TOLERANCE[case.type]
    scale = max(1, np.abs(plain).max(initial=0))
    np.testing.assert_allclose(found, plain, tolerance, tolerance * scale, err_msg=str(case))
    return True


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_fused_graphs_compute_what_their_nodes_do(first):
    assert sum(check(seed) for seed in range(first, first + 50)) > 30


if __name__ == "__main__":
    at, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        check(at, *(int(n) for n in sys.argv[3:]))
        at += 1
    print(f"up to seed {at}: no difference")
