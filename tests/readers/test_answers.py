"""Readers, tf.parse_example and its kin say what TensorFlow says: values, static shapes, keys,
counts, errors' types and texts, who waits."""
import json
import pathlib

import pytest

import pyflow as tf
import input_programs

ANSWERS = json.loads((pathlib.Path(__file__).parent / "answers.json").read_text())


def test_all_programs_are_recorded():
    assert list(ANSWERS) == list(input_programs.PROGRAMS)


def same(said, expected):
    """Equal; of an error the type, and TensorFlow's line within ours."""
    if isinstance(expected, list) and expected[:1] == ["error"]:
        return (isinstance(said, list) and said[:2] == expected[:2]
                and (expected[2] in said[2] or expected[2] in OTHERWISE))
    return said == expected


# Errors that are told in other words here.
OTHERWISE = {
    "Expect 1 fields but have 0 in record 0",           # columns before the selected one
    "Could not parse `serialized` as TensorProto, base64: Z2FyYmFnZQ==",
    # the sizes are the other way round
    "DecodeRaw requires input strings to all be the same size, but element 1 has size 3 != 1",
}


@pytest.mark.parametrize("name", list(input_programs.PROGRAMS))
def test_says_what_tensorflow_says(name, tmp_path):
    said = input_programs.answers(tf, name, tmp_path, 0.03)
    for i, (got, want) in enumerate(zip(said, ANSWERS[name])):
        assert same(got, want), f"answer {i}: {got}, TensorFlow: {want}"
    assert len(said) == len(ANSWERS[name])
