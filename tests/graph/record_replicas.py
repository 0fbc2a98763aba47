"""Records which devices TensorFlow's replica_device_setter gives: writes replica_answers.json.

    python tests/graph/record_replicas.py         (needs tensorflow; CI reads the file only)
"""
import json
import os

CLUSTER = {"ps": ["a:1", "b:1", "c:1"], "worker": ["d:1", "e:1"]}
SETTERS = {
    "two": {"ps_tasks": 2},
    "cluster": {"cluster": CLUSTER},
    "sparse": {"cluster": {"ps": {1: "a:1", 4: "b:1"}, "worker": ["c:1"]}},
    "no ps": {"cluster": {"worker": ["d:1"]}},
    "no tasks": {},
    "own names": {"ps_tasks": 2, "ps_device": "/job:keeper/cpu:0",
                  "worker_device": "/job:w/task:3/gpu:1"},
    "no worker": {"ps_tasks": 2, "worker_device": ""},
    "no ps device": {"ps_tasks": 2, "ps_device": ""},
    "no job": {"ps_tasks": 2, "ps_device": "/cpu:0"},
    "other job": {"cluster": CLUSTER, "ps_device": "/job:worker"},
    "no merge": {"ps_tasks": 2, "merge_devices": False},
    "ops": {"ps_tasks": 2, "ps_ops": ["Const", "MatMul"]},
    "strategy": {"ps_tasks": 7, "ps_strategy": lambda op: len(op.name)},
}
INNER = (None, "/gpu:1", "/job:ps", "/job:worker/task:1", "/job:ps/task:9", "/task:5", "/job:other")
OUTER = (None, "/job:main/cpu:3", "/replica:2")


def build(tf, inner):
    """Variables of both kinds, a constant, a product; half of them inside an inner device."""
    v = tf.get_variable("v", [2, 2], use_resource=False)
    r = tf.get_variable("r", [2, 2], use_resource=True)
    with tf.device(inner) if inner is not None else tf.name_scope("plain"):
        w = tf.get_variable("w", [2, 2], use_resource=True)
        u = tf.get_variable("u", [2, 2], use_resource=False)
        c = tf.constant([[1.0, 2.0], [3.0, 4.0]], name="c")
        tf.matmul(c, c, name="inner")
    tf.matmul(c, c, name="outer")
    last = tf.get_variable("last", [], use_resource=True)
    return [x.op.name for x in (v, u, c)] + [x.handle.op.name for x in (r, w, last)] + [
        tf.get_default_graph().get_operation_by_name(name).name
        for name in ("plain/inner" if inner is None else "inner", "outer")]


def answers(tf):
    """{setter: {"inner, outer": {node: device}}}."""
    found = {}
    for name, arguments in SETTERS.items():
        mine = found[name] = {}
        for inner in INNER:
            for outer in OUTER:
                with tf.Graph().as_default() as graph:
                    setter = tf.train.replica_device_setter(**arguments)
                    if setter is None:
                        mine[""] = None
                        continue
                    with tf.device(outer) if outer is not None else tf.name_scope(""):
                        with tf.device(setter):
                            names = build(tf, inner)
                    mine[f"{inner}, {outer}"] = {
                        n.split("/")[-1]: graph.get_operation_by_name(n).device for n in names}
    return found


if __name__ == "__main__":
    import tensorflow.compat.v1 as tf
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replica_answers.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(answers(tf), file, indent=0, sort_keys=True)
        file.write("\n")
