"""TensorFlow's checkpoints, V2 and V1, recorded from TensorFlow 2.21 (record.py): read as they are,
written byte for byte alike, and refused by name where they are damaged."""
import pathlib
import shutil
import struct
import sys
import time

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import pyflow as tf  # noqa: E402
import saved_values as values  # noqa: E402
import tables  # noqa: E402
from pyflow.tools import command, inspect_checkpoint  # noqa: E402

DATA = HERE / "data"
PREFIXES = ["ckpt_v2", "ckpt_sharded", "ckpt_v1"]
NOT_IN_V1 = {"plain/uint32", "plain/uint64", "plain/bfloat16"}


def restored(prefix, name, dtype, spec=""):
    """What RestoreV2 gives."""
    with tf.Graph().as_default(), tf.Session() as sess:
        return sess.run(tf.raw_ops.RestoreV2(prefix=str(prefix), tensor_names=[name],
                                             shape_and_slices=[spec], dtypes=[dtype]))[0]


def copied(tmp_path, name="ckpt_v2"):
    for path in DATA.glob(f"{name}*"):
        shutil.copy(path, tmp_path)
    return tmp_path / name


def rewritten(tmp_path, change, name="ckpt_v2.index", **how):
    """The prefix of a checkpoint whose table has the entries that `change` makes of it."""
    copied(tmp_path)
    entries = change(tables.read((DATA / name).read_bytes()))
    (tmp_path / name).write_bytes(tables.write(entries, **how))
    return tmp_path / name.removesuffix(".index")


@pytest.mark.parametrize("name", PREFIXES)
def test_every_tensor(name):
    reader = tf.train.load_checkpoint(str(DATA / name))
    shapes = reader.get_variable_to_shape_map()
    wanted = {**values.tensors(), "parted": values.partitioned()}
    for key, value in wanted.items():
        if name == "ckpt_v1" and key in NOT_IN_V1:
            assert not reader.has_tensor(key)
            continue
        found = np.asarray(reader.get_tensor(key), value.dtype if value.dtype == object else None)
        assert found.dtype == value.dtype and found.shape == value.shape, key
        assert shapes[key] == list(value.shape)
        np.testing.assert_array_equal(found, value, key)
    if name != "ckpt_v1":
        half = reader.get_tensor("plain/bfloat16")
        np.testing.assert_array_equal(half.astype(np.float32)[:3], values.bfloat16_source()[:3])
        assert reader.get_variable_to_dtype_map()["plain/bfloat16"] == tf.bfloat16
    np.testing.assert_array_equal(reader.get_tensor("plain/qint8").astype(np.int8), [-128, -1, 127])
    assert tf.train.list_variables(str(DATA / name)) == sorted(shapes.items())


def test_files_of_a_pattern():
    """V1's shards: the parts of one tensor lie in two files."""
    prefix = str(DATA / "ckpt_v1_pair-?????-of-00002")
    assert tf.train.checkpoint_exists(prefix)
    np.testing.assert_array_equal(tf.train.load_variable(prefix, "parted"), values.partitioned())
    assert tf.train.load_variable(prefix, "own_1:0").tolist() == [2.5]


@pytest.mark.parametrize("name", PREFIXES)
@pytest.mark.parametrize("spec, rows, columns", [
    ("5 4 0,3:0,4", slice(0, 3), slice(0, 4)), ("5 4 1,4:1,2", slice(1, 5), slice(1, 3)),
    ("5 4 -:3,1", slice(None), slice(3, 4)), ("5 4 2,0:-", slice(2, 2), slice(None))])
def test_slices(name, spec, rows, columns):
    """Of a tensor in two parts: across them, in one, none of it."""
    found = restored(DATA / name, "parted", tf.float32, spec)
    np.testing.assert_array_equal(found, values.partitioned()[rows, columns])
    whole = values.tensors()["plain/float64"]
    np.testing.assert_array_equal(restored(DATA / name, "plain/float64", tf.float64, "3 2 1,2:1,1"),
                                  whole[1:, 1:2])
    np.testing.assert_array_equal(restored(DATA / name, "texts", tf.string, "2 2 -:0,1"),
                                  values.tensors()["texts"][:, :1])


def test_a_slice_of_another_shape():
    with pytest.raises(tf.errors.InvalidArgumentError, match="'5 4 0,6:-': no slice of tensor"):
        restored(DATA / "ckpt_v2", "parted", tf.float32, "5 4 0,6:-")


def test_ops_of_old_graphs():
    with tf.Graph().as_default(), tf.Session() as sess:
        path = str(DATA / "ckpt_v1")
        whole = tf.raw_ops.Restore(file_pattern=path, tensor_name="scalar", dt=tf.int64)
        part = tf.raw_ops.RestoreSlice(file_pattern=path, tensor_name="parted",
                                       shape_and_slice="5 4 4,1:-", dt=tf.float32)
        assert sess.run(whole) == 7
        np.testing.assert_array_equal(sess.run(part), values.partitioned()[4:])


@pytest.mark.parametrize("name", PREFIXES)
def test_saver_restores(name):
    """Variables of both kinds, a partitioned one, by other names."""
    wanted = values.tensors()
    with tf.Graph().as_default(), tf.Session() as sess:
        a = tf.get_variable("plain/float32", [3, 2])
        b = tf.get_variable("plain/int64", [4], tf.int64, use_resource=True,
                            initializer=tf.zeros_initializer())
        parts = tf.get_variable("parted", [5, 4], partitioner=tf.fixed_size_partitioner(3))
        other = tf.get_variable("renamed", [3, 2], tf.float64)
        assert tf.train.Saver([a, b, parts]).restore(sess, str(DATA / name)) is None
        tf.train.Saver({"plain/float64": other}).restore(sess, str(DATA / name))
        np.testing.assert_array_equal(sess.run(a), wanted["plain/float32"])
        np.testing.assert_array_equal(sess.run(b), wanted["plain/int64"])
        np.testing.assert_array_equal(sess.run(tf.convert_to_tensor(parts)), values.partitioned())
        np.testing.assert_array_equal(sess.run(other), wanted["plain/float64"])


def test_the_index_is_no_prefix():
    """Though it is a table, as V1's files are."""
    path = str(DATA / "ckpt_v2.index")
    assert not tf.train.checkpoint_exists(path)
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.Saver([tf.Variable(0.0)])
        with pytest.raises(ValueError, match="prefix without its ending is: '.*/ckpt_v2'"):
            saver.restore(sess, path)
    with pytest.raises(tf.errors.NotFoundError, match="no checkpoint at"):
        restored(path, "scalar", tf.int64)


def test_what_does_not_fit_is_told_at_once():
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.get_variable("plain/float3", [3, 2])
        b = tf.get_variable("plain/int64", [5], tf.int64)
        saver = tf.train.Saver()
        with pytest.raises(tf.errors.NotFoundError) as caught:
            saver.restore(sess, str(DATA / "ckpt_v2"))
        assert "Key plain/float3 not found" in caught.value.message
        assert "expects int64 [5], the checkpoint has int64 [4]" in caught.value.message
        report = tf.train.Saver({"scalar": tf.Variable(np.int64(0)), "plain/int64": b}).restore(
            sess, str(DATA / "ckpt_v2"), strict=False)
        assert report.restored == ["scalar"]


def test_restore_in_an_imported_graph():
    """A graph of TensorFlow's that holds RestoreV2 nodes: slices of a partitioned variable."""
    with tf.Graph().as_default() as graph:
        prefix = tf.placeholder_with_default(str(DATA / "ckpt_sharded"), [], name="prefix")
        tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=["parted", "texts"],
                             shape_and_slices=["5 4 3,2:-", ""], dtypes=[tf.float32, tf.string],
                             name="restored")
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.import_graph_def(graph.as_graph_def(), name="")
        part, texts = sess.run(["restored:0", "restored:1"])
        np.testing.assert_array_equal(part, values.partitioned()[3:])
        np.testing.assert_array_equal(texts, values.tensors()["texts"])


def test_compressed_tables(tmp_path):
    """Snappy's blocks, as TensorFlow writes V1's where it can."""
    prefix = rewritten(tmp_path, lambda entries: entries, kind=1)
    np.testing.assert_array_equal(tf.train.load_variable(prefix, "scalar"), 7)
    prefix = rewritten(tmp_path, lambda entries: entries, "ckpt_v1", kind=1, per_block=3)
    np.testing.assert_array_equal(tf.train.load_variable(prefix, "parted"), values.partitioned())


# ---------------------------------------------------------------- damage

def test_a_flipped_bit_names_file_and_tensor(tmp_path):
    prefix = copied(tmp_path)
    data = tmp_path / "ckpt_v2.data-00000-of-00001"
    raw = bytearray(data.read_bytes())
    at = raw.index(values.tensors()["plain/float32"].tobytes())
    raw[at] ^= 1
    data.write_bytes(raw)
    with pytest.raises(tf.errors.DataLossError) as caught:
        tf.train.load_variable(prefix, "plain/float32")
    assert "tensor 'plain/float32' in" in caught.value.message and str(data) in caught.value.message
    assert "CRC" in caught.value.message and "expected" in caught.value.message
    reader = tf.train.load_checkpoint(prefix)
    assert len(reader.verify()) == 1                        # the others are still read


def test_a_flipped_bit_of_the_index(tmp_path):
    prefix = copied(tmp_path)
    index = tmp_path / "ckpt_v2.index"
    raw = bytearray(index.read_bytes())
    raw[100] ^= 1
    index.write_bytes(raw)
    with pytest.raises(tf.errors.DataLossError, match=r"ckpt_v2.index is damaged: .* CRC .* expec"):
        tf.train.load_checkpoint(prefix)


def test_missing_and_short_shards(tmp_path):
    prefix = copied(tmp_path, "ckpt_sharded")
    second = tmp_path / "ckpt_sharded.data-00001-of-00002"
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(tf.errors.DataLossError, match="has only"):
        for key in tf.train.load_checkpoint(prefix).get_variable_to_shape_map():
            tf.train.load_variable(prefix, key)
    second.unlink()
    with pytest.raises(tf.errors.NotFoundError, match="data-00001-of-00002"):
        tf.train.load_variable(prefix, "parted")


def _entry_of(entries, name, change):
    return [(k, change(v) if k == name else v) for k, v in entries]


@pytest.mark.parametrize("name, value, message", [
    (b"scalar", b"\x08\x09\x12\x00\x28\x07", "int64 of shape .* needs 8 bytes, the index says 7"),
    (b"scalar", b"\x08\x09\x12\x04\x12\x02\x08\x7f\x28\x08", "needs 1016 bytes"),
    (b"scalar", b"\x08\x09\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\x01\x28\x08",
     "its shape is malformed"),
    (b"scalar", b"\x08\x09\x18\x05\x28\x08", "its entry in the index is malformed"),
    (b"", b"\x08\x01\x10\x01", "big-endian"),
    (b"", b"\x08\x01\x1a\x02\x10\x02", "newer reader"),
    (b"", b"", "header that is none"),
], ids=["bytes", "shape", "negative", "shard", "endian", "version", "header"])
def test_entries_that_cannot_be(tmp_path, name, value, message):
    prefix = rewritten(tmp_path, lambda e: _entry_of(e, name, lambda _: value))
    with pytest.raises(tf.errors.DataLossError, match=message):
        tf.train.load_checkpoint(prefix)


def test_a_part_that_is_missing(tmp_path):
    prefix = rewritten(tmp_path, lambda entries: [
        (k, v) for k, v in entries if not (k[:1] == b"\0" and b"\x83" in k)])
    with pytest.raises(tf.errors.DataLossError, match="'parted': one of its slices is missing"):
        tf.train.load_variable(prefix, "parted")


def test_types_that_cannot_be_restored_are_listed(tmp_path):
    prefix = rewritten(tmp_path, lambda e: _entry_of(e, b"scalar", lambda v: b"\x08\x15" + v[2:]))
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_dtype_map()["scalar"] == tf.variant
    with pytest.raises(tf.errors.UnimplementedError, match="'scalar' of checkpoint .* variant"):
        reader.get_tensor("scalar")
    assert reader.get_tensor("one_text") == b"one"


def test_other_files_are_no_checkpoints(tmp_path):
    (tmp_path / "a.index").write_bytes(b"x" * 100)
    with pytest.raises(tf.errors.DataLossError):
        tf.train.load_checkpoint(tmp_path / "a")
    (tmp_path / "b.index").write_bytes(b"\0" * 92 + tables.MAGIC)
    with pytest.raises(tf.errors.DataLossError, match="b.index is damaged"):
        tf.train.load_checkpoint(tmp_path / "b")
    with pytest.raises(tf.errors.NotFoundError, match="no checkpoint at"):
        tf.train.load_checkpoint(tmp_path / "c")


# ---------------------------------------------------------------- written

def saved(folder, variables, **options):
    with tf.Graph().as_default(), tf.Session() as sess:
        made = {name: tf.Variable(value) for name, value in variables.items()}
        saver = tf.train.Saver(made, **options)
        sess.run(tf.global_variables_initializer())
        return saver.save(sess, str(folder / "model"))


def test_what_is_written_is_tensorflows(tmp_path):
    """Type, shape, bytes and CRC of every tensor as TensorFlow has written them."""
    given = {k: v for k, v in values.tensors().items() if v.dtype != object}
    prefix = saved(tmp_path, given, format="tensorflow")
    ours = tables.bundle((tmp_path / "model.index").read_bytes(),
                         [(tmp_path / "model.data-00000-of-00001").read_bytes()])
    theirs = tables.bundle((DATA / "ckpt_v2.index").read_bytes(),
                           [(DATA / "ckpt_v2.data-00000-of-00001").read_bytes()])
    assert list(ours) == sorted(given)
    assert ours == {name: theirs[name] for name in ours}
    reader = tf.train.load_checkpoint(prefix)
    assert reader.format == "TensorFlow V2"
    np.testing.assert_array_equal(reader.get_tensor("plain/complex128"), given["plain/complex128"])


def test_strings_are_written_as_tensorflow_does(tmp_path):
    """Their bytes and CRC, too, which cover lengths in another form than they are stored in."""
    given = values.tensors()
    with tf.Graph().as_default(), tf.Session() as sess:
        save = tf.raw_ops.SaveV2(prefix=str(tmp_path / "s"), tensor_names=["texts", "one_text"],
                                 shape_and_slices=["", ""],
                                 tensors=[tf.constant(given["texts"]), tf.constant(b"one")])
        save._set_attr("_format", "tensorflow")
        sess.run(save)
    index = dict(tables.read((tmp_path / "s.index").read_bytes()))
    data = (tmp_path / "s.data-00000-of-00001").read_bytes()
    theirs = dict(tables.read((DATA / "ckpt_v2.index").read_bytes()))
    stored = (DATA / "ckpt_v2.data-00000-of-00001").read_bytes()
    for name in (b"texts", b"one_text"):
        mine, other = tables.fields(index[name]), tables.fields(theirs[name])
        assert mine[6] == other[6] and mine[5] == other[5]
        begin, there = mine.get(4, [0])[0], other.get(4, [0])[0]
        assert data[begin:begin + mine[5][0]] == stored[there:there + mine[5][0]]


def test_many_names_take_several_blocks(tmp_path):
    given = {f"scope_{i % 7}/variable_{i:04d}/with_a_long_name": np.float32(i) for i in range(300)}
    prefix = saved(tmp_path, given, format="tensorflow")
    raw = (tmp_path / "model.index").read_bytes()
    assert [k.decode() for k, _ in tables.read(raw)][1:] == sorted(given)
    assert len(raw) < 300 * 40                  # keys share their beginnings
    assert tf.train.load_variable(prefix, "scope_3/variable_0094/with_a_long_name") == 94


def test_the_environment_chooses_the_format(tmp_path, monkeypatch):
    assert saved(tmp_path, {"v": np.float32(1)}) and (
        tmp_path / "model.data-00000-of-00001.safetensors").exists()
    monkeypatch.setenv("PYFLOW_CHECKPOINT_FORMAT", "tensorflow")
    prefix = saved(tmp_path, {"v": np.float32(2)})
    names = sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("model."))
    assert names == ["model.data-00000-of-00001", "model.index", "model.meta"]
    assert tf.train.load_variable(prefix, "v") == 2
    saved(tmp_path, {"v": np.float32(3)}, format="pyflow")
    assert not (tmp_path / "model.data-00000-of-00001").exists()
    assert tf.train.load_variable(prefix, "v") == 3
    with pytest.raises(ValueError, match="expected 'pyflow' or 'tensorflow'"):
        saved(tmp_path, {"v": np.float32(1)}, format="V2")


def test_the_format_survives_a_meta_graph(tmp_path):
    prefix = saved(tmp_path, {"v": np.float32(4)}, format="tensorflow")
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(prefix + ".meta")
        saver.restore(sess, prefix)
        again = saver.save(sess, str(tmp_path / "again"))
    assert tf.train.load_checkpoint(again).format == "TensorFlow V2"


def test_a_failed_save_leaves_the_checkpoint(tmp_path):
    prefix = saved(tmp_path, {"v": np.float32(1)}, format="tensorflow")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with tf.Graph().as_default(), tf.Session() as sess:
        twice = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["v", "v"], shape_and_slices=["", ""],
                                  tensors=[tf.constant(1.0), tf.constant(2.0)])
        twice._set_attr("_format", "tensorflow")
        with pytest.raises(tf.errors.InvalidArgumentError, match="'v' is given twice"):
            sess.run(twice)
    assert before == {p.name: p.read_bytes() for p in tmp_path.iterdir()}


# ---------------------------------------------------------------- around it

def test_state_of_a_folder(tmp_path):
    """latest_checkpoint, times and removal know both of TensorFlow's formats."""
    for name in ("ckpt_v1", "ckpt_v2"):
        copied(tmp_path, name)
        tf.train.update_checkpoint_state(str(tmp_path), name)
        prefix = tf.train.latest_checkpoint(str(tmp_path))
        assert prefix == str(tmp_path / name)
        assert len(tf.train.get_checkpoint_mtimes([prefix, str(tmp_path / "none")])) == 1
        tf.train.remove_checkpoint(prefix)
        assert not tf.train.checkpoint_exists(prefix)
    assert not list(tmp_path.glob("ckpt_v2*")) and not (tmp_path / "ckpt_v1").exists()


def test_init_from_checkpoint():
    wanted = values.tensors()
    with tf.Graph().as_default(), tf.Session() as sess:
        a = tf.get_variable("a", [3, 2])
        with tf.variable_scope("here"):
            b = tf.get_variable("float64", [3, 2], tf.float64, use_resource=True)
            parts = tf.get_variable("parted", [5, 4], partitioner=tf.fixed_size_partitioner(2))
        with tf.variable_scope("there"):
            c = tf.get_variable("int64", [4], tf.int64)
        tf.train.init_from_checkpoint(str(DATA / "ckpt_v2"), {
            "plain/float32": a, "plain/float64": "here/float64", "parted": parts,
            "plain/": "there/"})
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(a), wanted["plain/float32"])
        np.testing.assert_array_equal(sess.run(b), wanted["plain/float64"])
        np.testing.assert_array_equal(sess.run(c), wanted["plain/int64"])
        np.testing.assert_array_equal(sess.run(tf.convert_to_tensor(parts)), values.partitioned())


@pytest.mark.parametrize("assignment, message", [
    ({"nothing": "a"}, "Tensor nothing is not found"), ({"scalar": "a"}, "Shape of variable a:0"),
    ({"plain": "no/"}, "scope only"), ({"plain/": "here/"}, "Tensor plain/b is not found")])
def test_init_from_checkpoint_that_does_not_fit(assignment, message):
    with tf.Graph().as_default():
        tf.get_variable("a", [3, 2])
        tf.get_variable("here/b", [3, 2])
        with pytest.raises(ValueError, match=message):
            tf.train.init_from_checkpoint(str(DATA / "ckpt_v2"), assignment)


def test_explain_lists_a_checkpoint(capfd):
    assert command.main(["explain", str(DATA / "ckpt_v1")]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1].endswith("TensorFlow V1 checkpoint, all CRCs match")
    assert "scalar  int64[]  7" in lines
    assert any(line.startswith("parted  float32[5, 4]  mean 1.1") for line in lines)


def test_crc_of_a_long_tensor(tmp_path):
    """Longer than what is read in one piece, of a length that is no multiple of anything."""
    value = np.random.default_rng(0).integers(0, 255, 3 * (1 << 20) + 13, dtype=np.uint8)
    prefix = saved(tmp_path, {"v": value}, format="tensorflow")
    np.testing.assert_array_equal(tf.train.load_variable(prefix, "v"), value)
    part = value[:5000].tobytes()
    assert struct.pack("<I", tables.crc32c(b"123456789")) == bytes.fromhex("839206e3")
    small = saved(tmp_path, {"v": value[:5000]}, format="tensorflow")
    entry = dict(tables.read(pathlib.Path(small + ".index").read_bytes()))[b"v"]
    assert struct.unpack("<I", tables.fields(entry)[6][0])[0] == tables.masked(tables.crc32c(part))


def test_inspect_checkpoint(capsys):
    """TensorFlow's lines."""
    show = inspect_checkpoint.print_tensors_in_checkpoint_file
    show(str(DATA / "ckpt_v1_pair-?????-of-00002"), None, True, count_exclude_pattern="own_")
    assert capsys.readouterr().out == (
        "tensor: own_0 (float32) [1]\n[1.5]\ntensor: own_1 (float32) [1]\n[2.5]\n"
        "tensor: parted (float32) [5, 4]\n" + str(values.partitioned()) + "\n"
        "# Excluding 2 tensors (2 params) that match own_ when counting.\n"
        "# Total number of params: 20\n")
    inspect_checkpoint.main(["--file_name", str(DATA / "ckpt_v2"), "--tensor_name", "scalar"])
    assert capsys.readouterr().out.startswith("tensor: scalar (int64) []\n7\n# Total number of p")
    show(str(DATA / "ckpt_v2"), "nothing", False)
    assert capsys.readouterr().out == "Tensor nothing not found in checkpoint\n"
    show(str(DATA / "ckpt_v2.index"), None, False)
    assert "try --file_name=" + str(DATA / "ckpt_v2") in capsys.readouterr().out


# ---------------------------------------------------------------- graphs that save and restore slices

@pytest.mark.parametrize("form", ["", "tensorflow"])
def test_slices_are_saved_joined(tmp_path, form):
    """As graphs of TensorFlow's with partitioned variables have them."""
    whole, words = values.partitioned(), values.tensors()["texts"]
    prefix = str(tmp_path / "joined")
    with tf.Graph().as_default(), tf.Session() as sess:
        save = tf.raw_ops.SaveV2(
            prefix=prefix, tensor_names=["p", "other", "p", "words", "words", "p"],
            shape_and_slices=["5 4 3,2:-", "", "5 4 0,3:0,1", "2 2 -:1,1", "2 2 -:0,1", "5 4 0,3:1,3"],
            tensors=[tf.constant(whole[3:]), tf.constant(7), tf.constant(whole[:3, :1]),
                     tf.constant(words[:, 1:]), tf.constant(words[:, :1]), tf.constant(whole[:3, 1:])])
        if form:
            save._set_attr("_format", form)
        sess.run(save)
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map() == {"other": [], "p": [5, 4], "words": [2, 2]}
    np.testing.assert_array_equal(reader.get_tensor("p"), whole)
    np.testing.assert_array_equal(reader.get_tensor("words"), words)
    np.testing.assert_array_equal(restored(prefix, "p", tf.float32, "5 4 2,2:1,2"), whole[2:4, 1:3])
    np.testing.assert_array_equal(restored(prefix, "words", tf.string, "2 2 1,1:-"), words[1:])
    with pytest.raises(tf.errors.InvalidArgumentError, match="no slice of tensor 'p'"):
        restored(prefix, "p", tf.float32, "5 5 -:-")


@pytest.mark.parametrize("names, slices, message", [
    (["p"], ["5 4 0,3:-"], "the slices of tensor 'p' have 12 elements, the whole has 20.*"
                           "tf.train.Saver.format='tensorflow'. saves some"),
    (["p", "p"], ["9 4 0,3:-", "9 4 2,3:-"], "two slices of tensor 'p' have elements in common"),
    (["p", "p"], ["5 4 0,3:-", ""], "given twice"), (["p"], ["5 4 0,2:-"], "is no slice"),
    (["p", "p"], ["5 4 0,3:-", "6 4 3,3:-"], "is no slice"), (["p"], ["5 4"], "is no slice")])
def test_slices_that_do_not_fit(tmp_path, names, slices, message):
    with tf.Graph().as_default(), tf.Session() as sess:
        save = tf.raw_ops.SaveV2(prefix=str(tmp_path / "x"), tensor_names=names,
                                 shape_and_slices=slices, tensors=[tf.zeros([3, 4])] * len(names))
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            sess.run(save)
    assert not list(tmp_path.iterdir())


def saved_parts(tmp_path):
    prefix, given = str(tmp_path / "parts"), values.some_parts()
    with tf.Graph().as_default(), tf.Session() as sess:
        save = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=[name for name, _, _ in given],
                                 shape_and_slices=[text for _, text, _ in given],
                                 tensors=[tf.constant(value) for _, _, value in given])
        save._set_attr("_format", "tensorflow")
        sess.run(save)
    return prefix


def index_and_bytes(prefix):
    """{key: the entry without its place in the file, its bytes}."""
    found = {}
    data = pathlib.Path(f"{prefix}.data-00000-of-00001").read_bytes()
    for key, value in tables.read(pathlib.Path(f"{prefix}.index").read_bytes()):
        entry = tables.fields(value)
        begin = entry.pop(4, [0])[0]
        entry[7] = sorted(entry.get(7, []))         # slices, in TensorFlow in the order given
        found[key] = entry, data[begin:begin + entry.get(5, [0])[0]]
    return found


def test_some_slices_are_written_as_tensorflow_does(tmp_path):
    ours = index_and_bytes(saved_parts(tmp_path))
    theirs = index_and_bytes(DATA / "ckpt_some_parts")
    assert ours == theirs and len(ours) == 11       # a header, five names, five slices


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_some_slices_are_read(tmp_path, whose):
    prefix = saved_parts(tmp_path) if whose == "ours" else str(DATA / "ckpt_some_parts")
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_variable_to_shape_map() == {
        "rows": [5, 4], "plain": [1], "columns": [2, 6], "rows/more": [300, 1], "words": [3, 2]}
    for name, text, value in values.some_parts():
        dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
        np.testing.assert_array_equal(restored(prefix, name, dtype, text), value)
    np.testing.assert_array_equal(restored(prefix, "columns", tf.int64, "2 6 1,1:5,1"), [[11]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="'rows': its slices have only 8 of"):
        reader.get_tensor("rows")
    with pytest.raises(tf.errors.InvalidArgumentError, match="have only 0 of the 2 elements"):
        restored(prefix, "columns", tf.int64, "2 6 0,2:1,1")


def test_a_graph_of_tensorflows_saves(tmp_path):
    """Its saver has slices and merges shards: pyflow's checkpoint of it is restored by it."""
    folder = str(DATA / "graph")
    with tf.Session(graph=tf.Graph()) as sess:
        graph = tf.saved_model.load(sess, ["serve"], folder)
        saver = tf.train.Saver.from_proto(graph.saver_def)
        before = sess.run({v.name: v for v in tf.global_variables()})
        path = saver.save(sess, str(tmp_path / "again"), write_meta_graph=False)
        assert tf.train.load_checkpoint(path).get_variable_to_shape_map()["embedding"] == [5, 3]
        sess.run([v.assign(tf.zeros_like(v)) for v in tf.global_variables()])
        saver.restore(sess, path)
        after = sess.run({v.name: v for v in tf.global_variables()})
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]        # the shards' folder is gone


@pytest.mark.alone
@pytest.mark.parametrize("form", ["tensorflow", "pyflow"])
def test_restoring_is_as_fast_as_reading(tmp_path, form):
    """At least 0.4 of reading the file, checksums included; 1.0 and more were measured."""
    with tf.Graph().as_default(), tf.Session() as sess:
        made = [tf.get_variable(f"v{i}", [1 << 22], use_resource=bool(i % 2)) for i in range(4)]
        saver = tf.train.Saver(made, format=form)
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "m"), write_meta_graph=False)
        (data,) = tmp_path.glob("m.data*")
        raw, restoring = [], []
        for _ in range(7):
            start = time.perf_counter()
            data.read_bytes()
            middle = time.perf_counter()
            saver.restore(sess, path)
            raw.append(middle - start)
            restoring.append(time.perf_counter() - middle)
    assert min(raw) / min(restoring) > 0.4, (raw, restoring)
