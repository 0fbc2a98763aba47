"""tf.test.Benchmark: times ops of a graph, in methods named benchmark*.

    class Adds(tf.test.Benchmark):
        def benchmarkAdd(self):
            with tf.Session() as sess:
                self.run_op_benchmark(sess, tf.constant(1.) + 1.)

    Adds().run()

Thread: the one that calls run.
"""
import time

import numpy as np


def benchmark_config():
    """The ConfigProto of a benchmark's session: no rewrite folds away what is timed."""
    from pyflow.framework import protos
    config = protos.ConfigProto()
    config.graph_options.rewrite_options.constant_folding = protos.RewriterConfig.OFF
    return config


class Benchmark:
    """Base of benchmarks. What is reported is printed, and returned by `run_op_benchmark`."""

    def run(self, pattern=""):
        """Runs the methods named benchmark* whose name contains `pattern`; returns their names."""
        names = [n for n in dir(self) if n.startswith("benchmark") and pattern in n]
        for name in names:
            getattr(self, name)()
        return names

    def run_op_benchmark(self, sess, op_or_tensor, feed_dict=None, burn_iters=2, min_iters=10,
                         store_trace=False, store_memory_usage=True, name=None, extras=None,
                         mbs=0):
        """Runs an op `burn_iters` + `min_iters` times and reports the median.

        Returns a dict: iters, wall_time (seconds, the median), throughput (MB/s, with `mbs`
        megabytes a run), name, extras."""
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(op_or_tensor, feed_dict)
            times.append(time.perf_counter() - start)
        median = float(np.median(times)) if times else -1.0
        result = {"iters": min_iters, "wall_time": median, "extras": dict(extras or {}),
                  "name": name or type(self).__name__,
                  "throughput": mbs / median if median > 0 else 0.0}
        self.report_benchmark(iters=min_iters, wall_time=median, throughput=result["throughput"],
                              name=result["name"], extras=extras)
        return result

    def report_benchmark(self, iters=None, cpu_time=None, wall_time=None, throughput=None,
                         extras=None, name=None, metrics=None):
        """Prints what is given, one line."""
        given = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time,
                 "throughput": throughput, "extras": extras, "metrics": metrics}
        print(name or type(self).__name__, ", ".join(
            f"{key} {value}" for key, value in given.items() if value is not None))

    def evaluate(self, tensors):
        """Their values in the default session."""
        from pyflow.framework import graph as graph_lib
        sess = graph_lib.get_default_session()
        if sess is None:
            from pyflow.session import Session
            with Session() as sess:
                return sess.run(tensors)
        return sess.run(tensors)
