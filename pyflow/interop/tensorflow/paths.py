"""Which names of pyflow a module path of TensorFlow gives: `tensorflow.python.ops.array_ops`.

A row is `path: home home ...`; a home is a namespace of tf ("." is tf itself) or, with a colon, a
module of pyflow of which the public names count. The first home that has the name wins. A path
that is a namespace or a module in tf needs no row; nor does what lies above a row's path.

Invariants
    1. A home that does not exist (yet) gives nothing: names appear here once they are in tf.
    2. Modules python.ops.*_ops have all ops under their types' names in snake_case, too (gen_ops),
       but for those around which TensorFlow has a function there (op_wrappers).
    3. `*` stands for any one part of a path, or some of it, at the end for the rest of the path, too,
       if TensorFlow has a module there (module_names); `{0}` in a home is what the first one stood
       for. Rows are searched from above.
"""

import fnmatch

from pyflow.interop.tensorflow import module_names

TABLE = """
python.framework.ops: pyflow:framework.graph pyflow:framework.gradient_registry . pyflow:interop.tensorflow.extras
python.framework.dtypes: dtypes pyflow:framework.dtypes . pyflow:interop.tensorflow.ref_types
python.framework.tensor_shape: pyflow:framework.tensor_shape
python.framework.tensor_util: pyflow:framework.tensor_util contrib.framework
python.framework.tensor_spec: .
python.framework.constant_op: .
python.framework.errors: errors
python.framework.errors_impl: errors
python.framework.graph_util: graph_util
python.framework.graph_util_impl: graph_util
python.framework.graph_io: . train
python.framework.importer: .
python.framework.random_seed: . random
python.framework.sparse_tensor: . pyflow:framework.sparse_values pyflow:interop.tensorflow.extras
python.framework.indexed_slices: . pyflow:framework.sparse_values
python.framework.load_library: .
python.framework.device: . pyflow:framework.device
python.framework.device_spec: .
python.framework.versions: version .
python.framework.function: pyflow:lib.function.defun
python.framework.meta_graph: pyflow:train.meta_graph
python.framework.smart_cond: pyflow:interop.tensorflow.extras
python.framework.test_util: pyflow:interop.tensorflow.test_util
python.framework.op_def_registry: pyflow:interop.tensorflow.op_def_registry
python.framework.test_ops:
python.framework.common_shapes: pyflow:ops.base.common
python.ops.array_ops: . manip sparse pyflow:lib.array.identity_functions pyflow:interop.tensorflow.extras
python.ops.math_ops: . math pyflow:interop.tensorflow.extras
python.ops.nn_ops: nn .
python.ops.nn_impl: nn .
python.ops.nn: nn
python.ops.*_grad:
python.ops.control_flow_ops: . pyflow:interop.tensorflow.extras pyflow:lib.control_flow.control_flow_context
python.ops.control_flow_util: pyflow:interop.tensorflow.extras
python.ops.while_v2:
python.ops.cond_v2:
python.ops.variables: . pyflow:lib.variables.partitioned_variables
python.ops.variable_scope: . pyflow:lib.variables.variable_scope
python.ops.init_ops: . initializers pyflow:lib.variables.initializers
python.ops.init_ops_v2: initializers
python.ops.random_ops: . random pyflow:interop.tensorflow.extras
python.ops.stateless_random_ops: random
python.ops.rnn: nn
python.ops.rnn_cell: nn.rnn_cell pyflow:interop.tensorflow.extras
python.ops.rnn_cell_impl: nn.rnn_cell pyflow:interop.tensorflow.extras
python.ops.rnn_cell_wrapper_impl: nn.rnn_cell
python.ops.seq2seq: contrib.legacy_seq2seq
python.ops.embedding_ops: nn .
python.ops.losses.losses: losses
python.ops.losses.losses_impl: losses
python.ops.losses.util: losses
python.ops.clip_ops: .
python.ops.data_flow_ops: . contrib.staging pyflow:lib.queue.queues pyflow:lib.queue.barriers pyflow:lib.queue.staging
python.ops.io_ops: . io
python.ops.image_ops: pyflow:interop.tensorflow.image_ops image
python.ops.image_ops_impl: pyflow:interop.tensorflow.image_ops image
python.ops.string_ops: . strings
python.ops.parsing_ops: . io
python.ops.sparse_ops: . sparse
python.ops.state_ops: . pyflow:interop.tensorflow.extras
python.ops.logging_ops: . summary
python.ops.summary_ops: summary
python.ops.script_ops: .
python.ops.functional_ops: .
python.ops.map_fn: .
python.ops.tensor_array_ops: .
python.ops.template: .
python.ops.partitioned_variables: . pyflow:lib.variables.partitioned_variables
python.ops.resource_variable_ops: pyflow:lib.variables.resource_variables
python.ops.lookup_ops: lookup . contrib.lookup
python.ops.linalg_ops: . linalg
python.ops.linalg.linalg: linalg
python.ops.linalg.linalg_impl: linalg
python.ops.check_ops: . debugging
python.ops.candidate_sampling_ops: nn
python.ops.ctc_ops: nn
python.ops.gradients: . pyflow:gradients.backprop
python.ops.gradients_impl: . pyflow:gradients.backprop
python.ops.gradient_checker: test
python.ops.histogram_ops: .
python.ops.metrics: metrics
python.ops.metrics_impl: metrics
python.ops.special_math_ops: . math
python.ops.spectral_ops: spectral signal .
python.ops.standard_ops: .
python.tf2: pyflow:interop.tensorflow.tf2
python.keras.engine.input_spec: layers
python.keras.engine.base_layer: layers
python.ops.confusion_matrix: . pyflow:interop.tensorflow.extras
python.ops.weights_broadcast_ops: pyflow:lib.nn.weights_broadcast
python.ops.bitwise_ops: bitwise
python.ops.manip_ops: manip
python.ops.numerics: . debugging
python.ops.session_ops: .
python.ops.sets: sets
python.ops.sets_impl: sets
python.ops.sort_ops: .
python.ops.custom_gradient: .
python.ops.distributions.distribution: distributions
python.ops.distributions.*: distributions
python.ops.signal.*: signal
python.ops.ragged.*: ragged .
python.ops.gen_*_ops: pyflow:interop.tensorflow.gen_ops
python.training.training: train
python.training.training_ops: pyflow:interop.tensorflow.gen_ops
python.training.gen_training_ops: pyflow:interop.tensorflow.gen_ops
python.training.moving_averages: pyflow:train.moving_averages train
python.training.slot_creator: pyflow:train.slot_creator
python.training.checkpointable.*: train
python.training.tracking.*: train
python.training.learning_rate_decay: train
python.training.session_run_hook: train
python.training.evaluation: train pyflow:interop.tensorflow.evaluation
python.training.training_util: train
python.training.optimizer: train pyflow:train.optimizer
python.training.distribute: distribute pyflow:interop.tensorflow.extras
python.training.distribution_strategy_context: distribute pyflow:interop.tensorflow.extras
python.training.*: train
python.distribute.distribution_strategy_context: distribute pyflow:interop.tensorflow.extras
python.platform.flags: flags
python.platform.app: app
python.platform.gfile: gfile
python.platform.tf_logging: logging
python.platform.logging: logging
python.platform.googletest: test
python.platform.test: test
python.platform.benchmark: test
python.platform.resource_loader: resource_loader
python.platform.sysconfig: sysconfig
python.platform.status_bar:
python.lib.core.error_codes_pb2: pyflow:framework.protos errors
python.lib.io.file_io: pyflow:interop.tensorflow.file_io gfile
python.lib.io.tf_record: python_io io
python.lib.io.python_io: python_io
python.client.session: . pyflow:session
python.client.timeline: pyflow:timeline
python.client.device_lib: pyflow:python.client.device_lib
python.util.nest: nest pyflow:framework.nest
python.util.compat: compat
python.util.tf_inspect: pyflow:interop.tensorflow.inspecting
python.util.tf_decorator: pyflow:interop.tensorflow.inspecting
python.util.tf_contextlib: pyflow:interop.tensorflow.inspecting
python.util.tf_export: pyflow:interop.tensorflow.inspecting
python.util.tf_should_use: pyflow:interop.tensorflow.inspecting
python.util.deprecation: pyflow:interop.tensorflow.inspecting
python.util.all_util: pyflow:interop.tensorflow.inspecting
python.util.function_utils: pyflow:interop.tensorflow.inspecting
python.util.protobuf.compare: pyflow:interop.tensorflow.inspecting
python.util.object_identity: pyflow:interop.tensorflow.inspecting
python.summary.summary: summary
python.summary.summary_iterator: train
python.summary.event_accumulator:
python.summary.writer.writer: summary
python.summary.writer.writer_cache: summary
python.summary.writer.event_file_writer: summary
python.tools.freeze_graph: pyflow:interop.tensorflow.freeze_graph
python.tools.inspect_checkpoint: pyflow:tools.inspect_checkpoint
python.saved_model.constants: saved_model.constants saved_model pyflow:saved_model.steps
python.saved_model.builder: saved_model.builder pyflow:saved_model.steps
python.saved_model.builder_impl: saved_model.builder pyflow:saved_model.steps
python.saved_model.loader_impl: saved_model.loader pyflow:saved_model.steps
python.saved_model.main_op: saved_model.main_op
python.saved_model.main_op_impl: saved_model.main_op
python.saved_model.*: saved_model saved_model.builder saved_model.loader saved_model.signature_constants saved_model.signature_def_utils saved_model.tag_constants saved_model.utils saved_model.main_op
python.layers.utils: pyflow:interop.tensorflow.extras
python.layers.convolutional: layers pyflow:interop.tensorflow.convolutional
python.layers.*: layers
python.estimator.inputs.*: estimator.inputs
python.estimator.export.*: estimator.export estimator
python.estimator.*: estimator
python.feature_column.feature_column: feature_column pyflow:interop.tensorflow.feature_columns
python.feature_column.*: feature_column
python.data.ops.*: data
python.data.util.nest: pyflow:interop.tensorflow.data_nest
python.data: data
python.eager.test: test
python.compat.compat: compat
python.compat.v2_compat: .
python.eager.context: pyflow:interop.tensorflow.extras
python.eager.function: pyflow:lib.function.traced_function .
python.eager.def_function: .
python.eager.backprop: pyflow:interop.tensorflow.extras
python.pywrap_tensorflow: train pyflow:interop.tensorflow.extras
ops: pyflow:framework.graph .
array_ops: . manip
math_ops: . math
nn_ops: nn .
control_flow_ops: . pyflow:interop.tensorflow.extras
models.rnn.rnn: nn
models.rnn.rnn_cell: nn.rnn_cell pyflow:interop.tensorflow.extras
models.rnn.seq2seq: contrib.legacy_seq2seq
nn.rnn_cell: pyflow:interop.tensorflow.extras
nn.seq2seq: contrib.legacy_seq2seq
nn.rnn_cell: pyflow:interop.tensorflow.extras
contrib.deprecated:
contrib.ctc: nn
contrib.data: data data.experimental
contrib.losses: pyflow:lib.contrib.losses losses
contrib.rnn.core_rnn_cell: contrib.rnn pyflow:interop.tensorflow.extras
contrib.rnn.python.ops.*: contrib.rnn nn pyflow:interop.tensorflow.extras
contrib.framework.python.framework.*: contrib.framework pyflow:framework.tensor_util
contrib.framework.python.ops.*: contrib.framework
contrib.layers.python.layers.*: contrib.layers contrib.framework
contrib.layers.python.ops.*: contrib.layers
contrib.training.python.training.*: contrib.training
contrib.learn.python.learn.datasets.mnist: pyflow:examples.tutorials.mnist.input_data
contrib.learn.datasets.mnist: pyflow:examples.tutorials.mnist.input_data
contrib.learn.python.learn.learn_runner: contrib.learn.learn_runner
contrib.learn.python.learn.datasets: contrib.learn.datasets
contrib.learn.python.learn.datasets.base: contrib.learn.datasets.base
contrib.learn.python.learn.preprocessing.*: contrib.learn.preprocessing
contrib.learn.python.learn.*: contrib.learn
contrib.*.python.ops.*: contrib.{0} contrib.{0}.{1}
contrib.*.python.*: contrib.{0}
examples.tutorials.mnist: pyflow:examples.tutorials.mnist
examples.tutorials.mnist.input_data: pyflow:examples.tutorials.mnist.input_data
examples.tutorials.mnist.mnist: pyflow:examples.tutorials.mnist.mnist
python.framework.tensor_conversion: .
"""

MESSAGES = """
core.framework: allocation_description attr_value cost_graph device_attributes function
    graph graph_transfer_info kernel_def log_memory node_def op_def reader_base
    remote_fused_graph_execute_info resource_handle step_stats summary tensor
    tensor_description tensor_shape tensor_slice types variable versions
core.protobuf: cluster config control_flow debug meta_graph named_tensor queue_runner
    rewriter_config saved_model saver tensorflow_server checkpointable_object_graph struct
    trackable_object_graph tensor_bundle verifier_config worker master device_properties
core.example: example feature example_parser_configuration
core.util: event memmapped_file_system saved_tensor_slice test_log
core.lib.core: error_codes
python.training: checkpoint_state
tools.python: checkpoint_state
contrib.tensorboard.plugins.projector: projector_config
"""


def _rows():
    rows = {}
    for line in TABLE.strip().splitlines():
        path, _, homes = line.partition(":")
        ops = ()
        if path.startswith("python.ops.") and path.endswith(("_ops", "_ops_impl")):
            ops = ("pyflow:interop.tensorflow.op_wrappers", "pyflow:interop.tensorflow.gen_ops")
            ops = ops[1:] if path.startswith("python.ops.gen_") else ops
        rows[path] = tuple(homes.split()) + ops
    return rows


def _messages():
    found, folder = set(), ""
    for line in MESSAGES.strip().splitlines():
        names = line.strip()
        if not line.startswith(" "):
            folder, _, names = line.partition(":")
        found |= {f"{folder}.{name}_pb2" for name in names.split()}
    return found


ROWS = _rows()
EXACT = {path: homes for path, homes in ROWS.items() if "*" not in path}
PATTERNS = {path: homes for path, homes in ROWS.items() if "*" in path}
PB2 = _messages()
ABOVE = {".".join(path.split(".")[:n])                  # packages: what lies above a path
         for path in [*EXACT, *PATTERNS, *PB2] for n in range(1, path.count(".") + 1)}
ABOVE_PATTERNS = {path for path in ABOVE if "*" in path[:path.rfind(".")]}   # contrib.*.python
ABOVE = {path for path in ABOVE if "*" not in path}


def homes_of(path):
    """The homes of a module path of TensorFlow; None where the table has none."""
    if path in EXACT:
        return EXACT[path]
    if path in PB2:
        return ("pyflow:framework.run_metadata", "pyflow:framework.protos")
    parts = path.split(".")
    for pattern, homes in PATTERNS.items():
        stars = _matched(pattern.split("."), parts)
        if stars is not None and (not pattern.endswith("*") or path in module_names.PATHS):
            return tuple(home.format(*stars) for home in homes)
    above = path in ABOVE or any(
        pattern.count(".") == path.count(".") and _matched(pattern.split("."), parts) is not None
        for pattern in ABOVE_PATTERNS)
    return () if above else None


def sibling(path, name):
    """The path of a module that TensorFlow's module at `path` imports by `name`, or None:
    tensorflow.python.ops.rnn.rnn_cell_impl is tensorflow.python.ops.rnn_cell_impl."""
    if path not in ROWS or not path.startswith("python."):
        return None
    return next((f"python.{folder}.{name}" for folder in ("ops", "framework", "util", "training")
                 if f"python.{folder}.{name}" in EXACT), None)


def _matched(pattern, parts):
    """What the stars of a pattern stand for, or None.  The last star stands for the rest, too."""
    if len(parts) < len(pattern):
        return None
    stars = []
    for at, (want, part) in enumerate(zip(pattern, parts)):
        if "*" in want and fnmatch.fnmatchcase(part, want):
            stars.append(part)
        elif want != part:
            return None
    return stars if len(parts) == len(pattern) or pattern[-1] == "*" else None
