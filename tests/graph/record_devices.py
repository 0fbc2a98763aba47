"""Records how TensorFlow reads, prints and merges device names: writes device_answers.json.

    python tests/graph/record_devices.py          (needs tensorflow; CI reads the file only)
"""
import itertools
import json
import os

SPELLINGS = (
    "", "/", "/job:worker", "/job:", "/task:1", "/replica:0", "/cpu:0", "/gpu:1", "/CPU:0",
    "/GPU:*", "/gpu", "/Gpu:2", "/device:CPU:0", "/device:GPU:*", "/device:gpu:3",
    "/device:cpu:0", "/device:TPU:0", "/device:Npu:4", "/device:npu:4",
    "/job:worker/replica:0/task:1/device:GPU:0", "job:a/task:2", "/job:w/task:01/cpu:0",
    "//job:a//task:1//", "/job:a/job:b", "/task:1/task:2", "/task:-1", "/job:a b", "/TPU:1",
    "/cpu:0/gpu:1", "/cpu:0/device:CPU:1", "/device:GPU", "/device:GPU:x", "/task:x", "/task:*",
    "/foo:1", "/bogus", "gpu:0", "/cpu:0:1", "/job:a:b", "/device::0", "/device:GPU:", "/gpu:",
    "/:0", ":", "/JOB:a", "/Task:1", "/device:GPU:0 ", "/gpu:0/job:ps", "/device:GPU:007",
)
PARTS = ("", "/job:worker", "/job:ps/task:3", "/cpu:0", "/gpu:1", "/device:GPU:*", "/gpu",
         "/task:7", "/replica:2/task:0", "/job:a/replica:1/task:2/device:GPU:3",
         "/job:b/device:NPU:1")
NESTS = (
    ("/job:w", "/gpu:0", "/cpu:0"), ("/gpu:1", "/job:w", "/task:3"), ("/gpu:1", None, "/task:3"),
    ("/gpu:1", None), (None,), ("/cpu:0", "FUNCTION"), ("FUNCTION", "/cpu:1"),
    ("/job:w", "FUNCTION", "/task:1"), ("FUNCTION", None), ("/gpu:2", "MERGE", "/job:x"),
    ("MERGE", "/gpu:2"), ("/gpu:0", "SPEC"), ("SPEC", "/job:z"), ("/job:z", "", "/cpu:3"),
    ("APPEND", "/gpu:0", "/job:q"), ("/job:q", "APPEND", "/gpu:0"),
)
COLOCATIONS = (("/gpu:0", "", ""), ("/gpu:0", "/cpu:0", ""), ("", "/cpu:0", ""),
               ("/gpu:0", "", "/cpu:1"), ("/job:a", "/gpu:0", "/task:2"))


def round_trip(tf, text):
    """[job, replica, task, type, index, to_string] of a name, or "error"."""
    try:
        spec = tf.DeviceSpec.from_string(text)
    except ValueError:
        return "error"
    return [spec.job, spec.replica, spec.task, spec.device_type, spec.device_index,
            spec.to_string()]


def merged(tf, outer, inner):
    """Outer.merge_from(inner), by mutation and as a new spec."""
    spec = tf.DeviceSpec.from_string(outer)
    new = spec.make_merged_spec(tf.DeviceSpec.from_string(inner)).to_string()
    spec.merge_from(tf.DeviceSpec.from_string(inner))
    assert spec.to_string() == new
    return new


def entry(tf, name, merge_device):
    """What tf.device gets for one level of NESTS."""
    return {"FUNCTION": lambda op: "/job:f/device:GPU:5",
            "APPEND": lambda op: op.device + "/replica:4",
            "MERGE": merge_device("/job:m/device:CPU:6"),
            "SPEC": tf.DeviceSpec(job="s", device_type="GPU", device_index=8)}.get(name, name)


def nested(tf, levels, merge_device):
    """The device of an op made inside these scopes, outermost first."""
    with tf.Graph().as_default():
        scopes = [tf.device(entry(tf, level, merge_device)) for level in levels]
        for scope in scopes:
            scope.__enter__()
        op = tf.no_op()
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)
        return op.device


def colocated(tf, own, outer, inner):
    """The devices of an op made by device(outer): colocate_with(op on own): device(inner)."""
    with tf.Graph().as_default():
        with tf.device(own):
            first = tf.constant(1.0, name="first")
        with tf.device(outer), tf.colocate_with(first.op), tf.device(inner):
            second = tf.constant(2.0, name="second")
        return [second.op.device, [g.decode() for g in second.op.colocation_groups()]]


def answers(tf, merge_device):
    """Everything above as one JSON value."""
    return {
        "round_trips": {text: round_trip(tf, text) for text in SPELLINGS},
        "merges": {f"{a}|{b}": merged(tf, a, b) for a, b in itertools.product(PARTS, PARTS)},
        "nests": {json.dumps(n): nested(tf, n, merge_device) for n in NESTS},
        "colocations": {json.dumps(c): colocated(tf, *c) for c in COLOCATIONS},
    }


if __name__ == "__main__":
    import tensorflow.compat.v1 as v1
    from tensorflow.python.framework import device
    v1.disable_eager_execution()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device_answers.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(answers(v1, device.merge_device), f, indent=0, sort_keys=True)
        f.write("\n")
