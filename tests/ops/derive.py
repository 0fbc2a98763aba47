"""Cases derived from the `@op` blocks: nothing about an op is written here that its block says.

A case is one op, one of its samples and one choice of element types.  From cases come the value
test (against the block's `reference`), the shape test, the numeric gradient check and the
malformed-input test.

Example:  `for case in cases(): case.build(); case.expected()`.
"""
import numpy as np

import pyflow  # noqa: F401 - registers the ops
from pyflow.framework import dtypes
from pyflow.framework.graph import Graph, convert_to_tensor
from pyflow.framework.op import registered_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import text

# Modules of pyflow.ops whose blocks have no samples: a call by itself says nothing, since the ops
# need state, files, a loop or Python.  Why, and where they are tested.  All other ops are tested
# from their blocks.
OUTSIDE = {
    "checkpoint.io_ops": ("files", "train/test_saver.py"),
    "control.control_flow_ops": ("dead branches and loops", "control_flow/test_values.py"),
    "control.functional_ops": ("calls of functions that a graph brings", "graph/test_functions.py"),
    "transfer.file_ops": ("files", "session/test_files.py"),
    "containers.stack_ops": ("stacks, filled by one node and read by another",
                             "control_flow/test_values.py"),
    "containers.list_ops": ("lists, made by one node and read by another", "ops/test_lists.py"),
    "transfer.logging_ops": ("what they do is print and fail", "control_flow/test_side_effects.py"),
    "transfer.script_ops": ("Python functions", "oracle/test_oracle.py"),
    "transfer.session_ops": ("tensors that outlive their step", "session/test_session_handles.py"),
    "containers.tensor_array_ops": ("arrays, written in a loop", "control_flow/test_values.py"),
    "dataset.dataset_ops": ("datasets, read by iterators", "data/test_answers.py"),
    "dataset.iterator_ops": ("iterators", "data/test_states.py"),
    "dataset.tensorflow_ops": ("datasets as TensorFlow writes them", "data/test_answers.py"),
    "queue.accumulator_ops": ("accumulators, filled by one node and read by another",
                              "queues/test_oracle.py"),
    "queue.barrier_ops": ("barriers, likewise", "queues/test_oracle.py"),
    "queue.queue_ops": ("queues, likewise", "queues/test_oracle.py"),
    "queue.staging_ops": ("staging areas, likewise", "queues/test_oracle.py"),
    "queue.step_gate_ops": ("gates of steps, at which replicas wait for each other",
                            "distributed/test_shards.py"),
    "reader.reader_ops": ("readers of files", "readers/test_answers.py"),
    "state.critical_section_ops": ("mutexes", "ops/test_critical_section.py"),
    "state.lookup_table_ops": ("tables", "state/test_lookup_tables.py"),
    "state.resource_handles": ("variables", "state/test_element_types.py"),
    "state.state_ops": ("variables", "state/test_refs.py"),
    "state.training_ops": ("variables", "train/test_optimizers.py"),
}
TRIED = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32,
         dtypes.int64,
         dtypes.uint8, dtypes.bool, dtypes.complex64)
COUNTERPART = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64,
               dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
PRIMARY = ("T", "Tparams", "SrcT", "dtype", "TI", "Tidx", "Tout")
LOW_PRECISION = {dtypes.float16: 2e-3, dtypes.bfloat16: 2e-2}


def own_ops():
    """The OpDefs that are tested from their blocks, by name."""
    return {name: op for name, op in registered_ops().items()
            if _place(op) and _place(op) not in OUTSIDE}


def outside_ops():
    """The OpDefs of OUTSIDE's modules, by name."""
    return {name: op for name, op in registered_ops().items() if _place(op) in OUTSIDE}


def _place(op):
    """"reduce.bincount_ops"; "": declared by a plugin, or Const."""
    head, _, place = (op.module or "").partition("pyflow.ops.")
    return place if not head else ""


class Case:
    """One op, one sample, one choice of types."""

    def __init__(self, op, number, sample, types):
        self.op, self.number, self.sample, self.types = op, number, sample, types
        chosen = "-".join(t.name for t in types.values() if not isinstance(t, list))
        self.id = f"{op.name}-{number}-{chosen}" if chosen else f"{op.name}-{number}"

    def arrays(self):
        return self.sample.arrays(self.op, self._list_types())

    def _list_types(self):
        types = dict(self.types)
        types.update((k, dtypes.as_dtype(v)) for k,
                     v in self.sample.attrs.items() if self._is_type(k))
        for arg, spec in zip(self.op.inputs, self.sample.inputs):
            if arg.type_list_attr:
                types[arg.type_list_attr] = [dtypes.float32] * len(spec)
        return types

    def attrs(self):
        """Attributes the call needs besides those the inputs decide."""
        found = {k: v for k, v in self.types.items() if k not in self.op.call_plan.inferred}
        found.update((k, v) for k, v in self.sample.attrs.items()
                     if k not in self.op.call_plan.inferred)
        return found

    def feeds(self):
        """Input arrays, lists flattened."""
        flat = []
        for value in self.arrays():
            flat.extend(value) if isinstance(value, list) else flat.append(value)
        return flat

    def node(self, make):
        """The op's node, its inputs from `make(array)`, in the current graph."""
        inputs = [[make(a) for a in value] if isinstance(value, list) else make(value)
                  for value in self.arrays()]
        result = self.op(*inputs, **self.attrs())
        return result.op if hasattr(result, "op") else _first(result).op

    def native_attrs(self):
        """Attributes as the reference wants them: DTypes and text."""
        attrs = {k: dtypes.as_dtype(v) if self._is_type(k) else text(v)
                 for k, v in {**self.types, **self.sample.attrs}.items()}
        for arg, value in zip(self.op.inputs, self.sample.inputs):
            if arg.number_attr:
                attrs[arg.number_attr] = len(value)
            elif arg.type_list_attr:
                attrs[arg.type_list_attr] = self._list_types()[arg.type_list_attr]
        return attrs

    def _is_type(self, name):
        return name in self.op.attrs and self.op.attrs[name].kind == "type"

    def expected(self):
        """The reference's results, a list of arrays; half types are computed in float32."""
        wide = [_widened(a) for a in self.feeds()]
        with np.errstate(all="ignore"):
            result = self.op.call_reference(wide, self.native_attrs())
        return list(result) if isinstance(result, tuple) else [np.asarray(result)]

    def tolerance(self):
        kinds = [t for t in self.types.values() if not isinstance(t, list)]
        for dtype, size in LOW_PRECISION.items():
            if dtype in kinds or dtype in self.sample.attrs.values():
                return dict(rtol=4 * size, atol=4 * size)
        double = dtypes.float64 in kinds
        return dict(rtol=1e-9, atol=1e-9) if double else dict(rtol=3e-5, atol=3e-5)


def _first(value):
    while isinstance(value, (list, tuple)):
        value = value[0]
    return value


def fetched(value):
    """A fetched value as an array; a scalar string is fetched as bytes."""
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def _widened(array):
    half = array.dtype.itemsize == 2 and array.dtype.kind in "fV"
    return array.astype(np.float32) if half else array


def primary_attr(op, sample):
    """The type attribute whose types are tried one by one."""
    free = [a for a in op.attrs.values() if a.kind == "type" and a.name not in sample.attrs]
    return next((a for name in PRIMARY for a in free if a.name == name), None)


def type_choices(op, sample):
    """The type attributes of a case: each tried type of the primary attribute, the others
    settled."""
    free = [a for a in op.attrs.values() if a.kind == "type" and a.name not in sample.attrs]
    primary = primary_attr(op, sample)
    if primary is None:
        return [{a.name: _settled(a) for a in free}]
    allowed = sample.types or primary.allowed or TRIED
    choices = []
    for dtype in allowed:
        if dtype not in TRIED or primary.allowed and dtype not in primary.allowed:
            continue
        types = {a.name: _settled(a) for a in free}
        types[primary.name] = dtype
        if "Tout" in types and dtype in COUNTERPART:
            types["Tout"] = COUNTERPART[dtype]
        choices.append(types)
    return choices


def _settled(attr):
    if attr.has_default:
        return attr.default
    allowed = attr.allowed or (dtypes.float32,)
    preferred = [t for t in (dtypes.int32, dtypes.float32) if t in allowed]
    return (preferred or allowed)[0]


def cases(ops=None):
    """All cases of the ops with samples."""
    made = []
    for op in (ops or own_ops()).values():
        for number, sample in enumerate(op.samples or ()):
            made.extend(Case(op, number, sample, types) for types in type_choices(op, sample))
    return made


def constant_node(case):
    """The case's node with constant inputs, in a graph of its own."""
    with Graph().as_default():
        return case.node(lambda a: convert_to_tensor(a))


def placeholder_node(case, shape_of):
    """The case's node with placeholders of static shape `shape_of(array)`; (node, placeholders)."""
    from pyflow.lib.array.identity_functions import placeholder
    made = []

    def make(array):
        made.append(placeholder(array.dtype if array.dtype.kind != "O" else dtypes.string,
                                TensorShape(shape_of(array))))
        return made[-1]
    with Graph().as_default():
        return case.node(make), made
