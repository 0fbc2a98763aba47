"""Writes tf_graphs.json: GraphDefs TensorFlow made, to be read and written back by pyflow.

    python tests/graph/record_graphdefs.py      # with a Python that has TensorFlow
"""

import base64
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
tf.disable_control_flow_v2()
tf.disable_resource_variables()


def arrays():
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    with tf.device("/job:worker/gpu:1"), tf.control_dependencies([x]):
        w = tf.constant(np.arange(12, dtype=np.float32).reshape(4, 3), name="w")
    y = tf.nn.softmax(tf.matmul(x, w) + tf.constant([1.0, 2.0, 3.0]), name="y")
    tf.concat([y, y], 1)
    tf.stack(tf.split(y, 3, axis=1))
    tf.reshape(y, [-1, 3])[:, 1:]
    tf.constant([b"a", b"\xff\x00"], name="strings")
    tf.constant([1.5, -2.0], tf.bfloat16)
    tf.nn.conv2d(tf.zeros([1, 8, 8, 3]), tf.ones([3, 3, 3, 4]), [1, 2, 2, 1], "SAME")
    with tf.colocate_with(w):
        tf.identity(y, name="near_w")


def control_flow():
    def body(i, a):
        return i + 1, tf.cond(i > 3, lambda: a * 2.0, lambda: a + 1.0)
    tf.while_loop(lambda i, a: i < 10, body, [0, tf.ones([2])], name="loop")


def variables():
    v = tf.Variable([1.0, 2.0], name="v")
    r = tf.get_variable("r", initializer=[3.0], use_resource=True)
    loss = tf.reduce_sum(v * v) + tf.reduce_sum(r)
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)


graphs = {}
for build in (arrays, control_flow, variables):
    for shapes in (False, True):
        with tf.Graph().as_default() as g:
            build()
        data = g.as_graph_def(add_shapes=shapes).SerializeToString(deterministic=True)
        graphs[build.__name__ + ("_shapes" if shapes else "")] = base64.b64encode(data).decode()
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tf_graphs.json")
with open(path, "w") as f:
    json.dump(graphs, f, indent=0)
    f.write("\n")
print({k: len(v) for k, v in graphs.items()}, tf.__version__)
