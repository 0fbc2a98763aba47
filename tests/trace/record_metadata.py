"""Writes run_metadata.pb, a traced step of a small program with a loop; and, run by a Python that
has TensorFlow, tf_timeline.json: what TensorFlow's own timeline module makes of those bytes.

    python record_metadata.py            # with pyflow
    TF_PYTHON record_metadata.py --tf    # with TensorFlow
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
METADATA, ANSWER = HERE / "run_metadata.pb", HERE / "tf_timeline.json"


def record():
    import numpy as np

    import pyflow as tf

    x = tf.placeholder(tf.float32, [None, 16], name="x")
    w = tf.Variable(np.full((16, 4), 0.5, np.float32), name="w")
    h = tf.nn.relu(tf.matmul(x, w, name="fc"), name="h")
    _, looped = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.sqrt(v, name="root")),
                              [tf.constant(0), h])
    parts = tf.split(looped, 2, axis=1, name="parts")
    called = tf.py_func(lambda a: a + 1, [parts[0]], tf.float32, name="called")
    metadata = tf.RunMetadata()
    with tf.Session(threads=1) as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        session.run([called, parts[1]], {x: np.ones((8, 16), np.float32)}, options, metadata)
    METADATA.write_bytes(metadata.SerializeToString(deterministic=True))


def record_tf():
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.client import timeline

    metadata = config_pb2.RunMetadata.FromString(METADATA.read_bytes())
    made = timeline.Timeline(metadata.step_stats)
    events = json.loads(made.generate_chrome_trace_format(show_memory=True))["traceEvents"]
    ops = [[e["name"], e["ts"], e["dur"], e["args"]] for e in events
           if e["ph"] == "X" and e.get("cat") == "Op"]
    flows = sorted({e["name"] for e in events if e["ph"] == "s"})
    ANSWER.write_text(json.dumps({"ops": sorted(ops, key=str), "flows": flows}, indent=1) + "\n")


if __name__ == "__main__":
    record_tf() if "--tf" in sys.argv else record()
