"""The ops pyflow ships: an explicit list of modules, and what importing this package registers.

Invariants:
1. Every OpDef found in a listed module is registered under its name, once; two ops of one name are
   an error. Nothing else registers ops, and no listed module may be missing.
2. A module that has to hook into the graph layer (operators, conversions) does so in a function
   `install()`, which is called once, in the order of the list.

Imported by `import pyflow` on the thread that imports it; read-only afterwards.
"""

import importlib

from pyflow.framework import graph as _graph  # noqa: F401 - the graph layer comes first
from pyflow.framework.op import OpDef, register

# Modules of OpDefs and public functions, in dependency order.
MODULES = (
    "identity_ops", "array_ops", "broadcast_ops", "cast_ops", "unary_ops", "binary_ops",
    "logic_ops", "complex_ops", "reduction_ops", "join_ops", "pad_ops", "slicing_ops", "gather_ops",
    "segment_ops", "partition_ops", "string_ops", "diag_ops", "matmul_ops",
    "linalg_ops", "sparse_ops", "sparse_serial_ops", "sparse_cross_ops", "set_ops",
    "activation_ops",
    "softmax_ops", "conv_ops", "conv3d_ops", "conv_dilation_ops", "conv_functions", "pool_ops",
    "norm_ops", "random_ops", "nn_ops", "loss_ops",
    "fused_ops", "fused_elementwise_ops",
    "operators", "control_flow_ops", "cond", "while_loop", "data_flow_ops", "tensor_array_ops",
    "list_ops", "imported_contexts", "bincount_ops",
    "resource_handles", "state_ops", "resource_variable_ops", "variables", "io_ops",
    "script_ops", "logging_ops", "training_ops", "init_ops", "variable_scope", "functional_ops",
    "linalg_functions", "einsum_ops", "sparse_functions",
    "special_ops", "lookup_ops", "sparse_segment_ops", "quantize_ops",
    "stateless_random_ops", "stateless_variate_ops", "critical_section_ops",
    "diag_band_ops",
    "check_ops", "nest", "regularizers",
    "image_resize_ops", "image_scale_ops", "image_ops", "image_color_ops", "image_box_ops", "image_patch_ops",
    "image_nms_ops", "image_quality_ops", "image_codec_ops", "fft_ops", "signal_ops",
    "signal_window_ops", "audio_ops",
    "string_text_ops", "string_data_ops", "ragged_ops", "unicode_ops", "lookup_table_ops", "rnn_cell", "rnn_cell_wrappers", "rnn", "rnn_static",
    "lstm_ops", "gru_ops", "rnn_fused_cells", "ctc_ops", "candidate_sampling_ops", "pool3d_ops",
    "pool_grad_ops", "pool_functions", "fractional_pool_ops", "nth_element_ops", "embedding_ops",
    "weighted_ops",
)


def register_module(module):
    """Registers the OpDefs a module defines and runs its `install()`; returns the OpDefs."""
    found = [value for value in vars(module).values()
             if isinstance(value, OpDef) and value.module == module.__name__]
    for op_def in found:
        register(op_def)
    install = getattr(module, "install", None)
    if install is not None and getattr(install, "__module__", None) == module.__name__:
        install()
    return found


def _register_all():
    for name in MODULES:
        register_module(importlib.import_module(f"pyflow.ops.{name}"))


_register_all()
