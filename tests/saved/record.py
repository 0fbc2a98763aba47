"""TensorFlow writes the checkpoints and SavedModels that the tests of this folder read.

    python tests/saved/record.py [checkpoints] [models]

In an environment that has TensorFlow 2.21 and not pyflow: `long.py oracle`.  Into data/: ckpt_v2
(one shard), ckpt_sharded (two, merged), ckpt_some_parts (of partitioned variables), ckpt_v1 and ckpt_v1-?????-of-00002 (tables of slices), and a
folder per model of saved_models.py with its answers in answers.npz.
"""
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data"
sys.path.insert(0, str(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np  # noqa: E402
import tensorflow as tf2  # noqa: E402

import saved_values as values  # noqa: E402


def _constants(found):
    return [tf2.constant(v.tolist() if v.dtype == object else v,
                         dtype=tf2.string if v.dtype == object else v.dtype) for v in found]


def _parts():
    """(names, slices, values) of the partitioned variable."""
    whole = values.partitioned()
    slices = [f"{values.ROWS} {values.COLUMNS} {at},{n}:0,{values.COLUMNS}"
              for at, n in values.PARTS]
    return ["parted"] * 2, slices, [tf2.constant(whole[at:at + n]) for at, n in values.PARTS]


def _everything():
    found = values.tensors()
    names, slices, parts = _parts()
    extra = [tf2.cast(values.bfloat16_source(), tf2.bfloat16),
             tf2.quantization.quantize(np.array([-1., 0., 1.], np.float32), -1., 1.,
                                       tf2.qint8).output]
    return ([*found, "plain/bfloat16", "plain/qint8", *names],
            [""] * (len(found) + 2) + slices, [*_constants(found.values()), *extra, *parts])


def record_some_parts():
    """What a Saver of some parts of partitioned variables writes, whole tensors beside them."""
    given = values.some_parts()
    tf2.raw_ops.SaveV2(prefix=str(DATA / "ckpt_some_parts"), tensor_names=[g[0] for g in given],
                       shape_and_slices=[g[1] for g in given],
                       tensors=_constants([g[2] for g in given]))


def record_checkpoints():
    raw = tf2.raw_ops
    names, slices, given = _everything()
    raw.SaveV2(prefix=str(DATA / "ckpt_v2"), tensor_names=names, shape_and_slices=slices,
               tensors=given)
    half = len(names) // 2
    shards = [str(DATA / f"part{i}") for i in (0, 1)]
    for i, part in enumerate((slice(0, half), slice(half, None))):
        raw.SaveV2(prefix=shards[i], tensor_names=names[part], shape_and_slices=slices[part],
                   tensors=given[part])
    raw.MergeV2Checkpoints(checkpoint_prefixes=shards,
                           destination_prefix=str(DATA / "ckpt_sharded"), delete_old_dirs=False)
    # V1 has no tensors of types that came after it
    kept = [i for i, t in enumerate(given) if t.dtype not in (tf2.uint32, tf2.uint64, tf2.bfloat16)]
    raw.SaveSlices(filename=str(DATA / "ckpt_v1"), tensor_names=[names[i] for i in kept],
                   shapes_and_slices=[slices[i] for i in kept], data=[given[i] for i in kept])
    parts = _parts()
    for i in (0, 1):
        raw.SaveSlices(filename=str(DATA / f"ckpt_v1_pair-{i:05d}-of-00002"),
                       tensor_names=[parts[0][i], f"own_{i}"], shapes_and_slices=[parts[1][i], ""],
                       data=[parts[2][i], tf2.constant([1.5 + i])])


if __name__ == "__main__":
    asked = sys.argv[1:] or ["checkpoints", "models"]
    DATA.mkdir(exist_ok=True)
    if "checkpoints" in asked:
        for path in DATA.glob("ckpt*"):
            path.unlink()
        record_checkpoints()
        record_some_parts()
    if "models" in asked:
        import saved_models
        saved_models.record(DATA, shutil)
