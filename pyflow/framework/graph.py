"""`Graph`: the operations a program builds, and the scopes and collections around them.

This module is also the one door to the graph layer: it re-exports Operation, Tensor, the scopes of
the default graph, conversion, constants, seeds and collections.

Invariants:
1. Operation ids are 1, 2, 3, ... in order of creation; inputs other than a loop's back edges have
   smaller ids.
2. `version` is the last id. `revision` grows with every change, also of attributes and edges.
3. An operation that fails its checks or shape function is not in the graph.
4. A finalized graph does not change.

Threads: adding operations takes `_lock`; scopes are per thread; reading needs no lock.

    with Graph().as_default() as g:
        c = constant(1.0, name="c")
    g.get_tensor_by_name("c:0") is c
"""

import threading

from pyflow.framework import constant as _constant_module, default_graph, held, late_text
from pyflow.framework import op as _op, op_check, wire
from pyflow.framework import origin as _origin
from pyflow.framework.collections import GraphCollections, GraphKeys
from pyflow.framework.constant import constant
from pyflow.framework.convert import (
    convert_n_to_tensor, convert_to_tensor, graph_of, is_dense_tensor_like,
    register_tensor_conversion_function)
from pyflow.framework.default_graph import (
    default_session, get_default_graph, get_default_session, has_default_graph,
    reset_default_graph)
from pyflow.framework.default_scopes import (
    add_to_collection, add_to_collections, colocate_with, container, control_dependencies, device,
    get_collection, get_collection_ref, get_all_collection_keys, get_name_scope, get_seed,
    name_scope, op_scope, set_random_seed, DEFAULT_GRAPH_SEED)
from pyflow.framework.device import DeviceSpec, merge_device
from pyflow.framework.function_library import Library
from pyflow.framework.operation import Operation
from pyflow.framework.scopes import _VALID_OP_NAME, GraphScopes
from pyflow.framework.sparse_values import (
    IndexedSlices, IndexedSlicesValue, SparseTensor, SparseTensorValue,
    convert_n_to_tensor_or_indexed_slices, convert_to_tensor_or_indexed_slices)
from pyflow.framework.tensor import Tensor, install_operators
from pyflow.framework.tensor_shape import as_shape

PRODUCER_VERSION = 134  # TF 1.15's: the version whose op semantics pyflow follows
MIN_CONSUMER_VERSION = 0
_RUNS_BETWEEN, _OFTEN = 3, 1000     # when ops added after the first run look like a loop's


class Graph(GraphScopes, GraphCollections):
    """A dataflow graph (TF 1.x `tf.Graph`).

    strict: raise when operations are added after the graph first ran; otherwise a line that does so
    again and again is warned of, once.

        >>> with tf.Graph().as_default() as graph:
        ...     x = tf.constant(2.0, name="x") * 3.0
        >>> [op.name for op in graph.get_operations()]
        ['x', 'mul/y', 'mul']
        >>> tf.Session(graph=graph).run(x)
        np.float32(6.0)
    """

    _strict_default = None
    building_function = False       # True for a function's graph (lib/function/func_graph.py)
    outer_graph = None              # of a function's graph: the one that it was begun in

    def __init__(self, strict=None):
        GraphScopes.__init__(self)
        GraphCollections.__init__(self)
        self._lock = threading.RLock()
        self._nodes_by_id = []
        self._nodes_by_name = {}
        self.revision = 0
        self.on_arrays_taken = None     # called when a compiler has the arrays of all constants
        self.on_array_changed = None    # called with a Const whose array a compiler wants to write
        # to: whether the graph has now forgotten it and can make it again
        self._seed = None
        self._finalized = False
        self.sweep = None               # scope of the tf.gradients that adds gradients of ops now
        self._unfeedable = set()
        self._unfetchable = set()
        self._library = Library()
        self._producer_version = PRODUCER_VERSION
        self._min_consumer = MIN_CONSUMER_VERSION
        self._origin = _origin.here(2)
        self._thread_name = threading.current_thread().name
        self._strict = strict
        self.traces = {}                # tf.function's Function -> {arguments: ConcreteFunction}
        self._runs = 0                  # signatures of fetches and feeds run so far
        self._growth = {}               # user's line -> [how often it added, runs before it did]

    # Default graph, seed, life cycle

    def as_default(self):
        """Context in which this graph is the default one of the thread."""
        return default_graph.graph_stack.entered(self)

    @property
    def seed(self):
        """The graph-level random seed, or None."""
        return self._seed

    @seed.setter
    def seed(self, seed):
        self._seed = seed

    @property
    def version(self):
        """Grows with every operation added: the last operation's id."""
        return len(self._nodes_by_id)

    @property
    def _last_id(self):
        return len(self._nodes_by_id)

    @property
    def _version(self):
        return len(self._nodes_by_id)

    @property
    def finalized(self):
        """True once `finalize()` was called."""
        return self._finalized

    @property
    def _building_function(self):
        return self.building_function

    @_building_function.setter
    def _building_function(self, building):
        self.building_function = building

    def switch_to_thread_local(self):
        """Nothing: scopes of names, devices, colocation and control dependencies are each thread's
        own here from the beginning. In TensorFlow threads share a graph's scopes until this is
        called."""

    def finalize(self):
        """Makes the graph read-only: adding to it raises RuntimeError from now on."""
        self._finalized = True

    def _unsafe_unfinalize(self):
        self._finalized = False

    def _check_not_finalized(self):
        if self._finalized:
            raise RuntimeError(f"Graph is finalized and cannot be modified. ({self.describe()})")

    def describe(self):
        """For errors: which graph this is, where and on which thread it was made."""
        return (f"graph {id(self):#x} (made at {_origin.user_frame(self._origin)}, thread "
                f"{self._thread_name}, {len(self._nodes_by_id)} operations)")

    # Growth after the first run (a session calls mark_run)

    def mark_run(self):
        """Told by a session that the graph is being run."""
        self._runs += 1

    def _check_growth(self, op_type, name):
        """Adding to a graph that has run is an error where it is strict. Else it is ordinary (an
        accuracy or a Saver built late) until one line does it again and again between runs."""
        from pyflow import config
        strict = self._strict if self._strict is not None else Graph._strict_default
        if strict is None:
            strict = config.value("PYFLOW_STRICT_GRAPH")
        here = _origin.here(2)
        if not strict and not self._adds_again(here[:2]):
            return
        message = (f"{op_type} node {name!r} is added by {_origin.user_frame(here)} after the "
                   f"graph has run. Ops made in a loop around session.run make every run slower; "
                   f"build them once before the loop, and call graph.finalize() to be sure.")
        if strict:
            raise RuntimeError(f"Strict graph: {message}")
        self._growth = None
        config.logger.warning("%s This is said once per graph.", message)

    def _adds_again(self, place):
        """True once `place`, a code object and an offset, has added after each of several runs, or
        very often after one; never after that was said."""
        if self._growth is None:
            return False
        seen = self._growth.setdefault(place, [0, set()])
        seen[0] += 1
        seen[1].add(self._runs)
        return len(seen[1]) >= _RUNS_BETWEEN or seen[0] >= _OFTEN

    # Adding operations

    def create_op(self, op_type, inputs, dtypes=None, input_types=None, name=None, attrs=None,
                  op_def=None, compute_shapes=True, compute_device=True):
        """Adds an operation of a registered type from tensors and attributes (AttrValue or native).

        Defaults of absent attributes come from the op's schema. Raises as calling the op would.
        """
        for tensor in inputs:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Input of {op_type} node {name!r} is not a tensor: {tensor!r}")
        inputs = [t if t.op.graph is self else self._own(t) for t in inputs]
        op_def = op_def if isinstance(op_def, _op.OpDef) else (
            self._library.op_def(op_type) or _op.get_op(op_type))
        attrs = {key: wire.from_attr_value(value) for key, value in (attrs or {}).items()}
        name = name or op_type
        if name[-1] == "/":
            name = name[:-1]
        else:
            with self._lock:
                name = self.unique_name(name)
        output_types = op_check.complete(op_def, name, inputs, attrs)
        return self.add_node(op_def, name, tuple(inputs), attrs, output_types)

    def add_node(self, op_def, name, inputs, attrs, output_types, output_shapes=None,
                 control_inputs=(), device=""):
        """Adds a checked node under its final name; every way of building ends here.

        output_shapes: TensorShapes, if the caller knows them; otherwise the shape function runs.
        """
        if self._finalized:
            self._check_not_finalized()
        if not _VALID_OP_NAME.match(name):
            raise ValueError(f"'{name}' is not a valid node name: use letters, digits and _.-/ "
                             f"(the first a letter, digit or dot)")
        if self._runs:
            self._check_growth(op_def.name, name)
        scopes = self._scopes
        control = list(control_inputs)
        if scopes.control:
            control += [c for c in self._control_dependencies_for_inputs({t.op for t in inputs})
                        if c not in control]
        op = Operation(self, op_def.name, name, inputs, control, output_types, attrs, op_def)
        op._device = device
        if output_shapes is None:
            op_def.infer_shapes(op)
        else:
            for tensor, shape in zip(op.outputs, output_shapes):
                tensor._shape = shape
        context = op._control_flow_context = scopes.control_flow_context
        for tensor in inputs:
            inner = tensor.op._control_flow_context
            if inner is not None and inner is not context:
                inner.check_use(op, tensor.op)
        with self._lock:        # whoever reads the graph meanwhile sees the node whole or not at all
            self._register(op)
            if context is not None:
                context.add_op(op)
                self._put_behind_inputs(op)
            if scopes.control:
                self._record_op_seen_by_control_dependencies(op)
            if self._default_original_op is not None:
                op._original_op = self._default_original_op
            self._apply_scopes(op)
            if held.table:
                self._library.hold(op.attrs)
        return op

    def _register(self, op):
        if op.name in self._nodes_by_name:
            raise ValueError(f"Duplicate node name in graph: {op.name!r}; it was made at "
                             f"{self._nodes_by_name[op.name].user_frame}")
        for tensor in op._inputs:
            if tensor.op.graph is not self:
                self._check_owns(tensor)
        op._connect()
        self._nodes_by_id.append(op)
        self._nodes_by_name[op.name] = op
        self._names_in_use.setdefault(op.name.lower(), 1)
        op._id = len(self._nodes_by_id)
        self.revision += 1

    def _operation_of(self, value):
        if isinstance(value, (bool, int, float, complex, list, tuple)):
            value = convert_to_tensor(value)
        return super()._operation_of(value)

    # Finding operations and tensors

    def get_operations(self):
        """All operations, in the order they were made."""
        return list(self._nodes_by_id)

    def _put_behind_inputs(self, op):
        """Moves `op` behind what its context has added for its inputs, so that the order of
        operations, of GraphDefs too, stays one in which inputs come first."""
        with self._lock:
            nodes, at = self._nodes_by_id, op._id - 1
            if op._id == len(nodes) or nodes[at] is not op:
                return
            nodes.append(nodes.pop(at))
            for number, moved in enumerate(nodes[at:], at + 1):
                moved._id = number

    def _put_before(self, op, count):
        """Moves all operations but the first `count` before `op`, in the order of construction."""
        nodes, at = self._nodes_by_id, op._id - 1
        self._nodes_by_id = nodes[:at] + nodes[count:] + nodes[at:count]
        for number, moved in enumerate(self._nodes_by_id[at:], at + 1):
            moved._id = number

    def _get_operation_by_name_unsafe(self, name):
        return self._nodes_by_name.get(name)

    def _get_operation_by_id_unsafe(self, op_id):
        return self._nodes_by_id[op_id - 1]

    def get_operation_by_name(self, name):
        """The operation called `name`; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)

    def get_tensor_by_name(self, name):
        """The tensor called `name` ("op:0"); KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj, allow_tensor=True, allow_operation=True):
        """`obj` (Tensor, Operation, name, or an object with `_as_graph_element`) as Tensor or
        Operation of this graph. ValueError, KeyError or TypeError say why it is none."""
        if type(obj) is Tensor and allow_tensor or type(obj) is Operation and allow_operation:
            self._check_owns(obj)
            return obj
        if not (allow_tensor or allow_operation):
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        wanted = " or ".join(["Tensor"] * allow_tensor + ["Operation"] * allow_operation)
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            if ":" in obj:
                return self._tensor_named(obj, allow_tensor, wanted)
            return self._operation_named(obj, allow_operation, wanted)
        if isinstance(obj, Tensor) and allow_tensor or isinstance(obj,
                                                                  Operation) and allow_operation:
            self._check_owns(obj)
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}.")

    def _tensor_named(self, name, allowed, wanted):
        if not allowed:
            known = name.rpartition(":")[0]
            hint = f" Did you mean {known!r}?" if known in self._nodes_by_name else ""
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a {wanted}.{hint}")
        op_name, _, index = name.rpartition(":")
        if not index.isdigit() or ":" in op_name or not op_name:
            raise ValueError(f"The name {name!r} looks a like a Tensor name, but is not a valid "
                             f"one. "
                             f'Tensor names must be of the form "<op_name>:<output_index>".')
        op = self._nodes_by_name.get(op_name)
        if op is None:
            raise late_text.error(KeyError, lambda: (
                f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                f"{op_name!r}, does not exist in the graph.{self._suggest(op_name)}"))
        if int(index) >= len(op.outputs):
            raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The "
                           f"operation, {op_name!r}, exists but only has {len(op.outputs)} "
                           f"outputs.")
        return op.outputs[int(index)]

    def _operation_named(self, name, allowed, wanted):
        op = self._nodes_by_name.get(name)
        if allowed:
            if op is None:
                raise late_text.error(KeyError, lambda: (
                    f"The name {name!r} refers to an Operation not in the graph."
                    f"{self._suggest(name)}"))
            return op
        problem = "refers to an Operation" if op is not None else \
            "looks like an (invalid) Operation name"
        raise late_text.error(ValueError, lambda: (
            f"The name {name!r} {problem}, not a {wanted}. Tensor names must be of the form "
            f'"<op_name>:<output_index>".'
            + (f" Did you mean '{name}:0'?" if op is not None and op.outputs else
               self._suggest(name))))

    def _suggest(self, name):
        import difflib
        names = list(self._nodes_by_name)[:20000]
        close = difflib.get_close_matches(name, names, n=3)
        return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""

    def _own(self, tensor):
        """The tensor of this graph that stands for `tensor`: itself, or ValueError. A function's
        graph takes another's in as an argument."""
        self._check_owns(tensor)
        return tensor

    def _check_owns(self, element):
        """ValueError that names both graphs if `element` is another graph's."""
        other = element.graph
        if other is not self:
            kind = "Tensor" if isinstance(element, Tensor) else "Operation"
            raise ValueError(
                f"{kind} {element.name!r} is not an element of this graph. It belongs to "
                f"{other.describe()}, this is {self.describe()}; the current thread is "
                f"{threading.current_thread().name}. Each thread has its own default graph: use "
                f"`with graph.as_default():`, or a session made with graph=...")

    def is_feedable(self, tensor):
        """False if `prevent_feeding` was called for `tensor`."""
        return tensor not in self._unfeedable

    def prevent_feeding(self, tensor):
        """Forbids feeding `tensor`."""
        self._unfeedable.add(tensor)

    def is_fetchable(self, tensor_or_op):
        """False if `prevent_fetching` was called for the operation."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable

    def prevent_fetching(self, op):
        """Forbids fetching `op` and its outputs."""
        self._unfetchable.add(op)

    # GraphDef

    @property
    def graph_def_versions(self):
        """The VersionDef `as_graph_def` writes."""
        from pyflow.framework import protos
        return protos.VersionDef(producer=self._producer_version, min_consumer=self._min_consumer)

    def as_graph_def(self, from_version=None, add_shapes=False):
        """A GraphDef of the operations after `from_version` (all by default)."""
        from pyflow.framework import graph_io
        return graph_io.as_graph_def(self, from_version, add_shapes)

    def _repr_html_(self):
        from pyflow.framework import notebook
        return notebook.graph_html(self)

    def __repr__(self):
        return f"<tf.Graph {id(self):#x} with {len(self._nodes_by_id)} operations>"


def set_strict_graph(strict=True):
    """Makes graphs raise (True) or warn once (False) when ops are added after their first run."""
    Graph._strict_default = strict


default_graph.new_graph = Graph
_constant_module.install()
_op.register(_constant_module.Const)

__all__ = [
    "Graph", "Operation", "Tensor", "GraphKeys", "DeviceSpec", "merge_device", "install_operators",
    "as_shape", "set_strict_graph", "default_session", "get_default_graph", "get_default_session",
    "has_default_graph", "reset_default_graph", "add_to_collection", "add_to_collections",
    "colocate_with", "container", "control_dependencies", "device", "get_collection",
    "get_collection_ref", "get_all_collection_keys", "get_name_scope", "get_seed", "name_scope",
    "op_scope", "set_random_seed", "DEFAULT_GRAPH_SEED", "IndexedSlices", "IndexedSlicesValue",
    "SparseTensor", "SparseTensorValue", "convert_n_to_tensor",
    "convert_n_to_tensor_or_indexed_slices", "convert_to_tensor",
    "convert_to_tensor_or_indexed_slices", "graph_of", "is_dense_tensor_like",
    "register_tensor_conversion_function", "constant", "PRODUCER_VERSION", "MIN_CONSUMER_VERSION"]
