"""Checkpoint files: the Python reader, the `checkpoint` state file, and both against damaged
input."""
import json
import os
import random
import sys

import numpy as np
import pytest

import pyflow as tf
from pyflow.train import checkpoint, checkpoint_state

sys.path.insert(0, os.path.dirname(__file__))
import reference_writer  # noqa: E402

TENSORS = {
    "layer/W": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.float64(2.5),
    "step": np.int64(7),
    "flags": np.array([True, False]),
    "small": np.int8([-1, 2]),
    "z": np.complex64([1 + 2j]),
    "empty": np.zeros((0, 5), np.float16),
    "words": np.array([[b"a", b""], ["\u00e9".encode(), b"\0\xff"]], object),
    'quo"te\\': np.uint16([65535]),
    "caf\u00e9": np.uint8([1, 2, 3]),
}


@pytest.fixture
def prefix(tmp_path):
    path = str(tmp_path / "model-3")
    reference_writer.write(path, TENSORS)
    return path


def test_reading(prefix):
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map()["layer/W"] == [3, 4]
    assert reader.get_variable_to_dtype_map()["b"] == tf.float64
    assert reader.has_tensor("step") and not reader.has_tensor("steps")
    for name, value in TENSORS.items():
        got = reader.get_tensor(name)
        assert (
            np.shape(got) == np.shape(value) and (np.asarray(got) == np.asarray(value)).all()
        ), name
    assert reader.verify() == []
    assert b"layer/W (DT_FLOAT) [3, 4]" in reader.debug_string()
    assert ("step", []) in tf.train.list_variables(prefix)
    assert tf.train.load_variable(prefix, "b:0") == 2.5


def test_the_data_file_is_plain_safetensors(prefix):
    with open(prefix + ".data-00000-of-00001.safetensors", "rb") as f:
        blob = f.read()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__")
    assert (8 + size) % 64 == 0
    ends = sorted(tuple(e["data_offsets"]) for e in header.values())
    assert ends[0][0] == 0 and ends[-1][1] == len(blob) - 8 - size
    assert all(a[1] == b[0] for a, b in zip(ends, ends[1:])), "no holes"
    begin, end = header["layer/W"]["data_offsets"]
    assert np.frombuffer(blob[8 + size + begin:8 + size + end], "<f4").tolist() == list(range(12))


def test_missing_things(prefix, tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="no checkpoint at"):
        tf.train.load_checkpoint(prefix + "4")
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file"):
        tf.train.load_checkpoint(tmp_path)
    with pytest.raises(
        tf.errors.NotFoundError, match="Key w not found in checkpoint.*it has 10 tensors"
    ):
        tf.train.load_variable(prefix, "w")
    os.unlink(prefix + ".data-00000-of-00001.safetensors")
    with pytest.raises(tf.errors.NotFoundError, match="data file"):
        tf.train.load_variable(prefix, "b")


def test_damage_is_found(prefix):
    data = prefix + ".data-00000-of-00001.safetensors"
    blob = bytearray(open(data, "rb").read())
    blob[-1] ^= 1
    open(data, "wb").write(blob)
    assert len(tf.train.load_checkpoint(prefix).verify()) == 1
    open(data, "wb").write(blob[:-1])
    assert len(tf.train.load_checkpoint(prefix).verify()) == len(TENSORS)


def test_any_damaged_index_is_refused(prefix):
    """Every single flipped byte of the index, and every shortened one, is an error of the right
    class."""
    path = prefix + ".index"
    good = open(path, "rb").read()
    rng = random.Random(0)
    for _ in range(300):
        blob = bytearray(good)
        blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
        for bad in (bytes(blob), good[:rng.randrange(len(good))]):
            open(path, "wb").write(bad)
            with pytest.raises(tf.errors.DataLossError):
                tf.train.load_checkpoint(prefix)


@pytest.mark.parametrize(
    "change",
    [
        dict(file=1),
        dict(file=-1),
        dict(dtype="float31"),
        dict(shape=[3, 5]),
        dict(shape=[-3, -4]),
        dict(shape=[2**40, 2**40]),
        dict(begin=2**63),
        dict(begin=-1),
        dict(end=2**62),
        dict(crc32="nothex"),
        dict(shape="x"),
        dict(begin=1.5),
    ],
    ids=str,
)
def test_lying_entries_are_refused(prefix, change):
    reader = tf.train.load_checkpoint(prefix)
    entry = reader.entries()["layer/W"]
    lie = {"file": 0, "dtype": "float32", "shape": [3, 4], "begin": entry.begin, "end": entry.end,
           "crc32": f"{entry.crc32:08x}", **change}
    name, size = reader._files[0]
    reference_writer.write_index(prefix, [{"name": name, "size": size}], {"layer/W": lie})
    with pytest.raises(tf.errors.DataLossError):
        tf.train.load_checkpoint(prefix).get_tensor("layer/W")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "", "a\0b", 5])
def test_data_files_lie_beside_the_index(prefix, name):
    reference_writer.write_index(prefix, [{"name": name, "size": 10}], {})
    with pytest.raises(tf.errors.DataLossError):
        tf.train.load_checkpoint(prefix)


def test_strings_that_do_not_add_up(prefix):
    reader = tf.train.load_checkpoint(prefix)
    entry = reader.entries()["words"]
    for data in (b"", b"\xff" * 40, (2**63).to_bytes(8, "little") * 4, bytes(32) + b"x"):
        with pytest.raises(tf.errors.DataLossError):
            checkpoint._decode(entry, data)


# ---------------------------------------------------------------- the state file

def test_state_file_text_is_tfs():
    state = checkpoint_state.CheckpointState("model-2", ["model-1", "model-2"], [1.5, 2.0], 3.5)
    text = checkpoint_state.to_text(state)
    assert text.splitlines()[:3] == [
        'model_checkpoint_path: "model-2"',
        'all_model_checkpoint_paths: "model-1"',
        'all_model_checkpoint_paths: "model-2"',
    ]
    assert checkpoint_state.from_text(text) == state
    odd = checkpoint_state.CheckpointState('a "b" \\ c\u00e9\n', ["x"])
    assert checkpoint_state.from_text(checkpoint_state.to_text(odd)) == odd
    assert (
        checkpoint_state.from_text(
            "# comment\n\nmodel_checkpoint_path: 'single'  # why\n"
        ).model_checkpoint_path
        == "single"
    )
    for bad in ("model_checkpoint_path: bare", "nonsense", 'unknown: "x"'):
        with pytest.raises(ValueError, match="line 1"):
            checkpoint_state.from_text(bad)


def test_protobuf_agrees():
    from google.protobuf import text_format
    from pyflow.framework import protos
    state = checkpoint_state.CheckpointState('m"\u00e9-2', ["m-1", 'm"\u00e9-2'], [1.25], 2.5)
    message = text_format.Parse(checkpoint_state.to_text(state), protos.CheckpointState())
    assert message.model_checkpoint_path == 'm"\u00e9-2' and list(
        message.all_model_checkpoint_timestamps
    ) == [1.25]
    assert checkpoint_state.from_text(text_format.MessageToString(message)) == state


def test_latest_checkpoint(tmp_path):
    folder = str(tmp_path)
    assert (
        tf.train.latest_checkpoint(folder) is None and tf.train.get_checkpoint_state(folder) is None
    )
    for n in (1, 2):
        reference_writer.write(f"{folder}/model-{n}", {"a": np.float32(n)})
    tf.train.update_checkpoint_state(
        folder, f"{folder}/model-2", [f"{folder}/model-1", f"{folder}/model-2"]
    )
    assert tf.train.latest_checkpoint(folder) == f"{folder}/model-2"
    assert tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths == [
        f"{folder}/model-1",
        f"{folder}/model-2",
    ]
    os.unlink(f"{folder}/model-2.index")
    assert tf.train.latest_checkpoint(folder) == f"{folder}/model-1", "the newest that is complete"
    (tmp_path / "checkpoint").write_text("damaged")
    assert tf.train.latest_checkpoint(folder) is None


def test_moved_folder(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    reference_writer.write(str(old / "m-1"), {"a": np.float32(1)})
    tf.train.update_checkpoint_state(str(old), str(old / "m-1"))
    os.rename(old, new)
    assert tf.train.latest_checkpoint(str(new)) == str(new / "m-1")
    assert tf.train.load_variable(str(new), "a") == 1


def test_remove_checkpoint(prefix, tmp_path):
    reference_writer.write(str(tmp_path / "model-33"), {"a": np.float32(1)})
    tf.train.remove_checkpoint(prefix)
    assert sorted(os.listdir(tmp_path)) == [
        "model-33.data-00000-of-00001.safetensors",
        "model-33.index",
    ]
