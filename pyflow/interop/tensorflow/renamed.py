"""Names and forms of TensorFlow 0.8 to 1.0 that 1.15 no longer has, under their old paths.

    tf.mul(a, b)                # tf.multiply(a, b); the log says so once, with the line

Invariants
    1. A row is one old path. `old: new` gives the value of the new path; FORMS has those whose
       arguments differ (old_forms.py), some under a path that is still in use: these are told of
       only when they are called in the old way.
    2. Each old name is logged once per process, by the logger "pyflow.tensorflow", as a warning.
    3. What the new path lacks is an AttributeError that names both.

`python -m pyflow coverage --rewrite` renames by the same table.
Threads: any.
"""
import importlib
import logging
import os
import sys

_logger = logging.getLogger("pyflow.tensorflow")
_told = set()

SIMPLE = """
inv: reciprocal                         mul: multiply
neg: negative                           sub: subtract
pack: stack                             unpack: unstack
select: where                           listdiff: setdiff1d
list_diff: setdiff1d                    complex_abs: abs
batch_matmul: matmul                    concat_v2: concat
split_v: split                          op_scope: name_scope
all_variables: global_variables         initialize_all_variables: global_variables_initializer
initialize_variables: variables_initializer
initialize_local_variables: local_variables_initializer
initialize_all_tables: tables_initializer
merge_summary: summary.merge            merge_all_summaries: summary.merge_all
histogram_summary: summary.histogram    tensor_summary: summary.tensor_summary
train.SummaryWriter: summary.FileWriter
batch_cholesky: cholesky                batch_cholesky_solve: cholesky_solve
batch_matrix_band_part: matrix_band_part
batch_matrix_determinant: matrix_determinant
batch_matrix_diag: matrix_diag          batch_matrix_diag_part: matrix_diag_part
batch_matrix_inverse: matrix_inverse    batch_matrix_set_diag: matrix_set_diag
batch_matrix_solve: matrix_solve        batch_matrix_solve_ls: matrix_solve_ls
batch_matrix_transpose: matrix_transpose
batch_matrix_triangular_solve: matrix_triangular_solve
batch_self_adjoint_eig: self_adjoint_eig
batch_self_adjoint_eigvals: self_adjoint_eigvals
batch_svd: svd                          batch_fft: fft
batch_ifft: ifft                        batch_fft2d: fft2d
batch_ifft2d: ifft2d                    batch_fft3d: fft3d
batch_ifft3d: ifft3d
image.per_image_whitening: image.per_image_standardization
image.random_crop: random_crop          ReplicaDeviceSetter: train.replica_device_setter
nn.rnn: nn.static_rnn                   nn.bidirectional_rnn: nn.static_bidirectional_rnn
nn.state_saving_rnn: nn.static_state_saving_rnn
nn.deconv2d: nn.conv2d_transpose
python.ops.rnn.rnn: nn.static_rnn
python.ops.rnn.bidirectional_rnn: nn.static_bidirectional_rnn
python.ops.array_ops.pack: stack        python.ops.array_ops.unpack: unstack
python.ops.array_ops.concat_v2: concat  python.ops.array_ops.split_v: split
python.ops.math_ops.mul: multiply       python.ops.math_ops.sub: subtract
python.ops.math_ops.neg: negative       python.ops.math_ops.batch_matmul: matmul
python.ops.variables.all_variables: global_variables
python.ops.variables.initialize_all_variables: global_variables_initializer
models.rnn.rnn.rnn: nn.static_rnn
contrib.rnn.rnn: nn.static_rnn
nn.rnn_cell.InputProjectionWrapper: contrib.rnn.InputProjectionWrapper
nn.rnn_cell.OutputProjectionWrapper: contrib.rnn.OutputProjectionWrapper
nn.rnn_cell.EmbeddingWrapper: contrib.rnn.EmbeddingWrapper
train.write_meta_graph: train.export_meta_graph
"""

FORMS = """
concat split reverse scalar_summary image_summary audio_summary RegisterShape batch_matmul
op_scope variable_op_scope
nn.softmax_cross_entropy_with_logits nn.sparse_softmax_cross_entropy_with_logits
nn.sigmoid_cross_entropy_with_logits nn.sampled_softmax_loss nn.nce_loss image.resize_images
nn.rnn_cell.BasicLSTMCell nn.rnn_cell.GRUCell nn.rnn_cell.BasicRNNCell nn.rnn_cell.linear
models.rnn.rnn_cell.BasicLSTMCell models.rnn.rnn_cell.GRUCell models.rnn.rnn_cell.linear
python.ops.rnn_cell.BasicLSTMCell python.ops.rnn_cell.GRUCell python.ops.rnn_cell.linear
python.framework.ops.RegisterShape python.ops.array_ops.concat python.ops.array_ops.split
contrib.deprecated.scalar_summary contrib.deprecated.image_summary
contrib.deprecated.audio_summary
"""

# What the old forms of another name became: the adapter is there, whether its target is or not.
BECAME = {f"{place}{kind}_summary": f"summary.{kind}" for place in ("", "contrib.deprecated.")
          for kind in ("scalar", "image", "audio")}
BECAME["batch_matmul"] = "matmul"


def _simple():
    found = {}
    for line in SIMPLE.strip().splitlines():
        words = line.split()
        for old, new in zip(words[::2], words[1::2]):
            if old[:-1] != new:
                found[old[:-1]] = new
    for name in ("histogram_summary", "merge_summary", "merge_all_summaries"):
        found[f"contrib.deprecated.{name}"] = found[name]
    return found


NAMES = {**_simple(), **dict.fromkeys(FORMS.split())}


def value(path):
    """The value of an old path.  AttributeError where its new name is missing."""
    new = NAMES[path]
    if new is None:
        return importlib.import_module("pyflow.interop.tensorflow.old_forms").value(path)
    tell(path, f"use tf.{new}")
    return current(new, path)


def current(new, path):
    """The value of a path of tf; AttributeError names the old path, too."""
    import pyflow
    found = pyflow
    try:
        for part in new.split("."):
            found = getattr(found, part)
    except AttributeError as e:
        raise AttributeError(f"tf.{path} became tf.{new}, which pyflow has not got: {e}") from None
    return found


def tell(path, advice):
    """Logs once that a name or form of TensorFlow 0.x is used, and what 1.x has instead."""
    if path in _told:
        return
    _told.add(path)
    _logger.warning("%stf.%s is TensorFlow 0.x's: %s", _place(), path, advice)


def _place():
    """"train.py:12: " of the nearest frame that is the user's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("pyflow.", "importlib")):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: "
        frame = frame.f_back
    return ""


def names_in(path):
    """The old names in a namespace."""
    prefix = f"{path}." if path else ""
    inside = (old[len(prefix):] for old in NAMES if old.startswith(prefix))
    return {name for name in inside if "." not in name}
