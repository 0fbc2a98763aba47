"""Elements beside TensorFlow's, recorded by recorded_pipelines.py."""
import json
import pathlib

import pyflow as tf
from recorded_pipelines import answers


def test_elements_are_tensorflows():
    with open(pathlib.Path(__file__).with_name("answers.json"), encoding="utf-8") as f:
        recorded = json.load(f)
    got = answers(tf)
    assert set(got) == set(recorded)
    assert {name for name in got if json.loads(json.dumps(got[name])) != recorded[name]} == set()
