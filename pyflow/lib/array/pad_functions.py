"""tf.pad, and blocks of space moved to batch or depth, and back."""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.tensor_shape import unknown_shape
from pyflow.ops.base.common import int32s
from pyflow.ops.move.pad_ops import (BatchToSpaceND, DepthToSpace, MirrorPad, Pad, PadV2,
                                     SpaceToBatchND, SpaceToDepth)


def space_to_depth(input, block_size, name=None, data_format="NHWC"):
    """Blocks of pixels as channels. TF: tf.space_to_depth.
    Dtypes, shapes, errors: as op SpaceToDepth."""
    return SpaceToDepth(input, block_size=block_size, data_format=data_format, name=name)


def depth_to_space(input, block_size, name=None, data_format="NHWC"):
    """Channels as blocks of pixels. TF: tf.depth_to_space.
    Dtypes, shapes, errors: as op DepthToSpace."""
    return DepthToSpace(input, block_size=block_size, data_format=data_format, name=name)


def space_to_batch(input, paddings, block_size=None, name=None, block_shape=None):
    """Square blocks of pixels as batch entries. TF: tf.space_to_batch.
    Dtypes, shapes, errors: as op SpaceToBatchND."""
    block = block_size if block_size is not None else block_shape
    return _of_images(SpaceToBatchND, input, block, paddings, name)


def batch_to_space(input, crops, block_size, name=None, block_shape=None):
    """Batch entries as square blocks of pixels. TF: tf.batch_to_space.
    Dtypes, shapes, errors: as op BatchToSpaceND."""
    block = block_size if block_size is not None else block_shape
    return _of_images(BatchToSpaceND, input, block, crops, name)


def _of_images(op_def, input, block, margins, name):
    """A square block for images, whose rank is 4; another block for what it is."""
    if np.ndim(block):
        return op_def(input, block, margins, name=name)
    moved = op_def(input, int32s([block, block]), margins, name=name)
    moved.set_shape(unknown_shape(4))
    return moved


# --------------------------------------------------------------------------------- public functions
def pad(tensor, paddings, mode="CONSTANT", name=None, constant_values=0):
    """`tensor` padded by `paddings` [rank, 2]; mode CONSTANT, REFLECT or SYMMETRIC. TF: tf.pad.
    Dtypes, shapes, errors: as ops Pad, PadV2 and MirrorPad."""
    mode = mode.upper()
    if mode == "CONSTANT":
        if not isinstance(constant_values, graph.Tensor) and constant_values == 0:
            return Pad(tensor, paddings, name=name)
        return PadV2(tensor, paddings, constant_values, name=name)
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(f"tf.pad: mode must be CONSTANT, REFLECT or SYMMETRIC, got {mode!r}")
    return MirrorPad(tensor, paddings, mode=mode, name=name)


PUBLIC = {
    "pad": pad, "space_to_depth": space_to_depth, "nn.space_to_depth": space_to_depth,
    "depth_to_space": depth_to_space, "nn.depth_to_space": depth_to_space,
    "space_to_batch": space_to_batch, "nn.space_to_batch": space_to_batch,
    "batch_to_space": batch_to_space,
}
