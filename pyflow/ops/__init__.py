"""The ops pyflow ships: an explicit list of modules, each loaded when something of it is needed.

Importing this package loads none of them.  Who looks an op type up (`framework.op.find_op`), names
a function (`tf.matmul`), or imports a module has that module loaded, and those it imports;
`registered_ops` loads all.

Invariants:
1. Every OpDef found in a listed module is registered under its name, once; two ops of one name are
   an error. Nothing else registers ops, and no listed module may be missing.
2. op_types.py says which module has which op; tests/typing/make_tables.py writes it.
3. From the start, tensors have their operators, lists with tensors inside and IndexedSlices
   convert, and imported functions get their contexts: `_hook_in` hands over what loads the rest. A
   class of a module (variables) registers its conversion itself, where it is defined.
4. Modules import each other without circles at their top, so threads that need several at once
   wait for each other in one order. No module looks up ops while it is loaded.

Threads: any.

    from pyflow.ops import matmul_ops       # or pyflow.ops.matmul_ops, after `import pyflow`
"""

import importlib

from pyflow.framework import function_lower as _function_lower
from pyflow.framework import op as _op
from pyflow.ops import conversions as _conversions
from pyflow.ops import op_types as _op_types
from pyflow.ops import operators as _operators

# Modules of OpDefs and public functions.
MODULES = (
    "identity_ops", "array_ops", "broadcast_ops", "cast_ops", "unary_ops", "binary_ops",
    "logic_ops", "complex_ops", "reduction_ops", "join_ops", "pad_ops", "slicing_ops", "gather_ops",
    "segment_ops", "partition_ops", "string_ops", "diag_ops", "matmul_ops", "linalg_ops",
    "sparse_ops", "sparse_serial_ops", "sparse_cross_ops", "set_ops", "activation_ops",
    "softmax_ops", "conv_ops", "conv3d_ops", "conv_dilation_ops", "conv_functions", "pool_ops",
    "norm_ops", "random_ops", "nn_ops", "loss_ops", "fused_ops", "fused_elementwise_ops",
    "fused_norm_ops", "operators", "control_flow_ops", "cond", "while_loop", "switch_case",
    "data_flow_ops", "tensor_array_ops", "list_ops", "imported_contexts", "bincount_ops",
    "resource_handles", "state_ops", "resource_variable_ops", "variables", "io_ops", "script_ops",
    "logging_ops", "training_ops", "init_ops", "partitioned_variables",
    "variable_scope", "template", "functional_ops",
    "linalg_functions", "einsum_ops", "sparse_functions", "special_ops", "lookup_ops",
    "sparse_segment_ops", "quantize_ops", "stateless_random_ops", "stateless_variate_ops",
    "critical_section_ops", "diag_band_ops", "check_ops", "nest", "regularizers",
    "image_resize_ops", "image_scale_ops", "image_ops", "image_color_ops", "image_box_ops",
    "image_patch_ops", "image_nms_ops", "image_quality_ops", "image_codec_ops", "fft_ops",
    "signal_ops", "signal_window_ops", "audio_ops", "string_text_ops", "string_data_ops",
    "ragged_ops", "unicode_ops", "lookup_table_ops", "rnn_cell", "rnn_cell_wrappers", "rnn",
    "rnn_static", "legacy_seq2seq", "lstm_ops", "gru_ops", "rnn_fused_cells", "ctc_ops",
    "candidate_sampling_ops", "pool3d_ops", "pool_grad_ops", "pool_functions",
    "fractional_pool_ops", "nth_element_ops", "embedding_ops", "weighted_ops",
)


_registered = set()


def load(name):
    """The module pyflow.ops.`name`, its ops registered."""
    module = importlib.import_module(f"pyflow.ops.{name}")
    if name not in _registered:
        for op_def in ops_of(module):
            _op.register(op_def)
        _registered.add(name)
    return module


def ops_of(module):
    """The OpDefs that a module defines."""
    return [value for value in vars(module).values()
            if isinstance(value, _op.OpDef) and value.module == module.__name__]


def _load_for_ops(module):
    names = MODULES if module is None else [module.rpartition(".")[2]]
    for name in names:
        load(name)


def _make_contexts(*args):
    """imported_contexts.make_contexts, loaded when a graph with such contexts is imported."""
    load("imported_contexts").make_contexts(*args)


def _hook_in():
    homes = {op_type: f"pyflow.ops.{module}"
             for module, op_types in _op_types.OP_TYPES.items() for op_type in op_types.split()}
    _op.declare(homes, _load_for_ops)
    _operators.install()
    _conversions.install()
    _function_lower.make_contexts = _make_contexts


_hook_in()


def __getattr__(name):
    if name in MODULES:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *MODULES})
