"""Which name of `tf` comes from where, and how it gets there when it is first used.

Invariants
    1. FRAMEWORK lists names of the graph layer, which are there from the start.
    2. All others cost nothing until used. ELSEWHERE has (module, attribute), attribute None for
       the module itself; names of ops, gradients and training stand in the PUBLIC table of the
       module that _public.py gives.
    3. Namespaces (`tf.nn`) are modules in sys.modules from the start, so that `import pyflow.nn`
       works. A name found is kept in its namespace.

Threads: any; two that look for one name find the same value.
"""
import functools
import importlib
import itertools
import sys
import types

from pyflow import _public
from pyflow.framework import late_text
from pyflow.framework.op import OpDef
from pyflow.framework.table_module import TableModule, held

# ---------------------------------------------------------------- tables

FRAMEWORK = {
    "pyflow.framework.graph": (
        "Graph Operation Tensor GraphKeys DeviceSpec IndexedSlices SparseTensor SparseTensorValue"
        " get_default_graph reset_default_graph get_default_session name_scope op_scope device"
        " container control_dependencies colocate_with add_to_collection add_to_collections"
        " get_collection get_collection_ref convert_to_tensor convert_to_tensor_or_indexed_slices"
        " register_tensor_conversion_function set_random_seed get_seed constant"
    ),
    "pyflow.framework.tensor_shape": "Dimension TensorShape",
    "pyflow.framework.dtypes": (
        "DType as_dtype float16 half bfloat16 float32 float64 double int8 int16 int32 int64 uint8"
        " uint16 uint32 uint64 bool string complex64 complex128 resource variant qint8 quint8"
        " qint16 quint16 qint32"
    ),
    "pyflow.framework.graph_io": "import_graph_def",
    "pyflow.framework.tensor_util": "make_tensor_proto",
}
RENAMED = {
    "OpError": ("pyflow.framework.errors", "OpError"),
    "RegisterGradient": ("pyflow.framework.gradient_registry", "RegisterGradient"),
    "NotDifferentiable": ("pyflow.framework.gradient_registry", "NotDifferentiable"),
    "NoGradient": ("pyflow.framework.gradient_registry", "NotDifferentiable"),
    "random.set_random_seed": ("pyflow.framework.graph", "set_random_seed"),
    "random.get_seed": ("pyflow.framework.graph", "get_seed"),
    "recompute_scope": ("pyflow.framework.memory_scopes", "recompute_scope"),
    "recompute_grad": ("pyflow.framework.memory_scopes", "recompute_grad"),
    "contrib.layers.recompute_grad": ("pyflow.framework.memory_scopes", "recompute_grad"),
    "swap_scope": ("pyflow.framework.memory_scopes", "swap_scope"),
    "contrib.util.constant_value": ("pyflow.framework.tensor_util", "constant_value"),
    "contrib.util.make_tensor_proto": ("pyflow.framework.tensor_util", "make_tensor_proto"),
    "contrib.util.make_ndarray": ("pyflow.framework.tensor_util", "MakeNdarray"),
    "make_ndarray": ("pyflow.framework.tensor_util", "MakeNdarray"),
    "get_static_value": ("pyflow.framework.tensor_util", "constant_value"),
    "dtypes.as_dtype": ("pyflow.framework.dtypes", "as_dtype"),
    "dtypes.DType": ("pyflow.framework.dtypes", "DType"),
    "graph_util.import_graph_def": ("pyflow.framework.graph_io", "import_graph_def"),
    "graph_util.convert_variables_to_constants": (
        "pyflow.interop.graph_util",
        "convert_variables_to_constants",
    ),
    "graph_util.extract_sub_graph": ("pyflow.interop.graph_util", "extract_sub_graph"),
    "graph_util.remove_training_nodes": ("pyflow.interop.graph_util", "remove_training_nodes"),
    "graph_util.tensor_shape_from_node_def_name": (
        "pyflow.interop.graph_util",
        "tensor_shape_from_node_def_name",
    ),
}
_PROTOS = (
    "AttrValue ConfigProto GPUOptions GraphDef GraphOptions MetaGraphDef NameAttrList NodeDef"
    " OptimizerOptions RunOptions"
)
LAZY = {name: ("pyflow.framework.protos", name) for name in _PROTOS.split()}
LAZY.update({f"train.{name}": ("pyflow.framework.protos", name)
             for name in "ClusterDef JobDef ServerDef".split()})
_EVENTS = "Event HistogramProto SessionLog Summary SummaryMetadata"
LAZY.update({name: ("pyflow.framework.protos", name) for name in _EVENTS.split()})
_EVENTS = "Event SessionLog Summary SummaryDescription TaggedRunMetadata"
LAZY.update({f"summary.{name}": ("pyflow.framework.protos", name) for name in _EVENTS.split()})
_EXAMPLES = ("BytesList Example Feature FeatureList FeatureLists Features FloatList Int64List"
             " SequenceExample")
LAZY.update({f"train.{name}": ("pyflow.framework.protos", name) for name in _EXAMPLES.split()})
LAZY.update({f"contrib.tensorboard.plugins.projector.{name}": ("pyflow.framework.protos", name)
             for name in ("EmbeddingInfo", "ProjectorConfig", "SpriteMetadata")})
LAZY.update({
    "RunMetadata": ("pyflow.framework.run_metadata", "RunMetadata"),
    "Session": ("pyflow.session", "Session"),
    "InteractiveSession": ("pyflow.session", "InteractiveSession"),
    "release_memory": ("pyflow.session.runtime", "release_memory"),
    "app": ("pyflow.platform.app", None),
    "flags": ("pyflow.platform.flags", None),
    "logging": ("pyflow.platform.tf_logging", None),
    "gfile": ("pyflow.platform.gfile", None),
    "get_logger": ("pyflow.platform.tf_logging", "get_logger"),
    **{f"io.gfile.{name}": ("pyflow.platform.io_gfile", name) for name in (
        "GFile copy exists glob isdir listdir makedirs mkdir remove rename rmtree stat walk"
    ).split()},
    "resource_loader": ("pyflow.platform.resource_loader", None),
    "keras.__version__": ("pyflow.platform.keras_data", "__version__"),
    "keras.datasets.mnist": ("pyflow.platform.keras_data", "mnist"),
    "keras.datasets.cifar10": ("pyflow.platform.keras_data", "cifar10"),
    "contrib.keras.datasets.mnist": ("pyflow.platform.keras_data", "mnist"),
    "contrib.keras.datasets.cifar10": ("pyflow.platform.keras_data", "cifar10"),
    "test": ("pyflow.platform.test", None),
    "raw_ops": ("pyflow.platform.raw_ops", None),
    "sysconfig": ("pyflow.platform.sysconfig", None),
    "plugin_ops": ("pyflow.plugins", "plugin_ops"),
    "load_op_library": ("pyflow.plugins", "load_op_library"),
    "load_library": ("pyflow.plugins", "load_library"),
    "plugins": ("pyflow.plugins", None),
    "train.write_graph": ("pyflow.train.meta_graph", "write_graph"),
    "io.write_graph": ("pyflow.train.meta_graph", "write_graph"),
})
LAZY.update({f"contrib.slim.{name}": (f"pyflow.contrib.{name}", None)
             for name in ("layers", "losses", "metrics")})
_VERSIONS = ("GIT_VERSION COMPILER_VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER"
             " GRAPH_DEF_VERSION_MIN_PRODUCER")
LAZY.update({name: ("pyflow.platform.version", name)
             for name in f"{_VERSIONS} MONOLITHIC_BUILD CXX11_ABI_FLAG".split()})
LAZY.update({f"version.{name}": ("pyflow.platform.version", name)
             for name in f"VERSION PYFLOW_VERSION COMMIT {_VERSIONS}".split()})
ALIASES = {                     # other places for what is in tf: {place: (where it is, names)}
    "contrib.signal": ("signal", "frame hamming_window hann_window inverse_stft "
                       "inverse_stft_window_fn linear_to_mel_weight_matrix "
                       "mfccs_from_log_mel_spectrograms overlap_and_add stft"),
    "contrib.metrics": ("sets", "set_difference set_intersection set_size set_union"),
    "estimator": ("train", "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook "
                  "GlobalStepWaiterHook LoggingTensorHook NanLossDuringTrainingError NanTensorHook "
                  "ProfilerHook SecondOrStepTimer SessionRunArgs SessionRunContext SessionRunHook "
                  "SessionRunValues StepCounterHook StopAtStepHook SummarySaverHook"),
    "dtypes": ("", "float16 half bfloat16 float32 float64 double int8 int16 int32 int64 uint8 "
               "uint16 uint32 uint64 bool string complex64 complex128 resource variant qint8 "
               "quint8 qint16 quint16 qint32"),
    "io": ("", "PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue"),
    "manip": ("", "reshape"),
}
RENAMED.update({f"{place}.{name}": (f"pyflow.{home}".rstrip("."), name)
                for place, (home, names) in ALIASES.items() for name in names.split()})
RENAMED.update({f"initializers.{kind}": ("pyflow", f"{kind}_initializer")
                for kind in ("global_variables", "local_variables", "variables")})
RENAMED.update({
    "contrib.framework.argsort": ("pyflow", "argsort"),
    "contrib.framework.sort": ("pyflow", "sort"),
    "contrib.metrics.confusion_matrix": ("pyflow", "confusion_matrix"),
    "init_scope": ("pyflow.framework.default_graph", "init_scope"),
    "is_tensor": ("pyflow.lib.contrib.framework", "is_tensor"),
    "no_gradient": ("pyflow.framework.gradient_registry", "NotDifferentiable"),
    "dimension_at_index": ("pyflow.framework.tensor_shape", "dimension_at_index"),
    "dimension_value": ("pyflow.framework.tensor_shape", "dimension_value"),
    "dtypes.QUANTIZED_DTYPES": ("pyflow.framework.dtypes", "QUANTIZED_DTYPES"),
    "QUANTIZED_DTYPES": ("pyflow.framework.dtypes", "QUANTIZED_DTYPES"),
    "contrib.framework.get_name_scope": ("pyflow.framework.graph", "get_name_scope"),
    "contrib.framework.prepend_name_scope": ("pyflow.interop.tensorflow.extras",
                                             "prepend_name_scope"),
    "contrib.framework.strip_name_scope": ("pyflow.interop.tensorflow.extras", "strip_name_scope"),
    "nest.is_nested": ("pyflow.framework.nest", "is_nested"),
    **{f"contrib.framework.nest.{name}": ("pyflow.framework.nest", name) for name in (
        "assert_same_structure assert_shallow_structure flatten_dict_items flatten_up_to "
        "is_nested is_sequence map_structure_up_to").split()},
})
ELSEWHERE = {**RENAMED, **LAZY}
HOMES = {name: module for module, names in _public.PUBLIC.items() for name in names.split()}
PACKAGES = {"pyflow.train", "pyflow.saved_model", "pyflow.estimator",  # namespaces that have a
            "pyflow.feature_column"}                                   # folder
NAMESPACES = sorted({path for name in [*HOMES, *ELSEWHERE]                # outer ones first
                     for path in itertools.accumulate(name.split(".")[:-1], "{}.{}".format)})

_V2 = "pyflow has TensorFlow 1.x's graph API, not TensorFlow 2's"
NOT_HERE = {                            # well-known names that pyflow does not have, and what to do
    "optimizers": f"{_V2}; optimizers are tf.train.AdamOptimizer and its like",
    **dict.fromkeys(("enable_eager_execution", "enable_v2_behavior"),
                    f"{_V2}: there is no eager mode. Build a graph and run it in a tf.Session"),
    "GradientTape": f"{_V2}; use tf.gradients(y, xs)",
    "Module": f"{_V2}; use tf.variable_scope and tf.get_variable",
    **{f"keras.{name}": "tf.keras has datasets only; write layers with tf.layers"
       for name in ("Input", "Model", "Sequential", "activations", "applications", "backend",
                    "callbacks", "constraints", "estimator", "experimental", "initializers",
                    "layers", "losses", "metrics", "models", "optimizers", "preprocessing",
                    "regularizers", "utils", "wrappers")},
    "distribute": "train between graphs: tf.train.Server, tf.train.replica_device_setter and "
                  "tf.train.SyncReplicasOptimizer (docs/distributed.md)",
    "lite": "not in this version; a frozen graph runs without Python through libpyflow_rt",
    "train.SummaryWriter": "TensorFlow 0.x's name of tf.summary.FileWriter",
    **{f"{kind}_summary": f"TensorFlow 0.x's name of tf.summary.{kind}" for kind in
       ("scalar", "histogram", "image", "audio", "merge")},
    "tensor_summary": "TensorFlow 0.x's name of tf.summary.tensor_summary",
    "merge_all_summaries": "TensorFlow 0.x's name of tf.summary.merge_all",
    "LMDBReader": "files of LMDB are not read; convert them to TFRecords",
}
NOT_HERE.update({
    "contrib.slim.nets": "slim's networks are not in this version; write them with slim's layers",
    **dict.fromkeys(("contrib.slim.dataset", "contrib.slim.dataset_data_provider",
                     "contrib.slim.tfexample_decoder", "contrib.slim.parallel_reader",
                     "contrib.slim.prefetch_queue", "contrib.slim.data_decoder"),
                    "slim's readers of TFRecord files are not in this version"),
    **dict.fromkeys(("contrib.seq2seq.BahdanauMonotonicAttention",
                     "contrib.seq2seq.LuongMonotonicAttention",
                     "contrib.seq2seq.monotonic_attention"),
                    "monotonic attention is not in this version; use BahdanauAttention or "
                    "LuongAttention"),
})
_CONTRIB = ("tf.contrib is here in part; `python -m pyflow coverage FILE` lists what a program lacks, "
            "and layers can be written with tf.get_variable and tf.nn")


# ---------------------------------------------------------------- assembling

def assemble(root):
    """Puts the names of the graph layer, and the namespaces, on the package `root`."""
    for module, words in FRAMEWORK.items():
        source = importlib.import_module(module)
        for word in words.split():
            setattr(root, word, getattr(source, word))
    importlib.import_module("pyflow.ops")               # where ops are
    importlib.import_module("pyflow.lib")               # operators
    importlib.import_module("pyflow.gradients")
    del root.gradients                                  # tf.gradients is a function of that package
    for path in NAMESPACES:
        namespace = _namespace(f"{root.__name__}.{path}")
        namespace.__getattr__ = functools.partial(find, namespace)
        namespace.__dir__ = functools.partial(names_of, namespace)
        namespace.__class__ = TableModule
    root.__class__ = TableModule
    compat = _add_compat(root)
    sys.meta_path.append(_Explainer)
    for name in (
        "disable_v2_behavior",
        "disable_eager_execution",
        "disable_v2_tensorshape",
        "disable_resource_variables",
        "disable_control_flow_v2",
        "disable_tensor_equality",
    ):
        setattr(root, name, _nothing_called(name))
    root.executing_eagerly = root.control_flow_v2_enabled = _never
    root.newaxis = None
    importlib.import_module("pyflow.framework.op").on_unknown = _load_plugins
    root.errors = importlib.import_module("pyflow.framework.errors")
    _explain_typos(root.errors, "errors")
    _explain_typos(compat, "compat")
    root.VERSION = root.__version__


def _namespace(full_name):
    """The module of a namespace, made if it is no package of its own, under its parent's name."""
    if full_name in PACKAGES:
        return importlib.import_module(full_name)
    outer, _, name = full_name.rpartition(".")
    module = TableModule(full_name, f"Names of tf.{full_name.partition('.')[2]}.")
    module.__path__ = []                        # `import pyflow.nn` works
    sys.modules[full_name] = module
    setattr(sys.modules[outer], name, module)
    return module


class _Explainer:
    """Finder that is asked last: `from pyflow.contrib import slim` says why there is none, where
    Python would only say "unknown location". It has TensorFlow's paths, too, for programs that say
    pyflow where they said tensorflow: pyflow.python.ops.array_ops."""

    @staticmethod
    def find_spec(full_name, path=None, target=None):
        outer, _, name = full_name.rpartition(".")
        module = sys.modules.get(outer)
        if module is None or outer.partition(".")[0] != "pyflow":
            return None
        if full_name.startswith(("pyflow.python.", "pyflow.core.")):
            paths = importlib.import_module("pyflow.interop.tensorflow.finder")
            return paths.Finder("pyflow").find_spec(full_name, path, target)
        if path == [] or _prefix(module) + name in NOT_HERE:
            # By the namespace's own name: of a missing `outer.name` Python hides the text.
            raise late_text.error(ModuleNotFoundError, lambda: (
                f"No module named {full_name!r}{near(module, name)}"), name=outer)
        return None


def _add_compat(root):
    """tf.compat.v1 is tf itself."""
    compat = _namespace(f"{root.__name__}.compat")
    source = importlib.import_module("pyflow.platform.compat")
    for name, value in vars(source).items():
        if not name.startswith("_") and name not in ("np", "numbers"):
            setattr(compat, name, value)
    install = importlib.import_module("pyflow.interop.install")
    compat.install_as_onnxruntime = install.install_as_onnxruntime
    compat.install_as_tensorflow = install.install_as_tensorflow
    compat.v1 = root
    sys.modules[root.__name__ + ".compat.v1"] = root
    return compat


def _load_plugins():
    """An op nobody knows yet may be a plugin's: an imported GraphDef, tf.raw_ops."""
    importlib.import_module("pyflow.plugins").load_all()


def _nothing_called(name):
    def nothing(*unused):
        """There is only TF 1.x's behaviour here: nothing to switch off.

            >>> tf.disable_v2_behavior()                    # as programs for compat.v1 do
            >>> tf.placeholder(tf.float32).op.type
            'Placeholder'
        """
    nothing.__name__ = nothing.__qualname__ = name
    nothing.__module__ = __package__
    return nothing


def _never():
    """False: everything here builds graphs."""
    return False


# ---------------------------------------------------------------- looking names up

def find(module, name):
    """The value of a name that `module`, tf or a namespace of it, has not got yet; it is kept
    there.  AttributeError with near names for an unknown one."""
    if name == "__all__":                           # `from pyflow import *`
        return [known for known in names_of(module) if not known.startswith("_")]
    path = _prefix(module) + name
    if path in ELSEWHERE:
        home, attribute = ELSEWHERE[path]
        value = importlib.import_module(home)
        if attribute is not None:
            value = getattr(value, attribute)
        else:
            _explain_typos(value, path)
    elif path in HOMES:
        table = importlib.import_module(HOMES[path]).PUBLIC
        value = table[path]
        _name(value, table)
    else:
        unknown(module, name)
    setattr(module, name, value)
    return value


def _name(value, table):
    """Gives a function, or an op, the name that it has in tf; and a function that another one made,
    which pickle does not find at its module, its place in tf."""
    is_function = type(value) is types.FunctionType
    if not (is_function or type(value) is OpDef):
        return
    names = [path for path, other in table.items() if other is value]
    names.sort(key=lambda path: (path.startswith("contrib."), -path.count("."), path))
    if value.__name__ not in {path.rpartition(".")[2] for path in names}:
        value.__name__ = names[0].rpartition(".")[2]
    if is_function:
        there = sys.modules.get(value.__module__)
        if isinstance(there, TableModule):
            return                                      # it has its place
        for part in value.__qualname__.split("."):
            there = getattr(there, part, None)
        if there is not value:
            outer, _, name = names[0].rpartition(".")
            value.__module__, value.__qualname__ = f"{__package__}.{outer}".rstrip("."), name


def names_of(module):
    """The names of tf or of a namespace, loaded or not, sorted."""
    prefix = _prefix(module)
    inside = {path[len(prefix):] for path in [*HOMES, *ELSEWHERE] if path.startswith(prefix)}
    return sorted({*held(module), *(name for name in inside if "." not in name)})


def _prefix(module):
    """"" for tf, "nn." for tf.nn."""
    return (module.__name__ + ".").partition(".")[2]


def unknown(module, name):
    """Raises the AttributeError of a name that `module`, tf or a namespace of it, lacks."""
    _raise_unknown(module, name, lambda: near(module, name))


def _raise_unknown(module, name, hint):
    error = late_text.error(AttributeError, lambda: (
        f"module {module.__name__!r} has no attribute {name!r}{hint()}"), name=name)
    importlib.import_module("pyflow.framework.user_traceback").mark(error)
    raise error


def _explain_typos(module, path):
    """What a module that is a name of tf lacks is answered as in a namespace: tf.gfile.Opne."""
    if not hasattr(module, "__getattr__"):
        module.__getattr__ = lambda name: missing_from(module, path, name)


def missing_from(module, path, name):
    """Raises the AttributeError of a name that `module`, a name `path` of tf, lacks."""
    def hint():
        known = [n for n, value in held(module).items()
                 if not n.startswith("_") and not isinstance(value, types.ModuleType)]
        return _meant([f"tf.{path}.{n}" for n in _misspelt(name, known)])
    _raise_unknown(module, name, hint)


def hint(path):
    """Why a dotted name of tf, or what it lies in, is missing here, and what to do; or ""."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        if ".".join(parts[:n]) in NOT_HERE:
            return NOT_HERE[".".join(parts[:n])]
    return ""


def near(module, name):
    """What may have been meant: near names here, the same name elsewhere, or why it is missing."""
    if name.startswith("_"):
        return ""
    prefix = _prefix(module)
    if prefix + name in NOT_HERE:
        return f": {NOT_HERE[prefix + name]}"
    renamed = importlib.import_module("pyflow.interop.tensorflow.renamed")
    new = renamed.NAMES.get(prefix + name) or renamed.BECAME.get(prefix + name)
    if new:
        return (f": TensorFlow 0.x's name of tf.{new}; `python -m pyflow exec` runs programs that "
                "use it")
    everywhere = {}
    for path in sorted({*" ".join(FRAMEWORK.values()).split(), *HOMES, *ELSEWHERE},
                       key=lambda path: (path.startswith("contrib."), path)):     # contrib's last
        everywhere.setdefault(path.rpartition(".")[2], []).append(f"tf.{path}")
    close = everywhere.get(name, [])[:3]
    if not close:
        here = [n for n in names_of(module) if _is_public(module, prefix + n, n)]
        close = [f"tf.{prefix}{n}" for n in _misspelt(name, here)]
    if not close:
        close = [everywhere[n][0] for n in _misspelt(name, everywhere)]
    if not close and prefix.startswith("contrib."):
        return f": {_CONTRIB}"
    return _meant(close)


def _is_public(module, path, name):
    """Of what lies in a namespace: no module, unless it is one of tf's names."""
    return (path in ELSEWHERE or path in NAMESPACES or path in ("errors", "compat")
            or not isinstance(held(module).get(name), types.ModuleType))


def _misspelt(name, known):
    """At most three of `known` that may have been meant: two letters swapped (which difflib thinks
    little of: rleu and relu are 0.75 alike), alike, or longer."""
    if name.startswith("_"):
        return []
    import difflib
    near = {n.lower(): n for n in known if not n.startswith("_")}
    typed = name.lower()
    swapped = [n for n in near if len(n) == len(typed) and sorted(n) == sorted(typed)]
    found = swapped or difflib.get_close_matches(typed, near, n=3, cutoff=0.78) or [
        n for n in sorted(near) if len(typed) > 2 and n.startswith(typed)]
    return [near[n] for n in found[:3]]


def _meant(near):
    return f"; did you mean {' or '.join(near)}?" if near else ""
