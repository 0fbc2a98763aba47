"""The scopes a graph is built in: names, devices, control dependencies, colocation, attributes.

Invariants:
1. A scope holds for the thread that entered it, and only for ops made inside it.
2. `names_in_use` maps each lower-cased name to how often it was asked for: names differ in more
   than case, and finding a free one costs O(1).
3. Inner device scopes win; `device(None)` hides the outer ones; a device function sees the node
   with the device found so far and returns its device.
"""

import contextlib
import re
import threading

from pyflow.framework import device as _device
from pyflow.framework.operation import Operation
from pyflow.framework.tensor import Tensor

_VALID_OP_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\\-/>]*$")
_VALID_SCOPE_NAME = re.compile(r"^[A-Za-z0-9_.\\\-/>]*$")


class _ThreadScopes(threading.local):
    """The scopes one thread is in."""

    def __init__(self):
        self.name = ""
        self.devices = ()
        self.plain_device = ""       # merge of `devices`; None if it has a function to call
        self.colocation = ()
        self.control = []
        self.control_flow_context = None


class _ControlScope:
    """One `with control_dependencies(...)`; remembers which ops were made under it."""

    def __init__(self, graph, ops):
        self.graph = graph
        self.ops = ops or []
        self.clears = ops is None
        self.made = set()

    def __enter__(self):
        scopes = self.graph._scopes
        self.saved = scopes.control, scopes.control_flow_context
        if self.clears:
            scopes.control_flow_context = None
            scopes.control = [self]
        else:
            scopes.control = scopes.control + [self]
        return self

    def __exit__(self, *unused):
        scopes = self.graph._scopes
        if not scopes.control or scopes.control[-1] is not self:
            raise AssertionError("control_dependencies scopes must be left in reverse order")
        if self.clears:
            scopes.control, scopes.control_flow_context = self.saved
        else:
            scopes.control = self.saved[0]


class GraphScopes:
    """The part of Graph that keeps scopes."""

    def __init__(self):
        self._scopes = _ThreadScopes()
        self._names_in_use = {}
        self._container = ""
        self._attr_scopes = {}
        self._gradient_overrides = {}
        self._kernel_labels = {}
        self._default_original_op = None

    # Names

    @property
    def _name_stack(self):
        return self._scopes.name

    def get_name_scope(self):
        """The current name scope, without a trailing slash."""
        return self._scopes.name

    def unique_name(self, name, mark_as_used=True):
        """A name nobody has in the current scope: `name`, `name_1`, ... (full, with the scope)."""
        scope = self._scopes.name
        if isinstance(name, bytes):
            name = name.decode()
        if scope:
            name = f"{scope}/{name}"
        key = name.lower()
        in_use = self._names_in_use
        count = in_use.get(key, 0)
        if mark_as_used:
            in_use[key] = count + 1
        if count == 0:
            return name
        candidate = f"{key}_{count}"
        while candidate in in_use:
            count += 1
            candidate = f"{key}_{count}"
        if mark_as_used:
            in_use[key] = count + 1
            in_use[candidate] = 1
        return f"{name}_{count}"

    @contextlib.contextmanager
    def name_scope(self, name):
        """Scope that prefixes names with `name/`; yields the prefix. "" or None: the top level.

        A name that ends in "/" is taken as it is: that re-enters an existing scope.
        """
        scope = self._open_name_scope(name)
        scopes = self._scopes
        saved, scopes.name = scopes.name, scope
        try:
            yield scope + "/" if name else ""
        finally:
            scopes.name = saved

    def _open_name_scope(self, name):
        if not name:
            return ""
        name = name.decode() if isinstance(name, bytes) else name
        if not isinstance(name, str):
            raise TypeError(f"name for name_scope must be a string, got {name!r}")
        valid = _VALID_SCOPE_NAME if self._scopes.name else _VALID_OP_NAME
        if not valid.match(name):
            raise ValueError(f"'{name}' is not a valid scope name: use letters, digits and _.-/ "
                             f"(at the top level, the first a letter, digit or dot)")
        if name[-1] == "/":
            return name[:-1]
        with self._lock:
            return self.unique_name(name)

    # Devices

    @contextlib.contextmanager
    def device(self, device_name_or_function):
        """Scope that requests a device: a (partial) name, a DeviceSpec, a function of the node, or
        None to ignore outer scopes."""
        entry = device_name_or_function
        if entry is not None and (not callable(entry) or isinstance(entry, _device.DeviceSpec)):
            entry = _device.canonical_name(entry)
        scopes = self._scopes
        saved = scopes.devices, scopes.plain_device
        entered = scopes.devices + (entry,)
        self._set_devices(entered)
        try:
            yield
        finally:
            if scopes.devices is not entered:
                raise RuntimeError("Exited device scope without proper scope nesting: leave the "
                                   "innermost `with device(...)` block first")
            scopes.devices, scopes.plain_device = saved

    def _set_devices(self, devices):
        scopes = self._scopes
        scopes.devices = devices
        merged = ""
        for entry in reversed(devices):
            if entry is None:
                break
            if callable(entry):
                merged = None
                break
            merged = _device.merge_names(merged, entry)
        scopes.plain_device = merged

    def _apply_device_functions(self, op):
        for entry in reversed(self._scopes.devices):
            if entry is None:
                return
            if callable(entry):
                chosen = entry(op)
                if chosen is not None:
                    op._device = _device.checked_name(chosen)
            elif entry:
                op._device = _device.merge_names(op._device, entry)

    # Colocation

    @contextlib.contextmanager
    def colocate_with(self, op, ignore_existing=False):
        """Scope whose ops share the device of `op`; with None and ignore_existing, of nobody."""
        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not "
                             "True")
        if op is not None:
            op = self._operation_of(op)
        scopes = self._scopes
        saved = scopes.colocation, scopes.devices, scopes.plain_device
        outer = () if ignore_existing else scopes.colocation
        scopes.colocation = outer if op is None else outer + (op,)
        self._set_devices(())
        try:
            yield
        finally:
            scopes.colocation, scopes.devices, scopes.plain_device = saved

    def _colocate_with_for_gradient(self, op, gradient_uid=None, ignore_existing=False):
        return self.colocate_with(op, ignore_existing)

    def _apply_colocation(self, op):
        groups = set()
        placed = False
        for other in reversed(self._scopes.colocation):
            groups.update(g.decode() for g in other.colocation_groups())
            if other._device and not placed:
                op._device = other._device
                placed = True
        op.attrs["_class"] = sorted(groups)

    def _operation_of(self, value):
        op = getattr(value, "op", value)
        return self.as_graph_element(op, allow_tensor=False)

    # Control dependencies and control flow contexts

    def control_dependencies(self, control_inputs):
        """Scope whose ops wait for `control_inputs` (operations and tensors); None clears outer
        ones, and leaves the control flow context."""
        if control_inputs is None:
            return _ControlScope(self, None)
        current = self._current_control_dependencies()
        ops = []
        for value in control_inputs:
            op = self._control_input_of(value)
            if op not in current:
                current.add(op)
                ops.append(op)
        return _ControlScope(self, ops)

    def _control_input_of(self, value):
        if not isinstance(value, (Tensor, Operation)):
            value = value.op if hasattr(value, "op") else self.as_graph_element(value)
        if isinstance(value, Tensor):
            value = value.op
        if not isinstance(value, Operation):
            raise TypeError(f"Control input must be Operation or Tensor: {value!r}")
        self._check_owns(value)
        return value

    def _current_control_dependencies(self):
        return {op for scope in self._scopes.control for op in scope.ops}

    def _control_dependencies_for_inputs(self, input_ops):
        """Control inputs of a new op with these input ops: a scope whose op feeds it already
        binds."""
        found = []
        for scope in self._scopes.control:
            if scope.made.isdisjoint(input_ops):
                found.extend(op for op in scope.ops if op not in input_ops and op not in found)
        return found

    def _record_op_seen_by_control_dependencies(self, op):
        for scope in self._scopes.control:
            scope.made.add(op)

    @property
    def _control_flow_context(self):
        return self._scopes.control_flow_context

    @_control_flow_context.setter
    def _control_flow_context(self, context):
        self._scopes.control_flow_context = context

    def _get_control_flow_context(self):
        return self._scopes.control_flow_context

    def _set_control_flow_context(self, context):
        self._scopes.control_flow_context = context

    # Attributes

    @contextlib.contextmanager
    def _mapping_scope(self, mapping, additions, what, check):
        if not isinstance(additions, dict):
            raise TypeError(f"{what} must be a dictionary, got {additions!r}")
        for key, value in additions.items():
            check(key, value)
        saved = dict(mapping)
        mapping.update(additions)
        try:
            yield
        finally:
            mapping.clear()
            mapping.update(saved)

    def gradient_override_map(self, op_type_map):
        """EXPERIMENTAL in TF: scope in which ops of a type use another registered gradient."""
        return self._mapping_scope(self._gradient_overrides, op_type_map, "op_type_map",
                                   _check_string_pair)

    def _kernel_label_map(self, op_to_kernel_label_map):
        return self._mapping_scope(self._kernel_labels, op_to_kernel_label_map,
                                   "op_to_kernel_label_map", _check_string_pair)

    @contextlib.contextmanager
    def _attr_scope(self, attr_map):
        """Scope whose ops get these attributes (AttrValue or native); None removes one."""
        from pyflow.framework import wire
        saved = self._attr_scopes
        merged = dict(saved)
        for name, value in attr_map.items():
            if not isinstance(name, str):
                raise TypeError(f"attr_map keys must be strings, got {name!r}")
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = value if callable(value) else wire.from_attr_value(value)
        self._attr_scopes = merged
        try:
            yield
        finally:
            self._attr_scopes = saved

    @contextlib.contextmanager
    def container(self, container_name):
        """Scope whose stateful ops keep their state in the named container."""
        saved, self._container = self._container, container_name
        try:
            yield container_name
        finally:
            self._container = saved

    @contextlib.contextmanager
    def _original_op(self, op):
        saved, self._default_original_op = self._default_original_op, op
        try:
            yield
        finally:
            self._default_original_op = saved

    def _apply_scopes(self, op):
        """Gives a new op what its scopes ask for."""
        attrs = op.attrs
        for name, value in self._attr_scopes.items():
            if name not in attrs:
                value = value(op) if callable(value) else value
                if value is not None:
                    attrs[name] = value
        if self._kernel_labels and op.type in self._kernel_labels:
            attrs.setdefault("_kernel", self._kernel_labels[op.type])
        if self._gradient_overrides and op.type in self._gradient_overrides:
            attrs.setdefault("_gradient_op_type", self._gradient_overrides[op.type])
        scopes = self._scopes
        if scopes.devices:
            if scopes.plain_device is not None:
                op._device = _device.merge_names(op._device, scopes.plain_device)
            else:
                self._apply_device_functions(op)
        if scopes.colocation:
            self._apply_colocation(op)
        if self._container and attrs.get("container") == "" and op.op_def.stateful:
            attrs["container"] = self._container


def _check_string_pair(key, value):
    if not isinstance(key, str) or not isinstance(value, str):
        raise TypeError(f"keys and values must be strings, got {key!r}: {value!r}")
