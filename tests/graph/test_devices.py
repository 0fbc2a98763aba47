"""Device names: reading, printing, merging and scopes as TensorFlow's recorded answers say."""
import json
import os

import pytest
import record_devices

import pyflow as tf
from pyflow.framework import device

with open(os.path.join(os.path.dirname(__file__), "device_answers.json"), encoding="utf-8") as file:
    RECORDED = json.load(file)
HERE = json.loads(json.dumps(record_devices.answers(tf, device.merge_device)))


@pytest.mark.parametrize("table", sorted(RECORDED))
def test_as_in_tensorflow(table):
    different = {key: (want, HERE[table][key]) for key, want in RECORDED[table].items()
                 if HERE[table][key] != want}
    assert not different, "name: (TensorFlow's answer, ours)"
    assert len(RECORDED[table]) >= 5


def test_a_bad_name_says_which_part_and_how_a_good_one_looks():
    with pytest.raises(ValueError, match=r"'bogus:1'.*'/job:a/bogus:1'.*every part is optional"):
        tf.DeviceSpec.from_string("/job:a/bogus:1")
    with pytest.raises(ValueError, match="multiple device types.*/cpu:0/gpu:0"):
        tf.DeviceSpec.from_string("/cpu:0/gpu:0")
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Unknown attribute"):
        with tf.device("/xpu:0"):
            tf.no_op()


def test_fields_may_be_assigned():
    spec = tf.DeviceSpec(job="ps", device_type="gpu")
    assert spec.to_string() == "/job:ps/device:GPU:*"
    spec.device_index, spec.task = "2", 1
    assert spec.to_string() == "/job:ps/task:1/device:GPU:2"
    spec.device_type = None
    assert spec.to_string() == "/job:ps/task:1" and spec.device_index == 2
    assert spec.replace(job=None, replica=3).to_string() == "/replica:3/task:1"
    assert spec == tf.DeviceSpec(job="ps", task=1, device_index=5) != tf.DeviceSpec()
    assert len({spec, tf.DeviceSpec.from_string("/job:ps/task:1")}) == 1
    assert spec.parse_from_string("/gpu:0") is spec and spec.job is None


def test_partial_specs_allow_what_they_leave_open():
    full = tf.DeviceSpec.from_string("/job:localhost/replica:0/task:0/device:GPU:1")
    for text in ("", "/job:localhost", "/gpu:1", "/device:GPU:*", "/task:0/gpu"):
        assert tf.DeviceSpec.from_string(text).allows(full)
    for text in ("/job:other", "/gpu:0", "/cpu:1", "/task:1/gpu:1"):
        assert not tf.DeviceSpec.from_string(text).allows(full)
