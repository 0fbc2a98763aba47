"""python -m pyflow compare between the CPU and another device, whose kernels may err or not."""
import numpy as np

import pyflow as tf
from pyflow.tools import compare, sources

FAKE = "/device:FAKE:0"


def written(path, change=None):
    """A GraphDef file: y = tanh(x W) + b; `change`: another W."""
    weights = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        w = tf.constant(weights if change is None else change(weights), name="w")
        tf.add(tf.tanh(tf.matmul(x, w, name="product"), name="act"), 1.0, name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def test_two_devices_agree_and_a_fault_on_one_is_named(fake, tmp_path):
    feeds = {"x": np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)}
    path = written(tmp_path / "a.pb")
    on_fake = sources.Options(device=FAKE)
    report = compare.compare(path, path, feeds, options_b=on_fake)
    assert report.found is None and report.compared == 5
    other = written(tmp_path / "b.pb", lambda w: w + np.float32(1e-4))
    found = compare.compare(path, other, feeds, options_a=on_fake, options_b=on_fake).found
    assert (found.node, found.type) == ("w", "Const")


def test_the_ops_do_run_there(fake, tmp_path):
    source = sources.open_source(written(tmp_path / "a.pb"), {"x": np.ones((2, 4), np.float32)},
                                 options=sources.Options(device=FAKE))
    metadata = tf.RunMetadata()
    source.session.run("product:0", source.feeds, tf.RunOptions(
        trace_level=tf.RunOptions.FULL_TRACE), metadata)
    assert any("FAKE" in device.device for device in metadata.step_stats.dev_stats)
    source.close()
